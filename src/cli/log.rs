//! `-v`: the library's spans and events on stderr. They carry names and durations, never a command line or an environment.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Starts logging if `-v` was given or `SCOPECTL_LOG` holds a filter (`scopectl=debug`), which then wins.
pub(super) fn start(verbosity: u8) {
    let wanted = match verbosity {
        0 => None,
        1 => Some("scopectl=debug"),
        _ => Some("scopectl=trace"),
    };
    let given = std::env::var("SCOPECTL_LOG").ok();
    let Some(filter) = given.as_deref().or(wanted) else {
        return;
    };
    // Not `EnvFilter`, which brings a whole regular expression engine along.
    let Ok(targets) = filter.parse::<Targets>() else {
        return;
    };
    tracing_subscriber::registry()
        .with(
            tracing_subscriber::fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal()),
        )
        .with(targets)
        .init();
}
