//! What can be typed. Values stay as they were typed: each verb's plan checks them and names the option in its sentence.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, Subcommand};

use super::exit::{self, Failure};
use super::run::RunArgs;

/// Start commands in systemd scopes of their own.
#[derive(Parser)]
#[command(
    name = "scopectl",
    version,
    propagate_version = true,
    args_override_self = true
)]
#[command(disable_help_subcommand = false, subcommand_value_name = "VERB")]
#[command(subcommand_help_heading = "Verbs")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
pub(super) enum Verb {
    Run(Box<RunArgs>),
}

pub(super) enum Parsed {
    Verb(Verb),
    /// Help or version, for stdout.
    Help(Box<clap::Error>),
    Usage(Failure),
}

pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Parsed {
    let arguments: Vec<OsString> = arguments.collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => Parsed::Verb(cli.verb),
        Err(error) if !error.use_stderr() => Parsed::Help(Box::new(error)),
        Err(error) => {
            // Whoever wraps a command must be able to tell our failures from the command's.
            let runs_a_command = arguments.get(1).is_some_and(|verb| verb == "run");
            let (code, help) = if runs_a_command {
                (exit::FAILED, "scopectl run --help")
            } else {
                (exit::OTHER_VERB, "scopectl --help")
            };
            let sentence = format!("{}; see {help}", sentence(&error));
            Parsed::Usage(Failure::with_code(code, sentence))
        }
    }
}

/// clap's error as one sentence.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match error.kind() {
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(what) => format!("missing argument: {what}"),
            None => "an argument is missing".to_owned(),
        },
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a verb is missing".to_owned()
        }
        ErrorKind::InvalidSubcommand => match error.get(ContextKind::InvalidSubcommand) {
            Some(verb) => format!("there is no verb '{verb}'"),
            None => first.to_owned(),
        },
        _ => first.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn run(arguments: &[&str]) -> RunArgs {
        let typed = ["scopectl", "run"].iter().chain(arguments);
        match parse(typed.map(OsString::from)) {
            Parsed::Verb(Verb::Run(args)) => *args,
            Parsed::Help(_) => panic!("help"),
            Parsed::Usage(failure) => panic!("{}", failure.sentence()),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_root_slice_and_negative_numbers_are_values() {
        let args = run(&["--slice", "-.slice", "--nice", "-5", "true"]);
        assert_eq!(args.slice, Some(OsString::from("-.slice")));
        assert_eq!(args.nice, Some(OsString::from("-5")));
    }

    #[test]
    fn everything_from_the_command_on_is_the_commands() {
        for (typed, expected) in [
            (
                &["-q", "echo", "-q", "--", "x"][..],
                &["echo", "-q", "--", "x"][..],
            ),
            (&["--", "echo", "--", "--help"], &["echo", "--", "--help"]),
            (&["--", "-x", "--unit"], &["-x", "--unit"]),
            (&["--", "--", "x"], &["--", "x"]),
            (&["run", "run"], &["run", "run"]),
            (&["", "a"], &["", "a"]),
        ] {
            assert_eq!(run(typed).command, expected, "{typed:?}");
        }
    }

    #[test]
    fn the_last_of_a_repeated_option_counts_and_setenv_adds_up() {
        let args = run(&["-u", "a", "--unit=b", "-E", "A=1", "-EB", "true"]);
        assert_eq!(args.unit, Some(OsString::from("b")));
        assert_eq!(args.setenv, ["A=1", "B"]);
    }
}
