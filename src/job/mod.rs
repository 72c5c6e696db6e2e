//! systemd's jobs: how one ends, and the table of those that are waited for. Pure.

mod result;
mod table;

pub use result::JobResult;
pub(crate) use table::{JobTable, Replied, Ticket, WaiterId};
