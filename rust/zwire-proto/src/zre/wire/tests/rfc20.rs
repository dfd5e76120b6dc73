//! Each SHALL and MUST of RFC 20 that concerns the wire format, in the order of the text. Those about
//! behaviour are in the tests of the node.

use super::*;
use crate::zre::DISCOVERY_PORT;

const RFC20: Generation = Generation::Rfc20;

fn beacon(port: u16) -> Beacon {
    Beacon { uuid: Uuid::from_bytes(*b"0123456789abcdef"), port, public_key: None }
}

/// "Each ZRE node SHALL listen to the ZRE discovery service which is UDP port 5670."
#[test]
fn the_port_of_discovery() {
    assert_eq!(DISCOVERY_PORT, 5670);
}

/// "The ZRE beacon consists of one 22-octet UDP message."
#[test]
fn a_beacon_has_22_octets() {
    assert_eq!(beacon(49152).encode().len(), 22);
}

/// "The header SHALL consist of the letters 'Z', 'R', and 'E', followed by the beacon version number,
/// which SHALL be %x01."
#[test]
fn the_header_of_a_beacon() {
    assert_eq!(beacon(49152).encode()[..4], *b"ZRE\x01");
}

/// "The body SHALL consist of the sender's 16-octet UUID, followed by a two-byte mailbox port number in
/// network order."
#[test]
fn the_body_of_a_beacon() {
    assert_eq!(beacon(0xc030).encode()[4..], *b"0123456789abcdef\xc0\x30");
}

/// "If the port is zero, this signals that the peer is disconnecting from the network."
#[test]
fn a_beacon_without_port_is_valid() {
    assert_eq!(Beacon::decode(&beacon(0).encode()), Ok(beacon(0)));
}

/// "A valid beacon SHALL use a recognized header and a body of the correct size."
#[test]
fn a_beacon_of_another_size_or_header_is_invalid() {
    let valid = beacon(1).encode();
    for wrong in [&valid[..21], &[&valid[..], &[0]].concat(), b"ZRE\x02", b"zre\x01", b""] {
        assert!(Beacon::decode(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
    }
    for at in 0..4 {
        let mut wrong = valid.to_vec();
        wrong[at] ^= 0x20;
        assert!(Beacon::decode(&wrong.into()).is_err(), "octet {at}");
    }
}

/// "it SHALL create a ZeroMQ DEALER socket, set its identity (binary 16-octet UUID) on that socket";
/// "The identity SHALL be a binary 16-octet UUID value."
#[test]
fn an_identity_has_16_octets() {
    let uuid = Uuid::from_bytes(*b"0123456789abcdef");
    let identity = IdentityForm::of(RFC20).encode(&uuid);
    assert_eq!(identity, &b"0123456789abcdef"[..]);
    assert_eq!(IdentityForm::decode(&identity), Some((IdentityForm::Bare, uuid)));
}

/// "Every ZRE message sent by TCP SHALL start with the ZRE protocol signature, %xAA %xA1."
#[test]
fn every_message_starts_with_the_signature() {
    for body in bodies() {
        let frames = message(1, body).encode(RFC20).unwrap();
        assert_eq!(frames[0][..2], [0xaa, 0xa1]);
    }
}

/// "A node SHALL silently discard any message received that does not start with these two octets."
#[test]
fn what_starts_otherwise_is_refused() {
    for body in bodies() {
        for at in 0..2 {
            let mut frames = message(1, body.clone()).encode(RFC20).unwrap();
            let mut wrong = frames[0].to_vec();
            wrong[at] ^= 1;
            frames[0] = wrong.into();
            let error = ZreMessage::decode(RFC20, &frames).unwrap_err();
            assert_eq!((error.reading, error.offset), ("message signature", 0));
        }
    }
    assert!(ZreMessage::decode(RFC20, &[]).is_err());
    assert!(ZreMessage::decode(RFC20, &[Bytes::new()]).is_err());
}

fn bodies() -> [Body; 7] {
    let (group, content) = (text("G"), vec![text("x")]);
    [
        Body::Hello(hello(RFC20)),
        Body::Whisper { content: content.clone() },
        Body::Shout { group: group.clone(), content },
        Body::Join { group: group.clone(), status: 1 },
        Body::Leave { group, status: 2 },
        Body::Ping,
        Body::PingOk,
    ]
}

/// The grammar: "S:HELLO = signature %x01 ..." to "R:PING-OK = signature %07 sequence".
#[test]
fn the_numbers_of_the_messages() {
    let ids: Vec<u8> = bodies().iter().map(|body| body.id().0).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    for body in bodies() {
        assert_eq!(message(1, body.clone()).encode(RFC20).unwrap()[0][2], body.id().0);
    }
}

/// "The 'group status sequence' is a one-octet number."
#[test]
fn the_status_has_one_octet() {
    for status in [0, 1, 255] {
        let join = message(4, Body::Join { group: text("G"), status });
        both_ways(RFC20, &format!("aaa104 0004 01 47 {status:02x}"), &join);
    }
}

/// "ZRE does not support multi-frame message contents", of WHISPER and of SHOUT "the message content
/// defined as one 0MQ frame".
#[test]
fn a_content_is_one_frame() {
    let two = vec![text("a"), text("b")];
    for body in [Body::Whisper { content: two.clone() }, Body::Shout { group: text("G"), content: two }] {
        let error = EncodeError::MultiFrame { generation: RFC20, frames: 2 };
        assert_eq!(message(1, body).encode(RFC20), Err(error));
    }
}

/// "Group names are case sensitive."
#[test]
fn group_names_keep_their_case() {
    let join = |group| message(4, Body::Join { group: text(group), status: 1 });
    assert_ne!(join("Chat").encode(RFC20), join("chat").encode(RFC20));
}

/// "To announce an extension protocol a node adds a headers field to the HELLO command, in the form:
/// service-name=tcp://ipaddress:port."
#[test]
fn an_extension_is_announced_by_a_header() {
    let headers = vec![(text("X-ZRELOG"), text("tcp://10.0.0.1:50100"))];
    let frames = message(1, Body::Hello(Hello { headers, ..hello(RFC20) })).encode(RFC20).unwrap();
    assert!(frames[0].ends_with(b"\x1dX-ZRELOG=tcp://10.0.0.1:50100"));
}

fn log() -> Log {
    Log {
        level: LogLevel::INFO,
        event: LogEvent::RECV,
        node: 0x0102,
        peer: 0x0304,
        time: 0x05,
        data: text("d"),
    }
}

/// "Every ZRE/LOG message SHALL start with the protocol signature %xAA %xA2."
#[test]
fn every_log_message_starts_with_its_signature() {
    assert_eq!(log().encode().unwrap()[..3], [0xaa, 0xa2, 0x01]);
    assert_eq!(log().encode().unwrap()[3..], *b"\x03\x06\x01\x02\x03\x04\0\0\0\0\0\0\0\x05\x01d");
}

/// "The log service SHALL silently discard any message received that does not start with these two
/// octets."
#[test]
fn what_starts_otherwise_is_no_log_message() {
    for at in 0..2 {
        let mut wrong = log().encode().unwrap().to_vec();
        wrong[at] ^= 1;
        assert_eq!(Log::decode(&wrong.into()).unwrap_err().reading, "LOG signature");
    }
}
