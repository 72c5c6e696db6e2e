//! Who is on the other side of a connection: the manager's process and its place in the cgroup tree.

use std::time::Duration;

use tokio::time::Instant;

use crate::bus::{Bus, is_in_another_pid_namespace};
use crate::cgroup::{Hierarchy, ManagerRoot, ProcCgroup};
use crate::{Error, ErrorKind, Result};

use super::ask::Pause;

/// How long a bus may be without a manager on it: one that executes itself again, or has only just started the bus.
const PATIENCE: Duration = Duration::from_secs(1);

/// The manager behind a connection: what is known of it without asking it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// A process number means the same process to it as to the caller. Not so where its process cannot be seen from here, nor where it is in a pid namespace
    /// below: a container's manager, called from outside.
    shares_pids: bool,
    /// Its own cgroup, as the caller reads it.
    cgroup: Option<String>,
    /// See [`ManagerRoot::with_ancestors`].
    ancestors: Vec<String>,
}

impl Peer {
    pub(crate) async fn look(
        bus: &Bus,
        hierarchy: Option<&Hierarchy>,
        deadline: Instant,
    ) -> Result<Self> {
        let patient_until = deadline.min(Instant::now() + PATIENCE);
        let mut pause = Pause::short();
        let pid = loop {
            match bus.manager_pid(deadline).await {
                Err(error)
                    if error.kind() == ErrorKind::NoManager && Instant::now() < patient_until =>
                {
                    pause.wait(patient_until).await;
                }
                answer => break answer?,
            }
        };
        let cgroup = pid
            .and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok())
            .and_then(|text| ProcCgroup::parse(&text, false).unified().map(str::to_owned));
        Ok(Self {
            shares_pids: pid.is_some_and(|pid| !is_in_another_pid_namespace(pid)),
            cgroup,
            ancestors: hierarchy.map_or(&[][..], Hierarchy::ancestors).to_vec(),
        })
    }

    /// The cgroup below which its units are; `None` where that cannot be known.
    pub(crate) fn root(&self) -> Option<ManagerRoot> {
        self.mapping("")
    }

    /// Maps the manager's `ControlGroup` paths to those that the caller reads, from the one that it gives to itself.
    pub(crate) fn mapping(&self, own_control_group: &str) -> Option<ManagerRoot> {
        ManagerRoot::new(self.cgroup.as_deref()?, own_control_group)
            .ok()
            .map(|root| root.with_ancestors(&self.ancestors))
    }

    /// Whether a process number means the same process to the manager as to the caller.
    pub(crate) fn shares_pids(&self) -> bool {
        self.shares_pids
    }

    /// A process number handed to a manager in another pid namespace would name somebody else's process.
    pub(crate) fn check_same_pid_namespace(&self) -> Result<()> {
        if self.shares_pids {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ProcessRefused,
            "the manager is in another pid namespace and takes no pidfds (systemd 255 and later does), so processes of this namespace cannot be handed over",
        ))
    }
}

/// The first run of digits: `252.39-1~deb12u2`, `v219`, `257 (257.7-1.fc42)`.
pub(crate) fn version_number(text: &str) -> Option<u32> {
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
