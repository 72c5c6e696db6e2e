//! The command line. One file (or folder) a verb; each goes args (what was typed) -> plan (checked) -> act -> output.
//!
//! Nothing here knows more of systemd than the library's public interface offers.

mod args;
mod cgroup_path;
mod duration;
mod environment;
mod exec;
mod exit;
mod identity;
mod inherited;
mod log;
mod run;
mod sys;

use std::process::ExitCode;

use args::{Parsed, Verb};

pub(crate) fn main() -> ExitCode {
    let code = match args::parse(std::env::args_os()) {
        Parsed::Verb(Verb::Run(args)) => run::run(&args),
        Parsed::Help(text) => exit::print_help(&text),
        Parsed::Usage(failure) => Err(failure),
    };
    ExitCode::from(code.unwrap_or_else(|failure| failure.report()))
}
