//! Payloads in shared memory between sessions over real sockets: when they stay where they were written, that they
//! never change there, and what a hostile neighbour can do.
#![cfg(target_os = "linux")]

use bytes::{Bytes, BytesMut};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};
use zwire_engine::{Config, Handler, Queue, Session, is_shared};
use zwire_proto::{
    Now,
    lending::{ChannelMessage, ChannelSecret, LendingOffer, LoanDescription},
    zenoh::{
        CongestionControl, KeyExpr, Payload, Priority, Qos, Reliability, WhatAmI, ZenohId,
        link::{HandshakeConfig, LinkParams, LinkTx, Opener, Step, StreamFramer, TxConfig},
        session::{Get, Publication, QueryReply, QueryReplyBody, Sample},
        wire::{NetworkMessage, PayloadSlice, Push, PushBody, Put, QueryBody, WireExpr},
    },
};
use zwire_shm::{Channel, MAX_MESSAGE, Place, Pool, ReturnRing};

const WAIT: Duration = Duration::from_secs(10);
const LARGE: usize = 100_000;

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn open(json: &str) -> Session {
    Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap()
}

fn listen(mode: &str, endpoint: &str, extra: &str) -> Session {
    let scouting = "scouting: {multicast: {enabled: false}}";
    open(&format!("{{mode: '{mode}', listen: {{endpoints: ['{endpoint}']}}, {scouting}, {extra}}}"))
}

fn client(of: &Session, extra: &str) -> Session {
    open(&format!("{{mode: 'client', connect: {{endpoints: ['{}']}}, {extra}}}", of.listening()[0]))
}

/// A router and two clients.
fn star(extra: &str) -> (Session, Session, Session) {
    let router = listen("router", "tcp/127.0.0.1:0", extra);
    let (a, b) = (client(&router, extra), client(&router, extra));
    (router, a, b)
}

fn memory(settings: &str) -> String {
    format!("transport: {{shared_memory: {{transport_optimization: {{{settings}}}}}}}")
}

fn body(len: usize, mark: u8) -> Bytes {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ mark).collect()
}

fn put(session: &Session, to: &str, payload: impl Into<Payload>) {
    let put = Put { payload: payload.into(), ..Put::default() };
    let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(put)) };
    session.put(publication, &mut || false).unwrap();
}

fn next(queue: &Queue<Sample>) -> Sample {
    queue.recv(Some(WAIT), &mut || false).unwrap()
}

fn subscribe(session: &Session, to: &str) -> Arc<Queue<Sample>> {
    session.declare_subscriber(key(to), Default::default(), Handler::Default).unwrap().1
}

fn count(session: &Session, name: &str) -> u64 {
    session.stats()[name]
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Puts until one arrives in shared memory: the subscription is known, and the segment is mapped.
fn warm_up(from: &Session, queue: &Queue<Sample>, to: &str) {
    eventually("a payload arrives in shared memory", || {
        put(from, to, body(LARGE, 0));
        let arrived = queue.recv(Some(Duration::from_millis(50)), &mut || false);
        arrived.is_ok_and(|sample| is_shared(&sample.payload))
    });
    while queue.recv(Some(Duration::from_millis(50)), &mut || false).is_ok() {}
}

#[test]
fn a_payload_is_read_where_it_was_written_also_behind_a_router() {
    let (router, a, b) = star("");
    let queue = subscribe(&b, "camera");
    warm_up(&a, &queue, "camera");
    let (lent, borrowed) = (count(&router, "link.tx_lent"), count(&router, "link.rx_borrowed"));
    for mark in 0..100 {
        put(&a, "camera", body(LARGE, mark));
        let sample = next(&queue);
        assert!(is_shared(&sample.payload) && sample.payload == body(LARGE, mark));
    }
    assert_eq!(count(&router, "link.tx_lent"), lent + 100);
    assert_eq!(count(&router, "link.rx_borrowed"), borrowed + 100);
    // Three mappings of one piece of memory.
    let of = |session: &Session| count(session, "link.tx_bytes");
    let before = (of(&a), of(&router));
    put(&a, "camera", body(LARGE, 1));
    next(&queue);
    assert!(of(&a) - before.0 < 200 && of(&router) - before.1 < 400, "no payload is on the wire");
    assert!(a.report().links.iter().all(|link| link.lending.word() == "on"));
}

#[test]
fn queries_and_replies_are_read_in_place() {
    let (_router, a, b) = star("");
    let samples = subscribe(&b, "warm");
    let back = subscribe(&a, "back");
    let (_, queries) = b.declare_queryable(key("ask"), Default::default(), Handler::Default).unwrap();
    warm_up(&a, &samples, "warm");
    warm_up(&b, &back, "back");
    let ask = QueryBody { payload: body(LARGE, 1).into(), ..QueryBody::default() };
    let get = Get { body: Some(ask), ..Get::new(key("ask")) };
    let (_, replies) = a.get(get, Handler::Default, &mut || false).unwrap();
    let query = queries.recv(Some(WAIT), &mut || false).unwrap();
    let asked = &query.body.as_ref().unwrap().payload;
    assert!(is_shared(asked) && *asked == body(LARGE, 1));
    let answer = PushBody::Put(Put::new(body(LARGE, 2)));
    let reply = QueryReply {
        body: QueryReplyBody::Sample { key: key("ask"), body: answer },
        express: None,
        stamps: None,
    };
    query.reply(reply, &mut || false).unwrap();
    drop(query);
    let reply = replies.queue.recv(Some(WAIT), &mut || false).unwrap().result.unwrap();
    assert!(is_shared(&reply.payload) && reply.payload == body(LARGE, 2));
}

#[test]
fn small_payloads_and_configured_ones_go_over_the_link() {
    for (extra, len) in [
        ("", 16_383),
        ("transport: {shared_memory: {enabled: false}}", LARGE),
        ("transport: {shared_memory: {transport_optimization: {enabled: false}}}", LARGE),
        ("transport: {shared_memory: {transport_optimization: {messages: ['reply']}}}", LARGE),
    ] {
        let a = listen("peer", "tcp/127.0.0.1:0", "");
        let b = client(&a, extra);
        let queue = subscribe(&a, "x");
        eventually("the subscription is known", || {
            put(&b, "x", body(10, 0));
            queue.recv(Some(Duration::from_millis(20)), &mut || false).is_ok()
        });
        std::thread::sleep(Duration::from_millis(100));
        while queue.recv(Some(Duration::from_millis(20)), &mut || false).is_ok() {}
        for mark in 0..10 {
            put(&b, "x", body(len, mark));
            assert!(next(&queue).payload == body(len, mark));
        }
        assert_eq!(count(&b, "link.tx_lent"), 0, "{extra}");
    }
}

#[test]
fn a_link_that_loses_messages_does_not_lend() {
    let a = listen("peer", "udp/127.0.0.1:0", "");
    let b = client(&a, "");
    let queue = subscribe(&a, "x");
    eventually("a payload arrives", || {
        put(&b, "x", body(20_000, 0));
        queue.recv(Some(Duration::from_millis(50)), &mut || false).is_ok()
    });
    assert_eq!(b.report().links[0].lending.word(), "off");
    assert_eq!(count(&b, "link.tx_lent"), 0);
}

#[test]
fn unix_sockets_and_other_protocols_lend_too() {
    let path = std::env::temp_dir().join(format!("zwire-lending-{}.sock", std::process::id()));
    for endpoint in [format!("unixsock-stream/{}", path.display()), "ws/127.0.0.1:0".to_owned()] {
        let a = listen("peer", &endpoint, "");
        let b = client(&a, "");
        let queue = subscribe(&a, "x");
        warm_up(&b, &queue, "x");
    }
}

#[test]
fn returned_memory_is_used_again() {
    let a = listen("peer", "tcp/127.0.0.1:0", "");
    let b = client(&a, &memory("pool_size: 4194304"));
    let queue = subscribe(&a, "x");
    warm_up(&b, &queue, "x");
    let before = count(&b, "link.tx_lent");
    for round in 0..2_000u32 {
        put(&b, "x", body(LARGE, round as u8));
        assert!(next(&queue).payload == body(LARGE, round as u8));
    }
    assert_eq!(count(&b, "link.tx_lent") - before, 2_000, "200 MB through 4 MiB");
    assert_eq!(count(&b, "lending.pool_full"), 0);
}

#[test]
fn a_receiver_that_keeps_payloads_costs_only_them() {
    let a = listen("peer", "tcp/127.0.0.1:0", "zwire: {handler: {capacity_bytes: 1000000000}}");
    let b = client(&a, &memory("pool_size: 4194304"));
    let queue = subscribe(&a, "x");
    warm_up(&b, &queue, "x");
    let mut kept = Vec::new();
    for mark in 0..200 {
        put(&b, "x", body(LARGE, mark));
        kept.push(next(&queue).payload);
    }
    let shared = kept.iter().filter(|payload| is_shared(payload)).count();
    // A link has half of the pool on loan; what is placed beyond it goes over the link, and is free again then.
    assert!((15..=21).contains(&shared), "{shared} of 200 fit into half of the pool");
    for (mark, payload) in kept.iter().enumerate() {
        assert!(*payload == body(LARGE, mark as u8), "{mark}");
    }
    drop(kept);
    put(&b, "x", body(LARGE, 7));
    assert!(is_shared(&next(&queue).payload), "there is room again");
}

#[test]
fn many_small_loans_end_at_their_bound() {
    let a = listen("peer", "tcp/127.0.0.1:0", "");
    let b = client(&a, &memory("message_size_threshold: 5000"));
    let queue = subscribe(&a, "x");
    warm_up(&b, &queue, "x");
    let mut kept = Vec::new();
    for mark in 0..1_500u32 {
        put(&b, "x", body(5_000, mark as u8));
        kept.push(next(&queue).payload);
    }
    assert_eq!(kept.iter().filter(|payload| is_shared(payload)).count(), 1_024);
    for (mark, payload) in kept.iter().enumerate() {
        assert!(*payload == body(5_000, mark as u8), "{mark}");
    }
}

#[test]
fn a_payload_outlives_its_link_its_sender_and_later_payloads() {
    let a = listen("peer", "tcp/127.0.0.1:0", "");
    let b = client(&a, &memory("pool_size: 4194304"));
    let queue = subscribe(&a, "x");
    warm_up(&b, &queue, "x");
    put(&b, "x", body(LARGE, 1));
    let kept = next(&queue).payload;
    assert!(is_shared(&kept));
    // The same link, with the memory of others used again and again.
    for mark in 0..100 {
        put(&b, "x", body(LARGE, mark));
        next(&queue);
    }
    assert!(kept == body(LARGE, 1));
    b.close().unwrap();
    drop(b);
    assert!(kept == body(LARGE, 1));
    // The receiver's own session ends as well.
    a.close().unwrap();
    assert!(kept == body(LARGE, 1) && is_shared(&kept));
    drop(kept);
}

#[test]
fn memory_that_a_session_has_lent_is_not_used_by_the_next_one_while_it_is_read() {
    let router = listen("router", "tcp/127.0.0.1:0", "");
    let a = client(&router, "");
    let queue = subscribe(&a, "x");
    let mut kept = Vec::new();
    for round in 0..5u8 {
        let b = client(&router, &memory("pool_size: 4194304"));
        warm_up(&b, &queue, "x");
        for mark in 0..10 {
            put(&b, "x", body(LARGE, round * 10 + mark));
            kept.push(next(&queue).payload);
        }
    }
    assert!(kept.iter().all(|payload| is_shared(payload)));
    for (mark, payload) in kept.iter().enumerate() {
        assert!(*payload == body(LARGE, mark as u8), "{mark}");
    }
}

#[test]
fn one_piece_of_memory_serves_all_subscribers() {
    let router = listen("router", "tcp/127.0.0.1:0", "");
    let b = client(&router, "");
    let readers: Vec<_> = (0..4).map(|_| client(&router, "")).collect();
    let queues: Vec<_> = readers.iter().map(|reader| subscribe(reader, "x")).collect();
    for queue in &queues {
        warm_up(&b, queue, "x");
    }
    for queue in &queues {
        while queue.recv(Some(Duration::from_millis(50)), &mut || false).is_ok() {}
    }
    let before = count(&b, "link.tx_lent");
    put(&b, "x", body(LARGE, 3));
    for queue in &queues {
        let payload = next(queue).payload;
        assert!(is_shared(&payload) && payload == body(LARGE, 3));
    }
    assert_eq!(count(&b, "link.tx_lent"), before + 1);
}

#[test]
fn a_buffer_is_sent_without_a_copy_and_again() {
    let a = listen("peer", "tcp/127.0.0.1:0", "");
    let b = client(&a, "");
    let (near, far) = (subscribe(&b, "x"), subscribe(&a, "x"));
    warm_up(&b, &far, "x");
    while near.recv(Some(Duration::from_millis(50)), &mut || false).is_ok() {}
    let mut buffer = b.buffer(LARGE).unwrap();
    assert!(buffer.is_shared());
    buffer.as_mut_slice().copy_from_slice(&body(LARGE, 9));
    let bytes = buffer.freeze();
    for _ in 0..2 {
        put(&b, "x", bytes.clone());
        assert_eq!(next(&near).payload.as_ptr(), bytes.as_ptr());
        let payload = next(&far).payload;
        assert!(is_shared(&payload) && payload == bytes);
    }
}

/// A neighbour by hand, with a channel if it connects one.
struct Neighbour {
    socket: TcpStream,
    params: LinkParams,
}

impl Neighbour {
    fn connect(to: &Session) -> Self {
        let address = to.listening()[0].strip_prefix("tcp/").unwrap().to_owned();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let offer = LendingOffer { secret: ChannelSecret([7; 16]), door: None };
        let config = HandshakeConfig {
            lending: Some(offer),
            ..HandshakeConfig::new(ZenohId::new(0xbad).unwrap(), WhatAmI::Client)
        };
        let mut opener = Opener::new(config);
        let framer = StreamFramer::handshake();
        let mut buf = BytesMut::new();
        loop {
            while let Some(batch) = opener.poll_transmit() {
                let len = u16::try_from(batch.len()).unwrap().to_le_bytes();
                socket.write_all(&[&len[..], &batch].concat()).unwrap();
            }
            let batch = loop {
                if let Some(batch) = framer.next(&mut buf).unwrap() {
                    break batch;
                }
                let mut more = [0; 1024];
                let n = socket.read(&mut more).unwrap();
                assert_ne!(n, 0, "the session has closed");
                buf.extend_from_slice(&more[..n]);
            };
            if let Step::Done(params) = opener.handle_batch(batch).unwrap() {
                return Self { socket, params };
            }
        }
    }

    fn channel(&self) -> Channel {
        let terms = self.params.lending.unwrap();
        let hex: String = terms.door.unwrap().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let channel = Channel::connect(format!("zwire-{hex}").as_bytes()).unwrap();
        channel.send(&ChannelMessage::Hello(terms.theirs).encode(), &[]).unwrap();
        assert_eq!(receive(&channel), Some(ChannelMessage::Welcome(ChannelSecret([7; 16]))));
        channel
    }

    fn send(&mut self, messages: &[NetworkMessage]) {
        let mut tx = LinkTx::new(&self.params, TxConfig::default(), Now::at(Duration::ZERO));
        self.params.tx_initial_sn += 1;
        for message in messages {
            tx.push(message, Reliability::Reliable).unwrap();
        }
        let mut out = Vec::new();
        tx.poll_transmit(Now::at(Duration::ZERO), &mut out, usize::MAX);
        self.socket.write_all(&out.concat()).unwrap();
    }
}

/// The next message; `None` if the channel has ended.
fn receive(channel: &Channel) -> Option<ChannelMessage> {
    let end = Instant::now() + WAIT;
    let mut buf = [0; MAX_MESSAGE];
    loop {
        match channel.receive(&mut buf) {
            Ok(received) if received.len == 0 => return None,
            Ok(received) => {
                return Some(ChannelMessage::decode(&Bytes::copy_from_slice(&buf[..received.len])).unwrap());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(Instant::now() < end, "no message comes");
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn lent(description: LoanDescription) -> NetworkMessage {
    let payload = PayloadSlice::encode_all(&[PayloadSlice::Loan(description)]);
    let put = Put { shm: true, payload, ..Put::default() };
    NetworkMessage::Push(Push::new(WireExpr::full("x"), PushBody::Put(put)))
}

fn plain(text: &'static str) -> NetworkMessage {
    NetworkMessage::Push(Push::new(WireExpr::full("x"), PushBody::Put(Put::new(text))))
}

#[test]
fn forged_descriptions_lose_their_own_message_only() {
    let node = listen("peer", "tcp/127.0.0.1:0", "");
    let queue = subscribe(&node, "x");
    let mut neighbour = Neighbour::connect(&node);
    // Without a channel.
    let forged = LoanDescription { loan: 0, segment: 0, offset: 0, len: 10 };
    neighbour.send(&[lent(forged), plain("first")]);
    assert_eq!(&next(&queue).payload[..], b"first");
    assert_eq!(count(&node, "link.rx_shm_failed"), 1);
    // With one, and a segment.
    let channel = neighbour.channel();
    let mut ring = ReturnRing::create(1024).unwrap();
    channel.send(&ChannelMessage::Ring { size: ring.size() as u64 }.encode(), &[ring.fd()]).unwrap();
    let pool = Pool::new(1 << 20);
    let mut chunk = pool.allocate(1000).unwrap();
    chunk.as_mut_slice().copy_from_slice(&body(1000, 5));
    let bytes = chunk.freeze();
    let place = Place::of(&bytes).unwrap();
    let size = place.memory.size() as u64;
    channel.send(&ChannelMessage::Segment { segment: 3, size }.encode(), &[place.memory.fd()]).unwrap();
    assert_eq!(receive(&channel), Some(ChannelMessage::Mapped { segment: 3 }));
    let offset = place.offset as u64;
    let good = LoanDescription { loan: 77, segment: 3, offset, len: 1000 };
    neighbour.send(&[lent(good)]);
    let payload = next(&queue).payload;
    assert!(is_shared(&payload) && payload == body(1000, 5));
    assert_eq!(ring.take(), None);
    drop(payload);
    eventually("the loan returns", || ring.take() == Some(77));
    let forged = [
        LoanDescription { segment: 2, ..good },
        LoanDescription { offset: size - 999, ..good },
        LoanDescription { offset: u64::MAX, ..good },
        LoanDescription { len: u64::MAX, ..good },
        LoanDescription { offset: size, len: 1, ..good },
    ];
    for (number, forged) in forged.into_iter().enumerate() {
        neighbour.send(&[lent(LoanDescription { loan: number as u32, ..forged }), plain("next")]);
        assert_eq!(&next(&queue).payload[..], b"next");
        eventually("the number returns, though nothing was read", || ring.take() == Some(number as u32));
    }
    assert_eq!(count(&node, "link.rx_shm_failed"), 1 + forged.len() as u64);
    // A payload that is no list of slices ends nothing either.
    let put = Put { shm: true, payload: Bytes::from_static(&[1, 2, 2, 0, 0]).into(), ..Put::default() };
    let broken = NetworkMessage::Push(Push::new(WireExpr::full("x"), PushBody::Put(put)));
    neighbour.send(&[broken, plain("last")]);
    assert_eq!(&next(&queue).payload[..], b"last");
}

#[test]
fn a_channel_that_breaks_rules_is_not_lent_to_and_the_link_goes_on() {
    let node = listen("peer", "tcp/127.0.0.1:0", "");
    let queue = subscribe(&node, "x");
    let unsealed = std::fs::File::open("/dev/zero").unwrap();
    let pool = Pool::new(1 << 20);
    let chunk = pool.allocate(1000).unwrap();
    let place = Place::of(chunk.as_slice()).unwrap();
    let file = place.memory.fd();
    let size = place.memory.size() as u64;
    let wrong: [&dyn Fn(&Channel); 6] = [
        &|channel| channel.send(&[99], &[]).unwrap(),
        &|channel| channel.send(&ChannelMessage::Hello(ChannelSecret([1; 16])).encode(), &[]).unwrap(),
        // A segment without a ring, or without a file; a message with a file too many.
        &|channel| channel.send(&ChannelMessage::Segment { segment: 0, size }.encode(), &[file]).unwrap(),
        &|channel| channel.send(&ChannelMessage::Segment { segment: 0, size }.encode(), &[]).unwrap(),
        &|channel| channel.send(&ChannelMessage::Mapped { segment: 0 }.encode(), &[file]).unwrap(),
        // A ring that could be truncated.
        &|channel| {
            let fd = std::os::fd::AsFd::as_fd(&unsealed);
            channel.send(&ChannelMessage::Ring { size: 4096 }.encode(), &[fd]).unwrap();
        },
    ];
    for (number, wrong) in wrong.iter().enumerate() {
        let mut neighbour = Neighbour::connect(&node);
        let channel = neighbour.channel();
        wrong(&channel);
        eventually("the fault is seen", || {
            ["lending.failed.protocol", "lending.failed.system"]
                .iter()
                .map(|name| count(&node, name))
                .sum::<u64>()
                == number as u64 + 1
        });
        neighbour.send(&[plain("alive")]);
        assert_eq!(&next(&queue).payload[..], b"alive");
        drop(neighbour);
        eventually("the session of the neighbour has ended", || node.links().is_empty());
    }
}

#[test]
fn strangers_at_the_door_are_closed_and_neighbours_still_come() {
    let node = listen("peer", "tcp/127.0.0.1:0", "");
    let door = {
        let neighbour = Neighbour::connect(&node);
        neighbour.params.lending.unwrap().door.unwrap()
    };
    let hex: String = door.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let connect = || Channel::connect(format!("zwire-{hex}").as_bytes());
    let strangers: Vec<_> = (0..100).filter_map(|_| connect().ok()).collect();
    let guess = connect().unwrap();
    guess.send(&ChannelMessage::Hello(ChannelSecret([0; 16])).encode(), &[]).ok();
    // Those that say nothing are closed after a second.
    eventually("all strangers are closed", || {
        strangers.iter().all(|channel| {
            let mut buf = [0; MAX_MESSAGE];
            !channel.receive(&mut buf).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        })
    });
    let b = client(&node, "");
    let queue = subscribe(&node, "x");
    warm_up(&b, &queue, "x");
}

#[test]
fn sessions_that_come_and_go_leave_no_descriptors() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let node = listen("peer", "tcp/127.0.0.1:0", "");
    let queue = subscribe(&node, "x");
    let turn = || {
        let b = client(&node, "");
        warm_up(&b, &queue, "x");
    };
    turn();
    let before = descriptors();
    for _ in 0..10 {
        turn();
    }
    // Other tests of this file run at the same time, each with some sessions.
    eventually("all descriptors are closed", || descriptors() <= before + 60);
}
