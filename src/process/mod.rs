//! A process that is held fast: by pidfd and start time, so that a pid which the kernel gives out again is never mistaken for it.

mod descendants;
mod handle;
mod open;
mod stat;

pub use handle::Process;
pub(crate) use handle::State;
