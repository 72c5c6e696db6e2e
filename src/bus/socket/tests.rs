//! What is cut out of the stream, and what of it zbus reads.

use std::io::Write;
use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::sample::Index;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::wire::Endian;

use super::frame::{Framer, Rules, Unit};
use super::header::{MAX_MESSAGE, Malformed};
use super::stream_tests::pair;
use super::*;

const CUT: Rules = Rules {
    cut_sender: true,
    swallow_challenge: false,
};

/// A unique name as zbus wants it, of the length of the well-known one that systemd writes instead.
const UNIQUE: &str = ":rg.freedesktop.systemd1";
const WELL_KNOWN: &str = "org.freedesktop.systemd1";

/// A message as zbus builds it, with or without a SENDER.
#[derive(Clone, Debug)]
struct Plan {
    kind: u8,
    member: String,
    destination: bool,
    interface: bool,
    text: String,
    numbers: Vec<u32>,
    big_endian: bool,
    serial: NonZeroU32,
}

impl Plan {
    fn build(&self, sender: bool) -> Vec<u8> {
        let call = Message::method_call("/a", "Call").build(&()).unwrap();
        let mut builder = match self.kind {
            0 => Message::method_call("/org/x", self.member.as_str()),
            1 => Message::signal("/org/x", "org.x.Y", self.member.as_str()),
            2 => Message::method_return(&call.header()),
            _ => Message::error(&call.header(), "org.x.Error"),
        };
        if self.kind >= 2 {
            builder = builder.reply_serial(Some(self.serial));
        } else if self.interface {
            builder = builder.interface("org.x.Y");
        }
        if self.destination {
            builder = builder.destination(":1.7");
        }
        if sender {
            builder = builder.sender(UNIQUE);
        }
        if self.big_endian {
            builder = builder.endian(Endian::Big);
        }
        let body = (self.text.as_str(), self.numbers.as_slice());
        let message = builder.serial(self.serial).build(&body).unwrap();
        let mut bytes = message.data().to_vec();
        if sender {
            let at = bytes
                .windows(UNIQUE.len())
                .position(|window| window == UNIQUE.as_bytes())
                .unwrap();
            bytes[at..at + UNIQUE.len()].copy_from_slice(WELL_KNOWN.as_bytes());
        }
        bytes
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        0..4_u8,
        "[A-Z][a-z]{0,12}",
        any::<(bool, bool, bool)>(),
        "[^\0]{0,20}",
        prop::collection::vec(any::<u32>(), 0..6),
        1..=u32::MAX,
    )
        .prop_map(
            |(kind, member, (destination, interface, big_endian), text, numbers, serial)| Plan {
                kind,
                member,
                destination,
                interface,
                text,
                numbers,
                big_endian,
                serial: NonZeroU32::new(serial).unwrap(),
            },
        )
}

/// Feeds a stream in pieces and takes all units out.
fn cut(rules: Rules, stream: &[u8], pieces: &[Index]) -> std::result::Result<Vec<Unit>, Malformed> {
    let mut ends: Vec<usize> = pieces
        .iter()
        .map(|piece| piece.index(stream.len() + 1))
        .collect();
    ends.push(stream.len());
    ends.sort_unstable();
    let mut framer = Framer::new(rules);
    let mut units = Vec::new();
    let mut at = 0;
    for end in ends {
        framer.push(&stream[at..end]);
        at = end;
        while let Some(unit) = framer.next()? {
            units.push(unit);
        }
    }
    Ok(units)
}

/// One header field: its code and its value, of the type that its code has or of any other.
#[derive(Clone, Debug)]
pub(super) enum Value {
    String(u8, String),
    Signature(String),
    Number(u8, u32),
    Long(u64),
    Short(u16),
    Byte(u8),
}

fn field() -> impl Strategy<Value = (u8, Value)> {
    let value = prop_oneof![
        ("[ -~]{0,40}", prop::bool::ANY)
            .prop_map(|(text, path)| Value::String(if path { b'o' } else { b's' }, text)),
        "[a-z]{0,9}".prop_map(Value::Signature),
        any::<u32>().prop_map(|number| Value::Number(b'u', number)),
        any::<u64>().prop_map(Value::Long),
        any::<u16>().prop_map(Value::Short),
        any::<u8>().prop_map(Value::Byte),
    ];
    // No UNIX_FDS by chance: its value is what is counted.
    (prop_oneof![Just(7), 1..=6_u8, Just(8), 10..40_u8], value)
}

/// Writes a message of these fields the way that the specification says, independently of the code that reads it.
pub(super) fn encode(little: bool, fields: &[(u8, Value)], body: &[u8]) -> Vec<u8> {
    fn pad(bytes: &mut Vec<u8>, alignment: usize) {
        while !bytes.len().is_multiple_of(alignment) {
            bytes.push(0);
        }
    }
    let number = |value: u32| {
        if little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    };
    let mut out = vec![if little { b'l' } else { b'B' }, 4, 0, 1];
    out.extend(number(body.len() as u32));
    out.extend(number(77));
    out.extend(number(0));
    for (code, value) in fields {
        pad(&mut out, 8);
        out.push(*code);
        let signature = match value {
            Value::String(signature, _) | Value::Number(signature, _) => *signature,
            Value::Signature(_) => b'g',
            Value::Long(_) => b't',
            Value::Short(_) => b'q',
            Value::Byte(_) => b'y',
        };
        out.extend([1, signature, 0]);
        match value {
            Value::String(_, text) => {
                out.extend(number(text.len() as u32));
                out.extend(text.as_bytes());
                out.push(0);
            }
            Value::Signature(text) => {
                out.push(text.len() as u8);
                out.extend(text.as_bytes());
                out.push(0);
            }
            Value::Number(_, value) => out.extend(number(*value)),
            Value::Long(value) => {
                pad(&mut out, 8);
                out.extend(if little {
                    value.to_le_bytes()
                } else {
                    value.to_be_bytes()
                });
            }
            Value::Short(value) => out.extend(if little {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            }),
            Value::Byte(value) => out.push(*value),
        }
    }
    let length = number((out.len() - 16) as u32);
    out[12..16].copy_from_slice(&length);
    pad(&mut out, 8);
    out.extend(body);
    out
}

proptest! {
    #[test]
    fn cutting_the_sender_gives_the_message_that_was_built_without_it(
        plans in prop::collection::vec((plan(), any::<bool>()), 1..8),
        pieces in prop::collection::vec(any::<Index>(), 0..20),
    ) {
        let stream: Vec<u8> = plans.iter().flat_map(|(plan, sender)| plan.build(*sender)).collect();
        let units = cut(CUT, &stream, &pieces).unwrap();
        let without: Vec<Vec<u8>> = plans.iter().map(|(plan, _)| plan.build(false)).collect();
        prop_assert_eq!(units.into_iter().map(|unit| unit.bytes).collect::<Vec<_>>(), without);
    }

    #[test]
    fn fields_of_every_type_in_every_order_stay_as_they_are_but_the_sender(
        little in any::<bool>(),
        fields in prop::collection::vec(field(), 0..9),
        body in prop::collection::vec(any::<u8>(), 0..60),
        pieces in prop::collection::vec(any::<Index>(), 0..9),
    ) {
        let stream = encode(little, &fields, &body);
        let kept: Vec<_> = fields.iter().filter(|(code, _)| *code != 7).cloned().collect();
        let units = cut(CUT, &stream, &pieces).unwrap();
        prop_assert_eq!(units, vec![Unit { bytes: encode(little, &kept, &body), fds: 0 }]);
        let untouched = cut(Rules::default(), &stream, &pieces).unwrap();
        prop_assert_eq!(untouched, vec![Unit { bytes: stream, fds: 0 }]);
    }

    #[test]
    fn lines_of_the_handshake_pass_in_front_of_messages(
        lines in prop::collection::vec("(OK|DATA|REJECTED|ERROR|AGREE_UNIX_FD)[ -~]{0,30}", 0..5),
        plan in plan(),
        pieces in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let mut expected: Vec<Vec<u8>> = lines.iter().map(|line| format!("{line}\r\n").into_bytes()).collect();
        let mut stream: Vec<u8> = expected.concat();
        stream.extend(plan.build(true));
        expected.push(plan.build(false));
        let units = cut(CUT, &stream, &pieces).unwrap();
        prop_assert_eq!(units.into_iter().map(|unit| unit.bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_stream_that_ends_early_gives_nothing_more_than_its_whole_messages(plan in plan(), end in any::<Index>()) {
        let message = plan.build(true);
        let end = end.index(message.len());
        prop_assert_eq!(cut(CUT, &message[..end], &[]).unwrap(), vec![]);
    }

    #[test]
    fn no_bytes_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        start in prop::sample::select(vec![&b""[..], b"l\x01\0\x01", b"B\x02\0\x01", b"OK ", b"DATA\r\n"]),
        pieces in prop::collection::vec(any::<Index>(), 0..5),
    ) {
        let stream = [start, &bytes].concat();
        let _ = cut(CUT, &stream, &pieces);
    }

    #[test]
    fn no_change_of_one_byte_panics(plan in plan(), at in any::<Index>(), byte in any::<u8>()) {
        let mut message = plan.build(true);
        let at = at.index(message.len());
        message[at] = byte;
        let _ = cut(CUT, &message, &[]);
    }
}

/// What zbus reads of a stream behind our transport; `None` where it ends in an error.
fn parse(private: bool, stream: &[u8]) -> Vec<Option<Message>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (mut peer, ours) = pair();
        let transport = Transport {
            stream: ours,
            identity: Identity::Stated,
            private,
        };
        let (mut reader, _writer) = transport.split().take();
        peer.write_all(stream).unwrap();
        drop(peer);
        let mut messages = Vec::new();
        loop {
            let message = reader
                .receive_message(1, &mut Vec::new(), &mut Vec::new())
                .await;
            messages.push(message.ok());
            if let Some(None) = messages.last() {
                return messages;
            }
        }
    })
}

proptest! {
    #[test]
    fn zbus_reads_a_cut_message_as_it_reads_the_one_without(plan in plan()) {
        let cut = parse(true, &plan.build(true));
        let without = parse(false, &plan.build(false));
        for messages in [&cut, &without] {
            prop_assert_eq!(messages.len(), 2, "one message and the end");
        }
        let (cut, without) = (cut[0].as_ref().unwrap(), without[0].as_ref().unwrap());
        prop_assert!(cut.header().sender().is_none());
        prop_assert_eq!(format!("{:?}", cut.header()), format!("{:?}", without.header()));
        let body: (String, Vec<u32>) = cut.body().deserialize().unwrap();
        prop_assert_eq!(body, (plan.text.clone(), plan.numbers.clone()));
        prop_assert_eq!(parse(false, &plan.build(true)).len(), 1, "zbus takes it without the cut as well: is the cut still needed?");
    }

    // The reader is a task of ours: a panic in it would end the process where panics abort.
    #[test]
    fn zbus_does_not_panic_on_what_passes_the_transport(
        plan in plan(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
        little in any::<bool>(),
        fields in prop::collection::vec(field(), 0..9),
    ) {
        let mut changed = plan.build(true);
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        for stream in [changed, encode(little, &fields, b"body")] {
            for private in [true, false] {
                for message in parse(private, &stream).into_iter().flatten() {
                    let _ = format!("{:?}", message.header());
                    let _ = message.body().deserialize::<(u32, crate::bus::paths::ObjectPath, String, String)>();
                }
            }
        }
    }
}

#[test]
fn a_message_longer_than_the_bound_is_refused_before_it_is_there() {
    for (body, fields) in [
        (MAX_MESSAGE as u32, 0),
        (0, MAX_MESSAGE as u32),
        (u32::MAX, u32::MAX),
    ] {
        let mut prelude = encode(true, &[], &[]);
        prelude[4..8].copy_from_slice(&body.to_le_bytes());
        prelude[12..16].copy_from_slice(&fields.to_le_bytes());
        let refusal = cut(CUT, &prelude, &[]).unwrap_err();
        assert!(matches!(refusal, Malformed::TooLong(_)), "{refusal:?}");
    }
}

#[test]
fn a_malformed_header_is_an_error() {
    let good = encode(
        true,
        &[
            (7, Value::String(b's', "org.a".into())),
            (8, Value::Signature("u".into())),
        ],
        &[],
    );
    assert_eq!(cut(CUT, &good, &[]).unwrap().len(), 1);
    let broken = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        cut(CUT, &message, &[]).unwrap_err()
    };
    assert_eq!(broken(3, 2), Malformed::Version(2));
    assert_eq!(broken(17, 2), Malformed::FieldType(b's'), "a container");
    assert_eq!(broken(18, b'v'), Malformed::FieldType(b'v'));
    assert_eq!(
        broken(20, 200),
        Malformed::Fields,
        "a string that runs out of the header"
    );
    assert_eq!(broken(31, 1), Malformed::Fields, "padding that is not zero");
    assert_eq!(
        broken(12, 17),
        Malformed::Fields,
        "an array that ends in the middle of a field"
    );
}

#[test]
fn a_line_that_is_none_is_an_error() {
    for line in [
        &b"OK\n"[..],
        b"OK\0\r\n",
        b"\n",
        b"\0OK\r\n",
        b"ok\r\n",
        b"OK \xff\r\n",
    ] {
        assert!(cut(CUT, line, &[]).is_err(), "{line:?}");
    }
    assert_eq!(cut(CUT, &[b'O'; 20_000], &[]).unwrap_err(), Malformed::Line);
    let mut late = encode(true, &[], &[]);
    late.extend(b"OK\r\n");
    assert_eq!(
        cut(CUT, &late, &[]).unwrap_err(),
        Malformed::Start(b'O'),
        "no lines after a message"
    );
}

#[test]
fn only_the_first_challenge_is_swallowed_and_only_if_it_was_answered_already() {
    let rules = Rules {
        swallow_challenge: true,
        ..CUT
    };
    let lines = |rules, stream: &[u8]| -> Vec<Vec<u8>> {
        let units = cut(rules, stream, &[]).unwrap();
        units.into_iter().map(|unit| unit.bytes).collect()
    };
    assert_eq!(lines(rules, b"DATA\r\nOK 1\r\n"), [b"OK 1\r\n".to_vec()]);
    assert_eq!(lines(rules, b"DATA \r\nDATA\r\n"), [b"DATA\r\n".to_vec()]);
    assert_eq!(lines(CUT, b"DATA\r\n"), [b"DATA\r\n".to_vec()]);
}
