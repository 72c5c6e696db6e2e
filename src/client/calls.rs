//! The calls that are made, by unit name.

use std::os::fd::BorrowedFd;

use tokio::time::Instant;

use crate::bus::{ListedUnit, Scope, Unit, faults};
use crate::property::PropertyValue;
use crate::unit::{UnitName, UnitType};
use crate::{Error, ErrorKind, Result};

use super::link::Link;
use super::unit_state::UnitState;

impl Link {
    pub(crate) async fn unit_state(&self, unit: &str, deadline: Instant) -> Result<UnitState> {
        let rows = self
            .bus
            .manager()
            .list_units_by_names(vec![unit.to_owned()], deadline)
            .await?;
        Ok(rows
            .into_iter()
            .find(|row| row.name == unit)
            .map_or_else(UnitState::absent, UnitState::from))
    }

    /// Queues the start, with the processes as `PIDFDs` or as `PIDs` among the properties; the job's path.
    ///
    /// Mode `fail`: a start that conflicts with a queued job is refused and not put in its place.
    pub(crate) async fn start_transient_scope(
        &self,
        unit: &str,
        properties: &[(&'static str, PropertyValue)],
        pidfds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<String> {
        let job = self
            .bus
            .start_transient_unit(unit, "fail", properties, pidfds, deadline)
            .await?;
        Ok(job.into())
    }

    /// Queues the stop; the job's path. Mode `replace`: a start that is still queued gives way.
    pub(crate) async fn stop_unit(&self, unit: &str, deadline: Instant) -> Result<String> {
        let job = self
            .bus
            .manager()
            .stop_unit(unit, "replace", deadline)
            .await?;
        Ok(job.into())
    }

    pub(crate) async fn kill_unit(&self, unit: &str, signal: i32, deadline: Instant) -> Result<()> {
        self.bus
            .manager()
            .kill_unit(unit, "all", signal, deadline)
            .await
    }

    pub(crate) async fn reset_failed_unit(&self, unit: &str, deadline: Instant) -> Result<()> {
        self.bus.manager().reset_failed_unit(unit, deadline).await
    }

    /// One that has ended is no error.
    pub(crate) async fn cancel_job(&self, id: u32, deadline: Instant) -> Result<()> {
        match self.bus.manager().cancel_job(id, deadline).await {
            Err(error) if faults::is_no_such_job(&error) => Ok(()),
            answer => answer,
        }
    }

    /// Into the unit's own cgroup.
    pub(crate) async fn attach_processes(
        &self,
        unit: &str,
        pids: Vec<u32>,
        deadline: Instant,
    ) -> Result<()> {
        self.bus
            .manager()
            .attach_processes_to_unit(unit, "", pids, deadline)
            .await
    }

    pub(crate) async fn invocation_id(
        &self,
        unit: &UnitName,
        deadline: Instant,
    ) -> Result<Vec<u8>> {
        self.unit(unit).invocation_id(deadline).await
    }

    /// As the manager sees it; empty if there is none.
    pub(crate) async fn control_group(&self, unit: &UnitName, deadline: Instant) -> Result<String> {
        let path = object_path(unit);
        match unit.unit_type() {
            UnitType::Scope => self.bus.scope(path).control_group(deadline).await,
            UnitType::Slice => self.bus.slice(path).control_group(deadline).await,
            UnitType::Service => self.bus.service(path).control_group(deadline).await,
            _ => Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "{unit} is no scope, slice or service; only the cgroups of these can be looked at"
                ),
            )),
        }
    }

    /// What a job does at the moment: `waiting` or `running`; `None` if it has ended.
    pub(crate) async fn job_state(&self, job: &str, deadline: Instant) -> Result<Option<String>> {
        match self.bus.job(job).state(deadline).await {
            Ok(state) => Ok(Some(state)),
            Err(error) if faults::is_no_such_job(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn scope_is_delegated(
        &self,
        unit: &UnitName,
        deadline: Instant,
    ) -> Result<bool> {
        self.scope(unit).delegate(deadline).await
    }

    /// In microseconds; `u64::MAX` is `infinity`.
    pub(crate) async fn scope_timeout_stop_usec(
        &self,
        unit: &UnitName,
        deadline: Instant,
    ) -> Result<u64> {
        self.scope(unit).timeout_stop_usec(deadline).await
    }

    pub(crate) async fn scope_kill_signal(
        &self,
        unit: &UnitName,
        deadline: Instant,
    ) -> Result<i32> {
        self.scope(unit).kill_signal(deadline).await
    }

    fn unit(&self, unit: &UnitName) -> Unit<'_> {
        self.bus.unit(object_path(unit))
    }

    fn scope(&self, unit: &UnitName) -> Scope<'_> {
        self.bus.scope(object_path(unit))
    }
}

fn object_path(unit: &UnitName) -> String {
    format!(
        "/org/freedesktop/systemd1/unit/{}",
        unit.object_path_label()
    )
}

impl From<ListedUnit> for UnitState {
    fn from(row: ListedUnit) -> Self {
        Self {
            description: row.description,
            load: row.load_state,
            active: row.active_state,
            sub: row.sub_state,
            job: (row.job_id != 0).then(|| (row.job_id, row.job_path.into())),
        }
    }
}
