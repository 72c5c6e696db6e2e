//! Exit codes, and the one line on stderr that goes with a failure.
//!
//! | code    | `run`                                                                    | every other verb |
//! |---------|--------------------------------------------------------------------------|------------------|
//! | 0       | the command's, or help or version was shown                              | success          |
//! | 1       | the command's                                                            | failure or usage |
//! | 125     | scopectl failed: usage, no manager, the start was refused or ran out of time | -            |
//! | 126     | the command was found and cannot be executed                             | -                |
//! | 127     | the command was not found                                                | -                |
//! | 128 + N | signal N ended the command, and scopectl is its parent                   | -                |
//! | others  | the command's                                                            | -                |

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// scopectl itself failed (`run`).
pub(super) const FAILED: u8 = 125;
/// The command was found and cannot be executed (`run`).
pub(super) const CANNOT_EXECUTE: u8 = 126;
/// The command was not found (`run`).
pub(super) const NOT_FOUND: u8 = 127;
/// Any failure of a verb that runs no command.
pub(super) const OTHER_VERB: u8 = 1;

pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why scopectl ends without having done what was asked: an exit code and a sentence.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// A failure of scopectl while it was about to run a command.
    pub(super) fn run(sentence: impl Into<String>) -> Self {
        Self::with_code(FAILED, sentence)
    }

    pub(super) fn with_code(code: u8, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
        }
    }

    /// Puts the name of the option in front.
    pub(super) fn option(name: &str, sentence: impl std::fmt::Display) -> Self {
        Self::run(format!("{name}: {sentence}"))
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> u8 {
        self.code
    }

    #[cfg(test)]
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Prints the sentence and gives the exit code.
    pub(super) fn report(self) -> u8 {
        say(&format!("scopectl: {}", self.sentence));
        self.code
    }
}

/// Every error of the library means that scopectl could not do its part.
impl From<scopectl::Error> for Failure {
    fn from(error: scopectl::Error) -> Self {
        Self::run(error.to_string())
    }
}

/// Writes one line to stderr in one write, so that the command's own output never lands in the middle of it.
///
/// Control characters that came in with an argument are escaped: the line stays one line and cannot steer the terminal. A stderr that cannot be written is not
/// a reason to fail.
pub(super) fn say(line: &str) {
    let mut text = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        if character.is_control() {
            let _ = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    text.push('\n');
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a help or version text. A reader that has seen enough (`| head`) is no error.
pub(super) fn print_help(text: &clap::Error) -> Result<u8> {
    match text.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::with_code(
            OTHER_VERB,
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(0),
    }
}
