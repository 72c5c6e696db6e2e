//! A peer that answers as a test wants it: systemd's private socket, or a bus with systemd on it.
//!
//! Everything that it sends on the private socket carries the SENDER that systemd writes there.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use zbus::connection::socket::{ReadHalf, Split, WriteHalf};
use zbus::connection::{Builder, Socket};
use zbus::export::async_trait::async_trait;
use zbus::{Connection, Guid, Message, OwnedObjectPath};

use super::address::{Endpoint, parse};

/// A unique name as zbus wants it, of the length of the well-known one that is sent in its place.
pub(super) const SYSTEMD_UNIQUE: &str = ":rg.freedesktop.systemd1";

/// A directory of the test's own, gone with it.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("scopectl-bus-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("systemd")).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn bus(&self) -> Endpoint {
        parse(&format!("unix:path={}/bus", self.0.display())).unwrap()
    }

    pub(super) fn private(&self) -> Endpoint {
        parse(&format!("unix:path={}/systemd/private", self.0.display())).unwrap()
    }

    pub(super) fn socket(&self, endpoint: &Endpoint) -> PathBuf {
        self.0.join(if endpoint.is_private() {
            "systemd/private"
        } else {
            "bus"
        })
    }

    pub(super) fn listen(&self, endpoint: &Endpoint) -> UnixListener {
        UnixListener::bind(self.socket(endpoint)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the peer was asked.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) rules: Mutex<Vec<String>>,
    pub(super) stopped: Notify,
    /// Ends the silence about `silent.scope`.
    pub(super) released: Notify,
}

/// The peer's end of one connection.
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) asked: Arc<Asked>,
}

impl Peer {
    /// Takes one connection.
    pub(super) async fn accept(listener: &UnixListener) -> Self {
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(30), listener.accept());
        let (stream, _) = waiting.await.expect("somebody connects").unwrap();
        Self::serve(stream).await
    }

    pub(super) async fn serve(stream: UnixStream) -> Self {
        let asked = Arc::new(Asked::default());
        let connection = Builder::socket(Stamping(stream))
            .server(Guid::generate())
            .p2p()
            .serve_at("/org/freedesktop/systemd1", Systemd(Arc::clone(&asked)))
            .serve_at("/org/freedesktop/systemd1/unit/x", UnitObject)
            .serve_at("/org/freedesktop/systemd1/unit/x", ScopeObject)
            .serve_at("/org/freedesktop/DBus", Driver(Arc::clone(&asked)))
            .build()
            .await
            .unwrap();
        Self { connection, asked }
    }

    /// Sends a signal with this SENDER, to all or to one.
    pub(super) async fn signal<B: serde::Serialize + zbus::DynamicType>(
        &self,
        sender: Option<&str>,
        destination: Option<&str>,
        (path, interface, member): (&str, &str, &str),
        body: &B,
    ) {
        let mut signal = Message::signal(path, interface, member);
        if let Some(sender) = sender {
            signal = signal.sender(sender);
        }
        if let Some(destination) = destination {
            signal = signal.destination(destination);
        }
        self.connection
            .send(&signal.build(body).unwrap())
            .await
            .unwrap();
    }
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Fault {
    #[zbus(error)]
    ZBus(zbus::Error),
    NoSuchUnit(String),
}

struct Systemd(Arc<Asked>);

type Row = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    async fn reset_failed_unit(&self, name: &str) -> Result<(), Fault> {
        match name {
            "silent.scope" => {
                self.0.released.notified().await;
                Err(Fault::NoSuchUnit("released".to_owned()))
            }
            "missing.scope" => Err(Fault::NoSuchUnit(format!("Unit {name} not loaded."))),
            _ => Ok(()),
        }
    }

    async fn list_units_by_names(&self, names: Vec<String>) -> Vec<Row> {
        let path = |path: &str| OwnedObjectPath::try_from(path).unwrap();
        let row = |name| {
            (
                name,
                "a scope".to_owned(),
                "loaded".to_owned(),
                "active".to_owned(),
                "running".to_owned(),
                String::new(),
                path("/org/freedesktop/systemd1/unit/x"),
                7,
                "stop".to_owned(),
                path("/org/freedesktop/systemd1/job/7"),
            )
        };
        names.into_iter().map(row).collect()
    }

    // Another type than systemd's: text, and not the path of a job.
    async fn stop_unit(&self, _name: &str, _mode: &str) -> String {
        self.0.stopped.notify_one();
        "not a path".to_owned()
    }

    #[zbus(property)]
    fn version(&self) -> String {
        "252.1-fake".to_owned()
    }
}

struct UnitObject;

#[zbus::interface(name = "org.freedesktop.systemd1.Unit")]
impl UnitObject {
    #[zbus(property, name = "InvocationID")]
    fn invocation_id(&self) -> Vec<u8> {
        vec![1; 16]
    }
}

struct ScopeObject;

#[zbus::interface(name = "org.freedesktop.systemd1.Scope")]
impl ScopeObject {
    // Another type than systemd's.
    #[zbus(property)]
    fn delegate(&self) -> u32 {
        1
    }
}

struct Driver(Arc<Asked>);

#[zbus::interface(name = "org.freedesktop.DBus")]
impl Driver {
    fn hello(&self) -> String {
        ":1.7".to_owned()
    }

    fn add_match(&self, rule: String) {
        self.0.rules.lock().unwrap().push(rule);
    }

    #[zbus(name = "GetConnectionUnixProcessID")]
    fn get_connection_unix_process_id(&self, _name: &str) -> u32 {
        4711
    }
}

/// A stream that writes systemd's well-known name where zbus was made to write a unique one.
#[derive(Debug)]
struct Stamping(UnixStream);

impl Socket for Stamping {
    type ReadHalf = Plain;
    type WriteHalf = Stamper;

    fn split(self) -> Split<Plain, Stamper> {
        let (read, write) = self.0.into_split();
        Split::new(Plain(read), Stamper(write))
    }
}

#[derive(Debug)]
struct Plain(OwnedReadHalf);

#[async_trait]
impl ReadHalf for Plain {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> std::io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.0.read(buffer).await?, Vec::new()))
    }

    async fn peer_credentials(&mut self) -> std::io::Result<zbus::fdo::ConnectionCredentials> {
        let uid = self.0.as_ref().peer_cred()?.uid();
        Ok(zbus::fdo::ConnectionCredentials::default().set_unix_user_id(uid))
    }
}

#[derive(Debug)]
struct Stamper(OwnedWriteHalf);

#[async_trait]
impl WriteHalf for Stamper {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        let mut bytes = message.data().to_vec();
        let unique = SYSTEMD_UNIQUE.as_bytes();
        if let Some(at) = bytes
            .windows(unique.len())
            .position(|window| window == unique)
        {
            bytes[at] = b'o';
        }
        self.0.write_all(&bytes).await?;
        Ok(())
    }

    async fn sendmsg(
        &mut self,
        buffer: &[u8],
        _fds: &[std::os::fd::BorrowedFd<'_>],
    ) -> std::io::Result<usize> {
        self.0.write(buffer).await
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.0.shutdown().await
    }
}

/// A sink that puts the events in a channel.
pub(super) fn channel<T: Send + 'static>()
-> (impl FnMut(T) + Send + 'static, mpsc::UnboundedReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (
        move |event| {
            let _ = sender.send(event);
        },
        receiver,
    )
}
