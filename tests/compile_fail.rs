//! The invariant, proven by the compiler: no cgroup handle without a finished, verified start.
//!
//! Each file in `compile_fail/` tries one way around it. A line that the compiler must refuse ends in `//~ CODE`, and no other line may be refused. Codes and
//! lines are compared and not the words, since those change from one compiler to the next.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Refused lines: number and code.
type Refusals = Vec<(u64, String)>;

#[test]
fn a_cgroup_handle_comes_from_a_proven_start_alone() {
    let crates = Crates::build();
    let mut wrong = String::new();
    let mut tried = 0;
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let expected = expected(&file);
        let control = name == "control.rs";
        assert_eq!(
            expected.is_empty(),
            control,
            "{name} must say what is refused in it"
        );
        let (refused, rendered) = crates.check(&file);
        if refused != expected {
            wrong.push_str(&format!(
                "{name}: expected {expected:?}, and the compiler refused {refused:?}:\n{rendered}\n"
            ));
        }
        tried += 1;
    }
    assert!(tried > 15, "only {tried} files");
    assert!(
        wrong.is_empty(),
        "If a line compiles now, a cgroup can be had without a finished start: make it private again. If it is refused for another reason, mend the file.\n{wrong}"
    );
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn expected(file: &Path) -> Refusals {
    let text = std::fs::read_to_string(file).unwrap();
    let marked = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (_, codes) = line.split_once("//~ ")?;
        Some(codes.split(' ').map(move |code| (number, code.to_owned())))
    });
    marked.flatten().collect()
}

/// The compiled library and what the files use besides.
struct Crates {
    externs: BTreeMap<String, PathBuf>,
}

impl Crates {
    fn build() -> Self {
        let mut cargo = Command::new(tool("CARGO", "cargo"));
        cargo
            .args([
                "check",
                "--quiet",
                "--lib",
                "--all-features",
                "--message-format=json",
            ])
            .arg("--manifest-path")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .arg("--target-dir")
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("api"))
            // As in `handles`, with which the directory is shared.
            .env("RUSTC_BOOTSTRAP", "1");
        let output = run(cargo);
        assert!(
            output.status.success(),
            "the library does not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let externs = messages(&output.stdout)
            .filter_map(|message| {
                let name = message["target"]["name"].as_str()?;
                let wanted = message["reason"] == "compiler-artifact"
                    && ["scopectl", "serde"].contains(&name);
                let file = message["filenames"]
                    .as_array()?
                    .iter()
                    .find_map(Value::as_str)?;
                (wanted && file.ends_with(".rmeta")).then(|| (name.to_owned(), file.into()))
            })
            .collect::<BTreeMap<String, PathBuf>>();
        assert_eq!(externs.len(), 2, "{externs:?}");
        Self { externs }
    }

    /// What the compiler refuses in a file, and its words.
    fn check(&self, file: &Path) -> (Refusals, String) {
        let mut rustc = Command::new(tool("RUSTC", "rustc"));
        rustc
            .args(["--edition=2024", "--crate-name=case", "--emit=metadata"])
            .args(["--error-format=json", "--cap-lints=allow", "--out-dir"])
            .arg(env!("CARGO_TARGET_TMPDIR"));
        for (name, path) in &self.externs {
            rustc
                .arg("--extern")
                .arg(format!("{name}={}", path.display()));
            rustc
                .arg("-L")
                .arg(format!("dependency={}", path.parent().unwrap().display()));
        }
        rustc.arg(file);
        let output = run(rustc);
        let errors: Vec<Value> = messages(&output.stderr)
            .filter(|message| {
                message["level"] == "error" && message["spans"] != Value::Array(Vec::new())
            })
            .collect();
        assert_eq!(
            output.status.success(),
            errors.is_empty(),
            "{}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        let mut refused: Refusals = errors
            .iter()
            .map(|error| {
                let spans = error["spans"].as_array().into_iter().flatten();
                let line = spans.clone().find(|span| span["is_primary"] == true);
                let line = line
                    .and_then(|span| span["line_start"].as_u64())
                    .unwrap_or(0);
                (
                    line,
                    error["code"]["code"]
                        .as_str()
                        .unwrap_or("no code")
                        .to_owned(),
                )
            })
            .collect();
        refused.sort();
        let rendered = errors.iter().filter_map(|error| error["rendered"].as_str());
        (refused, rendered.collect())
    }
}

fn messages(text: &[u8]) -> impl Iterator<Item = Value> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

fn run(mut command: Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"))
}

/// cargo says by which cargo the test is run; the compiler is found as that one finds it.
fn tool(variable: &str, name: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| name.into())
}
