//! Waiting for the priority events by which the kernel tells of a change in a cgroup file.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime's reactor, for priority events (POLLPRI) alone. Panics outside a tokio runtime with I/O.
pub(crate) fn watch_priority(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid, always gives the same descriptor, and stays open until the `AsyncFd` that owns it is dropped.
    unsafe { AsyncFd::register_with_interest(fd, Interest::PRIORITY) }.map_err(io::Error::from)
}
