//! How a name is read from a command line.
//!
//! A person may leave the suffix out, and that is all: nothing is escaped or mangled, so the name that runs is the name that was typed. The suffix of another
//! type of unit is taken for a mistake; `ssh.service.scope` would be a valid scope, but whoever wants that one writes it in full.

use super::UnitType;
use super::check::invalid;
use super::quote::quoted;
use crate::Result;

/// `argument` with the suffix of `wanted`, unless it has it. What comes out still has to be checked.
pub(super) fn with_suffix(argument: &str, what: &str, wanted: UnitType) -> Result<String> {
    match UnitType::of(argument) {
        Some(kind) if kind == wanted => Ok(argument.to_owned()),
        Some(kind) => Err(invalid(format!(
            "{what} {} is that of {} {kind}; end it in \".{wanted}\", or leave the suffix out",
            quoted(argument),
            if kind == UnitType::Automount {
                "an"
            } else {
                "a"
            },
        ))),
        // The suffix alone would be reported as a name that nobody typed.
        None if argument.is_empty() => Ok(String::new()),
        None => Ok(format!("{argument}.{wanted}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::{ScopeName, SliceName};
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn only_a_missing_suffix_is_added() {
        for (argument, name) in [
            ("a", "a.scope"),
            ("a.scope", "a.scope"),
            ("foo.service.scope", "foo.service.scope"),
            ("foo.bar", "foo.bar.scope"),
            ("foo.", "foo..scope"),
            ("foo.Scope", "foo.Scope.scope"),
            ("scope", "scope.scope"),
            ("-a", "-a.scope"),
            ("7", "7.scope"),
            (r"a\x20b", r"a\x20b.scope"),
        ] {
            assert_eq!(ScopeName::from_argument(argument).unwrap(), name);
        }
        for (argument, name) in [
            ("a-b", "a-b.slice"),
            ("a-b.slice", "a-b.slice"),
            ("-", "-.slice"),
            ("-.slice", "-.slice"),
            ("slice", "slice.slice"),
            ("a.scope.slice", "a.scope.slice"),
        ] {
            assert_eq!(SliceName::from_argument(argument).unwrap(), name);
        }
    }

    #[test]
    fn the_suffix_of_another_type_is_an_error_that_names_it() {
        for kind in UnitType::ALL {
            let argument = format!("foo.{kind}");
            for (error, wanted) in [
                (ScopeName::from_argument(&argument).err(), UnitType::Scope),
                (SliceName::from_argument(&argument).err(), UnitType::Slice),
            ] {
                let Some(error) = error else {
                    assert_eq!(kind, wanted);
                    continue;
                };
                assert_ne!(kind, wanted);
                assert_eq!(error.kind(), ErrorKind::InvalidName);
                let sentence = error.to_string();
                assert!(sentence.contains(&format!("name \"foo.{kind}\" is that of a")));
                assert!(sentence.contains(&format!(" {kind}; end it in \".{wanted}\"")));
            }
        }
    }

    #[test]
    fn what_is_typed_wrong_is_an_error_that_quotes_it() {
        for (argument, sentence) in [
            ("", r#"scope name "" is empty"#),
            (".scope", r#"scope name ".scope" has nothing before"#),
            (".service", r#"scope name ".service" is that of a service"#),
            ("a b", r#"scope name "a b.scope" contains " ""#),
            ("a/b", r#"scope name "a/b.scope" contains "/""#),
            ("a@b", r#"scope name "a@b.scope" contains "@""#),
            ("a\n", r#"scope name "a\n.scope" contains "\n""#),
            ("ä", r#"scope name "ä.scope" contains "ä""#),
            ("a.scope\n", r#"scope name "a.scope\n.scope" contains"#),
        ] {
            let error = ScopeName::from_argument(argument).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.to_string().starts_with(sentence), "{error}");
        }
        for argument in ["", ".slice", "a-", "-a", "a--b", "..", "a.scope"] {
            SliceName::from_argument(argument).unwrap_err();
        }
    }

    #[test]
    fn a_name_that_the_suffix_makes_too_long_is_told_so() {
        assert!(ScopeName::from_argument(&"a".repeat(249)).is_ok());
        let error = ScopeName::from_argument(&"a".repeat(250)).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.contains("is 256 bytes long"), "{sentence}");
        assert!(sentence.ends_with("the suffix included"), "{sentence}");
    }
}
