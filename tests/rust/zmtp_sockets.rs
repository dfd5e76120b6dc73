//! ROUTER, DEALER, PUB and SUB over loopback, with the behaviour described for libzmq (`zmtp` 12).

use bytes::Bytes;
use std::{
    net::TcpListener,
    time::{Duration, Instant},
};
use zwire_engine::{
    Error, RecvError,
    zmtp::{CloseReason, Event, EventKind, Reconnect, Socket, SocketError, SocketOptions},
};
use zwire_proto::zmtp::{
    link::{Message, PlainCredentials, Security, ZmtpHandshakeError},
    wire::SocketType::{self, Dealer, Pub, Router, Sub},
};

const WAIT: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(100);

fn never() -> impl FnMut() -> bool {
    || false
}

fn options(socket_type: SocketType) -> SocketOptions {
    let first = Duration::from_millis(10);
    let reconnect = Reconnect { first, max: first, jitter: false, again: true };
    SocketOptions { reconnect, ..SocketOptions::new(socket_type) }
}

fn open(socket_type: SocketType) -> Socket {
    Socket::open(options(socket_type)).unwrap()
}

fn named(identity: &'static str) -> SocketOptions {
    let mut options = options(Dealer);
    options.connection.handshake = options.connection.handshake.with_identity(identity).unwrap();
    options
}

fn bound(options: SocketOptions) -> (Socket, String) {
    let socket = Socket::open(options).unwrap();
    let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
    (socket, endpoint)
}

fn connected(options: SocketOptions, endpoint: &str) -> Socket {
    let socket = Socket::open(options).unwrap();
    socket.connect(endpoint, Some(WAIT), &mut never()).unwrap();
    socket
}

fn message(frames: &[&str]) -> Message {
    Message::of(frames.iter().map(|frame| Bytes::copy_from_slice(frame.as_bytes())).collect()).unwrap()
}

fn send(socket: &Socket, frames: &[&str]) {
    socket.send(message(frames), Some(WAIT), &mut never()).unwrap();
}

fn recv(socket: &Socket) -> Vec<Bytes> {
    socket.recv(Some(WAIT), &mut never()).unwrap().message.into_frames()
}

fn nothing(socket: &Socket) {
    assert_eq!(socket.recv(Some(SOON), &mut never()).unwrap_err(), RecvError::Timeout);
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn event(socket: &Socket, name: &str) -> Event {
    let end = Instant::now() + WAIT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = socket.events().recv(Some(left), &mut never()).expect(name);
        if event.kind.name() == name {
            return event;
        }
    }
}

/// An endpoint without a listener.
fn nobody() -> String {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp://{}", probe.local_addr().unwrap())
}

#[test]
fn a_router_answers_each_dealer_under_its_identity() {
    let (router, endpoint) = bound(options(Router));
    let robot = connected(named("robot"), &endpoint);
    let anonymous = connected(options(Dealer), &endpoint);
    send(&robot, &["hello", "", "x"]);
    let got = router.recv(Some(WAIT), &mut never()).unwrap();
    assert_eq!((&got.identity[..], got.message), (&b"robot"[..], message(&["hello", "", "x"])));
    send(&anonymous, &["hi"]);
    let made_up = router.recv(Some(WAIT), &mut never()).unwrap().identity;
    assert_eq!((made_up.len(), made_up[0]), (5, 0));
    send(&router, &["robot", "back"]);
    assert_eq!(recv(&robot), ["back"]);
    let to = Message::of(vec![made_up, Bytes::from_static(b"you")]).unwrap();
    router.send(to, None, &mut never()).unwrap();
    assert_eq!(recv(&anonymous), ["you"]);
    assert_eq!(router.identities().len(), 2);
}

#[test]
fn what_a_router_cannot_deliver_is_dropped_unless_it_is_mandatory() {
    let (router, _) = bound(options(Router));
    send(&router, &["nobody", "x"]);
    assert_eq!(router.stats()["sent.dropped_unroutable"], 1);
    assert!(matches!(router.send(message(&["alone"]), None, &mut never()), Err(SocketError::NoIdentity)));
    let (router, endpoint) = bound(SocketOptions { mandatory: true, ..options(Router) });
    let sent = router.send(message(&["nobody", "x"]), None, &mut never());
    assert!(matches!(sent, Err(SocketError::Unreachable { identity }) if identity == "nobody"));
    let robot = connected(named("robot"), &endpoint);
    eventually("known", || router.identities().len() == 1);
    send(&router, &["robot", "x"]);
    assert_eq!(recv(&robot), ["x"]);
}

#[test]
fn an_identity_that_is_taken_keeps_the_newcomer_out() {
    let (router, endpoint) = bound(options(Router));
    let first = connected(named("robot"), &endpoint);
    event(&router, "CONNECTED");
    let second = connected(named("robot"), &endpoint);
    assert_eq!(event(&router, "IDENTITY_TAKEN").identity, "robot");
    send(&first, &["first"]);
    assert_eq!(recv(&router), ["first"]);
    send(&router, &["robot", "to the first"]);
    assert_eq!(recv(&first), ["to the first"]);
    // After the first has gone, the other is accepted by itself.
    drop(first);
    event(&router, "DISCONNECTED");
    event(&router, "CONNECTED");
    send(&second, &["second"]);
    assert_eq!(recv(&router), ["second"]);
}

#[test]
fn handover_gives_the_identity_to_the_newcomer() {
    let (router, endpoint) = bound(SocketOptions { handover: true, ..options(Router) });
    let mut once = named("robot");
    once.reconnect.again = false;
    let first = connected(once, &endpoint);
    event(&router, "CONNECTED");
    let second = connected(named("robot"), &endpoint);
    assert_eq!(event(&router, "HANDED_OVER").identity, "robot");
    send(&router, &["robot", "x"]);
    assert_eq!(recv(&second), ["x"]);
    let end = event(&first, "DISCONNECTED").kind;
    assert!(matches!(end, EventKind::Disconnected(CloseReason::Peer)), "{end:?}");
    send(&second, &["y"]);
    assert_eq!(recv(&router), ["y"]);
}

/// "3 messages sent before the listener answered arrived after the handshake." "With SNDHWM 3 and SNDTIMEO 0
/// exactly 3 were accepted, then EAGAIN."
#[test]
fn a_dealer_queues_before_its_connection_up_to_the_mark() {
    let endpoint = nobody();
    let mut three = options(Dealer);
    three.connection.tx.max_messages = 3;
    let dealer = Socket::open(three).unwrap();
    let zero = Some(Duration::ZERO);
    assert!(matches!(dealer.send(message(&["-"]), zero, &mut never()), Err(SocketError::Nobody)));
    dealer.connect(&endpoint, None, &mut never()).unwrap();
    for n in ["0", "1", "2"] {
        dealer.send(message(&[n]), zero, &mut never()).unwrap();
    }
    assert!(matches!(dealer.send(message(&["3"]), zero, &mut never()), Err(SocketError::Full)));
    let start = Instant::now();
    let late = dealer.send(message(&["3"]), Some(SOON), &mut never());
    assert!(matches!(late, Err(SocketError::Engine(Error::TimedOut { .. }))), "{late:?}");
    assert!(start.elapsed() >= SOON);
    let router = open(Router);
    router.bind(&endpoint).unwrap();
    for n in ["0", "1", "2"] {
        assert_eq!(recv(&router), [n]);
    }
}

/// "With IMMEDIATE=1 and no finished handshake: EAGAIN at once."
#[test]
fn an_immediate_dealer_queues_for_nobody() {
    let endpoint = nobody();
    let dealer = Socket::open(SocketOptions { immediate: true, ..options(Dealer) }).unwrap();
    dealer.connect(&endpoint, None, &mut never()).unwrap();
    let sent = dealer.send(message(&["x"]), Some(Duration::ZERO), &mut never());
    assert!(matches!(sent, Err(SocketError::Nobody)), "{sent:?}");
    let router = open(Router);
    router.bind(&endpoint).unwrap();
    // Waits for the connection.
    send(&dealer, &["y"]);
    assert_eq!(recv(&router), ["y"]);
    router.close(None, &mut never()).unwrap();
    eventually("gone", || dealer.connected() == 0);
    let sent = dealer.send(message(&["x"]), Some(Duration::ZERO), &mut never());
    assert!(matches!(sent, Err(SocketError::Nobody)), "{sent:?}");
}

#[test]
fn a_dealer_deals_by_turns_among_connections_of_both_directions() {
    let (a, at_a) = bound(options(Router));
    let b = open(Router);
    let dealer = connected(options(Dealer), &at_a);
    let endpoint = dealer.bind("tcp://127.0.0.1:*").unwrap();
    b.connect(&endpoint, Some(WAIT), &mut never()).unwrap();
    eventually("both", || dealer.connected() == 2);
    (0..10).for_each(|n| send(&dealer, &[&n.to_string()]));
    let got: Vec<_> = (0..5).map(|_| (recv(&a), recv(&b))).collect();
    nothing(&a);
    nothing(&b);
    assert_eq!(got.len(), 5);
}

#[test]
fn a_message_sent_while_the_connection_is_down_arrives_on_the_next() {
    let (router, endpoint) = bound(options(Router));
    let dealer = connected(options(Dealer), &endpoint);
    router.close(None, &mut never()).unwrap();
    eventually("gone", || dealer.connected() == 0);
    send(&dealer, &["later"]);
    let router = open(Router);
    router.bind(&endpoint).unwrap();
    assert_eq!(recv(&router), ["later"]);
}

#[test]
fn subscribers_get_what_they_want_once_and_again_after_a_restart() {
    let (publisher, endpoint) = bound(options(Pub));
    let sub = open(Sub);
    sub.subscribe(&Bytes::from_static(b"temp")).unwrap();
    sub.subscribe(&Bytes::from_static(b"temperature")).unwrap();
    sub.connect(&endpoint, Some(WAIT), &mut never()).unwrap();
    let all = connected(options(Sub), &endpoint);
    all.subscribe(&Bytes::new()).unwrap();
    let publish = |publisher: &Socket, frames: &[&str]| send(publisher, frames);
    // A subscription takes some time.
    eventually("subscribed", || {
        publish(&publisher, &["temperature/1", "21"]);
        all.inbox().try_recv().unwrap().is_some() && sub.inbox().try_recv().unwrap().is_some()
    });
    std::thread::sleep(SOON);
    while sub.inbox().try_recv().unwrap().is_some() {}
    publish(&publisher, &["humidity", "40"]);
    publish(&publisher, &["temp", "x"]);
    assert_eq!(recv(&sub), ["temp", "x"]);
    assert!(sub.cancel(&Bytes::from_static(b"temp")).unwrap());
    assert!(!sub.cancel(&Bytes::from_static(b"temp")).unwrap());
    publish(&publisher, &["temp", "y"]);
    publish(&publisher, &["temperature", "z"]);
    assert_eq!(recv(&sub), ["temperature", "z"]);
    publisher.close(None, &mut never()).unwrap();
    eventually("gone", || sub.connected() == 0);
    let publisher = open(Pub);
    publisher.bind(&endpoint).unwrap();
    eventually("subscribed again", || {
        publish(&publisher, &["temperature/2"]);
        sub.inbox().try_recv().unwrap().is_some()
    });
    assert!(matches!(sub.send(message(&["x"]), None, &mut never()), Err(SocketError::Unsupported { .. })));
    assert!(matches!(all.cancel(&Bytes::from_static(b"?")), Ok(false)));
}

/// "drop whole message for that subscriber, others unaffected, never blocks"
#[test]
fn a_slow_subscriber_loses_messages_and_delays_nobody() {
    let mut five = options(Pub);
    five.connection.tx.max_messages = 5;
    let (publisher, endpoint) = bound(five);
    let mut little = options(Sub);
    little.max_received = 1;
    let slow = connected(little, &endpoint);
    slow.subscribe(&Bytes::new()).unwrap();
    let body = "x".repeat(100_000);
    eventually("subscribed", || {
        send(&publisher, &["first"]);
        slow.inbox().try_recv().unwrap().is_some()
    });
    let start = Instant::now();
    for n in 0..500 {
        send(&publisher, &[&n.to_string(), &body]);
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    let dropped = publisher.stats()["sent.dropped_full"];
    assert!(dropped > 100, "{dropped}");
    // Received messages are in order, with gaps.
    let mut last = None;
    let mut got = 0;
    while let Ok(received) = slow.recv(Some(SOON), &mut never()) {
        let frames = received.message.into_frames();
        if frames.len() == 2 {
            let n: u32 = std::str::from_utf8(&frames[0]).unwrap().parse().unwrap();
            assert!(last.is_none_or(|last| n > last));
            last = Some(n);
            got += 1;
        }
    }
    assert_eq!(got + dropped, 500);
}

/// "incoming queue full: stop reading the TCP connection"
#[test]
fn a_full_inbox_holds_its_senders_and_loses_nothing() {
    const COUNT: u32 = 5000;
    let (router, endpoint) = bound(SocketOptions { max_received: 10, ..options(Router) });
    let dealer = connected(options(Dealer), &endpoint);
    let sender = std::thread::spawn(move || {
        let mut messages = (0..COUNT).map(|n| {
            let body = Bytes::from(vec![n as u8; 10_000]);
            Message::of(vec![Bytes::copy_from_slice(&n.to_be_bytes()), body]).unwrap()
        });
        let (taken, result) = dealer.send_many(&mut messages, Some(WAIT), &mut never());
        result.unwrap();
        (taken, dealer)
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!sender.is_finished(), "50 MB do not fit anywhere");
    assert!(router.inbox().len() < 100, "{}", router.inbox().len());
    for n in 0..COUNT {
        assert_eq!(recv(&router)[0], n.to_be_bytes().as_slice());
    }
    assert_eq!(sender.join().unwrap().0, COUNT as usize);
}

#[test]
fn closing_lingers_until_all_is_written_or_the_time_is_over() {
    let endpoint = nobody();
    let dealer = open(Dealer);
    dealer.connect(&endpoint, None, &mut never()).unwrap();
    send(&dealer, &["x"]);
    let start = Instant::now();
    dealer.close(Some(SOON), &mut never()).unwrap();
    assert!((SOON..SOON * 20).contains(&start.elapsed()));
    assert!(matches!(
        dealer.send(message(&["y"]), None, &mut never()),
        Err(SocketError::Engine(Error::Closed))
    ));
    let dealer = open(Dealer);
    dealer.connect(&endpoint, None, &mut never()).unwrap();
    send(&dealer, &["z"]);
    let router = open(Router);
    router.bind(&endpoint).unwrap();
    dealer.close(None, &mut never()).unwrap();
    assert_eq!(recv(&router), ["z"]);
}

#[test]
fn who_is_not_let_in_is_told_so() {
    let mut router = options(Router);
    router.connection.handshake.security = Security::PlainServer;
    router.authenticator = Some(std::sync::Arc::new(|remote, request| {
        assert!(remote.ip().is_loopback());
        if request.credentials == ["robot", "secret"] {
            zwire_engine::zmtp::Verdict::allow()
        } else {
            zwire_engine::zmtp::Verdict::Deny(zwire_proto::zmtp::link::Denial::Refused)
        }
    }));
    let (router, endpoint) = bound(router);
    let plain = |password: &'static str| {
        let credentials = PlainCredentials { username: "robot".into(), password: password.into() };
        let mut dealer = options(Dealer);
        dealer.connection.handshake.security = Security::PlainClient(credentials);
        Socket::open(dealer).unwrap()
    };
    let right = plain("secret");
    right.connect(&endpoint, Some(WAIT), &mut never()).unwrap();
    send(&right, &["x"]);
    assert_eq!(recv(&router), ["x"]);
    let wrong = plain("password");
    let error = wrong.connect(&endpoint, Some(WAIT), &mut never()).unwrap_err();
    let told = |error: &SocketError| {
        let refused = ZmtpHandshakeError::Peer { reason: "400".into() };
        matches!(error, SocketError::NotConnected { reason: CloseReason::Handshake(e), .. } if *e == refused)
    };
    assert!(told(&error), "{error:?}");
    // A send without a time limit fails as well, instead of blocking.
    let error = wrong.send(message(&["x"]), None, &mut never()).unwrap_err();
    assert!(told(&error), "{error:?}");
    assert!(matches!(event(&wrong, "FAILED").kind, EventKind::Failed(CloseReason::Handshake(_))));
}

#[test]
fn endpoints_are_released() {
    let (router, endpoint) = bound(options(Router));
    let dealer = connected(options(Dealer), &endpoint);
    assert!(matches!(router.release("tcp://127.0.0.1:1"), Err(SocketError::NoSuchEndpoint(_))));
    router.release(&endpoint).unwrap();
    eventually("gone", || dealer.connected() == 0 && router.endpoints().is_empty());
    dealer.release(&endpoint).unwrap();
    let sent = dealer.send(message(&["x"]), Some(Duration::ZERO), &mut never());
    assert!(matches!(sent, Err(SocketError::Nobody)));
}
