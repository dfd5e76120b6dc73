//! Messages, subscriptions and heartbeats between both ends.

use super::*;
use crate::{
    buf::Segments,
    zmtp::{
        link::{Heartbeat, ZmtpPushError},
        wire::{Command, Ping, Pong, testing::unhex},
    },
};
use proptest::prelude::*;

fn dealer() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Dealer)
}

fn router() -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(SocketType::Router)
}

fn old(config: ZmtpHandshakeConfig) -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig { version: Version::V3_0, ..config }
}

fn messages(inbound: Vec<Inbound>) -> Vec<Message> {
    inbound
        .into_iter()
        .map(|item| match item {
            Inbound::Message(message) => message,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// `zmtp` 15.4.
#[test]
fn a_message_of_two_frames() {
    let (mut tx, mut rx) = link(dealer(), router());
    tx.push(message(&["Hello", "World"])).unwrap();
    let said = drain(&mut tx);
    assert_eq!(said, unhex("01 05 48 65 6C 6C 6F 00 05 57 6F 72 6C 64"));
    assert_eq!(messages(receive(&mut rx, &said)), [message(&["Hello", "World"])]);
    assert_eq!((rx.stats().messages, rx.stats().frames, rx.stats().bytes), (1, 2, 14));
}

#[test]
fn large_payloads_are_not_copied_on_either_side() {
    let (mut tx, mut rx) = link(dealer(), router());
    let payload = Bytes::from(vec![7; Segments::SHARE_FROM]);
    tx.push(Message::of(vec![bytes("head"), payload.clone()]).unwrap()).unwrap();
    let mut out = Vec::new();
    tx.poll_transmit(&mut out, usize::MAX);
    assert_eq!(out.len(), 2);
    assert_eq!(out[1].as_ptr(), payload.as_ptr());
    let mut buf = BytesMut::from(&out.concat()[..]);
    let place = buf.as_ptr() as usize;
    let mut got = Vec::new();
    rx.read(START, &mut buf, &mut got, usize::MAX).unwrap();
    let got = messages(got);
    assert_eq!(got[0].frames()[1].as_ptr() as usize, place + 6 + 9);
}

#[test]
fn the_high_water_mark_counts_messages_and_bytes() {
    let params = params(dealer(), router());
    let config = ZmtpTxConfig { max_messages: 3, ..ZmtpTxConfig::default() };
    let mut tx = ZmtpTx::new(&params, config, START);
    for _ in 0..3 {
        tx.push(message(&["a", "b"])).unwrap();
    }
    let rejected = tx.push(message(&["c"])).unwrap_err();
    assert_eq!(rejected.error, ZmtpPushError::HighWaterMark { waiting: 3 });
    assert_eq!(rejected.message, message(&["c"]));
    let mut out = Vec::new();
    assert_eq!(tx.poll_transmit(&mut out, 0), 6);
    assert_eq!(tx.queued_messages(), 2);
    tx.push(rejected.message).unwrap();
    assert_eq!(tx.clear(), 3);
    assert_eq!((tx.queued_bytes(), tx.is_idle()), (0, true));

    let config = ZmtpTxConfig { max_bytes: 100, ..ZmtpTxConfig::default() };
    let mut tx = ZmtpTx::new(&params, config, START);
    // An empty queue takes one of any size.
    tx.push(Message::single(vec![0; 1000])).unwrap();
    assert!(matches!(tx.push(message(&["a"])).unwrap_err().error, ZmtpPushError::Bytes { waiting: 1000.. }));
    assert!(!drain(&mut tx).is_empty());
    assert_eq!(tx.queued_bytes(), 0);
    tx.push(message(&["a"])).unwrap();
}

#[test]
fn whole_messages_up_to_the_bound_of_a_write() {
    let (mut tx, _) = link(dealer(), router());
    for _ in 0..10 {
        tx.push(Message::single(vec![1; 100])).unwrap();
    }
    let mut out = Vec::new();
    let first = tx.poll_transmit(&mut out, 350);
    assert!(first <= 350 && first.is_multiple_of(102) && first > 102, "{first}");
    let mut total = first;
    while let n @ 1.. = tx.poll_transmit(&mut out, 350) {
        total += n;
    }
    assert_eq!(total, 1020);
    assert_eq!(tx.stats().messages, 10);
}

/// `zmtp` 9, 15.5.
#[test]
fn subscriptions_have_the_form_that_the_peer_knows() {
    let publisher = || ZmtpHandshakeConfig::new(SocketType::Pub);
    let subscriber = || ZmtpHandshakeConfig::new(SocketType::Sub);
    for (publisher, subscribe, cancel) in [
        (publisher(), "04 0B 09 53 55 42 53 43 52 49 42 45 41", "04 08 06 43 41 4E 43 45 4C 41"),
        (old(publisher()), "00 02 01 41", "00 02 00 41"),
    ] {
        let (mut tx, mut rx) = link(subscriber(), publisher);
        tx.subscribe(bytes("A"));
        let said = drain(&mut tx);
        assert_eq!(said, unhex(subscribe));
        assert_eq!(receive(&mut rx, &said), [Inbound::Subscribe(bytes("A"))]);
        tx.cancel(bytes("A"));
        let said = drain(&mut tx);
        assert_eq!(said, unhex(cancel));
        assert_eq!(receive(&mut rx, &said), [Inbound::Cancel(bytes("A"))]);
    }
    // Both forms are accepted whatever version was announced, and no others.
    let (_, mut rx) = link(old(subscriber()), publisher());
    assert_eq!(
        receive(&mut rx, &unhex("04 0A 09 53 55 42 53 43 52 49 42 45")),
        [Inbound::Subscribe(Bytes::new())]
    );
    assert_eq!(receive(&mut rx, &unhex("00 01 01")), [Inbound::Subscribe(Bytes::new())]);
    assert_eq!(receive(&mut rx, &unhex("00 01 07 00 00 01 01 01 00 01 01")), []);
    assert_eq!(rx.stats().ignored, 3);
    // A ROUTER accepts any message.
    let (_, mut rx) = link(dealer(), router());
    assert_eq!(messages(receive(&mut rx, &unhex("00 01 01"))), [message(&["\u{1}"])]);
}

#[test]
fn subscriptions_are_no_messages_to_the_high_water_mark() {
    let params = params(ZmtpHandshakeConfig::new(SocketType::Sub), ZmtpHandshakeConfig::new(SocketType::Pub));
    let mut tx = ZmtpTx::new(&params, ZmtpTxConfig { max_messages: 1, ..ZmtpTxConfig::default() }, START);
    for _ in 0..100 {
        tx.subscribe(bytes("topic"));
    }
    assert_eq!(drain(&mut tx).len(), 100 * 17);
}

#[test]
fn a_command_between_the_frames_of_a_message_is_tolerated() {
    let (_, mut rx) = link(dealer(), router());
    let stream = [&b"\x01\x01a"[..], &Ping::default().to_frame(), b"\x00\x01b"].concat();
    assert_eq!(
        receive(&mut rx, &stream),
        [Inbound::Ping(Ping::default()), Inbound::Message(message(&["a", "b"]))]
    );
}

#[test]
fn the_receiver_stops_when_its_buffer_is_full() {
    let (mut tx, mut rx) = link(dealer(), router());
    for _ in 0..10 {
        tx.push(message(&["a", "b"])).unwrap();
    }
    let mut buf = BytesMut::from(&drain(&mut tx)[..]);
    let mut all = Vec::new();
    let mut out = Vec::new();
    while rx.read(START, &mut buf, &mut out, 3).unwrap() {
        assert_eq!(out.len(), 3);
        all.append(&mut out);
    }
    all.append(&mut out);
    assert_eq!(all.len(), 10);
}

#[test]
fn needed_says_how_much_is_missing() {
    let (_, rx) = link(dealer(), router());
    for (hex, needed) in
        [("", 1), ("00", 1), ("00 05 61", 4), ("00 01 61", 0), ("02 00 00 00 00 00 00 01 00", 256)]
    {
        assert_eq!(rx.needed(&unhex(hex)), needed, "{hex}");
    }
}

fn beat(ms: u64) -> Heartbeat {
    Heartbeat::every(Duration::from_millis(ms), 2)
}

/// `zmtp` 10, 15.6.
#[test]
fn pings_go_out_at_each_interval_with_the_ttl() {
    let config = ZmtpTxConfig {
        heartbeat: Some(Heartbeat { ttl: Duration::from_millis(2500), ..beat(1000) }),
        ..ZmtpTxConfig::default()
    };
    let mut tx = ZmtpTx::new(&params(dealer(), router()), config, START);
    for beat in 1..4 {
        let due = START.mono + Duration::from_secs(beat);
        assert_eq!(tx.poll_timeout(), Some(due));
        tx.handle_timeout(Now::at(due - Duration::from_millis(1)));
        assert!(tx.is_idle());
        tx.handle_timeout(Now::at(due));
        assert_eq!(drain(&mut tx), unhex("04 07 04 50 49 4E 47 00 19"));
    }
    // Never above 65.5 s: libzmq would close (`zmtp` 10).
    let config = ZmtpTxConfig {
        heartbeat: Some(Heartbeat { ttl: Duration::from_secs(3600), ..beat(1000) }),
        ..config
    };
    let mut tx = ZmtpTx::new(&params(dealer(), router()), config, START);
    tx.handle_timeout(Now::at(START.mono * 2));
    assert_eq!(drain(&mut tx), Ping { ttl: 655, context: Bytes::new() }.to_frame());
}

#[test]
fn peers_of_3_0_get_no_pings_unless_asked_for() {
    let params = params(dealer(), old(router()));
    let silent = ZmtpTxConfig { heartbeat: Some(beat(1000)), ..ZmtpTxConfig::default() };
    assert_eq!(ZmtpTx::new(&params, silent, START).poll_timeout(), None);
    let rx = ZmtpRxConfig { heartbeat: silent.heartbeat, ..ZmtpRxConfig::default() };
    assert_eq!(ZmtpRx::new(&params, rx, START).poll_timeout(), None);
    let asked = Some(Heartbeat { also_to_3_0: true, ..beat(1000) });
    let mut tx = ZmtpTx::new(&params, ZmtpTxConfig { heartbeat: asked, ..ZmtpTxConfig::default() }, START);
    tx.handle_timeout(Now::at(START.mono * 2));
    assert_eq!(tx.stats().pings, 0);
    assert!(!drain(&mut tx).is_empty());
}

#[test]
fn a_ping_is_answered_with_its_context_before_what_waits() {
    let (mut tx, mut rx) = link(dealer(), router());
    tx.push(message(&["a"])).unwrap();
    let Some(Inbound::Ping(ping)) = receive(&mut rx, &unhex("04 0B 04 50 49 4E 47 00 00 61 62 63 64")).pop()
    else {
        panic!("no PING");
    };
    tx.pong(&ping);
    let pong = Pong { context: bytes("abcd") }.to_frame();
    assert_eq!(drain(&mut tx), [&pong[..], b"\x00\x01a"].concat());
    // An unsolicited PONG is ignored.
    assert_eq!(receive(&mut rx, &pong), []);
    assert_eq!(rx.stats().ignored, 0);
}

#[test]
fn a_silent_peer_is_given_up_after_interval_and_timeout() {
    let params = params(dealer(), router());
    let mut rx =
        ZmtpRx::new(&params, ZmtpRxConfig { heartbeat: Some(beat(1000)), ..ZmtpRxConfig::default() }, START);
    let at = |ms| Now::at(START.mono + Duration::from_millis(ms));
    assert_eq!(rx.poll_timeout(), Some(at(3000).mono));
    assert!(!rx.handle_timeout(at(2999)));
    // Half a frame is a sign of life; a second read without new bytes is none.
    let mut buf = BytesMut::from(&b"\x00\x05a"[..]);
    rx.read(at(2000), &mut buf, &mut Vec::new(), 1).unwrap();
    rx.read(at(2500), &mut buf, &mut Vec::new(), 1).unwrap();
    assert_eq!(rx.poll_timeout(), Some(at(5000).mono));
    assert!(!rx.handle_timeout(at(3000)));
    assert!(rx.handle_timeout(at(5000)));
}

#[test]
fn a_ttl_of_the_peer_counts_until_the_next_ping() {
    let (_, mut rx) = link(dealer(), router());
    assert_eq!(rx.poll_timeout(), None);
    receive(&mut rx, &Ping { ttl: 25, context: Bytes::new() }.to_frame());
    assert_eq!(rx.poll_timeout(), Some(START.mono + Duration::from_millis(2500)));
    assert!(rx.handle_timeout(Now::at(START.mono + Duration::from_millis(2500))));
    // 6553.5 s do not overflow.
    receive(&mut rx, &Ping { ttl: u16::MAX, context: Bytes::new() }.to_frame());
    assert_eq!(rx.poll_timeout(), Some(START.mono + Duration::from_millis(6_553_500)));
    receive(&mut rx, &Ping::default().to_frame());
    assert_eq!(rx.poll_timeout(), None);
}

fn any_message() -> impl Strategy<Value = Message> {
    let len = prop_oneof![0usize..300, 250usize..260, 4000usize..5000];
    proptest::collection::vec(len.prop_map(|len| Bytes::from(vec![len as u8; len])), 1..5)
        .prop_map(|frames| Message::of(frames).unwrap())
}

proptest! {
    #[test]
    fn any_split_of_the_stream_gives_the_same_messages(
        sent in proptest::collection::vec(any_message(), 0..12),
        cuts in proptest::collection::vec(1usize..3000, 1..40),
        full in 1usize..5,
        max_bytes in 0usize..10_000,
    ) {
        let (mut tx, mut rx) = link(dealer(), router());
        sent.iter().for_each(|message| tx.push(message.clone()).unwrap());
        let mut parts = Vec::new();
        while tx.poll_transmit(&mut parts, max_bytes) > 0 {}
        let stream = parts.concat();
        let (mut buf, mut got, mut out) = (BytesMut::new(), Vec::new(), Vec::new());
        let (mut rest, mut cuts) = (&stream[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            rest = behind;
            buf.extend_from_slice(part);
            while rx.read(START, &mut buf, &mut out, full).unwrap() {
                got.append(&mut out);
            }
            got.append(&mut out);
            prop_assert_eq!(rx.needed(&buf) > 0, true);
        }
        prop_assert_eq!(messages(got), sent);
        prop_assert_eq!(rx.collecting(), 0);
        prop_assert_eq!(tx.queued_bytes(), 0);
    }
}
