//! How a job ended: the `result` argument of the JobRemoved signal.

use std::fmt;

/// How a job ended, in systemd's own words.
///
/// Source: the `JobRemoved` signal in org.freedesktop.systemd1(5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobResult {
    /// The job succeeded.
    Done,
    /// It was cancelled, by a call or by a conflicting job.
    Canceled,
    /// Its own time limit passed.
    Timeout,
    /// The unit did not start or stop; for a scope: no process could be put inside.
    Failed,
    /// A unit that it depends on (for a scope: its slice) failed.
    Dependency,
    /// A condition of the unit was not met.
    Skipped,
    /// The job type does not apply.
    Invalid,
    /// An assertion of the unit was not met.
    Assert,
    /// The unit type is not supported on this machine.
    Unsupported,
    /// The job was garbage-collected (systemd 233 and later).
    Collected,
    /// The unit had run once and can't be started again (systemd 239 and later).
    Once,
    /// The unit or its slice is frozen (systemd 256 and later).
    Frozen,
    /// The slice's limit on active units was reached (systemd 258 and later).
    Concurrency,
    /// A result that this crate does not know; never a success.
    Other(String),
}

impl JobResult {
    /// Reads the signal's string.
    pub fn parse(text: &str) -> Self {
        match text {
            "done" => Self::Done,
            "canceled" => Self::Canceled,
            "timeout" => Self::Timeout,
            "failed" => Self::Failed,
            "dependency" => Self::Dependency,
            "skipped" => Self::Skipped,
            "invalid" => Self::Invalid,
            "assert" => Self::Assert,
            "unsupported" => Self::Unsupported,
            "collected" => Self::Collected,
            "once" => Self::Once,
            "frozen" => Self::Frozen,
            "concurrency" => Self::Concurrency,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The string that systemd uses.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Done => "done",
            Self::Canceled => "canceled",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Dependency => "dependency",
            Self::Skipped => "skipped",
            Self::Invalid => "invalid",
            Self::Assert => "assert",
            Self::Unsupported => "unsupported",
            Self::Collected => "collected",
            Self::Once => "once",
            Self::Frozen => "frozen",
            Self::Concurrency => "concurrency",
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
