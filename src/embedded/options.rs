//! What can be chosen about an embedded manager, and the check of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};

use super::instance::Embedded;
use super::launch;
use crate::spec::check_limit;
use crate::{Error, ErrorKind, Result};

/// Options of an embedded manager; made by [`Embedded::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing starts before `start` is called"]
pub struct Builder {
    root: Option<PathBuf>,
    systemd: Option<PathBuf>,
    bus: Option<bool>,
    start_timeout: Duration,
    state_dir: Option<PathBuf>,
}

/// The options, looked up on this machine.
pub(super) struct Plan {
    /// Canonical; `None` for the machine's own.
    pub(super) root: Option<PathBuf>,
    /// As seen below `root`.
    pub(super) systemd: PathBuf,
    pub(super) dbus_daemon: Option<&'static str>,
    pub(super) start_timeout: Duration,
    pub(super) state_dir: Option<PathBuf>,
}

const SYSTEMD: [&str; 2] = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];
const DBUS_DAEMON: [&str; 3] = [
    "/usr/bin/dbus-daemon",
    "/bin/dbus-daemon",
    "/usr/local/bin/dbus-daemon",
];

impl Default for Builder {
    fn default() -> Self {
        Self {
            root: None,
            systemd: None,
            bus: None,
            start_timeout: Duration::from_secs(10),
            state_dir: None,
        }
    }
}

impl Builder {
    /// The root directory of the manager: a directory with another installation (such as one made by debootstrap), whose systemd is then used. Default: the
    /// machine's own root.
    pub fn root(mut self, path: impl Into<PathBuf>) -> Self {
        self.root = Some(path.into());
        self
    }

    /// The systemd executable, as an absolute path below [`root`](Self::root). Default: `/lib/systemd/systemd` or `/usr/lib/systemd/systemd`.
    pub fn systemd(mut self, path: impl Into<PathBuf>) -> Self {
        self.systemd = Some(path.into());
        self
    }

    /// Whether there is a message bus besides the manager's private socket; with `true` a missing dbus-daemon is an error. Default: a bus where dbus-daemon is
    /// installed.
    pub fn bus(mut self, bus: bool) -> Self {
        self.bus = Some(bus);
        self
    }

    /// How long [`start`](Self::start) waits until the manager answers. Default: 10 s.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// The directory below which the state directory is made; it is created if only its last component is missing, must belong to the caller, and stays.
    /// Its path can have 53 bytes at most, because of the sockets. Default: `/run/scopectl`, else `scopectl-UID` in `$TMPDIR` or `/tmp`, which goes with its
    /// last instance.
    pub fn state_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(path.into());
        self
    }

    /// Starts the manager and blocks the calling thread until it answers, at most for the [`start_timeout`](Self::start_timeout) (and up to 10 s more to
    /// clear up if that fails). Needs no async runtime.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`] without root and CAP_SYS_ADMIN, [`ErrorKind::InvalidInput`] for an option that cannot be used, else
    /// [`ErrorKind::Embedded`], whose message names the step that failed.
    pub fn start(self) -> Result<Embedded> {
        launch::launch(&self.check()?)
    }

    fn check(self) -> Result<Plan> {
        check_limit("the embedded manager's start timeout", self.start_timeout)?;
        let privileged = rustix::process::geteuid().is_root()
            && capabilities(None)
                .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        if !privileged {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "the embedded manager needs uid 0 and CAP_SYS_ADMIN (it makes mounts and cgroups); run as root, or in a container with that capability",
            ));
        }
        let root = self
            .root
            .as_deref()
            .map(root_directory)
            .transpose()?
            .filter(|root| root != Path::new("/"));
        let systemd = match self.systemd {
            Some(path) if path.is_absolute() && is_program(root.as_deref(), &path) => path,
            Some(path) => {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "{} is not the absolute path of a systemd executable{}; install the package systemd, or name another",
                        path.display(),
                        below(root.as_deref())
                    ),
                ));
            }
            None => SYSTEMD
                .iter()
                .map(PathBuf::from)
                .find(|path| is_program(root.as_deref(), path))
                .ok_or_else(|| {
                    Error::new(
                        ErrorKind::Embedded,
                        format!(
                            "no systemd at {}{}; install the package systemd",
                            SYSTEMD.join(" or "),
                            below(root.as_deref())
                        ),
                    )
                })?,
        };
        let dbus_daemon = match self.bus {
            Some(false) => None,
            _ => DBUS_DAEMON
                .into_iter()
                .find(|path| is_program(root.as_deref(), Path::new(path))),
        };
        if self.bus == Some(true) && dbus_daemon.is_none() {
            return Err(Error::new(
                ErrorKind::Embedded,
                format!(
                    "a bus was asked for, but there is no {}{}; install the package dbus (Debian: dbus-daemon), or use the private socket",
                    DBUS_DAEMON.join(" or "),
                    below(root.as_deref())
                ),
            ));
        }
        Ok(Plan {
            root,
            systemd,
            dbus_daemon,
            start_timeout: self.start_timeout,
            state_dir: self.state_dir,
        })
    }
}

fn root_directory(path: &Path) -> Result<PathBuf> {
    let refused = |why: String| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("root directory {} cannot be used: {why}", path.display()),
        )
    };
    let root = fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
    for directory in ["", "proc", "sys", "dev", "run"] {
        let is_directory =
            fs::symlink_metadata(root.join(directory)).is_ok_and(|metadata| metadata.is_dir());
        if !is_directory {
            return Err(refused(format!("it has no directory /{directory}")));
        }
    }
    Ok(root)
}

fn is_program(root: Option<&Path>, path: &Path) -> bool {
    let path = root
        .unwrap_or(Path::new("/"))
        .join(path.strip_prefix("/").unwrap_or(path));
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn below(root: Option<&Path>) -> String {
    root.map(|root| format!(" below {}", root.display()))
        .unwrap_or_default()
}
