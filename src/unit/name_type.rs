//! What the three name types have in common: they are checked text, and behave like text everywhere that text can be read but not changed.

/// Gives a type with `fn new(impl Into<String>) -> Result<Self>`, `fn as_str(&self) -> &str` and a field that turns into `String` the rest of its interface.
macro_rules! name_type {
    ($name:ident) => {
        impl $name {
            /// The name of this unit's cgroup directory: the unit's name, with a `_` before it where it would collide with a file of the kernel.
            ///
            /// That is so for names that begin with `_`, `.` or `cgroup.`, and for those that begin with a controller and a dot (`cpu.`, `io.`, `memory.`,
            /// `pids.`, `bpf-firewall.` and so on). This is the rule of systemd 257; 252 looks at the last dot instead of the first, so that it leaves
            /// `cpu.x.scope` as it is, and each version knows the controllers of its day. systemd does not promise the rule at all: where a manager can be
            /// asked, its `ControlGroup` property says how a directory is called, and [`from_cgroup_dir_name`](Self::from_cgroup_dir_name) reads all of them.
            pub fn cgroup_dir_name(&self) -> String {
                $crate::unit::cgroup_dir::dir_name(self.as_str())
            }

            /// The unit that a cgroup directory belongs to, the inverse of [`cgroup_dir_name`](Self::cgroup_dir_name).
            ///
            /// One leading `_` is taken off, as every systemd does, whichever names that systemd puts it before.
            ///
            /// # Errors
            ///
            /// [`InvalidName`](crate::ErrorKind::InvalidName) if what remains is not a name of this kind.
            pub fn from_cgroup_dir_name(dir: &str) -> $crate::Result<Self> {
                Self::new($crate::unit::cgroup_dir::unit_name(dir))
            }

            /// The last element of the unit's D-Bus object path, `/org/freedesktop/systemd1/unit/<label>`.
            ///
            /// ASCII letters and digits stay, except a digit at the start; every other byte becomes `_` and two hexadecimal digits.
            pub fn object_path_label(&self) -> String {
                $crate::unit::bus_label::escape(self.as_str())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Error;

            fn try_from(name: String) -> $crate::Result<Self> {
                Self::new(name)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::Error;

            fn try_from(name: &str) -> $crate::Result<Self> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.into()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::new(name).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(super) use name_type;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::HashSet;

    use crate::unit::{ScopeName, SliceName, UnitName};

    #[test]
    fn names_are_read_and_written_as_json_strings_and_checked_on_the_way_in() {
        let slice = SliceName::new("a-b.slice").unwrap();
        assert_eq!(serde_json::to_string(&slice).unwrap(), r#""a-b.slice""#);
        assert_eq!(
            serde_json::from_str::<SliceName>(r#""a-b.slice""#).unwrap(),
            slice
        );
        let error = serde_json::from_str::<SliceName>(r#""a--b.slice""#).unwrap_err();
        assert!(error.to_string().contains("a--b.slice"), "{error}");
        serde_json::from_str::<ScopeName>("7").unwrap_err();
        serde_json::from_str::<ScopeName>(r#""a.slice""#).unwrap_err();
        serde_json::from_str::<UnitName>(r#""a""#).unwrap_err();
    }

    #[test]
    fn equal_names_are_equal_however_they_were_made() {
        let parent = SliceName::new("a.slice").unwrap().parent().unwrap();
        let root = SliceName::new("-.slice").unwrap();
        assert_eq!(parent, SliceName::ROOT);
        assert_eq!(parent, root);
        assert_eq!(HashSet::from([parent, root, SliceName::ROOT]).len(), 1);
        assert_eq!("a.scope".parse::<ScopeName>().unwrap(), "a.scope");
    }

    #[test]
    fn a_name_can_be_padded_in_a_table() {
        let scope = ScopeName::new("a.scope").unwrap();
        assert_eq!(format!("{scope:<9}|"), "a.scope  |");
        assert_eq!(format!("{scope:?}"), r#"ScopeName("a.scope")"#);
        assert_eq!(String::from(scope), "a.scope");
    }
}
