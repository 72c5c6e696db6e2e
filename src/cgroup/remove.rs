//! Removing a cgroup with all below it, from the bottom up, by `rmdir` alone.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::dir::{Dir, check_name};
use super::explain::{Action, explain};
use super::procs::{deepest, too_deep};
use crate::error::{ErrorKind, Result};

/// How often a tree is gone through again because something appeared in it meanwhile.
const ATTEMPTS: usize = 8;

/// Removes `parent/name` and everything below. It is no error where nothing is there (any more); one with a live process in it is, and is left with what could
/// not be removed.
pub(crate) fn remove_tree(parent: &Dir, name: impl AsRef<OsStr>) -> Result<()> {
    let name = name.as_ref();
    check_name(name)?;
    let mut attempt = 1;
    loop {
        match remove(parent, name, 1) {
            Ok(()) => return Ok(()),
            Err(error) if attempt >= ATTEMPTS || error.kind() != ErrorKind::Cgroup => {
                return Err(error);
            }
            Err(_) => attempt += 1,
        }
    }
}

fn remove(parent: &Dir, name: &OsStr, depth: usize) -> Result<()> {
    // Most have nothing below them, and rmdir itself is the test.
    match parent.remove_child(name) {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
        Err(Errno::BUSY | Errno::NOTEMPTY) => {}
        Err(errno) => return Err(failed(parent, name, errno)),
    }
    if depth > deepest() {
        return Err(too_deep(parent));
    }
    let children = parent
        .open_below(&[name])
        .and_then(|dir| Ok((dir.children()?, dir)));
    match children {
        Ok((children, dir)) => {
            for child in children {
                remove(&dir, &child, depth + 1)?;
            }
        }
        Err(error) if error.kind() == ErrorKind::CgroupGone => return Ok(()),
        Err(error) => return Err(error),
    }
    match parent.remove_child(name) {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(errno) => Err(failed(parent, name, errno)),
    }
}

fn failed(parent: &Dir, name: &OsStr, errno: Errno) -> crate::Error {
    explain(Action::RemoveDir, &parent.path().join(name), errno, false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::TestCgroup;

    #[test]
    fn a_tree_is_removed_from_the_bottom_up_and_again_without_error() {
        let Some(cgroup) = TestCgroup::new("remove") else {
            return;
        };
        cgroup.make("t/a/b/c");
        cgroup.make("t/d");
        remove_tree(&cgroup.dir(), "t").unwrap();
        assert!(!cgroup.path().join("t").exists());
        remove_tree(&cgroup.dir(), "t").unwrap();
    }

    #[test]
    fn a_tree_with_a_live_process_is_an_error_that_names_the_cgroup() {
        let Some(cgroup) = TestCgroup::new("busy") else {
            return;
        };
        cgroup.make("t/a");
        let _child = cgroup.sleep_in("t/a");
        let error = remove_tree(&cgroup.dir(), "t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cgroup);
        assert!(error.to_string().contains("/t/a"), "{error}");
        assert!(cgroup.path().join("t/a").exists());
        for name in ["..", "", "a/b"] {
            let error = remove_tree(&cgroup.dir(), name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
