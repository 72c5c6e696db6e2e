//! `run` with an embedded manager: a parent beside the command, which must not be noticed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::{SCOPECTL, end, manager, run};

/// A shell script in an embedded manager's scope, with pipes on both ends.
struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Script {
    fn start(script: &str) -> Self {
        // A test program that a shell started in the background ignores SIGINT, and so would everything that it starts.
        let plain = run("embedded", &["-q", "sh", "-c", script]);
        let mut child = Command::new("env")
            .arg("--default-signal")
            .arg(plain.get_program())
            .args(plain.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal_the_parent(&self, signal: Signal) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            signal,
        )
        .unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_signal_that_ends_the_command_is_128_and_its_number() {
    if manager().is_none() {
        return;
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("RTMIN", 128 + 34)] {
        // By number: not every sh knows the names of real-time signals.
        let script = format!("kill -{} $$", code - 128);
        let ended = end(&mut run("embedded", &["-q", "sh", "-c", &script]));
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(code), ""),
            "{signal}"
        );
    }
}

#[test]
fn a_signal_sent_to_the_parent_reaches_the_command() {
    if manager().is_none() {
        return;
    }
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGWINCH, "WINCH"),
    ] {
        let mut script = Script::start(&format!(
            "trap 'echo got; exit 3' {name}; echo ready; read x"
        ));
        assert_eq!(script.line(), "ready");
        script.signal_the_parent(signal);
        assert_eq!(script.line(), "got", "{name}");
        assert_eq!(script.code(), Some(3), "{name}");
    }
}

#[test]
fn a_command_that_signals_its_own_process_group_gets_it_once() {
    if manager().is_none() {
        return;
    }
    let script = "trap 'echo usr1' USR1; kill -USR1 0; echo ready; read x; echo end";
    // A process group of its own, so that the signal does not reach this test.
    let mut child = Command::new("setsid")
        .args([
            SCOPECTL,
            "run",
            "-q",
            "--manager",
            "embedded",
            "sh",
            "-c",
            script,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.ends_with("ready\n") && output.read_line(&mut lines).unwrap() > 0 {}
    child.stdin.take().unwrap().write_all(b"x\n").unwrap();
    output.read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "usr1\nready\nend\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_command_that_somebody_stops_is_waited_for() {
    if manager().is_none() {
        return;
    }
    let mut script = Script::start("echo $$; read x; echo \"got $x\"; exit 4");
    let command = Pid::from_raw(script.line().parse().unwrap());
    kill(command, Signal::SIGSTOP).unwrap();
    script
        .child
        .stdin
        .take()
        .unwrap()
        .write_all(b"y\n")
        .unwrap();
    kill(command, Signal::SIGCONT).unwrap();
    assert_eq!(script.line(), "got y");
    assert_eq!(script.code(), Some(4));
}

#[test]
fn a_pipe_that_the_command_closes_is_closed() {
    if manager().is_none() {
        return;
    }
    let mut script = Script::start("exec >&-; read x; exit 6");
    // Ends only if nobody but the command has the other end.
    assert_eq!(script.line(), "");
    script
        .child
        .stdin
        .take()
        .unwrap()
        .write_all(b"x\n")
        .unwrap();
    assert_eq!(script.code(), Some(6));
}

#[test]
fn a_caller_that_ignores_sigchld_still_gets_the_exit_code() {
    if manager().is_none() {
        return;
    }
    let mut command = Command::new("env");
    command.args([
        "--ignore-signal=CHLD",
        SCOPECTL,
        "run",
        "-q",
        "--manager",
        "embedded",
        "sh",
        "-c",
        "exit 9",
    ]);
    assert_eq!(end(&mut command).code, Some(9));
}

#[test]
fn what_the_command_leaves_running_ends_with_it() {
    if manager().is_none() {
        return;
    }
    // The background process holds our pipe: its end is the end of the output.
    let ended = end(&mut run(
        "embedded",
        &["-q", "sh", "-c", "sleep 1000 & echo left"],
    ));
    assert_eq!(ended.ok(), "left\n");
}

#[test]
fn the_command_does_not_outlive_a_parent_that_was_killed() {
    if manager().is_none() {
        return;
    }
    let mut script = Script::start("trap '' HUP TERM; echo ready; read x");
    let keep_open = script.child.stdin.take();
    assert_eq!(script.line(), "ready");
    script.signal_the_parent(Signal::SIGKILL);
    // Ends only if nobody has the other end any more.
    assert_eq!(script.line(), "");
    assert_eq!(script.code(), None);
    drop(keep_open);
}

#[test]
fn auto_without_a_manager_says_that_it_uses_an_embedded_one() {
    if manager().is_none() || std::path::Path::new("/run/systemd/system").is_dir() {
        return;
    }
    let auto = |options: &[&str]| {
        let mut command = Command::new(SCOPECTL);
        command
            .arg("run")
            .args(options)
            .arg("true")
            .env_remove("XDG_RUNTIME_DIR");
        end(&mut command)
    };
    let ended = auto(&["-u", "auto"]);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("embedded"), "{lines:?}");
    assert_eq!(lines[1], "running as unit: auto.scope");
    assert_eq!(auto(&["-q"]).stderr, "");
    assert_eq!(auto(&["--json"]).stderr.lines().count(), 1);
}

/// A terminal whose session leader is the given command.
struct Terminal {
    screen: File,
    child: Child,
    seen: String,
}

impl Terminal {
    fn start(command: &[&str]) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        let side = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let child = Command::new("setsid")
            .args(["--ctty", "env", "--default-signal"])
            .args(command)
            .stdin(side(&pty.slave))
            .stdout(side(&pty.slave))
            .stderr(side(&pty.slave))
            .spawn()
            .unwrap();
        Self {
            screen: pty.master.into(),
            child,
            seen: String::new(),
        }
    }

    /// Reads until the text is on the screen.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut buffer = [0; 1024];
        while !self.seen.contains(text) {
            let length = self.screen.read(&mut buffer).unwrap_or(0);
            assert_ne!(length, 0, "no {text:?} in {:?}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }

    fn type_in(&mut self, bytes: &[u8]) {
        self.screen.write_all(bytes).unwrap();
    }
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    if manager().is_none() {
        return;
    }
    let script = "trap 'echo one-int' INT; trap 'echo done; exit 5' USR1; echo ready; while :; do read x; done";
    let mut terminal = Terminal::start(&[
        SCOPECTL,
        "run",
        "-q",
        "--manager",
        "embedded",
        "sh",
        "-c",
        script,
    ]);
    terminal.wait_for("ready");
    let parent = Pid::from_raw(i32::try_from(terminal.child.id()).unwrap());
    // Stopped, the parent cannot act before the command has: two interrupts at once would look like one.
    kill(parent, Signal::SIGSTOP).unwrap();
    terminal.type_in(b"\x03");
    terminal.wait_for("one-int");
    kill(parent, Signal::SIGCONT).unwrap();
    // Lower numbers are taken first: by the time that this one is forwarded, an interrupt would have been.
    kill(parent, Signal::SIGUSR1).unwrap();
    terminal.wait_for("done");
    assert_eq!(
        terminal.seen.matches("one-int").count(),
        1,
        "{}",
        terminal.seen
    );
    assert_eq!(terminal.child.wait().unwrap().code(), Some(5));
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    if manager().is_none() {
        return;
    }
    let shell = "set -m; \"$@\"; echo \"stopped: $?\"; fg >/dev/null; echo \"ended: $?\"";
    let script = "echo ready; read x; echo \"read $x\"; exit 5";
    let mut terminal = Terminal::start(&[
        "bash",
        "-c",
        shell,
        "bash",
        SCOPECTL,
        "run",
        "-q",
        "--manager",
        "embedded",
        "sh",
        "-c",
        script,
    ]);
    terminal.wait_for("ready");
    terminal.type_in(b"\x1a");
    terminal.wait_for("stopped: 148");
    terminal.type_in(b"more\n");
    terminal.wait_for("read more");
    terminal.wait_for("ended: 5");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}
