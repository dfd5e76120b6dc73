//! Problems of RFC 20 that concern the wire format (`zre` 16), each with the decision taken there.
//! Those about behaviour are in the tests of the node; 24, 29 and 30 need no decision.

use super::*;
use core::time::Duration;

const RFC20: Generation = Generation::Rfc20;

/// 2: two definitions of a valid beacon. "Use the first; zero port is valid and means goodbye."
#[test]
fn problem_2_zero_port() {
    let raw = unhex("5a5245 01 30313233343536373839616263646566 0000");
    assert_eq!(Beacon::decode(&raw).map(|beacon| beacon.port), Ok(0));
}

/// 3: "%06", "%07". "Ids 6 and 7, one octet."
#[test]
fn problem_3_ids_of_ping() {
    both_ways(RFC20, "aaa1 06 0001", &message(1, Body::Ping));
    both_ways(RFC20, "aaa1 07 0001", &message(1, Body::PingOk));
}

/// 4: VCHAR and the unit of size. "Size counts octets, 0..255; accept any octets, send UTF-8 without
/// NUL."
#[test]
fn problem_4_characters() {
    let join = |group: &[u8]| message(4, Body::Join { group: Bytes::copy_from_slice(group), status: 1 });
    both_ways(RFC20, "aaa104 0004 05 636166c3a9 01", &join("café".as_bytes()));
    both_ways(RFC20, "aaa104 0004 03 612062 01", &join(b"a b"));
    for (hex, octets) in [("aaa104 0004 02 61ff 01", b"a\xff"), ("aaa104 0004 02 6100 01", b"a\0")] {
        assert_eq!(ZreMessage::decode(RFC20, &[unhex(hex)]), Ok(join(octets)));
        let error = EncodeError::NotText { field: "JOIN group" };
        assert_eq!(join(octets).encode(RFC20), Err(error));
    }
    both_ways(RFC20, &format!("aaa104 0004 ff {} 01", "78".repeat(255)), &join(&[b'x'; 255]));
    assert!(matches!(join(&[b'x'; 256]).encode(RFC20), Err(EncodeError::TooLong { len: 256, .. })));
}

/// 5: the size of lists. "It is the number of entries, one octet, so at most 255 groups and 255
/// headers."
#[test]
fn problem_5_counts() {
    let hello = |groups: usize, headers: usize| {
        let groups = vec![text("G"); groups];
        message(
            1,
            Body::Hello(Hello { groups, headers: vec![(text("n"), text("")); headers], ..hello(RFC20) }),
        )
    };
    let most = hello(255, 255);
    assert_eq!(ZreMessage::decode(RFC20, &most.encode(RFC20).unwrap()), Ok(most));
    for more in [hello(256, 0), hello(0, 256)] {
        assert!(matches!(more.encode(RFC20), Err(EncodeError::TooMany { count: 256, bound: 255, .. })));
    }
}

/// 6: "Split at the first `=`; no `=`: ignore the entry; never send an entry over 254 octets."
#[test]
fn problem_6_headers() {
    let frame = unhex("aaa101 0001 01 61 0001 00 00 03 05 613d623d63 02 6e6f 02 3d76");
    let Body::Hello(read) = ZreMessage::decode(RFC20, &[frame]).unwrap().body else { panic!() };
    assert_eq!(read.headers, [(text("a"), text("b=c")), (text(""), text("v"))]);

    let send = |name: &'static str, value: usize| {
        let headers = vec![(text(name), Bytes::from(vec![b'v'; value]))];
        message(1, Body::Hello(Hello { headers, ..hello(RFC20) })).encode(RFC20)
    };
    assert!(send("name", 249).is_ok());
    let field = "HELLO headers";
    assert_eq!(send("name", 250), Err(EncodeError::TooLong { field, len: 255, bound: 254 }));
    assert_eq!(send("a=b", 1), Err(EncodeError::HeaderName { generation: RFC20 }));
    assert_eq!(send("", 1), Err(EncodeError::Empty { field }));
}

/// 7: "Network order."
#[test]
fn problem_7_byte_order() {
    let frame = unhex("aaa101 0102 01 61 c030 00 00 00");
    let message = ZreMessage::decode(RFC20, &[frame]).unwrap();
    assert_eq!(message.sequence, 0x0102);
    let Body::Hello(hello) = message.body else { panic!() };
    assert_eq!(hello.address, Address::Mailbox { ip: text("a"), port: 0xc030 });
}

/// 8: "Sequence ... wraps 65535 -> 0; status ... wraps 255 -> 0": both take all their values.
#[test]
fn problem_8_wraps() {
    for (sequence, hex) in [(0, "aaa106 0000"), (1, "aaa106 0001"), (65535, "aaa106 ffff")] {
        both_ways(RFC20, hex, &message(sequence, Body::Ping));
    }
}

/// 16: "Generate UUIDs with first octet not 0; accept 16 octets and 32 hex."
#[test]
fn problem_16_identity() {
    assert_ne!(Uuid::from_random([0; 16]).as_bytes()[0], 0);
    let uuid = Uuid::from_bytes(*b"0123456789abcdef");
    assert_eq!(IdentityForm::decode(uuid.as_bytes()), Some((IdentityForm::Bare, uuid)));
    assert_eq!(IdentityForm::decode(&uuid.to_hex()), Some((IdentityForm::Hex, uuid)));
}

/// 17: "Bind any port; ... never check a peer's port against the range."
#[test]
fn problem_17_ports() {
    for port in [1, 80, 49151, 65535] {
        let uuid = Uuid::from_bytes([1; 16]);
        let beacon = Beacon { uuid, port, public_key: None };
        assert_eq!(Beacon::decode(&beacon.encode()), Ok(beacon));
    }
}

/// 18: "Use ... ipaddress + mailbox for HELLO; for IPv6 write the address in brackets in the endpoint."
#[test]
fn problem_18_ip_address() {
    let address = Address::Mailbox { ip: text("fe80::1"), port: 49152 };
    assert_eq!(address.endpoint(), "tcp://[fe80::1]:49152");
}

/// 19: "Receive any number of frames; send one to G20."
#[test]
fn problem_19_frames() {
    let frames = [unhex("aaa102 0002"), text("a"), text("b"), text("")];
    let whisper = ZreMessage::decode(RFC20, &frames).unwrap();
    assert_eq!(whisper.body.content(), &frames[1..]);
    assert_eq!(whisper.encode(RFC20), Err(EncodeError::MultiFrame { generation: RFC20, frames: 3 }));
}

/// 20: "Header frame with MORE, then content."
#[test]
fn problem_20_content_is_a_frame_of_its_own() {
    let whisper = message(2, Body::Whisper { content: vec![text("Hello")] });
    assert_eq!(whisper.encode(RFC20).unwrap(), [unhex("aaa102 0002"), text("Hello")]);
    let glued = unhex("aaa102 0002 48656c6c6f");
    assert_eq!(ZreMessage::decode(RFC20, &[glued]).unwrap().body.content(), &[] as &[Bytes]);
}

/// 25: "No sequence in ZRE/LOG."
#[test]
fn problem_25_log_has_no_sequence() {
    let log = Log::info(LogEvent::JOIN, 1, 0, Duration::ZERO, "G");
    assert_eq!(log.encode().unwrap()[..5], [0xaa, 0xa2, 1, 3, 1]);
}

/// 26: "code hashes the endpoint text".
#[test]
fn problem_26_hash() {
    assert_eq!(log_hash(b"10.99.0.1:49152"), 0xbecf);
}

/// 27: seconds or milliseconds. "Accept both."
#[test]
fn problem_27_time() {
    let log = |time| Log { time, ..Log::info(LogEvent::JOIN, 1, 0, Duration::ZERO, "") };
    assert_eq!(log(1_795_223_068).timestamp(), log(1_795_223_068_000).timestamp());
}

/// 28: "Printable error text" at level INFO. "Any text."
#[test]
fn problem_28_any_text() {
    for data in ["", "zwei Wörter\n"] {
        let log = Log::info(LogEvent::JOIN, 1, 0, Duration::ZERO, data);
        assert_eq!(Log::decode(&log.encode().unwrap()).unwrap().data, data.as_bytes());
    }
}

/// `zre` 17.7: "accept 3 with identical layout as 2".
#[test]
fn version_3_has_the_layout_of_version_2() {
    let (two, three) = (Generation::Rfc36, Generation::Rfc43);
    let mut frame = message(1, Body::Hello(hello(two))).encode(two).unwrap()[0].to_vec();
    frame[3] = 3;
    let frame = Bytes::from(frame);
    assert_eq!(
        ZreMessage::decode(three, std::slice::from_ref(&frame)),
        Ok(message(1, Body::Hello(hello(two))))
    );
    assert!(ZreMessage::decode(two, &[frame]).is_err());
}

/// `zre` 21.1, the rows about bytes: what kills or confuses a real peer has no encoding.
#[test]
fn nothing_that_kills_a_peer_has_an_encoding() {
    let bad = [
        Body::Whisper { content: vec![] },
        Body::Shout { group: text("G"), content: vec![] },
        Body::Shout { group: Bytes::from_static(b"\xff"), content: vec![text("x")] },
        Body::Join { group: text(""), status: 1 },
        Body::Leave { group: Bytes::from_static(b"\xc3"), status: 1 },
        Body::Elect { group: Bytes::from_static(b"\xc3"), challenger: text("A") },
        Body::Leader { group: text("G"), leader: Bytes::from_static(b"\0") },
    ];
    for generation in Generation::ALL {
        for body in &bad {
            assert!(message(1, body.clone()).encode(generation).is_err(), "{generation} {body:?}");
        }
        let latin = Bytes::from_static(b"caf\xe9");
        let fine = hello(generation);
        for wrong in [
            Hello { groups: vec![latin.clone()], ..fine.clone() },
            Hello { groups: vec![text("")], ..fine.clone() },
            Hello { groups: vec![Bytes::from(vec![b'g'; 256])], ..fine.clone() },
            Hello { headers: vec![(text("n"), latin.clone())], ..fine.clone() },
            Hello { headers: vec![(latin.clone(), text("v"))], ..fine.clone() },
            Hello { groups: vec![text("G"); limits::MAX_GROUPS + 1], ..fine.clone() },
        ] {
            assert!(message(1, Body::Hello(wrong)).encode(generation).is_err(), "{generation}");
        }
        if generation.is_legacy() {
            for id in [MessageId::ELECT, MessageId::LEADER, MessageId::GOODBYE] {
                let frame = Bytes::from(vec![0xaa, 0xa1, id.0, 0, 1, 1, b'G', 1, b'A']);
                let error = ZreMessage::decode(generation, &[frame]).unwrap_err();
                assert_eq!(error.kind, DecodeErrorKind::UnknownId { id: id.0 });
            }
            assert!(message(1, Body::Goodbye).encode(generation).is_err());
        } else {
            let wrong = Hello { name: latin, ..fine };
            assert!(message(1, Body::Hello(wrong)).encode(generation).is_err(), "{generation}");
        }
    }
    let publish = Gossip::Publish { key: Bytes::from_static(b"\xff"), value: text("v"), ttl: 0 };
    assert!(publish.encode().is_err());
}
