//! The header of one D-Bus message: how long the message is, how many file descriptors belong to it, and how to cut one field out. Pure.
//!
//! A message starts with 12 fixed bytes and an array of `(code, variant)` structs, each on an 8-byte boundary; then padding to 8 bytes, then the body
//! (D-Bus specification, "Message Format"). Because every field starts on an 8-byte boundary, one that is cut out whole leaves those after it aligned.

use std::fmt;
use std::ops::Range;

/// The fixed part of a message and the length of its array of fields.
pub(super) const PRELUDE: usize = 16;

/// The longest message that is read, in bytes. The protocol's own limit is 128 MiB; systemd's answers to the calls of this crate are a few
/// kilobytes, and a unit with thousands of processes some hundred, so that more than this is a broken or hostile peer.
pub(super) const MAX_MESSAGE: u64 = 16 << 20;

const SENDER: u8 = 7;
const UNIX_FDS: u8 = 9;

/// Why the peer's bytes are not D-Bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Neither a line of the handshake nor a message starts like this.
    Start(u8),
    /// A line of the handshake that is too long, or has no proper end.
    Line,
    /// Another protocol version than 1.
    Version(u8),
    /// A message longer than [`MAX_MESSAGE`].
    TooLong(u64),
    /// The array of header fields does not add up.
    Fields,
    /// A header field of a type that D-Bus has no header field of.
    FieldType(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(byte) => write!(
                f,
                "the peer does not speak D-Bus: unexpected byte {byte:#04x}"
            ),
            Self::Line => {
                f.write_str("the peer does not speak D-Bus: a line of the handshake is malformed")
            }
            Self::Version(version) => write!(
                f,
                "the peer speaks version {version} of the D-Bus protocol, not 1"
            ),
            Self::TooLong(length) => write!(
                f,
                "a message of {length} bytes is longer than the limit of {MAX_MESSAGE}"
            ),
            Self::Fields => f.write_str("the header of a message is malformed"),
            Self::FieldType(code) => write!(
                f,
                "the header of a message has a field of unknown type {code:#04x}"
            ),
        }
    }
}

impl std::error::Error for Malformed {}

/// Where the parts of one message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    little_endian: bool,
    fields_end: usize,
    body_start: usize,
    /// Length of the whole message.
    pub(super) total: usize,
}

impl Layout {
    /// Reads the first [`PRELUDE`] bytes of a message; `None` if there are fewer.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some(prelude) = bytes.first_chunk::<PRELUDE>() else {
            return Ok(None);
        };
        let little_endian = match prelude[0] {
            b'l' => true,
            b'B' => false,
            other => return Err(Malformed::Start(other)),
        };
        if prelude[3] != 1 {
            return Err(Malformed::Version(prelude[3]));
        }
        let body = read_u32(prelude, 4, little_endian).ok_or(Malformed::Fields)?;
        let fields = read_u32(prelude, 12, little_endian).ok_or(Malformed::Fields)?;
        // Two 32-bit numbers and 16 bytes cannot overflow 64 bits, and what passes the bound fits a usize of any width.
        let fields_end = PRELUDE as u64 + u64::from(fields);
        let body_start = fields_end.next_multiple_of(8);
        let total = body_start + u64::from(body);
        if total > MAX_MESSAGE {
            return Err(Malformed::TooLong(total));
        }
        Ok(Some(Self {
            little_endian,
            fields_end: fields_end as usize,
            body_start: body_start as usize,
            total: total as usize,
        }))
    }

    /// Walks the fields of a whole message.
    pub(super) fn fields(&self, message: &[u8]) -> Result<Fields, Malformed> {
        let mut fields = Fields::default();
        let mut at = PRELUDE;
        while at < self.fields_end {
            let (code, value, end) = self.field(message, at)?;
            match code {
                SENDER => fields.has_sender = true,
                UNIX_FDS => {
                    fields.fds =
                        read_u32(message, value, self.little_endian).ok_or(Malformed::Fields)?;
                    fields.kept.push(at..end);
                }
                _ => fields.kept.push(at..end),
            }
            if end == self.fields_end {
                return Ok(fields);
            }
            at = end.next_multiple_of(8);
            let padding = message.get(end..at).ok_or(Malformed::Fields)?;
            if at >= self.fields_end || padding.iter().any(|byte| *byte != 0) {
                return Err(Malformed::Fields);
            }
        }
        Ok(fields)
    }

    /// The code of the field at `at`, where its value starts, and where it ends.
    fn field(&self, message: &[u8], at: usize) -> Result<(u8, usize, usize), Malformed> {
        let [code, signature_length, signature, nul] = *message
            .get(at..)
            .and_then(|rest| rest.first_chunk::<4>())
            .ok_or(Malformed::Fields)?;
        if signature_length != 1 || nul != 0 {
            return Err(Malformed::FieldType(signature));
        }
        // The signature ends on a 4-byte boundary; only the 8-byte types need more padding.
        let value = at + 4;
        let end = match signature {
            b'y' => Some(value + 1),
            b'n' | b'q' => Some(value + 2),
            b'b' | b'i' | b'u' | b'h' => Some(value + 4),
            b'x' | b't' | b'd' => Some(value + 4 + 8),
            b's' | b'o' => read_u32(message, value, self.little_endian)
                .and_then(|length| (value + 4 + 1).checked_add(length as usize)),
            b'g' => message
                .get(value)
                .map(|length| value + 1 + usize::from(*length) + 1),
            other => return Err(Malformed::FieldType(other)),
        };
        match end {
            Some(end) if end <= self.fields_end => Ok((code, value, end)),
            _ => Err(Malformed::Fields),
        }
    }

    /// The message without its SENDER field; unchanged if it has none.
    pub(super) fn without_sender(&self, message: Vec<u8>, fields: &Fields) -> Vec<u8> {
        if !fields.has_sender {
            return message;
        }
        let mut out = Vec::with_capacity(message.len());
        out.extend_from_slice(message.get(..PRELUDE).unwrap_or_default());
        for field in &fields.kept {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(message.get(field.clone()).unwrap_or_default());
        }
        let length = (out.len() - PRELUDE) as u32;
        if let Some(place) = out.get_mut(12..PRELUDE) {
            place.copy_from_slice(&if self.little_endian {
                length.to_le_bytes()
            } else {
                length.to_be_bytes()
            });
        }
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend_from_slice(message.get(self.body_start..).unwrap_or_default());
        out
    }
}

/// What the walk over the fields of a message found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// How many file descriptors belong to the message.
    pub(super) fds: u32,
    has_sender: bool,
    kept: Vec<Range<usize>>,
}

fn read_u32(bytes: &[u8], at: usize, little_endian: bool) -> Option<u32> {
    let word = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if little_endian {
        u32::from_le_bytes(word)
    } else {
        u32::from_be_bytes(word)
    })
}
