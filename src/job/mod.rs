//! systemd's jobs: how one ends, and the table of those that are waited for. Pure.

mod result;

pub use result::JobResult;
