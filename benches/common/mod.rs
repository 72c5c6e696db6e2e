//! What the benches share: samples and their order statistics, how often to measure, and what the machine was doing.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pairs that are measured and thrown away first: page cache, systemd's own allocations, the first slice.
pub(crate) const WARM_UP: usize = 10;

/// The pauses before each contender's turn. Moving a process between cgroups waits for an RCU grace period unless another
/// move has just happened, so a benchmark without pauses hides most of what a start costs on a quiet machine.
pub(crate) const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(50)];

/// A grace period ends on a tick of the kernel's clock (up to 10 ms apart), and so does what waited for it. After a pause of always the same length the next
/// start would meet the tick always at the same distance, and a contender that is faster by less than that could not be seen to be. So pauses are longer by a
/// part of this, the same for both of a pair and spread evenly over the pairs.
const TICK: Duration = Duration::from_millis(10);

/// Waits before a turn of pair number `pair`.
pub(crate) fn rest(pause: Duration, pair: usize) {
    if pause.is_zero() {
        return;
    }
    // Multiples of the golden ratio leave no gap and favour no phase.
    let part = (pair as f64 * 0.618_033_988_75).fract();
    std::thread::sleep(pause + TICK.mul_f64(part));
}

/// The times of one contender.
#[derive(Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The smallest time that `percent` of all times do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.0.clone();
        times.sort_unstable();
        let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
        times.get(rank).copied().unwrap_or_default()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:5} starts", self.0.len())?;
        for percent in [50, 90, 99] {
            let time = self.percentile(percent).as_secs_f64() * 1e3;
            write!(f, "   p{percent} {time:7.3} ms")?;
        }
        Ok(())
    }
}

/// Prints two samples and the ratio of their medians. `target` is what the project set itself, not a condition.
pub(crate) fn report(
    title: &str,
    ours: &Sample,
    peer_name: &str,
    peer: &Sample,
    target: Option<f64>,
) {
    let ratio = ours.percentile(50).as_secs_f64() / peer.percentile(50).as_secs_f64();
    println!("\n{title}   (load {})", load());
    println!("  {:12} {ours}", "scopectl");
    println!("  {peer_name:12} {peer}");
    let target = target.map_or(String::new(), |t| format!(" (target: at most {t})"));
    println!(
        "figure: {title}: ratio of medians to {peer_name} {ratio:.2}{target}, load {}",
        load()
    );
}

/// How a pause is called in a title.
pub(crate) fn pace(pause: Duration) -> String {
    if pause.is_zero() {
        "back to back".to_owned()
    } else {
        format!("{} ms pauses", pause.as_millis())
    }
}

/// `SCOPECTL_BENCH_PAIRS`, else `default`.
pub(crate) fn pairs(default: usize) -> Outcome<usize> {
    match std::env::var("SCOPECTL_BENCH_PAIRS") {
        Ok(text) => text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
            format!("SCOPECTL_BENCH_PAIRS={text} is not a count; give a number above 0").into()
        }),
        Err(_) => Ok(default),
    }
}

/// False where `cargo test --all-targets` runs the bench: then there is nothing to do.
pub(crate) fn is_bench_run() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Compiles the C client.
pub(crate) fn build_peer() -> Outcome<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sdbus/start_scope.c");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("start_scope");
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libsystemd"]))?;
    run(Command::new("cc")
        .args(["-std=gnu11", "-O2", "-o"])
        .arg(&binary)
        .arg(&source)
        .args(flags.split_whitespace()))?;
    Ok(binary)
}

fn run(command: &mut Command) -> Outcome<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program}: {}", text.trim_end()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
