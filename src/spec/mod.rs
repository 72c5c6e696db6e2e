//! What to start: plain values, no file descriptors. Pure.

mod body;
mod nonce;
mod scope;
mod stop;
mod timings;

pub(crate) use body::StartPlan;
pub(crate) use nonce::{Nonce, is_marked};
pub use scope::{CollectMode, Descendants, IfExists, ScopeSpec};
pub use stop::Stop;
pub use timings::Timings;
