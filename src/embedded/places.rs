//! Where the fresh cgroup can be: the root of the caller's cgroup2 mount, or the caller's own cgroup.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FsWord, Mode, OFlags, fstatfs, openat};

use super::remains::open_dir;
use crate::{Error, ErrorKind, Result};

/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2_MAGIC: FsWord = 0x6367_7270;

/// A cgroup that may become the parent of the fresh one.
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    /// In the caller's mount namespace.
    pub(super) path: PathBuf,
    /// Below the root of the mount; empty for the root itself.
    pub(super) below_mount: PathBuf,
}

/// A cgroup2 mount.
pub(super) struct Mount {
    dir: OwnedFd,
    path: PathBuf,
    /// The cgroup that is mounted, as `/proc/self/cgroup` names it.
    root: PathBuf,
}

impl Mount {
    /// The first cgroup2 mount that is not covered by another mount.
    pub(super) fn find() -> Result<Self> {
        let mountinfo = fs::read("/proc/self/mountinfo").map_err(|error| {
            Error::new(
                ErrorKind::Embedded,
                "cannot read /proc/self/mountinfo to find cgroup2; mount /proc",
            )
            .with_source(error)
        })?;
        for (root, path) in cgroup2_mounts(&mountinfo) {
            let Ok(dir) = openat(
                CWD,
                &path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            ) else {
                continue;
            };
            if fstatfs(&dir).is_ok_and(|fs| fs.f_type == CGROUP2_MAGIC) {
                return Ok(Self { dir, path, root });
            }
        }
        Err(Error::new(
            ErrorKind::Embedded,
            "no cgroup2 file system is mounted, which the embedded manager needs; mount one with `mount -t cgroup2 cgroup2 DIRECTORY`",
        ))
    }

    /// The root of the mount first: there the fresh cgroup is nobody's child. Then the caller's own cgroup.
    pub(super) fn places(&self) -> Result<Vec<Place>> {
        let mut places = vec![self.place(Path::new(""))?];
        let own = fs::read("/proc/self/cgroup").ok();
        if let Some(below) = own
            .as_deref()
            .and_then(own_cgroup)
            .and_then(|own| own.strip_prefix(&self.root).ok().map(Path::to_owned))
            .filter(|below| is_plain(below) && !below.as_os_str().is_empty())
        {
            places.extend(self.place(&below));
        }
        Ok(places)
    }

    /// A cgroup by its path below the mount's root.
    pub(super) fn place(&self, below_mount: &Path) -> Result<Place> {
        let path = self.path.join(below_mount);
        let name = if below_mount.as_os_str().is_empty() {
            c".".to_owned()
        } else {
            CString::new(below_mount.as_os_str().as_bytes()).unwrap_or_default()
        };
        let dir = open_dir(self.dir.as_fd(), &name).map_err(|error| {
            Error::new(
                ErrorKind::Embedded,
                format!("cannot open the cgroup {}: {error}", path.display()),
            )
            .with_source(error)
        })?;
        Ok(Place {
            dir,
            path,
            below_mount: below_mount.to_owned(),
        })
    }
}

/// Root and mount point of each cgroup2 mount, from `/proc/self/mountinfo`.
fn cgroup2_mounts(mountinfo: &[u8]) -> Vec<(PathBuf, PathBuf)> {
    mountinfo
        .split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|&byte| byte == b' ');
            let root = fields.nth(3)?;
            let path = fields.next()?;
            // Optional fields end with a single hyphen; the type follows.
            fields.find(|&field| field == b"-")?;
            (fields.next()? == b"cgroup2").then(|| (unescape(root), unescape(path)))
        })
        .collect()
}

/// Undoes the octal escapes (`\040` for a space) of mountinfo.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match octal {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The cgroup2 path in `/proc/self/cgroup`.
pub(super) fn own_cgroup(text: &[u8]) -> Option<PathBuf> {
    let line = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    Some(OsString::from_vec(line.to_vec()).into())
}

/// No `..`, no `.`, not absolute.
pub(super) fn is_plain(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, std::path::Component::Normal(_)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn cgroup2_is_found_wherever_it_is_mounted() {
        let text = b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            41 31 0:38 /a\\040b /mnt/c\\134d rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            cgroup2_mounts(text),
            [(PathBuf::from("/a b"), PathBuf::from("/mnt/c\\d"))]
        );
    }

    #[test]
    fn broken_mountinfo_lines_are_skipped() {
        assert!(
            cgroup2_mounts(b"\n1 2 3\n1 2 0:1 / /x rw cgroup2\n1 2 0:1 / /x rw -\n").is_empty()
        );
    }

    #[test]
    fn the_own_cgroup_is_that_of_the_unified_hierarchy() {
        assert_eq!(
            own_cgroup(b"4:memory:/m\n0::/a/b\n"),
            Some(PathBuf::from("/a/b"))
        );
        assert_eq!(own_cgroup(b"4:memory:/m\n"), None);
    }

    #[test]
    fn a_path_with_dots_is_not_followed() {
        assert!(is_plain(Path::new("a/b")));
        assert!(!is_plain(Path::new("../b")));
        assert!(!is_plain(Path::new("/a")));
    }
}
