//! The library against a systemd that misbehaves on demand.
//!
//! The manager on the other side of the socket is a [`fake`], so that order, delay and loss are in the test's hand. What it does in the cgroup tree is real: the
//! library's look at the kernel after each job meets real processes in real directories. So these tests need root and a cgroup2 mount.
//!
//! Every test runs within a bound, and every wait in it is for something that happens, never for time to pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cgroups;
mod dropped;
mod exists;
mod expiry;
mod fake;
mod hour;
mod inside;
mod lab;
mod links;
mod owner;
mod queue;
mod replies;
mod results;
mod signals;
mod stop;
mod undo;
