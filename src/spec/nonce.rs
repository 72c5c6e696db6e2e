//! The mark that tells a unit that we started from another of the same name.
//!
//! It stands at the end of the unit's `Description=`, the one property that every systemd version takes, shows in a unit list, and keeps over a reload.

use std::fmt;

const OPEN: &str = " [scopectl:";

/// A random number, written as 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce(u64);

impl Nonce {
    pub(crate) fn new(random: u64) -> Self {
        Self(random)
    }

    /// `description` with the mark appended.
    pub(crate) fn mark(self, description: &str) -> String {
        format!("{description}{self}")
    }

    /// Whether a unit of this description carries this very nonce.
    pub(crate) fn marks(self, description: &str) -> bool {
        parse(description).is_some_and(|(_, nonce)| nonce == self)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPEN}{:016x}]", self.0)
    }
}

/// Splits a marked description into what the user gave and the nonce.
pub(crate) fn parse(description: &str) -> Option<(&str, Nonce)> {
    let (text, rest) = description.rsplit_once(OPEN)?;
    let digits = rest.strip_suffix(']')?;
    if digits.len() != 16
        || !digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    let nonce = u64::from_str_radix(digits, 16).ok()?;
    Some((text, Nonce(nonce)))
}

/// Whether a unit of this description was started by this crate, in whatever process.
pub(crate) fn is_marked(description: &str) -> bool {
    parse(description).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_again_behind_any_description() {
        let nonce = Nonce::new(0xdead_beef);
        for text in [
            "",
            "a build",
            "looks [scopectl:like] one",
            "a [scopectl:00000000deadbee0]",
        ] {
            let marked = nonce.mark(text);
            assert!(nonce.marks(&marked), "{marked}");
            assert_eq!(parse(&marked), Some((text, nonce)));
        }
    }

    #[test]
    fn another_nonce_or_none_is_not_ours() {
        let nonce = Nonce::new(1);
        for text in [
            "",
            "a [scopectl:0000000000000002]",
            "a [scopectl:1]",
            "a [scopectl:+000000000000001]",
            "a [scopectl:0000000000000001] b",
        ] {
            assert!(!nonce.marks(text), "{text}");
        }
        assert!(is_marked("a [scopectl:0000000000000002]"));
        assert!(!is_marked("a [scopectl:000000000000000G]"));
    }
}
