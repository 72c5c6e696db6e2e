//! The receiving half: recvmsg(2), with file descriptors.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg as sys_recvmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::frame::{Framer, Rules, Unit};
use super::{FDS_PER_WRITE, invalid_data};

const CHUNK: usize = 16 << 10;

/// File descriptors that may wait for the end of their message. No message of ours asks for an answer with any; the number is sd-bus's limit for one message.
const MAX_WAITING_FDS: usize = 1024;

/// Hands zbus one unit of the stream at a time, so that file descriptors come with the message that they belong to and never with a line of the handshake.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: Arc<UnixStream>,
    framer: Framer,
    chunk: Box<[u8]>,
    fds: VecDeque<OwnedFd>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    bytes: Vec<u8>,
    at: usize,
    fds: Vec<OwnedFd>,
}

impl Reader {
    pub(super) fn new(stream: Arc<UnixStream>, rules: Rules) -> Self {
        Self {
            stream,
            framer: Framer::new(rules),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            fds: VecDeque::new(),
            current: None,
        }
    }

    /// Reads once from the socket; `false` at its end.
    async fn fill(&mut self) -> io::Result<bool> {
        let (stream, chunk) = (&self.stream, &mut self.chunk);
        let (count, fds) = stream
            .async_io(Interest::READABLE, || receive(stream, chunk))
            .await?;
        self.framer
            .push(self.chunk.get(..count).unwrap_or_default());
        self.fds.extend(fds);
        if self.fds.len() > MAX_WAITING_FDS {
            return Err(invalid_data(
                "the peer sent more file descriptors than any message may have",
            ));
        }
        Ok(count > 0)
    }

    fn take(&mut self, unit: Unit) -> io::Result<()> {
        if unit.fds > self.fds.len() {
            return Err(invalid_data(
                "a message came without all of its file descriptors",
            ));
        }
        let fds = self.fds.drain(..unit.fds).collect();
        if self.framer.is_empty() && !self.fds.is_empty() {
            return Err(invalid_data(
                "file descriptors came that belong to no message",
            ));
        }
        self.current = Some(Current {
            bytes: unit.bytes,
            at: 0,
            fds,
        });
        Ok(())
    }
}

#[async_trait]
impl ReadHalf for Reader {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        loop {
            if let Some(current) = &mut self.current {
                let rest = current.bytes.get(current.at..).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
                    to.copy_from_slice(from);
                }
                let fds = std::mem::take(&mut current.fds);
                current.at += count;
                if current.at >= current.bytes.len() {
                    self.current = None;
                }
                return Ok((count, fds));
            }
            match self.framer.next().map_err(invalid_data)? {
                Some(unit) => self.take(unit)?,
                None if self.fill().await? => {}
                None => return Ok((0, Vec::new())),
            }
        }
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

fn receive(stream: &UnixStream, chunk: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_WRITE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(chunk)];
    let received = sys_recvmsg(stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "file descriptors were lost on receiving them: raise the limit on open files",
        ));
    }
    Ok((received.bytes, fds))
}
