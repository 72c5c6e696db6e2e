//! The name of a slice, and the path that follows from it: the dashes of the name are the levels of the tree.

use std::borrow::Cow;

use super::argument::with_suffix;
use super::check::{check, invalid, stem};
use super::name_type::name_type;
use super::quote::quoted;
use super::{UnitName, UnitType};
use crate::{Error, Result};

/// The name of a slice, such as `system.slice` or `kubepods-burstable.slice`.
///
/// The rule is that of [`UnitName`], with the suffix `.slice` and without `@`. Dashes separate the levels: `a-b.slice` is inside `a.slice`, and that inside the
/// [root slice](Self::ROOT), `-.slice`. So no level may be empty: no dash at either end, no two in a row. A level of dots alone is refused as well; systemd
/// would take it, but it reads as a step in a path. See systemd.slice(5).
///
/// ```
/// use scopectl::unit::SliceName;
///
/// let slice = SliceName::new("user-1000.slice")?;
/// assert_eq!(slice.path(), "/user.slice/user-1000.slice");
/// assert_eq!(SliceName::from_path("/user.slice/user-1000.slice")?, slice);
/// assert_eq!(slice.parent(), Some(SliceName::new("user.slice")?));
/// assert_eq!(SliceName::ROOT.path(), "/");
///
/// let error = SliceName::new("test--a.slice").unwrap_err();
/// assert!(error.to_string().contains("has a level with no name"));
/// # Ok::<(), scopectl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName(Cow<'static, str>);

name_type!(SliceName);

const WHAT: &str = "slice name";

impl SliceName {
    /// The root slice, `-.slice`, in which every other slice is. Its cgroup is the manager's own.
    pub const ROOT: Self = Self(Cow::Borrowed("-.slice"));

    /// Checks `name`, which has its suffix.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if systemd would not take it as the name of a slice, or if a level consists of dots.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check(&name, WHAT, Some(UnitType::Slice))?;
        let slice = Self(Cow::Owned(name));
        if !slice.is_root() {
            slice.check_levels()?;
        }
        Ok(slice)
    }

    /// Reads a name as a person writes it on a command line: one without the suffix of any unit type gets `.slice`, so that `-` is the root slice.
    ///
    /// Nothing else is changed or escaped.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) for the name of another type of unit, and for what [`new`](Self::new) would refuse.
    pub fn from_argument(argument: &str) -> Result<Self> {
        Self::new(with_suffix(argument, WHAT, UnitType::Slice)?)
    }

    /// The slice whose cgroup has that path, the inverse of [`path`](Self::path).
    ///
    /// The path is relative to the manager's own cgroup and begins with `/`. Whether a level has an underscore before it is not looked at, as that differs
    /// between versions of systemd.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if the path is not absolute, has an empty element, or is not the one that its last element belongs at.
    pub fn from_path(path: &str) -> Result<Self> {
        if path == "/" {
            return Ok(Self::ROOT);
        }
        let Some(relative) = path.strip_prefix('/') else {
            return Err(invalid(format!(
                "slice path {} does not begin with \"/\"",
                quoted(path)
            )));
        };
        let elements: Vec<&str> = relative.split('/').collect();
        let last = elements.last().copied().unwrap_or_default();
        let slice = Self::from_cgroup_dir_name(last).map_err(|error| {
            invalid(format!(
                "slice path {} does not end in a slice: {error}",
                quoted(path)
            ))
        })?;
        // The root slice has no levels, so it is found at "/" only.
        let expected = slice.levels();
        let same = elements.len() == expected.len()
            && elements
                .iter()
                .zip(&expected)
                .all(|(dir, level)| Self::from_cgroup_dir_name(dir).is_ok_and(|it| it == *level));
        if !same {
            return Err(invalid(format!(
                "slice path {} is not where {slice} belongs, which is {}",
                quoted(path),
                quoted(&slice.path())
            )));
        }
        Ok(slice)
    }

    /// The name, with its suffix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without the suffix: `a-b` of `a-b.slice`.
    pub fn stem(&self) -> &str {
        stem(&self.0, UnitType::Slice)
    }

    /// Whether this is `-.slice`.
    pub fn is_root(&self) -> bool {
        *self == Self::ROOT
    }

    /// The slice that this one is in: `a.slice` of `a-b.slice`. Only the root slice has none.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(match self.stem().rsplit_once('-') {
            Some((parent, _)) => Self(Cow::Owned(format!("{parent}.slice"))),
            None => Self::ROOT,
        })
    }

    /// The path of the slice's cgroup below the manager's own: `/a.slice/a-b.slice`, or `/` for the root slice.
    ///
    /// The elements are directories, so one that needs it begins with an underscore as [`cgroup_dir_name`](Self::cgroup_dir_name) says. This is what the
    /// unit's `ControlGroup` property says on the system manager; a user manager puts the path of its own cgroup before it.
    pub fn path(&self) -> String {
        if self.is_root() {
            return "/".to_owned();
        }
        let mut path = String::new();
        for level in self.levels() {
            path.push('/');
            path.push_str(&level.cgroup_dir_name());
        }
        path
    }

    /// The slices from the outermost inwards to this one, without the root slice.
    fn levels(&self) -> Vec<Self> {
        let mut levels: Vec<Self> =
            std::iter::successors(Some(self.clone()), Self::parent).collect();
        levels.retain(|level| !level.is_root());
        levels.reverse();
        levels
    }

    fn check_levels(&self) -> Result<()> {
        for level in self.stem().split('-') {
            if level.is_empty() {
                return Err(invalid(format!(
                    "{WHAT} {} has a level with no name, but dashes separate levels: none at either end and no two in a row; escape a dash as \\x2d",
                    quoted(self.as_str())
                )));
            }
            if level.bytes().all(|byte| byte == b'.') {
                return Err(invalid(format!(
                    "{WHAT} {} has a level that consists of dots, but needs a name there",
                    quoted(self.as_str())
                )));
            }
        }
        Ok(())
    }
}

impl TryFrom<UnitName> for SliceName {
    type Error = Error;

    /// Fails for a unit of another type, and for a slice with a level of dots.
    fn try_from(name: UnitName) -> Result<Self> {
        Self::new(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_slice_expands_to_its_path_and_the_path_leads_back() {
        for (name, path) in [
            ("system.slice", "/system.slice"),
            ("user-1000.slice", "/user.slice/user-1000.slice"),
            ("test-a-b.slice", "/test.slice/test-a.slice/test-a-b.slice"),
            (
                "test-1-test-2.slice",
                "/test.slice/test-1.slice/test-1-test.slice/test-1-test-2.slice",
            ),
            (
                "kubepods-burstable-pod1234_5678.slice",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_5678.slice",
            ),
            ("-.slice", "/"),
            ("a.b-c.slice", "/a.b.slice/a.b-c.slice"),
            ("foo.slice.slice", "/foo.slice.slice"),
            ("a-b.slice.slice", "/a.slice/a-b.slice.slice"),
            ("slice-slice.slice", "/slice.slice/slice-slice.slice"),
            ("A-a.slice", "/A.slice/A-a.slice"),
            (r"a\x2db-c.slice", r"/a\x2db.slice/a\x2db-c.slice"),
            ("a-.b.slice", "/a.slice/a-.b.slice"),
            // What collides with a file of the kernel has an underscore on disk, level by level.
            ("cpu.slice", "/_cpu.slice"),
            ("cpu-a.slice", "/_cpu.slice/cpu-a.slice"),
            ("_a-b.slice", "/__a.slice/__a-b.slice"),
            (".a-b.slice", "/_.a.slice/_.a-b.slice"),
        ] {
            let slice = SliceName::new(name).unwrap();
            assert_eq!(slice.path(), path);
            assert_eq!(SliceName::from_path(path).unwrap(), slice, "{path}");
            assert_eq!(SliceName::new(slice.as_str()).unwrap(), slice);
        }
    }

    #[test]
    fn what_is_no_slice_for_systemd_is_an_error_that_says_why() {
        let suffix = r#"does not end in ".slice""#;
        let level = "has a level with no name";
        for (name, reason) in [
            ("", "is empty"),
            ("-", suffix),
            ("slice", suffix),
            (".slice", "has nothing before its suffix"),
            ("foo", suffix),
            ("foo.scope", suffix),
            ("parent", suffix),
            ("invalid-slice", suffix),
            ("/system.slice", r#"contains "/""#),
            ("foo/bar.slice", r#"contains "/""#),
            ("user.slice/user-1000.slice", r#"contains "/""#),
            ("test--a.slice", level),
            ("-test.slice", level),
            ("test-.slice", level),
            ("--.slice", level),
            ("-.slice.slice", level),
            ("system.slice\n", r#"contains "\n""#),
            (" a.slice", r#"contains " ""#),
            ("a b.slice", r#"contains " ""#),
            ("..slice", "consists of dots"),
            ("..-a.slice", "consists of dots"),
            ("a-...slice", "consists of dots"),
            ("ä-b.slice", r#"contains "ä""#),
            ("a@b.slice", "a slice cannot be a template or an instance"),
            ("a@.slice", "a slice cannot be a template or an instance"),
        ] {
            let error = SliceName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(reason), "{name:?}: {sentence}");
            assert!(sentence.starts_with("slice name \""), "{sentence}");
        }
    }

    #[test]
    fn the_parent_is_everything_before_the_last_dash() {
        let mut chain = vec![SliceName::new("a-b-c.slice").unwrap()];
        while let Some(parent) = chain.last().unwrap().parent() {
            chain.push(parent);
        }
        assert_eq!(chain, ["a-b-c.slice", "a-b.slice", "a.slice", "-.slice"]);
        assert!(SliceName::ROOT.is_root());
    }

    #[test]
    fn a_path_that_no_slice_has_is_an_error() {
        for (path, reason) in [
            ("", r#"does not begin with "/""#),
            ("a.slice", r#"does not begin with "/""#),
            ("//", "does not end in a slice"),
            ("/a.slice/", "does not end in a slice"),
            ("/a.slice/b.scope", "does not end in a slice"),
            ("/..", "does not end in a slice"),
            ("/-.slice", "is not where -.slice belongs"),
            ("//a.slice", "is not where a.slice belongs"),
            ("/a.slice/b.slice", "is not where b.slice belongs"),
            ("/a-b.slice", "is not where a-b.slice belongs"),
            ("/b.slice/a-b.slice", "is not where a-b.slice belongs"),
            ("/a.slice//a-b.slice", "is not where a-b.slice belongs"),
            ("/a.slice/../a.slice", "is not where a.slice belongs"),
            (
                "/user.slice/user-1.slice/user@1.service/app.slice",
                "is not where app.slice belongs",
            ),
        ] {
            let error = SliceName::from_path(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{path:?}");
            assert!(error.to_string().contains(reason), "{path:?}: {error}");
        }
    }

    #[test]
    fn a_path_is_read_with_the_underscores_of_any_version() {
        let slice = SliceName::new("memory.x-b.slice").unwrap();
        for path in [
            "/_memory.x.slice/_memory.x-b.slice",
            "/memory.x.slice/memory.x-b.slice",
        ] {
            assert_eq!(SliceName::from_path(path).unwrap(), slice);
        }
    }

    #[test]
    fn the_deepest_slice_that_255_bytes_allow_expands() {
        let slice = SliceName::new(format!("a{}.slice", "-a".repeat(124))).unwrap();
        assert_eq!(slice.as_str().len(), 255);
        assert_eq!(slice.path().matches('/').count(), 125);
        assert_eq!(SliceName::from_path(&slice.path()).unwrap(), slice);
    }

    proptest! {
        #[test]
        fn path_and_from_path_are_inverse(name in r"([a-c_.:\\]{1,3}|cpu|cpu\.|memory|cgroup)(-([a-c_.:\\]{1,3}|io)){0,5}") {
            if let Ok(slice) = SliceName::new(format!("{name}.slice")) {
                prop_assert_eq!(SliceName::from_path(&slice.path()).unwrap(), slice.clone());
                // Each parent is a slice by itself, so it may be made without a check.
                let mut parent = slice.parent();
                while let Some(it) = parent {
                    prop_assert_eq!(&SliceName::new(it.as_str()).unwrap(), &it);
                    parent = it.parent();
                }
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic_and_a_path_that_is_accepted_is_the_slice_s(text in any::<String>(), path in r"(/[a._-]{0,3}\.slice){0,3}/?") {
            let _ = SliceName::new(text.clone());
            let _ = SliceName::from_argument(&text);
            let _ = SliceName::from_path(&text);
            if let Ok(slice) = SliceName::from_path(&path) {
                prop_assert_eq!(slice.path().replace('_', ""), path.replace('_', ""));
            }
        }
    }
}
