//! Connections of ZMTP over real sockets on loopback: the events for their owner, and the cost of
//! misbehaving peers.

use bytes::Bytes;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};
use zwire_engine::{
    Error, runtime,
    zmtp::{CloseReason, Connection, ConnectionConfig, Listener, Outbound, Owner, Pause, Reconnect, Verdict},
};
use zwire_proto::zmtp::{
    crypto::{KeyPair, SecretKey},
    link::{
        AuthRequest, CurveClient, CurveServer, Denial, Heartbeat, Inbound, Message, PlainCredentials,
        Security, ZmtpHandshakeConfig, ZmtpHandshakeError, ZmtpLinkError, ZmtpPushError,
    },
    wire::{Mechanism, SocketType},
};

const WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Event {
    Opened(Arc<Connection>),
    Received(Inbound),
    Writable,
    Closed(Option<u64>, CloseReason),
}

/// Sends events to a channel.
struct Teller {
    events: parking_lot::Mutex<Sender<Event>>,
    verdict: Verdict,
    /// Stops reading while it is held.
    gate: Option<Arc<tokio::sync::Semaphore>>,
}

impl Owner for Teller {
    fn authenticate(&self, remote: SocketAddr, _: &AuthRequest) -> Verdict {
        assert!(remote.ip().is_loopback());
        self.verdict.clone()
    }

    fn opened(&self, connection: &Arc<Connection>) {
        self.tell(Event::Opened(connection.clone()));
    }

    fn received(&self, _: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        inbound.drain(..).for_each(|item| self.tell(Event::Received(item)));
        let gate = self.gate.clone()?;
        Some(Box::pin(async move { gate.acquire().await.unwrap().forget() }))
    }

    fn writable(&self, _: &Arc<Connection>) {
        self.tell(Event::Writable);
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason) {
        self.tell(Event::Closed(connection.map(|c| c.id), reason.clone()));
    }
}

impl Teller {
    fn tell(&self, event: Event) {
        // The test may be over.
        let _ = self.events.lock().send(event);
    }
}

fn teller(verdict: Verdict, gate: Option<Arc<tokio::sync::Semaphore>>) -> (Arc<dyn Owner>, Receiver<Event>) {
    let (send, receive) = channel();
    (Arc::new(Teller { events: parking_lot::Mutex::new(send), verdict, gate }), receive)
}

fn owner() -> (Arc<dyn Owner>, Receiver<Event>) {
    teller(Verdict::allow(), None)
}

fn config(socket_type: SocketType) -> ConnectionConfig {
    ConnectionConfig::new(ZmtpHandshakeConfig::new(socket_type))
}

fn fast() -> Reconnect {
    let first = Duration::from_millis(10);
    Reconnect { first, max: Duration::from_millis(50), jitter: true, again: true }
}

fn bind(config: ConnectionConfig, owner: Arc<dyn Owner>) -> (Listener, String) {
    let listener = Listener::bind(&runtime::handle().unwrap(), "tcp://127.0.0.1:*", config, owner).unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr());
    (listener, endpoint)
}

fn connect(
    endpoint: &str,
    config: ConnectionConfig,
    reconnect: Reconnect,
    owner: Arc<dyn Owner>,
) -> Arc<Outbound> {
    Outbound::connect(&runtime::handle().unwrap(), endpoint, config, reconnect, owner).unwrap()
}

fn opened(events: &Receiver<Event>) -> Arc<Connection> {
    loop {
        match events.recv_timeout(WAIT).expect("a connection") {
            Event::Opened(connection) => return connection,
            Event::Closed(None, _) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn message(events: &Receiver<Event>) -> Message {
    loop {
        match events.recv_timeout(WAIT).expect("a message") {
            Event::Received(Inbound::Message(message)) => return message,
            Event::Writable | Event::Opened(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn closed(events: &Receiver<Event>) -> CloseReason {
    loop {
        if let Event::Closed(_, reason) = events.recv_timeout(WAIT).expect("an end") {
            return reason;
        }
    }
}

fn text(text: &str) -> Message {
    Message::single(text.to_owned())
}

#[test]
fn messages_go_both_ways_and_ends_are_told_once() {
    let (server, at_server) = owner();
    let (client, at_client) = owner();
    let (listener, endpoint) = bind(config(SocketType::Router), server);
    let mut dealer = config(SocketType::Dealer);
    dealer.handshake = dealer.handshake.with_identity("robot").unwrap();
    let outbound = connect(&endpoint, dealer, fast(), client);
    let there = opened(&at_server);
    assert_eq!(there.peer.identity, "robot");
    assert_eq!(opened(&at_client).remote, listener.local_addr());
    let frames = vec![Bytes::from_static(b"a"), Bytes::new(), Bytes::from(vec![7; 300])];
    outbound.try_send(Message::of(frames.clone()).unwrap()).unwrap();
    assert_eq!(message(&at_server).into_frames(), frames);
    there.try_send(text("back")).unwrap();
    assert_eq!(message(&at_client), text("back"));
    assert_eq!(listener.connections().len(), 1);
    outbound.close();
    assert!(matches!(closed(&at_server), CloseReason::Peer));
    assert!(matches!(closed(&at_client), CloseReason::Local));
    assert!(listener.connections().is_empty());
    let rejected = outbound.try_send(text("late")).unwrap_err();
    assert_eq!((rejected.error, rejected.message), (ZmtpPushError::Closed, text("late")));
    assert!(matches!(there.try_send(text("late")).unwrap_err().error, ZmtpPushError::Closed));
    assert!(at_server.recv_timeout(Duration::from_millis(50)).is_err(), "told once");
}

#[test]
fn what_was_sent_before_the_connection_arrives_first_and_bounded() {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let (client, at_client) = owner();
    let mut dealer = config(SocketType::Dealer);
    dealer.tx.max_messages = 3;
    let outbound = connect(&format!("tcp://{address}"), dealer, fast(), client);
    let taken = outbound.try_send_many(&mut (0..9).map(|n| text(&n.to_string())));
    assert_eq!(taken.0, 3);
    assert_eq!(taken.1.unwrap().message, text("3"));
    assert!(matches!(closed(&at_client), CloseReason::Io(_)), "an attempt that failed is told");
    let (server, at_server) = owner();
    let runtime = runtime::handle().unwrap();
    let _listener =
        Listener::bind(&runtime, &format!("tcp://{address}"), config(SocketType::Router), server).unwrap();
    for n in 0..3 {
        assert_eq!(message(&at_server), text(&n.to_string()));
    }
}

#[test]
fn a_connection_comes_back_when_its_listener_does() {
    let (client, at_client) = owner();
    let (server, at_server) = owner();
    let (listener, endpoint) = bind(config(SocketType::Router), server);
    let outbound = connect(&endpoint, config(SocketType::Dealer), fast(), client);
    opened(&at_client);
    let first = opened(&at_server);
    drop(listener);
    assert!(matches!(closed(&at_server), CloseReason::Local));
    assert!(matches!(closed(&at_client), CloseReason::Peer));
    assert!(first.is_closed());
    outbound.try_send(text("meanwhile")).unwrap();
    let (server, at_server) = owner();
    let _listener =
        Listener::bind(&runtime::handle().unwrap(), &endpoint, config(SocketType::Router), server).unwrap();
    assert_eq!(message(&at_server), text("meanwhile"));
}

#[test]
fn a_closed_listener_has_left_its_port() {
    let (server, _events) = owner();
    let (mut listener, endpoint) = bind(config(SocketType::Router), server.clone());
    for _ in 0..50 {
        drop(listener);
        let again = Listener::bind(
            &runtime::handle().unwrap(),
            &endpoint,
            config(SocketType::Router),
            server.clone(),
        );
        listener = again.unwrap();
        TcpStream::connect(listener.local_addr()).unwrap();
    }
}

#[test]
fn once_means_that_a_broken_connection_stays_broken() {
    let (client, at_client) = owner();
    let (server, at_server) = owner();
    let (_listener, endpoint) = bind(config(SocketType::Router), server);
    let once = Reconnect { again: false, ..fast() };
    let outbound = connect(&endpoint, config(SocketType::Dealer), once, client);
    opened(&at_client);
    opened(&at_server).close();
    assert!(matches!(closed(&at_client), CloseReason::Peer));
    assert!(outbound.is_over());
    assert_eq!(outbound.try_send(text("x")).unwrap_err().error, ZmtpPushError::Closed);
    assert!(at_server.recv_timeout(Duration::from_millis(200)).is_ok(), "the end");
    assert!(at_server.recv_timeout(Duration::from_millis(200)).is_err(), "it does not come again");
}

#[test]
fn large_frames_arrive_whole_among_small_ones() {
    let (server, at_server) = owner();
    let (client, at_client) = owner();
    let (_listener, endpoint) = bind(config(SocketType::Router), server);
    let outbound = connect(&endpoint, config(SocketType::Dealer), fast(), client);
    opened(&at_client);
    let sizes = [0, 1, 255, 256, 4095, 4096, 8192, 40_000, 65_536, 100_000, 1 << 20, 3 << 20, 9 << 20, 17];
    let body = |size: usize| Bytes::from((0..size).map(|i| (i * 31 + size) as u8).collect::<Vec<_>>());
    for round in 0..3 {
        for size in sizes {
            let frames = vec![Bytes::from(format!("{round}/{size}")), body(size)];
            outbound.try_send(Message::of(frames).unwrap()).unwrap();
        }
    }
    for round in 0..3 {
        for size in sizes {
            let frames = message(&at_server).into_frames();
            assert_eq!(frames[0], format!("{round}/{size}"));
            assert!(frames[1] == body(size), "{size}");
        }
    }
}

#[test]
fn a_hundred_thousand_messages_arrive_in_order() {
    const COUNT: u32 = 100_000;
    let (server, at_server) = owner();
    let (client, at_client) = owner();
    let (_listener, endpoint) = bind(config(SocketType::Router), server);
    let outbound = connect(&endpoint, config(SocketType::Dealer), fast(), client);
    opened(&at_client);
    let sender = std::thread::spawn(move || {
        let mut next = 0;
        let end = Instant::now() + WAIT;
        while next < COUNT && Instant::now() < end {
            let mut rest = (next..COUNT).map(|n| Message::single(Bytes::copy_from_slice(&n.to_be_bytes())));
            next += outbound.try_send_many(&mut rest).0 as u32;
            if next < COUNT {
                std::thread::yield_now();
            }
        }
        outbound
    });
    for n in 0..COUNT {
        assert_eq!(message(&at_server).frames()[0], n.to_be_bytes().as_slice());
    }
    let outbound = sender.join().unwrap();
    assert_eq!(outbound.connection().unwrap().stats().tx_messages, u64::from(COUNT));
}

#[test]
fn a_full_queue_rejects_and_says_when_to_go_on() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (server, at_server) = teller(Verdict::allow(), Some(gate.clone()));
    let (client, at_client) = owner();
    let (_listener, endpoint) = bind(config(SocketType::Router), server);
    let mut dealer = config(SocketType::Dealer);
    dealer.tx.max_messages = 10;
    let outbound = connect(&endpoint, dealer, fast(), client);
    opened(&at_client);
    let big = Bytes::from(vec![1; 1 << 20]);
    let mut sent = 0;
    let end = Instant::now() + WAIT;
    // The first message stops the reader; the kernel still accepts what its buffers hold.
    while Instant::now() < end {
        match outbound.try_send(Message::single(big.clone())) {
            Ok(()) => sent += 1,
            Err(rejected) => {
                assert!(matches!(rejected.error, ZmtpPushError::HighWaterMark { waiting: 10 }));
                // The state is stable.
                std::thread::sleep(Duration::from_millis(50));
                if outbound.try_send(rejected.message).is_err() {
                    break;
                }
                sent += 1;
            }
        }
    }
    assert!((10..100).contains(&sent), "{sent}");
    gate.add_permits(1000);
    assert!(matches!(at_client.recv_timeout(WAIT), Ok(Event::Writable)));
    for _ in 0..sent {
        assert_eq!(message(&at_server).cost(), Message::single(big.clone()).cost());
    }
}

#[test]
fn a_silent_peer_is_given_up_and_asked_again() {
    // Sends a greeting, and then stays silent.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", mute.local_addr().unwrap());
    let greeter = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = mute.accept().unwrap();
            stream.write_all(&hello_of_router()).unwrap();
            kept.push(stream);
        }
        std::thread::sleep(Duration::from_millis(500));
    });
    let (client, at_client) = owner();
    let heartbeat = Some(Heartbeat::every(Duration::from_millis(50), 2));
    let mut dealer = config(SocketType::Dealer);
    (dealer.tx.heartbeat, dealer.rx.heartbeat) = (heartbeat, heartbeat);
    let _outbound = connect(&endpoint, dealer, fast(), client);
    opened(&at_client);
    assert!(matches!(closed(&at_client), CloseReason::Silent));
    opened(&at_client);
    greeter.join().unwrap();
}

/// Greeting of 3.1 with NULL, and READY (`zmtp` 15.1, 15.3).
fn hello_of_router() -> Vec<u8> {
    let mut out = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    out.extend_from_slice(b"NULL");
    out.resize(64, 0);
    out.extend_from_slice(b"\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0");
    out
}

fn key(first: u8) -> KeyPair {
    KeyPair::of(SecretKey::new(core::array::from_fn(|i| first + i as u8)))
}

fn curve(server: KeyPair, authenticate: bool) -> (ConnectionConfig, ConnectionConfig) {
    let mut router = config(SocketType::Router);
    let mut dealer = config(SocketType::Dealer);
    let public = server.public;
    router.handshake.security =
        Security::CurveServer(Box::new(CurveServer::new(server, authenticate, &[0; 96])));
    dealer.handshake.security =
        Security::CurveClient(Box::new(CurveClient::new(key(0x40), public, &[0; 48])));
    (router, dealer)
}

#[test]
fn curve_keeps_what_is_said_between_two() {
    let (router, dealer) = curve(key(0x20), true);
    let (server, at_server) = owner();
    let (client, at_client) = owner();
    let (_listener, endpoint) = bind(router, server);
    let outbound = connect(&endpoint, dealer, fast(), client);
    for n in 0..100 {
        outbound.try_send(text(&n.to_string())).unwrap();
    }
    let there = opened(&at_server);
    for n in 0..100 {
        assert_eq!(message(&at_server), text(&n.to_string()));
    }
    there.try_send(Message::single(vec![3; 200_000])).unwrap();
    assert_eq!(message(&at_client), Message::single(vec![3; 200_000]));
}

#[test]
fn a_wrong_server_key_has_a_reason_on_both_sides() {
    let (router, _) = curve(key(0x20), false);
    let (_, dealer) = curve(key(0x21), false);
    let (server, at_server) = owner();
    let (client, at_client) = owner();
    let (_listener, endpoint) = bind(router, server);
    let _outbound = connect(&endpoint, dealer, fast(), client);
    let reason = closed(&at_client);
    assert!(
        matches!(reason, CloseReason::ClosedInHandshake { mechanism: Mechanism::CURVE, answered: false }),
        "{reason:?}"
    );
    assert!(reason.to_string().contains("wrong server key?"));
    let reason = closed(&at_server);
    let sealed = ZmtpHandshakeError::Sealed { command: "HELLO" };
    assert!(matches!(&reason, CloseReason::Handshake(error) if *error == sealed), "{reason:?}");
}

#[test]
fn a_refused_peer_hears_why_and_stays_away() {
    let (server, at_server) = teller(Verdict::Deny(Denial::Refused), None);
    let (client, at_client) = owner();
    let mut router = config(SocketType::Router);
    router.handshake.security = Security::PlainServer;
    let mut dealer = config(SocketType::Dealer);
    dealer.handshake.security =
        Security::PlainClient(PlainCredentials { username: "a".into(), password: "b".into() });
    let (_listener, endpoint) = bind(router, server);
    let outbound = connect(&endpoint, dealer, fast(), client);
    let reason = closed(&at_client);
    let told = ZmtpHandshakeError::Peer { reason: "400".into() };
    assert!(matches!(&reason, CloseReason::Handshake(error) if *error == told), "{reason:?}");
    assert!(outbound.is_over());
    let denied = ZmtpHandshakeError::Denied(Denial::Refused);
    assert!(matches!(closed(&at_server), CloseReason::Handshake(error) if error == denied));
    assert!(at_server.recv_timeout(Duration::from_millis(200)).is_err());
}

#[test]
fn mismatches_are_told() {
    let (server, _at_server) = owner();
    let (listener, endpoint) = bind(config(SocketType::Router), server);
    let (client, at_client) = owner();
    let _publisher = connect(&endpoint, config(SocketType::Pub), fast(), client);
    assert!(matches!(closed(&at_client), CloseReason::Handshake(_)));
    let (client, at_client) = owner();
    let (_, dealer) = curve(key(0x20), false);
    let _dealer = connect(&endpoint, dealer, fast(), client);
    let reason = closed(&at_client);
    assert!(matches!(reason, CloseReason::Handshake(ZmtpHandshakeError::Mechanism { .. })), "{reason:?}");
    assert!(listener.connections().is_empty());
}

#[test]
fn wrong_endpoints_are_errors_at_once() {
    let runtime = runtime::handle().unwrap();
    let (nobody, _events) = owner();
    let dealer = config(SocketType::Dealer);
    for endpoint in ["tcp/127.0.0.1:1", "tcp://127.0.0.1", "tcp://*:1", "ipc://x"] {
        let result = Outbound::connect(&runtime, endpoint, dealer.clone(), fast(), nobody.clone());
        assert!(matches!(result, Err(Error::Endpoint(_))), "{endpoint}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", taken.local_addr().unwrap());
    let result = Listener::bind(&runtime, &endpoint, dealer, nobody);
    assert!(matches!(result, Err(Error::Listen { .. })));
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn claims_of_rude_peers_cost_nothing_and_harm_nobody() {
    let (server, at_server) = owner();
    let mut router = config(SocketType::Router);
    router.max_handshakes = 8;
    let (listener, endpoint) = bind(router, server);
    let address = listener.local_addr();
    let before = resident();
    // Announces 200 MiB, and sends a little of it.
    let mut claims = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&hello_of_router()).unwrap();
        opened(&at_server);
        stream.write_all(&[2, 0, 0, 0, 0, 12, 128, 0, 0]).unwrap();
        stream.write_all(&[7; 40_000]).unwrap();
        claims.push(stream);
    }
    // 4 GiB is more than a message may have.
    let mut greedy = TcpStream::connect(address).unwrap();
    greedy.write_all(&hello_of_router()).unwrap();
    greedy.write_all(&[2, 0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
    let reason = closed(&at_server);
    assert!(matches!(reason, CloseReason::Protocol(ZmtpLinkError::TooLarge { .. })), "{reason:?}");
    // Silent peers: all but eight are closed.
    let mute: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (client, at_client) = owner();
    let outbound = connect(&endpoint, config(SocketType::Dealer), fast(), client);
    outbound.try_send(text("still there")).unwrap();
    opened(&at_client);
    loop {
        match at_server.recv_timeout(WAIT).unwrap() {
            Event::Received(Inbound::Message(message)) => break assert_eq!(message, text("still there")),
            Event::Closed(..) | Event::Opened(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let grown = resident().saturating_sub(before);
    // Together they announce 10 GB. Other tests of this process are counted as well.
    assert!(grown < 128 << 20, "{grown} bytes for 50 claims");
    let gone = mute.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut all = Vec::new();
        (&**stream).read_to_end(&mut all).is_ok()
    });
    assert!(gone.count() >= 90);
}
