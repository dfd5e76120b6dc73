//! Sessions of zwire over datagrams, and datagrams of strangers.

use std::{
    net::UdpSocket,
    sync::{PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, Instant},
};
use zwire_engine::{Config, Error, Handler, Queue, RecvError, Session};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos, WhatAmI, ZenohId,
    link::{HandshakeConfig, Opener},
    session::{Publication, Sample},
    wire::{PushBody, Put},
};

const WAIT: Duration = Duration::from_secs(10);

fn never() -> impl FnMut() -> bool {
    || false
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn try_open(json: &str) -> Result<Session, Error> {
    Session::open(&Config::from_json5(json).unwrap(), &mut never())
}

/// Settings of every session here.
const QUIET: &str = "scouting: {multicast: {enabled: false}}";

fn hub(endpoint: &str, extra: &str) -> Session {
    let listen = format!("listen: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'router', {listen}, {QUIET}, {extra}}}")).unwrap()
}

fn try_client(endpoint: &str, extra: &str) -> Result<Session, Error> {
    let connect = format!("connect: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'client', {connect}, {QUIET}, {extra}}}"))
}

fn client(endpoint: &str) -> Session {
    try_client(endpoint, "").unwrap()
}

fn put(session: &Session, to: &str, payload: Vec<u8>) {
    let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(Put::new(payload))) };
    session.put(publication, &mut never()).unwrap();
}

fn subscribe(session: &Session, publisher: &Session, to: &str) -> std::sync::Arc<Queue<Sample>> {
    let (_, queue) = session.declare_subscriber(key(to), Default::default(), Handler::Default).unwrap();
    let end = Instant::now() + WAIT;
    loop {
        put(publisher, to, b"probe".to_vec());
        match queue.recv(Some(Duration::from_millis(50)), &mut never()) {
            Ok(_) => break,
            Err(RecvError::Timeout) => assert!(Instant::now() < end, "the subscription never took effect"),
            Err(other) => panic!("{other:?}"),
        }
    }
    while queue.recv(Some(Duration::from_millis(50)), &mut never()).is_ok() {}
    queue
}

/// Messages of each size, one at a time: the buffers of the system are never exceeded.
fn carries_each_size(endpoint: &str, extra: &str) {
    let hub = hub(endpoint, extra);
    let endpoint = &hub.listening()[0];
    let (a, b) = (try_client(endpoint, extra).unwrap(), try_client(endpoint, extra).unwrap());
    let queue = subscribe(&b, &a, "datagrams");
    let most = if extra.contains("lowlatency") { 65_000 } else { 150_000 };
    for len in (0..100).chain([1400, 1500, 9000, 65_400, 65_487, 65_536, most]).filter(|len| *len <= most) {
        let payload: Vec<u8> = (0..len).map(|n: usize| n.to_le_bytes()[0]).collect();
        put(&a, "datagrams", payload.clone());
        let sample = queue.recv(Some(WAIT), &mut never()).unwrap();
        assert!(sample.payload[..] == payload[..], "{len} bytes");
    }
    for link in hub.links() {
        assert!(link.peer.starts_with("udp/") && link.local.starts_with("udp/"), "{}", link.peer);
        assert!(!link.params.streamed && link.params.batch_size == 65_487);
    }
}

#[test]
fn udp_carries_each_size() {
    let _shared = with_others();
    carries_each_size("udp/127.0.0.1:0", "");
}

/// A message of many fragments is one burst of datagrams, too fast for a reader to take one by one.
#[test]
fn udp_holds_a_burst() {
    let _shared = with_others();
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    // The kernel counts its own overhead, and has room for twice the requested size.
    let size = most.trim().parse::<usize>().unwrap().min(4 << 20) / 4;
    let hub = hub("udp/127.0.0.1:0", "");
    let endpoint = &hub.listening()[0];
    let (publisher, subscriber) = (client(endpoint), client(endpoint));
    let queue = subscribe(&subscriber, &publisher, "burst");
    for round in 0..20 {
        put(&publisher, "burst", vec![round; size]);
        let sample = queue.recv(Some(WAIT), &mut never()).expect("each arrives");
        assert_eq!((sample.payload.len(), sample.payload[size - 1]), (size, round));
    }
}

#[cfg(feature = "lz4")]
#[test]
fn udp_carries_each_size_over_ipv6_and_compressed() {
    let _shared = with_others();
    carries_each_size("udp/[::1]:0", "transport: {unicast: {compression: {enabled: true}}}");
}

#[test]
fn a_listener_for_all_addresses_has_ipv4_peers() {
    let _shared = with_others();
    let hub = hub("udp/[::]:0", "");
    let port = hub.listening()[0].rsplit(':').next().unwrap().to_owned();
    let (a, b) = (client(&format!("udp/127.0.0.1:{port}")), client(&format!("udp/127.0.0.1:{port}")));
    let queue = subscribe(&b, &a, "v4");
    put(&a, "v4", b"there".to_vec());
    assert_eq!(&queue.recv(Some(WAIT), &mut never()).unwrap().payload[..], b"there");
    assert!(hub.links().iter().all(|link| link.peer.starts_with("udp/127.0.0.1:")));
}

#[test]
fn a_port_has_one_listener() {
    let _shared = with_others();
    let hub = hub("udp/127.0.0.1:0", "");
    let endpoint = &hub.listening()[0];
    let _client = client(endpoint);
    let second = format!("{{mode: 'router', listen: {{endpoints: ['{endpoint}']}}, {QUIET}}}");
    let error = try_open(&second).err().expect("the port is taken").to_string();
    assert!(error.contains("in use"), "{error}");
}

#[test]
fn nobody_at_the_port_is_known_at_once() {
    let _shared = with_others();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = Instant::now();
    let error = try_client(&format!("udp/{free}"), "").err().expect("no peer").to_string();
    assert!(error.contains("refused"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// The first datagram of a session.
fn first_word(number: u128) -> Vec<u8> {
    let config = HandshakeConfig {
        streamed: false,
        ..HandshakeConfig::new(ZenohId::new(number).unwrap(), WhatAmI::Client)
    };
    Opener::new(config).poll_transmit().unwrap().to_vec()
}

/// Held exclusively by tests that count descriptors, since the count covers the whole process.
static PROCESS: RwLock<()> = RwLock::new(());

fn with_others() -> RwLockReadGuard<'static, ()> {
    PROCESS.read().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Some strangers close their port at once, some stay silent, some send nonsense.
#[test]
fn strangers_harm_nobody_and_leave_nothing() {
    let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    let accept = "transport: {unicast: {accept_timeout: 500, accept_pending: 20}}";
    let hub = hub("udp/127.0.0.1:0", accept);
    let endpoint = &hub.listening()[0];
    let address = endpoint.strip_prefix("udp/").unwrap();
    let (a, b) = (client(endpoint), client(endpoint));
    let queue = subscribe(&b, &a, "calm");
    let before = descriptors();
    let mut silent = Vec::new();
    for n in 0..300_u128 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let word = if n % 3 == 0 { vec![0xff; 40] } else { first_word(n + 1) };
        socket.send_to(&word, address).unwrap();
        if n % 3 == 2 {
            silent.push(socket);
        }
        if n % 10 == 0 {
            put(&a, "calm", n.to_le_bytes().to_vec());
            assert_eq!(queue.recv(Some(WAIT), &mut never()).unwrap().payload[..], n.to_le_bytes());
        }
        assert!(descriptors() <= before + silent.len() + 1 + 30, "{} of {before}", descriptors());
    }
    let end = Instant::now() + WAIT;
    while descriptors() > before + silent.len() {
        assert!(Instant::now() < end, "{} descriptors, {before} before", descriptors());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(hub.links().len(), 2);
    client(endpoint);
}

#[test]
fn many_connect_at_once() {
    let _shared = with_others();
    let hub = hub("udp/127.0.0.1:0", "");
    let endpoint = hub.listening()[0].clone();
    let clients: Vec<Session> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(|| client(&endpoint))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // A listener may know a link later than the client does.
    knows(&hub, 40);
    drop(clients);
}

/// A multicast group for one test: a free port, and an address chosen by the process id.
fn group() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    format!("udp/224.0.0.{}:{port}#iface=127.0.0.1", 100 + std::process::id() % 100)
}

fn member(group: &str, mode: &str, extra: &str) -> Session {
    let listen =
        if extra.contains("listen") { String::new() } else { format!("listen: {{endpoints: ['{group}']}},") };
    try_open(&format!("{{mode: '{mode}', {listen} scouting: {{multicast: {{enabled: false}}, gossip: {{enabled: false}}}}, {extra}}}")).unwrap()
}

/// Waits until `session` has so many neighbours.
fn knows(session: &Session, count: usize) {
    let end = Instant::now() + WAIT;
    while session.link_infos().len() != count {
        assert!(Instant::now() < end, "{} of {count}", session.link_infos().len());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_group_finds_itself_and_everything_arrives_once() {
    let _shared = with_others();
    let group = group();
    let sessions: Vec<Session> = (0..4).map(|_| member(&group, "peer", "")).collect();
    let start = Instant::now();
    sessions.iter().for_each(|session| knows(session, 3));
    assert!(start.elapsed() < Duration::from_secs(2), "newcomers are answered at once");
    let queues: Vec<_> = sessions
        .iter()
        .map(|s| s.declare_subscriber(key("group/*"), Default::default(), Handler::Default).unwrap().1)
        .collect();
    for n in 0..40_usize {
        put(&sessions[n % 4], "group/a", vec![n as u8; n * 1000]);
        for queue in &queues {
            let sample = queue.recv(Some(WAIT), &mut never()).unwrap();
            assert!(sample.payload[..] == vec![n as u8; n * 1000][..], "message {n}");
        }
    }
    for info in sessions[0].link_infos() {
        assert_eq!(info.group.as_deref(), group.split('#').next());
        assert_eq!((info.mtu, info.streamed), (8192, false));
    }
    assert!(queues.iter().all(|queue| queue.recv(Some(Duration::from_millis(50)), &mut never()).is_err()));
    // A session that leaves sends CLOSE.
    let mut sessions = sessions;
    sessions.pop().unwrap().close().unwrap();
    sessions.iter().for_each(|session| knows(session, 2));
}

#[test]
fn links_and_groups_together_deliver_once() {
    let _shared = with_others();
    let group = group();
    let a = member(&group, "peer", &format!("listen: {{endpoints: ['{group}', 'tcp/127.0.0.1:0']}}"));
    let tcp = a.listening().into_iter().find(|locator| locator.starts_with("tcp/")).unwrap();
    let b = member(&group, "peer", &format!("connect: {{endpoints: ['{tcp}']}}"));
    let c = member(&group, "peer", "");
    knows(&a, 3);
    knows(&b, 3);
    knows(&c, 2);
    let sessions = [&a, &b, &c];
    let queues = sessions
        .map(|s| s.declare_subscriber(key("both/*"), Default::default(), Handler::Default).unwrap().1);
    for (from, publisher) in sessions.iter().enumerate() {
        let end = Instant::now() + WAIT;
        let probe = key("both/probe");
        let mut missing: Vec<_> = queues.iter().collect();
        while !missing.is_empty() {
            assert!(Instant::now() < end, "{} miss what {from} says", missing.len());
            put(publisher, probe.as_str(), vec![from as u8]);
            let heard = |queue: &Queue<Sample>| {
                let sample = queue.recv(Some(Duration::from_millis(20)), &mut never());
                sample.is_ok_and(|sample| sample.payload[..] == [from as u8])
            };
            missing.retain(|queue| !heard(queue));
        }
    }
    for queue in &queues {
        while queue.recv(Some(Duration::from_millis(50)), &mut never()).is_ok() {}
    }
    for n in 0..30_usize {
        put(sessions[n % 3], "both/x", n.to_le_bytes().to_vec());
        for queue in &queues {
            assert_eq!(queue.recv(Some(WAIT), &mut never()).unwrap().payload[..], n.to_le_bytes());
        }
    }
    assert!(queues.iter().all(|queue| queue.recv(Some(Duration::from_millis(50)), &mut never()).is_err()));
}

#[test]
fn groups_are_not_for_clients_and_need_their_interface() {
    let _shared = with_others();
    let error = try_client("udp/224.0.0.77:7448#iface=lo", "").err().expect("no group").to_string();
    assert!(error.contains("a client takes no part in multicast groups"), "{error}");
    let json =
        format!("{{mode: 'peer', listen: {{endpoints: ['udp/224.0.0.77:7448#iface=nosuch0']}}, {QUIET}}}");
    let error = try_open(&json).err().expect("no interface").to_string();
    assert!(error.contains("nosuch0"), "{error}");
    let json = format!("{{mode: 'peer', listen: {{endpoints: ['udp/127.0.0.1:0#ttl=1']}}, {QUIET}}}");
    assert!(try_open(&json).is_err(), "ttl is for groups");
}
