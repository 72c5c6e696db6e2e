//! Systemd transient scopes, with the cgroup touched only after systemd's job is done.
//!
//! A *scope* is a unit for processes that systemd did not start itself. A client asks for one with `StartTransientUnit`, and that call only queues work: while
//! the job runs, systemd creates the unit's cgroup, removes what it takes for left over, and moves the processes. Whoever touches the directory before the job
//! has ended meets `ENOENT` or `ENODEV`, or runs a process in the wrong cgroup without any error.
//!
//! So the order is fixed here, and the types carry it:
//!
//! ```text
//! check -> match JobRemoved -> StartTransientUnit -> JobRemoved(done) -> is each process inside? -> Scope -> Cgroup
//! ```
//!
//! [`Manager::connect`] reaches a systemd instance, [`Manager::start_scope`] goes through the order above for a [`ScopeSpec`] and some [`Process`]es, and
//! the [`Scope`] that it gives is the only way to a [`Cgroup`]. [`CgroupView`] looks at any cgroup and changes none.
//!
//! ```no_run
//! # async fn example(pid: u32) -> scopectl::Result<()> {
//! use scopectl::{Instance, Manager, Process, ScopeSpec, Stop};
//!
//! let manager = Manager::connect(Instance::Auto).await?;
//! let scope = manager
//!     .start_scope(&ScopeSpec::new("task-42.scope"), [Process::open(pid)?])
//!     .await?;
//! println!("inside: {}", scope.cgroup()?.path().display());
//! scope.stop(Stop::GRACEFUL).await?;
//! # Ok(()) }
//! ```
//!
//! # What it needs
//!
//! A tokio runtime with I/O and time, Linux 5.6 with cgroup2, systemd 247 or later. Operations outside of a runtime, and on a handle in a forked copy of the
//! process, are typed errors.
//!
//! # When something goes wrong
//!
//! An [`Error`] has a [kind](Error::kind) for programs and one sentence for people. A start that fails is undone without harm to the processes
//! ([`Error::undo`] says where they are). Every wait is bounded. A future that is dropped detaches: what it had begun is brought to an end in the background,
//! and undone.
//!
//! # Features
//!
//! `cli` (default) is the command `scopectl`; `embedded` is a private systemd for containers, CI and tests.

mod bus;
mod cgroup;
mod client;
mod error;
mod job;
mod manager;
mod process;
mod property;
mod random;
mod scope;
#[cfg(test)]
mod skip;
mod spec;
mod sys;
pub mod unit;

#[cfg(feature = "embedded")]
pub mod embedded;

pub use cgroup::{Cgroup, CgroupView, Events};
pub use error::{Error, ErrorKind, Phase, Result, Undo};
pub use job::JobResult;
pub use manager::{Connect, Instance, Load, Manager, Transport};
pub use process::Process;
pub use scope::Scope;
pub use spec::{CollectMode, Descendants, IfExists, ScopeSpec, Stop, Timings};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
