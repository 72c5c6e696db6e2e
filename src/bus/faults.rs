//! The one place where D-Bus errors become ours: by name, never by text.
//!
//! Sources: systemd's bus-common-errors.h (`org.freedesktop.systemd1.*`), the D-Bus specification and dbus-protocol.h (`org.freedesktop.DBus.Error.*`), and `System.Error.*`, which
//! is how sd-bus passes on an errno that has no D-Bus name.

use std::io;

use zbus::DBusError;

use crate::{Error, ErrorKind};

const NO_SUCH_JOB: &str = "org.freedesktop.systemd1.NoSuchJob";
const UNKNOWN_OBJECT: &str = "org.freedesktop.DBus.Error.UnknownObject";

/// The error for an error reply: `what` is the call ("StartTransientUnit"), `name` and `text` are the reply's.
pub(crate) fn error(what: &str, name: &str, text: &str) -> Error {
    let kind = kind(name);
    let text = text.trim().trim_end_matches('.');
    let text = if text.is_empty() {
        "no reason given"
    } else {
        text
    };
    let sentence = match kind {
        ErrorKind::NoManager => format!("no systemd manager answers on this bus ({what}): {text}"),
        ErrorKind::ConnectionLost => format!("systemd went away before it answered {what}: {text}"),
        ErrorKind::AuthorizationRequired => {
            format!(
                "systemd wants an interactive authorization for {what}: run this as root, or let the policy allow it"
            )
        }
        ErrorKind::PermissionDenied => format!("the caller may not use {what}: {text}"),
        ErrorKind::Refused => format!("systemd refused {what}: {text} ({name})"),
        _ => format!("systemd refused {what}: {text}"),
    };
    Error::new(kind, sentence).with_dbus_name(name)
}

fn kind(name: &str) -> ErrorKind {
    if let Some(systemd) = name.strip_prefix("org.freedesktop.systemd1.") {
        return match systemd {
            "UnitExists" => ErrorKind::UnitExists,
            "NoSuchUnit" | "NoUnitForPID" | "NoUnitForInvocationID" => ErrorKind::NoSuchUnit,
            "NoSuchProcess" => ErrorKind::ProcessGone,
            "ScopeNotRunning" | "UnitInactive" | "UnitMasked" => ErrorKind::UnitNotReady,
            "TransactionIsDestructive"
            | "TransactionJobsConflicting"
            | "ShuttingDown"
            | "UnitBusy"
            | "FrozenByParent"
            | "ConcurrencyLimitReached" => ErrorKind::Busy,
            _ => ErrorKind::Refused,
        };
    }
    if let Some(standard) = name.strip_prefix("org.freedesktop.DBus.Error.") {
        return match standard {
            "AccessDenied" | "AuthFailed" => ErrorKind::PermissionDenied,
            "InteractiveAuthorizationRequired" => ErrorKind::AuthorizationRequired,
            // How a setting that this version does not have, or not for this unit type, is answered; PropertyReadOnly by all versions up to now.
            "PropertyReadOnly" | "UnknownProperty" => ErrorKind::UnknownProperty,
            "UnixProcessIdUnknown" => ErrorKind::ProcessGone,
            "InvalidArgs" | "InvalidSignature" => ErrorKind::InvalidInput,
            "LimitsExceeded" => ErrorKind::Busy,
            "ServiceUnknown" | "NameHasNoOwner" => ErrorKind::NoManager,
            "NoReply" | "Timeout" | "TimedOut" | "Disconnected" | "NoServer" => {
                ErrorKind::ConnectionLost
            }
            spawn if spawn.starts_with("Spawn.") => ErrorKind::NoManager,
            _ => ErrorKind::Refused,
        };
    }
    match name {
        "System.Error.EPERM" | "System.Error.EACCES" => ErrorKind::PermissionDenied,
        "System.Error.ESRCH" => ErrorKind::ProcessGone,
        "System.Error.EAGAIN" | "System.Error.EBUSY" => ErrorKind::Busy,
        _ => ErrorKind::Refused,
    }
}

/// Whether a job that was asked for does not exist (any more): CancelJob has a name for that, a property of the job's object does not.
pub(crate) fn is_no_such_job(error: &Error) -> bool {
    matches!(error.dbus_name(), Some(NO_SUCH_JOB | UNKNOWN_OBJECT))
}

/// The error for whatever zbus reports of a call.
pub(super) fn from_zbus(what: &str, error: zbus::Error) -> Error {
    match &error {
        zbus::Error::MethodError(name, text, _) => {
            self::error(what, name.as_str(), text.as_deref().unwrap_or_default())
        }
        zbus::Error::FDO(reply) => match &**reply {
            zbus::fdo::Error::ZBus(inner) => from_zbus(what, inner.clone()),
            reply => self::error(
                what,
                reply.name().as_str(),
                reply.description().unwrap_or_default(),
            ),
        },
        zbus::Error::InputOutput(cause) => from_io(what, cause).with_source(error),
        zbus::Error::Unsupported => Error::new(
            ErrorKind::Refused,
            format!("{what} needs file descriptors, which this bus does not pass on"),
        ),
        _ => Error::new(
            ErrorKind::Refused,
            format!("the exchange of {what} failed: {error}"),
        )
        .with_source(error),
    }
}

fn from_io(what: &str, cause: &io::Error) -> Error {
    match cause.kind() {
        // Made by our own transport, before anything was sent.
        io::ErrorKind::InvalidInput => Error::new(
            ErrorKind::InvalidInput,
            format!("{what} could not be sent: {cause}"),
        ),
        io::ErrorKind::InvalidData => Error::new(
            ErrorKind::ConnectionLost,
            format!("the connection was given up during {what}: {cause}"),
        ),
        _ => lost(what),
    }
}

/// The error of a call on a connection that has ended.
pub(super) fn lost(what: &str) -> Error {
    Error::new(
        ErrorKind::ConnectionLost,
        format!("the connection to the manager ended before {what} was answered"),
    )
}

/// The error of a call that was not answered by its deadline.
pub(super) fn no_answer(what: &str) -> Error {
    Error::new(
        ErrorKind::CallTimeout,
        format!(
            "systemd did not answer {what} within the call deadline; it may be busy, reloading or stopped"
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#[path = "faults_tests.rs"]
mod tests;
