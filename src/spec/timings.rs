//! How long each step of a start took.

use std::time::Duration;

/// How long each step of a start took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Timings {
    /// Waiting behind other starts of the same `Manager`.
    pub queued: Duration,
    /// Making a connection; zero when there was one.
    pub connect: Duration,
    /// From sending StartTransientUnit to its reply.
    pub call: Duration,
    /// From the reply to JobRemoved.
    pub job: Duration,
    /// Making sure that the processes are inside.
    pub verify: Duration,
}

impl Timings {
    /// The whole start, the queue included.
    pub fn total(&self) -> Duration {
        [self.connect, self.call, self.job, self.verify]
            .iter()
            .fold(self.queued, |sum, step| sum.saturating_add(*step))
    }
}
