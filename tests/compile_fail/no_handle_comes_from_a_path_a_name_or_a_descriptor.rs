//! Neither conversion nor parsing makes a handle.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

fn from<T: From<U>, U>() {}
fn try_from<T: TryFrom<U>, U>() {}
fn parse<T: std::str::FromStr>() {}

fn main() {
    from::<scopectl::Cgroup, &str>(); //~ E0277
    from::<scopectl::Cgroup, PathBuf>(); //~ E0277
    from::<scopectl::Cgroup, OwnedFd>(); //~ E0277
    from::<scopectl::Scope, scopectl::unit::ScopeName>(); //~ E0277
    try_from::<scopectl::Cgroup, &str>(); //~ E0277
    try_from::<scopectl::Cgroup, &Path>(); //~ E0277
    try_from::<scopectl::Scope, scopectl::unit::ScopeName>(); //~ E0277
    parse::<scopectl::Cgroup>(); //~ E0277
    parse::<scopectl::Scope>(); //~ E0277
}
