//! What is refused, before anything starts.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use super::support::{Ended, SCOPECTL, end};

/// A place for a socket that nobody else uses.
fn socket(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("scopectl-cli-{}-{name}", std::process::id()))
}

#[track_caller]
fn assert_refused(ended: &Ended, code: i32, named: &str, what: &dyn std::fmt::Debug) {
    assert_eq!(ended.code, Some(code), "{what:?}: {}", ended.stderr);
    assert_eq!(ended.stdout, "", "{what:?}");
    assert_eq!(
        ended.stderr.lines().count(),
        1,
        "{what:?}: {}",
        ended.stderr
    );
    assert!(
        ended.stderr.starts_with("scopectl: "),
        "{what:?}: {}",
        ended.stderr
    );
    assert!(ended.stderr.contains(named), "{what:?}: {}", ended.stderr);
}

#[test]
fn a_bad_option_is_named_and_reaches_no_manager() {
    let path = socket("usage");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("unix:path={}", path.display());

    let long = "a".repeat(256);
    let not_utf8 = OsStr::from_bytes(b"a\xff");
    let o = OsString::from;
    let table: Vec<(Vec<OsString>, &str)> = vec![
        (vec![o("--unit"), o("")], "--unit"),
        (vec![o("--unit"), o("a b")], "--unit"),
        (vec![o("--unit"), o("a/b.scope")], "--unit"),
        (vec![o("--unit"), o("a.service")], "--unit"),
        (vec![o("--unit"), o("a\nb")], "--unit"),
        (vec![o("-u"), o(&long)], "--unit"),
        (vec![o("-u"), not_utf8.into()], "--unit"),
        (vec![o("--unit")], "--unit"),
        (vec![o("--slice"), o("")], "--slice"),
        (vec![o("--slice"), o("a--b.slice")], "--slice"),
        (vec![o("--slice"), o("-a.slice")], "--slice"),
        (vec![o("--slice"), o("a.scope")], "--slice"),
        (vec![o("--slice"), o("a@b.slice")], "--slice"),
        (vec![o("--slice"), o("--json")], "--slice"),
        (vec![o("--slice"), not_utf8.into()], "--slice"),
        (vec![o("--slice-inherit=x")], "--slice-inherit"),
        (vec![o("--description"), o("")], "--description"),
        (vec![o("--description"), o("a\nb")], "--description"),
        (vec![o("--description"), not_utf8.into()], "--description"),
        (vec![o("-E"), o("")], "--setenv"),
        (vec![o("-E"), o("=x")], "--setenv"),
        (vec![o("-E"), o("A B=x")], "--setenv"),
        (vec![o("--setenv"), o("1A")], "--setenv"),
        (vec![o("-d"), o("")], "--working-directory"),
        (vec![o("-d"), o("/nonexistent/x")], "--working-directory"),
        (vec![o("-d"), o("/etc/passwd")], "--working-directory"),
        (vec![o("-d"), o("/etc/passwd/x")], "--working-directory"),
        (vec![o("--nice"), o("-21")], "--nice"),
        (vec![o("--nice"), o("20")], "--nice"),
        (vec![o("--nice"), o("low")], "--nice"),
        (vec![o("--nice"), o("")], "--nice"),
        (vec![o("--uid"), o("no-such-user")], "--uid"),
        (vec![o("--uid"), o("-1")], "--uid"),
        (vec![o("--uid"), o("4294967295")], "--uid"),
        (vec![o("--uid"), o("4000000001")], "--uid"),
        (vec![o("--uid"), o("")], "--uid"),
        (vec![o("--gid"), o("no-such-group")], "--gid"),
        (vec![o("--gid"), o("-1")], "--gid"),
        (vec![o("--gid"), o("99999999999")], "--gid"),
        (vec![o("--delegate=x")], "--delegate"),
        (vec![o("--collect=x")], "--collect"),
        (vec![o("--if-exists"), o("replace")], "--if-exists"),
        (vec![o("--if-exists"), o("")], "--if-exists"),
        (vec![o("--start-timeout"), o("infinity")], "--start-timeout"),
        (vec![o("--start-timeout"), o("0")], "--start-timeout"),
        (vec![o("--start-timeout"), o("-1")], "--start-timeout"),
        (
            vec![o("--start-timeout"), o("1 fortnight")],
            "--start-timeout",
        ),
        (vec![o("--start-timeout"), o("25h")], "--start-timeout"),
        (vec![o("--manager"), o("")], "--manager"),
        (vec![o("--manager"), o("/run/systemd/private")], "--manager"),
        (vec![o("--manager"), o("unix:")], "--manager"),
        (vec![o("--manager"), not_utf8.into()], "--manager"),
        (vec![o("--quiet"), o("--verbose")], "--quiet"),
        (vec![o("--no-such-option")], "--no-such-option"),
        (vec![o("-5")], "-5"),
    ];
    for (options, named) in table {
        let mut command = Command::new(SCOPECTL);
        command.args(["run", "--manager", &address]).args(&options);
        // `--unit` alone at the end misses its value.
        if options.len() > 1 || named != "--unit" {
            command.arg("true");
        }
        assert_refused(&end(&mut command), 125, named, &options);
    }
    let refused = end(Command::new(SCOPECTL).args(["run", "--manager", &address]));
    assert_refused(&refused, 125, "COMMAND", &"no command");

    let nobody_came = listener.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(nobody_came, Err(ErrorKind::WouldBlock));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_command_that_is_nowhere_is_127_and_reaches_no_manager() {
    let nowhere = "unix:path=/nonexistent/socket";
    for command in ["no-such-command", "/nonexistent/x", "/etc/passwd/x", ""] {
        let ended = end(Command::new(SCOPECTL).args(["run", "--manager", nowhere, command]));
        assert_refused(&ended, 127, command, &command);
    }
    let path_of_the_command = [
        "run",
        "--manager",
        nowhere,
        "-E",
        "PATH=/nonexistent",
        "true",
    ];
    let ended = end(Command::new(SCOPECTL).args(path_of_the_command));
    assert_refused(&ended, 127, "true", &"PATH given by --setenv");
}

#[test]
fn a_command_that_nobody_can_execute_is_126_and_reaches_no_manager() {
    let nowhere = "unix:path=/nonexistent/socket";
    let long = "a".repeat(300);
    for (command, named) in [
        ("/etc", "/etc"),
        ("/etc/passwd", "/etc/passwd"),
        ("/dev/null", "/dev/null"),
        (&long, "too long"),
    ] {
        let ended = end(Command::new(SCOPECTL).args(["run", "--manager", nowhere, command]));
        assert_refused(&ended, 126, named, &command);
    }
    // A later directory of PATH that has it counts, as in every shell.
    let ended = end(Command::new(SCOPECTL).args([
        "run",
        "--manager",
        nowhere,
        "-E",
        "PATH=/proc/self:/bin",
        "fd",
    ]));
    assert_refused(&ended, 126, "/proc/self/fd", &"a directory in PATH");
}

#[test]
fn a_manager_that_does_not_answer_is_one_sentence_and_125() {
    let path = socket("silent");
    for address in [
        "unix:path=/nonexistent/socket".to_owned(),
        format!("unix:path={}", path.display()),
    ] {
        let ended = end(Command::new(SCOPECTL).args(["run", "--manager", &address, "true"]));
        assert_refused(&ended, 125, "", &address);
    }
    let no_directory = end(Command::new(SCOPECTL)
        .args(["run", "--manager", "user", "true"])
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("DBUS_SESSION_BUS_ADDRESS"));
    assert_refused(&no_directory, 125, "XDG_RUNTIME_DIR", &"user");
}

#[test]
fn the_start_timeout_bounds_the_connection_too() {
    let path = socket("mute");
    // Connections are accepted by the kernel, and nobody ever answers.
    let listener = UnixListener::bind(&path).unwrap();
    let address = format!("unix:path={}", path.display());
    // A call's own 25 s would be too long for timeout(1).
    let ended = end(Command::new("timeout")
        .args(["15", SCOPECTL, "run", "--manager"])
        .args([&address, "--start-timeout=300ms", "true"]));
    assert_refused(&ended, 125, "did not answer", &address);
    assert!(ended.stderr.starts_with("scopectl: --manager: "));
    drop(listener);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_long_value_is_repeated_only_in_part() {
    let long = "a b".repeat(30_000);
    for option in [
        "--unit",
        "--slice",
        "--setenv",
        "--working-directory",
        "--nice",
        "--uid",
        "--gid",
        "--if-exists",
        "--start-timeout",
        "--manager",
        "--no-such-option",
    ] {
        let given = format!("{option}={long}");
        let ended = end(Command::new(SCOPECTL).args(["run", &given, "true"]));
        assert_refused(&ended, 125, option, &option);
        assert!(ended.stderr.len() < 600, "{}", ended.stderr);
    }
    let ended = end(Command::new(SCOPECTL).args(["run", &long]));
    assert_refused(&ended, 126, " bytes)", &"command");
    assert!(ended.stderr.len() < 600, "{}", ended.stderr);
}

#[test]
fn usage_errors_of_anything_but_run_are_1() {
    for arguments in [&[][..], &["no-such-verb"], &["--no-such-option"], &["Run"]] {
        let ended = end(Command::new(SCOPECTL).args(arguments));
        assert_refused(&ended, 1, arguments.first().unwrap_or(&"verb"), &arguments);
    }
}

#[test]
fn help_and_version_are_on_stdout_and_succeed() {
    for arguments in [
        &["--help"][..],
        &["-h"],
        &["help"],
        &["help", "run"],
        &["run", "--help"],
        &["run", "-h"],
        &["--version"],
        &["-V"],
        &["run", "--version"],
    ] {
        let ended = end(Command::new(SCOPECTL).args(arguments));
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert!(ended.stdout.contains("scopectl"), "{arguments:?}");
    }
    let help = end(Command::new(SCOPECTL).args(["run", "--help"])).ok();
    for option in [
        "--unit",
        "--slice",
        "--slice-inherit",
        "--description",
        "--setenv",
        "--working-directory",
        "--nice",
        "--uid",
        "--gid",
        "--delegate",
        "--collect",
        "--if-exists",
        "--start-timeout",
        "--quiet",
        "--verbose",
        "--json",
        "--manager",
        "Examples:",
    ] {
        assert!(help.contains(option), "{option}");
    }
    let version = end(Command::new(SCOPECTL).arg("--version")).ok();
    assert_eq!(version, format!("scopectl {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_stops_reading_the_help_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(SCOPECTL)
        .args(["run", "--help"])
        .stdout(Stdio::from(writer))
        .output()
        .unwrap();
    let ended = Ended::from(output);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
