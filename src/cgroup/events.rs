//! `cgroup.events`: whether anything lives in a cgroup, and waiting until nothing does.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::time::Instant;

use super::dir::Dir;
use super::explain::Action;
use super::files::flat_keyed;
use crate::error::{Error, ErrorKind, Result};

const FILE: &str = "cgroup.events";
/// The kernel notifies of every change; looking again without a notice only guards against one that got lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What `cgroup.events` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Events {
    /// Whether the cgroup or one below it has a live process. A zombie is not one.
    pub populated: bool,
    /// Whether everything in it is frozen. `None` before Linux 5.2.
    pub frozen: Option<bool>,
}

impl Events {
    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            populated: flat_keyed(text, "populated")? == "1",
            frozen: flat_keyed(text, "frozen").map(|value| value == "1"),
        })
    }
}

/// Reads `cgroup.events`. The root cgroup has none.
pub(super) fn read(dir: &Dir) -> Result<Events> {
    let text = dir.read_to_string(FILE)?;
    understood(dir, &text)
}

fn understood(dir: &Dir, text: &str) -> Result<Events> {
    Events::parse(text).ok_or_else(|| {
        Error::new(
            ErrorKind::Cgroup,
            format!("cannot understand {}/{FILE}", dir.path().display()),
        )
    })
}

/// Waits until no process lives in the cgroup or below it; a removed cgroup has none. `false` = the deadline passed first.
///
/// The kernel's notice is a POLLPRI on `cgroup.events`, which the last `read` of the same descriptor arms. Needs a tokio runtime with its I/O and time
/// drivers. Dropping the future has no effect.
pub(super) async fn wait_unpopulated(dir: &Dir, deadline: Instant) -> Result<bool> {
    wait(dir, deadline, LOOK_AGAIN).await
}

async fn wait(dir: &Dir, deadline: Instant, look_again: Duration) -> Result<bool> {
    tokio::runtime::Handle::try_current().map_err(|error| {
        Error::new(
            ErrorKind::Io,
            "cannot wait for a cgroup outside a tokio runtime",
        )
        .with_source(error)
    })?;
    let file = match dir.open_file(FILE, OFlags::RDONLY) {
        Ok(file) => file,
        Err(errno) => return gone_or(dir, errno),
    };
    // The first read comes before epoll looks, so that only changes after it are notices.
    match read_again(dir, &file) {
        Ok(Some(events)) if events.populated => {}
        Ok(_) => return Ok(true),
        Err(error) => return Err(error),
    }
    let file = crate::sys::watch_priority(file).map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("cannot wait for changes of {}/{FILE}", dir.path().display()),
        )
        .with_source(error)
    })?;
    loop {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        let until = deadline.min(Instant::now() + look_again);
        match tokio::time::timeout_at(until, file.ready(Interest::PRIORITY)).await {
            // Cleared before the file is read: a change after the read then makes it ready again.
            Ok(Ok(mut notice)) => notice.clear_ready(),
            Ok(Err(error)) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    "the tokio runtime ended before the cgroup was empty",
                )
                .with_source(error));
            }
            Err(_) => {}
        }
        match read_again(dir, file.get_ref())? {
            Some(events) if events.populated => {}
            _ => return Ok(true),
        }
    }
}

/// Reads the open file from its start; `None` where the cgroup has been removed.
fn read_again(dir: &Dir, file: &OwnedFd) -> Result<Option<Events>> {
    let mut buffer = [0_u8; 512];
    loop {
        return match rustix::io::pread(file, &mut buffer, 0) {
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                understood(dir, &String::from_utf8_lossy(bytes)).map(Some)
            }
            Err(Errno::INTR) => continue,
            Err(errno) => gone_or(dir, errno).map(|_| None),
        };
    }
}

fn gone_or(dir: &Dir, errno: Errno) -> Result<bool> {
    let error = dir.explain(Action::Read(FILE), errno);
    match error.kind() {
        ErrorKind::CgroupGone => Ok(true),
        _ => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::TestCgroup;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_old_kernel_does_not_say_whether_it_is_frozen() {
        let events = Events::parse("populated 1\n").unwrap();
        assert_eq!((events.populated, events.frozen), (true, None));
        assert_eq!(Events::parse("frozen 1\n"), None);
    }

    #[tokio::test]
    async fn the_end_of_the_last_process_ends_the_wait() {
        let Some(cgroup) = TestCgroup::new("wait") else {
            return;
        };
        cgroup.make("below");
        let dir = cgroup.dir();
        assert!(wait_unpopulated(&dir, far()).await.unwrap());
        let mut child = cgroup.sleep_in("below");
        assert!(read(&dir).unwrap().populated);
        // Only the kernel's notice can end this one before its deadline.
        let mut wait = pin!(wait(&dir, far(), Duration::from_secs(3600)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(wait.as_mut().poll(&mut context), Poll::Pending));
        child.kill().unwrap();
        // Not reaped: a zombie does not populate a cgroup.
        let ended = tokio::time::timeout(Duration::from_secs(30), wait).await;
        assert!(ended.expect("the kernel's notice was not heard").unwrap());
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn the_wait_ends_at_its_deadline() {
        let Some(cgroup) = TestCgroup::new("deadline") else {
            return;
        };
        let _child = cgroup.sleep_in("");
        let dir = cgroup.dir();
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(!wait_unpopulated(&dir, soon).await.unwrap());
        assert!(!wait_unpopulated(&dir, Instant::now()).await.unwrap());
    }

    #[tokio::test]
    async fn a_removed_cgroup_counts_as_empty() {
        let Some(cgroup) = TestCgroup::new("removed") else {
            return;
        };
        cgroup.make("a");
        let dir = cgroup.dir().open_below(&["a"]).unwrap();
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        assert!(wait_unpopulated(&dir, far()).await.unwrap());
        assert_eq!(read(&dir).unwrap_err().kind(), ErrorKind::CgroupGone);
    }
}
