//! [`Cgroup`]: the handle that a scope gives out once its unit is proven.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::dir::Dir;
use super::events::{self, Events};
use super::{kill, procs};
use crate::error::{Error, ErrorKind, Result};
use crate::process::{Process, State, own_cgroup};

/// How long [`Cgroup::kill`] waits for the killed to end.
const KILL_WAIT: Duration = Duration::from_secs(10);

/// The cgroup of a unit that systemd has started and that was proven to be there.
///
/// It is held by descriptor: when the unit has ended, every call answers [`ErrorKind::CgroupGone`], also where a unit of the same name was started since. `Clone` is
/// cheap and shares the descriptor; dropping changes nothing. `Send` and `Sync`.
#[derive(Clone)]
pub struct Cgroup(Arc<Inner>);

struct Inner {
    dir: Dir,
    proc_path: String,
}

impl Cgroup {
    /// `proc_path`: as the caller reads it in `/proc/PID/cgroup`. Only for a unit whose job is done, or that is active with no job pending.
    pub(crate) fn new(dir: Dir, proc_path: String) -> Self {
        Self(Arc::new(Inner { dir, proc_path }))
    }

    /// Where it is in the file system.
    pub fn path(&self) -> &Path {
        self.0.dir.path()
    }

    /// Its path as the caller reads it in the `0::` line of `/proc/PID/cgroup`.
    pub fn proc_path(&self) -> &str {
        &self.0.proc_path
    }

    /// The cgroup's id: the inode number of its directory, and the unit's `ControlGroupId` property (systemd 251).
    pub fn id(&self) -> u64 {
        self.0.dir.id()
    }

    /// Whether the cgroup is still there.
    pub fn exists(&self) -> bool {
        self.0.dir.exists()
    }

    /// Whether anything lives in it, from `cgroup.events`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CgroupGone`] once the unit has ended.
    pub fn events(&self) -> Result<Events> {
        events::read(&self.0.dir)
    }

    /// The pids of the live processes in it and below it, sorted, as numbered in the caller's pid namespace; those outside of that are left out. A number may
    /// be another process's by the time it is used: open it and look where it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CgroupGone`] once the unit has ended.
    pub fn processes(&self) -> Result<Vec<u32>> {
        procs::of_tree(&self.0.dir)
    }

    /// Moves a process into it, with all its threads, and makes sure that it is there. The kernel may take 20 ms for a move, which are spent on a thread for
    /// blocking work of the tokio runtime. Children that the process has already forked stay where they are. A future that is dropped does not undo the move.
    ///
    /// A unit without `Delegate=yes` whose processes are moved by others than systemd is left as it is by it, but that is not promised.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProcessGone`] where the process has ended before it was inside, [`ErrorKind::CgroupGone`] once the unit has ended,
    /// [`ErrorKind::PermissionDenied`] where the caller may not write this `cgroup.procs` and that of the closest common ancestor, [`ErrorKind::Cgroup`]
    /// otherwise.
    pub async fn add_process(&self, process: &Process) -> Result<()> {
        let inner = Arc::clone(&self.0);
        let process = process.clone();
        blocking(move || inner.add(&process)).await
    }

    /// Kills everything in it and below it, and waits until it has ended, at most 10 seconds. Nobody there is a success, and so is a cgroup that is gone.
    ///
    /// Uses `cgroup.kill` (Linux 5.14), else a loop. The unit itself is systemd's and ends by itself soon after.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProcessRefused`] where the calling process is inside, [`ErrorKind::PermissionDenied`], and [`ErrorKind::Timeout`] where a process does not end.
    pub async fn kill(&self) -> Result<()> {
        self.kill_all(Instant::now() + KILL_WAIT).await
    }

    /// [`kill`](Self::kill) with a deadline.
    pub(crate) async fn kill_all(&self, deadline: Instant) -> Result<()> {
        let inner = Arc::clone(&self.0);
        blocking(move || {
            if inner.holds_caller()? {
                return Err(kill::caller_inside(&inner.dir));
            }
            kill::kill_tree(&inner.dir, deadline.into_std())
        })
        .await?;
        if events::wait_unpopulated(&self.0.dir, deadline).await? {
            return Ok(());
        }
        let left = procs::of_tree(&self.0.dir).unwrap_or_default();
        Err(kill::still_alive(&self.0.dir, &left))
    }

    /// Waits until nobody lives in it or below it; removed counts. `false` = the deadline passed first.
    pub(crate) async fn wait_unpopulated(&self, deadline: Instant) -> Result<bool> {
        events::wait_unpopulated(&self.0.dir, deadline).await
    }

    /// Whether the process is, or when it ended was, in this cgroup or below it. `None` = cannot be told: it has been reaped, and the kernel keeps no record.
    /// Asked by id where the kernel gives one, else by path.
    pub(crate) fn contains(&self, process: &Process) -> Result<Option<bool>> {
        self.0.contains(process)
    }
}

impl Inner {
    fn add(&self, process: &Process) -> Result<()> {
        let pid = process.pid();
        let gone = || {
            Error::new(
                ErrorKind::ProcessGone,
                format!(
                    "process {pid} has ended, it cannot be put in {}",
                    self.proc_path
                ),
            )
        };
        // Its number stays its own until it is reaped, so it must be there right before the write; and if it is right after it as well, it was in between.
        if process.state() != State::Alive {
            return Err(gone());
        }
        let written = self.dir.write("cgroup.procs", &pid.to_string());
        if let Err(error) = written {
            return Err(match process.state() {
                State::Alive => error,
                State::Zombie | State::Gone => gone().with_source(error),
            });
        }
        match self.contains(process)? {
            Some(true) => Ok(()),
            None => Err(gone()),
            // The kernel takes the number of a process that is ending, and leaves the process where it is.
            Some(false) if process.is_ending()? => Err(gone()),
            Some(false) => Err(Error::new(
                ErrorKind::Cgroup,
                format!(
                    "process {pid} was put in {} and is elsewhere again: somebody else moves it",
                    self.proc_path
                ),
            )),
        }
    }

    fn contains(&self, process: &Process) -> Result<Option<bool>> {
        let id = process.cgroup_id();
        if id == Some(self.dir.id()) {
            return Ok(Some(true));
        }
        let Some(cgroup) = process.cgroup()? else {
            return Ok(None);
        };
        // The same path and another id: one of the same name, before or after this one.
        let same_name = |path: &str| id.is_some() && path == self.proc_path;
        Ok(Some(
            cgroup
                .unified()
                .is_some_and(|path| self.covers(path) && !same_name(path)),
        ))
    }

    fn holds_caller(&self) -> Result<bool> {
        let own = own_cgroup()?;
        // After the unit has ended its path may be that of a new one, where the caller may well be.
        Ok(own.unified().is_some_and(|path| self.covers(path)) && self.dir.exists())
    }

    /// Whether a path is this cgroup's, or goes on from it.
    fn covers(&self, path: &str) -> bool {
        let own = self.proc_path.trim_end_matches('/');
        path.strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Debug for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cgroup")
            .field("path", &self.path())
            .field("id", &self.id())
            .finish()
    }
}

/// Runs what may block on a thread that is there for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
        Error::new(
            ErrorKind::Io,
            "cannot change a cgroup outside a tokio runtime",
        )
        .with_source(error)
    })?;
    match runtime.spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::new(
            ErrorKind::Io,
            "the tokio runtime ended before the cgroup was changed",
        )
        .with_source(error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupView;
    use crate::cgroup::testing::{TestCgroup, sleep};
    use crate::skip::skip;

    fn handle(cgroup: &TestCgroup) -> Cgroup {
        Cgroup::new(cgroup.dir(), cgroup.proc_path())
    }

    #[test]
    fn the_handles_and_their_futures_can_cross_threads() {
        fn shared<T: Send + Sync + Clone + 'static>() {}
        fn send<T: Send>(_: &T) {}
        shared::<Cgroup>();
        shared::<CgroupView>();
        shared::<Process>();
        let Some(cgroup) = TestCgroup::new("send") else {
            return;
        };
        let handle = handle(&cgroup);
        let process = Process::current().unwrap();
        send(&handle.add_process(&process));
        send(&handle.kill());
        send(&handle.wait_unpopulated(Instant::now()));
    }

    #[tokio::test]
    async fn an_added_process_is_inside_and_killed_with_the_rest() {
        let Some(cgroup) = TestCgroup::new("add") else {
            return;
        };
        let handle = handle(&cgroup);
        let mut child = sleep();
        let process = Process::open(child.id()).unwrap();
        assert_eq!(handle.contains(&process).unwrap(), Some(false));
        handle.add_process(&process).await.unwrap();
        assert_eq!(handle.contains(&process).unwrap(), Some(true));
        assert_eq!(handle.processes().unwrap(), [child.id()]);
        assert!(handle.events().unwrap().populated);
        let view = CgroupView::open(cgroup.path()).unwrap();
        assert_eq!(view.processes().unwrap(), [child.id()]);
        assert_eq!(view.id(), handle.id());
        handle.kill().await.unwrap();
        assert!(!view.events().unwrap().populated);
        // A zombie still tells that it was inside.
        assert_eq!(handle.contains(&process).unwrap(), Some(true));
        child.wait().unwrap();
        handle.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_zombie_of_an_older_cgroup_of_the_same_name_was_not_inside() {
        let Some(cgroup) = TestCgroup::new("older") else {
            return;
        };
        cgroup.make("a");
        let mut child = cgroup.sleep_in("a");
        let process = Process::open(child.id()).unwrap();
        child.make_zombie().unwrap();
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        cgroup.make("a");
        if process.cgroup_id().is_none() {
            eprintln!("skipped: the kernel gives no cgroup id of a process (6.13)");
            return;
        }
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        let new = Cgroup::new(dir, format!("{}/a", cgroup.proc_path()));
        assert_eq!(new.contains(&process).unwrap(), Some(false));
    }

    #[tokio::test]
    async fn a_process_in_a_cgroup_below_is_inside() {
        let Some(cgroup) = TestCgroup::new("below") else {
            return;
        };
        cgroup.make("leaf");
        let child = cgroup.sleep_in("leaf");
        let process = Process::open(child.id()).unwrap();
        assert_eq!(handle(&cgroup).contains(&process).unwrap(), Some(true));
    }

    #[tokio::test]
    async fn a_process_that_has_ended_is_not_added() {
        let Some(cgroup) = TestCgroup::new("ended") else {
            return;
        };
        let handle = handle(&cgroup);
        let mut child = sleep();
        let process = Process::open(child.id()).unwrap();
        child.make_zombie().unwrap();
        let error = handle.add_process(&process).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessGone);
        child.wait().unwrap();
        let error = handle.add_process(&process).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessGone);
        assert!(
            error.to_string().contains(&process.pid().to_string()),
            "{error}"
        );
        assert!(handle.processes().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_removed_cgroup_takes_nobody_and_the_process_stays_where_it_was() {
        let Some(cgroup) = TestCgroup::new("add-gone") else {
            return;
        };
        cgroup.make("a");
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        let handle = Cgroup::new(dir, format!("{}/a", cgroup.proc_path()));
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        cgroup.make("a");
        let child = cgroup.sleep_in("");
        let process = Process::open(child.id()).unwrap();
        let error = handle.add_process(&process).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CgroupGone);
        assert!(!handle.exists());
        let cgroup_now = process.cgroup().unwrap().unwrap();
        assert_eq!(cgroup_now.unified(), Some(cgroup.proc_path().as_str()));
        // The new one of the same name is not killed in its place.
        let other = cgroup.sleep_in("a");
        handle.kill().await.unwrap();
        assert_eq!(Process::open(other.id()).unwrap().state(), State::Alive);
    }

    #[tokio::test]
    async fn the_caller_is_never_killed_with_its_own_cgroup() {
        let own = own_cgroup().unwrap();
        let found = own.unified().and_then(|path| {
            Some((
                path,
                crate::cgroup::hierarchy::Hierarchy::detect()
                    .ok()?
                    .open(path)
                    .ok()?,
            ))
        });
        let Some((path, dir)) = found else {
            skip("no cgroup2 mounted");
            return;
        };
        let own = Cgroup::new(dir, path.to_owned());
        assert!(own.0.holds_caller().unwrap());
        let error = own.kill().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessRefused);
        let Some(cgroup) = TestCgroup::new("caller") else {
            return;
        };
        assert!(!handle(&cgroup).0.holds_caller().unwrap());
        // The unit has ended, and another one of its name holds the caller.
        cgroup.make("a");
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        Cgroup::new(dir, path.to_owned()).kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_process_in_a_cgroup_whose_name_goes_on_is_not_inside() {
        let Some(cgroup) = TestCgroup::new("sibling") else {
            return;
        };
        cgroup.make("a");
        cgroup.make("ab");
        let child = cgroup.sleep_in("ab");
        let process = Process::open(child.id()).unwrap();
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        let short = Cgroup::new(dir, format!("{}/a", cgroup.proc_path()));
        assert_eq!(short.contains(&process).unwrap(), Some(false));
    }

    #[test]
    fn outside_a_runtime_a_change_is_an_error_and_not_a_panic() {
        let Some(cgroup) = TestCgroup::new("runtime") else {
            return;
        };
        let handle = handle(&cgroup);
        let mut kill = std::pin::pin!(handle.kill());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(result) = kill.as_mut().poll(&mut context) else {
            panic!("it waits for a runtime that is not there");
        };
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
    }
}
