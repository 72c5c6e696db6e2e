//! The embedded manager: it answers, and it leaves nothing behind whatever dies.
//!
//! `SCOPECTL_EMBEDDED_ROUNDS` is how often each death is tried (default 100). Roots with other systemd versions are tried where
//! `SCOPECTL_TEST_ROOTS` names them (separated by colons). Needs root and a cgroup2 mount; elsewhere each test says why it was skipped, or
//! fails where `SCOPECTL_TEST_NO_SKIP` is set.
#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../src/skip.rs"]
mod skip;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use scopectl::ErrorKind;
use scopectl::embedded::Embedded;
use skip::skip;

/// Whatever should happen soon.
const SOON: Duration = Duration::from_secs(20);
/// Tells the copy of this test program what to do.
const ROLE: &str = "SCOPECTL_EMBEDDED_ROLE";
const STATE_DIR: &str = "SCOPECTL_EMBEDDED_STATE_DIR";

macro_rules! need_root {
    () => {
        if let Some(why) = unable() {
            skip(why);
            return;
        }
    };
}

fn unable() -> Option<&'static str> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    if !rustix::process::geteuid().is_root() {
        Some("the embedded manager needs root")
    } else if !mounts.contains(" - cgroup2 ") {
        Some("no cgroup2 is mounted")
    } else if !Path::new("/lib/systemd/systemd").exists() {
        Some("systemd is not installed")
    } else {
        None
    }
}

fn rounds() -> u64 {
    std::env::var("SCOPECTL_EMBEDDED_ROUNDS")
        .ok()
        .map_or(100, |count| count.parse().unwrap())
}

// ---- what must be gone ------------------------------------------------------------------------------------------------------------------------------

/// All that an instance consists of, seen from outside.
struct Traces {
    processes: Vec<(u32, OwnedFd)>,
    guardian: OwnedFd,
    cgroup: PathBuf,
    state: PathBuf,
    mounts: String,
}

impl Traces {
    fn of(embedded: &Embedded, mounts: String) -> Self {
        Self::new(
            embedded.guardian_pid(),
            embedded.cgroup_path(),
            embedded.state_path(),
            mounts,
        )
    }

    fn new(guardian: u32, cgroup: &Path, state: &Path, mounts: String) -> Self {
        let mut pids = vec![guardian];
        members(cgroup, &mut pids);
        assert!(
            pids.len() >= 2,
            "a manager runs in {}: {pids:?}",
            cgroup.display()
        );
        Self {
            // Those that end meanwhile (helpers of the manager) are no traces.
            processes: pids
                .into_iter()
                .filter_map(|pid| Some((pid, try_pidfd(pid)?)))
                .collect(),
            guardian: pidfd(guardian),
            cgroup: cgroup.into(),
            state: state.into(),
            mounts,
        }
    }

    fn assert_gone(&self) {
        for (pid, process) in &self.processes {
            assert!(
                ends(process),
                "process {pid} is left: {}{}",
                fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default(),
                fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
            );
        }
        assert!(
            !self.cgroup.exists(),
            "cgroup {} is left",
            self.cgroup.display()
        );
        assert!(
            !self.state.exists(),
            "directory {} is left",
            self.state.display()
        );
        assert_eq!(self.mounts, mounts(), "mounts are left");
    }

    /// After a stop by the parent there is not even a zombie.
    fn assert_reaped(&self, also: &[u32]) {
        self.assert_gone();
        for pid in also {
            assert!(
                !Path::new(&format!("/proc/{pid}")).exists(),
                "process {pid} is left as a zombie"
            );
        }
    }
}

fn members(cgroup: &Path, pids: &mut Vec<u32>) {
    let procs = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    pids.extend(procs.lines().map(|pid| pid.parse::<u32>().unwrap()));
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            members(&entry.path(), pids);
        }
    }
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

fn try_pidfd(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()
}

fn pidfd(pid: u32) -> OwnedFd {
    try_pidfd(pid).unwrap_or_else(|| panic!("process {pid} lives"))
}

fn ends(process: &OwnedFd) -> bool {
    let soon = Timespec {
        tv_sec: SOON.as_secs() as i64,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&soon)).unwrap() == 1
}

fn kill(process: &OwnedFd) {
    pidfd_send_signal(process, Signal::KILL).unwrap();
}

fn accepts(address: &str) -> bool {
    let path = address.strip_prefix("unix:path=").unwrap();
    UnixStream::connect(path).is_ok()
}

/// A process in a unit of the manager.
fn payload(cgroup: &Path) -> Child {
    let deep = cgroup.join("payload.scope/deep");
    fs::create_dir_all(&deep).unwrap();
    let child = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    fs::write(deep.join("cgroup.procs"), child.id().to_string()).unwrap();
    child
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory for state directories, removed again (and so proven empty).
struct StateDir(PathBuf);

impl StateDir {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/embedded-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn remove(self) {
        fs::remove_dir(&self.0).expect("no state directory is left");
    }
}

// ---- a second process --------------------------------------------------------------------------------------------------------------------------------

/// A copy of this program in one of the roles below.
struct Helper {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Helper {
    fn start(role: &str, state_dir: Option<&Path>, wrapper: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut words: Vec<&OsStr> = wrapper.iter().map(OsStr::new).collect();
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["--exact", "helper", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env_remove(STATE_DIR)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(directory) = state_dir {
            command.env(STATE_DIR, directory);
        }
        let mut process = command.spawn().unwrap();
        Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// The fields after `key:` in the helper's output. (libtest writes there too, without a newline before ours.)
    fn read(&mut self, key: &str) -> Vec<String> {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("the helper says {key}; it said: {seen}");
            }
            if let Some((_, fields)) = line.split_once(&format!("{key}: ")) {
                return fields.trim_end().split('\t').map(str::to_owned).collect();
            }
            seen.push_str(&line);
        }
    }

    /// guardian, manager, cgroup, state
    fn ready(&mut self, before: String) -> (Traces, u32) {
        let fields = self.read("READY");
        let traces = Traces::new(
            fields[0].parse().unwrap(),
            Path::new(&fields[2]),
            Path::new(&fields[3]),
            before,
        );
        (traces, fields[1].parse().unwrap())
    }

    fn finish(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

fn say_ready(embedded: &Embedded) {
    say(&format!(
        "READY: {}\t{}\t{}\t{}",
        embedded.guardian_pid(),
        embedded.manager_pid(),
        embedded.cgroup_path().display(),
        embedded.state_path().display()
    ));
}

/// No test by itself: the second process of the tests below.
#[test]
fn helper() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let builder = || match std::env::var(STATE_DIR) {
        Ok(directory) => Embedded::builder().state_dir(directory),
        Err(_) => Embedded::builder(),
    };
    let wait_for_end_of_input = || {
        let mut rest = String::new();
        std::io::stdin().read_to_string(&mut rest).unwrap();
    };
    match role.as_str() {
        "hold" => {
            let embedded = builder().start().unwrap();
            let mut child = payload(embedded.cgroup_path());
            say_ready(&embedded);
            wait_for_end_of_input();
            embedded.stop().unwrap();
            child.wait().unwrap();
        }
        "start" => {
            say("PID: 0");
            let _embedded = builder().start();
            wait_for_end_of_input();
        }
        "inside" => {
            let embedded = builder().start().unwrap();
            let scope = embedded.cgroup_path().join("own.scope");
            fs::create_dir(&scope).unwrap();
            fs::write(scope.join("cgroup.procs"), "0").unwrap();
            embedded.stop().unwrap();
            say("SURVIVED: yes");
        }
        "exec" => {
            let embedded = builder().start().unwrap();
            say_ready(&embedded);
            let error = std::os::unix::process::CommandExt::exec(Command::new("sleep").arg("1000"));
            panic!("{error}");
        }
        "error" => match builder().start() {
            Ok(_) => say("ERROR: none"),
            Err(error) => say(&format!("ERROR: {:?}\t{error}", error.kind())),
        },
        "count" => {
            let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
            builder().start().unwrap().stop().unwrap();
            let before = descriptors();
            for _ in 0..rounds() {
                builder().start().unwrap().stop().unwrap();
            }
            let after = descriptors();
            let zombies = fs::read_dir("/proc/self/task")
                .unwrap()
                .map(|task| {
                    fs::read_to_string(task.unwrap().path().join("children"))
                        .unwrap_or_default()
                        .split_whitespace()
                        .count()
                })
                .sum::<usize>();
            say(&format!("COUNT: {before}\t{after}\t{zombies}"));
        }
        role => panic!("no role {role}"),
    }
}

// ---- it works ----------------------------------------------------------------------------------------------------------------------------------------

#[test]
fn it_answers_on_its_private_socket_and_its_bus() {
    need_root!();
    let before = mounts();
    let embedded = Embedded::start().unwrap();
    assert!(embedded.is_running());
    assert!(accepts(embedded.private_address()));
    if let Some(bus) = embedded.bus_address() {
        assert!(accepts(bus));
    }
    let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", embedded.manager_pid())).unwrap();
    let name = embedded.cgroup_path().file_name().unwrap();
    assert!(
        cgroup.contains(&format!("{}/init.scope", name.to_str().unwrap())),
        "{cgroup}"
    );
    let traces = Traces::of(&embedded, before);
    let pids = [embedded.manager_pid(), embedded.guardian_pid()];
    embedded.stop().unwrap();
    traces.assert_reaped(&pids);
}

#[test]
fn without_a_bus_there_is_no_bus() {
    need_root!();
    let embedded = Embedded::builder().bus(false).start().unwrap();
    assert_eq!(embedded.bus_address(), None);
    assert!(!embedded.state_path().join("run/bus").exists());
    assert!(accepts(embedded.private_address()));
}

#[test]
fn the_manager_has_only_its_own_environment_session_and_streams() {
    need_root!();
    let embedded = Embedded::start().unwrap();
    let proc = PathBuf::from(format!("/proc/{}", embedded.manager_pid()));
    let environment = fs::read(proc.join("environ")).unwrap();
    let mut names: Vec<&str> = environment
        .split(|&byte| byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).unwrap().split_once('='))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names
            .iter()
            .filter(|name| !name.starts_with("SYSTEMD_") && !name.starts_with("DBUS_"))
            .collect::<Vec<_>>(),
        [&"HOME", &"PATH", &"XDG_RUNTIME_DIR"]
    );
    for pid in [embedded.manager_pid(), embedded.guardian_pid()] {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let session: u32 = after_name.split(' ').nth(3).unwrap().parse().unwrap();
        assert_eq!(session, pid, "a session of its own");
        let input = fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
        assert_eq!(input, Path::new("/dev/null"));
    }
    // Nothing of the caller's: only what the guardian needs.
    let theirs = fs::read_dir(format!("/proc/{}/fd", embedded.guardian_pid()))
        .unwrap()
        .count();
    assert!(theirs <= 10, "the guardian holds {theirs} descriptors");
}

#[test]
fn units_keep_their_settings_over_a_reload_and_the_pid_over_a_reexec() {
    need_root!();
    for root in roots() {
        let before = mounts();
        let embedded = Embedded::builder()
            .root(&root)
            .start()
            .unwrap_or_else(|error| panic!("{root}: {error}"));
        let command = |program: &str| {
            let mut command = Command::new(program);
            command
                .arg("--user")
                .env("XDG_RUNTIME_DIR", embedded.state_path().join("run"))
                .env_remove("DBUS_SESSION_BUS_ADDRESS")
                .stdin(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let show = || {
            let output = command("systemctl")
                .args([
                    "show",
                    "kept.scope",
                    "-p",
                    "ActiveState",
                    "-p",
                    "TimeoutStopUSec",
                ])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.contains("ActiveState=active\n") && text.contains("TimeoutStopUSec=7s\n")
        };
        let mut scope = command("systemd-run")
            .args([
                "--scope",
                "--unit=kept",
                "-p",
                "TimeoutStopSec=7",
                "sleep",
                "1000",
            ])
            .spawn()
            .unwrap();
        wait_for("the scope is active", show);
        assert!(
            command("systemctl")
                .arg("daemon-reload")
                .status()
                .unwrap()
                .success()
        );
        assert!(show(), "{root}: after a reload");
        command("systemctl").arg("daemon-reexec").status().unwrap();
        wait_for("the scope is active after a reexec", show);
        assert!(embedded.is_running());
        let traces = Traces::of(&embedded, before);
        embedded.stop().unwrap();
        scope.wait().unwrap();
        traces.assert_gone();
    }
}

/// The machine's own root, and others with other versions.
fn roots() -> Vec<String> {
    let others = std::env::var("SCOPECTL_TEST_ROOTS").unwrap_or_default();
    std::iter::once("/")
        .chain(others.split(':').filter(|root| !root.is_empty()))
        .map(str::to_owned)
        .collect()
}

#[test]
fn two_live_side_by_side_and_one_can_go() {
    need_root!();
    let before = mounts();
    let one = Embedded::start().unwrap();
    let other = Embedded::start().unwrap();
    let traces = Traces::of(&one, before);
    drop(one);
    traces.assert_gone();
    assert!(other.is_running());
    assert!(accepts(other.private_address()));
    assert!(try_pidfd(other.guardian_pid()).is_some_and(|guardian| !has_ended_now(&guardian)));
}

fn has_ended_now(process: &OwnedFd) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn a_caller_inside_one_of_its_scopes_survives_the_stop() {
    need_root!();
    let mut helper = Helper::start("inside", None, &[]);
    assert_eq!(helper.read("SURVIVED"), ["yes"]);
    helper.finish();
}

#[test]
fn nothing_accumulates_in_the_caller() {
    need_root!();
    let mut helper = Helper::start("count", None, &[]);
    let fields = helper.read("COUNT");
    assert_eq!(fields[0], fields[1], "file descriptors before and after");
    assert_eq!(fields[2], "0", "children left");
    helper.finish();
}

// ---- the deaths ---------------------------------------------------------------------------------------------------------------------------------------

#[test]
fn a_killed_parent_leaves_nothing() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let mut helper = Helper::start("hold", None, &[]);
        let (traces, _) = helper.ready(before);
        helper.process.kill().unwrap();
        assert!(ends(&traces.guardian), "the guardian ends");
        traces.assert_gone();
    }
}

#[test]
fn a_parent_that_executes_another_program_leaves_nothing() {
    need_root!();
    let mut helper = Helper::start("exec", None, &[]);
    let (traces, _) = helper.ready(mounts());
    traces.assert_gone();
    assert!(helper.process.try_wait().unwrap().is_none());
}

#[test]
fn the_guardian_is_ended_by_no_signal_of_a_terminal_or_a_shutdown() {
    need_root!();
    let mut helper = Helper::start("hold", None, &[]);
    let (traces, _) = helper.ready(mounts());
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::USR1,
    ] {
        pidfd_send_signal(&traces.guardian, signal).unwrap();
    }
    helper.process.kill().unwrap();
    traces.assert_gone();
}

#[test]
fn a_parent_killed_at_any_moment_of_the_start_leaves_nothing() {
    need_root!();
    let state = StateDir::new("moment");
    let cgroups = {
        let embedded = Embedded::start().unwrap();
        embedded.cgroup_path().parent().unwrap().to_owned()
    };
    for round in 0..rounds() {
        let mut helper = Helper::start("start", Some(&state.0), &[]);
        helper.read("PID");
        let moment = Duration::from_micros(60_000 * round / rounds());
        std::thread::sleep(moment);
        helper.process.kill().unwrap();
        let name = format!("scopectl-{}-", helper.process.id());
        wait_for("cgroup and directory go", || {
            [&cgroups, &state.0].into_iter().all(|directory| {
                fs::read_dir(directory).unwrap().all(|entry| {
                    !entry
                        .unwrap()
                        .file_name()
                        .to_str()
                        .unwrap()
                        .starts_with(&name)
                })
            })
        });
    }
    state.remove();
}

#[test]
fn a_killed_manager_leaves_nothing() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let embedded = Embedded::start().unwrap();
        let mut child = payload(embedded.cgroup_path());
        let traces = Traces::of(&embedded, before);
        let pids = [embedded.manager_pid(), embedded.guardian_pid()];
        kill(&pidfd(embedded.manager_pid()));
        // The guardian alone: the parent has done nothing yet.
        assert!(ends(&traces.guardian), "the guardian ends");
        traces.assert_gone();
        assert!(!embedded.is_running());
        embedded.stop().unwrap();
        child.wait().unwrap();
        traces.assert_reaped(&pids);
    }
}

#[test]
fn a_killed_guardian_leaves_nothing_when_the_parent_stops() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let embedded = Embedded::start().unwrap();
        let mut child = payload(embedded.cgroup_path());
        let traces = Traces::of(&embedded, before);
        let pids = [embedded.manager_pid(), embedded.guardian_pid()];
        kill(&traces.guardian);
        assert!(ends(&traces.guardian));
        assert!(embedded.is_running());
        drop(embedded);
        child.wait().unwrap();
        traces.assert_reaped(&pids);
    }
}

#[test]
fn it_outlives_the_thread_that_started_it_and_then_leaves_nothing() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let embedded = std::thread::spawn(|| Embedded::start().unwrap())
            .join()
            .unwrap();
        assert!(embedded.is_running());
        assert!(accepts(embedded.private_address()));
        let traces = Traces::of(&embedded, before);
        assert!(!has_ended_now(&traces.guardian));
        std::thread::spawn(move || drop(embedded)).join().unwrap();
        traces.assert_gone();
    }
}

#[test]
fn a_panicking_thread_leaves_nothing() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let embedded = Embedded::start().unwrap();
            send.send(Traces::of(&embedded, before)).unwrap();
            std::panic::resume_unwind(Box::new("a test failed"));
        });
        assert!(thread.join().is_err());
        receive.recv().unwrap().assert_gone();
    }
}

#[test]
fn the_next_start_removes_what_a_crash_of_both_left() {
    need_root!();
    for _ in 0..rounds() {
        let before = mounts();
        let state = StateDir::new("sweep");
        let mut helper = Helper::start("hold", Some(&state.0), &[]);
        let (traces, _) = helper.ready(before);
        kill(&traces.guardian);
        assert!(ends(&traces.guardian));
        helper.process.kill().unwrap();
        helper.process.wait().unwrap();
        assert!(traces.cgroup.exists(), "nobody is there to clear up");
        let next = Embedded::builder().state_dir(&state.0).start().unwrap();
        traces.assert_gone();
        next.stop().unwrap();
        state.remove();
    }
}

#[test]
fn a_sweep_leaves_a_living_instance_alone() {
    need_root!();
    let state = StateDir::new("living");
    let mut helper = Helper::start("hold", Some(&state.0), &[]);
    let (traces, manager) = helper.ready(mounts());
    let next = Embedded::builder().state_dir(&state.0).start().unwrap();
    assert!(!has_ended_now(&pidfd(manager)));
    assert!(traces.cgroup.exists() && traces.state.exists());
    next.stop().unwrap();
    helper.finish();
    traces.assert_gone();
    state.remove();
}

// ---- other namespaces ---------------------------------------------------------------------------------------------------------------------------------

#[test]
fn it_starts_in_a_mount_namespace_whose_mounts_are_shared() {
    need_root!();
    let before = mounts();
    let mut helper = Helper::start("hold", None, &["unshare", "-m", "--propagation", "shared"]);
    let fields = helper.read("READY");
    let theirs = fs::read_to_string(format!("/proc/{}/mountinfo", helper.process.id())).unwrap();
    // Nothing of the manager's mounts has propagated to its parent's namespace.
    assert!(
        !theirs.contains(&format!(" {} ", "/run/scopectl")) && !theirs.contains("/dev/kmsg"),
        "{theirs}"
    );
    assert_eq!(theirs.lines().count(), before.lines().count());
    let traces = Traces::new(
        fields[0].parse().unwrap(),
        Path::new(&fields[2]),
        Path::new(&fields[3]),
        before,
    );
    helper.finish();
    traces.assert_gone();
}

#[test]
fn it_starts_in_another_cgroup_namespace() {
    need_root!();
    let root = {
        let embedded = Embedded::start().unwrap();
        embedded.cgroup_path().parent().unwrap().to_owned()
    };
    let own = root.join(format!("test-embedded-{}", std::process::id()));
    fs::create_dir(&own).unwrap();
    // With the mount of the namespace before, and with one of its own.
    for remount in [
        "",
        "umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup &&",
    ] {
        let script = format!(
            "echo 0 > {}/cgroup.procs && exec unshare -m -C sh -c '{remount} exec \"$0\" \"$@\"' \"$@\"",
            own.display()
        );
        let mut helper = Helper::start("hold", None, &["sh", "-c", &script, "sh"]);
        let fields = helper.read("READY");
        let guardian = pidfd(fields[0].parse().unwrap());
        let manager = pidfd(fields[1].parse().unwrap());
        helper.process.kill().unwrap();
        assert!(ends(&guardian) && ends(&manager));
        let name = Path::new(&fields[2]).file_name().unwrap();
        assert!(!root.join(name).exists() && !own.join(name).exists());
        assert!(!Path::new(&fields[3]).exists());
    }
    wait_for("the test's own cgroup can go", || {
        fs::remove_dir(&own).is_ok()
    });
}

#[test]
fn another_root_is_the_managers_own_root() {
    need_root!();
    if roots().len() == 1 {
        eprintln!("only this machine's own root is tried: SCOPECTL_TEST_ROOTS names no others");
    }
    for root in roots() {
        let before = mounts();
        let embedded = Embedded::builder()
            .root(&root)
            .start()
            .unwrap_or_else(|error| panic!("{root}: {error}"));
        assert!(accepts(embedded.private_address()), "{root}");
        let inside = fs::read_link(format!("/proc/{}/root", embedded.manager_pid())).unwrap();
        assert_eq!(inside, fs::canonicalize(&root).unwrap());
        let mut child = payload(embedded.cgroup_path());
        let traces = Traces::of(&embedded, before);
        kill(&pidfd(embedded.manager_pid()));
        traces.assert_gone();
        embedded.stop().unwrap();
        child.wait().unwrap();
    }
}

// ---- refusals -----------------------------------------------------------------------------------------------------------------------------------------

#[test]
fn a_missing_systemd_is_named() {
    need_root!();
    let error = Embedded::builder()
        .systemd("/nonexistent/systemd")
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("/nonexistent/systemd"),
        "{error}"
    );

    let root = StateDir::new("root");
    let error = Embedded::builder().root(&root.0).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for directory in ["proc", "sys", "dev", "run"] {
        fs::create_dir(root.0.join(directory)).unwrap();
    }
    let error = Embedded::builder().root(&root.0).start().unwrap_err();
    assert!(
        error.to_string().contains("install the package systemd"),
        "{error}"
    );
    fs::remove_dir_all(&root.0).unwrap();
}

#[test]
fn a_program_that_is_no_manager_is_an_error_and_leaves_nothing() {
    need_root!();
    let state = StateDir::new("false");
    let error = Embedded::builder()
        .systemd("/bin/false")
        .state_dir(&state.0)
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("ended before"), "{error}");

    let script = state.0.join("no-program");
    fs::write(&script, "no program\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = Embedded::builder()
        .systemd(&script)
        .state_dir(&state.0)
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("execute systemd"), "{error}");
    fs::remove_file(&script).unwrap();
    state.remove();
}

#[test]
fn a_start_that_takes_too_long_is_an_error_and_leaves_nothing() {
    need_root!();
    let state = StateDir::new("slow");
    let error = Embedded::builder()
        .start_timeout(Duration::from_nanos(1))
        .state_dir(&state.0)
        .start()
        .unwrap_err();
    assert!(
        error.to_string().contains("raise the start timeout"),
        "{error}"
    );
    state.remove();
}

#[test]
fn without_the_capability_the_refusal_says_so() {
    need_root!();
    let wrapper = [
        "setpriv",
        "--bounding-set=-sys_admin",
        "--inh-caps=-sys_admin",
    ];
    let mut helper = Helper::start("error", None, &wrapper);
    let fields = helper.read("ERROR");
    assert_eq!(fields[0], "PermissionDenied");
    assert!(fields[1].contains("CAP_SYS_ADMIN"), "{fields:?}");
    helper.finish();
}

#[test]
fn a_read_only_or_missing_cgroup2_is_named() {
    need_root!();
    let mount = {
        let embedded = Embedded::start().unwrap();
        embedded.cgroup_path().parent().unwrap().to_owned()
    };
    let mount = mount.to_str().unwrap();
    for (prepare, expected) in [
        (format!("mount -o remount,bind,ro {mount}"), "read-only"),
        (
            format!("umount {mount}"),
            "no cgroup2 file system is mounted",
        ),
    ] {
        let script = format!("{prepare} && exec \"$0\" \"$@\"");
        let mut helper = Helper::start("error", None, &["unshare", "-m", "sh", "-c", &script]);
        let fields = helper.read("ERROR");
        assert!(fields[1].contains(expected), "{fields:?}");
        helper.finish();
    }
}
