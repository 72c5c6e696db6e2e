//! `-v`: the library's spans and events on stderr. They carry names and durations, never a command line or an environment.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

/// Starts logging if `-v` was given or `SCOPECTL_LOG` holds a filter (`scopectl=debug`), which then wins.
pub(super) fn start(verbosity: u8) {
    let wanted = match verbosity {
        0 => None,
        1 => Some("scopectl=debug"),
        _ => Some("trace"),
    };
    let filter = EnvFilter::try_from_env("SCOPECTL_LOG")
        .ok()
        .or_else(|| wanted.map(EnvFilter::new));
    if let Some(filter) = filter {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .init();
    }
}
