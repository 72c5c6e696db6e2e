//! The command's environment: the caller's, byte for byte, with the `--setenv` and `--uid` changes. Pure.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;

/// The entries as `execve` takes them. Nothing in them is ever expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment(Vec<CString>);

impl Environment {
    pub(super) fn new(entries: Vec<CString>) -> Self {
        Self(entries)
    }

    pub(super) fn entries(&self) -> &[CString] {
        &self.0
    }

    /// The value of the first entry of that name, as getenv(3) finds it.
    pub(super) fn get(&self, name: &[u8]) -> Option<&OsStr> {
        self.0
            .iter()
            .find_map(|entry| value_of(entry.as_bytes(), name))
            .map(OsStr::from_bytes)
    }

    /// Sets `name`, in the place of its first entry if there is one. Bytes after a NUL cannot occur in an argument or a user database entry; such a value is
    /// left out.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) {
        let Ok(entry) = CString::new([name, b"=", value].concat()) else {
            return;
        };
        let mut entry = Some(entry);
        self.0.retain_mut(|old| {
            if value_of(old.as_bytes(), name).is_none() {
                return true;
            }
            entry.take().map(|new| *old = new).is_some()
        });
        self.0.extend(entry);
    }
}

fn value_of<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    entry.strip_prefix(name)?.strip_prefix(b"=")
}

/// One `--setenv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assignment {
    /// `NAME=VALUE`
    Set(Vec<u8>, Vec<u8>),
    /// `NAME`: as the caller has it.
    Keep(Vec<u8>),
}

impl Assignment {
    pub(super) fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        };
        let valid = !name.is_empty()
            && !name[0].is_ascii_digit()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !valid {
            // Not the whole argument: the value may be a secret.
            return Err(format!(
                "{:?} is not a name for a variable (letters, digits and _, no digit first); write NAME=VALUE or NAME",
                String::from_utf8_lossy(name)
            ));
        }
        Ok(match value {
            Some(value) => Self::Set(name.to_vec(), value.to_vec()),
            None => Self::Keep(name.to_vec()),
        })
    }

    pub(super) fn name(&self) -> &[u8] {
        match self {
            Self::Set(name, _) | Self::Keep(name) => name,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn environment(entries: &[&str]) -> Environment {
        Environment::new(entries.iter().map(|e| CString::new(*e).unwrap()).collect())
    }

    #[test]
    fn set_replaces_in_place_and_drops_duplicates() {
        let mut env = environment(&["A=1", "B=2", "A=3", "odd", "AA=4"]);
        env.set(b"A", b"$HOME x=y");
        env.set(b"C", b"");
        assert_eq!(
            env,
            environment(&["A=$HOME x=y", "B=2", "odd", "AA=4", "C="])
        );
        assert_eq!(env.get(b"A"), Some(OsStr::new("$HOME x=y")));
        assert_eq!(env.get(b"odd"), None);
    }

    #[test]
    fn an_assignment_splits_at_the_first_equals_sign() {
        assert_eq!(
            Assignment::parse(OsStr::new("A=b=c")).unwrap(),
            Assignment::Set(b"A".to_vec(), b"b=c".to_vec())
        );
        assert_eq!(
            Assignment::parse(OsStr::new("_a1")).unwrap(),
            Assignment::Keep(b"_a1".to_vec())
        );
    }

    #[test]
    fn a_bad_name_is_refused_without_showing_the_value() {
        for text in [
            "",
            "=",
            "=x",
            "1A=secret",
            "A B=secret",
            "A-B=secret",
            "ä=secret",
        ] {
            let sentence = Assignment::parse(OsStr::new(text)).unwrap_err();
            assert!(!sentence.contains("secret"), "{sentence}");
        }
    }
}
