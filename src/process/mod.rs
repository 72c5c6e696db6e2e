//! process
pub struct Process;
