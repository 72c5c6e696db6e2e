//! Opening a unit that runs already.

use std::sync::Arc;

use tokio::time::Instant;

use crate::cgroup::{Cgroup, CgroupView, Dir};
use crate::scope::Scope;
use crate::unit::{ScopeName, UnitName};
use crate::{Error, ErrorKind, Result};

use super::peer::version_number;
use super::{Client, Identity};

impl Client {
    pub(crate) async fn adopt(self: &Arc<Self>, name: &ScopeName) -> Result<Scope> {
        let deadline = self.call_deadline();
        let before = self.running(name, deadline).await?;
        let (dir, path) = self
            .unit_dir(&UnitName::from(name.clone()), deadline)
            .await?;
        // A stop, or another unit of this name, may have come in between: what was opened belongs to the unit that still runs, or to none.
        if self.running(name, deadline).await? != before {
            return Err(Error::new(
                ErrorKind::UnitNotReady,
                format!("{name} was started again while it was opened; open it again"),
            ));
        }
        Ok(Scope::from_active(
            Arc::clone(self),
            name.clone(),
            Identity::Invocation(before),
            Cgroup::new(dir, path),
        ))
    }

    /// The run of a unit that is active with no job pending.
    async fn running(&self, name: &ScopeName, deadline: Instant) -> Result<Vec<u8>> {
        let unit = name.as_str();
        let state = self.unit_state(unit, deadline).await?;
        if !state.is_loaded() {
            return Err(not_loaded(unit));
        }
        if !state.is_active() || state.job.is_some() {
            return Err(Error::new(
                ErrorKind::UnitNotReady,
                format!(
                    "{unit} is {state}; only an active scope without a pending job can be opened"
                ),
            ));
        }
        self.invocation_id(name, deadline).await
    }

    /// A look at the cgroup of a scope, slice or service.
    pub(crate) async fn view(&self, unit: &UnitName) -> Result<CgroupView> {
        let deadline = self.call_deadline();
        if !self.unit_state(unit.as_str(), deadline).await?.is_loaded() {
            return Err(not_loaded(unit.as_str()));
        }
        let (dir, _) = self.unit_dir(unit, deadline).await?;
        Ok(CgroupView::new(dir))
    }

    async fn unit_dir(&self, unit: &UnitName, deadline: Instant) -> Result<(Dir, String)> {
        let Some(path) = self.control_group(unit, deadline).await? else {
            return Err(Error::new(
                ErrorKind::CgroupGone,
                format!("{unit} has no cgroup (any more)"),
            ));
        };
        Ok((self.hierarchy().await?.open(&path)?, path))
    }

    /// The manager's version number.
    pub(crate) async fn version(&self) -> Result<Option<u32>> {
        self.check_caller()?;
        self.ask(self.call_deadline(), |link, deadline| async move {
            let version = link.bus.manager().version(deadline).await?;
            Ok(version_number(&version))
        })
        .await
    }
}

fn not_loaded(unit: &str) -> Error {
    Error::new(ErrorKind::NoSuchUnit, format!("{unit} is not loaded"))
}
