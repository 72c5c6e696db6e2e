//! From a manager's `ControlGroup` paths to what the caller reads in `/proc/PID/cgroup`. Pure.
//!
//! Manager and caller may live in different cgroup namespaces (a private manager, a container), so the same cgroup has two paths. The manager's own cgroup is seen
//! from both sides: it calls it `ControlGroup` + `/init.scope`, the caller reads it in `/proc/PID-OF-MANAGER/cgroup`. What the latter has in front is the prefix.

use super::ns_path::{Below, NsPath};
use crate::error::{Error, ErrorKind, Result};

/// The place of a manager's root (the cgroup that it calls `/`) in the paths that the caller reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerRoot {
    /// Empty, or absolute and without a slash at the end.
    prefix: String,
    /// The manager's own root in its own paths: empty, or `/user.slice/.../user@1000.service`.
    control_group: String,
    /// Names of the caller's namespace root and what is above it, outermost first, as far as known.
    ancestors: Vec<String>,
}

/// How a path lies to a unit's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// It is the unit's own cgroup.
    Exactly,
    /// It is further down, for instance a delegated leaf.
    Below,
    /// It is not inside the unit.
    Outside,
    /// The paths cannot tell: the caller is in a cgroup namespace below the manager's root, and the names in between are not known. Ask by cgroup id.
    Unknown,
}

impl ManagerRoot {
    /// `manager_proc_path`: the manager's own `0::` path (or, on a legacy system, `name=systemd`) as the caller reads it; `control_group`: the manager's
    /// `ControlGroup` property, which is empty or `/` for one that owns the whole tree it sees.
    pub(crate) fn new(manager_proc_path: &str, control_group: &str) -> Result<Self> {
        let control_group = control_group.trim_end_matches('/');
        let own = manager_proc_path.trim_end_matches('/');
        // A manager without an `init.scope` sits in its root itself (legacy user managers).
        let prefix = own
            .strip_suffix("/init.scope")
            .and_then(|root| root.strip_suffix(control_group))
            .or_else(|| own.strip_suffix(control_group));
        // Text that is not a path could end in the middle of a name.
        let prefix = prefix.filter(|_| control_group.is_empty() || control_group.starts_with('/'));
        match prefix {
            Some(prefix) if prefix.is_empty() || NsPath::parse(prefix).is_some() => Ok(Self {
                prefix: prefix.trim_end_matches('/').to_owned(),
                control_group: control_group.to_owned(),
                ancestors: Vec::new(),
            }),
            _ => Err(Error::new(
                ErrorKind::CgroupUnreachable,
                format!(
                    "cannot tell where the manager's cgroups are: its own is \"{manager_proc_path}\" in /proc, but it calls its root \"{control_group}\""
                ),
            )),
        }
    }

    /// Adds the names of the caller's cgroup namespace root and of what is above it ([`Hierarchy::ancestors`](super::Hierarchy::ancestors)).
    pub(crate) fn with_ancestors(mut self, ancestors: &[String]) -> Self {
        self.ancestors = ancestors.to_vec();
        self
    }

    /// The caller's path of what the manager calls `control_group`. For a caller in a namespace below the manager's root it may go up further than what the
    /// kernel would write (`/../../a.slice/b.scope` for `/../b.scope`): compare with [`is_inside`](Self::is_inside), not as text.
    pub(crate) fn map(&self, control_group: &str) -> String {
        let path = control_group.trim_matches('/');
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, true) => "/".to_owned(),
            (false, true) => self.prefix.clone(),
            _ => format!("{}/{path}", self.prefix),
        }
    }

    /// How a path that the caller reads (without the kernel's ` (deleted)`: see [`ProcCgroup`](super::ProcCgroup)) lies to the unit whose directory is
    /// named `unit_dir`.
    ///
    /// `slice`: the slice's path from the manager's own root (`ControlGroup`) on, `/` or `/a.slice/a-b.slice`; `None` = any, where the slice is not known.
    pub(crate) fn is_inside(&self, proc_path: &str, slice: Option<&str>, unit_dir: &str) -> Inside {
        let root = self.map(&self.control_group);
        let parts = match self.below(&root, proc_path) {
            Below::Yes(parts) => parts,
            Below::No => return Inside::Outside,
            Below::Unknown => return Inside::Unknown,
        };
        let at = match slice {
            Some(slice) => {
                let slice: Vec<&str> = slice.split('/').filter(|part| !part.is_empty()).collect();
                if !parts.starts_with(&slice) {
                    return Inside::Outside;
                }
                slice.len()
            }
            None => parts
                .iter()
                .take_while(|part| part.ends_with(".slice"))
                .count(),
        };
        if parts.get(at) != Some(&unit_dir) {
            Inside::Outside
        } else if parts.len() == at + 1 {
            Inside::Exactly
        } else {
            Inside::Below
        }
    }

    fn below<'a>(&'a self, root: &'a str, proc_path: &'a str) -> Below<'a> {
        let (Some(path), Some(root)) = (NsPath::parse(proc_path), NsPath::parse(root)) else {
            return Below::No;
        };
        let ancestors: Vec<&str> = self.ancestors.iter().map(String::as_str).collect();
        path.below(&root, &ancestors)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_prefix_is_what_the_caller_reads_before_the_managers_own_path() {
        let cases = [
            ("/init.scope", "", ""),
            ("/init.scope", "/", ""),
            ("/cn-1/init.scope", "/", "/cn-1"),
            ("/../../init.scope", "", "/../.."),
            (
                "/user.slice/user@0.service/init.scope",
                "/user.slice/user@0.service",
                "",
            ),
            (
                "/docker/x/user@0.service/init.scope",
                "/user@0.service",
                "/docker/x",
            ),
            ("/user@0.service", "/user@0.service", ""),
        ];
        for (own, control_group, prefix) in cases {
            let root = ManagerRoot::new(own, control_group).expect(own);
            assert_eq!(root.prefix, prefix, "{own} {control_group}");
        }
    }

    #[test]
    fn a_manager_that_is_elsewhere_than_it_says_is_an_error_that_names_both() {
        let error = ManagerRoot::new("/a/init.scope", "/b").expect_err("no common end");
        assert_eq!(error.kind(), ErrorKind::CgroupUnreachable);
        assert!(error.to_string().contains("/a/init.scope"), "{error}");
        assert!(error.to_string().contains("\"/b\""), "{error}");
    }

    #[test]
    fn a_path_is_mapped_below_the_prefix() {
        for (own, control_group, prefix) in [
            ("/init.scope", "", ""),
            ("/cn/init.scope", "/", "/cn"),
            ("/x/user@0.service/init.scope", "/user@0.service", "/x"),
            ("/../../init.scope", "/", "/../.."),
        ] {
            let root = ManagerRoot::new(own, control_group).unwrap();
            for path in ["/a.slice/b.scope", "/b.scope"] {
                assert_eq!(root.map(path), format!("{prefix}{path}"), "{own}");
            }
            let top = if prefix.is_empty() { "/" } else { prefix };
            for path in ["", "/"] {
                assert_eq!(root.map(path), top, "{own}");
            }
        }
    }

    #[test]
    fn a_path_is_inside_the_unit_only_below_its_slice() {
        let system = ManagerRoot::new("/init.scope", "").unwrap();
        let user = ManagerRoot::new(
            "/u.slice/user@0.service/init.scope",
            "/u.slice/user@0.service",
        )
        .unwrap();
        let nested = ManagerRoot::new("/cn/init.scope", "/").unwrap();
        let known = Some("/a.slice/a-b.slice");
        let cases = [
            (
                &system,
                "/a.slice/a-b.slice/x.scope",
                known,
                Inside::Exactly,
            ),
            (&system, "/a.slice/a-b.slice/x.scope", None, Inside::Exactly),
            (
                &system,
                "/a.slice/a-b.slice/x.scope/leaf/1",
                known,
                Inside::Below,
            ),
            (&system, "/a.slice/x.scope", known, Inside::Outside),
            (&system, "/a.slice/x.scope", None, Inside::Exactly),
            (&system, "/x.scope", Some("/"), Inside::Exactly),
            (&system, "/a.slice/x.scope", Some("/"), Inside::Outside),
            (&system, "/a.slice/y.scope/x.scope", None, Inside::Outside),
            (&system, "/a.slice/x.scope2", None, Inside::Outside),
            (&system, "/", None, Inside::Outside),
            (&system, "/../x.scope", None, Inside::Outside),
            (&system, "not a path", None, Inside::Outside),
            (
                &user,
                "/u.slice/user@0.service/app.slice/x.scope",
                Some("/app.slice"),
                Inside::Exactly,
            ),
            (
                &user,
                "/u.slice/user@0.service/app.slice/x.scope",
                None,
                Inside::Exactly,
            ),
            (
                &user,
                "/app.slice/x.scope",
                Some("/app.slice"),
                Inside::Outside,
            ),
            (&nested, "/cn/x.scope", Some("/"), Inside::Exactly),
            (&nested, "/x.scope", Some("/"), Inside::Outside),
        ];
        for (root, path, slice, expected) in cases {
            assert_eq!(
                root.is_inside(path, slice, "x.scope"),
                expected,
                "{path} {slice:?}"
            );
        }
    }

    #[test]
    fn from_a_namespace_below_the_manager_the_missing_names_decide() {
        // The caller's namespace root is /a.slice/me.scope of the manager.
        let root = ManagerRoot::new("/../../init.scope", "").unwrap();
        let slice = Some("/a.slice");
        assert_eq!(
            root.is_inside("/../x.scope", slice, "x.scope"),
            Inside::Unknown
        );
        assert_eq!(
            root.is_inside("/../../b.slice/x.scope", slice, "x.scope"),
            Inside::Outside
        );

        let known = root.with_ancestors(&["a.slice".to_owned(), "me.scope".to_owned()]);
        assert_eq!(
            known.is_inside("/../x.scope", slice, "x.scope"),
            Inside::Exactly
        );
        assert_eq!(
            known.is_inside("/../x.scope", None, "x.scope"),
            Inside::Exactly
        );
        assert_eq!(
            known.is_inside("/../x.scope", Some("/"), "x.scope"),
            Inside::Outside
        );
        assert_eq!(known.is_inside("/leaf", slice, "me.scope"), Inside::Below);
    }

    proptest! {
        #[test]
        fn any_paths_are_compared_without_a_panic(own in "[/.a-c]{0,12}(/init.scope)?", cg in "[/.a-c]{0,8}", path in ".{0,20}", slice in "[/.a-c]{0,8}") {
            if let Ok(root) = ManagerRoot::new(&own, &cg) {
                let _ = root.map(&path);
                let _ = root.is_inside(&path, Some(&slice), "a");
                let _ = root.is_inside(&path, None, "a");
            }
        }
    }
}
