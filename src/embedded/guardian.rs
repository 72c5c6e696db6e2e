//! The guardian: one process that clears up when the parent or the manager is gone, however they ended.
//!
//! It is forked before anything of the instance exists, so that there is no moment at which a killed parent leaves something. It waits for three things:
//! the parent's end of a socket pair closes (the parent stopped, exited or executed another program), the parent's pidfd (a stray fork may hold a copy of
//! that end), and the manager's pidfd, which it is sent over the socket. PR_SET_PDEATHSIG would not do: it fires when the *thread* that forked ends.
//!
//! Only system calls here, and no allocation: the parent may have had other threads when it was copied.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::child::stdio_to;
use super::remains::{Remains, pause};
use crate::sys;

/// The parent's side.
pub(super) struct Guardian {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    line: OwnedFd,
}

impl Guardian {
    pub(super) fn start(remains: &Remains, null: BorrowedFd<'_>) -> io::Result<Self> {
        let (line, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut keep: Vec<RawFd> = remains.descriptors().collect();
        keep.extend([theirs.as_raw_fd(), parent.as_raw_fd(), null.as_raw_fd()]);
        let (pid, pidfd) = sys::clone_process(None, Some(&mut keep), |_| {
            guard(remains, theirs.as_fd(), parent.as_fd(), null)
        })?;
        Ok(Self { pid, pidfd, line })
    }

    /// From now on the guardian also watches this process.
    pub(super) fn watch(&self, manager: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors = [manager];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(
            &self.line,
            &[IoSlice::new(b"m")],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Lets it clear up (what is left) and end. Not just a close: a fork of the parent may hold a copy of the socket.
    pub(super) fn dismiss(&self) {
        let _ = shutdown(&self.line, Shutdown::Both);
    }
}

/// The guardian's whole life.
fn guard(
    remains: &Remains,
    line: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    null: BorrowedFd<'_>,
) -> u8 {
    // Every signal is blocked already, so only SIGKILL ends it early.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"scopectl-guard");
    let _ = rustix::process::chdir(c"/");
    if stdio_to(null, null).is_err() {
        return 1;
    }
    let mut manager: Option<OwnedFd> = None;
    loop {
        let ended = match &manager {
            None => wait(&mut [
                PollFd::from_borrowed_fd(line, PollFlags::IN),
                PollFd::from_borrowed_fd(parent, PollFlags::IN),
            ]),
            Some(manager) => wait(&mut [
                PollFd::from_borrowed_fd(line, PollFlags::IN),
                PollFd::from_borrowed_fd(parent, PollFlags::IN),
                PollFd::new(manager, PollFlags::IN),
            ]),
        };
        if ended {
            break;
        }
        match receive(line) {
            Ok(Some(pidfd)) => manager = Some(pidfd),
            Ok(None) => break,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => break,
        }
    }
    // A process in uninterruptible sleep cannot be killed now; do not wait for ever, the next start's sweep tries again.
    for _ in 0..6 {
        if remains.clear(Duration::from_secs(10)).is_ok() {
            return 0;
        }
        pause(Duration::from_millis(100));
    }
    1
}

/// Whether one of the watched processes (all but the first descriptor) ended.
fn wait(watched: &mut [PollFd<'_>]) -> bool {
    loop {
        match poll(watched, None) {
            Ok(_) => {
                return watched
                    .iter()
                    .skip(1)
                    .any(|process| !process.revents().is_empty());
            }
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// The manager's pidfd; `None` at the end of the connection.
fn receive(line: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        line,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return Ok(descriptors.next());
        }
    }
    Ok(None)
}
