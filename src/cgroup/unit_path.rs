//! Finding a unit in the path of a process. Pure.

use super::manager_root::{Inside, ManagerRoot};

/// A unit of one manager, to be found in what the kernel says of a process.
///
/// The path is not computed: where a unit sits on disk is systemd's own affair, and the directory of one and the same name differs between versions (an
/// underscore in front of some). A manager has at most one unit of a name, so its name below slices alone is enough to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitPath<'a> {
    /// `None`: where the manager's cgroups are cannot be known, since its process cannot be seen.
    manager: Option<&'a ManagerRoot>,
    unit: &'a str,
}

impl<'a> UnitPath<'a> {
    pub(crate) fn new(manager: Option<&'a ManagerRoot>, unit: &'a str) -> Self {
        Self { manager, unit }
    }

    /// The unit's own cgroup, if `proc_path` (as read in `/proc/PID/cgroup`) is that or below it.
    pub(crate) fn root_of<'p>(&self, proc_path: &'p str) -> Option<&'p str> {
        let mut end = 0;
        for part in proc_path.split_inclusive('/') {
            end += part.len();
            let name = part.trim_end_matches('/');
            if name != self.unit && name.strip_prefix('_') != Some(self.unit) {
                continue;
            }
            let path = proc_path[..end].trim_end_matches('/');
            let found = match self.manager {
                Some(manager) => match manager.is_inside(path, None, name) {
                    Inside::Exactly => true,
                    Inside::Below | Inside::Outside => false,
                    Inside::Unknown => below_slices_alone(path),
                },
                // At any depth: what is above the manager's root is not known.
                None => true,
            };
            if found {
                return Some(path);
            }
        }
        None
    }
}

fn below_slices_alone(path: &str) -> bool {
    let mut above = path.rsplit('/').skip(1);
    above.all(|part| part.is_empty() || part == ".." || part.ends_with(".slice"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_at_its_place_below_its_manager_and_nowhere_else() {
        let manager = ManagerRoot::new("/box/init.scope", "/").unwrap();
        let unit = UnitPath::new(Some(&manager), "a.scope");
        for (path, root) in [
            ("/box/a.scope", Some("/box/a.scope")),
            ("/box/app.slice/a.scope", Some("/box/app.slice/a.scope")),
            (
                "/box/app.slice/a.scope/leaf/x",
                Some("/box/app.slice/a.scope"),
            ),
            ("/box/app.slice/_a.scope", Some("/box/app.slice/_a.scope")),
            ("/box/a.scope/a.scope", Some("/box/a.scope")),
            ("/app.slice/a.scope", None),
            ("/box/b.service/a.scope", None),
            ("/box/app.slice/aa.scope", None),
            ("/box/app.slice", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(unit.root_of(path), root, "{path}");
        }
    }

    #[test]
    fn without_a_manager_in_sight_the_name_decides() {
        let unit = UnitPath::new(None, "a.scope");
        assert_eq!(
            unit.root_of("/x/y.slice/a.scope/z"),
            Some("/x/y.slice/a.scope")
        );
        assert_eq!(unit.root_of("/x/y.slice/b.scope"), None);
    }
}
