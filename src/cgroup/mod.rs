//! Cgroups, reached through directory handles.
//!
//! [`Cgroup`] is the cgroup of a unit that was proven to be there: it reads, takes in a process, kills. It comes from a scope alone, never from a path, so that
//! nobody can touch a cgroup before systemd is done with it. [`CgroupView`] reads any cgroup, by path, and changes nothing.
//!
//! Only cgroup2 is read and written so far. The paths of version 1 hierarchies are known for each process; the handles for them have their place beside these.

mod dir;
mod events;
mod explain;
mod files;
mod handle;
mod hierarchy;
mod kill;
mod manager_root;
mod mounts;
mod ns_path;
mod proc_cgroup;
mod procs;
mod remove;
#[cfg(test)]
pub(crate) mod testing;
mod unit_path;
mod view;

pub(crate) use dir::Dir;
pub use events::Events;
pub use handle::Cgroup;
pub(crate) use hierarchy::Hierarchy;
pub(crate) use manager_root::ManagerRoot;
pub(crate) use proc_cgroup::{ProcCgroup, unit_path_of};
pub(crate) use remove::remove_tree;
pub(crate) use unit_path::UnitPath;
pub use view::CgroupView;
