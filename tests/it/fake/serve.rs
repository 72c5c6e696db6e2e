//! The fake's sockets: systemd's private one, and a real bus.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::UnixListener;
use zbus::connection::Builder;
use zbus::export::futures_core::Stream;
use zbus::{Connection, Guid, MessageStream};

use super::{Call, Fake, SYSTEMD, Shared};

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Fake {
    /// Listens on a private socket of its own.
    pub(crate) fn on_private_socket() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scopectl-it-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(directory.join("systemd")).unwrap();
        let socket = directory.join("systemd/private");
        let fake = Self {
            shared: Shared::new(),
            address: format!("unix:path={}", socket.display()),
            tasks: Mutex::default(),
            directory: Some(directory),
        };
        fake.listen();
        fake
    }

    /// Takes connections (again).
    pub(crate) fn listen(&self) {
        let socket = self.directory.as_ref().unwrap().join("systemd/private");
        let listener = UnixListener::bind(socket).unwrap();
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = Builder::unix_stream(stream.into_std().unwrap())
                    .server(Guid::generate())
                    .p2p()
                    .build();
                // A client may hang up in the handshake.
                if let Ok(connection) = connection.await {
                    shared.serve(connection);
                }
            }
        });
        self.tasks.lock().unwrap().push(task.abort_handle());
    }

    /// The manager ends: nothing listens any more, every connection is closed. What it has started goes on.
    pub(crate) async fn end(&self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
        let socket = self.directory.as_ref().unwrap().join("systemd/private");
        std::fs::remove_file(socket).unwrap();
        self.hang_up().await;
    }

    /// Closes every connection.
    pub(crate) async fn hang_up(&self) {
        let connections = std::mem::take(&mut *self.shared.connections.lock().unwrap());
        for connection in connections {
            let _ = connection.close().await;
        }
    }

    /// A client of a real bus, which does not own systemd's name yet.
    pub(crate) async fn on_bus(address: &str) -> Self {
        let fake = Self {
            shared: Shared::new(),
            address: address.to_owned(),
            tasks: Mutex::default(),
            directory: None,
        };
        fake.join_bus().await;
        fake
    }

    /// Takes systemd's name, on a new connection.
    pub(crate) async fn join_bus(&self) {
        let connection = Builder::address(self.address.as_str())
            .build()
            .await
            .unwrap();
        self.shared.serve(connection.clone());
        connection.request_name(SYSTEMD).await.unwrap();
    }

    /// Forgets every call that it has not answered, and leaves the bus.
    pub(crate) async fn leave_bus(&self) {
        let connections = std::mem::take(&mut *self.shared.connections.lock().unwrap());
        for connection in connections {
            connection.release_name(SYSTEMD).await.unwrap();
            connection.close().await.unwrap();
        }
    }
}

impl Shared {
    /// Answers on this connection, one call after the other.
    fn serve(self: &Arc<Self>, connection: Connection) {
        let mut stream = MessageStream::from(&connection);
        self.connections.lock().unwrap().push(connection.clone());
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await
            {
                let Some(call) = Call::new(&shared, &connection, message) else {
                    continue;
                };
                call.record();
                let holder = shared
                    .holds
                    .lock()
                    .unwrap()
                    .get(call.member.as_str())
                    .cloned();
                match holder {
                    // Nobody takes it any more: it is lost.
                    Some(holder) => drop(holder.send(call)),
                    None => call.answer().await,
                }
            }
        });
    }
}
