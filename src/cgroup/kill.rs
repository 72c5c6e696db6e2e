//! Ending everything in a cgroup: `cgroup.kill`, and without it a loop that reads and kills until nobody is left.
//!
//! `cgroup.kill` (Linux 5.14) is one write that also gets what forks meanwhile. The loop has to be careful with numbers: of each pid listed it opens a pidfd and reads
//! the list *again*; a pid that is still there, and whose pidfd has not been reaped when the signal is sent, belonged to a process inside.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::dir::Dir;
use super::explain::Action;
use super::procs;
use crate::error::{Error, ErrorKind, Result};
use crate::process::{Process, State};

const SIGKILL: i32 = nix::libc::SIGKILL;
/// So many pidfds are held at once.
const BATCH: usize = 128;
/// The longest wait for one batch to end before the lists are read again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sends SIGKILL to all in the cgroup and below it; they may take a moment to end. A removed cgroup has nobody to kill. Blocks.
pub(super) fn kill_tree(dir: &Dir, deadline: Instant) -> Result<()> {
    match dir.try_write("cgroup.kill", "1") {
        Ok(()) => Ok(()),
        Err(Errno::NODEV) => Ok(()),
        // Before 5.14, or a threaded cgroup.
        Err(Errno::NOENT | Errno::OPNOTSUPP) => kill_one_by_one(dir, deadline),
        Err(errno) => Err(dir.explain(Action::Write("cgroup.kill", "1"), errno)),
    }
}

/// The way without `cgroup.kill`: returns once nobody is listed any more.
pub(super) fn kill_one_by_one(dir: &Dir, deadline: Instant) -> Result<()> {
    loop {
        let mut left = 0_usize;
        let pass = procs::walk(dir, &mut |dir| {
            left = left.saturating_add(kill_listed(dir, deadline)?);
            Ok(())
        });
        match pass {
            Err(error) if error.kind() == ErrorKind::CgroupGone => return Ok(()),
            other => other?,
        }
        if left == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(still_alive(dir, &procs::of_tree(dir).unwrap_or_default()));
        }
    }
}

pub(super) fn still_alive(dir: &Dir, pids: &[u32]) -> Error {
    let list: Vec<String> = pids.iter().take(10).map(u32::to_string).collect();
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the cgroup {} still has live processes after SIGKILL ({}): they may hang in the kernel, or be started again and again",
            dir.path().display(),
            list.join(", ")
        ),
    )
}

/// Kills the processes right in one cgroup; how many there were.
fn kill_listed(dir: &Dir, deadline: Instant) -> Result<usize> {
    let listed = procs::of(dir)?;
    for batch in listed.chunks(BATCH) {
        let mut held = BTreeMap::new();
        for pid in batch {
            match open(dir, *pid)? {
                Some(process) => held.insert(*pid, process),
                None => continue,
            };
        }
        let confirmed = procs::of(dir)?;
        held.retain(|pid, _| confirmed.contains(pid));
        for process in held.values() {
            match process.send_signal(SIGKILL) {
                Err(error) if error.kind() != ErrorKind::ProcessGone => return Err(error),
                _ => {}
            }
        }
        wait_ended(held.values(), deadline);
    }
    Ok(listed.len())
}

fn open(dir: &Dir, pid: u32) -> Result<Option<Process>> {
    if pid == 0 {
        return Err(Error::new(
            ErrorKind::ProcessRefused,
            format!(
                "a process in the cgroup {} is in another pid namespace and cannot be killed from here; Linux 5.14 could (cgroup.kill)",
                dir.path().display()
            ),
        ));
    }
    if pid == std::process::id() {
        return Err(caller_inside(dir));
    }
    match Process::open(pid) {
        Ok(process) => Ok(Some(process)),
        Err(error) if error.kind() == ErrorKind::ProcessGone => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn caller_inside(dir: &Dir) -> Error {
    Error::new(
        ErrorKind::ProcessRefused,
        format!(
            "the calling process is itself in the cgroup {}, and would be killed with it; leave it first",
            dir.path().display()
        ),
    )
}

/// Waits a little for killed processes, so that the lists are not read in a tight loop.
fn wait_ended<'a>(processes: impl Iterator<Item = &'a Process>, deadline: Instant) {
    let until = deadline.min(Instant::now() + PATIENCE);
    for process in processes {
        while process.state() == State::Alive {
            let left = until.saturating_duration_since(Instant::now());
            let (false, Ok(timeout)) = (left.is_zero(), Timespec::try_from(left)) else {
                return;
            };
            let pidfd = process.pidfd();
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            // Whatever it answers, the state is looked at again.
            let _ = poll(&mut fds, Some(&timeout));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::events;
    use crate::cgroup::testing::{TestCgroup, sleep};
    use std::os::unix::process::ExitStatusExt;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn everybody_below_is_killed_with_and_without_cgroup_kill() {
        for (name, kill) in [
            ("kill-file", kill_tree as fn(&Dir, Instant) -> Result<()>),
            ("kill-loop", kill_one_by_one),
        ] {
            let Some(cgroup) = TestCgroup::new(name) else {
                return;
            };
            cgroup.make("a/b");
            let mut inside = [
                cgroup.sleep_in(""),
                cgroup.sleep_in("a"),
                cgroup.sleep_in("a/b"),
            ];
            let mut outside = sleep();
            kill(&cgroup.dir(), soon()).unwrap();
            for child in &mut inside {
                assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
            }
            assert!(!events::read(&cgroup.dir()).unwrap().populated);
            assert_eq!(outside.try_wait().unwrap(), None);
            kill(&cgroup.dir(), soon()).unwrap();
        }
    }

    #[test]
    fn the_loop_gets_what_forks_meanwhile() {
        let Some(cgroup) = TestCgroup::new("forks") else {
            return;
        };
        let forker = "echo $$ > \"$0\"/cgroup.procs; while :; do sleep 1000 & done";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", forker])
            .arg(cgroup.path())
            .spawn()
            .unwrap();
        while procs::of_tree(&cgroup.dir()).unwrap().len() < 20 {
            std::thread::yield_now();
        }
        kill_one_by_one(&cgroup.dir(), soon()).unwrap();
        shell.wait().unwrap();
        assert!(!events::read(&cgroup.dir()).unwrap().populated);
    }

    #[test]
    fn a_removed_cgroup_has_nobody_to_kill() {
        let Some(cgroup) = TestCgroup::new("kill-gone") else {
            return;
        };
        cgroup.make("a");
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        kill_tree(&dir, soon()).unwrap();
        kill_one_by_one(&dir, soon()).unwrap();
    }
}
