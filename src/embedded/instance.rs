//! The handle of a running embedded manager, and its end.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::guardian::Guardian;
use super::options::Builder;
use super::places::own_cgroup;
use super::remains::{Left, Remains, timespec};
use crate::{Error, ErrorKind, Result};

/// For killing and removing everything.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);
/// For a process that was told or made to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// `__WALL`: the guardian ends without a signal, and so is only waited for with this.
const WAIT_ALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// A private systemd manager. Dropping it ends it, as [`stop`](Self::stop) does.
///
/// It is `Send` and `Sync`, and independent of the thread that started it. It belongs to the process that started it: in a forked copy of that process, drop
/// and `stop` do nothing. If that process ends in any way, or executes another program, the manager is killed too, and with it every process in its cgroup
/// (scopes included), whoever started it.
///
/// ```no_run
/// let manager = scopectl::embedded::Embedded::start()?;
/// println!("{} at {}", manager.manager_pid(), manager.private_address());
/// manager.stop()?;
/// # Ok::<(), scopectl::Error>(())
/// ```
pub struct Embedded {
    pub(super) owner: u32,
    pub(super) remains: Remains,
    pub(super) guardian: Guardian,
    /// `None` until it is started.
    pub(super) manager: Option<(Pid, OwnedFd)>,
    /// Keeps the state directory locked.
    pub(super) lock: Option<OwnedFd>,
    pub(super) state: PathBuf,
    pub(super) cgroup: PathBuf,
    pub(super) private_address: String,
    pub(super) bus_address: Option<String>,
    pub(super) ended: bool,
}

impl Embedded {
    /// Starts a manager with the default options: [`Builder::start`].
    ///
    /// # Errors
    ///
    /// As [`Builder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Options for a manager.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The D-Bus address of systemd's private socket, `unix:path=.../systemd/private`. It accepts connections of root, without a bus in between.
    pub fn private_address(&self) -> &str {
        &self.private_address
    }

    /// The D-Bus address of the manager's message bus, if it has one. The bus is started along with the manager, which takes its name there
    /// (`org.freedesktop.systemd1`) some milliseconds after [`start`](Self::start) returned: wait for that.
    pub fn bus_address(&self) -> Option<&str> {
        self.bus_address.as_deref()
    }

    /// For [`Manager::connect`](crate::Manager::connect): the bus if there is one, else the private socket.
    pub fn instance(&self) -> crate::Instance {
        let address = self.bus_address().unwrap_or(self.private_address());
        crate::Instance::Address(address.to_owned())
    }

    /// The manager's process, a child of this one.
    pub fn manager_pid(&self) -> u32 {
        self.manager
            .as_ref()
            .map_or(0, |(pid, _)| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// The process that clears up if this one or the manager is killed, a child of this one.
    pub fn guardian_pid(&self) -> u32 {
        self.guardian.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The directory of the manager's cgroup, in the caller's mount namespace. All its units are below.
    pub fn cgroup_path(&self) -> &Path {
        &self.cgroup
    }

    /// The directory of the manager's runtime directory, units and log, in the caller's mount namespace.
    pub fn state_path(&self) -> &Path {
        &self.state
    }

    /// Whether the manager's process lives.
    pub fn is_running(&self) -> bool {
        !self.ended
            && self
                .manager
                .as_ref()
                .is_some_and(|(_, pidfd)| !has_ended(pidfd, Duration::ZERO))
    }

    /// Kills the manager and every process in its cgroup, and removes the cgroup and the state directory. Units are not stopped in order: nothing is asked of
    /// systemd. Blocks the calling thread, some milliseconds normally, 15 s at most.
    ///
    /// If the calling process itself is in one of the manager's units, it moves itself out first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Embedded`] if something could not be killed or removed; the next start tries again.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    pub(super) fn end(&mut self) -> Result<()> {
        if self.ended || self.owner != std::process::id() {
            return Ok(());
        }
        self.ended = true;
        self.leave_cgroup();
        if let Some((_, pidfd)) = &self.manager {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
        // The guardian sees the manager's end and does the same; either may be first.
        let cleared = self.remains.clear(CLEAR_TIMEOUT);
        self.guardian.dismiss();
        if let Some((_, pidfd)) = &self.manager {
            reap(pidfd);
        }
        if !has_ended(&self.guardian.pidfd, END_TIMEOUT) {
            let _ = pidfd_send_signal(&self.guardian.pidfd, Signal::KILL);
        }
        reap(&self.guardian.pidfd);
        cleared.map_err(|left| self.left_behind(left))
    }

    /// A caller that put itself into one of the manager's scopes must not be killed with it.
    fn leave_cgroup(&self) {
        let inside = fs::read("/proc/self/cgroup")
            .ok()
            .as_deref()
            .and_then(own_cgroup)
            .zip(self.cgroup.file_name())
            .is_some_and(|(own, name)| own.components().any(|part| part.as_os_str() == name));
        if inside {
            for parent in &self.remains.cgroups {
                let procs = openat(
                    parent,
                    c"cgroup.procs",
                    OFlags::WRONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                );
                if procs.is_ok_and(|procs| rustix::io::write(&procs, b"0").is_ok()) {
                    break;
                }
            }
        }
    }

    fn left_behind(&self, left: Left) -> Error {
        let cgroup = self.cgroup.display();
        let (message, error) = match left {
            Left::Processes(error) => (
                format!(
                    "processes in {cgroup} of the embedded manager could not be killed: {error}"
                ),
                error,
            ),
            Left::Cgroup(error) => (
                format!("{cgroup} of the embedded manager could not be removed: {error}"),
                error,
            ),
            Left::Directory(error) => (
                format!(
                    "{} of the embedded manager could not be removed: {error}",
                    self.state.display()
                ),
                error,
            ),
        };
        Error::new(
            ErrorKind::Embedded,
            format!("{message}; the next start tries again"),
        )
        .with_source(error)
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("manager_pid", &self.manager_pid())
            .field("guardian_pid", &self.guardian_pid())
            .field("cgroup", &self.cgroup)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!("{error}");
        }
    }
}

/// Whether the process behind a pidfd has ended, or ends within this time.
pub(super) fn has_ended(pidfd: impl AsFd, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(
            &mut [PollFd::new(&pidfd, PollFlags::IN)],
            Some(&timespec(left)),
        ) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Takes the exit status of one child and of no other. It may have been taken by the program's own `wait`.
fn reap(pidfd: &OwnedFd) {
    if has_ended(pidfd, END_TIMEOUT) {
        let _ = waitid(
            WaitId::PidFd(pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WAIT_ALL,
        );
    }
}
