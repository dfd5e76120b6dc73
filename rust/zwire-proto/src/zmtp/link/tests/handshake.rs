//! Tests of the handshake, from the first byte to the parameters.

use super::*;
use crate::zmtp::{
    link::InvalidIdentity,
    wire::{
        Command, Greeting, Greeting2, Mechanism, Property, Ready, ZmtpGeneration,
        plain::{PlainHello, PlainInitiate},
        testing::unhex,
    },
};

const NULL_GREETING: &str = "FF 00 00 00 00 00 00 00 01 7F 03 01 4E 55 4C 4C";
const PLAIN_GREETING: &str = "FF 00 00 00 00 00 00 00 01 7F 03 01 50 4C 41 49 4E";
const ROUTER_READY: &str = "04 29 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 52 4F 55 54 45 \
                            52 08 49 64 65 6E 74 69 74 79 00 00 00 00";

/// The rest of the 64 bytes is zero.
fn greeting(hex: &str) -> Vec<u8> {
    let mut raw = unhex(hex).to_vec();
    raw.resize(Greeting::LEN, 0);
    raw
}

fn nobody(request: &AuthRequest) -> Verdict {
    panic!("asked about {request:?}")
}

fn dealer() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Dealer)
}

fn router() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Router)
}

/// `zmtp` 3.3: libzmq sends 10 bytes, one when it has ten, the rest when it has eleven; 15.1, 15.3.
#[test]
fn null_with_libzmq_byte_for_byte() {
    let mut side = Side::new(router());
    let ours = greeting(NULL_GREETING);
    assert_eq!(side.says(), ours[..11]);
    side.hears(&ours[..10], &mut nobody);
    assert_eq!(side.says(), "");
    side.hears(&ours[10..11], &mut nobody);
    assert_eq!(side.says(), ours[11..]);
    side.hears(&ours[11..], &mut nobody);
    // READY goes out without waiting for the peer's.
    assert_eq!(side.says(), unhex(ROUTER_READY));
    assert!(side.end.is_none());
    let traffic = b"\x00\x02hi";
    side.hears(&[&Ready { metadata: dealer().metadata() }.to_frame()[..], traffic].concat(), &mut nobody);
    let params = side.end.unwrap().unwrap();
    assert_eq!(params.version, Version::V3_1);
    assert_eq!(params.peer.socket_type, Some(SocketType::Dealer));
    // Messages behind READY in the same read are left for the receiver (`zmtp` 2, rule 5).
    assert_eq!(side.buf, traffic[..]);
}

/// A side of another mechanism does not know CURVE, whether or not the build has it.
#[test]
fn curve_is_an_unknown_mechanism_to_others() {
    for ours in [router(), plain_server(router())] {
        let mut side = Side::new(ours.clone());
        side.hears(&Greeting::new(Mechanism::CURVE).to_bytes(), &mut nobody);
        let error = side.end.unwrap().unwrap_err();
        let ours = ours.security.mechanism();
        assert_eq!(error, ZmtpHandshakeError::Mechanism { ours, theirs: Mechanism::CURVE });
    }
}

/// `zmtp` 3.1, octet 32.
#[test]
fn the_server_of_a_mechanism_says_that_it_is_one() {
    for (config, said) in [(plain_server(router()), 1), (plain_client(dealer()), 0), (router(), 0)] {
        let mut side = Side::new(config);
        let begin = side.says();
        side.hears(&greeting(NULL_GREETING)[..11], &mut nobody);
        assert_eq!([&begin[..], &side.says()[..]].concat()[32], said);
    }
}

/// `zmtp` 15.8, each step; libzmq has answered these bytes.
#[test]
fn plain_byte_for_byte() {
    let mut client = Side::new(plain_client(dealer()));
    let mut server = Side::new(plain_server(named(SocketType::Router, "SRV")));
    let whole = greeting(PLAIN_GREETING);
    client.says();
    server.says();
    client.hears(&whole, &mut nobody);
    server.hears(&whole, &mut nobody);
    let rest = Greeting::LEN - Greeting::PREFIX_LEN;
    let hello = client.says().slice(rest..);
    assert_eq!(hello, unhex("04 13 05 48 45 4C 4C 4F 05 61 64 6D 69 6E 06 73 65 63 72 65 74"));
    assert_eq!(server.says().len(), rest);
    let mut asked = None;
    server.hears(&hello, &mut |request| {
        asked = Some(request.clone());
        Ok((bytes("the admin"), Metadata::default()))
    });
    let request = asked.unwrap();
    assert_eq!(request.mechanism, Mechanism::PLAIN);
    assert_eq!(request.credentials, ["admin", "secret"]);
    assert!(!format!("{request:?}").contains("secret"));
    let welcome = server.says();
    assert_eq!(welcome, unhex("04 08 07 57 45 4C 43 4F 4D 45"));
    client.hears(&welcome, &mut nobody);
    let initiate = client.says();
    assert_eq!(initiate, PlainInitiate { metadata: dealer().metadata() }.to_frame());
    server.hears(&initiate, &mut nobody);
    let params = server.end.take().unwrap().unwrap();
    assert_eq!(params.peer.user_id, "the admin");
    let ready = server.says();
    assert_eq!(
        ready,
        unhex(
            "04 2C 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 52 4F 55 54 45 52 08 49 64 65 \
             6E 74 69 74 79 00 00 00 03 53 52 56"
        )
    );
    client.hears(&ready, &mut nobody);
    assert_eq!(client.end.unwrap().unwrap().peer.identity, "SRV");
}

#[test]
fn every_mechanism_in_pieces_of_every_size() {
    let null = || [named(SocketType::Dealer, "one"), named(SocketType::Router, "two")];
    for chunk in [1, 2, 3, 7, 10, 11, 12, 63, 64, 65, usize::MAX] {
        let [a, b] = null();
        let judged = ZmtpHandshakeConfig { security: Security::Null { authenticate: true }, ..b.clone() };
        for (a, b, user) in [
            (a.clone(), b.clone(), ""),
            (a.clone(), judged, "somebody"),
            (plain_client(a), plain_server(b), "somebody"),
        ] {
            let [one, other] = meet(a, b, chunk, &mut anybody);
            let (one, other) = (one.end.unwrap().unwrap(), other.end.unwrap().unwrap());
            assert_eq!((&one.peer.identity[..], &other.peer.identity[..]), (&b"two"[..], &b"one"[..]));
            assert_eq!((&one.peer.user_id[..], &other.peer.user_id[..]), (&b""[..], user.as_bytes()));
        }
    }
}

#[test]
fn what_both_tell_arrives() {
    let mut tells = named(SocketType::Dealer, "me");
    tells.properties.push(Property { name: bytes("X-Room"), value: bytes("kitchen") });
    let params = params(router(), tells);
    assert_eq!(params.peer.metadata.get("x-room").unwrap(), "kitchen");
    assert_eq!(params.peer.identity, "me");
}

#[test]
fn the_smaller_version_counts() {
    let old = |config| ZmtpHandshakeConfig { version: Version::V3_0, ..config };
    assert_eq!(params(dealer(), router()).version, Version::V3_1);
    assert_eq!(params(old(dealer()), router()).version, Version::V3_0);
    assert_eq!(params(dealer(), old(router())).version, Version::V3_0);
}

/// `zmtp` 13.1: bytes that libzmq sends as a ROUTER "SRVID" to a peer of 2.0, and zwire as well.
#[test]
fn a_peer_of_2_0_gets_a_greeting_of_2_0() {
    let mut side = Side::new(named(SocketType::Router, "SRVID"));
    let theirs =
        Greeting2 { padding: 0, revision: 1, socket_type: SocketType::Dealer, identity: bytes("old") };
    let mut wire = Vec::new();
    theirs.encode(&mut wire);
    wire.extend_from_slice(b"\x00\x02hi");
    let mut said = side.says().to_vec();
    for byte in &wire {
        side.hears(&[*byte], &mut nobody);
        said.extend_from_slice(&side.says());
    }
    assert_eq!(said, unhex("FF 00 00 00 00 00 00 00 06 7F 03 06 00 05 53 52 56 49 44"));
    let params = side.end.unwrap().unwrap();
    assert_eq!(params.version, Version::V2_0);
    assert_eq!((params.peer.socket_type, &params.peer.identity[..]), (Some(SocketType::Dealer), &b"old"[..]));
    assert_eq!(side.buf, b"\x00\x02hi"[..]);
}

#[test]
fn a_peer_of_2_0_proves_nothing() {
    let judged = ZmtpHandshakeConfig { security: Security::Null { authenticate: true }, ..router() };
    for config in [judged, plain_server(router()), plain_client(router())] {
        let mut side = Side::new(config);
        side.hears(&unhex("FF 0000000000000000 7F 01"), &mut nobody);
        assert_eq!(side.end.unwrap().unwrap_err(), ZmtpHandshakeError::Generation(ZmtpGeneration::V2));
    }
}

#[test]
fn peers_of_1_0_and_other_protocols_are_named() {
    for (first, generation) in [
        (&b"\x04\x00\x01ab"[..], ZmtpGeneration::V1),
        (b"GET / HTTP/1.1\r\n", ZmtpGeneration::V1),
        (b"\xff\0\0\0\0\0\0\0\x01\x7f\0", ZmtpGeneration::Revision0),
    ] {
        let mut side = Side::new(router());
        side.hears(first, &mut nobody);
        assert_eq!(side.end.unwrap().unwrap_err(), ZmtpHandshakeError::Generation(generation));
    }
}

/// `zmtp` 14: close, after sending the full greeting.
#[test]
fn another_mechanism_ends_it() {
    for theirs in [PLAIN_GREETING, "FF 0000000000000001 7F 03 01 6E 75 6C 6C", &format!("{NULL_GREETING} 01")]
    {
        let mut side = Side::new(dealer());
        side.hears(&greeting(theirs), &mut nobody);
        let error = side.end.take().unwrap().unwrap_err();
        assert!(matches!(error, ZmtpHandshakeError::Mechanism { ours: Mechanism::NULL, .. }), "{error}");
        assert_eq!(side.says(), greeting(NULL_GREETING));
    }
}

/// `zmtp` 8.2: ERROR, then close. A server sends it instead of READY.
#[test]
fn sockets_that_must_not_meet_are_told() {
    let sub = ZmtpHandshakeConfig::new(SocketType::Sub);
    let [one, other] = meet(dealer(), sub, 5, &mut anybody);
    for (side, ours) in [(one, SocketType::Dealer), (other, SocketType::Sub)] {
        let error = side.end.unwrap().unwrap_err();
        assert!(matches!(error, ZmtpHandshakeError::SocketType { ours: it, .. } if it == ours), "{error}");
        assert!(side.said.ends_with(b"\x04\x1a\x05ERROR\x13Invalid socket type"));
    }
    let sub = ZmtpHandshakeConfig::new(SocketType::Sub);
    let [client, server] = meet(plain_client(dealer()), plain_server(sub), 5, &mut anybody);
    assert!(matches!(server.end.unwrap().unwrap_err(), ZmtpHandshakeError::SocketType { .. }));
    assert!(!server.said.windows(5).any(|w| w == b"READY"));
    let error = client.end.unwrap().unwrap_err();
    assert_eq!(error, ZmtpHandshakeError::Peer { reason: bytes("Invalid socket type") });
}

/// `zmtp` 14: libzmq accepts these, and zwire as well.
#[test]
fn a_peer_that_does_not_tell_its_type_is_accepted() {
    for ready in [&b"\x04\x06\x05READY"[..], b"\x06\0\0\0\0\0\0\0\x06\x05READY", b"\x00\x06\x05READY"] {
        let mut side = Side::new(dealer());
        side.hears(&[&greeting(NULL_GREETING)[..], ready].concat(), &mut nobody);
        assert_eq!(side.end.unwrap().unwrap().peer.socket_type, None);
    }
}

#[test]
fn denials_say_what_the_protocol_says() {
    for (denial, told) in
        [(Denial::Temporary, None), (Denial::Refused, Some("400")), (Denial::Internal, Some("500"))]
    {
        let [client, server] = meet(plain_client(dealer()), plain_server(router()), 9, &mut |_| Err(denial));
        let error = server.end.unwrap().unwrap_err();
        assert_eq!(error, ZmtpHandshakeError::Denied(denial));
        assert_eq!(error.is_temporary(), told.is_none());
        match (client.end, told) {
            // No side sends anything; the driver's timer ends it.
            (None, None) => {}
            (Some(end), Some(told)) => {
                assert_eq!(end.unwrap_err(), ZmtpHandshakeError::Peer { reason: bytes(told) });
            }
            (end, told) => panic!("{end:?} {told:?}"),
        }
    }
}

/// `zmtp` 6.2: libzmq since 4.3.0 swallows a letter.
#[test]
fn a_misspelt_error_of_a_plain_server_is_understood() {
    let mut client = Side::new(plain_client(dealer()));
    client.hears(&greeting(PLAIN_GREETING), &mut nobody);
    client.hears(&unhex("04 09 5E 52 52 4F 52 03 34 30 30"), &mut nobody);
    assert_eq!(client.end.unwrap().unwrap_err(), ZmtpHandshakeError::Peer { reason: bytes("400") });
}

/// `zmtp` 3.1: then it hangs, and the driver's timer ends it.
#[test]
fn two_clients_wait_and_two_servers_wait() {
    let [one, other] = meet(plain_server(dealer()), plain_server(router()), 64, &mut nobody);
    assert!(one.end.is_none() && other.end.is_none());
    // Each client gets HELLO, which no server sends.
    let [one, _] = meet(plain_client(dealer()), plain_client(router()), 64, &mut nobody);
    let error = one.end.unwrap().unwrap_err();
    assert_eq!(error, ZmtpHandshakeError::Unexpected { expected: "WELCOME", got: bytes("HELLO") });
}

#[test]
fn an_answer_nobody_asked_for_is_an_error() {
    let mut machine = Handshake::new(dealer());
    assert_eq!(machine.deny(Denial::Refused), ZmtpHandshakeError::NobodyWaits);
    assert_eq!(
        machine.allow(Bytes::new(), Metadata::default()).unwrap_err(),
        ZmtpHandshakeError::NobodyWaits
    );
}

/// Bytes that arrive before the authenticator decides stay in the buffer.
#[test]
fn the_peer_waits_for_the_verdict() {
    let mut machine = Handshake::new(plain_server(router()));
    let mut buf = BytesMut::from(&greeting(PLAIN_GREETING)[..]);
    PlainHello { username: bytes("a"), password: bytes("b") }.encode_frame(&mut buf);
    PlainInitiate { metadata: dealer().metadata() }.encode_frame(&mut buf);
    assert!(matches!(machine.handle_bytes(&mut buf), Ok(HandshakeStep::Authenticate(_))));
    let left = buf.len();
    assert!(matches!(machine.handle_bytes(&mut buf), Ok(HandshakeStep::Continue)));
    assert_eq!(buf.len(), left);
    assert!(matches!(machine.allow(bytes("a"), Metadata::default()), Ok(HandshakeStep::Continue)));
    assert!(matches!(machine.handle_bytes(&mut buf), Ok(HandshakeStep::Done(_))));
}

/// `zmtp` 8.3.
#[test]
fn identities_that_no_socket_may_have() {
    assert_eq!(dealer().with_identity(&b"\0a"[..]).unwrap_err(), InvalidIdentity::Reserved);
    assert_eq!(dealer().with_identity(vec![1; 256]).unwrap_err(), InvalidIdentity::TooLong(256));
    // From the network a leading zero is tolerated, length is not.
    for (identity, accepted) in [(vec![0; 17], true), (vec![1; 255], true), (vec![1; 256], false)] {
        let peer = ZmtpHandshakeConfig { identity: identity.into(), ..dealer() };
        let [_, other] = meet(peer, router(), 100, &mut nobody);
        match other.end.unwrap() {
            Ok(_) => assert!(accepted),
            Err(error) => assert_eq!((error, accepted), (ZmtpHandshakeError::Identity(256), false)),
        }
    }
}
