//! Which identity to claim in the handshake, and whose process IDs are ours.

use std::os::fd::AsFd;

use super::socket::Identity;

/// The identity for a connection of this process.
pub(super) fn to_claim() -> Identity {
    // A file that cannot be read (no /proc, or a kernel without user namespaces) says nothing against the usual way.
    match std::fs::read_to_string("/proc/self/uid_map") {
        Ok(map) if !is_initial(&map) => Identity::Unstated,
        _ => Identity::Stated,
    }
}

/// Whether a uid_map is that of the initial user namespace: every ID is itself (user_namespaces(7)).
///
/// A namespace further down that maps only the caller's ID to itself looks at its *parent*, which need not be the server's namespace; so nothing less will do.
fn is_initial(map: &str) -> bool {
    let mut lines = map.lines();
    let whole = lines.next().is_some_and(|line| {
        let mut numbers = line.split_ascii_whitespace();
        numbers.next() == Some("0")
            && numbers.next() == Some("0")
            && numbers.next() == Some("4294967295")
    });
    whole && lines.next().is_none()
}

/// The process that listens on the other end of a stream, in the caller's own process IDs; `None` if it has none there (another pid namespace).
pub(super) fn peer_pid(stream: &impl AsFd) -> Option<u32> {
    let credentials =
        nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)
}

/// Whether a process is in another pid namespace than the caller, as far as that can be seen.
pub(crate) fn is_in_another_pid_namespace(pid: u32) -> bool {
    let own = std::fs::read_link("/proc/self/ns/pid");
    let other = std::fs::read_link(format!("/proc/{pid}/ns/pid"));
    // Another user's process does not show its namespaces; a bus in the caller's own namespace is by far the usual case.
    matches!((own, other), (Ok(own), Ok(other)) if own != other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_initial_user_namespace_states_its_user_id() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial("         0          0      65536\n"));
        assert!(!is_initial("0 1 1000\n1000 0 1\n1001 1001 64536\n"));
        assert!(!is_initial("0 0 1\n1 1 4294967294\n"));
        assert!(!is_initial(""));
    }
}
