//! Systemd transient scopes and slices, with the cgroup touched only after systemd's job is done.

mod bus;
pub mod cgroup;
mod error;
mod job;
mod process;
mod property;
mod spec;
mod sys;
pub mod unit;

#[cfg(feature = "embedded")]
pub mod embedded;

pub use error::{Error, ErrorKind, Phase, Result, Undo};
pub use job::JobResult;
pub use process::Process;
pub use spec::{ScopeSpec, Timings};
