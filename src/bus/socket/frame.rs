//! Cuts the byte stream of a D-Bus peer into lines of the handshake and whole messages. Pure.
//!
//! Bytes go in as they come, whole units come out, each with the number of file descriptors that belong to it. A line of the handshake starts with an
//! upper-case letter that is not `B` (`OK`, `DATA`, `REJECTED`, `ERROR`, `AGREE_UNIX_FD`), a message with `l` or `B`, and after the first message there are no lines any
//! more. What is kept is bounded by one message ([`MAX_MESSAGE`](super::header::MAX_MESSAGE)) and one read.

use super::header::{Layout, Malformed};

/// The longest line of the handshake, in bytes; the reference implementation's own limit.
const MAX_LINE: usize = 16 << 10;

/// How the stream is changed on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Cut the SENDER field out of each message: systemd's private socket writes a well-known name there, where the protocol wants a unique one.
    pub(super) cut_sender: bool,
    /// Swallow the server's request for more data, which is answered before it comes.
    pub(super) swallow_challenge: bool,
}

/// A line of the handshake, or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) bytes: Vec<u8>,
    /// How many file descriptors belong to it.
    pub(super) fds: usize,
}

/// The state of the cutting.
#[derive(Debug)]
pub(super) struct Framer {
    raw: Vec<u8>,
    rules: Rules,
    in_handshake: bool,
    /// How much of `raw` was searched for the end of a line already.
    searched: usize,
}

impl Framer {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            raw: Vec::new(),
            rules,
            in_handshake: true,
            searched: 0,
        }
    }

    /// Takes what was read. To be called only after [`next`](Self::next) gave `None`, which is what bounds the memory.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
    }

    /// Whether no part of a unit is waiting for its rest.
    pub(super) fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The next whole unit, if it is all there.
    pub(super) fn next(&mut self) -> Result<Option<Unit>, Malformed> {
        loop {
            match self.raw.first() {
                None => return Ok(None),
                Some(b'l' | b'B') => return self.message(),
                Some(b'A'..=b'Z') if self.in_handshake => match self.line()? {
                    Some(line) if self.rules.swallow_challenge && is_challenge(&line) => {
                        self.rules.swallow_challenge = false;
                    }
                    Some(bytes) => return Ok(Some(Unit { bytes, fds: 0 })),
                    None => return Ok(None),
                },
                Some(other) => return Err(Malformed::Start(*other)),
            }
        }
    }

    fn message(&mut self) -> Result<Option<Unit>, Malformed> {
        let Some(layout) = Layout::read(&self.raw)? else {
            return Ok(None);
        };
        self.in_handshake = false;
        if self.raw.len() < layout.total {
            return Ok(None);
        }
        let rest = self.raw.split_off(layout.total);
        let message = std::mem::replace(&mut self.raw, rest);
        let fields = layout.fields(&message)?;
        let fds = fields.fds as usize;
        let bytes = if self.rules.cut_sender {
            layout.without_sender(message, &fields)
        } else {
            message
        };
        Ok(Some(Unit { bytes, fds }))
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let end = self
            .raw
            .iter()
            .skip(self.searched)
            .position(|byte| *byte == b'\n');
        match end {
            None if self.raw.len() >= MAX_LINE => Err(Malformed::Line),
            None => {
                self.searched = self.raw.len();
                Ok(None)
            }
            Some(position) => {
                let length = self.searched + position + 1;
                self.searched = 0;
                let rest = self.raw.split_off(length);
                let line = std::mem::replace(&mut self.raw, rest);
                let text = line.strip_suffix(b"\r\n").ok_or(Malformed::Line)?;
                let printable = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
                if !printable || length > MAX_LINE {
                    return Err(Malformed::Line);
                }
                Ok(Some(line))
            }
        }
    }
}

fn is_challenge(line: &[u8]) -> bool {
    line.trim_ascii() == b"DATA"
}
