//! Systemd transient scopes and slices, with the cgroup touched only after systemd's job is done.

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
