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
            sentence: shorten(&sentence.into()),
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

/// The most of one word or quoted text that a sentence repeats.
const LONGEST: usize = 200;

/// Cuts what is too long to be read: it keeps the start of each such value and says how long it was.
fn shorten(sentence: &str) -> String {
    if sentence.len() <= LONGEST {
        return sentence.to_owned();
    }
    let mut short = String::new();
    let mut rest = sentence;
    while !rest.is_empty() {
        let (value, after) = rest.split_at(value_length(rest));
        rest = after;
        if value.len() <= LONGEST {
            short.push_str(value);
            continue;
        }
        let end = (0..=LONGEST).rev().find(|end| value.is_char_boundary(*end));
        let mut kept = &value[..end.unwrap_or(0)];
        // Not in the middle of an escape, of which `\u{10ffff}` is the longest.
        if let Some(escape) = kept.rfind('\\').filter(|at| kept.len() - at < 10) {
            kept = kept[..escape].trim_end_matches('\\');
        }
        let quote = if value.starts_with('"') { "\"" } else { "" };
        let length = value.len() - 2 * quote.len();
        let _ = write!(short, "{kept}...{quote} ({length} bytes)");
    }
    short
}

/// The length of the quoted text, or of the word, at the start of a text that is not empty.
fn value_length(text: &str) -> usize {
    let mut escaped = false;
    let is_end = |character: char| character == '"' || character.is_whitespace();
    match text.strip_prefix('"') {
        Some(quoted) => {
            let end = quoted.find(|character| {
                let ends = character == '"' && !escaped;
                escaped = character == '\\' && !escaped;
                ends
            });
            end.map_or(1, |end| end + 2)
        }
        None => match text.find(is_end) {
            Some(0) => text.chars().next().map_or(1, char::len_utf8),
            Some(end) => end,
            None => text.len(),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_repeats_only_the_start_of_a_long_value() {
        let long = "a".repeat(100_000);
        for value in [
            long.clone(),
            "a b ".repeat(25_000),
            "\u{1}\"\\".repeat(10_000),
            "\\".repeat(10_000),
            "\u{e9}".repeat(50_000),
            " \u{2003}".repeat(50_000),
        ] {
            let sentence = shorten(&format!("--unit: {value:?} is no name"));
            assert!(sentence.len() < 300, "{sentence}");
            assert!(sentence.starts_with("--unit: \""), "{sentence}");
            assert!(sentence.ends_with(" bytes) is no name"), "{sentence}");
        }
        assert_eq!(
            shorten(&format!("an argument '{long}' found")),
            format!("an argument '{}... (100002 bytes) found", &long[..199])
        );
    }

    #[test]
    fn a_sentence_of_short_values_stays_as_it_is() {
        let sentence = format!("{:?} \" é\u{2003}x", "a\"b c").repeat(100);
        assert_eq!(shorten(&sentence), sentence);
    }
}
