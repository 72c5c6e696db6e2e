//! One start from a program that is connected already: `Manager::start_scope` against a minimal C client.
//!
//! Both have the same embedded manager, transport, properties and match, put the same kind of process (one that
//! waits) into a scope, and know from the kernel that it is inside when they return. Their single starts alternate,
//! each first in every other pair, so that whatever the machine does meets both. Timed is one start; processes are
//! made and scopes are removed outside of the timed part.
//!
//! `cargo bench --bench start`, or `SCOPECTL_BENCH_PAIRS=2000 cargo bench --bench start`. Needs root, systemd, a C
//! compiler, pkg-config and libsystemd's headers.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    Outcome, PAUSES, Sample, WARM_UP, build_peer, is_bench_run, pace, pairs, report, rest,
};
use scopectl::embedded::Embedded;
use scopectl::{CollectMode, Instance, Manager, Process, ScopeSpec, Stop, Transport};

/// The project's target for the ratio of the medians.
const TARGET: f64 = 1.15;
const SLICE: &str = "bench.slice";
const DESCRIPTION: &str = "a start that is measured";
/// What `ScopeSpec` sends for [`spec`], in its order; the mark has the length of the one that scopectl appends.
const PROPERTIES: [&str; 3] = [
    "Description:s:a start that is measured [scopectl:0123456789abcdef]",
    "Slice:s:bench.slice",
    "CollectMode:s:inactive-or-failed",
];
/// From this version on `start_scope` sends `PIDFDs`.
const PIDFDS_SINCE: u32 = 255;

fn spec(unit: &str) -> ScopeSpec {
    ScopeSpec::new(unit)
        .slice(SLICE)
        .description(DESCRIPTION)
        .collect_mode(CollectMode::InactiveOrFailed)
}

fn main() -> Outcome<()> {
    if !is_bench_run() {
        return Ok(());
    }
    let pairs = pairs(500)?;
    let peer = match build_peer() {
        Ok(peer) => peer,
        Err(reason) => {
            println!("skipped: the C client cannot be built: {reason}");
            return Ok(());
        }
    };
    let embedded = Embedded::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;

    let mut transports = vec![(
        "private socket",
        Transport::Private,
        embedded.private_address(),
    )];
    match embedded.bus_address() {
        Some(address) => transports.push(("bus", Transport::Bus, address)),
        None => println!("skipped: the transport `bus`: dbus-daemon is not installed"),
    }
    for (name, transport, address) in transports {
        for pause in PAUSES {
            // A pause makes a pair some forty times as long.
            let pairs = if pause.is_zero() {
                pairs
            } else {
                pairs.div_ceil(3)
            };
            let (ours, theirs) =
                runtime.block_on(measure(&peer, transport, address, pause, pairs))?;
            let title = format!("start, {name}, {}", pace(pause));
            report(&title, &ours, "C sd-bus", &theirs, Some(TARGET));
        }
    }
    Ok(())
}

async fn measure(
    peer: &Path,
    transport: Transport,
    address: &str,
    pause: Duration,
    pairs: usize,
) -> Outcome<(Sample, Sample)> {
    let manager = Manager::connect(Instance::Address(address.to_owned()))
        .transport(transport)
        .await?;
    let pidfds = manager.version().await? >= PIDFDS_SINCE;
    let mut client = Client::spawn(peer, address, transport == Transport::Private, pidfds)?;
    let mut ours = Sample::default();
    let mut theirs = Sample::default();

    for pair in 0..WARM_UP + pairs {
        for turn in 0..2 {
            let unit = format!("bench-{}-{pair}-{turn}.scope", std::process::id());
            let mut payload = Payload::spawn(peer)?;
            let is_ours = (pair + turn) % 2 == 0;
            rest(pause, pair);
            let time = if is_ours {
                start_ours(&manager, &unit, &mut payload).await?
            } else {
                client.start(&unit, &mut payload)?
            };
            if pair >= WARM_UP {
                if is_ours { &mut ours } else { &mut theirs }.push(time);
            }
        }
    }
    Ok((ours, theirs))
}

async fn start_ours(manager: &Manager, unit: &str, payload: &mut Payload) -> Outcome<Duration> {
    let spec = spec(unit);
    // A round trip: signals of the other's starts, which all come on the private socket, are read before the clock runs. About a unit that is always there,
    // so that the manager has no stub of a missing one to clear away afterwards.
    manager.view("init.scope").await?;

    let begin = Instant::now();
    let process = Process::open(payload.pid())?;
    let scope = manager.start_scope(&spec, [process]).await?;
    let time = begin.elapsed();

    if !payload.is_inside(unit)? {
        return Err(format!("{unit}: the process is not inside").into());
    }
    scope.stop(Stop::Kill).await?;
    payload.reap()?;
    Ok(time)
}

/// The process that is put into a scope: it waits for the end of its stdin.
struct Payload(Child);

impl Payload {
    fn spawn(peer: &Path) -> Outcome<Self> {
        let mut child = Command::new(peer)
            .arg("--pause")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = [0];
        if let Some(stdout) = child.stdout.as_mut() {
            stdout.read_exact(&mut ready)?;
        }
        Ok(Self(child))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn is_inside(&self, unit: &str) -> Outcome<bool> {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid()))?;
        Ok(text
            .lines()
            .any(|line| line.split('/').any(|part| part == unit)))
    }

    fn reap(&mut self) -> Outcome<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // After `reap` both do nothing; before it this is the way out of an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The C client, which measures its own starts.
struct Client {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn spawn(peer: &Path, address: &str, private: bool, pidfds: bool) -> Outcome<Self> {
        let mut command = Command::new(peer);
        command.args(["--address", address]);
        if private {
            command.arg("--private");
        }
        if pidfds {
            command.args(["--pids", "PIDFDs"]);
        }
        for property in PROPERTIES {
            command.args(["--property", property]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().ok_or("the C client has no stdout")?;
        Ok(Self {
            child,
            questions,
            answers: BufReader::new(answers),
        })
    }

    fn start(&mut self, unit: &str, payload: &mut Payload) -> Outcome<Duration> {
        let time = self.ask(&format!("start {} {unit}\n", payload.pid()))?;
        payload.reap()?;
        self.ask(&format!("gone {unit}\n"))?;
        Ok(time)
    }

    fn ask(&mut self, question: &str) -> Outcome<Duration> {
        if let Some(questions) = &mut self.questions {
            questions.write_all(question.as_bytes())?;
        }
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end().parse() {
            Ok(nanoseconds) => Ok(Duration::from_nanos(nanoseconds)),
            Err(_) => Err(format!("the C client answered {answer:?} to {question:?}").into()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.questions = None; // the end of its stdin ends it
        let _ = self.child.wait();
    }
}
