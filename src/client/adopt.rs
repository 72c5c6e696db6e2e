//! Opening a scope that runs already.

use std::sync::Arc;

use crate::cgroup::Cgroup;
use crate::scope::Scope;
use crate::unit::ScopeName;
use crate::{Error, ErrorKind, Result};

use super::{Client, Identity};

impl Client {
    pub(crate) async fn adopt(self: &Arc<Self>, name: &ScopeName) -> Result<Scope> {
        let deadline = self.call_deadline();
        let unit = name.as_str();
        let state = self.unit_state(unit, deadline).await?;
        if !state.is_loaded() {
            return Err(Error::new(
                ErrorKind::NoSuchUnit,
                format!("{unit} is not loaded"),
            ));
        }
        if !state.is_active() || state.job.is_some() {
            return Err(Error::new(
                ErrorKind::UnitNotReady,
                format!(
                    "{unit} is {state}; only an active scope without a pending job can be opened"
                ),
            ));
        }
        let identity = Identity::Invocation(self.invocation_id(name, deadline).await?);
        let cgroup = match self.control_group(name, deadline).await? {
            None => None,
            Some(path) => match self.hierarchy().await?.open(&path) {
                Ok(dir) => Some(Cgroup::new(dir, path)),
                Err(error) if error.kind() == ErrorKind::CgroupGone => None,
                Err(error) => return Err(error),
            },
        };
        Ok(Scope::from_active(
            Arc::clone(self),
            name.clone(),
            identity,
            cgroup,
        ))
    }

    /// The manager's version number.
    pub(crate) async fn version(&self) -> Result<Option<u32>> {
        self.ask(self.call_deadline(), |link, deadline| async move {
            Ok(link.peer(deadline).await?.version)
        })
        .await
    }
}
