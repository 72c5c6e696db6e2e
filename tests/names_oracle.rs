//! The names of this crate against systemd's own tools: `systemd-escape` for escaping, `systemd-analyze verify` for what is a slice.
//!
//! A machine without the tool skips that comparison, and says so on stderr (`cargo test -- --nocapture` shows it); with `SCOPECTL_TEST_NO_SKIP` set it
//! fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../src/skip.rs"]
mod skip;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use scopectl::unit::{SliceName, escape, escape_path, unescape, unescape_path};
use skip::skip;

/// Runs a tool of systemd; `None`, with a line that says why, if the machine does not have it.
fn run(tool: &str, args: &[&OsStr], directory: Option<&Path>) -> Option<Output> {
    let mut command = Command::new(tool);
    command.args(args).stdin(Stdio::null()).env("LC_ALL", "C");
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(format_args!(
                "{tool} is not installed, so there is nothing to compare with"
            ));
            None
        }
        Err(error) => panic!("{tool} could not be run: {error}"),
    }
}

/// What `systemd-escape` makes of `input`: `Some(None)` if it refuses, `None` if there is no such tool.
fn systemd_escape(options: &[&str], input: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut args: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    args.extend([OsStr::new("--"), OsStr::from_bytes(input)]);
    let output = run("systemd-escape", &args, None)?;
    if !output.status.success() {
        return Some(None);
    }
    let text = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
    Some(Some(text.to_vec()))
}

// No path here begins with "..", nor is one ".": systemd 255 takes what 252 refuses.
const TEXTS: &[&[u8]] = &[
    b"",
    b"a",
    b"-",
    b"--",
    b"/",
    b"//",
    b"\\",
    b"\\x2d",
    b"\\\\",
    b".",
    b"a.",
    b".a.b",
    b"a/.b",
    b"a/..b",
    b"-a",
    b"a@b",
    b"a:b_c",
    b"a b",
    b" ",
    b"x\ny",
    b"\t",
    b"\x01\x7f",
    b"a+b=c",
    b"%i",
    b"$x",
    b"'\"`",
    b"*?[]",
    b"//a//b/",
    b"/a/./b",
    b"\xc3\xa4",
    b"\xe6\x97\xa5",
    b"\xff\xfe",
    b"nightly build/x-86",
    b"/dev/disk/by-uuid/0-1",
    b"0",
    b"a.scope",
];

const PATHS: &[&[u8]] = &[
    b"",
    b"/",
    b"//",
    b"/.",
    b"/./",
    b"a",
    b"/a",
    b"./a",
    b"a/",
    b"//a//b/",
    b"/a/./b",
    b"/a/.",
    b"/.a",
    b"/a/.b",
    b"/...",
    b"/a-b",
    b"/a\\b",
    b"/ ",
    b"/\xc3\xa4",
    b"/\xff",
    b"/var/lib/my-app",
];

const ESCAPED: &[&str] = &[
    "",
    "-",
    "--",
    "a",
    "a-b",
    "a--b",
    "-a",
    "a-",
    "a b",
    "ä",
    "a.b",
    ".a",
    r"a\x2db",
    r"a\x2f",
    r"a\x2fb",
    r"\x2ea",
    r"\xff",
    r"\xC3\xA4",
    r"\xc3\xa4",
    r"\",
    r"a\x",
    r"a\x2",
    r"a\xzz",
    r"a\n",
    r"\X2d",
    r"\x5cx2d",
    "a@b",
];

#[test]
fn escaping_is_what_systemd_escape_does() {
    for &text in TEXTS {
        let Some(theirs) = systemd_escape(&[], text) else {
            return;
        };
        let ours = escape(text).into_bytes();
        assert_eq!(Some(ours), theirs, "{:?}", OsStr::from_bytes(text));
    }
    for &path in PATHS {
        let Some(theirs) = systemd_escape(&["--path"], path) else {
            return;
        };
        let path = OsStr::from_bytes(path);
        let ours = escape_path(path).ok().map(String::into_bytes);
        assert_eq!(ours, theirs, "{path:?}");
    }
    for path in [
        format!("/{}", "a".repeat(255)),
        format!("/{}", "a".repeat(256)),
    ] {
        let Some(theirs) = systemd_escape(&["--path"], path.as_bytes()) else {
            return;
        };
        let ours = escape_path(&path).ok().map(String::into_bytes);
        assert_eq!(ours, theirs, "{path:?}");
    }
}

#[test]
fn unescaping_is_what_systemd_escape_does() {
    for text in ESCAPED {
        let Some(theirs) = systemd_escape(&["--unescape"], text.as_bytes()) else {
            return;
        };
        assert_eq!(unescape(text).ok(), theirs, "{text:?}");

        let Some(theirs) = systemd_escape(&["--unescape", "--path"], text.as_bytes()) else {
            return;
        };
        let ours = unescape_path(text)
            .ok()
            .map(|path| path.as_os_str().as_bytes().to_vec());
        assert_eq!(ours, theirs, "{text:?}");
    }
}

/// Whether systemd loads a slice of this name from a file; `None` if there is no such tool.
fn systemd_loads(directory: &Path, name: &str) -> Option<bool> {
    let file = directory.join(name);
    std::fs::write(&file, "[Slice]\n").unwrap();
    let argument = Path::new(".").join(name);
    let args = [
        OsStr::new("verify"),
        OsStr::new("--man=no"),
        argument.as_os_str(),
    ];
    let output = run("systemd-analyze", &args, Some(directory));
    std::fs::remove_file(&file).unwrap();
    Some(output?.status.success())
}

#[test]
fn a_slice_name_is_valid_where_systemd_loads_it() {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("names-oracle-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let compared = compare_slices(&directory);
    std::fs::remove_dir(&directory).unwrap();
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}

fn compare_slices(directory: &Path) -> Result<(), String> {
    match systemd_loads(directory, "plain.slice") {
        Some(true) => {}
        Some(false) => {
            skip("systemd-analyze verify does not even load plain.slice here");
            return Ok(());
        }
        None => return Ok(()),
    }
    // No name has a colon: on that command line it would begin an alias.
    for name in [
        "system.slice",
        "user-1000.slice",
        "a-b-c-d.slice",
        "a.b-c.slice",
        "foo.slice.slice",
        "a-b.slice.slice",
        "-.slice",
        "A-a.slice",
        "_a.slice",
        "cpu-a.slice",
        ".a.slice",
        "a-.b.slice",
        "a@b.slice",
        "a@.slice",
        "a b.slice",
        " a.slice",
        "ä-b.slice",
        "test--a.slice",
        "-test.slice",
        "test-.slice",
        "--.slice",
        "-.slice.slice",
        "a+b.slice",
        "a\n.slice",
        ".slice",
        "foo",
        &format!("{}.slice", "a".repeat(249)),
    ] {
        let theirs = systemd_loads(directory, name) == Some(true);
        if SliceName::new(name).is_ok() != theirs {
            return Err(format!("{name:?}: valid for systemd: {theirs}"));
        }
    }
    // The one rule that goes beyond systemd's.
    for name in ["..slice", "..-a.slice", ".-a.slice"] {
        if systemd_loads(directory, name) != Some(true) || SliceName::new(name).is_ok() {
            return Err(format!(
                "{name:?}: systemd loads it and this crate refuses it"
            ));
        }
    }
    Ok(())
}
