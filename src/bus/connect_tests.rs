//! Connecting, and every way in which it fails.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::fake::{Directory, Peer};
use super::tests::{later, soon};
use super::{Bus, Endpoint};
use crate::{Error, ErrorKind, Phase};

async fn refused(endpoint: &Endpoint) -> Error {
    let error = Bus::connect(endpoint, later()).await.unwrap_err();
    assert_eq!(error.phase(), Some(Phase::Connect));
    assert!(error.to_string().contains(&endpoint.to_string()), "{error}");
    error
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_named() {
    let directory = Directory::new();
    assert_eq!(refused(&directory.bus()).await.kind(), ErrorKind::NoManager);
    std::fs::write(directory.path().join("bus"), "").unwrap();
    let error = refused(&directory.bus()).await;
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "a file: {error}");
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_any_more_is_tried_until_somebody_does() {
    let directory = Directory::new();
    let endpoint = directory.private();
    drop(directory.listen(&endpoint));
    let (bus, _peer) = tokio::join!(Bus::connect(&endpoint, later()), async {
        // The first attempt has been refused by now, since the socket answers at once.
        tokio::task::yield_now().await;
        std::fs::remove_file(directory.socket(&endpoint)).unwrap();
        Peer::accept(&directory.listen(&endpoint)).await
    });
    bus.unwrap();
}

#[tokio::test]
async fn a_socket_that_is_left_over_is_an_error_before_the_deadline() {
    let directory = Directory::new();
    let endpoint = directory.private();
    drop(directory.listen(&endpoint));
    let error = refused(&endpoint).await;
    assert_eq!(error.kind(), ErrorKind::NoManager);
    assert!(error.to_string().contains("nothing accepts"), "{error}");
}

#[tokio::test]
async fn a_full_queue_of_connections_is_waited_for() {
    let directory = Directory::new();
    let endpoint = directory.private();
    // A backlog of none takes one connection, and no second one until that is accepted.
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let address = rustix::net::SocketAddrUnix::new(directory.socket(&endpoint)).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = std::os::unix::net::UnixListener::from(socket);
    listener.set_nonblocking(true).unwrap();
    let listener = UnixListener::from_std(listener).unwrap();
    let first = std::os::unix::net::UnixStream::connect(directory.socket(&endpoint)).unwrap();
    let (bus, _peer) = tokio::join!(Bus::connect(&endpoint, later()), async {
        tokio::task::yield_now().await;
        drop(listener.accept().await.unwrap());
        drop(first);
        Peer::accept(&listener).await
    });
    bus.unwrap();
}

#[tokio::test]
async fn a_peer_that_accepts_and_stays_silent_ends_with_the_deadline() {
    for private in [true, false] {
        let directory = Directory::new();
        let endpoint = if private {
            directory.private()
        } else {
            directory.bus()
        };
        let _listener = directory.listen(&endpoint);
        let error = Bus::connect(&endpoint, soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CallTimeout, "{error}");
        assert_eq!(error.phase(), Some(Phase::Connect));
    }
}

/// Connects to a peer that answers the handshake with these bytes.
async fn answered(answer: &'static [u8]) -> Error {
    let directory = Directory::new();
    let endpoint = directory.bus();
    let listener = directory.listen(&endpoint);
    let peer = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 512]).await;
            let _ = stream.write_all(answer).await;
        }
    });
    let error = refused(&endpoint).await;
    peer.abort();
    error
}

#[tokio::test]
async fn a_rejected_user_is_a_denied_permission() {
    let error = answered(b"REJECTED EXTERNAL\r\n").await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[tokio::test]
async fn a_peer_that_closes_during_the_handshake_is_tried_again_and_then_reported() {
    let error = answered(b"").await;
    assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
}

#[tokio::test]
async fn a_peer_that_speaks_something_else_is_no_manager() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\n",
        b"220 hello\r\n",
        b"OK not-a-guid\r\n",
        &[0xff; 64],
    ] {
        let error = answered(answer).await;
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
    }
}

#[tokio::test]
async fn a_bus_with_another_guid_than_the_address_says_is_refused() {
    let directory = Directory::new();
    let address = format!("{},guid=00112233445566778899aabbccddeeff", directory.bus());
    let endpoint = super::address::parse(&address).unwrap();
    let listener = directory.listen(&endpoint);
    let (bus, _peer) = tokio::join!(Bus::connect(&endpoint, later()), Peer::accept(&listener));
    assert_eq!(bus.unwrap_err().kind(), ErrorKind::NoManager);
}
