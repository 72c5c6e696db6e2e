//! [`CgroupView`]: any cgroup, by path, to be looked at only.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::dir::Dir;
use super::events::{self, Events};
use super::procs;
use crate::error::Result;

/// Any cgroup, to be looked at and not to be changed: for units that are already gone from systemd, for clean-up and diagnosis.
///
/// `Clone` is cheap and shares the descriptor. `Send` and `Sync`.
#[derive(Clone)]
pub struct CgroupView(Arc<Dir>);

impl CgroupView {
    pub(crate) fn new(dir: Dir) -> Self {
        Self(Arc::new(dir))
    }

    /// Opens a directory below the cgroup2 mount, such as `/sys/fs/cgroup/system.slice`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CgroupGone`](crate::ErrorKind::CgroupGone) where there is no such directory, [`ErrorKind::CgroupUnreachable`](crate::ErrorKind::CgroupUnreachable) where it is not one of cgroup2.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Dir::open_path(path.as_ref()).map(Self::new)
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The cgroup's id: the inode number of its directory.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Whether the cgroup is still there.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Whether anything lives in it, from `cgroup.events`, which the root cgroup does not have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CgroupGone`](crate::ErrorKind::CgroupGone) once it has been removed.
    pub fn events(&self) -> Result<Events> {
        events::read(&self.0)
    }

    /// The pids of the live processes in it and below it, sorted, as numbered in the caller's pid namespace; those outside of that are left out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CgroupGone`](crate::ErrorKind::CgroupGone) once it has been removed.
    pub fn processes(&self) -> Result<Vec<u32>> {
        procs::of_tree(&self.0)
    }
}

impl fmt::Debug for CgroupView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CgroupView")
            .field("path", &self.path())
            .field("id", &self.id())
            .finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::TestCgroup;
    use crate::error::ErrorKind;

    #[test]
    fn a_view_that_was_removed_is_gone_and_a_path_elsewhere_is_no_cgroup() {
        let Some(cgroup) = TestCgroup::new("view") else {
            return;
        };
        cgroup.make("a");
        let view = CgroupView::open(cgroup.path().join("a")).unwrap();
        assert!(view.exists());
        assert!(!view.events().unwrap().populated);
        assert_eq!(view.events().unwrap().frozen, Some(false));
        std::fs::remove_dir(view.path()).unwrap();
        assert!(!view.exists());
        let kinds = [
            view.events().unwrap_err().kind(),
            view.processes().unwrap_err().kind(),
            CgroupView::open(view.path()).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::CgroupGone; 3]);
        let error = CgroupView::open("/proc").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CgroupUnreachable);
    }
}
