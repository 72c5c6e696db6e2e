//! The socket itself: file descriptors, cancelled writes, the handshake's first line.

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use zbus::Message;
use zbus::connection::socket::{ReadHalf, WriteHalf};

use super::tests::{Value, encode};
use super::*;

pub(super) fn pair() -> (std::os::unix::net::UnixStream, UnixStream) {
    let (peer, ours) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (peer, UnixStream::from_std(ours).unwrap())
}

fn split(stream: UnixStream, identity: Identity) -> (Reader, Writer) {
    let transport = Transport {
        stream,
        identity,
        private: true,
    };
    transport.split().take()
}

fn with_fds(serial: u32, count: u32) -> Vec<u8> {
    encode(
        true,
        &[(9, Value::Number(b'u', count))],
        &serial.to_le_bytes(),
    )
}

fn send_with(peer: &impl AsFd, bytes: &[u8], fds: &[OwnedFd]) {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    }
    let sent = rustix::net::sendmsg(
        peer,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::empty(),
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

fn pipes(count: usize) -> Vec<OwnedFd> {
    (0..count)
        .map(|_| rustix::pipe::pipe().unwrap().0)
        .collect()
}

/// Reads one unit, as zbus does: in pieces, collecting the file descriptors.
async fn read(reader: &mut Reader, length: usize) -> std::io::Result<(Vec<u8>, usize)> {
    let mut bytes = vec![0; length];
    let (mut at, mut fds) = (0, 0);
    while at < length {
        let end = length.min(at + 7);
        let (count, more) = reader.recvmsg(&mut bytes[at..end]).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        at += count;
        fds += more.len();
    }
    Ok((bytes, fds))
}

#[tokio::test]
async fn file_descriptors_come_with_the_message_that_they_belong_to() {
    let (peer, ours) = pair();
    let (mut reader, _writer) = split(ours, Identity::Stated);
    let (first, second, third) = (with_fds(1, 2), with_fds(2, 0), with_fds(3, 300));
    let middle = first.len() / 2;
    send_with(&peer, b"OK\r\n", &[]);
    send_with(&peer, &first[..middle], &pipes(1));
    send_with(&peer, &first[middle..], &pipes(1));
    send_with(&peer, &second, &[]);
    // More than one sendmsg can carry.
    send_with(&peer, &third[..8], &pipes(253));
    send_with(&peer, &third[8..], &pipes(47));
    assert_eq!(read(&mut reader, 4).await.unwrap(), (b"OK\r\n".to_vec(), 0));
    for (message, fds) in [(first, 2), (second, 0), (third, 300)] {
        assert_eq!(
            read(&mut reader, message.len()).await.unwrap(),
            (message, fds)
        );
    }
}

#[tokio::test]
async fn file_descriptors_that_do_not_add_up_end_the_connection() {
    for (declared, sent) in [(2, 1), (0, 1), (1, 2)] {
        let (peer, ours) = pair();
        let (mut reader, _writer) = split(ours, Identity::Stated);
        let message = with_fds(1, declared);
        send_with(&peer, &message, &pipes(sent));
        let error = read(&mut reader, message.len()).await.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::InvalidData,
            "{declared} {sent}"
        );
    }
}

#[tokio::test]
async fn file_descriptors_are_sent_and_too_many_are_refused_before_anything_is() {
    let (mut peer, ours) = pair();
    let (_reader, mut writer) = split(ours, Identity::Stated);
    let build = |count: usize| {
        let fds: Vec<zbus::Fd<'static>> = pipes(count).into_iter().map(zbus::Fd::from).collect();
        Message::method_call("/", "Fds").build(&fds).unwrap()
    };
    let error = writer.send_message(&build(254)).await.unwrap_err();
    assert!(error.to_string().contains("254"), "{error}");
    let message = build(253);
    writer.send_message(&message).await.unwrap();
    peer.set_nonblocking(true).unwrap();
    let (mut reader, _) = split(
        UnixStream::from_std(peer.try_clone().unwrap()).unwrap(),
        Identity::Stated,
    );
    let length = message.data().len();
    assert_eq!(
        read(&mut reader, length).await.unwrap(),
        (message.data().to_vec(), 253)
    );
    assert_eq!(
        peer.read(&mut [0]).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

#[tokio::test]
async fn a_message_whose_sender_was_cancelled_is_finished_before_the_next_one() {
    let (mut peer, ours) = pair();
    let (_reader, mut writer) = split(ours, Identity::Stated);
    let long = Message::method_call("/", "Long")
        .build(&"x".repeat(1 << 20))
        .unwrap();
    let next = Message::method_call("/", "Next").build(&()).unwrap();
    // From here on the runtime knows that the socket takes bytes, so that one poll begins the next message.
    writer.send_message(&next).await.unwrap();
    // The peer does not read, so the long one stops in the middle; one poll is as far as it gets.
    {
        let mut sending = std::pin::pin!(writer.send_message(&long));
        std::future::poll_fn(|context| {
            assert!(sending.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    let total = long.data().len() + 2 * next.data().len();
    peer.set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = vec![0; total];
        peer.read_exact(&mut bytes).map(|()| bytes)
    });
    writer.send_message(&next).await.unwrap();
    let bytes = reading.join().unwrap().unwrap();
    assert_eq!(
        bytes,
        [&next.data()[..], &long.data()[..], &next.data()[..]].concat()
    );
}

#[tokio::test]
async fn the_identity_is_left_out_where_it_has_no_meaning_to_the_server() {
    for (identity, expected) in [
        (Identity::Stated, &b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n"[..]),
        (Identity::Unstated, b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"),
    ] {
        let (mut peer, ours) = pair();
        let (_reader, mut writer) = split(ours, identity);
        let mut bytes = &b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n"[..];
        while !bytes.is_empty() {
            let written = writer.sendmsg(bytes, &[]).await.unwrap();
            bytes = &bytes[written..];
        }
        writer.close().await.unwrap();
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        assert_eq!(received, expected);
    }
}

#[tokio::test]
async fn bytes_that_are_not_dbus_are_an_error_and_the_end_is_an_end() {
    let (mut peer, ours) = pair();
    let (mut reader, _writer) = split(ours, Identity::Stated);
    peer.write_all(b"HTTP/1.1 400 Bad Request\n\n").unwrap();
    let error = reader.recvmsg(&mut [0; 16]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);

    let (peer, ours) = pair();
    let (mut reader, _writer) = split(ours, Identity::Stated);
    drop(peer);
    assert_eq!(reader.recvmsg(&mut [0; 16]).await.unwrap().0, 0);
}
