//! What the options do to the command.

use std::process::Command;

use nix::unistd::{Gid, Uid, User, getgrouplist};

use super::skip::skip;
use super::support::{SCOPECTL, both_ways, end, manager, run};

/// An account that every Debian has.
fn nobody() -> User {
    User::from_name("nobody").unwrap().expect("a user nobody")
}

const WHO: [&str; 3] = [
    "sh",
    "-c",
    "id -u; id -ru; id -g; id -rg; id -G; echo \"$HOME $USER $LOGNAME $SHELL\"",
];

#[test]
fn a_user_comes_with_its_groups_and_variables_and_without_the_callers() {
    both_ways(|manager| {
        let user = nobody();
        let account = std::ffi::CString::new(user.name.as_str()).unwrap();
        let groups = getgrouplist(&account, user.gid).unwrap();
        let groups: Vec<String> = groups.iter().map(Gid::to_string).collect();
        let (uid, gid) = (user.uid, user.gid);
        let (name, home, shell) = (user.name.as_str(), user.dir.display(), user.shell.display());
        let expected = format!(
            "{uid}\n{uid}\n{gid}\n{gid}\n{}\n{home} {name} {name} {shell}\n",
            groups.join(" "),
        );
        for typed in [user.name.clone(), uid.to_string()] {
            // The caller has groups that must not be kept.
            let mut command = Command::new("setpriv");
            command.args([
                "--groups",
                "3,4",
                SCOPECTL,
                "run",
                "-q",
                "--manager",
                manager,
            ]);
            command.args(["--uid", &typed]).args(WHO);
            assert_eq!(end(&mut command).ok(), expected, "--uid {typed}");
        }
    });
}

#[test]
fn a_group_alone_replaces_all_groups_and_keeps_the_user() {
    let Some(manager) = manager() else { return };
    let mut command = Command::new("setpriv");
    command.args([
        "--groups",
        "3,4",
        SCOPECTL,
        "run",
        "-q",
        "--manager",
        manager,
    ]);
    command.args([
        "--gid",
        "12345",
        "sh",
        "-c",
        "id -u; id -g; id -G; echo $HOME",
    ]);
    let home = std::env::var("HOME").unwrap_or_default();
    let uid = Uid::current();
    assert_eq!(
        end(&mut command).ok(),
        format!("{uid}\n12345\n12345\n{home}\n")
    );
}

#[test]
fn a_number_without_an_account_runs_with_the_given_group() {
    let Some(manager) = manager() else { return };
    let options = ["-q", "--uid", "4000000001", "--gid", "4000000002"];
    let output = end(&mut run(manager, &[&options[..], &WHO].concat())).ok();
    assert_eq!(
        output,
        "4000000001\n4000000001\n4000000002\n4000000002\n4000000002\n/ 4000000001 4000000001 /bin/sh\n"
    );
}

#[test]
fn setenv_wins_over_the_users_variables() {
    let Some(manager) = manager() else { return };
    let script = "echo \"$HOME|$USER|$A|$B\"";
    let options = [
        "-q", "--uid", "nobody", "-E", "HOME", "-E", "A=$HOME", "-E", "B=x=y", "-E", "A=2 $A",
    ];
    let output = end(
        run(manager, &[&options[..], &["sh", "-c", script]].concat()).env("HOME", "/the/callers"),
    );
    assert_eq!(output.ok(), "/the/callers|nobody|2 $A|x=y\n");
}

#[test]
fn nice_is_the_value_that_was_given_also_for_another_user() {
    both_ways(|manager| {
        for value in ["7", "-3"] {
            let options = ["-q", "--nice", value, "--uid", "nobody", "nice"];
            assert_eq!(end(&mut run(manager, &options)).ok().trim(), value);
        }
    });
}

#[test]
fn the_working_directory_is_entered_as_the_user() {
    let Some(manager) = manager() else { return };
    let output = end(&mut run(manager, &["-q", "-d", "/usr/bin", "pwd"])).ok();
    assert_eq!(output, "/usr/bin\n");
    let relative = end(run(manager, &["-q", "-d", "bin", "./pwd"]).current_dir("/usr")).ok();
    assert_eq!(relative, "/usr/bin\n");

    let closed = std::env::temp_dir().join(format!("scopectl-cli-{}-closed", std::process::id()));
    std::fs::create_dir(&closed).unwrap();
    std::os::unix::fs::chown(&closed, Some(0), Some(0)).unwrap();
    set_mode(&closed, 0o700);
    let path = closed.to_str().unwrap();
    let ended = end(&mut run(
        manager,
        &["-q", "--uid", "nobody", "-d", path, "pwd"],
    ));
    assert_eq!(ended.code, Some(125));
    assert!(ended.stderr.contains(path), "{}", ended.stderr);
    std::fs::remove_dir(&closed).unwrap();
}

fn set_mode(file: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn json_is_one_line_that_tells_where_the_command_is() {
    both_ways(|manager| {
        let script = "echo $$; sed -n 's/^0:://p' /proc/self/cgroup";
        let ended = end(&mut run(
            manager,
            &["--json", "-u", "json\\x2da", "sh", "-c", script],
        ));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let line: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
        let output = ended.ok();
        let (pid, path) = output.trim().split_once('\n').unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "unit": "json\\x2da.scope",
                "cgroup": path,
                "pid": pid.parse::<u32>().unwrap(),
                "manager": manager,
            })
        );
    });
}

#[test]
fn quiet_says_nothing_not_even_with_json() {
    both_ways(|manager| {
        for options in [&["-q"][..], &["-q", "--json"]] {
            let ended = end(&mut run(manager, &[options, &["true"]].concat()));
            assert_eq!(
                (ended.code, ended.stderr.as_str()),
                (Some(0), ""),
                "{options:?}"
            );
        }
    });
}

#[test]
fn without_a_name_each_run_has_its_own() {
    let Some(manager) = manager() else { return };
    let name = || {
        let ended = end(&mut run(manager, &["true"]));
        let name = ended
            .stderr
            .trim()
            .strip_prefix("running as unit: ")
            .map(str::to_owned);
        name.unwrap_or_else(|| panic!("{}", ended.stderr))
    };
    let (first, second) = (name(), name());
    assert!(
        first.starts_with("run-p") && first.ends_with(".scope"),
        "{first}"
    );
    assert_ne!(first, second);
}

#[test]
fn the_slice_is_where_the_scope_is() {
    let Some(manager) = manager() else { return };
    let place = |options: &[&str]| {
        let command = [
            "-q",
            "--if-exists",
            "wait",
            "-u",
            "placed",
            "sed",
            "-n",
            "s/^0:://p",
            "/proc/self/cgroup",
        ];
        end(&mut run(manager, &[options, &command].concat())).ok()
    };
    let below = place(&["--slice", "cli-a"]);
    assert!(
        below.ends_with("/cli.slice/cli-a.slice/placed.scope\n"),
        "{below}"
    );
    let root = place(&["--slice", "-.slice"]);
    assert!(
        root.ends_with("/placed.scope\n") && !root.contains(".slice/"),
        "{root}"
    );
}

#[test]
fn an_inherited_slice_is_that_of_the_outer_scope() {
    let Some(manager) = manager() else { return };
    let inner = |more: &[&str]| {
        let outer = [
            "-q",
            "--slice",
            "cli-outer",
            SCOPECTL,
            "run",
            "-q",
            "--manager",
            manager,
            "--slice-inherit",
        ];
        let command = [
            "--if-exists",
            "wait",
            "-u",
            "inner",
            "sed",
            "-n",
            "s/^0:://p",
            "/proc/self/cgroup",
        ];
        end(&mut run(manager, &[&outer, more, &command].concat())).ok()
    };
    let same = inner(&[]);
    assert!(
        same.ends_with("/cli.slice/cli-outer.slice/inner.scope\n"),
        "{same}"
    );
    let child = inner(&["--slice", "x"]);
    assert!(
        child.ends_with("/cli.slice/cli-outer.slice/cli-outer-x.slice/inner.scope\n"),
        "{child}"
    );
}

#[test]
fn a_taken_name_is_125_with_fail() {
    let Some(manager) = manager() else { return };
    let unit = format!("taken-{}.scope", std::process::id());
    let again = [
        SCOPECTL,
        "run",
        "-q",
        "--manager",
        manager,
        "--if-exists",
        "fail",
        "-u",
        &unit,
        "true",
    ];
    let outer = ["-q", "-u", &unit];
    let ended = end(&mut run(manager, &[&outer[..], &again].concat()));
    assert_eq!(ended.code, Some(125), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(&unit), "{}", ended.stderr);
}

/// What systemd says of the scope while the command runs in it.
fn property(manager: &str, options: &[&str], interface: &str, name: &str) -> String {
    let address = format!("--address={manager}");
    let scope = ["-q", "--if-exists", "wait", "-u", "asked"];
    let ask = [
        "busctl",
        &address,
        "get-property",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1/unit/asked_2escope",
        interface,
        name,
    ];
    end(&mut run(manager, &[options, &scope, &ask].concat())).ok()
}

#[test]
fn systemd_is_told_what_the_options_say() {
    let Some(manager) = manager().filter(|address| address.ends_with("/bus")) else {
        skip("needs dbus-daemon");
        return;
    };
    let (unit, scope) = (
        "org.freedesktop.systemd1.Unit",
        "org.freedesktop.systemd1.Scope",
    );
    assert_eq!(
        property(manager, &["--delegate"], scope, "Delegate"),
        "b true\n"
    );
    assert_eq!(property(manager, &[], scope, "Delegate"), "b false\n");
    assert_eq!(
        property(manager, &["--collect"], unit, "CollectMode"),
        "s \"inactive-or-failed\"\n"
    );
    assert_eq!(
        property(manager, &[], unit, "CollectMode"),
        "s \"inactive\"\n"
    );
    let described = property(
        manager,
        &["--description", "a $HOME %n b"],
        unit,
        "Description",
    );
    assert!(described.starts_with("s \"a $HOME %n b"), "{described}");
    // The arguments of the command may be secret.
    let default = property(manager, &[], unit, "Description");
    assert!(default.starts_with("s \"busctl"), "{default}");
    assert!(!default.contains("get-property"), "{default}");
}

#[test]
fn without_privileges_the_refusal_says_what_is_missing() {
    let Some(manager) = manager() else { return };
    let refused = |options: &[&str]| {
        let user = [
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            SCOPECTL,
            "run",
        ];
        let mut command = Command::new("setpriv");
        command
            .args(user)
            .args(options)
            .arg("true")
            .env_remove("XDG_RUNTIME_DIR");
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(125), "{options:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        ended.stderr
    };
    let refusal = refused(&["--manager", manager, "--uid", "root"]);
    assert!(refusal.contains("--uid"), "{refusal}");
    let refusal = refused(&["--manager", manager, "--gid", "12345"]);
    assert!(refusal.contains("--gid"), "{refusal}");
    let refusal = refused(&["--manager", manager, "--nice", "-5"]);
    assert!(refusal.contains("--nice"), "{refusal}");
    let refusal = refused(&["--manager", "embedded"]);
    assert!(refusal.contains("embedded"), "{refusal}");
    let refusal = refused(&[]);
    for tried in ["system", "XDG_RUNTIME_DIR", "embedded"] {
        assert!(refusal.contains(tried), "{refusal}");
    }
}
