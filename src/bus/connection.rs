//! One connection to a manager: making it, and calling on it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use zbus::connection::Builder;
use zbus::{Connection, DynamicType, Message};

use super::address::{Endpoint, SocketName};
use super::backoff::Backoff;
use super::members::{Member, SYSTEMD};
use super::socket::Transport;
use super::{faults, identity};
use crate::{Error, ErrorKind, Phase, Result};

/// How long a socket may refuse connections, or drop them in the handshake, before it counts as left over. A manager that executes itself again is back after about 0.1 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection. Dropping it closes it and ends its tasks.
///
/// It belongs to the Tokio runtime that it was made on; calls may come from anywhere.
#[derive(Debug)]
pub(crate) struct Bus {
    pub(super) connection: Connection,
    pub(super) runtime: Handle,
    pub(super) drain: Mutex<Option<AbortHandle>>,
    endpoint: Endpoint,
    peer: Option<u32>,
    calls: Mutex<JoinSet<()>>,
}

impl Bus {
    /// Connects, within `deadline`, trying again where the failure may pass by itself.
    ///
    /// # Errors
    ///
    /// [`NoManager`](ErrorKind::NoManager): there is no such socket, nothing accepts on it, or what answers is no D-Bus server.
    /// [`PermissionDenied`](ErrorKind::PermissionDenied): the socket or the server does not take this user.
    /// [`InvalidInput`](ErrorKind::InvalidInput): the path is not a socket.
    /// [`CallTimeout`](ErrorKind::CallTimeout): the other side accepts and stays silent.
    pub(crate) async fn connect(endpoint: &Endpoint, deadline: Instant) -> Result<Self> {
        Box::pin(Self::connect_within(endpoint, deadline))
            .await
            .map_err(|error| error.at(Phase::Connect))
    }

    async fn connect_within(endpoint: &Endpoint, deadline: Instant) -> Result<Self> {
        let patient_until = deadline.min(Instant::now() + PATIENCE);
        let mut backoff = Backoff::default();
        loop {
            let failure = match timeout_at(deadline, Self::attempt(endpoint)).await {
                Ok(Ok(bus)) => return Ok(bus),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(silent(endpoint)),
            };
            let until = match failure.again {
                Again::Never => return Err(failure.error),
                Again::Patiently => patient_until,
                Again::ToTheEnd => deadline,
            };
            let next = Instant::now() + backoff.pause();
            if next >= until {
                return Err(failure.error);
            }
            tracing::debug!(%endpoint, error = %failure.error, "connecting again");
            tokio::time::sleep_until(next).await;
        }
    }

    async fn attempt(endpoint: &Endpoint) -> std::result::Result<Self, Failure> {
        let stream =
            open(&endpoint.socket()).map_err(|error| Failure::of_connect(endpoint, error))?;
        let peer = identity::peer_pid(&stream);
        let transport = Transport {
            stream,
            identity: identity::to_claim(),
            private: endpoint.is_private(),
        };
        let builder = Builder::socket(transport);
        let builder = if endpoint.is_private() {
            builder.p2p()
        } else {
            builder
        };
        let connection = builder
            .build()
            .await
            .map_err(|error| Failure::of_handshake(endpoint, error))?;
        if let Endpoint::Bus(address) = endpoint
            && let Some(wanted) = &address.guid
            && !connection
                .server_guid()
                .as_str()
                .eq_ignore_ascii_case(wanted)
        {
            return Err(Failure::never(Error::new(
                ErrorKind::NoManager,
                format!("another bus than the one with this guid answers at {endpoint}"),
            )));
        }
        Ok(Self {
            connection,
            runtime: Handle::current(),
            drain: Mutex::default(),
            endpoint: endpoint.clone(),
            peer,
            calls: Mutex::default(),
        })
    }

    /// Whether this is a message bus, and not systemd's private socket.
    pub(crate) fn is_bus(&self) -> bool {
        !self.endpoint.is_private()
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// The manager's process, in the caller's process IDs; `None` if it has none there, because it is in a pid namespace that the caller cannot see.
    pub(crate) async fn manager_pid(&self, deadline: Instant) -> Result<Option<u32>> {
        if !self.is_bus() {
            return Ok(self.peer);
        }
        // The bus answers in *its* process IDs.
        let Some(bus) = self.peer else {
            return Ok(None);
        };
        if identity::is_in_another_pid_namespace(bus) {
            return Ok(None);
        }
        match self
            .driver()
            .get_connection_unix_process_id(SYSTEMD, deadline)
            .await
        {
            Ok(pid) => Ok(Some(pid).filter(|pid| *pid > 0)),
            Err(error) if error.kind() == ErrorKind::ProcessGone => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls a method and waits for its reply until `deadline`; `what` is what errors call it.
    ///
    /// The exchange runs in a task of its own, which ends with the deadline: the caller may go away at any time, and the call is made all the same.
    pub(super) async fn call<B>(
        &self,
        member: &'static Member,
        what: &'static str,
        destination: &'static str,
        path: &str,
        body: B,
        deadline: Instant,
    ) -> Result<Message>
    where
        B: Serialize + DynamicType + Send + Sync + 'static,
    {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let connection = self.connection.clone();
        let path = path.to_owned();
        let exchange = async move {
            let call = connection.call_method(
                Some(destination),
                path,
                Some(member.interface),
                member.name,
                &body,
            );
            let result = match timeout_at(deadline, call).await {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(error)) => Err(faults::from_zbus(what, error)),
                Err(_) => Err(faults::no_answer(what)),
            };
            // The caller may be gone; then nobody wants to know.
            let _ = answer.send(result);
        };
        {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            while calls.try_join_next().is_some() {}
            calls.spawn_on(exchange, &self.runtime);
        }
        // The task was dropped without an answer: its runtime is shutting down.
        answered.await.unwrap_or_else(|_| Err(faults::lost(what)))
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let drain = self.drain.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = drain.take() {
            task.abort();
        }
    }
}

/// A Unix socket connects at once or not at all (EAGAIN: the other side's queue is full), so that there is nothing to wait for.
fn open(socket: &SocketName) -> std::io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = match socket {
        SocketName::Path(path) => SocketAddrUnix::new(path.as_path()),
        SocketName::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
    }?;
    let fd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::connect(&fd, &address)?;
    UnixStream::from_std(std::os::unix::net::UnixStream::from(fd))
}

fn silent(endpoint: &Endpoint) -> Error {
    Error::new(
        ErrorKind::CallTimeout,
        format!("{endpoint} accepts connections but did not answer the D-Bus handshake in time"),
    )
}

/// How long a failed attempt is worth another one.
#[derive(Clone, Copy, Debug)]
enum Again {
    Never,
    Patiently,
    ToTheEnd,
}

#[derive(Debug)]
struct Failure {
    error: Error,
    again: Again,
}

impl Failure {
    fn never(error: Error) -> Self {
        Self {
            error,
            again: Again::Never,
        }
    }

    fn of_connect(endpoint: &Endpoint, cause: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let is_no_socket = match endpoint.socket() {
            SocketName::Path(path) => {
                use std::os::unix::fs::FileTypeExt;
                std::fs::metadata(path).is_ok_and(|file| !file.file_type().is_socket())
            }
            SocketName::Abstract(_) => false,
        };
        let (kind, again, sentence) = match cause.kind() {
            _ if is_no_socket => (
                ErrorKind::InvalidInput,
                Again::Never,
                format!("{endpoint} is not a socket"),
            ),
            Io::NotFound | Io::NotADirectory => (
                ErrorKind::NoManager,
                Again::Never,
                format!("there is no socket at {endpoint}"),
            ),
            Io::PermissionDenied => (
                ErrorKind::PermissionDenied,
                Again::Never,
                format!("the caller may not connect to {endpoint}"),
            ),
            Io::ConnectionRefused => (
                ErrorKind::NoManager,
                Again::Patiently,
                format!("nothing accepts connections at {endpoint}: its server has ended"),
            ),
            Io::WouldBlock => (
                ErrorKind::NoManager,
                Again::ToTheEnd,
                format!("{endpoint} has more connections waiting than it can hold"),
            ),
            _ => (
                ErrorKind::NoManager,
                Again::Never,
                format!("could not connect to {endpoint}: {cause}"),
            ),
        };
        Self {
            error: Error::new(kind, sentence).with_source(cause),
            again,
        }
    }

    fn of_handshake(endpoint: &Endpoint, cause: zbus::Error) -> Self {
        use std::io::ErrorKind as Io;
        let ended = match &cause {
            zbus::Error::InputOutput(error) => matches!(
                error.kind(),
                Io::ConnectionReset | Io::BrokenPipe | Io::UnexpectedEof | Io::NotConnected
            ),
            zbus::Error::Handshake(text) => text.contains("EOF"),
            _ => false,
        };
        let uid = rustix::process::geteuid().as_raw();
        let (kind, again, sentence) = match &cause {
            _ if ended => (
                ErrorKind::NoManager,
                Again::Patiently,
                format!(
                    "{endpoint} closed the connection during the D-Bus handshake: it is restarting, or does not serve user ID {uid}"
                ),
            ),
            zbus::Error::Handshake(text) if text.contains("rejected") => (
                ErrorKind::PermissionDenied,
                Again::Never,
                format!(
                    "{endpoint} does not accept user ID {uid}: connect as the user that it belongs to, or as root"
                ),
            ),
            zbus::Error::MethodError(..) | zbus::Error::FDO(_) => {
                return Self::never(faults::from_zbus("Hello", cause));
            }
            _ => (
                ErrorKind::NoManager,
                Again::Never,
                format!("{endpoint} did not complete the D-Bus handshake: {cause}"),
            ),
        };
        Self {
            error: Error::new(kind, sentence).with_source(cause),
            again,
        }
    }
}
