//! A private systemd manager on any machine: a real `systemd --user`, in a cgroup and in namespaces of its own.
//!
//! Containers, CI machines and tests often have no systemd as process 1. [`Embedded::start`] gives them one that answers after about a tenth of a second, does
//! not touch the machine's units, files or mounts, and leaves nothing behind when it ends, however it ends:
//!
//! * a fresh cgroup `scopectl-PID-RANDOM` at the root of the caller's cgroup2 mount (below the caller's own cgroup where that cannot be) holds the manager and
//!   all that it starts;
//! * a mount namespace of its own, with that cgroup on `/sys/fs/cgroup` and a tmpfs on `/run`; nothing mounted there reaches the machine;
//! * a state directory (0700) with the runtime directory, the few units and the log; its sockets can be reached from outside;
//! * a guardian process that kills the cgroup and removes all of it when the parent or the manager is gone. If the guardian dies too, the next start does it.
//!
//! Needs root with CAP_SYS_ADMIN, a writable cgroup2 mount, kernel 5.9 and systemd 247 or later, installed or in another root directory. Where the controllers
//! sit on cgroup v1 (hybrid machines), units have no resource limits.

mod child;
mod guardian;
mod instance;
mod launch;
mod options;
mod places;
mod remains;
mod state;
mod sweep;
mod units;

pub use instance::Embedded;
pub use options::Builder;
