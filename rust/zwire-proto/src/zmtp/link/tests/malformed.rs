//! Tests of malformed input (`zmtp` 14).

use super::*;
use crate::{
    error::DecodeErrorKind,
    zmtp::{
        limits::{MAX_HANDSHAKE_COMMAND, MAX_WAITING_PONGS},
        link::{ZmtpLinkError, ZmtpPushError},
        wire::{Command, Greeting, Mechanism, Ping, Ready, testing::unhex},
    },
};
use proptest::prelude::*;

/// Result of a ROUTER that reads these bytes after its handshake.
fn reads(hex: &str) -> Result<Vec<Inbound>, ZmtpLinkError> {
    let (_, mut rx) =
        link(ZmtpHandshakeConfig::new(SocketType::Dealer), ZmtpHandshakeConfig::new(SocketType::Router));
    let mut out = Vec::new();
    rx.read(START, &mut BytesMut::from(&unhex(hex)[..]), &mut out, usize::MAX).map(|_| out)
}

/// Result of a DEALER that reads these frames after a greeting.
fn shakes(frames: &[u8]) -> Option<End> {
    let mut side = Side::new(ZmtpHandshakeConfig::new(SocketType::Dealer));
    side.hears(&Greeting::new(Mechanism::NULL).to_bytes(), &mut anybody);
    side.hears(frames, &mut anybody);
    side.end
}

fn shakes_to(frames: &[u8]) -> ZmtpHandshakeError {
    shakes(frames).unwrap().unwrap_err()
}

#[test]
fn traffic_before_ready_and_broken_commands_end_the_handshake() {
    let unexpected = |error| matches!(error, ZmtpHandshakeError::Unexpected { expected: "READY", .. });
    assert!(unexpected(shakes_to(&Ping::default().to_frame())));
    assert!(unexpected(shakes_to(b"\x04\x06\x05ready")));
    // A message has no name.
    assert!(matches!(shakes_to(b"\x00\x00"), ZmtpHandshakeError::Decode(_)));
    assert!(matches!(shakes_to(b"\x00\x02hi"), ZmtpHandshakeError::Decode(_)));
    assert_eq!(shakes_to(b"\x01\x02hi"), ZmtpHandshakeError::NotACommand);
    assert!(matches!(shakes_to(b"\x05\x06\x05READY"), ZmtpHandshakeError::Decode(_)));
    assert!(matches!(shakes_to(b"\x84\x06\x05READY"), ZmtpHandshakeError::Decode(_)));
    // A property that is cut, and one byte left over.
    assert!(matches!(shakes_to(b"\x04\x09\x05READY\x01a\0"), ZmtpHandshakeError::Decode(_)));
    assert!(matches!(shakes_to(b"\x04\x07\x05READY\0"), ZmtpHandshakeError::Decode(_)));
    assert!(matches!(shakes_to(b"\x04\x08\x05ERROR\x03a"), ZmtpHandshakeError::Decode(_)));
    assert_eq!(shakes_to(b"\x04\x08\x05ERROR\x01a"), ZmtpHandshakeError::Peer { reason: bytes("a") });
    assert!(shakes(b"\x04\x06\x05READ").is_none());
}

#[test]
fn a_claim_of_4_gib_takes_no_memory() {
    let claim = unhex("06 00 00 00 01 00 00 00 00");
    assert_eq!(shakes_to(&claim), ZmtpHandshakeError::TooLong(1 << 32));
    assert_eq!(
        shakes_to(&[&[6, 0, 0, 0, 0][..], &(MAX_HANDSHAKE_COMMAND as u32 + 1).to_be_bytes()].concat()),
        ZmtpHandshakeError::TooLong(MAX_HANDSHAKE_COMMAND as u64 + 1)
    );
    for (hex, len) in [
        ("02 00 00 00 01 00 00 00 00", 1u64 << 32),
        ("02 00 00 01 00 00 00 00 00", 1 << 40),
        ("03 7F FF FF FF FF FF FF FF", (1 << 63) - 1),
        ("06 00 00 00 01 00 00 00 00", 1 << 32),
    ] {
        let (_, mut rx) =
            link(ZmtpHandshakeConfig::new(SocketType::Dealer), ZmtpHandshakeConfig::new(SocketType::Router));
        let mut buf = BytesMut::from(&unhex(hex)[..]);
        assert_eq!(rx.needed(&buf), 0);
        let error = rx.read(START, &mut buf, &mut Vec::new(), 1).unwrap_err();
        assert_eq!(error, ZmtpLinkError::TooLarge { len, max: ZmtpRxConfig::default().max_message_size });
    }
    for hex in ["02 80 00 00 00 00 00 00 00", "02 FF FF FF FF FF FF FF FF"] {
        let Err(ZmtpLinkError::Decode(error)) = reads(hex) else { panic!("{hex}") };
        assert!(matches!(error.kind, DecodeErrorKind::OutOfRange { .. }));
    }
}

#[test]
fn reserved_flags_and_commands_without_a_name_end_the_connection() {
    for hex in ["08 00", "80 00", "05 04 03 50 49 4E", "04 00", "04 01 00", "04 03 05 50 49"] {
        assert!(matches!(reads(hex), Err(ZmtpLinkError::Decode(_))), "{hex}");
    }
    // Unknown commands and a second READY are ignored; a ROUTER ignores SUBSCRIBE.
    for command in [&b"\x04\x05\x04ping"[..], b"\x04\x06\x05READY", b"\x04\x0b\x09SUBSCRIBEA"] {
        let (_, mut rx) =
            link(ZmtpHandshakeConfig::new(SocketType::Dealer), ZmtpHandshakeConfig::new(SocketType::Router));
        assert_eq!(receive(&mut rx, command), []);
        assert_eq!((rx.stats().commands, rx.stats().ignored), (1, 1));
    }
    assert_eq!(reads("00 00").unwrap(), [Inbound::Message(Message::single(""))]);
    assert_eq!(reads("04 07 05 45 52 52 4F 52 00"), Err(ZmtpLinkError::Peer { reason: Bytes::new() }));
}

/// Contents before the error are not lost.
#[test]
fn messages_before_a_mistake_arrive() {
    let (_, mut rx) =
        link(ZmtpHandshakeConfig::new(SocketType::Dealer), ZmtpHandshakeConfig::new(SocketType::Router));
    let mut out = Vec::new();
    let mut buf = BytesMut::from(&b"\x00\x01a\x00\x01b\x08"[..]);
    let result = rx.read(START, &mut buf, &mut out, usize::MAX);
    assert!(matches!(result, Err(ZmtpLinkError::Decode(_))));
    assert_eq!(out, [Inbound::Message(message(&["a"])), Inbound::Message(message(&["b"]))]);
}

/// Empty frames cost memory, too.
#[test]
fn a_message_without_an_end_is_bounded() {
    let params =
        params(ZmtpHandshakeConfig::new(SocketType::Router), ZmtpHandshakeConfig::new(SocketType::Dealer));
    let config = ZmtpRxConfig { max_message_size: 10_000, ..ZmtpRxConfig::default() };
    let mut rx = ZmtpRx::new(&params, config, START);
    let mut frames = 0;
    let error = loop {
        frames += 1;
        let mut buf = BytesMut::from(&[1u8, 0].repeat(frames % 5 + 1)[..]);
        if let Err(error) = rx.read(START, &mut buf, &mut Vec::new(), usize::MAX) {
            break error;
        }
        assert!(frames < 10_000);
    };
    assert!(matches!(error, ZmtpLinkError::TooLarge { max: 10_000, .. }));
    assert!(rx.collecting() <= 10_000);
}

#[test]
fn pings_without_reading_the_answers_are_bounded() {
    let (mut tx, _) =
        link(ZmtpHandshakeConfig::new(SocketType::Dealer), ZmtpHandshakeConfig::new(SocketType::Router));
    for i in 0..100u8 {
        tx.pong(&Ping { ttl: 0, context: Bytes::copy_from_slice(&[i]) });
    }
    let said = drain(&mut tx);
    assert_eq!(said.len(), MAX_WAITING_PONGS * 8);
    assert_eq!(said[said.len() - 1], 99);
    assert_eq!((tx.stats().pongs, tx.stats().lost_pongs), (16, 84));
}

#[test]
fn a_command_of_a_peer_of_2_0_ends_the_connection() {
    let mut params =
        params(ZmtpHandshakeConfig::new(SocketType::Router), ZmtpHandshakeConfig::new(SocketType::Dealer));
    params.version = Version::V2_0;
    let mut rx = ZmtpRx::new(&params, ZmtpRxConfig::default(), START);
    let mut buf = BytesMut::from(&Ready::default().to_frame()[..]);
    let result = rx.read(START, &mut buf, &mut Vec::new(), 1);
    assert_eq!(result, Err(ZmtpLinkError::CommandOfOldPeer));
}

#[test]
fn errors_are_sentences() {
    let error = ZmtpPushError::HighWaterMark { waiting: 3 };
    assert_eq!(error.to_string(), "3 messages are waiting");
    let error = ZmtpLinkError::Peer { reason: Bytes::from_static(b"no\n") };
    assert_eq!(error.to_string(), "the peer closed: no\\n");
}

proptest! {
    /// For any input a handshake waits, ends, or fails with a typed error, however the input is cut.
    #[test]
    fn any_bytes_make_the_same_end_in_pieces(
        data in proptest::collection::vec(any::<u8>(), 0..200),
        greeted in any::<bool>(),
        chunk in 1usize..50,
    ) {
        let mut stream = Vec::new();
        if greeted {
            stream.extend_from_slice(&Greeting::new(Mechanism::NULL).to_bytes());
            stream.extend_from_slice(b"\x04\x06\x05READY");
        }
        stream.extend_from_slice(&data);
        let run = |chunk: usize| {
            let mut side = Side::new(ZmtpHandshakeConfig::new(SocketType::Dealer));
            let mut rx = None;
            let mut out = Vec::new();
            let mut failed = None;
            for part in stream.chunks(chunk) {
                side.hears(part, &mut anybody);
                if let Some(Ok(params)) = &side.end {
                    let rx = rx.get_or_insert_with(|| ZmtpRx::new(params, ZmtpRxConfig::default(), START));
                    if failed.is_none() {
                        failed = rx.read(START, &mut side.buf, &mut out, usize::MAX).err();
                    }
                }
            }
            (side.end.map(|end| end.map(|params| params.peer)), out, failed)
        };
        prop_assert_eq!(run(usize::MAX), run(chunk));
    }
}
