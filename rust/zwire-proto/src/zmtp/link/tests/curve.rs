//! CURVE between both ends, and against the example of `zmtp` 15.9.

use super::*;
use crate::zmtp::{
    crypto::{KeyPair, PublicKey, SecretKey},
    link::{CurveClient, CurveServer, ZmtpLinkError},
    wire::{
        Command, Greeting, Mechanism, Ping,
        curve::{self as wire, testing as example},
        testing::unhex,
    },
};

/// `zmtp` 15.9: secret keys and nonces are runs of bytes.
fn run<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|i| first + i as u8)
}

fn server_keys() -> KeyPair {
    KeyPair::of(SecretKey::new(run(0x20)))
}

fn client_keys() -> KeyPair {
    KeyPair::of(SecretKey::new(run(0x40)))
}

/// C', then the nonce of the vouch.
fn client_random() -> [u8; 48] {
    [&run::<32>(0x60)[..], &run::<16>(0xd0)].concat().try_into().unwrap()
}

/// S', K, and the nonces of cookie and WELCOME.
fn server_random() -> [u8; 96] {
    [&run::<32>(0x80)[..], &run::<32>(0xa0), &run::<16>(0xc0), &run::<16>(0xe0)].concat().try_into().unwrap()
}

fn dealer() -> ZmtpHandshakeConfig {
    let identity = [
        0x01, 0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2, 0xe1, 0xf0,
    ];
    ZmtpHandshakeConfig::new(SocketType::Dealer).with_identity(identity.to_vec()).unwrap()
}

fn client_of(config: ZmtpHandshakeConfig, server: PublicKey) -> ZmtpHandshakeConfig {
    let given = CurveClient::new(client_keys(), server, &client_random());
    ZmtpHandshakeConfig { security: Security::CurveClient(Box::new(given)), ..config }
}

pub(super) fn client() -> ZmtpHandshakeConfig {
    client_of(dealer(), server_keys().public)
}

fn server_of(config: ZmtpHandshakeConfig, authenticate: bool) -> ZmtpHandshakeConfig {
    let given = CurveServer::new(server_keys(), authenticate, &server_random());
    ZmtpHandshakeConfig { security: Security::CurveServer(Box::new(given)), ..config }
}

pub(super) fn server() -> ZmtpHandshakeConfig {
    server_of(ZmtpHandshakeConfig::new(SocketType::Router), false)
}

/// Both ends, sending and receiving.
fn ends() -> [(ZmtpTx, ZmtpRx); 2] {
    meet(client(), server(), 100, &mut anybody).map(|side| {
        let params = side.end.unwrap().unwrap();
        (
            ZmtpTx::new(&params, ZmtpTxConfig::default(), START),
            ZmtpRx::new(&params, ZmtpRxConfig::default(), START),
        )
    })
}

fn fails(rx: &mut ZmtpRx, frame: &[u8]) -> ZmtpLinkError {
    rx.read(START, &mut BytesMut::from(frame), &mut Vec::new(), usize::MAX).unwrap_err()
}

/// `zmtp` 15.9, byte for byte in both roles.
#[test]
fn the_handshake_and_the_messages_of_the_example() {
    let [one, other] = meet(client(), server(), usize::MAX, &mut anybody);
    let said = |side: &Side| Bytes::from(side.said[Greeting::LEN..].to_vec());
    assert_eq!(said(&one), [unhex(example::HELLO), unhex(example::INITIATE)].concat());
    assert_eq!(said(&other), [unhex(example::WELCOME), unhex(example::READY)].concat());
    let peers = [one, other].map(|side| side.end.unwrap().unwrap());
    assert_eq!(peers[0].peer.socket_type, Some(SocketType::Router));
    assert_eq!(peers[1].peer.identity, dealer().identity);

    let [(mut client_tx, mut client_rx), (mut server_tx, mut server_rx)] = ends();
    client_tx.push(message(&["hello"])).unwrap();
    let said = drain(&mut client_tx);
    assert_eq!(said, unhex(example::MESSAGE_C));
    assert_eq!(receive(&mut server_rx, &said), [Inbound::Message(message(&["hello"]))]);
    server_tx.push(message(&["world"])).unwrap();
    let said = drain(&mut server_tx);
    assert_eq!(said, unhex(example::MESSAGE_S));
    assert_eq!(receive(&mut client_rx, &said), [Inbound::Message(message(&["world"]))]);
}

#[test]
fn a_handshake_in_pieces_of_every_size() {
    for chunk in [1, 2, 9, 63, 64, 200, 309] {
        let [one, other] = meet(client(), server(), chunk, &mut anybody);
        assert!(one.end.unwrap().is_ok() && other.end.unwrap().is_ok(), "{chunk}");
    }
}

#[test]
fn messages_of_many_frames_and_sizes_both_ways() {
    let [(mut client_tx, mut client_rx), (mut server_tx, mut server_rx)] = ends();
    for len in [0, 1, 221, 222, 223, 255, 256, 4096, 70_000] {
        let sent = Message::of(vec![vec![7; len].into(), Bytes::new(), bytes("end")]).unwrap();
        for (tx, rx) in [(&mut client_tx, &mut server_rx), (&mut server_tx, &mut client_rx)] {
            tx.push(sent.clone()).unwrap();
            let said = drain(tx);
            assert!(said[0] == 0 || said[0] == 2, "MESSAGE is a message frame");
            assert_eq!(receive(rx, &said), [Inbound::Message(sent.clone())]);
        }
    }
}

/// Commands are accepted in boxes; in clear they end the connection.
#[test]
fn commands_travel_in_boxes() {
    let publisher = server_of(ZmtpHandshakeConfig::new(SocketType::Pub), false);
    for (version, first) in [(Version::V3_1, 0), (Version::V3_0, 0)] {
        let subscriber = ZmtpHandshakeConfig { version, ..ZmtpHandshakeConfig::new(SocketType::Sub) };
        let subscriber = client_of(subscriber, server_keys().public);
        let (mut tx, mut rx) = link(subscriber, publisher.clone());
        tx.subscribe(bytes("A"));
        tx.pong(&Ping::default());
        let said = drain(&mut tx);
        assert_eq!(said[0], first);
        assert!(!said.windows(9).any(|w| w == b"SUBSCRIBE"));
        assert_eq!(receive(&mut rx, &said), [Inbound::Subscribe(bytes("A"))]);
        assert_eq!(rx.stats().ignored, 0);
    }
    let [_, (_, mut rx)] = ends();
    assert!(matches!(fails(&mut rx, &Ping::default().to_frame()), ZmtpLinkError::Decode(_)));
    let [_, (_, mut rx)] = ends();
    assert!(matches!(fails(&mut rx, b"\x00\x05hello"), ZmtpLinkError::Decode(_)));
}

/// `zmtp` 6.3: with the command bit libzmq drops it; zwire does not.
#[test]
fn a_message_in_a_command_frame_is_understood() {
    let [(mut tx, _), (_, mut rx)] = ends();
    tx.push(message(&["hello"])).unwrap();
    let mut said = drain(&mut tx).to_vec();
    said[0] = 0x04;
    assert_eq!(receive(&mut rx, &said), [Inbound::Message(message(&["hello"]))]);
}

#[test]
fn a_message_sent_again_or_changed_ends_the_connection() {
    let [(mut tx, _), (_, mut rx)] = ends();
    let mut frames = Vec::new();
    for text in ["a", "b", "c"] {
        tx.push(message(&[text])).unwrap();
        frames.push(drain(&mut tx));
    }
    receive(&mut rx, &frames[0]);
    // A gap is allowed.
    receive(&mut rx, &frames[2]);
    assert_eq!(fails(&mut rx, &frames[1]), ZmtpLinkError::Nonce { got: 4, last: 5 });
    assert_eq!(fails(&mut rx, &frames[2]), ZmtpLinkError::Nonce { got: 5, last: 5 });
    for at in 2..frames[0].len() {
        let [_, (_, mut rx)] = ends();
        let mut changed = frames[0].to_vec();
        changed[at] ^= 0x40;
        let error = fails(&mut rx, &changed);
        assert!(matches!(error, ZmtpLinkError::Sealed | ZmtpLinkError::Decode(_)), "{at}: {error}");
    }
}

/// Outside its box a frame does not tell whether more follow.
#[test]
fn a_message_without_an_end_is_bounded() {
    let [mut one, other] = meet(client(), server(), 100, &mut anybody);
    let params = other.end.unwrap().unwrap();
    let config = ZmtpRxConfig { max_message_size: 1000, ..ZmtpRxConfig::default() };
    let mut rx = ZmtpRx::new(&params, config, START);
    let mut tx = ZmtpTx::new(&one.end.take().unwrap().unwrap(), ZmtpTxConfig::default(), START);
    tx.push(Message::of(vec![Bytes::new(); 100]).unwrap()).unwrap();
    assert!(matches!(fails(&mut rx, &drain(&mut tx)), ZmtpLinkError::TooLarge { max: 1000, .. }));
    assert!(rx.collecting() <= 1000);
}

/// `zmtp` 6.3: only a closed connection tells the client.
#[test]
fn a_wrong_server_key_is_silence() {
    let other = KeyPair::of(SecretKey::new(run(1)));
    let [one, two] = meet(client_of(dealer(), other.public), server(), 50, &mut anybody);
    assert!(one.end.is_none());
    assert_eq!(two.end.unwrap().unwrap_err(), ZmtpHandshakeError::Sealed { command: "HELLO" });
    assert_eq!(two.said.len(), Greeting::LEN);
}

#[test]
fn the_authenticator_sees_the_clients_key() {
    let judged = || server_of(ZmtpHandshakeConfig::new(SocketType::Router), true);
    let [one, two] = meet(client(), judged(), 50, &mut |request| {
        assert_eq!(request.mechanism, Mechanism::CURVE);
        assert_eq!(request.credentials, [client_keys().public.0.to_vec()]);
        Ok((bytes("known"), Metadata::default()))
    });
    assert!(one.end.unwrap().is_ok());
    assert_eq!(two.end.unwrap().unwrap().peer.user_id, "known");
    let [one, two] = meet(client(), judged(), 50, &mut |_| Err(Denial::Refused));
    assert_eq!(two.end.unwrap().unwrap_err(), ZmtpHandshakeError::Denied(Denial::Refused));
    assert_eq!(one.end.unwrap().unwrap_err(), ZmtpHandshakeError::Peer { reason: bytes("400") });
}

/// Result of a server that has read the example's HELLO and receives this frame.
fn after_hello(frame: &[u8]) -> Option<End> {
    let mut side = Side::new(server());
    side.hears(&Greeting::new(Mechanism::CURVE).to_bytes(), &mut anybody);
    side.hears(&unhex(example::HELLO), &mut anybody);
    side.hears(frame, &mut anybody);
    side.end
}

#[test]
fn an_initiate_that_is_not_of_this_connection_is_refused() {
    let good = unhex(example::INITIATE);
    assert!(after_hello(&good).unwrap().is_ok());
    let changed = |at: usize| {
        let mut frame = good.to_vec();
        frame[9 + at] ^= 1;
        after_hello(&frame).unwrap().unwrap_err()
    };
    assert_eq!(changed(9), ZmtpHandshakeError::Cookie);
    assert_eq!(changed(104), ZmtpHandshakeError::Cookie);
    assert_eq!(changed(111), ZmtpHandshakeError::Sealed { command: "INITIATE" });
    assert_eq!(changed(113), ZmtpHandshakeError::Sealed { command: "INITIATE" });
    assert_eq!(changed(308), ZmtpHandshakeError::Sealed { command: "INITIATE" });
    let mut old = good.to_vec();
    old[9 + 112] = 1;
    let error = after_hello(&old).unwrap().unwrap_err();
    assert_eq!(error, ZmtpHandshakeError::Nonce { got: 1, last: 1 });
    assert!(matches!(after_hello(&unhex(example::HELLO)), Some(Err(ZmtpHandshakeError::Unexpected { .. }))));
    // A client with the permanent key of another: it can name C, but not vouch with it.
    let body = good.slice(9..);
    let key = SecretKey::new(run(0x60)).shared(&SecretKey::new(run(0x80)).public()).unwrap();
    let mut nonce = *b"CurveZMQINITIATE\0\0\0\0\0\0\0\x02";
    let mut inner = key.open(&nonce, &body[113..]).unwrap();
    inner[..32].copy_from_slice(&server_keys().public.0);
    nonce[23] = 3;
    let sealed = key.seal(&nonce, &[&inner]).into();
    let forged = wire::CurveInitiate { cookie: body[9..105].try_into().unwrap(), nonce: 3, sealed };
    assert_eq!(after_hello(&forged.to_frame()).unwrap().unwrap_err(), ZmtpHandshakeError::Vouch);
}

#[test]
fn a_hello_of_another_version_or_of_a_weak_key_is_refused() {
    let hears = |change: &dyn Fn(&mut wire::CurveHello)| {
        let mut hello = wire::CurveHello::decode(&unhex(example::HELLO).slice(2..)).unwrap();
        change(&mut hello);
        let mut side = Side::new(server());
        side.hears(&Greeting::new(Mechanism::CURVE).to_bytes(), &mut anybody);
        side.hears(&hello.to_frame(), &mut anybody);
        side.end
    };
    assert!(hears(&|_| {}).is_none());
    let error = |change: &dyn Fn(&mut wire::CurveHello)| hears(change).unwrap().unwrap_err();
    assert_eq!(error(&|h| h.version = [2, 0]), ZmtpHandshakeError::CurveVersion([2, 0]));
    assert_eq!(error(&|h| h.client_transient = [0; 32]), ZmtpHandshakeError::WeakKey { command: "HELLO" });
    assert_eq!(error(&|h| h.nonce = 2), ZmtpHandshakeError::Sealed { command: "HELLO" });
    // Error in the local configuration.
    let [one, _] = meet(client_of(dealer(), PublicKey([0; 32])), server(), 64, &mut anybody);
    assert_eq!(one.end.unwrap().unwrap_err(), ZmtpHandshakeError::ServerKey);
}

#[test]
fn sockets_that_must_not_meet_get_no_ready() {
    let sub = server_of(ZmtpHandshakeConfig::new(SocketType::Sub), false);
    let [one, two] = meet(client(), sub, 64, &mut anybody);
    assert!(matches!(two.end.unwrap().unwrap_err(), ZmtpHandshakeError::SocketType { .. }));
    assert_eq!(
        one.end.unwrap().unwrap_err(),
        ZmtpHandshakeError::Peer { reason: bytes("Invalid socket type") }
    );
}

#[test]
fn no_secret_is_printed() {
    let text =
        format!("{:?} {:?} {:?}", client(), server(), meet(client(), server(), 64, &mut anybody)[1].end);
    for first in [0x20u8, 0x40, 0x60, 0x80, 0xa0] {
        assert!(!text.contains(&format!("{}, {}, {}", first, first + 1, first + 2)), "{first:#x}");
        assert!(!text.contains(&format!("{first:02x}{:02x}{:02x}", first + 1, first + 2)), "{first:#x}");
    }
}
