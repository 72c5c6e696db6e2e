//! The whole command: `scopectl run -q true` against `systemd-run --scope -q true`.
//!
//! Both talk to the same embedded manager through its private socket (systemd-run takes that one by itself when
//! XDG_RUNTIME_DIR names the manager's), with the same CollectMode and environment, and put themselves into a scope
//! before they execute `true`. Timed is from the fork to the end of the process. Single runs alternate, each first in
//! every other pair.
//!
//! `cargo bench --bench run`, or `SCOPECTL_BENCH_PAIRS=1000 cargo bench --bench run`. Needs root and systemd.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Outcome, PAUSES, Sample, WARM_UP, is_bench_run, pace, pairs, report, rest};
use scopectl::embedded::Embedded;

/// The project's targets for the ratio of the medians: back to back, and with pauses, where the kernel's move of the
/// process is most of the time and the same for both.
const TARGETS: [f64; 2] = [0.5, 0.9];

fn main() -> Outcome<()> {
    if !is_bench_run() {
        return Ok(());
    }
    let pairs = pairs(300)?;
    if let Err(error) = Command::new("systemd-run")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
    {
        println!("skipped: systemd-run cannot be executed: {error}");
        return Ok(());
    }
    let embedded = Embedded::start()?;
    let address = embedded.private_address();
    let runtime_dir = address
        .strip_prefix("unix:path=")
        .and_then(|path| Path::new(path).parent()?.parent())
        .ok_or_else(|| format!("{address} is not the address of a private socket"))?;

    for (pause, target) in PAUSES.into_iter().zip(TARGETS) {
        let mut ours = Sample::default();
        let mut theirs = Sample::default();
        let pairs = if pause.is_zero() {
            pairs
        } else {
            pairs.div_ceil(3)
        };
        for pair in 0..WARM_UP + pairs {
            for turn in 0..2 {
                let is_ours = (pair + turn) % 2 == 0;
                let mut command = if is_ours {
                    scopectl(address)
                } else {
                    systemd_run()
                };
                command
                    .env_clear()
                    .env("XDG_RUNTIME_DIR", runtime_dir)
                    .env("PATH", "/usr/bin:/bin");
                rest(pause, pair);
                let time = time(&mut command)?;
                if pair >= WARM_UP {
                    if is_ours { &mut ours } else { &mut theirs }.push(time);
                }
            }
        }
        let title = format!("run, private socket, {}", pace(pause));
        report(&title, &ours, "systemd-run", &theirs, Some(target));
    }
    Ok(())
}

fn scopectl(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scopectl"));
    command.args(["run", "--manager", address, "--collect", "-q", "--", "true"]);
    command
}

fn systemd_run() -> Command {
    let mut command = Command::new("systemd-run");
    command.args(["--user", "--scope", "--collect", "-q", "--", "true"]);
    command
}

fn time(command: &mut Command) -> Outcome<Duration> {
    command.stdin(Stdio::null());
    let begin = Instant::now();
    let status = command.status()?;
    let time = begin.elapsed();
    if status.success() {
        Ok(time)
    } else {
        Err(format!("{command:?} ended with {status}").into())
    }
}
