//! Who is on the other side of a connection: the manager's process and its place in the cgroup tree.

use tokio::time::Instant;

use crate::bus::Bus;
use crate::cgroup::{Hierarchy, ManagerRoot, ProcCgroup};
use crate::{Error, ErrorKind, Result};

/// The manager behind a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// `None`: its process cannot be seen from here (it is in another pid namespace).
    pub(crate) pid: Option<u32>,
    /// Maps its `ControlGroup` paths to those that the caller reads; `None` where that cannot be known.
    pub(crate) root: Option<ManagerRoot>,
    /// The number in its version string; `None` if it has none.
    pub(crate) version: Option<u32>,
}

impl Peer {
    /// A process number handed to a manager in another pid namespace would name somebody else's process.
    pub(crate) fn check_same_pid_namespace(&self) -> Result<()> {
        match self.pid {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorKind::ProcessRefused,
                "the manager is in another pid namespace and takes no pidfds (systemd 255 and later does), so processes of this namespace cannot be handed over",
            )),
        }
    }

    pub(crate) async fn ask(
        bus: &Bus,
        hierarchy: Option<&Hierarchy>,
        deadline: Instant,
    ) -> Result<Self> {
        let manager = bus.manager();
        let (pid, control_group, version) = tokio::try_join!(
            bus.manager_pid(deadline),
            manager.control_group(deadline),
            manager.version(deadline),
        )?;
        let root = pid
            .and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok())
            .and_then(|text| ProcCgroup::parse(&text, false).unified().map(str::to_owned))
            .and_then(|path| ManagerRoot::new(&path, &control_group).ok())
            .map(|root| root.with_ancestors(hierarchy.map_or(&[], Hierarchy::ancestors)));
        Ok(Self {
            pid,
            root,
            version: version_number(&version),
        })
    }
}

/// The first run of digits: `252.39-1~deb12u2`, `v219`, `257 (257.7-1.fc42)`.
fn version_number(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_number() {
        for (text, number) in [
            ("252.39-1~deb12u2", Some(252)),
            ("v219", Some(219)),
            ("257 (257.7-1.fc42)", Some(257)),
            ("systemd 262~rc1", Some(262)),
            ("", None),
            ("unknown", None),
            ("99999999999999", None),
        ] {
            assert_eq!(version_number(text), number, "{text}");
        }
    }
}
