use super::*;

const SYSTEMD: &str = "org.freedesktop.systemd1.";
const STANDARD: &str = "org.freedesktop.DBus.Error.";

fn systemd(name: &str, text: &str) -> Error {
    error("StartTransientUnit", &format!("{SYSTEMD}{name}"), text)
}

fn standard(name: &str, text: &str) -> Error {
    error("StartTransientUnit", &format!("{STANDARD}{name}"), text)
}

#[test]
fn each_answer_of_systemd_has_its_kind() {
    // The rows of what systemd 219 to 262 answer to the calls of this crate, texts of 252.
    for (error, kind) in [
        (
            systemd(
                "UnitExists",
                "Unit x.scope was already loaded or has a fragment file.",
            ),
            ErrorKind::UnitExists,
        ),
        (
            systemd("NoSuchUnit", "Unit x.scope not loaded."),
            ErrorKind::NoSuchUnit,
        ),
        (
            systemd("NoUnitForPID", "PID 7 does not belong to any loaded unit."),
            ErrorKind::NoSuchUnit,
        ),
        (
            systemd("NoSuchJob", "Job 7 does not exist."),
            ErrorKind::Refused,
        ),
        (
            systemd("NoSuchProcess", "scope units have no main processes"),
            ErrorKind::ProcessGone,
        ),
        (
            systemd(
                "ScopeNotRunning",
                "Scope x.scope is not running, cannot abandon.",
            ),
            ErrorKind::UnitNotReady,
        ),
        (
            systemd("UnitInactive", "Unit is not active"),
            ErrorKind::UnitNotReady,
        ),
        (
            systemd("UnitMasked", "Unit x.slice is masked."),
            ErrorKind::UnitNotReady,
        ),
        (
            systemd(
                "TransactionIsDestructive",
                "Transaction for x.scope/start is destructive",
            ),
            ErrorKind::Busy,
        ),
        (
            systemd("TransactionJobsConflicting", "conflicting"),
            ErrorKind::Busy,
        ),
        (
            systemd("ShuttingDown", "System is shutting down."),
            ErrorKind::Busy,
        ),
        (systemd("UnitBusy", "busy"), ErrorKind::Busy),
        (systemd("FrozenByParent", "frozen"), ErrorKind::Busy),
        (systemd("ConcurrencyLimitReached", "limit"), ErrorKind::Busy),
        (
            systemd(
                "JobTypeNotApplicable",
                "Job type reload is not applicable for unit x.scope.",
            ),
            ErrorKind::Refused,
        ),
        (systemd("LoadFailed", "failed"), ErrorKind::Refused),
        (systemd("BadUnitSetting", "bad"), ErrorKind::Refused),
        (systemd("OnlyByDependency", "no"), ErrorKind::Refused),
        (
            systemd("TransactionOrderIsCyclic", "cyclic"),
            ErrorKind::Refused,
        ),
        (systemd("NotReferenced", "no"), ErrorKind::Refused),
        (
            standard("InvalidArgs", "Invalid unit name or type."),
            ErrorKind::InvalidInput,
        ),
        (
            standard(
                "PropertyReadOnly",
                "Cannot set property PIDFDs, or unknown property.",
            ),
            ErrorKind::UnknownProperty,
        ),
        (
            standard("UnknownProperty", "Unknown property"),
            ErrorKind::UnknownProperty,
        ),
        (
            standard("UnixProcessIdUnknown", "Process with ID 7 does not exist."),
            ErrorKind::ProcessGone,
        ),
        (
            standard("FileNotFound", "Unit x.scope failed to load properly"),
            ErrorKind::Refused,
        ),
        (
            standard(
                "NotSupported",
                "Sorry, Controller= logic only supported via the bus.",
            ),
            ErrorKind::Refused,
        ),
        (
            standard("AccessDenied", "Permission denied"),
            ErrorKind::PermissionDenied,
        ),
        (standard("AuthFailed", "no"), ErrorKind::PermissionDenied),
        (
            standard(
                "InteractiveAuthorizationRequired",
                "Interactive authentication required.",
            ),
            ErrorKind::AuthorizationRequired,
        ),
        (standard("LimitsExceeded", "too many"), ErrorKind::Busy),
        (
            standard(
                "ServiceUnknown",
                "The name org.freedesktop.systemd1 was not provided by any .service files",
            ),
            ErrorKind::NoManager,
        ),
        (standard("NameHasNoOwner", "no owner"), ErrorKind::NoManager),
        (
            standard("Spawn.ChildExited", "exited"),
            ErrorKind::NoManager,
        ),
        (
            standard(
                "NoReply",
                "Message recipient disconnected from message bus without replying",
            ),
            ErrorKind::ConnectionLost,
        ),
        (standard("Timeout", "timeout"), ErrorKind::ConnectionLost),
        (
            standard("Disconnected", "disconnected"),
            ErrorKind::ConnectionLost,
        ),
        (
            error(
                "StartTransientUnit",
                "System.Error.ENXIO",
                "Failed to set unit properties: Unexpected message contents",
            ),
            ErrorKind::Refused,
        ),
        (
            error("StartTransientUnit", "System.Error.EPERM", "no"),
            ErrorKind::PermissionDenied,
        ),
        (
            error("StartTransientUnit", "System.Error.ESRCH", "no"),
            ErrorKind::ProcessGone,
        ),
    ] {
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.dbus_name().is_some());
        assert!(error.to_string().contains("StartTransientUnit"), "{error}");
    }
}

#[test]
fn an_unknown_name_is_a_refusal_that_keeps_name_and_text() {
    for name in [
        "org.freedesktop.systemd1.NotInventedYet",
        "org.freedesktop.DBus.Error.NotInventedYet",
        "com.example.Broken",
        "System.Error.EWHATEVER",
        "org.freedesktop.systemd1.UnitExistsNot",
        "",
    ] {
        let error = error("StopUnit", name, "It does not work.");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.dbus_name(), Some(name));
        assert_eq!(
            error.to_string(),
            format!("systemd refused StopUnit: It does not work ({name})")
        );
    }
}

#[test]
fn a_job_that_is_gone_is_told_by_a_call_and_by_a_property() {
    assert!(is_no_such_job(&systemd(
        "NoSuchJob",
        "Job 7 does not exist."
    )));
    assert!(is_no_such_job(&standard(
        "UnknownObject",
        "Unknown object '/org/freedesktop/systemd1/job/7'."
    )));
    assert!(!is_no_such_job(&systemd("NoSuchUnit", "x")));
}

#[test]
fn both_ways_in_which_zbus_reports_an_error_reply_are_read_alike() {
    let call = zbus::Message::method_call("/", "StopUnit")
        .build(&())
        .unwrap();
    let reply = |name: &str| {
        let reply = zbus::Message::error(&call.header(), name.to_owned())
            .build(&"the text")
            .unwrap();
        from_zbus("StopUnit", reply.into())
    };
    let standard = reply("org.freedesktop.DBus.Error.AccessDenied");
    assert_eq!(standard.kind(), ErrorKind::PermissionDenied);
    assert_eq!(
        standard.dbus_name(),
        Some("org.freedesktop.DBus.Error.AccessDenied")
    );
    let own = reply("org.freedesktop.systemd1.NoSuchUnit");
    assert_eq!(own.kind(), ErrorKind::NoSuchUnit);
    assert_eq!(own.dbus_name(), Some("org.freedesktop.systemd1.NoSuchUnit"));
    for error in [standard, own] {
        assert!(error.to_string().contains("the text"), "{error}");
    }
}

#[test]
fn a_broken_connection_is_a_lost_one() {
    for kind in [
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::InvalidData,
    ] {
        let error = from_zbus("StopUnit", io::Error::from(kind).into());
        assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    }
}
