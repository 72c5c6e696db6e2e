//! What to start: plain values, no file descriptors. Pure.

mod scope;
mod timings;

pub use scope::ScopeSpec;
pub use timings::Timings;
