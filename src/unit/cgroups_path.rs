//! The `cgroupsPath` of an OCI configuration, in the form that runtimes with a systemd driver use: `slice:prefix:name`.

use std::str::FromStr;

use super::check::invalid;
use super::quote::quoted;
use super::{ScopeName, SliceName, UnitName};
use crate::{Error, Result};

/// Where an OCI runtime puts a container: the unit, and the slice that it is in.
///
/// `linux.cgroupsPath` of the OCI runtime specification is a plain path; podman, cri-o and containerd write `slice:prefix:name` into it for a runtime with the
/// systemd driver, and this reads it as runc and crun do:
///
/// * The unit is the scope `prefix-name.scope`. An empty prefix keeps its dash, `-name.scope`: that is the unit which those runtimes make, so it is the one to
///   look for.
/// * A name that ends in `.slice` is the slice unit itself (a pod); the prefix is then not used. Its parent follows from its dashes, so a slice part that says
///   otherwise is an error, as is the root slice, which nobody can make.
/// * An empty slice part means the manager's default, `system.slice` or, for a user's manager, `app.slice` (`-.slice` before systemd 247); runtimes say
///   `user.slice` there.
/// * Every part is checked as a name of its kind. Paths, an empty string, more or fewer than two colons and an empty name are errors.
///
/// ```
/// use scopectl::unit::{CgroupsPath, CgroupsUnit};
///
/// let path = CgroupsPath::parse("machine.slice:libpod:4f2a")?;
/// assert_eq!(path.slice().map(|slice| slice.as_str()), Some("machine.slice"));
/// assert!(matches!(path.unit(), CgroupsUnit::Scope(name) if name.as_str() == "libpod-4f2a.scope"));
///
/// let default = CgroupsPath::parse(":runc:4f2a")?;
/// assert_eq!(default.slice(), None);
/// # Ok::<(), scopectl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CgroupsPath {
    slice: Option<SliceName>,
    unit: CgroupsUnit,
}

/// The unit that a [`CgroupsPath`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CgroupsUnit {
    /// A container: `prefix-name.scope`.
    Scope(ScopeName),
    /// A group of containers, such as a pod: the name as given.
    Slice(SliceName),
}

impl CgroupsUnit {
    /// The unit's name, with its suffix.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Scope(name) => name.as_str(),
            Self::Slice(name) => name.as_str(),
        }
    }
}

impl From<CgroupsUnit> for UnitName {
    fn from(unit: CgroupsUnit) -> Self {
        match unit {
            CgroupsUnit::Scope(name) => name.into(),
            CgroupsUnit::Slice(name) => name.into(),
        }
    }
}

impl CgroupsPath {
    /// Reads `slice:prefix:name`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if the text has another form, or if a part is not a valid name.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.splitn(4, ':').collect();
        let &[slice, prefix, name] = parts.as_slice() else {
            return Err(refused(text, "does not have the form slice:prefix:name"));
        };
        if name.is_empty() {
            return Err(refused(text, "has no name after the second colon"));
        }
        let of_part = |error: Error| refused(text, &format!("is refused: {error}"));
        let slice = match slice {
            "" => None,
            slice => Some(SliceName::new(slice).map_err(of_part)?),
        };
        if !name.ends_with(".slice") {
            let scope = ScopeName::new(format!("{prefix}-{name}.scope")).map_err(of_part)?;
            return Ok(Self {
                slice,
                unit: CgroupsUnit::Scope(scope),
            });
        }
        let unit = SliceName::new(name).map_err(of_part)?;
        let Some(parent) = unit.parent() else {
            return Err(refused(text, "names the root slice, which always exists"));
        };
        if slice.is_some_and(|slice| slice != parent) {
            return Err(refused(
                text,
                &format!("puts {unit} into another slice than {parent}, which its dashes say"),
            ));
        }
        Ok(Self {
            slice: Some(parent),
            unit: CgroupsUnit::Slice(unit),
        })
    }

    /// The slice that the unit is in; `None` means the manager's default. For a slice unit this is its parent, given or not.
    pub fn slice(&self) -> Option<&SliceName> {
        self.slice.as_ref()
    }

    /// The unit.
    pub fn unit(&self) -> &CgroupsUnit {
        &self.unit
    }

    /// Both parts: [`slice`](Self::slice) and [`unit`](Self::unit).
    pub fn into_parts(self) -> (Option<SliceName>, CgroupsUnit) {
        (self.slice, self.unit)
    }
}

impl FromStr for CgroupsPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn refused(text: &str, reason: &str) -> Error {
    invalid(format!("cgroups path {} {reason}", quoted(text)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn three_parts_are_a_slice_and_the_scope_that_runtimes_make() {
        for (text, slice, scope) in [
            (
                "test-a-b.slice:docker:foo",
                Some("test-a-b.slice"),
                "docker-foo.scope",
            ),
            (
                "machine.slice:libpod:foo",
                Some("machine.slice"),
                "libpod-foo.scope",
            ),
            (":docker:foo", None, "docker-foo.scope"),
            (":x:y", None, "x-y.scope"),
            ("-.slice:p:n", Some("-.slice"), "p-n.scope"),
            ("a.slice::n", Some("a.slice"), "-n.scope"),
            ("::n", None, "-n.scope"),
            // Only ".slice" is special: a container of this name gets the suffix once more.
            (
                ":testing-container:ab.scope",
                None,
                "testing-container-ab.scope.scope",
            ),
            (":p:n.service", None, "p-n.service.scope"),
            (":p.slice:n", None, "p.slice-n.scope"),
            (":p:slice", None, "p-slice.scope"),
        ] {
            let path = CgroupsPath::parse(text).unwrap();
            assert_eq!(path.slice().map(SliceName::as_str), slice, "{text}");
            assert_eq!(
                path.unit(),
                &CgroupsUnit::Scope(ScopeName::new(scope).unwrap())
            );
            assert_eq!(UnitName::from(path.unit().clone()), scope);
            assert_eq!(text.parse::<CgroupsPath>().unwrap(), path);
        }
    }

    #[test]
    fn a_name_that_ends_in_slice_is_the_slice_itself_below_its_own_parent() {
        for (text, slice, unit) in [
            (":runc:system.slice", "-.slice", "system.slice"),
            ("-.slice::kubepods.slice", "-.slice", "kubepods.slice"),
            (
                "kubepods.slice:ignored, whatever it is:kubepods-burstable.slice",
                "kubepods.slice",
                "kubepods-burstable.slice",
            ),
            (
                "::kubepods-burstable.slice",
                "kubepods.slice",
                "kubepods-burstable.slice",
            ),
        ] {
            let (parent, made) = CgroupsPath::parse(text).unwrap().into_parts();
            assert_eq!(parent.unwrap(), slice, "{text}");
            assert_eq!(made, CgroupsUnit::Slice(SliceName::new(unit).unwrap()));
            assert_eq!(made.as_str(), unit);
        }
    }

    #[test]
    fn everything_else_is_an_error_that_quotes_the_whole_path() {
        let form = "does not have the form slice:prefix:name";
        for (text, reason) in [
            ("", form),
            ("a", form),
            ("a:b", form),
            ("a:b:c:d", form),
            ("a.slice:b:c:d:e", form),
            ("/user/cgroups/path/id", form),
            (
                "parent:p:n",
                r#"slice name "parent" does not end in ".slice""#,
            ),
            (
                "parent:scopeprefix:name",
                r#"slice name "parent" does not end in"#,
            ),
            ("-:p:n", r#"slice name "-" does not end in ".slice""#),
            ("a--b.slice:p:n", "has a level with no name"),
            ("a@b.slice:p:n", "a slice cannot be"),
            ("/a.slice:p:n", r#"contains "/""#),
            ("a.slice:p:", "has no name"),
            ("::", "has no name"),
            (":p:n/sub", r#"scope name "p-n/sub.scope" contains "/""#),
            (":p:a b", r#"contains " ""#),
            (":p:a@b", "a scope cannot be"),
            (":ä:n", r#"contains "ä""#),
            (":p:n\n", r#"contains "\n""#),
            (":p:.slice", "has nothing before its suffix"),
            (":p:a--b.slice", "has a level with no name"),
            (":p:-.slice", "names the root slice"),
            (
                "system.slice:p:foo-bar.slice",
                "puts foo-bar.slice into another slice than foo.slice",
            ),
        ] {
            let error = CgroupsPath::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{text:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(reason), "{text:?}: {sentence}");
            let start = format!("cgroups path {} ", quoted(text));
            assert!(sentence.starts_with(&start), "{sentence}");
        }
        let long = CgroupsPath::parse(&format!(":p:{}", "n".repeat(248))).unwrap_err();
        assert!(long.to_string().contains("is 256 bytes long"), "{long}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>(), odd in r"[a.:-]{0,6}(\.slice)?:[a.:-]{0,4}:[a.:-]{0,4}(\.slice)?") {
            for text in [text, odd] {
                if let Ok(path) = CgroupsPath::parse(&text) {
                    prop_assert!(UnitName::new(path.unit().as_str()).is_ok());
                }
            }
        }
    }
}
