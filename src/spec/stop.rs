//! How a scope is ended.

use std::time::Duration;

/// How [`Scope::stop`](crate::Scope::stop) ends a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// Asks first, kills what is left.
    ///
    /// With both `None`, systemd's StopUnit does all of it: the unit's own `KillSignal=` (SIGTERM), then SIGKILL after its `TimeoutStopUSec=` (90 s where
    /// nothing else is configured).
    Graceful {
        /// The signal sent to every process; the unit's `KillSignal=` if only a timeout is given.
        signal: Option<i32>,
        /// How long to wait for the last process to end before SIGKILL; the unit's `TimeoutStopUSec=` if only a signal is given.
        timeout: Option<Duration>,
    },
    /// SIGKILL to everything at once: `cgroup.kill` (kernel 5.14), else a loop that reads the processes again until none is left.
    Kill,
}

impl Stop {
    /// systemd's own way, see [`Stop::Graceful`].
    pub const GRACEFUL: Self = Self::Graceful {
        signal: None,
        timeout: None,
    };
}
