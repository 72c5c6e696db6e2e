//! What the caller made arrives at the command unchanged: each test compares with the same command started without scopectl.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use super::support::{SCOPECTL, both_ways, end, manager, run};

/// Runs `before... command...`, and the same with scopectl between the two; both outputs.
fn with_and_without(manager: &str, before: &[&str], command: &[&str]) -> (String, String) {
    let prefix = [SCOPECTL, "run", "-q", "--manager", manager, "--"];
    let arguments = |between: &[&str]| -> Vec<String> {
        let all = before.iter().chain(between).chain(command);
        all.map(|argument| (*argument).to_owned()).collect()
    };
    let output = |arguments: Vec<String>| {
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).stdin(Stdio::null());
        let ended = end(&mut command);
        assert_eq!(ended.stderr, "", "{arguments:?}");
        ended.stdout
    };
    (output(arguments(&prefix)), output(arguments(&[])))
}

#[track_caller]
fn assert_same(before: &[&str], command: &[&str]) -> String {
    let shown = std::cell::RefCell::new(String::new());
    both_ways(|manager| {
        let (with, without) = with_and_without(manager, before, command);
        assert_eq!(with, without, "manager {manager}");
        shown.replace(without);
    });
    shown.into_inner()
}

#[test]
fn the_command_is_inside_its_scope_before_its_first_instruction() {
    both_ways(|manager| {
        let unit = format!("inside-{}.scope", std::process::id());
        let ended = end(&mut run(
            manager,
            &["-u", &unit, "cat", "/proc/self/cgroup"],
        ));
        assert_eq!(ended.stderr, format!("running as unit: {unit}\n"));
        let cgroups = ended.ok();
        let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
        assert!(
            path.is_some_and(|path| path.ends_with(&format!("/{unit}"))),
            "{cgroups}"
        );
    });
}

#[test]
fn ignored_signals_and_the_mask_are_the_callers() {
    let status = [
        "grep",
        "-E",
        "^(SigBlk|SigIgn|SigCgt):",
        "/proc/self/status",
    ];
    let plain = assert_same(&["env"], &status);
    let set = assert_same(
        &[
            "env",
            "--ignore-signal=PIPE,USR1,CHLD,HUP",
            "--block-signal=USR2,TERM,RTMIN+3",
        ],
        &status,
    );
    assert!(
        plain.is_empty() || plain != set,
        "env has set nothing:\n{set}"
    );
}

#[test]
fn sigpipe_ends_the_command_unless_the_caller_ignores_it() {
    both_ways(|manager| {
        for (mode, expected) in [
            ("--default-signal=PIPE", 128 + 13),
            ("--ignore-signal=PIPE", 1),
        ] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            // `sh` says 128+N for a command that it waited for, whoever is the parent of scopectl's command.
            let status = Command::new("env")
                .args([
                    mode,
                    "sh",
                    "-c",
                    "\"$@\"; exit $?",
                    "sh",
                    SCOPECTL,
                    "run",
                    "-q",
                ])
                .args(["--manager", manager, "cat", "/proc/self/status"])
                .stdout(Stdio::from(writer))
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert_eq!(
                status.code(),
                Some(expected),
                "{mode} with manager {manager}"
            );
        }
    });
}

#[test]
fn open_descriptors_pass_and_none_of_ours_is_added() {
    let nine = [
        "sh",
        "-c",
        "exec 9</dev/zero 5>/dev/full; exec \"$@\"",
        "sh",
    ];
    let listing = assert_same(&nine, &["ls", "/proc/self/fd"]);
    assert!(
        listing.is_empty() || listing.lines().any(|line| line == "9"),
        "{listing}"
    );
    assert_same(&nine, &["readlink", "/proc/self/fd/9", "/proc/self/fd/5"]);
}

#[test]
fn a_closed_descriptor_stays_closed() {
    for closed in ["<&-", "2>&-", "<&- 2>&-"] {
        let script = format!("exec \"$@\" {closed}");
        assert_same(
            &["sh", "-c", &script, "sh"],
            &[
                "sh",
                "-c",
                "for fd in 0 1 2 3 4; do readlink /proc/$$/fd/$fd >/dev/null && echo $fd; done",
            ],
        );
    }
}

#[test]
fn the_environment_is_untouched_and_never_expanded() {
    both_ways(|manager| {
        let odd = OsStr::from_bytes(b"a\xff\n$HOME ${HOME} %n");
        let environment = |command: &mut Command| {
            command
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("ODD", odd)
                .env("A", "")
                .env("lower case", "1");
            end(command.stdin(Stdio::null())).ok()
        };
        let with = environment(&mut run(manager, &["-q", "cat", "/proc/self/environ"]));
        let without = environment(Command::new("cat").arg("/proc/self/environ"));
        assert_eq!(with, without);
    });
}

#[test]
fn arguments_pass_as_they_are() {
    both_ways(|manager| {
        let arguments = ["-q", "--", "printf", "[%s]"].map(OsString::from);
        let odd: Vec<OsString> = [
            &b""[..],
            b"a b",
            b"\xff\xfe",
            b"$HOME",
            b"${HOME}",
            b"%n",
            b"--",
            b"-q",
            b"*",
            b"\n",
            b"'\"\\",
        ]
        .iter()
        .map(|bytes| OsStr::from_bytes(bytes).to_owned())
        .collect();
        let output = run(manager, &[arguments.as_slice(), &odd].concat())
            .output()
            .unwrap();
        let mut expected = Vec::new();
        for argument in &odd {
            expected.extend([b"[", argument.as_bytes(), b"]"].concat());
        }
        assert_eq!(output.stdout, expected);
    });
}

#[test]
fn the_exit_code_is_the_commands() {
    both_ways(|manager| {
        for code in [0, 1, 2, 125, 255] {
            let script = format!("exit {code}");
            let ended = end(&mut run(manager, &["-q", "sh", "-c", &script]));
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""));
        }
    });
}

#[test]
fn what_cannot_be_executed_is_126_and_named() {
    both_ways(|manager| {
        let file = std::env::temp_dir().join(format!("scopectl-cli-{}-126", std::process::id()));
        let path = file.to_str().unwrap();
        std::fs::write(&file, "#!/nonexistent/interpreter\n").unwrap();
        let code_of = |command: &str| {
            let ended = end(&mut run(manager, &["-q", command]));
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(ended.stderr.contains(command), "{}", ended.stderr);
            ended.code
        };
        assert_eq!(code_of(path), Some(126), "no permission");
        set_mode(&file, 0o755);
        assert_eq!(code_of(path), Some(126), "no interpreter");
        assert_eq!(code_of("/etc"), Some(126), "a directory");
        std::fs::remove_file(&file).unwrap();
    });
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_sh() {
    let Some(manager) = manager() else { return };
    let directory =
        std::env::temp_dir().join(format!("scopectl-cli-{}-script", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("a-script");
    std::fs::write(&file, "echo \"$0 $1\"\n").unwrap();
    set_mode(&file, 0o755);
    let path = format!("PATH=/nonexistent:{}", directory.display());
    let output = end(&mut run(manager, &["-q", "-E", &path, "a-script", "x"])).ok();
    assert_eq!(output, format!("{} x\n", file.display()));
    std::fs::remove_dir_all(&directory).unwrap();
}

fn set_mode(file: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}
