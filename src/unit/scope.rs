//! The name of a scope.

use super::argument::with_suffix;
use super::check::{check, stem};
use super::name_type::name_type;
use super::{UnitName, UnitType};
use crate::{Error, Result};

/// The name of a scope, such as `build-7.scope`.
///
/// The rule is that of [`UnitName`], with the suffix `.scope` and without `@`: scopes cannot be templates or instances. A name of 255 bytes that systemd puts
/// an underscore before on disk (see [`cgroup_dir_name`](Self::cgroup_dir_name)) is refused too, as its directory could not be made.
///
/// ```
/// use scopectl::unit::ScopeName;
///
/// assert_eq!(ScopeName::new("build-7.scope")?.as_str(), "build-7.scope");
/// assert_eq!(ScopeName::from_argument("build-7")?.as_str(), "build-7.scope");
///
/// let error = ScopeName::from_argument("ssh.service").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"scope name "ssh.service" is that of a service; end it in ".scope", or leave the suffix out"#
/// );
/// # Ok::<(), scopectl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeName(String);

name_type!(ScopeName);

const WHAT: &str = "scope name";

impl ScopeName {
    /// Checks `name`, which has its suffix.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if systemd would not take it as the name of a scope.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check(&name, WHAT, Some(UnitType::Scope))?;
        Ok(Self(name))
    }

    /// Reads a name as a person writes it on a command line: one without the suffix of any unit type gets `.scope`.
    ///
    /// Nothing else is changed or escaped, so `foo.bar` becomes `foo.bar.scope` and `a b` is an error.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) for the name of another type of unit, and for what [`new`](Self::new) would refuse.
    pub fn from_argument(argument: &str) -> Result<Self> {
        Self::new(with_suffix(argument, WHAT, UnitType::Scope)?)
    }

    /// The name, with its suffix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without the suffix: `build-7` of `build-7.scope`.
    pub fn stem(&self) -> &str {
        stem(&self.0, UnitType::Scope)
    }
}

impl TryFrom<UnitName> for ScopeName {
    type Error = Error;

    /// Fails for a unit of another type.
    fn try_from(name: UnitName) -> Result<Self> {
        Self::new(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn names_that_systemd_takes_are_taken_as_they_are() {
        for text in [
            "a.scope",
            "foo.service.scope",
            "-a.scope",
            "--.scope",
            "..scope",
            r"a\x2db.scope",
            "session-3.scope",
            "scope.scope",
        ] {
            let name = ScopeName::new(text).unwrap();
            assert_eq!(name, text);
            assert_eq!(format!("{}.scope", name.stem()), text);
        }
    }

    #[test]
    fn other_types_templates_instances_and_odd_characters_are_errors() {
        for (text, reason) in [
            ("", "is empty"),
            (".scope", "has nothing before its suffix"),
            ("a", r#"does not end in ".scope""#),
            ("a.service", r#"does not end in ".scope""#),
            ("a.slice", r#"does not end in ".scope""#),
            ("a.scope.slice", r#"does not end in ".scope""#),
            ("a@b.scope", "a scope cannot be a template or an instance"),
            ("a@.scope", "a scope cannot be a template or an instance"),
            ("a/b.scope", r#"contains "/""#),
            ("a.scope/b", r#"contains "/""#),
            ("a.scope ", r#"contains " ""#),
        ] {
            let error = ScopeName::new(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{text:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(reason), "{text:?}: {sentence}");
            assert!(sentence.starts_with("scope name \""), "{sentence}");
        }
    }

    #[test]
    fn a_name_whose_directory_name_would_not_fit_is_refused() {
        for start in ["_", ".", "cpu.", "cgroup."] {
            let fits = format!("{start:a<248}.scope");
            assert_eq!(ScopeName::new(fits).unwrap().cgroup_dir_name().len(), 255);
            let too_long = format!("{start:a<249}.scope");
            assert_eq!(too_long.len(), 255);
            let error = ScopeName::new(too_long).unwrap_err();
            assert!(error.to_string().contains("one byte too long"), "{error}");
        }
        assert!(ScopeName::new(format!("{:a<249}.scope", "cpu")).is_ok());
    }

    #[test]
    fn only_a_scope_unit_turns_into_a_scope_name() {
        let scope = UnitName::new("a.scope").unwrap();
        assert_eq!(ScopeName::try_from(scope).unwrap(), "a.scope");
        let service = UnitName::new("a.service").unwrap();
        ScopeName::try_from(service).unwrap_err();
    }
}
