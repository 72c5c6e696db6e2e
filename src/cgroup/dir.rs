//! [`Dir`]: a directory of cgroup2 by descriptor, and the only place where its files are opened.
//!
//! Everything is opened below the descriptor, with `openat2(2)`: no symbolic link, no `..`, no other mount is followed, so no name however made leads out of the
//! cgroup file system, whose magic number was checked at the top. Where the kernel lacks openat2 (before 5.6) or a seccomp filter forbids it, each component is
//! opened by itself without following links, and its device compared.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::explain::{Action, explain};
use crate::error::{Error, ErrorKind, Result};

const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
const CGROUP_SUPER_MAGIC: u64 = 0x0027_e0eb;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// An open cgroup directory. The cgroup may be removed meanwhile; a new one of the same name is then still not mistaken for it.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Dir {
    /// Opens a directory by any path and makes sure that it is one of cgroup2.
    pub(crate) fn open_path(path: &Path) -> Result<Self> {
        let fail = |errno| explain(Action::OpenDir, path, errno, false);
        let fd = openat(CWD, path, DIRECTORY, Mode::empty()).map_err(fail)?;
        // The field's type differs between architectures.
        #[allow(clippy::unnecessary_cast)]
        let magic = fstatfs(&fd).map_err(fail)?.f_type as u64 & 0xffff_ffff;
        match magic {
            CGROUP2_SUPER_MAGIC => Self::from_fd(fd, path.to_owned()).map_err(fail),
            CGROUP_SUPER_MAGIC => Err(Error::new(
                ErrorKind::CgroupUnreachable,
                format!(
                    "{} is a cgroup of version 1, and only cgroup2 can be used; name a path below the cgroup2 mount",
                    path.display()
                ),
            )),
            _ => Err(Error::new(
                ErrorKind::CgroupUnreachable,
                format!(
                    "{} is not a cgroup: it is on another file system; name a path below the cgroup2 mount",
                    path.display()
                ),
            )),
        }
    }

    fn from_fd(fd: OwnedFd, path: PathBuf) -> std::result::Result<Self, Errno> {
        let stat = fstat(&fd)?;
        Ok(Self {
            fd,
            path,
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// Opens a directory below; no names = another descriptor of this one.
    pub(crate) fn open_below<S: AsRef<OsStr>>(&self, names: &[S]) -> Result<Self> {
        let mut path = self.path.clone();
        let mut relative = PathBuf::new();
        for name in names {
            check_name(name.as_ref())?;
            path.push(name.as_ref());
            relative.push(name.as_ref());
        }
        if names.is_empty() {
            relative.push(".");
        }
        open_beneath(self.fd.as_fd(), &relative, DIRECTORY, self.device)
            .and_then(|fd| Self::from_fd(fd, path.clone()))
            .map_err(|errno| explain(Action::OpenDir, &path, errno, false))
    }

    /// The path by which it was opened: for messages and for people. It may name another cgroup, or none, by now.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The cgroup's id: the inode number of its directory; what systemd calls `ControlGroupId`.
    pub(crate) fn id(&self) -> u64 {
        self.inode
    }

    /// The device number of the file system.
    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Whether the cgroup has not been removed. Every cgroup has a `cgroup.procs`, and a removed one has no files.
    pub(crate) fn exists(&self) -> bool {
        statat(&self.fd, "cgroup.procs", AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Reads a whole file.
    pub(crate) fn read_to_string(&self, file: &str) -> Result<String> {
        check_name(file.as_ref())?;
        self.try_read(file)
            .map_err(|errno| self.explain(Action::Read(file), errno))
    }

    /// The same for callers that decide by errno.
    pub(super) fn try_read(&self, file: &str) -> std::result::Result<String, Errno> {
        let fd = self.open_file(file, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        File::from(fd)
            .read_to_end(&mut bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a value, in one `write(2)`: the kernel takes each as a whole.
    pub(crate) fn write(&self, file: &str, value: &str) -> Result<()> {
        check_name(file.as_ref())?;
        self.try_write(file, value)
            .map_err(|errno| self.explain(Action::Write(file, value), errno))
    }

    /// The same for callers that decide by errno.
    pub(super) fn try_write(&self, file: &str, value: &str) -> std::result::Result<(), Errno> {
        let fd = self.open_file(file, OFlags::WRONLY)?;
        loop {
            match rustix::io::write(&fd, value.as_bytes()) {
                Ok(count) if count == value.len() => return Ok(()),
                Ok(_) => return Err(Errno::IO),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Opens a file of this very directory: never creates, truncates or follows.
    pub(super) fn open_file(&self, file: &str, how: OFlags) -> std::result::Result<OwnedFd, Errno> {
        let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        open_beneath(self.fd.as_fd(), file.as_ref(), flags, self.device)
    }

    /// The names of the cgroups right below.
    pub(crate) fn children(&self) -> Result<Vec<OsString>> {
        let fail = |errno| self.explain(Action::ListDir, errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_bytes();
            if entry.file_type() == FileType::Directory && name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        Ok(names)
    }

    /// Removes the cgroup of this name right below.
    pub(super) fn remove_child(&self, name: &OsStr) -> std::result::Result<(), Errno> {
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
    }

    pub(super) fn explain(&self, action: Action<'_>, errno: Errno) -> Error {
        let gone = matches!(errno, Errno::NOENT | Errno::NODEV) && !self.exists();
        explain(action, &self.path, errno, gone)
    }
}

/// A name is one component, and not a way out.
pub(super) fn check_name(name: &OsStr) -> Result<()> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{name:?} is not the name of a cgroup or of a file of one"),
        ));
    }
    Ok(())
}

fn open_beneath(
    dir: std::os::fd::BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    device: u64,
) -> std::result::Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    loop {
        match openat2(dir, relative, flags, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            // No such call, or a seccomp filter that forbids what it does not know; cgroupfs itself never answers EPERM to an open.
            Err(Errno::NOSYS | Errno::PERM) => {
                return open_stepwise(dir, relative, flags, device);
            }
            other => return other,
        }
    }
}

fn open_stepwise(
    dir: std::os::fd::BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    device: u64,
) -> std::result::Result<OwnedFd, Errno> {
    let mut held: Option<OwnedFd> = None;
    let mut parts = relative.iter().peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() {
            DIRECTORY
        } else {
            flags
        };
        let at = held.as_ref().map_or(dir, AsFd::as_fd);
        let next = openat(at, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if fstat(&next)?.st_dev != device {
            return Err(Errno::XDEV);
        }
        held = Some(next);
    }
    held.ok_or(Errno::NOENT)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::TestCgroup;

    #[test]
    fn another_file_system_is_not_a_cgroup() {
        for path in ["/", "/proc"] {
            let error = Dir::open_path(Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), ErrorKind::CgroupUnreachable);
            assert!(error.to_string().contains(path), "{error}");
        }
        let error = Dir::open_path(Path::new("/no/such")).expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::CgroupGone);
    }

    #[test]
    fn a_version_1_hierarchy_is_said_to_be_one() {
        let v1 = Path::new("/sys/fs/cgroup/systemd");
        if !v1.join("release_agent").exists() {
            eprintln!("skipped: no version 1 hierarchy at {}", v1.display());
            return;
        }
        let error = Dir::open_path(v1).expect_err("version 1");
        assert!(error.to_string().contains("version 1"), "{error}");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused_before_any_call() {
        let Some(cgroup) = TestCgroup::new("names") else {
            return;
        };
        let dir = cgroup.dir();
        for name in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            let kinds = [
                dir.read_to_string(name).expect_err(name).kind(),
                dir.write(name, "1").expect_err(name).kind(),
                dir.open_below(&[name]).expect_err(name).kind(),
            ];
            assert_eq!(kinds, [ErrorKind::InvalidInput; 3], "{name:?}");
        }
    }

    #[test]
    fn files_are_read_and_written_and_the_id_is_the_inode() {
        let Some(cgroup) = TestCgroup::new("files") else {
            return;
        };
        cgroup.make("a/b");
        let top = cgroup.dir();
        let dir = top.open_below(&["a", "b"]).unwrap();
        assert_eq!(dir.path(), cgroup.path().join("a/b"));
        dir.write("cgroup.max.depth", "3").unwrap();
        assert_eq!(dir.read_to_string("cgroup.max.depth").unwrap(), "3\n");
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(cgroup.path().join("a/b")).unwrap().ino();
        assert_eq!(dir.id(), inode);
        assert_eq!(top.children().unwrap(), ["a"]);
        assert_eq!(top.open_below::<&str>(&[]).unwrap().id(), top.id());
    }

    #[test]
    fn a_removed_cgroup_is_gone_and_its_successor_is_another() {
        let Some(cgroup) = TestCgroup::new("gone") else {
            return;
        };
        cgroup.make("a");
        let old = cgroup.dir().open_below(&["a"]).unwrap();
        let open = old.open_file("cgroup.max.depth", OFlags::RDONLY).unwrap();
        assert!(old.exists());
        std::fs::remove_dir(cgroup.path().join("a")).unwrap();
        cgroup.make("a");
        assert!(!old.exists());
        let kinds = [
            old.read_to_string("cgroup.procs").unwrap_err().kind(),
            old.write("cgroup.procs", "0").unwrap_err().kind(),
            old.open_below(&["b"]).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::CgroupGone; 3]);
        let mut buffer = [0; 8];
        assert_eq!(rustix::io::read(&open, &mut buffer), Err(Errno::NODEV));
    }

    #[test]
    fn a_missing_file_is_not_a_missing_cgroup() {
        let Some(cgroup) = TestCgroup::new("missing") else {
            return;
        };
        let error = cgroup.dir().read_to_string("no.such").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cgroup);
        assert!(error.to_string().contains("no.such"), "{error}");
    }

    #[test]
    fn without_openat2_the_same_is_opened_step_by_step() {
        let Some(cgroup) = TestCgroup::new("steps") else {
            return;
        };
        cgroup.make("a/b");
        let dir = cgroup.dir();
        let fd =
            open_stepwise(dir.fd().as_fd(), Path::new("a/b"), DIRECTORY, dir.device()).unwrap();
        assert_eq!(
            fstat(&fd).unwrap().st_ino,
            dir.open_below(&["a", "b"]).unwrap().id()
        );
        let missing = open_stepwise(dir.fd().as_fd(), Path::new("a/x"), DIRECTORY, dir.device());
        assert_eq!(missing.unwrap_err(), Errno::NOENT);
        let other = open_stepwise(
            dir.fd().as_fd(),
            Path::new("a/b"),
            DIRECTORY,
            dir.device() + 1,
        );
        assert_eq!(other.unwrap_err(), Errno::XDEV);
    }

    #[test]
    fn neither_way_follows_a_symbolic_link() {
        let root = std::env::temp_dir().join(format!("scopectl-dir-{}", std::process::id()));
        std::fs::create_dir_all(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let fd = openat(CWD, &root, DIRECTORY, Mode::empty()).unwrap();
        let device = fstat(&fd).unwrap().st_dev;
        let answers = [
            open_beneath(fd.as_fd(), Path::new("link"), DIRECTORY, device).map(drop),
            open_stepwise(fd.as_fd(), Path::new("link"), DIRECTORY, device).map(drop),
            open_stepwise(fd.as_fd(), Path::new("link/x"), DIRECTORY, device).map(drop),
            open_beneath(fd.as_fd(), Path::new("real/../../.."), DIRECTORY, device).map(drop),
        ];
        let plain = open_stepwise(fd.as_fd(), Path::new("real"), DIRECTORY, device).map(drop);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(plain, Ok(()));
    }
}
