//! The module `cgroup` is private; what is public of it is re-exported.

use scopectl::cgroup::Dir; //~ E0603
use scopectl::cgroup::Hierarchy; //~ E0603
use scopectl::cgroup::ManagerRoot; //~ E0603
use scopectl::cgroup::handle::Cgroup; //~ E0603

fn main() {}
