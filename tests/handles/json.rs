//! Runs rustdoc and reads what it wrote. Any failure is the test's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

const ARGUMENTS: [&str; 5] = [
    "-Z",
    "unstable-options",
    "--output-format",
    "json",
    // Hidden from the documentation is not hidden from the compiler.
    "--document-hidden-items",
];

/// The JSON of this crate with all its features.
pub(crate) fn of_crate() -> &'static Value {
    static JSON: OnceLock<Value> = OnceLock::new();
    JSON.get_or_init(|| {
        // Shared with `compile_fail`, which needs the same dependencies.
        let target = directory("api");
        let mut cargo = Command::new(tool("CARGO", "cargo"));
        cargo
            .args(["rustdoc", "--quiet", "--lib", "--all-features"])
            .arg("--manifest-path")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .arg("--")
            .args(ARGUMENTS);
        run(cargo);
        read(&target.join("doc/scopectl.json"))
    })
}

/// The JSON of the small crate that has a handle in every shape.
pub(crate) fn of_fixture() -> &'static Value {
    static JSON: OnceLock<Value> = OnceLock::new();
    JSON.get_or_init(|| {
        let out = directory("handles-fixture");
        let mut rustdoc = Command::new(tool("RUSTDOC", "rustdoc"));
        rustdoc
            .args(["--edition", "2024", "--crate-name", "fixture", "--out-dir"])
            .arg(&out)
            .args(ARGUMENTS)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handles/fixture/lib.rs"));
        run(rustdoc);
        read(&out.join("fixture.json"))
    })
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// cargo tells which cargo runs the test; rustdoc is then found as that cargo would find it.
fn tool(variable: &str, name: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| name.into())
}

fn run(mut command: Command) {
    command
        .env("RUSTC_BOOTSTRAP", "1")
        // `-D warnings` there is for the documentation's own check.
        .env_remove("RUSTDOCFLAGS")
        .stdin(Stdio::null());
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(
        output.status.success(),
        "the public API cannot be read, so nothing is known about it: {command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("rustdoc wrote no {}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
