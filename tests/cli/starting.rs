//! `run` while its embedded manager starts: signals, the time limit, and what is left.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::{SCOPECTL, manager, run};

/// A `run` whose embedded manager never gets ready: in a mount namespace of its own, another program lies over systemd's. Gives its process and a pipe that
/// stays open as long as the program runs.
fn stalled(directory: &std::path::Path, options: &[&str]) -> (Child, File) {
    let started = directory.join("started");
    let fake = directory.join("systemd");
    nix::unistd::mkfifo(&started, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script = format!(
        "#!/bin/sh\nexec 3>{}\necho up >&3\nexec sleep 1000\n",
        started.display()
    );
    std::fs::write(&fake, script).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&fake, permissions).unwrap();
    let cover = "for f in /lib/systemd/systemd /usr/lib/systemd/systemd; do
        if [ -e $f ]; then mount --bind \"$0\" $f || exit 99; fi; done; exec \"$@\"";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", cover])
        .arg(&fake)
        .args([SCOPECTL, "run", "--manager=embedded"])
        .args(options)
        .arg("true")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = File::open(started).unwrap();
    let mut line = [0; 3];
    running.read_exact(&mut line).unwrap();
    (child, running)
}

/// Waits until no state directory and no cgroup carries the number of this process.
#[track_caller]
fn wait_until_cleared(creator: u32) {
    let prefix = format!("scopectl-{creator}-");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut places: Vec<std::path::PathBuf> = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some("cgroup2"))
        .filter_map(|line| line.split(' ').nth(1).map(Into::into))
        .collect();
    places.push("/run/scopectl".into());
    let left = || -> Vec<_> {
        let entries = places.iter().filter_map(|place| place.read_dir().ok());
        entries
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(&prefix))
            .collect()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !left().is_empty() {
        assert!(std::time::Instant::now() < deadline, "{:?}", left());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A directory for the files of one test, removed with all in it.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("scopectl-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_signal_while_the_manager_starts_ends_it_and_leaves_nothing() {
    if manager().is_none() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let scratch = Scratch::new("signal");
        let (mut child, mut running) = stalled(&scratch.0, &["--start-timeout=10min"]);
        let pid = child.id();
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        let status = child.wait().unwrap();
        let by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(by, Some(signal as i32), "{status:?}");
        // Both end only with the last process that has them: the one that waited to become the command, and the manager.
        let mut rest = String::new();
        child.stderr.unwrap().read_to_string(&mut rest).unwrap();
        running.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{signal}");
        wait_until_cleared(pid);
    }
}

#[test]
fn the_start_timeout_bounds_the_embedded_manager_too() {
    if manager().is_none() {
        return;
    }
    let scratch = Scratch::new("timeout");
    let (child, _running) = stalled(&scratch.0, &["--start-timeout=300ms"]);
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("300ms"), "{said}");
    wait_until_cleared(pid);
}

#[test]
fn a_signal_right_after_the_spawn_ends_it_and_leaves_nothing() {
    if manager().is_none() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut child = run("embedded", &["-q", "sh", "-c", "read x"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        // Held open: the command shall not end by its end.
        let _stdin = child.stdin.take();
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        let status = child.wait().unwrap();
        let by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(
            by == Some(signal as i32) || status.code() == Some(128 + signal as i32),
            "{status:?}"
        );
        wait_until_cleared(pid);
    }
}
