//! The sending half: sendmsg(2), with file descriptors, safe to cancel.
//!
//! zbus writes a message in the task of the caller. If that task ends in the middle of a message, the next message would go out in the middle of it and the peer would drop
//! the connection. Here the rest is kept and goes out first, so that a call may be given up at any time.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::net::UnixStream;
use zbus::Message;
use zbus::connection::socket::WriteHalf;
use zbus::export::async_trait::async_trait;

use super::{FDS_PER_WRITE, Identity};

const STATED: &[u8] = b"\0AUTH EXTERNAL ";
const UNSTATED: &[u8] = b"\0AUTH EXTERNAL\r\nDATA\r\n";

/// Sends whole messages.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: Arc<UnixStream>,
    identity: Identity,
    /// What is left of a message whose sender was cancelled.
    rest: Vec<u8>,
}

impl Writer {
    pub(super) fn new(stream: Arc<UnixStream>, identity: Identity) -> Self {
        Self {
            stream,
            identity,
            rest: Vec::new(),
        }
    }

    async fn write_once(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let stream = &self.stream;
        stream
            .async_io(Interest::WRITABLE, || send(stream, bytes, fds))
            .await
    }

    /// Writes what an earlier, cancelled message left.
    async fn finish(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            let written = self.write_once(&self.rest, &[]).await?;
            self.rest.drain(..written);
        }
        Ok(())
    }
}

#[async_trait]
impl WriteHalf for Writer {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        self.finish().await?;
        let data = message.data();
        let bytes: &[u8] = data;
        let fds: Vec<BorrowedFd<'_>> = data.fds().iter().map(|fd| fd.as_fd()).collect();
        let written = self.write_once(bytes, &fds).await?;
        // No await between the write and this line: what was begun is on record before anybody can cancel.
        self.rest
            .extend_from_slice(bytes.get(written..).unwrap_or_default());
        self.finish().await?;
        Ok(())
    }

    /// Only the handshake comes this way.
    async fn sendmsg(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.finish().await?;
        if self.identity == Identity::Unstated && bytes.starts_with(STATED) {
            self.identity = Identity::Stated;
            if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(UNSTATED);
                self.finish().await?;
                return Ok(end + 1);
            }
        }
        self.write_once(bytes, fds).await
    }

    async fn close(&mut self) -> io::Result<()> {
        rustix::net::shutdown(&self.stream, Shutdown::Both).map_err(io::Error::from)
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_WRITE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let too_many = fds.len() > FDS_PER_WRITE;
    if too_many || (!fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds))) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} file descriptors in one message, the kernel passes at most {FDS_PER_WRITE}",
                fds.len()
            ),
        ));
    }
    let sent = rustix::net::sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(sent)
}
