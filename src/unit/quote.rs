//! Text of a stranger inside an error sentence: quoted, on one line, without anything that a terminal would act on, and not endless.

use std::fmt::Write;

/// More than any name that can be right (255 bytes), so that only hopeless input is cut.
const SHOWN_CHARS: usize = 260;

/// `text` in double quotes; what cannot be printed is shown as an escape, backslashes stay as they are.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    let mut chars = text.chars();
    for c in chars.by_ref().take(SHOWN_CHARS) {
        match c {
            // Names are full of these; doubling them would show a name that the reader never typed.
            '\\' | '\'' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out.push('"');
    if chars.next().is_some() {
        // Writing to a String cannot fail.
        let _ = write!(out, "... ({} bytes)", text.len());
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_and_backslashes_stay() {
        assert_eq!(quoted(r"a\x2db"), r#""a\x2db""#);
        assert_eq!(quoted("a\nb\t\0"), r#""a\nb\t\0""#);
        assert_eq!(quoted("\u{1b}[2J"), r#""\u{1b}[2J""#);
        assert_eq!(quoted("a\u{202e}b\u{200b}"), r#""a\u{202e}b\u{200b}""#);
        assert_eq!(quoted("it's \"ä\""), r#""it's \"ä\"""#);
    }

    #[test]
    fn a_long_text_is_cut_and_its_length_told() {
        assert_eq!(quoted(&"a".repeat(260)).len(), 262);
        let long = quoted(&"ä".repeat(1_000_000));
        assert!(long.len() < 600, "{}", long.len());
        assert!(long.ends_with("\"... (2000000 bytes)"), "{long}");
    }
}
