//! What `run` says on stderr. stdout is the command's.

use serde::Serialize;

use crate::cli::exit::say;

/// `--json`, `-q`, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Text,
    Json,
    Quiet,
}

/// The line of `--json`; the fields in this order.
#[derive(Serialize)]
pub(super) struct Started<'a> {
    pub(super) unit: &'a str,
    /// The `0::` path of `/proc/PID/cgroup`; null on a machine without cgroup2.
    pub(super) cgroup: Option<&'a str>,
    pub(super) pid: u32,
    pub(super) manager: &'a str,
}

pub(super) fn started(report: Report, started: &Started<'_>) {
    match report {
        Report::Quiet => {}
        Report::Text => say(&format!("running as unit: {}", started.unit)),
        // Strings and numbers always serialize.
        Report::Json => say(&serde_json::to_string(started).unwrap_or_default()),
    }
}

/// Says that `auto` came to the embedded manager.
pub(super) fn embedded(report: Report) {
    if report == Report::Text {
        say("scopectl: no systemd manager found, using an embedded one until the command ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_line_escapes_what_json_must_not_hold() {
        let line = serde_json::to_string(&Started {
            unit: "a\\x2d\"b.scope",
            cgroup: None,
            pid: 7,
            manager: "unix:path=/tmp/é\n",
        });
        assert_eq!(
            line.ok().as_deref(),
            Some(
                r#"{"unit":"a\\x2d\"b.scope","cgroup":null,"pid":7,"manager":"unix:path=/tmp/é\n"}"#
            )
        );
    }
}
