//! For tests, those in `tests/` as well: how one says that it cannot run on this machine.

use std::fmt::Display;

/// Says on stderr why the calling test does not run. Where `SCOPECTL_TEST_NO_SKIP` is set, which is where everything that a test needs should be there (root,
/// cgroup2, systemd's tools), it fails instead.
#[track_caller]
pub(crate) fn skip(reason: impl Display) {
    assert!(
        std::env::var_os("SCOPECTL_TEST_NO_SKIP").is_none(),
        "cannot run here, and SCOPECTL_TEST_NO_SKIP is set: {reason}"
    );
    eprintln!("skipped: {reason}");
}
