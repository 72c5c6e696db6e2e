//! [`Process`]: what is asked of one process, with no answer ever about another one that got its pid later.
//!
//! Files below `/proc/PID` are named by number, so each is read first and the pidfd asked afterwards: as long as the process has not been reaped, its number
//! belongs to nobody else, and what was read was read about it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::open;
use super::stat::Stat;
use crate::cgroup::ProcCgroup;
use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// A process that can be put in a unit: held by a pidfd.
///
/// The pidfd pins the process's identity: whatever becomes of the process, a later one with the same pid is never signalled, moved or asked in its place.
/// Needs Linux 5.3 (`pidfd_open(2)`) and a `/proc` of the caller's own pid namespace. `Clone` is cheap and shares the descriptor; dropping does nothing to
/// the process. `Send` and `Sync`.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    pid: u32,
    pidfd: OwnedFd,
}

/// Whether a process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// At least one of its threads lives.
    Alive,
    /// It has ended and its parent has not reaped it yet.
    Zombie,
    /// It has been reaped; its pid may belong to another process by now.
    Gone,
}

/// Set once the kernel has said that it does not know `PIDFD_GET_INFO`.
static NO_PIDFD_INFO: AtomicBool = AtomicBool::new(false);

impl Process {
    /// Opens the process with this pid, as numbered in the caller's pid namespace.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProcessRefused`] for what can never be put in a unit: pid 0, pid 1, a kernel thread, a thread that is not its process's leader.
    /// [`ErrorKind::ProcessGone`] where no such process is, or it has ended (a zombie included). [`ErrorKind::InvalidInput`] for a number that no pid can
    /// have. [`ErrorKind::Io`] where the kernel or `/proc` cannot tell, for instance behind the mount option `hidepid`.
    pub fn open(pid: u32) -> Result<Self> {
        open::by_pid(pid)
    }

    /// Opens the calling process.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); a process that is pid 1 of its namespace is refused.
    pub fn current() -> Result<Self> {
        open::by_pid(std::process::id())
    }

    /// Takes over a pidfd, from `pidfd_open(2)`, `clone3(2)` or a socket's `SO_PEERPIDFD`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); also [`ErrorKind::ProcessRefused`] where the process is not in the caller's pid namespace or one below, and
    /// [`ErrorKind::InvalidInput`] where the descriptor is no pidfd.
    pub fn from_pidfd(pidfd: OwnedFd) -> Result<Self> {
        open::by_pidfd(pidfd)
    }

    pub(super) fn assemble(pid: u32, pidfd: OwnedFd) -> Self {
        Self(Arc::new(Inner { pid, pidfd }))
    }

    /// The pid, in the caller's pid namespace.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// When the process was started, in clock ticks (`sysconf(_SC_CLK_TCK)`, 100 a second) since boot: field 22 of proc_pid_stat(5). With the pid it tells the
    /// process from a later one also where no descriptor can be kept, such as in a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProcessGone`] if the process has been reaped.
    pub fn start_time(&self) -> Result<u64> {
        match self.stat()? {
            Some(stat) => Ok(stat.start_time),
            None => Err(Error::new(
                ErrorKind::ProcessGone,
                format!("process {} does not exist any more", self.pid()),
            )),
        }
    }

    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.0.pidfd.as_fd()
    }

    /// Asked of the pidfd alone: right whatever became of the pid, and also where `/proc` hides the process.
    pub(crate) fn state(&self) -> State {
        state_of(self.pidfd())
    }

    /// Whether it has ended or is about to: it runs no code of its own any more.
    pub(crate) fn is_ending(&self) -> Result<bool> {
        Ok(self.state() != State::Alive || self.stat()?.is_none_or(|stat| stat.is_exiting()))
    }

    /// The parent's pid; 0 where that is outside the pid namespace, `None` where the process is gone.
    pub(crate) fn parent(&self) -> Result<Option<u32>> {
        Ok(self.stat()?.map(|stat| stat.parent))
    }

    /// The cgroup in each hierarchy, as the caller reads it; `None` where the process has been reaped. A zombie still tells where it was.
    pub(crate) fn cgroup(&self) -> Result<Option<ProcCgroup>> {
        let Some(bytes) = self.read("cgroup")? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        // Only a process that is ending can be in a removed cgroup; for any other the words are part of the cgroup's name.
        let ending = if ProcCgroup::may_be_deleted(&text) {
            match self.stat()? {
                None => return Ok(None),
                Some(stat) => stat.is_exiting() || self.state() != State::Alive,
            }
        } else {
            false
        };
        Ok(Some(ProcCgroup::parse(&text, ending)))
    }

    /// The id of the process's cgroup in the cgroup2 hierarchy, which is the inode number of that cgroup's directory.
    ///
    /// `None` where the kernel cannot tell: before 6.13, or the process has been reaped (from 6.15 on that is remembered as long as this handle lives).
    pub(crate) fn cgroup_id(&self) -> Option<u64> {
        info_of(
            self.pidfd(),
            sys::PIDFD_INFO_CGROUPID | sys::PIDFD_INFO_EXIT,
        )
        .filter(|info| info.mask & sys::PIDFD_INFO_CGROUPID != 0 && info.cgroup_id != 0)
        .map(|info| info.cgroup_id)
    }

    /// Every process that descends from this one, at the moment of looking; a zombie is not among them. Children forked meanwhile may be missing: who needs
    /// all of them looks again until nothing new is found.
    pub(crate) fn descendants(&self) -> Result<Vec<Process>> {
        super::descendants::of(self)
    }

    /// Whether the process of that pid is its parent, or a parent's parent and so on.
    pub(crate) fn is_descendant_of(&self, pid: u32) -> Result<bool> {
        super::descendants::is_below(self, pid)
    }

    /// Whether the caller is its parent, or a parent's parent and so on. Not true of the caller itself.
    pub(crate) fn is_descendant_of_caller(&self) -> Result<bool> {
        self.is_descendant_of(std::process::id())
    }

    /// Sends a signal to this very process; 0 only tests.
    pub(crate) fn send_signal(&self, signal: i32) -> Result<()> {
        let pid = self.pid();
        sys::pidfd_send_signal(self.pidfd(), signal).map_err(|error| {
            let (kind, why) = match error.raw_os_error() {
                Some(libc::ESRCH) => (ErrorKind::ProcessGone, "it has ended"),
                Some(libc::EPERM) => (
                    ErrorKind::PermissionDenied,
                    "it belongs to another user; be its user or have CAP_KILL",
                ),
                Some(libc::EINVAL) => (ErrorKind::InvalidInput, "there is no such signal"),
                _ => (ErrorKind::Io, "the kernel refused it"),
            };
            Error::new(
                kind,
                format!("cannot send signal {signal} to process {pid}: {why}"),
            )
            .with_source(error)
        })
    }

    pub(super) fn stat(&self) -> Result<Option<Stat>> {
        let Some(bytes) = self.read("stat")? else {
            return Ok(None);
        };
        match Stat::parse(&bytes) {
            Some(stat) => Ok(Some(stat)),
            None => Err(Error::new(
                ErrorKind::Io,
                format!("cannot understand /proc/{}/stat", self.pid()),
            )),
        }
    }

    /// Reads `/proc/PID/FILE`; `None` where the process has been reaped, so that the text may be another's.
    pub(super) fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        read_proc(self.pid(), file, self.pidfd())
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pid", &self.0.pid).finish()
    }
}

/// Reads a file below `/proc`. `std::fs::read` asks such a file for its size, which is 0, and then feels its way in small steps.
pub(crate) fn read_file(path: &str) -> io::Result<Vec<u8>> {
    const STEP: usize = 4096;
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        bytes.resize(before + STEP, 0);
        let read = loop {
            match file.read(&mut bytes[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        bytes.truncate(before + read);
        // These files give all that fits: less is the end.
        if read < STEP {
            return Ok(bytes);
        }
    }
}

/// The caller's own cgroups.
pub(crate) fn own_cgroup() -> Result<ProcCgroup> {
    let bytes = read_file("/proc/self/cgroup").map_err(|error| {
        Error::new(
            ErrorKind::Io,
            "cannot read /proc/self/cgroup: is /proc mounted?",
        )
        .with_source(error)
    })?;
    Ok(ProcCgroup::parse(&String::from_utf8_lossy(&bytes), false))
}

/// Reads a file of `/proc/PID` and makes sure afterwards that the number still belonged to the pidfd's process: `None` where it did not.
pub(super) fn read_proc(pid: u32, file: &str, pidfd: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
    let path = format!("/proc/{pid}/{file}");
    let read = read_file(&path);
    if is_reaped(pidfd) {
        return Ok(None);
    }
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::NotFound => {
                    "the process is there but /proc does not show it (mount option hidepid, or /proc is not mounted)"
                }
                io::ErrorKind::PermissionDenied => "the caller may not look at this process",
                _ => "the kernel refused it",
            };
            Err(Error::new(ErrorKind::Io, format!("cannot read {path}: {why}")).with_source(error))
        }
    }
}

/// What the kernel tells through a pidfd; `None` before Linux 6.13, and of a reaped process unless what is kept of it was asked for.
pub(super) fn info_of(pidfd: BorrowedFd<'_>, mask: u64) -> Option<sys::PidfdInfo> {
    if NO_PIDFD_INFO.load(Ordering::Relaxed) {
        return None;
    }
    sys::pidfd_get_info(pidfd, mask)
        .inspect_err(|error| {
            if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) {
                NO_PIDFD_INFO.store(true, Ordering::Relaxed);
            }
        })
        .ok()
}

pub(super) fn state_of(pidfd: BorrowedFd<'_>) -> State {
    if !has_ended(pidfd) {
        State::Alive
    } else if is_reaped(pidfd) {
        State::Gone
    } else {
        State::Zombie
    }
}

/// A signal 0 reaches zombies but nobody after them. Every other refusal (EPERM) means that somebody is there.
fn is_reaped(pidfd: BorrowedFd<'_>) -> bool {
    matches!(
        sys::pidfd_send_signal(pidfd, 0),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH)
    )
}

/// A pidfd is readable once the last thread of its process has ended.
fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::{TestCgroup, sleep};
    use crate::skip::skip;

    #[test]
    fn the_state_follows_the_process_to_its_end_and_never_to_its_successor() {
        let mut child = sleep();
        let process = Process::open(child.id()).unwrap();
        assert_eq!(process.state(), State::Alive);
        assert_eq!(process.parent().unwrap(), Some(std::process::id()));
        child.make_zombie().unwrap();
        assert_eq!(process.state(), State::Zombie);
        assert!(process.cgroup().unwrap().is_some());
        child.wait().unwrap();
        assert_eq!(process.state(), State::Gone);
        assert_eq!(process.cgroup().unwrap(), None);
        assert_eq!(process.parent().unwrap(), None);
        assert!(process.descendants().unwrap().is_empty());
        let error = process.send_signal(15).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessGone);
    }

    #[test]
    fn what_is_read_of_a_number_that_is_not_the_pidfds_is_thrown_away() {
        let mut child = sleep();
        let process = Process::open(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // As if our own number had been the child's before.
        let read = read_proc(std::process::id(), "cgroup", process.pidfd()).unwrap();
        assert_eq!(read, None);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let script = "import os,sys,threading,ctypes\n\
            threading.Thread(target=lambda: sys.stdin.read()).start()\n\
            print('ready', flush=True)\n\
            ctypes.CDLL(None).syscall(60, 0)\n";
        let spawned = std::process::Command::new("python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            skip("no python3");
            return;
        };
        let process = Process::open(child.id()).unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let leader_ended = || {
            process
                .stat()
                .unwrap()
                .is_some_and(|stat| stat.state == 'Z')
        };
        while cfg!(target_arch = "x86_64") && !leader_ended() {
            std::thread::yield_now();
        }
        let state = process.state();
        let opened = Process::open(child.id()).map(|process| process.pid());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(state, State::Alive);
        assert_eq!(opened.unwrap(), process.pid());
    }

    #[test]
    fn the_cgroup_id_is_the_inode_of_its_directory_even_after_the_end() {
        let Some(cgroup) = TestCgroup::new("id") else {
            return;
        };
        let mut child = cgroup.sleep_in("");
        let process = Process::open(child.id()).unwrap();
        let Some(id) = process.cgroup_id() else {
            eprintln!("skipped: the kernel gives no cgroup id of a process (6.13)");
            return;
        };
        assert_eq!(id, cgroup.dir().id());
        child.make_zombie().unwrap();
        assert_eq!(process.cgroup_id(), Some(id));
        child.wait().unwrap();
        // Kept from 6.15 on.
        assert!([None, Some(id)].contains(&process.cgroup_id()));
        eprintln!("after the reaping: {:?}", process.cgroup_id());
    }

    #[test]
    fn a_zombie_whose_cgroup_was_removed_says_so_and_a_living_one_named_so_does_not() {
        let Some(cgroup) = TestCgroup::new("deleted") else {
            return;
        };
        cgroup.make("a");
        cgroup.make("b (deleted)");
        let mut child = cgroup.sleep_in("a");
        let other = cgroup.sleep_in("b (deleted)");
        let process = Process::open(child.id()).unwrap();
        child.make_zombie().unwrap();
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        let told = process.cgroup().unwrap().unwrap();
        let path = format!("{}/a", cgroup.proc_path());
        assert_eq!(told.unified(), Some(path.as_str()));
        let told = Process::open(other.id())
            .unwrap()
            .cgroup()
            .unwrap()
            .unwrap();
        let path = format!("{}/b (deleted)", cgroup.proc_path());
        assert_eq!(told.unified(), Some(path.as_str()));
    }

    #[test]
    fn a_signal_reaches_the_process_and_a_wrong_number_is_an_error() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = sleep();
        let process = Process::open(child.id()).unwrap();
        process.send_signal(0).unwrap();
        for wrong in [-1, 65, i32::MAX] {
            let error = process.send_signal(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
        process.send_signal(40).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(40));
    }
}
