//! Sessions and a hub over real sockets on loopback: the behaviour seen by users, and the cost of
//! misbehaving peers.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use zwire_engine::{Config, Handler, Queue, RecvError, Session};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos,
    session::{Get, Publication, PublisherOptions, QueryReply, QueryReplyBody, Sample},
    wire::{Consolidation, Del, PushBody, Put, QueryTarget},
};

const WAIT: Duration = Duration::from_secs(10);

fn never() -> impl FnMut() -> bool {
    || false
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn open(json: &str) -> Session {
    Session::open(&Config::from_json5(json).unwrap(), &mut never()).unwrap()
}

fn hub() -> (Session, SocketAddr) {
    hub_with("")
}

fn hub_with(extra: &str) -> (Session, SocketAddr) {
    let hub = open(&format!("{{mode: 'router', listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {extra}}}"));
    let address = address(&hub);
    (hub, address)
}

/// Address of its first listener, which is a TCP one.
fn address(session: &Session) -> SocketAddr {
    session.listening()[0].strip_prefix("tcp/").unwrap().parse().unwrap()
}

fn client(address: SocketAddr) -> Session {
    open(&format!("{{mode: 'client', connect: {{endpoints: ['tcp/{address}']}}}}"))
}

fn block() -> Qos {
    Qos::new(Priority::Data, CongestionControl::Block, false)
}

fn put(session: &Session, to: &str, payload: &[u8]) {
    let body = PushBody::Put(Put::new(payload.to_vec()));
    let publication = Publication { qos: block(), ..Publication::new(key(to), body) };
    session.put(publication, &mut never()).unwrap();
}

fn next(queue: &Queue<Sample>) -> Sample {
    queue.recv(Some(WAIT), &mut never()).unwrap()
}

/// Polls until `condition` holds; fails the test after ten seconds.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the hub has all declarations: a put of a probe arrives.
fn settled(publisher: &Session, queue: &Queue<Sample>, to: &str) {
    let end = Instant::now() + WAIT;
    loop {
        put(publisher, to, b"probe");
        match queue.recv(Some(Duration::from_millis(50)), &mut never()) {
            Ok(_) => break,
            Err(RecvError::Timeout) => assert!(Instant::now() < end, "the subscription never took effect"),
            Err(other) => panic!("{other:?}"),
        }
    }
    // Drains samples that are still on their way.
    while queue.recv(Some(Duration::from_millis(50)), &mut never()).is_ok() {}
}

#[test]
fn a_hub_carries_publications_between_clients() {
    let (_hub, address) = hub();
    let (a, b) = (client(address), client(address));
    let (_, queue) = b.declare_subscriber(key("fleet/**"), Default::default(), Handler::Default).unwrap();
    settled(&a, &queue, "fleet/probe");
    for i in 0..1000u32 {
        put(&a, "fleet/robot/position", &i.to_le_bytes());
    }
    for i in 0..1000u32 {
        let sample = next(&queue);
        assert_eq!(sample.key.as_str(), "fleet/robot/position");
        assert_eq!(&sample.payload[..], i.to_le_bytes());
        assert!(sample.timestamp.is_some(), "a router stamps what has no timestamp");
    }
}

#[test]
fn blocking_publications_lose_nothing_to_a_slow_consumer() {
    let (_hub, address) = hub_with("zwire: {queue: {bytes_per_priority: 65536}},");
    let (a, b) = (client(address), client(address));
    let (_, queue) = b.declare_subscriber(key("slow"), Default::default(), Handler::Fifo(64)).unwrap();
    settled(&a, &queue, "slow");
    let producer = std::thread::spawn(move || {
        for i in 0..100_000u32 {
            put(&a, "slow", &i.to_le_bytes());
        }
        a
    });
    for i in 0..100_000u32 {
        if i % 10_000 == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(&next(&queue).payload[..], i.to_le_bytes());
    }
    producer.join().unwrap();
    assert_eq!(queue.dropped(), 0);
}

#[test]
fn large_payloads_arrive_whole() {
    let (_hub, address) = hub();
    let (a, b) = (client(address), client(address));
    let (_, queue) = b.declare_subscriber(key("blob"), Default::default(), Handler::Default).unwrap();
    settled(&a, &queue, "blob");
    let payload: Vec<u8> = (0..8 << 20).map(|i: u32| (i ^ (i >> 8)) as u8).collect();
    for _ in 0..3 {
        put(&a, "blob", &payload);
    }
    for _ in 0..3 {
        assert!(next(&queue).payload == payload);
    }
}

#[test]
fn queries_are_answered_through_the_hub() {
    let (_hub, address) = hub();
    let (a, b) = (client(address), client(address));
    let (_, queries) = b.declare_queryable(key("store/**"), Default::default(), Handler::Default).unwrap();
    let server = std::thread::spawn(move || {
        while let Ok(query) = queries.recv(Some(Duration::from_secs(3)), &mut never()) {
            for i in 0..3u8 {
                let body = PushBody::Put(Put::new(vec![i]));
                let reply = QueryReplyBody::Sample { key: key(&format!("store/{i}")), body };
                query.reply(QueryReply { body: reply, express: None, stamps: None }, &mut never()).unwrap();
            }
            if query.parameters == "last" {
                break;
            }
        }
        b
    });
    eventually("the queryable is known", || {
        let get = Get { target: QueryTarget::All, ..Get::new(key("store/*")) };
        let (_, replies) = a.get(get, Handler::Default, &mut never()).unwrap();
        let mut n = 0;
        while replies.queue.recv(Some(WAIT), &mut never()).is_ok() {
            n += 1;
        }
        n == 3
    });
    let get =
        Get { consolidation: Consolidation::None, parameters: "last".into(), ..Get::new(key("store/*")) };
    let (_, replies) = a.get(get, Handler::Default, &mut never()).unwrap();
    let mut got = Vec::new();
    while let Ok(reply) = replies.queue.recv(Some(WAIT), &mut never()) {
        got.push(reply.result.unwrap().payload[0]);
    }
    assert_eq!(got, [0, 1, 2]);
    assert!(replies.done.get().is_some());
    server.join().unwrap();
}

#[test]
fn a_vanished_queryable_ends_its_part_at_once() {
    let (_hub, address) = hub();
    let (a, b) = (client(address), client(address));
    let (_, queries) = b.declare_queryable(key("dead"), Default::default(), Handler::Default).unwrap();
    let querier = a.declare_querier(key("dead"), Default::default()).unwrap();
    eventually("matching", || a.matching(querier).unwrap());
    let get = Get { timeout: Some(Duration::from_secs(30)), ..Get::new(key("dead")) };
    let (_, replies) = a.get(get, Handler::Default, &mut never()).unwrap();
    let query = queries.recv(Some(WAIT), &mut never()).unwrap();
    let start = Instant::now();
    b.close().unwrap();
    assert_eq!(replies.queue.recv(Some(WAIT), &mut never()).err(), Some(RecvError::Closed));
    assert!(start.elapsed() < Duration::from_secs(3));
    drop(query);
}

#[test]
fn a_client_comes_back_after_the_hub_was_killed() {
    let (hub, address) = hub();
    let (a, b) = (client(address), client(address));
    let (_, queue) = b.declare_subscriber(key("again"), Default::default(), Handler::Default).unwrap();
    let publisher = a.declare_publisher(key("again"), PublisherOptions::default()).unwrap();
    eventually("matching", || a.matching(publisher).unwrap());
    hub.close().unwrap();
    drop(hub);
    eventually("not matching", || !a.matching(publisher).unwrap());
    let _hub = open(&format!("{{mode: 'router', listen: {{endpoints: ['tcp/{address}']}}}}"));
    eventually("matching again", || a.matching(publisher).unwrap());
    let body = PushBody::Put(Put::new(&b"hello"[..]));
    a.publish(publisher, Qos::DEFAULT, body, None, &mut never()).unwrap();
    assert_eq!(&next(&queue).payload[..], b"hello");
}

#[test]
fn the_own_subscriber_is_served_without_a_network() {
    let (hub, _) = hub();
    let (_, queue) = hub.declare_subscriber(key("near/*"), Default::default(), Handler::Default).unwrap();
    put(&hub, "near/by", b"x");
    assert_eq!(&next(&queue).payload[..], b"x");
}

#[test]
fn the_configuration_overrides_the_qos_of_publications() {
    let (_hub, address) = hub();
    let b = client(address);
    let (_, queue) = b.declare_subscriber(key("q/**"), Default::default(), Handler::Default).unwrap();
    let a = open(&format!(
        "{{mode: 'client', connect: {{endpoints: ['tcp/{address}']}}, qos: {{publication: [
            {{key_exprs: ['q/fast/**'], config: {{priority: 'real_time', congestion_control: 'block',
              express: true}}}}]}}}}"
    ));
    settled(&a, &queue, "q/probe");
    put(&a, "q/fast/1", b"x");
    put(&a, "q/slow/1", b"x");
    // Another priority may overtake, so both orders are right.
    let got = [next(&queue), next(&queue)];
    let qos = |name: &str| got.iter().find(|s| s.key.as_str() == name).unwrap().qos;
    assert_eq!(qos("q/fast/1"), Qos::new(Priority::RealTime, CongestionControl::Block, true));
    assert_eq!(qos("q/slow/1"), block());
}

#[test]
fn a_section_of_plugins_is_changed_by_the_part_that_does_its_work() {
    let (hub, address) = hub_with("adminspace: {enabled: true, permissions: {write: true}}");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let memory = seen.clone();
    hub.on_section(
        "clock",
        Arc::new(move |before, after| {
            if after["speed"] == 13 {
                return Err("13 is not a speed".to_owned());
            }
            memory.lock().unwrap().push(format!("{before} {after}"));
            Ok(())
        }),
    );
    let desk = client(address);
    let to = |path: &str| format!("@/{}/router/config/plugins/{path}", hub.zid());
    put(&desk, &to("clock"), b"{speed: 1}");
    put(&desk, &to("clock/speed"), b"13");
    put(&desk, &to("clock/speed"), b"2");
    put(&desk, &to("unknown"), b"{}");
    let delete = Publication::new(key(&to("clock")), PushBody::Del(Del::default()));
    desk.put(Publication { qos: block(), ..delete }, &mut never()).unwrap();
    let expected = [r#"null {"speed":1}"#, r#"{"speed":1} {"speed":2}"#, r#"{"speed":2} null"#];
    eventually("the part has seen the changes", || *seen.lock().unwrap() == expected);
    // The part is asked before the tree is changed.
    eventually("the section is gone", || hub.tree().get_json("plugins").unwrap() == "{}");
    assert_eq!(hub.tree(), Config::from_json5(&hub.tree().to_json()).unwrap());
}

#[test]
fn protocols_that_are_not_allowed_are_refused() {
    let config = "{mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0']}, \
                  transport: {link: {protocols: ['udp']}}}";
    let error = Session::open(&Config::from_json5(config).unwrap(), &mut never()).err().unwrap();
    assert!(error.to_string().contains("tcp"), "{error}");
}

#[test]
fn two_peers_talk_directly() {
    let a = open(
        "{mode: 'peer', listen: {endpoints: ['tcp/127.0.0.1:0']}, scouting: {multicast: {enabled: false}}}",
    );
    let address = address(&a);
    let b = open(&format!(
        "{{mode: 'peer', listen: {{endpoints: []}}, connect: {{endpoints: ['tcp/{address}']}}, \
         scouting: {{multicast: {{enabled: false}}}}}}"
    ));
    let (_, queue) = a.declare_subscriber(key("p2p/**"), Default::default(), Handler::Default).unwrap();
    settled(&b, &queue, "p2p/x");
    put(&b, "p2p/y", b"direct");
    assert_eq!(&next(&queue).payload[..], b"direct");
}

// Misbehaving peers. Each loses its own connection, and no other client is affected.

/// A publisher and a subscriber that must not notice `rude`, which acts in the middle.
fn undisturbed(rude: impl FnOnce(SocketAddr, &Session)) {
    let (hub, address) = hub_with("zwire: {queue: {bytes_per_priority: 262144}},");
    let (a, b) = (client(address), client(address));
    let (_, queue) = b.declare_subscriber(key("calm"), Default::default(), Handler::Default).unwrap();
    settled(&a, &queue, "calm");
    put(&a, "calm", b"before");
    rude(address, &hub);
    put(&a, "calm", b"after");
    assert_eq!(&next(&queue).payload[..], b"before");
    assert_eq!(&next(&queue).payload[..], b"after");
    // New clients are still accepted.
    let c = client(address);
    put(&c, "calm", b"new");
    assert_eq!(&next(&queue).payload[..], b"new");
}

#[test]
fn random_bytes_disturb_nobody() {
    undisturbed(|address, _| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).unwrap();
            let mut junk = vec![0; 4096];
            for byte in &mut junk {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            // The hub may have closed already, as it should.
            let _ = stream.write_all(&junk);
        }
    });
}

#[test]
fn half_a_handshake_and_a_length_without_body_disturb_nobody() {
    undisturbed(|address, _| {
        let mut held = Vec::new();
        for half in [&b"\x11\x00\xc1\x09"[..], b"\xff\xff", b"\x00\x00", b"\x11"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(half).unwrap();
            held.push(stream);
        }
        std::thread::sleep(Duration::from_millis(50));
    });
}

#[test]
fn connections_that_never_speak_keep_nobody_out() {
    undisturbed(|address, _| {
        let mut held: Vec<TcpStream> = Vec::new();
        for _ in 0..10_000 {
            if let Ok(stream) = TcpStream::connect(address) {
                held.push(stream);
            }
            // This process plays both sides: stay below its own limit of descriptors.
            if held.len() > 200 {
                held.drain(..100);
            }
        }
    });
}

/// A hand-made client that completes the handshake, with the rest left to the test.
fn handshake(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let syn = b"\xc1\x09\x32\x01\x02\x03\x04\x0a\xff\xff\x81\x27\x01";
    stream.write_all(&(syn.len() as u16).to_le_bytes()).unwrap();
    stream.write_all(syn).unwrap();
    let ack = read_batch(&mut stream);
    assert_eq!(ack[0] & 0x3f, 0x21, "INIT ACK");
    let zid_len = usize::from(ack[2] >> 4) + 1;
    let mut at = 3 + zid_len;
    if ack[0] & 0x40 != 0 {
        at += 3;
    }
    let cookie_len = usize::from(ack[at]);
    let cookie = &ack[at + 1..at + 1 + cookie_len];
    let mut open = vec![0x42, 0x0a, 0x05, ack[at]];
    open.extend_from_slice(cookie);
    stream.write_all(&(open.len() as u16).to_le_bytes()).unwrap();
    stream.write_all(&open).unwrap();
    let ack = read_batch(&mut stream);
    assert_eq!(ack[0] & 0x3f, 0x22, "OPEN ACK");
    stream
}

fn read_batch(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut batch = vec![0; usize::from(u16::from_le_bytes(len))];
    stream.read_exact(&mut batch).unwrap();
    batch
}

fn closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        // A reset is a close too; a time-out is not.
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_claim_of_four_gigabytes_costs_its_sender_the_link() {
    undisturbed(|address, hub| {
        let mut stream = handshake(address);
        // FRAME SN 5, PUSH "a", PUT with a payload length of 2^32-1 and 3 bytes of it.
        let batch = b"\x25\x05\x7d\x00\x01a\x01\xff\xff\xff\xff\x0fabc";
        stream.write_all(&(batch.len() as u16).to_le_bytes()).unwrap();
        stream.write_all(batch).unwrap();
        assert!(closed(&mut stream));
        eventually("its link is gone", || hub.links().len() <= 2);
    });
}

/// A hand-made subscriber of `calm/flood` that never reads.
fn deaf_subscriber(address: SocketAddr) -> TcpStream {
    let mut stream = handshake(address);
    // FRAME on Control, SN 5: DECLARE D_SUBSCRIBER 1 with the full key.
    let batch = b"\xa5\x05\x31\x00\x9e\x21\x08\x62\x01\x00\x0acalm/flood";
    stream.write_all(&(batch.len() as u16).to_le_bytes()).unwrap();
    stream.write_all(batch).unwrap();
    stream
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_client_that_never_reads_costs_droppable_traffic_nothing() {
    undisturbed(|address, hub| {
        let deaf = deaf_subscriber(address);
        // Shared memory counts as resident, too.
        let memory = "transport: {shared_memory: {enabled: false}}";
        let flood = open(&format!("{{mode: 'client', connect: {{endpoints: ['tcp/{address}']}}, {memory}}}"));
        let publisher = flood.declare_publisher(key("calm/flood"), PublisherOptions::default()).unwrap();
        eventually("matching", || flood.matching(publisher).unwrap());
        let (payload, before, start) = (vec![7; 60_000], resident_kib(), Instant::now());
        // 120 MB, far more than sockets and queues can hold.
        for _ in 0..2_000 {
            let body = PushBody::Put(Put::new(payload.clone()));
            flood.publish(publisher, Qos::DEFAULT, body, None, &mut never()).unwrap();
        }
        assert!(start.elapsed() < WAIT);
        assert!(resident_kib() < before + 64 * 1024, "memory stays bounded");
        assert!(hub.stats()["link.tx_dropped"] > 0, "the reason is counted");
        drop(deaf);
    });
}

#[test]
fn a_client_that_never_reads_is_left_behind_by_blocking_traffic() {
    undisturbed(|address, hub| {
        let mut deaf = deaf_subscriber(address);
        let (flood, reader) = (client(address), client(address));
        let (_, queue) =
            reader.declare_subscriber(key("calm/*"), Default::default(), Handler::Default).unwrap();
        settled(&flood, &queue, "calm/probe");
        let sender = std::thread::spawn(move || {
            for i in 0..1_000u32 {
                let mut payload = vec![7; 60_000];
                payload[..4].copy_from_slice(&i.to_le_bytes());
                put(&flood, "calm/flood", &payload);
            }
            flood
        });
        // The other subscribers get everything; the one that never reads costs them one deadline at
        // most, which is shorter than the one after which the flooding client would give up the hub.
        for i in 0..1_000u32 {
            let sample = queue.recv(Some(WAIT), &mut never()).unwrap();
            assert_eq!(&sample.payload[..4], i.to_le_bytes());
        }
        let flood = sender.join().unwrap();
        assert!(closed(&mut deaf), "its connection is gone");
        // No other link was lost: those of the pair, the flooding client and the reader remain.
        assert_eq!(hub.links().len(), 4);
        drop(flood);
    });
}

#[test]
fn a_fragment_that_never_ends_is_bounded() {
    undisturbed(|address, _| {
        let mut stream = handshake(address);
        // First fragments without an end, on all channels, each claiming four gigabytes.
        let mut batch = b"\xe6\x05\x02\x7d\x00\x01a\x01\xff\xff\xff\xff\x0f".to_vec();
        batch.resize(40_000, 0);
        stream.write_all(&(batch.len() as u16).to_le_bytes()).unwrap();
        stream.write_all(&batch).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    });
}

#[test]
fn sessions_leave_no_threads_or_descriptors() {
    let (_hub, address) = hub();
    let count = || {
        (
            std::fs::read_dir("/proc/self/fd").unwrap().count(),
            std::fs::read_dir("/proc/self/task").unwrap().count(),
        )
    };
    drop(client(address));
    std::thread::sleep(Duration::from_millis(100));
    let before = count();
    for _ in 0..200 {
        client(address).close().unwrap();
    }
    // Other tests of this process open and close descriptors too; a leak would be two per cycle.
    eventually("descriptors are given back", || count().0 <= before.0 + 60);
}

#[allow(dead_code)]
fn assert_send<T: Send + Sync>() {}

#[test]
fn handles_may_be_used_from_any_thread() {
    assert_send::<Session>();
    assert_send::<Arc<Queue<Sample>>>();
}
