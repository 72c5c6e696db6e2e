//! State directories: one for each instance, locked as long as its parent lives, below one base directory.
//!
//! The lock is a BSD lock on the directory itself, so there is no moment at which a directory exists whose lock file does not. It also keeps
//! systemd-tmpfiles from ageing the directory.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, unlinkat,
};
use rustix::io::Errno;

use super::remains::open_dir;
use crate::cgroup::Dir;
use crate::{Error, ErrorKind, Result};

/// Every name of ours starts so.
const PREFIX: &str = "scopectl-";
/// The file that says in which directories the cgroup may be, one on each line.
const PLACES_FILE: &str = "places";
/// What a socket address takes; the longest of ours is that of the private socket.
const SOCKET_PATH_MAX: usize = 107;
const LONGEST_BELOW: usize = "/scopectl-4194304-0123456789abcdef/run/systemd/private".len();

/// The directory that holds the state directories.
pub(super) struct Base {
    pub(super) dir: OwnedFd,
    pub(super) path: PathBuf,
    /// Made by us and named by nobody: it goes with the last instance.
    pub(super) temporary: bool,
}

impl Base {
    /// The given directory; or `/run/scopectl`, else `scopectl-UID` in `$TMPDIR` or `/tmp`.
    pub(super) fn open(given: Option<&Path>) -> Result<Self> {
        if let Some(path) = given {
            return Self::at(path, false).map_err(|why| {
                Error::new(
                    ErrorKind::InvalidInput,
                    format!("state directory {} cannot be used: {why}", path.display()),
                )
            });
        }
        let uid = rustix::process::geteuid().as_raw();
        let mut tried = Vec::new();
        for path in [
            PathBuf::from("/run/scopectl"),
            std::env::temp_dir().join(format!("{PREFIX}{uid}")),
            PathBuf::from(format!("/tmp/{PREFIX}{uid}")),
        ] {
            match Self::at(&path, true) {
                Ok(base) => return Ok(base),
                Err(why) => tried.push(format!("{} ({why})", path.display())),
            }
        }
        Err(Error::new(
            ErrorKind::Embedded,
            format!(
                "no directory can hold the state of an embedded manager: {}; name one with `state_dir`",
                tried.join(", ")
            ),
        ))
    }

    fn at(path: &Path, temporary: bool) -> Result<Self, String> {
        let made = match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.to_string()),
        };
        let opened = Self::opened(path, temporary);
        if made && opened.is_err() {
            let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
        }
        opened
    }

    /// One that is there.
    fn opened(path: &Path, temporary: bool) -> Result<Self, String> {
        let dir = openat(
            CWD,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => "not a directory, or a symbolic link".to_owned(),
            error => error.to_string(),
        })?;
        let stat = fstat(&dir).map_err(|error| error.to_string())?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(format!("it belongs to user {}", stat.st_uid));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err("others may write to it".into());
        }
        let path = fs::canonicalize(path).map_err(|error| error.to_string())?;
        if path.as_os_str().len() + LONGEST_BELOW > SOCKET_PATH_MAX {
            return Err("its path is too long for the sockets below it".into());
        }
        Ok(Self {
            dir,
            path,
            temporary,
        })
    }

    /// For a start that ends before there is a guardian to do it. Fails, as it should, while another instance is there.
    pub(super) fn remove_if_unused(&self) {
        if self.temporary {
            let _ = unlinkat(CWD, &self.path, AtFlags::REMOVEDIR);
        }
    }
}

/// A name that no other instance has: the creator's pid for people, random bits for us.
pub(super) fn new_name() -> io::Result<CString> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name = format!(
        "{PREFIX}{}-{:016x}",
        std::process::id(),
        u64::from_ne_bytes(random)
    );
    CString::new(name).map_err(io::Error::from)
}

/// The pid in a name of ours.
pub(super) fn creator(name: &CStr) -> Option<u32> {
    let (pid, random) = name.to_str().ok()?.strip_prefix(PREFIX)?.split_once('-')?;
    let well_formed = random.len() == 16
        && random
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !well_formed || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    pid.parse().ok()
}

/// Makes and locks a state directory. `None`: a sweep took it in the moment between, or the base directory went with its last instance; start again
/// with another name.
pub(super) fn create(base: &Base, name: &CStr) -> io::Result<Option<OwnedFd>> {
    match mkdirat(&base.dir, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let dir = match open_dir(base.dir.as_fd(), name) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok((fstat(&dir)?.st_nlink > 0).then_some(dir))
}

/// Writes where the cgroup may be, for a later sweep.
pub(super) fn record(state: &Path, places: &[Dir]) -> io::Result<()> {
    let mut text = Vec::new();
    for place in places {
        text.extend_from_slice(place.path().as_os_str().as_bytes());
        text.push(b'\n');
    }
    fs::write(state.join(PLACES_FILE), text)
}

/// What was recorded: the directories that are cgroups.
pub(super) fn recorded(state: &Path) -> Vec<Dir> {
    fs::read(state.join(PLACES_FILE))
        .unwrap_or_default()
        .split(|&byte| byte == b'\n')
        .map(|line| Path::new(OsStr::from_bytes(line)))
        .filter(|path| path.is_absolute())
        .filter_map(|path| Dir::open_path(path).ok())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_a_creator() {
        let name = new_name().unwrap();
        assert_eq!(creator(&name), Some(std::process::id()));
        for other in [
            c"scopectl-0",
            c"scopectl-12-abc",
            c"scopectl-x-0123456789abcdef",
            c"scopectl-12-0123456789ABCDEF",
            c"kubepods-12-0123456789abcdef",
            c"scopectl-+1-0123456789abcdef",
        ] {
            assert_eq!(creator(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_name_is_never_longer_than_the_sockets_allow() {
        assert!(
            new_name().unwrap().as_bytes().len() + "/run/systemd/private".len() < LONGEST_BELOW
        );
    }

    #[test]
    fn a_directory_that_is_refused_is_not_left() {
        // Too long for a socket, which is seen only once it is there.
        let dir = std::env::temp_dir().join("x".repeat(100));
        assert!(Base::at(&dir, false).is_err());
        assert!(!dir.exists());
    }

    #[test]
    fn a_link_or_a_directory_open_to_others_is_refused() {
        let dir = std::env::temp_dir().join(format!("scopectl-state-test-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let link = dir.join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(Base::at(&link, false).is_err());
        let open = dir.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(Base::at(&open, false).is_err());
        assert!(Base::at(&dir.join("fresh"), false).is_ok());
        fs::remove_dir_all(&dir).unwrap();
    }
}
