//! The few units of the embedded manager, and the rest of its state directory.
//!
//! The manager gets its own unit path and no generators: with the machine's it would start gpg-agent and other sockets of the user.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

use super::child::INSIDE;

macro_rules! units {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../systemd-units/embedded/", $name))),)*]
    };
}

const UNITS: &[(&str, &str)] = units![
    "default.target",
    "basic.target",
    "sockets.target",
    "timers.target",
    "paths.target",
    "shutdown.target",
    "exit.target",
    "systemd-exit.service",
    "app.slice",
    "session.slice",
    "background.slice",
];

const BUS: &[(&str, &str)] = units!["dbus.socket", "dbus.service", "dbus.conf",];

/// Fills a state directory. `dbus_daemon` is its path as the manager sees it.
pub(super) fn write(state: &Path, dbus_daemon: Option<&str>) -> io::Result<()> {
    // `none` stays empty: it is the path of the generators.
    for name in ["run", "home", "none", "units"] {
        fs::DirBuilder::new().mode(0o700).create(state.join(name))?;
    }
    let units = state.join("units");
    for (name, text) in UNITS {
        fs::write(units.join(name), text)?;
    }
    if let Some(dbus_daemon) = dbus_daemon {
        for (name, text) in BUS {
            let text = text
                .replace("@DBUS_DAEMON@", dbus_daemon)
                .replace("@STATE@", INSIDE);
            fs::write(units.join(name), text)?;
        }
        for (target, unit) in [
            ("sockets.target", "dbus.socket"),
            ("default.target", "dbus.service"),
        ] {
            let wants = units.join(format!("{target}.wants"));
            fs::create_dir(&wants)?;
            symlink(format!("../{unit}"), wants.join(unit))?;
        }
    }
    Ok(())
}

/// The manager's whole environment.
pub(super) fn environment(bus: bool) -> Vec<String> {
    // In the order of systemd's own unit path. Without the last but one, transient units lose their settings at daemon-reload.
    let unit_path = [
        "home/.config/systemd/user.control",
        "run/systemd/user.control",
        "run/systemd/transient",
        "units",
    ]
    .map(|directory| format!("{INSIDE}/{directory}"))
    .join(":");
    let mut environment = vec![
        format!("HOME={INSIDE}/home"),
        format!("XDG_RUNTIME_DIR={INSIDE}/run"),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        format!("SYSTEMD_UNIT_PATH={unit_path}"),
        format!("SYSTEMD_GENERATOR_PATH={INSIDE}/none"),
        format!("SYSTEMD_ENVIRONMENT_GENERATOR_PATH={INSIDE}/none"),
        "SYSTEMD_LOG_TARGET=console".into(),
        "SYSTEMD_LOG_LEVEL=warning".into(),
        "SYSTEMD_LOG_COLOR=0".into(),
    ];
    if bus {
        environment.push(format!(
            "DBUS_SESSION_BUS_ADDRESS=unix:path={INSIDE}/run/bus"
        ));
    }
    environment
}
