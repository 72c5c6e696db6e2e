//! The transport under zbus: a Unix stream whose bytes are looked at on their way.
//!
//! Three things are done here that zbus's own transport does not do.
//! * systemd's private socket names itself `org.freedesktop.systemd1` in the SENDER field of each message (since systemd 237). zbus takes only unique names there and drops the
//!   connection; so the field is cut out ([`header`]).
//! * The identity in the handshake may be left out ([`Identity`]), which is what makes EXTERNAL work from inside a user namespace.
//! * A message that was begun is always finished, whoever is cancelled ([`Writer`]).
//!
//! Everything that a peer can send is bounded ([`frame`]).

mod frame;
mod header;
mod read;
mod write;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod stream_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

use std::io;
use std::sync::Arc;

use tokio::net::UnixStream;
use zbus::connection::Socket;
use zbus::connection::socket::Split;

use frame::Rules;
use read::Reader;
use write::Writer;

/// The most file descriptors that Linux passes in one sendmsg(2) (`SCM_MAX_FD`, unix(7)), and so in one message.
pub(super) const FDS_PER_WRITE: usize = 253;

/// Which identity the handshake's EXTERNAL mechanism claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// The caller's effective user ID. Understood by every version of every server.
    Stated,
    /// None: the server takes the one that the kernel tells it (SO_PEERCRED). In a user namespace the caller's user ID is another number to the server, which
    /// would then refuse it. Understood by dbus-daemon and dbus-broker, and by sd-bus since systemd 248.
    Unstated,
}

/// A connected stream and what is done to its bytes.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) stream: UnixStream,
    pub(super) identity: Identity,
    /// Whether the peer is systemd's private socket.
    pub(super) private: bool,
}

impl Socket for Transport {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let stream = Arc::new(self.stream);
        let rules = Rules {
            cut_sender: self.private,
            swallow_challenge: self.identity == Identity::Unstated,
        };
        Split::new(
            Reader::new(Arc::clone(&stream), rules),
            Writer::new(stream, self.identity),
        )
    }
}

fn invalid_data(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
