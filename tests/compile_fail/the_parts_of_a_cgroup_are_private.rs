//! Of the module `cgroup` only the handles are public.

use scopectl::cgroup::Dir; //~ E0603
use scopectl::cgroup::Hierarchy; //~ E0603
use scopectl::cgroup::ManagerRoot; //~ E0603
use scopectl::cgroup::handle::Cgroup; //~ E0603

fn main() {}
