//! The one error type of the crate.
//!
//! An [`Error`] is a sentence for a person and a [`kind`](Error::kind) for a program. Types of the libraries underneath never appear here; their messages are
//! kept as the [`source`](std::error::Error::source).

use std::fmt;

use crate::job::JobResult;
use crate::spec::Timings;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, and at what.
///
/// `Display` is one lower-case sentence that names the unit, property, path or value, and says what to do.
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Clone, thiserror::Error)]
#[error("{message}")]
struct Inner {
    kind: ErrorKind,
    message: String,
    unit: Option<String>,
    phase: Option<Phase>,
    dbus_name: Option<String>,
    job_result: Option<JobResult>,
    timings: Option<Timings>,
    undo: Option<Undo>,
    /// For people who follow the chain; its type is no part of the contract.
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A unit, scope or slice name that systemd would refuse.
    InvalidName,
    /// Another argument that cannot be used (address, duration, path, property value).
    InvalidInput,
    /// No systemd manager could be found or reached; the message lists what was tried.
    NoManager,
    /// The connection to the manager was lost and could not be made again in time.
    ConnectionLost,
    /// The caller may not do this.
    PermissionDenied,
    /// The policy wants an interactive authorization, which was not asked for.
    AuthorizationRequired,
    /// A unit of this name exists and the policy did not allow to go on.
    UnitExists,
    /// No unit of this name is loaded.
    NoSuchUnit,
    /// The unit exists but is not in a state (active, no job pending) that the operation needs.
    UnitNotReady,
    /// systemd ran the job and it did not end in `done`; see [`Error::job_result`].
    JobFailed,
    /// The overall deadline passed; the message says what was found then.
    Timeout,
    /// The start was not admitted in time: too many starts were in flight before it.
    QueueTimeout,
    /// The manager did not answer a call within the call deadline.
    CallTimeout,
    /// A process has ended, or ended before it was inside the unit.
    ProcessGone,
    /// A process that can never be put in a unit (0, 1, a kernel thread, another pid namespace).
    ProcessRefused,
    /// A process that is in another unit, and moving it was not allowed.
    ProcessElsewhere,
    /// Descendants of a process stayed outside the unit.
    DescendantsOutside,
    /// The manager does not know or does not accept a property.
    UnknownProperty,
    /// The manager is shutting down, or a conflicting job is queued.
    Busy,
    /// Any other refusal of the manager; see [`Error::dbus_name`].
    Refused,
    /// The cgroup is gone.
    CgroupGone,
    /// The cgroup exists, but not below any cgroup file system that the caller has mounted.
    CgroupUnreachable,
    /// A cgroup file could not be read or written.
    Cgroup,
    /// A file or another system resource could not be used.
    Io,
    /// A handle was used in a forked copy of the process that it belongs to.
    Forked,
    /// The private systemd instance could not be started or ended.
    Embedded,
}

/// The step at which an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Checking the arguments and the processes, before anything was sent.
    Validate,
    /// Waiting behind other starts.
    Queue,
    /// Connecting to the manager.
    Connect,
    /// The method call.
    Call,
    /// Waiting for the job's end.
    Job,
    /// Making sure that the processes are inside.
    Verify,
    /// Ending a unit.
    Stop,
}

/// What undoing a failed start did with the processes that were handed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undo {
    /// Put back into the cgroup that they came from.
    pub moved_back: Vec<u32>,
    /// Left inside the unit, which then stays (their old cgroup is gone, or may not be written).
    pub left_inside: Vec<u32>,
    /// Whether the unit was stopped (it was empty) and its name is free.
    pub unit_stopped: bool,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            unit: None,
            phase: None,
            dbus_name: None,
            job_result: None,
            timings: None,
            undo: None,
            source: None,
        }))
    }

    pub(crate) fn with_source(
        mut self,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        self.0.source = Some(std::sync::Arc::new(source));
        self
    }

    pub(crate) fn with_unit(mut self, unit: impl Into<String>) -> Self {
        self.0.unit.get_or_insert_with(|| unit.into());
        self
    }

    pub(crate) fn at(mut self, phase: Phase) -> Self {
        self.0.phase.get_or_insert(phase);
        self
    }

    pub(crate) fn with_dbus_name(mut self, name: impl Into<String>) -> Self {
        self.0.dbus_name = Some(name.into());
        self
    }

    pub(crate) fn with_job_result(mut self, result: JobResult) -> Self {
        self.0.job_result = Some(result);
        self
    }

    pub(crate) fn with_timings(mut self, timings: Timings) -> Self {
        self.0.timings = Some(timings);
        self
    }

    /// The same, with what else was tried in vain.
    pub(crate) fn and_then_tried(mut self, other: &Self) -> Self {
        self.0.message.push_str("; ");
        self.0.message.push_str(&other.0.message);
        self
    }

    /// Adds what the undo did, to the value and to the sentence.
    pub(crate) fn with_undo(mut self, undo: Undo) -> Self {
        let text = undo.to_string();
        if !text.is_empty() {
            self.0.message.push_str("; ");
            self.0.message.push_str(&text);
        }
        self.0.undo = Some(undo);
        self
    }

    /// The manager or the way to it went away, so that the same question on a new connection may be answered.
    pub(crate) fn is_lost_connection(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::ConnectionLost | ErrorKind::NoManager
        )
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The unit that the operation was about.
    pub fn unit(&self) -> Option<&str> {
        self.0.unit.as_deref()
    }

    /// The step that failed.
    pub fn phase(&self) -> Option<Phase> {
        self.0.phase
    }

    /// The D-Bus error name that the manager or the bus answered with, such as `org.freedesktop.systemd1.UnitExists`.
    pub fn dbus_name(&self) -> Option<&str> {
        self.0.dbus_name.as_deref()
    }

    /// How systemd's job ended, if it did not end in `done`.
    pub fn job_result(&self) -> Option<&JobResult> {
        self.0.job_result.as_ref()
    }

    /// How long each step took until the failure.
    pub fn timings(&self) -> Option<&Timings> {
        self.0.timings.as_ref()
    }

    /// What became of the processes, where a start failed after they may have been moved.
    pub fn undo(&self) -> Option<&Undo> {
        self.0.undo.as_ref()
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::ConnectionLost
                | ErrorKind::Timeout
                | ErrorKind::QueueTimeout
                | ErrorKind::CallTimeout
                | ErrorKind::Busy
        )
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.moved_back.is_empty() {
            parts.push(format!(
                "put back into their old cgroup: {}",
                list(&self.moved_back)
            ));
        }
        if !self.left_inside.is_empty() {
            parts.push(format!("left inside the unit: {}", list(&self.left_inside)));
        }
        f.write_str(&parts.join("; "))
    }
}

fn list(pids: &[u32]) -> String {
    let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
    format!("process {}", numbers.join(", "))
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.kind)
            .field("message", &self.message);
        if let Some(unit) = &self.unit {
            out.field("unit", unit);
        }
        if let Some(phase) = &self.phase {
            out.field("phase", phase);
        }
        if let Some(name) = &self.dbus_name {
            out.field("dbus_name", name);
        }
        if let Some(result) = &self.job_result {
            out.field("job_result", result);
        }
        if let Some(timings) = &self.timings {
            out.field("timings", timings);
        }
        if let Some(undo) = &self.undo {
            out.field("undo", undo);
        }
        if let Some(source) = &self.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_and_can_cross_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn the_cause_can_be_followed_and_the_sentence_stays_one() {
        use std::error::Error as _;
        let cause = std::io::Error::other("the cause");
        let error = Error::new(ErrorKind::Io, "it failed").with_source(cause);
        assert_eq!(error.to_string(), "it failed");
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("the cause")
        );
    }

    #[test]
    fn the_sentence_says_where_an_undo_left_the_processes() {
        let error = Error::new(ErrorKind::ProcessGone, "process 7 ended").with_undo(Undo {
            moved_back: vec![8],
            left_inside: vec![9, 10],
            unit_stopped: false,
        });
        assert_eq!(
            error.to_string(),
            "process 7 ended; put back into their old cgroup: process 8; left inside the unit: process 9, 10"
        );
    }
}
