//! The name of a unit's directory in a cgroup file system.
//!
//! A unit's directory lies next to files that the kernel makes, such as `cpu.max` or `cgroup.procs`, so systemd puts an underscore before names that the kernel
//! could want, and before those that begin with one, so that taking one off always leads back.

/// What systemd 252, 257 or a later one knows as a controller, those of cgroup v1 and the BPF pseudo-controllers included. A version does not put an underscore
/// before the name of one that it does not know.
const CONTROLLERS: [&str; 14] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "io",
    "blkio",
    "memory",
    "devices",
    "pids",
    "bpf-firewall",
    "bpf-devices",
    "bpf-foreign",
    "bpf-socket-bind",
    "bpf-restrict-network-interfaces",
    "bpf-bind-network-interface",
];

/// Whether systemd puts an underscore before `name` to make a directory of it.
pub(super) fn needs_prefix(name: &str) -> bool {
    name.is_empty()
        || name.starts_with(['_', '.'])
        || ["notify_on_release", "release_agent", "tasks"].contains(&name)
        || name
            .split_once('.')
            .is_some_and(|(start, _)| start == "cgroup" || CONTROLLERS.contains(&start))
}

/// The directory of the unit `name`.
pub(super) fn dir_name(name: &str) -> String {
    let prefix = if needs_prefix(name) { "_" } else { "" };
    format!("{prefix}{name}")
}

/// The unit whose directory is `dir`, by taking one underscore off.
pub(super) fn unit_name(dir: &str) -> &str {
    dir.strip_prefix('_').unwrap_or(dir)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::unit::{ScopeName, UnitName};

    #[test]
    fn what_the_kernel_could_want_gets_an_underscore() {
        for name in [
            "",
            "_",
            "_a.scope",
            ".a.scope",
            "..scope",
            "tasks",
            "release_agent",
            "notify_on_release",
            "cgroup.procs",
            "cgroup.scope",
            "cgroup.x.scope",
            "cpu.scope",
            "cpu.x.scope",
            "cpuset.scope",
            "cpuacct.slice",
            "memory.foo.scope",
            "io.service",
            "blkio.slice",
            "devices.scope",
            "pids.scope",
            "bpf-firewall.scope",
            "bpf-devices.scope",
            "bpf-foreign.scope",
            "bpf-socket-bind.scope",
            "bpf-restrict-network-interfaces.scope",
        ] {
            assert_eq!(dir_name(name), format!("_{name}"));
            assert_eq!(unit_name(&dir_name(name)), name);
        }
    }

    #[test]
    fn every_other_name_stays_as_it_is() {
        for name in [
            "a.scope",
            "a_b.scope",
            "tasks.scope",
            "release_agent.scope",
            "cpu",
            "cpu-x.scope",
            "cpux.scope",
            "Cpu.scope",
            "a.cpu.scope",
            "cgroup",
            "cgroups.scope",
            "freezer.scope",
            "hugetlb.scope",
            "misc.scope",
        ] {
            assert_eq!(dir_name(name), name);
        }
    }

    #[test]
    fn a_directory_leads_back_to_its_unit_whichever_version_made_it() {
        let scope = ScopeName::new("cpu.x.scope").unwrap();
        assert_eq!(scope.cgroup_dir_name(), "_cpu.x.scope");
        for dir in ["_cpu.x.scope", "cpu.x.scope"] {
            assert_eq!(ScopeName::from_cgroup_dir_name(dir).unwrap(), scope);
        }
        assert_eq!(
            UnitName::from_cgroup_dir_name("__a.scope").unwrap(),
            "_a.scope"
        );
        for dir in ["", "_", "_.scope", "cgroup.procs", "a", "a.service"] {
            ScopeName::from_cgroup_dir_name(dir).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn the_directory_of_any_unit_leads_back_to_it(stem in r"(_|\.|cpu\.|cgroup\.|tasks|[a-c@])[a-c_.@-]{0,4}") {
            if let Ok(name) = UnitName::new(format!("{stem}.service")) {
                let dir = name.cgroup_dir_name();
                prop_assert_eq!(UnitName::from_cgroup_dir_name(&dir).unwrap(), name);
                prop_assert!(!dir.starts_with('.') && !dir.starts_with("cgroup."));
            }
        }
    }
}
