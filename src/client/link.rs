//! One connection to a manager, with the jobs that are waited for on it.
//!
//! A connection and its job table live and die together: when the connection is lost, no signal will come any more, and every waiter is let go so that it
//! asks systemd on a new one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OnceCell, oneshot, watch};
use tokio::time::Instant;

use crate::bus::{Bus, Endpoint, Event};
use crate::cgroup::Hierarchy;
use crate::job::{JobResult, JobTable, Replied, Ticket, WaiterId};
use crate::{Error, ErrorKind, Result};

use super::peer::Peer;

type Table = JobTable<oneshot::Sender<JobResult>>;

/// One connection to a manager.
pub(crate) struct Link {
    pub(crate) bus: Bus,
    pub(crate) peer: Peer,
    /// The manager's own `ControlGroup`; asked once, where it is needed.
    control_group: OnceCell<String>,
    shared: Arc<Shared>,
}

struct Shared {
    jobs: Mutex<Table>,
    /// Counts what makes signals unreliable: another owner of the manager's name, the connection's end.
    disturbances: watch::Sender<u64>,
    /// The connection has ended. Written and read under the lock of `jobs`.
    lost: AtomicBool,
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Table> {
        // The table's methods leave it consistent even if one of them panicked.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// `hierarchy`: the caller's own, if there is one.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        hierarchy: Option<&Hierarchy>,
        deadline: Instant,
    ) -> Result<Self> {
        let bus = Bus::connect(endpoint, deadline).await?;
        let shared = Arc::new(Shared {
            jobs: Mutex::default(),
            disturbances: watch::Sender::new(0),
            lost: AtomicBool::new(false),
        });
        let sink = Arc::clone(&shared);
        let events = bus.on_event(deadline, move |event| match event {
            Event::JobRemoved { job, result, .. } => {
                let result = JobResult::parse(&result);
                for waiter in sink.jobs().removed(&job, result.clone()) {
                    // An error means that the waiter has just gone away.
                    let _ = waiter.send(result.clone());
                }
            }
            Event::OwnerChanged => sink.disturbances.send_modify(|n| *n += 1),
            Event::Lost => {
                let mut jobs = sink.jobs();
                sink.lost.store(true, Ordering::Relaxed);
                drop(jobs.lost());
                drop(jobs);
                sink.disturbances.send_modify(|n| *n += 1);
            }
        });
        let ((), peer) = tokio::try_join!(events, Peer::look(&bus, hierarchy, deadline))?;
        Ok(Self {
            bus,
            peer,
            control_group: OnceCell::new(),
            shared,
        })
    }

    /// What the manager calls `path`, as the caller reads it; as it is, where that cannot be known.
    pub(crate) async fn map(&self, path: &str, deadline: Instant) -> Result<String> {
        let own = self
            .control_group
            .get_or_try_init(|| async { self.bus.manager().control_group(deadline).await })
            .await?;
        match self.peer.mapping(own) {
            Some(mapping) => Ok(mapping.map(path)),
            // Both see the whole tree, so both call it the same.
            None if in_first_cgroup_namespace() => Ok(path.to_owned()),
            None => Err(Error::new(
                ErrorKind::CgroupUnreachable,
                format!(
                    "the manager's process cannot be seen from this container, so what it calls {path} cannot be found here"
                ),
            )),
        }
    }

    /// Makes a call that queues a job. `call` gives the job's object path.
    pub(crate) async fn queue_job(
        &self,
        call: impl Future<Output = Result<String>>,
    ) -> Result<PendingJob> {
        let mut announced = Announced {
            shared: &self.shared,
            ticket: Some(self.shared.jobs().begin()),
        };
        let disturbances = self.shared.disturbances.subscribe();
        let job = call.await?;
        let (sender, receiver) = oneshot::channel();
        let mut pending = PendingJob {
            path: job,
            waiter: None,
            receiver,
            disturbances,
            shared: Arc::clone(&self.shared),
        };
        let Some(ticket) = announced.ticket.take() else {
            return Ok(pending);
        };
        let mut jobs = self.shared.jobs();
        match jobs.replied(ticket, &pending.path, sender) {
            Replied::Early(sender, result) => {
                let _ = sender.send(result);
            }
            Replied::Waiting(id) => pending.waiter = Some(id),
            Replied::Unknown(id) => {
                pending.waiter = Some(id);
                pending.disturbances.mark_changed();
            }
        }
        // The connection may have ended between the reply and now; then nobody else would let this waiter go.
        if self.shared.lost.load(Ordering::Relaxed) {
            drop(jobs.lost());
        }
        drop(jobs);
        Ok(pending)
    }

    /// How many jobs are waited for on this connection.
    pub(crate) fn waiters(&self) -> usize {
        self.shared.jobs().waiters()
    }
}

fn in_first_cgroup_namespace() -> bool {
    /// The kernel's fixed number of it (`PROC_CGROUP_INIT_INO`).
    const FIRST: u64 = 0xEFFF_FFFB;
    std::fs::metadata("/proc/self/ns/cgroup")
        .is_ok_and(|namespace| std::os::unix::fs::MetadataExt::ino(&namespace) == FIRST)
}

/// Takes the announcement back if the call fails or its future is dropped.
struct Announced<'a> {
    shared: &'a Shared,
    ticket: Option<Ticket>,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.jobs().failed(ticket);
        }
    }
}

/// A job whose end has not been heard of. Dropping it takes the waiter out of the table.
pub(crate) struct PendingJob {
    pub(crate) path: String,
    waiter: Option<WaiterId>,
    receiver: oneshot::Receiver<JobResult>,
    disturbances: watch::Receiver<u64>,
    shared: Arc<Shared>,
}

/// What a wait was ended by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// JobRemoved.
    Ended(JobResult),
    /// Signals may have been missed; one may still come.
    Disturbed,
    /// The connection is gone; none will come.
    Lost,
}

impl PendingJob {
    /// Waits for the signal or for a reason to ask. Cancel safe. Has no deadline of its own.
    pub(crate) async fn heard(&mut self) -> Heard {
        tokio::select! {
            biased;
            result = &mut self.receiver => match result {
                Ok(result) => Heard::Ended(result),
                Err(_) => Heard::Lost,
            },
            changed = self.disturbances.changed() => match changed {
                Ok(()) => Heard::Disturbed,
                Err(_) => Heard::Lost,
            },
        }
    }
}

impl Drop for PendingJob {
    fn drop(&mut self) {
        if let Some(id) = &self.waiter {
            self.shared.jobs().forget(id);
        }
    }
}
