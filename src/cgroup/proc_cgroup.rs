//! `/proc/PID/cgroup`: in which cgroup a process is. Pure.
//!
//! One line a hierarchy, `ID:CONTROLLERS:PATH`; the line `0::PATH` is cgroup2. The kernel escapes nothing in the path, and does not have to: no cgroup's name can
//! hold a line feed. To the path of a cgroup that was removed it appends ` (deleted)`, and a living cgroup may be *named* so: only of a process that is
//! ending can the words be the kernel's. Source: cgroups(7), the kernel's `proc_cgroup_show`.

const DELETED: &str = " (deleted)";

/// In which cgroup one process is, as the caller reads it (relative to the caller's cgroup namespace).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcCgroup {
    unified: Option<String>,
}

impl ProcCgroup {
    /// Whether the words ` (deleted)` are there, so that one has to know if the process is ending.
    pub(crate) fn may_be_deleted(text: &str) -> bool {
        text.lines()
            .any(|line| line.starts_with("0::") && line.ends_with(DELETED))
    }

    /// Lines that are none are passed over. `ending`: the process is a zombie or on its way there, so ` (deleted)` was appended by the kernel.
    pub(crate) fn parse(text: &str, ending: bool) -> Self {
        let mut all = Self::default();
        for line in text.split('\n') {
            let mut fields = line.splitn(3, ':');
            let (Some(id), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if !path.starts_with('/') {
                continue;
            }
            if id == "0" && controllers.is_empty() {
                let stripped = path.strip_suffix(DELETED).filter(|_| ending);
                all.unified = Some(stripped.unwrap_or(path).to_owned());
            }
        }
        all
    }

    /// The path in the cgroup2 hierarchy, without the kernel's ` (deleted)`; `None` where the system has no such hierarchy.
    pub(crate) fn unified(&self) -> Option<&str> {
        self.unified.as_deref()
    }
}

/// The path of the innermost unit on a cgroup path: `/x.slice/a.scope` of `/x.slice/a.scope/payload`. Slices do not count, as processes are never in one.
///
/// Two paths with the same one are in the same unit, while equal names alone may belong to two managers.
pub(crate) fn unit_path_of(path: &str) -> Option<&str> {
    let mut rest = path.trim_end_matches('/');
    loop {
        let (parent, name) = rest.rsplit_once('/')?;
        if is_unit(name) {
            return Some(rest);
        }
        rest = parent;
    }
}

/// The unit types that have processes in a cgroup of their own.
fn is_unit(name: &str) -> bool {
    const TYPES: [&str; 5] = ["scope", "service", "socket", "mount", "swap"];
    name.rsplit_once('.')
        .is_some_and(|(prefix, suffix)| !prefix.is_empty() && TYPES.contains(&suffix))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HYBRID: &str = "9:name=systemd:/user.slice/a.scope\n8:pids:/\n3:cpu,cpuacct:/x:y\n0::/user.slice/a.scope\n";

    #[test]
    fn the_line_of_cgroup2_is_found_among_others() {
        let cgroup = ProcCgroup::parse(HYBRID, false);
        assert_eq!(cgroup.unified(), Some("/user.slice/a.scope"));
    }

    #[test]
    fn a_system_without_cgroup2_has_no_unified_path() {
        let cgroup = ProcCgroup::parse("2:cpu:/\n1:name=systemd:/a.scope\n", false);
        assert_eq!(cgroup.unified(), None);
    }

    #[test]
    fn deleted_is_the_kernels_word_only_for_a_process_that_ends() {
        let text = "0::/a.scope (deleted)\n";
        assert!(ProcCgroup::may_be_deleted(text));
        let ending = ProcCgroup::parse(text, true);
        assert_eq!(ending.unified(), Some("/a.scope"));
        let alive = ProcCgroup::parse(text, false);
        assert_eq!(alive.unified(), Some("/a.scope (deleted)"));
        assert!(!ProcCgroup::may_be_deleted(HYBRID));
    }

    #[test]
    fn a_path_may_hold_colons_spaces_and_the_way_up() {
        let cgroup = ProcCgroup::parse("0::/../..//a b:c\\x20\n", false);
        assert_eq!(cgroup.unified(), Some("/../..//a b:c\\x20"));
    }

    #[test]
    fn the_innermost_unit_of_a_path_is_found() {
        let cases = [
            ("/", None),
            ("", None),
            ("/user.slice", None),
            ("/.scope", None),
            (
                "/system.slice/sshd.service",
                Some("/system.slice/sshd.service"),
            ),
            ("/a.slice/b.scope/payload/x", Some("/a.slice/b.scope")),
            (
                "/user.slice/user@0.service/app.slice/c.scope",
                Some("/user.slice/user@0.service/app.slice/c.scope"),
            ),
            ("/../cn.scope", Some("/../cn.scope")),
            ("/init.scope/", Some("/init.scope")),
            ("/a.scope.d/x", None),
        ];
        for (path, expected) in cases {
            assert_eq!(unit_path_of(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in ".{0,200}", lines in "([0-9]?:?[a-z=,]?:?/?[.a-z]*( \\(deleted\\))?\n?){0,5}", ending: bool) {
            for text in [text, lines] {
                let cgroup = ProcCgroup::parse(&text, ending);
                let _ = cgroup.unified().map(unit_path_of);
            }
        }
    }
}
