//! What to start: plain values, no file descriptors. Pure.

mod body;
mod limit;
mod nonce;
mod scope;
mod stop;
mod timings;
mod usec;

pub(crate) use body::{StartPlan, not_the_managers};
pub(crate) use limit::check_limit;
pub(crate) use nonce::{Nonce, is_marked, parse};
pub use scope::{CollectMode, Descendants, IfExists, ScopeSpec};
pub use stop::Stop;
pub use timings::Timings;
