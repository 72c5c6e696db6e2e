//! What the tests share: the binary, a manager, and readable results.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use scopectl::Instance;
use scopectl::embedded::Embedded;

use crate::skip::skip;

pub(crate) const SCOPECTL: &str = env!("CARGO_BIN_EXE_scopectl");

/// One manager for all tests of this process. Its guardian takes it down when the process ends.
pub(crate) fn manager() -> Option<&'static str> {
    static MANAGER: OnceLock<(Embedded, String)> = OnceLock::new();
    if let Some(missing) = missing() {
        skip(missing);
        return None;
    }
    let (_, address) = MANAGER.get_or_init(|| {
        let embedded = Embedded::start().expect("the embedded manager starts");
        let Instance::Address(address) = embedded.instance() else {
            panic!("an embedded manager has an address");
        };
        (embedded, address)
    });
    Some(address)
}

/// What an embedded manager needs and this machine lacks.
fn missing() -> Option<&'static str> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !nix::unistd::Uid::effective().is_root() {
        Some("needs root")
    } else if !mounts
        .lines()
        .any(|line| line.split(' ').nth(2) == Some("cgroup2"))
    {
        Some("needs a cgroup2 mount")
    } else if !["/lib/systemd/systemd", "/usr/lib/systemd/systemd"]
        .iter()
        .any(|path| Path::new(path).exists())
    {
        Some("needs systemd")
    } else {
        None
    }
}

/// `scopectl run --manager ADDRESS` and the given arguments.
pub(crate) fn run<S: AsRef<OsStr>>(manager: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(SCOPECTL);
    command.args(["run", "--manager", manager]).args(arguments);
    command
}

/// The result of a command that is expected to end by itself.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn end(command: &mut Command) -> Ended {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
        .into()
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// The output of a command that ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }
}

/// Every test of what reaches the command is run both ways: the command is this process, and the command is a child of it.
pub(crate) fn both_ways(test: impl Fn(&str)) {
    let Some(manager) = manager() else { return };
    test(manager);
    test("embedded");
}
