//! The whole command: `scopectl run -q true` against `systemd-run --scope -q true`.
//!
//! Both talk to the same embedded manager through its private socket (systemd-run takes that one by itself when
//! XDG_RUNTIME_DIR names the manager's), with the same CollectMode and environment, and put themselves into a scope
//! before they execute `true`. Timed is from the fork to the end of the process. Turns rotate, so that each contender
//! comes after each other one equally often.
//!
//! The third contender is a minimal C client that does the same and verifies nothing: most of the time is systemd's own
//! (it takes a new connection, makes the scope, clears away the one before), and this shows how much.
//!
//! `cargo bench --bench run`, or `SCOPECTL_BENCH_PAIRS=1000 cargo bench --bench run`. Needs root and systemd; a C
//! compiler, pkg-config and libsystemd's headers for the third.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    Outcome, PAUSES, Sample, WARM_UP, build_peer, is_bench_run, pace, pairs, report, rest,
};
use scopectl::embedded::Embedded;

/// The project's targets for the ratio of the medians: back to back, and with pauses, where the kernel's move of the
/// process is most of the time and the same for all.
const TARGETS: [f64; 2] = [0.5, 0.9];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contender {
    Scopectl,
    SystemdRun,
    Sdbus,
}

fn main() -> Outcome<()> {
    if !is_bench_run() {
        return Ok(());
    }
    let rounds = pairs(300)?;
    if let Err(error) = Command::new("systemd-run")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
    {
        println!("skipped: systemd-run cannot be executed: {error}");
        return Ok(());
    }
    let scopectl = build_scopectl()?;
    let mut contenders = vec![Contender::Scopectl, Contender::SystemdRun];
    let peer = match build_peer() {
        Ok(peer) => {
            contenders.push(Contender::Sdbus);
            peer
        }
        Err(reason) => {
            println!("skipped: the C client cannot be built: {reason}");
            PathBuf::new()
        }
    };
    let embedded = Embedded::builder().bus(false).start()?;
    let address = embedded.private_address();
    let runtime_dir = address
        .strip_prefix("unix:path=")
        .and_then(|path| Path::new(path).parent()?.parent())
        .ok_or_else(|| format!("{address} is not the address of a private socket"))?;

    for (pause, target) in PAUSES.into_iter().zip(TARGETS) {
        let mut samples = [Sample::default(), Sample::default(), Sample::default()];
        let rounds = if pause.is_zero() {
            rounds
        } else {
            rounds.div_ceil(3)
        };
        for round in 0..WARM_UP + rounds {
            for turn in 0..contenders.len() {
                // Forwards and backwards by turns: each follows each.
                let at = (round + turn) % contenders.len();
                let at = if round % 2 == 0 {
                    at
                } else {
                    contenders.len() - 1 - at
                };
                let contender = contenders[at];
                let mut command = match contender {
                    Contender::Scopectl => scopectl_run(&scopectl, address),
                    Contender::SystemdRun => systemd_run(),
                    Contender::Sdbus => sdbus(&peer, address),
                };
                command
                    .env_clear()
                    .env("XDG_RUNTIME_DIR", runtime_dir)
                    .env("PATH", "/usr/bin:/bin");
                rest(pause, round);
                let time = time(&mut command)?;
                if round >= WARM_UP {
                    samples[contender as usize].push(time);
                }
            }
        }
        let title = format!("run, private socket, {}", pace(pause));
        let [ours, systemd_run, sdbus] = &samples;
        report(&title, ours, "systemd-run", systemd_run, Some(target));
        if contenders.contains(&Contender::Sdbus) {
            report(&title, ours, "C sd-bus", sdbus, None);
        }
    }
    Ok(())
}

/// The command as it is installed. The one that cargo builds for a bench has the features of the tests' dependencies as well.
fn build_scopectl() -> Outcome<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain");
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--bin",
            "scopectl",
        ])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&directory)
        .status()?;
    if !status.success() {
        return Err("scopectl cannot be built".into());
    }
    Ok(directory.join("release/scopectl"))
}

fn scopectl_run(binary: &Path, address: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(["run", "--manager", address, "--collect", "-q", "--", "true"]);
    command
}

fn systemd_run() -> Command {
    let mut command = Command::new("systemd-run");
    command.args(["--user", "--scope", "--collect", "-q", "--", "true"]);
    command
}

fn sdbus(peer: &Path, address: &str) -> Command {
    let mut command = Command::new(peer);
    command.args(["--private", "--address", address]);
    command.args(["--property", "Description:s:true"]);
    command.args(["--property", "CollectMode:s:inactive-or-failed"]);
    command.args(["--exec", "true"]);
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
