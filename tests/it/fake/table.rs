//! What the fake knows: units, jobs, and the calls that it has seen.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroups::is_populated;

/// Everything that the fake knows.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) units: BTreeMap<String, Unit>,
    pub(crate) calls: Vec<Seen>,
    /// The jobs that have not ended, with their units.
    pub(crate) jobs: BTreeMap<u32, String>,
    pub(crate) last_job: u32,
    /// A manager before systemd 255.
    pub(crate) without_pidfds: bool,
    /// StartTransientUnit calls whose job has not ended, now and at most.
    pub(crate) in_flight: usize,
    pub(crate) most_in_flight: usize,
}

/// A call that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) member: String,
    /// The unit's name, where it has one.
    pub(crate) unit: Option<String>,
    /// Whether the unit had a process then.
    pub(crate) populated: bool,
}

/// A unit that is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) description: String,
    pub(crate) active: &'static str,
    pub(crate) sub: &'static str,
    pub(crate) job: Option<u32>,
    pub(crate) delegated: bool,
    pub(crate) invocation: Vec<u8>,
    /// Its cgroup.
    pub(crate) directory: Option<PathBuf>,
    /// The processes that its start was called with.
    pub(crate) processes: Vec<Member>,
    /// It had a process, so that it ends with the last one.
    pub(crate) was_populated: bool,
    /// It goes away when its state has been asked for so many times more.
    pub(crate) goes_after: Option<usize>,
}

/// A process as it was handed in.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    Pid(u32),
    Pidfd(Arc<OwnedFd>),
}

impl Default for Unit {
    fn default() -> Self {
        Self {
            description: String::new(),
            active: "inactive",
            sub: "dead",
            job: None,
            delegated: false,
            invocation: vec![7; 16],
            directory: None,
            processes: Vec::new(),
            was_populated: false,
            goes_after: None,
        }
    }
}

impl Unit {
    pub(crate) fn is_populated(&self) -> bool {
        self.directory.as_deref().is_some_and(is_populated)
    }

    pub(crate) fn set(&mut self, active: &'static str, sub: &'static str) {
        self.active = active;
        self.sub = sub;
    }
}

impl Table {
    pub(crate) fn new_job(&mut self, unit: &str) -> u32 {
        self.last_job += 1;
        self.jobs.insert(self.last_job, unit.to_owned());
        if let Some(unit) = self.units.get_mut(unit) {
            unit.job = Some(self.last_job);
        }
        self.last_job
    }

    /// The job is no longer there.
    pub(crate) fn drop_job(&mut self, id: u32) {
        let Some(name) = self.jobs.remove(&id) else {
            return;
        };
        if let Some(unit) = self.units.get_mut(&name)
            && unit.job == Some(id)
        {
            unit.job = None;
        }
    }

    /// The unit is no longer loaded, and its directory is gone.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Some(directory) = self.units.remove(name).and_then(|unit| unit.directory) {
            let _ = std::fs::remove_dir(directory);
        }
    }

    pub(crate) fn set(&mut self, name: &str, active: &'static str, sub: &'static str) {
        self.units
            .get_mut(name)
            .expect("it is loaded")
            .set(active, sub);
    }

    /// systemd notices when the last process of a scope has ended; the fake does when it is asked. `asked`: for the unit's state.
    pub(crate) fn notice(&mut self, name: &str, asked: bool) {
        let Some(unit) = self.units.get_mut(name) else {
            return;
        };
        let populated = unit.is_populated();
        unit.was_populated |= populated;
        let has_ended = unit.was_populated && !populated && unit.job.is_none();
        let goes = match &mut unit.goes_after {
            Some(0) => asked,
            Some(left) if asked => {
                *left -= 1;
                false
            }
            _ => false,
        };
        if goes || (has_ended && unit.active == "active") {
            self.forget(name);
        }
    }
}
