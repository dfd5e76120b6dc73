//! Nodes of ZRE in one process, on the loopback: beacons, gossip, groups, CURVE, restarts.
#![allow(missing_docs, reason = "a test")]

use bytes::Bytes;
use std::{
    net::UdpSocket,
    sync::Arc,
    time::{Duration, Instant},
};
use zwire_engine::{
    zmtp::{CloseReason, Connection, ConnectionConfig, Outbound, Owner, Pause, Reconnect},
    zre::{Keys, Node, NodeOptions},
};
use zwire_proto::{
    zmtp::{
        crypto::{KeyPair, SecretKey},
        link::{Inbound, Message, ZmtpHandshakeConfig},
        wire::SocketType,
    },
    zre::{
        Generation, Uuid,
        node::{Delivery, EventKind, Shouted},
        wire::{self, Address, Beacon, Body, Hello, IdentityForm},
    },
};

const PATIENCE: Duration = Duration::from_secs(10);

fn uuid() -> Uuid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).unwrap();
    Uuid::from_random(bytes)
}

/// A port of discovery that no other test has.
fn beacon_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn options(name: &str) -> NodeOptions {
    let mut options = NodeOptions::new(uuid());
    options.machine.name = name.into();
    options.machine.beacon_interval = Some(Duration::from_millis(100));
    options.interfaces = vec!["lo".parse().unwrap()];
    options
}

fn start(options: NodeOptions) -> Node {
    let node = Node::new(options).unwrap();
    node.start().unwrap();
    node
}

fn stop(node: &Node) {
    node.stop(Duration::from_secs(1), &mut || false).unwrap();
}

fn whisper(from: &Node, to: &Node, content: Vec<Bytes>) -> Delivery {
    from.whisper(&to.uuid(), content, Duration::ZERO, &mut || false).unwrap()
}

fn shout(from: &Node, group: &str, content: Vec<Bytes>) -> Shouted {
    from.shout(group, content, Duration::ZERO, &mut || false).unwrap()
}

/// The next event but those of presence in groups.
fn next(node: &Node) -> (Uuid, EventKind) {
    let event = node.events().recv(Some(PATIENCE), &mut || false).expect("an event").event;
    (event.peer, event.kind)
}

fn wait(nodes: &[&Node], peers: usize) {
    for node in nodes {
        node.wait_for_peers(peers, None, Some(PATIENCE), &mut || false).unwrap();
    }
}

/// Events so far, as words.
fn words(node: &Node) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(event)) = node.events().try_recv() {
        words.push(format!("{:?}", event.event.kind).split([' ', '(', '{']).next().unwrap().to_owned());
    }
    words
}

#[test]
fn two_nodes_by_beacons() {
    let port = beacon_port();
    let mut with_header = options("one");
    with_header.beacon_port = port;
    let one = Node::new(with_header).unwrap();
    one.set_header("X-ROLE", "edge").unwrap();
    assert!(one.join("CHAT").unwrap(), "also before the start");
    one.start().unwrap();
    let begin = Instant::now();
    let two = start(NodeOptions { beacon_port: port, ..options("two") });
    wait(&[&one, &two], 1);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let (peer, kind) = next(&two);
    assert_eq!(peer, one.uuid());
    assert_eq!(kind, EventKind::Enter { headers: vec![("X-ROLE".into(), "edge".into())] });
    assert_eq!(next(&two), (one.uuid(), EventKind::Join { group: "CHAT".into() }));
    assert_eq!(next(&one).0, two.uuid());

    let content = vec![Bytes::from_static(b"hello"), Bytes::new()];
    assert_eq!(whisper(&two, &one, content.clone()), Delivery::Queued);
    assert_eq!(next(&one), (two.uuid(), EventKind::Whisper { content: content.clone() }));
    let shouted = shout(&two, "CHAT", content.clone());
    assert_eq!(shouted.peers, [(one.uuid(), Delivery::Queued)]);
    assert_eq!(next(&one), (two.uuid(), EventKind::Shout { group: "CHAT".into(), content }));
    assert_eq!(shout(&one, "CHAT", vec![Bytes::from_static(b"x")]).peers, []);
    assert!(one.leave("CHAT").unwrap());
    assert_eq!(next(&two), (one.uuid(), EventKind::Leave { group: "CHAT".into() }));

    // Messages queued at the end are still sent.
    for _ in 0..1000 {
        whisper(&two, &one, vec![Bytes::from(vec![7; 1000])]);
    }
    stop(&two);
    assert_eq!((0..1000).filter(|_| matches!(next(&one).1, EventKind::Whisper { .. })).count(), 1000);
    assert_eq!(next(&one), (two.uuid(), EventKind::Exit));
    assert_eq!(next(&two).1, EventKind::Stop);
    assert!(two.events().is_closed() && !two.is_running());
    assert_eq!(one.doctor().unwrap().senders.len(), 1);
    stop(&one);
}

#[test]
fn many_nodes_by_gossip() {
    let gossiping = |name: &str| {
        let mut options = options(name);
        options.machine.beacon_interval = None;
        options
    };
    let hub = start(gossiping("hub"));
    let endpoint = hub.gossip_bind("tcp://127.0.0.1:*").unwrap();
    let leaves: Vec<Node> = (0..8)
        .map(|number| {
            let mut leaf = gossiping(&format!("leaf{number}"));
            leaf.gossip_connect = vec![endpoint.clone()];
            start(leaf)
        })
        .collect();
    wait(&leaves.iter().chain([&hub]).collect::<Vec<_>>(), 8);
    leaves.iter().for_each(stop);
    // Without beacons a leaving node sends GOODBYE to peers that know it; others let it expire.
    stop(&hub);
}

#[test]
fn curve_keeps_strangers_out() {
    let port = beacon_port();
    let keys = || loop {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).unwrap();
        let pair = KeyPair::of(SecretKey::new(secret));
        if pair.public.0[0] != 0 {
            return Keys { public: pair.public.0, secret };
        }
    };
    let secure = |name: &str| NodeOptions { keys: Some(keys()), beacon_port: port, ..options(name) };
    let (one, two) = (start(secure("one")), start(secure("two")));
    let plain = start(NodeOptions { beacon_port: port, ..options("plain") });
    wait(&[&one, &two], 1);
    whisper(&one, &two, vec![Bytes::from_static(b"sealed")]);
    assert!(matches!(next(&two).1, EventKind::Enter { .. }));
    assert!(matches!(next(&two).1, EventKind::Whisper { .. }));
    // Nodes that are not allowed do not enter, and are not told of this one.
    let strict = start(NodeOptions { allow: Some(std::sync::Arc::new(|_| false)), ..secure("strict") });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(strict.look(|machine| machine.peers().count()).unwrap(), 0);
    assert!(strict.stats().unwrap().machine.endpoints_refused >= 2);
    for node in [&one, &two] {
        assert_eq!(node.look(|machine| machine.peers().count()).unwrap(), 1, "no HELLO of the strict one");
    }
    assert_eq!(plain.look(|machine| machine.peers().count()).unwrap(), 0);
    assert!(plain.doctor().unwrap().ignored.iter().any(|ignored| ignored.count > 0));
    [&one, &two, &plain, &strict].into_iter().for_each(stop);
}

/// A peer that restarts on its port, again and again: one EXIT and one ENTER each time.
#[test]
fn restarts_do_not_flap() {
    let port = beacon_port();
    let watcher = start(NodeOptions { beacon_port: port, ..options("watcher") });
    for round in 0..20 {
        let mut again = NodeOptions { beacon_port: port, ..options("again") };
        again.mailbox = 0..=0;
        let node = start(again);
        wait(&[&watcher, &node], 1);
        stop(&node);
        let end = Instant::now() + PATIENCE;
        while watcher.look(|machine| machine.peers().count()).unwrap() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(words(&watcher), ["Enter", "Exit"], "round {round}");
    }
    stop(&watcher);
}

/// An owner that ignores everything.
struct Deaf;

impl Owner for Deaf {
    fn opened(&self, _: &Arc<Connection>) {}

    fn received(&self, _: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        inbound.clear();
        None
    }

    fn closed(&self, _: Option<&Arc<Connection>>, _: &CloseReason) {}
}

/// A peer sends goodbye and is back with its UUID before its old connection is seen to close: the
/// goodbye belongs to the old session.
#[test]
fn a_goodbye_does_not_reach_the_next_session() {
    let port = beacon_port();
    let node = start(NodeOptions { beacon_port: port, ..options("node") });
    let peer = uuid();
    let hello = || {
        let endpoint = Bytes::from_static(b"tcp://127.0.0.1:9");
        let hello = Hello {
            address: Address::Endpoint(endpoint),
            groups: Vec::new(),
            status: 0,
            name: Bytes::from_static(b"peer"),
            headers: Vec::new(),
        };
        wire::ZreMessage { sequence: 1, body: Body::Hello(hello) }.encode(Generation::Rfc36).unwrap()
    };
    let connect = || {
        let mut handshake = ZmtpHandshakeConfig::new(SocketType::Dealer);
        handshake.identity = IdentityForm::Prefixed.encode(&peer);
        let config = ConnectionConfig::new(handshake);
        let runtime = zwire_engine::runtime::handle().unwrap();
        let endpoint = node.endpoint().unwrap();
        let way =
            Outbound::connect(&runtime, &endpoint, config, Reconnect::default(), Arc::new(Deaf)).unwrap();
        way.try_send(Message::of(hello()).unwrap()).unwrap();
        way
    };
    let _old = connect();
    assert!(matches!(next(&node), (who, EventKind::Enter { .. }) if who == peer));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_broadcast(true).unwrap();
    let goodbye = Beacon { uuid: peer, port: 0, public_key: None }.encode();
    socket.send_to(&goodbye, ("127.255.255.255", port)).unwrap();
    // Waits for the last messages on the old connection.
    std::thread::sleep(Duration::from_millis(50));
    let _new = connect();
    assert_eq!(next(&node), (peer, EventKind::Exit));
    assert!(matches!(next(&node), (who, EventKind::Enter { .. }) if who == peer));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(words(&node), [""; 0]);
    stop(&node);
}

/// A discovery port held exclusively by another process costs only the beacons of others.
#[test]
fn a_taken_port_is_no_end() {
    let taken = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let deaf = start(NodeOptions { beacon_port: port, ..options("deaf") });
    let end = Instant::now() + PATIENCE;
    while deaf.doctor().unwrap().deaf.is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(deaf.doctor().unwrap().deaf.is_some());
    stop(&deaf);
}

#[test]
fn dropping_a_node_stops_it() {
    let port = beacon_port();
    let one = start(NodeOptions { beacon_port: port, ..options("one") });
    let two = start(NodeOptions { beacon_port: port, ..options("two") });
    wait(&[&one, &two], 1);
    drop(two);
    assert!(matches!(next(&one).1, EventKind::Enter { .. }));
    assert_eq!(next(&one).1, EventKind::Exit);
}
