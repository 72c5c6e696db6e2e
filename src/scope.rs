//! A started or adopted scope.

use std::sync::Arc;

use crate::cgroup::Cgroup;
use crate::client::{Client, Identity, Started};
use crate::spec::{Stop, Timings};
use crate::unit::ScopeName;
use crate::{Error, ErrorKind, Result};

/// A scope that systemd has finished starting, and whose processes were found inside.
///
/// Comes from [`Manager::start_scope`](crate::Manager::start_scope) and [`Manager::adopt`](crate::Manager::adopt) only, so holding one is the proof that its
/// cgroup may be touched. `Send`, `Sync` and cheap to clone. Dropping it does nothing: the scope lives as long as its last process. It must not be used
/// in a child made by `fork`: the connection belongs to the parent.
#[derive(Clone)]
pub struct Scope(Arc<Inner>);

struct Inner {
    client: Arc<Client>,
    name: ScopeName,
    identity: Identity,
    cgroup: Option<Cgroup>,
    ended: Vec<u32>,
    timings: Timings,
}

impl Scope {
    pub(crate) fn from_start(started: Started) -> Self {
        Self(Arc::new(Inner {
            identity: started.identity,
            client: started.client,
            name: started.plan.unit,
            cgroup: started.cgroup,
            ended: started.ended,
            timings: started.timings,
        }))
    }

    /// A unit that was read as active with no job pending.
    pub(crate) fn from_active(
        client: Arc<Client>,
        name: ScopeName,
        identity: Identity,
        cgroup: Cgroup,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            name,
            identity,
            cgroup: Some(cgroup),
            ended: Vec::new(),
            timings: Timings::default(),
        }))
    }

    /// The unit's name.
    pub fn name(&self) -> &ScopeName {
        &self.0.name
    }

    /// The scope's cgroup.
    ///
    /// # Errors
    ///
    /// [`CgroupGone`](ErrorKind::CgroupGone) if every process had ended before the start returned. A scope that ends later leaves a handle whose
    /// operations give the same error.
    pub fn cgroup(&self) -> Result<&Cgroup> {
        self.0.cgroup.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::CgroupGone,
                format!("{} has ended and its cgroup is gone", self.0.name),
            )
            .with_unit(self.0.name.as_str())
        })
    }

    /// The processes that ran inside and had ended before the start returned.
    pub fn ended(&self) -> &[u32] {
        &self.0.ended
    }

    /// How long each step of the start took. All zero for an adopted scope.
    pub fn timings(&self) -> &Timings {
        &self.0.timings
    }

    /// Ends the scope: its processes, its job, a failed state, and its directory.
    ///
    /// Idempotent. A future that is dropped leaves the stop half done: what systemd was asked for goes on, the rest does not happen. A scope that has ended, or whose name belongs to another unit by now, is a success. [`Stop::GRACEFUL`] takes as long as the unit's
    /// `TimeoutStopUSec=` (90 s by default) plus 5 s at most; a kill 40 s at most.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout) if a process could not be ended in time, [`JobFailed`](ErrorKind::JobFailed),
    /// [`PermissionDenied`](ErrorKind::PermissionDenied), and those of a lost connection.
    pub async fn stop(&self, how: Stop) -> Result<()> {
        self.0
            .client
            .stop(&self.0.name, &self.0.identity, self.0.cgroup.as_ref(), how)
            .await
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("name", &self.0.name)
            .field("ended", &self.0.ended)
            .field("timings", &self.0.timings)
            .finish_non_exhaustive()
    }
}
