//! The name of any unit.

use super::check::{check, stem};
use super::name_type::name_type;
use super::{ScopeName, SliceName, UnitType};
use crate::Result;

/// The name of a unit of any type, such as `ssh.service`, `user@1000.service` or `a-b.slice`.
///
/// 1 to 255 bytes with the suffix, which is one of the [unit types](UnitType); before it ASCII letters, digits and `: - _ . \`. The first `@` separates the name
/// of a template from the instance, and both must be there: a template itself (`user@.service`) is not a unit. The source is systemd.unit(5).
///
/// ```
/// use scopectl::ErrorKind;
/// use scopectl::unit::{UnitName, UnitType};
///
/// let name = UnitName::new("user@1000.service")?;
/// assert_eq!(name.unit_type(), UnitType::Service);
/// assert_eq!(name.object_path_label(), "user_401000_2eservice");
///
/// let error = UnitName::new("my job.service").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidName);
/// assert!(error.to_string().starts_with(r#"unit name "my job.service" contains " ", but only"#));
///
/// // On disk a name that looks like a file of the kernel gets an underscore.
/// assert_eq!(UnitName::new("memory.service")?.cgroup_dir_name(), "_memory.service");
/// # Ok::<(), scopectl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(String, UnitType);

name_type!(UnitName);

impl UnitName {
    /// Checks `name`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if systemd would not take it as the name of a unit.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let kind = check(&name, "unit name", None)?;
        Ok(Self(name, kind))
    }

    /// The name, with its suffix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The unit's type, which the suffix says.
    pub fn unit_type(&self) -> UnitType {
        self.1
    }

    /// The name without the suffix: `ssh` of `ssh.service`.
    pub fn stem(&self) -> &str {
        stem(&self.0, self.1)
    }
}

impl From<ScopeName> for UnitName {
    fn from(name: ScopeName) -> Self {
        Self(name.into(), UnitType::Scope)
    }
}

impl From<SliceName> for UnitName {
    fn from(name: SliceName) -> Self {
        Self(name.into(), UnitType::Slice)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn every_type_and_every_allowed_character_is_accepted() {
        for kind in UnitType::ALL {
            let text = format!("aZ09:-_.\\x2d.{kind}");
            let name = UnitName::new(text.clone()).unwrap();
            assert_eq!(name.unit_type(), kind);
            assert_eq!(name.as_str(), text);
            assert_eq!(name.stem(), "aZ09:-_.\\x2d");
        }
        for text in [
            "-.mount",
            "-.slice",
            "..scope",
            ".a.service",
            "foo.service.scope",
            r"a\zz.scope",
            "user@1000.service",
            "a@b@c.service",
            "a@-.service",
            "dev-disk-by\\x2duuid-1.device",
        ] {
            assert_eq!(UnitName::new(text).unwrap(), text);
        }
    }

    #[test]
    fn what_systemd_refuses_is_an_error_that_says_why() {
        for (text, reason) in [
            ("", "is empty"),
            ("a", "does not end in a unit type"),
            ("a.", "does not end in a unit type"),
            ("a.Scope", "does not end in a unit type"),
            ("a.snapshot", "does not end in a unit type"),
            (".scope", "has nothing before its suffix"),
            ("a b.scope", r#"contains " ""#),
            ("a/b.scope", r#"contains "/""#),
            ("a.scope\n", r#"contains "\n""#),
            ("a\0.scope", r#"contains "\0""#),
            ("ä.scope", r#"contains "ä""#),
            ("a.scopé", r#"contains "é""#),
            ("a+b.scope", r#"contains "+""#),
            ("a*.scope", r#"contains "*""#),
            ("a%i.scope", r#"contains "%""#),
            ("a@.service", "names a template"),
            ("@b.service", r#"has nothing before its "@""#),
            ("@.service", r#"has nothing before its "@""#),
        ] {
            let error = UnitName::new(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{text:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(reason), "{text:?}: {sentence}");
            assert!(sentence.starts_with("unit name \""), "{sentence}");
            assert!(!sentence.contains(['\n', '\0']), "{sentence}");
        }
    }

    #[test]
    fn the_limit_is_255_bytes_with_the_suffix() {
        assert_eq!(
            UnitName::new("a".repeat(249) + ".scope")
                .unwrap()
                .as_str()
                .len(),
            255
        );
        let error = UnitName::new("a".repeat(250) + ".scope").unwrap_err();
        assert!(error.to_string().contains("is 256 bytes long"), "{error}");
    }

    #[test]
    fn a_scope_or_slice_is_a_unit_too() {
        let scope = UnitName::from(ScopeName::new("a.scope").unwrap());
        assert_eq!(
            (scope.unit_type(), scope.as_str()),
            (UnitType::Scope, "a.scope")
        );
        let slice = UnitName::from(SliceName::ROOT);
        assert_eq!((slice.unit_type(), slice.stem()), (UnitType::Slice, "-"));
    }

    /// The rule once more, in the other direction: what may be there, as a pattern.
    fn obeys_the_character_rule(name: &str) -> bool {
        let (stem, suffix) = name.rsplit_once('.').unwrap();
        UnitType::ALL.iter().any(|kind| kind.as_str() == suffix)
            && (1..=255).contains(&name.len())
            && !stem.is_empty()
            && stem
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'-' | b'_' | b'.' | b'\\' | b'@'))
    }

    proptest! {
        #[test]
        fn new_takes_any_text_and_accepts_only_what_obeys_the_rule(text in any::<String>()) {
            for text in [text.clone(), text + ".scope"] {
                if let Ok(name) = UnitName::new(text) {
                    prop_assert!(obeys_the_character_rule(name.as_str()));
                }
            }
        }

        #[test]
        fn all_names_of_allowed_characters_are_accepted_and_others_refused(
            stem in r"[a-zA-Z0-9:_.\\-]{1,240}",
            bad in r"[^a-zA-Z0-9:_.\\@-]",
            at in 0usize..240,
        ) {
            let name = UnitName::new(format!("{stem}.service")).unwrap();
            prop_assert_eq!(name.stem(), &stem);
            let mut spoilt = format!("{stem}.service");
            spoilt.insert_str(at.min(stem.len()), &bad);
            prop_assert!(UnitName::new(spoilt).is_err());
        }
    }
}
