//! Jobs of the fake: what they do in the cgroup tree, and how they are announced.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use zbus::ObjectPath;

use super::table::Member;
use super::{SYSTEMD, Shared};
use crate::cgroups::is_populated;

/// A job that was queued.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) id: u32,
    pub(crate) unit: String,
    shared: Arc<Shared>,
}

impl Job {
    pub(super) fn new(shared: &Arc<Shared>, unit: &str) -> Self {
        Self {
            id: shared.with(|table| table.new_job(unit)),
            unit: unit.to_owned(),
            shared: Arc::clone(shared),
        }
    }

    pub(super) fn of(shared: &Arc<Shared>, id: u32, unit: String) -> Self {
        Self {
            id,
            unit,
            shared: Arc::clone(shared),
        }
    }

    pub(crate) fn path(&self) -> ObjectPath<'static> {
        path(self.id)
    }

    /// What the start job of a scope does: makes the directory, moves the processes in, activates the unit. Those that have ended it leaves out.
    pub(crate) fn run(&self) {
        let directory = self.shared.cgroup.make(&self.unit);
        self.shared.with(|table| {
            let unit = table.units.get_mut(&self.unit).expect("it is loaded");
            for process in &unit.processes {
                if let Some(pid) = process.pid() {
                    let _ = std::fs::write(directory.join("cgroup.procs"), pid.to_string());
                }
            }
            unit.was_populated = is_populated(&directory);
            unit.directory = Some(directory);
            unit.set("active", "running");
        });
    }

    /// What the start job of a scope does when no process could be moved.
    pub(crate) fn fail(&self) {
        self.shared
            .with(|table| table.set(&self.unit, "failed", "failed"));
    }

    /// What a stop job does: SIGTERM, wait, clean up.
    pub(crate) async fn stop(&self) {
        let directory = self.shared.with(|table| {
            let unit = table.units.get_mut(&self.unit).expect("it is loaded");
            unit.set("deactivating", "stop-sigterm");
            unit.directory.clone()
        });
        if let Some(directory) = directory {
            const SIGTERM: i32 = 15;
            signal_all(&directory, SIGTERM);
            unpopulated(&directory).await;
        }
        self.shared.with(|table| table.forget(&self.unit));
    }

    /// The job ends and is announced.
    pub(crate) async fn end(&self, result: &str) {
        self.vanish();
        self.announce(result).await;
    }

    /// The job ends without a word.
    pub(crate) fn vanish(&self) {
        self.shared.with(|table| {
            table.drop_job(self.id);
            table.in_flight = table.in_flight.saturating_sub(1);
        });
    }

    /// JobRemoved, to everybody who is connected.
    pub(crate) async fn announce(&self, result: &str) {
        self.shared.announce(self.id, &self.unit, result).await;
    }
}

impl Shared {
    pub(super) async fn announce(&self, id: u32, unit: &str, result: &str) {
        let connections = self.connections.lock().unwrap().clone();
        for connection in connections {
            // One that has ended has nobody to tell.
            let _ = connection
                .emit_signal(
                    None::<&str>,
                    "/org/freedesktop/systemd1",
                    format!("{SYSTEMD}.Manager"),
                    "JobRemoved",
                    &(id, path(id), unit, result),
                )
                .await;
        }
    }
}

impl Member {
    /// Its number; `None` if it has been reaped.
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Pid(pid) => Some(*pid),
            Self::Pidfd(fd) => {
                let info = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
                let info = std::fs::read_to_string(info).ok()?;
                let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
                pid.trim().parse().ok()
            }
        }
    }
}

pub(super) fn path(job: u32) -> ObjectPath<'static> {
    ObjectPath::try_from(format!("/org/freedesktop/systemd1/job/{job}")).unwrap()
}

pub(super) fn signal_all(cgroup: &Path, signal: i32) {
    for pid in crate::cgroups::processes_in(cgroup) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
        let _ = nix::sys::signal::kill(pid, signal);
    }
}

/// Waits for the last process, as systemd does: cgroup.events tells of a change by POLLPRI.
async fn unpopulated(cgroup: &Path) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let cgroup = cgroup.to_owned();
    let wait = move || {
        let Ok(events) = std::fs::File::open(cgroup.join("cgroup.events")) else {
            return;
        };
        let limit = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        while is_populated(&cgroup) {
            // Reading the file through this descriptor arms the notice.
            let _ = std::io::read_to_string(&events);
            if !is_populated(&cgroup) {
                return;
            }
            let mut fds = [PollFd::new(&events, PollFlags::PRI)];
            let _ = poll(&mut fds, Some(&limit));
        }
    };
    tokio::task::spawn_blocking(wait).await.unwrap();
}
