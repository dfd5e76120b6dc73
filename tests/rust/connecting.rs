//! Choice and duration of connections: real sockets on loopback. The figures are printed with
//! `--nocapture`.
#![allow(clippy::print_stderr, reason = "figures for people")]

use socket2::{Domain, Socket, Type};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};
use zwire_engine::{Config, Error, Session};

const WAIT: Duration = Duration::from_secs(10);
const QUIET: &str = "scouting: {multicast: {enabled: false}}";

fn open(json: &str) -> Session {
    try_open(json).unwrap()
}

fn try_open(json: &str) -> Result<Session, Error> {
    Session::open(&Config::from_json5(json).unwrap(), &mut || false)
}

/// A peer that listens on a free port of loopback.
fn peer(extra: &str) -> (Session, SocketAddr) {
    let session =
        open(&format!("{{mode: 'peer', listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {QUIET}, {extra}}}"));
    let address = address(&session);
    (session, address)
}

/// Address of its first listener, which is a TCP one.
fn address(session: &Session) -> SocketAddr {
    session.listening()[0].strip_prefix("tcp/").unwrap().parse().unwrap()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn live(session: &Session) -> usize {
    session.links().iter().filter(|link| !link.is_closed()).count()
}

/// An address that does not answer, like that of a missing host: a listener with a full queue.
struct Dead {
    address: SocketAddr,
    _listener: Socket,
    _queued: Vec<Socket>,
}

impl Dead {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let queued = (0..4)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_nonblocking(true).unwrap();
                // The socket does not block: some connections are accepted, the others fill the queue.
                let _ = socket.connect(&address.into());
                socket
            })
            .collect();
        let dead = Self { address, _listener: listener, _queued: queued };
        let patience = Duration::from_millis(50);
        assert!(TcpStream::connect_timeout(&address, patience).is_err(), "it answers");
        dead
    }
}

/// A reserved port without a listener.
fn reserved() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// "20 peers, each advertising 5 dead addresses and 1 good, are connected within 2 s."
#[test]
fn twenty_peers_with_five_dead_addresses_each() {
    let dead: Vec<Dead> = (0..5).map(|_| Dead::new()).collect();
    let others: Vec<_> = (0..20).map(|_| peer("")).collect();
    let groups: Vec<String> = others
        .iter()
        .map(|(_, good)| {
            let addresses = dead.iter().map(|dead| dead.address).chain([*good]);
            let locators: Vec<String> = addresses.map(|address| format!("'tcp/{address}'")).collect();
            format!("{{strategy: 'oneOf', locators: [{}]}}", locators.join(", "))
        })
        .collect();
    let start = Instant::now();
    let (session, _) = peer(&format!("connect: {{endpoints: [{}]}}", groups.join(", ")));
    eventually("twenty links", || live(&session) == 20);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    eprintln!("20 peers with 5 dead addresses each: {took:?}");
}

#[test]
fn of_two_peers_that_connect_to_each_other_one_link_remains() {
    for round in 0..20 {
        let (first, second) = (reserved(), reserved());
        let node = |(own, other): (SocketAddr, SocketAddr)| {
            std::thread::spawn(move || {
                open(&format!(
                    "{{mode: 'peer', listen: {{endpoints: ['tcp/{own}']}}, connect: {{endpoints: ['tcp/{other}'],
                      retry: {{period_init_ms: 20, period_max_ms: 20}}}}, {QUIET}}}"
                ))
            })
        };
        let (one, two) = (first.1, second.1);
        drop((first, second));
        let (a, b) = (node((one, two)), node((two, one)));
        let (a, b) = (a.join().unwrap(), b.join().unwrap());
        eventually("a link", || live(&a) == 1 && live(&b) == 1);
        let (before, other) = (a.links()[0].clone(), b.links()[0].clone());
        // The state is stable: no link is added or removed.
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            assert_eq!((live(&a), live(&b)), (1, 1), "round {round}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!before.is_closed() && !other.is_closed(), "round {round}: the link changed");
    }
}

#[test]
fn a_client_takes_the_first_endpoint_that_answers_and_comes_back() {
    let hub_on =
        |endpoint: &str| open(&format!("{{mode: 'router', listen: {{endpoints: ['{endpoint}']}}, {QUIET}}}"));
    let dead = Dead::new();
    let (hub, spare) = (hub_on("tcp/127.0.0.1:0"), hub_on("tcp/127.0.0.1:0"));
    let (address, other) = (address(&hub), address(&spare));
    let start = Instant::now();
    let client = open(&format!(
        "{{mode: 'client', connect: {{endpoints: ['tcp/{}', 'tcp/{address}', 'tcp/{other}']}}, {QUIET}}}",
        dead.address
    ));
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}: a dead endpoint holds nothing up",
        start.elapsed()
    );
    assert_eq!(client.links()[0].params.remote.zid, hub.zid());
    let start = Instant::now();
    hub.close().unwrap();
    eventually("the spare hub", || {
        client.links().iter().any(|link| !link.is_closed() && link.params.remote.zid == spare.zid())
    });
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    spare.close().unwrap();
    let back = hub_on(&format!("tcp/{address}"));
    eventually("the hub again", || {
        client.links().iter().any(|link| !link.is_closed() && link.params.remote.zid == back.zid())
    });
}

/// The other side has not noticed the loss of the link yet: it refuses, and is retried soon.
#[test]
fn a_refusal_because_of_the_old_link_is_no_long_pause() {
    let hub = open(&format!("{{mode: 'router', listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {QUIET}}}"));
    let at = hub.listening()[0].clone();
    let again = format!(
        "{{mode: 'client', id: 'a1', connect: {{endpoints: ['{at}'], timeout_ms: 0, exit_on_failure: false,
          retry: {{period_init_ms: 4000}}}}, {QUIET}}}"
    );
    let old = open(&again);
    assert_eq!(live(&old), 1);
    let new = open(&again);
    assert_eq!(live(&new), 0, "refused");
    let start = Instant::now();
    old.close().unwrap();
    eventually("the place of the old one", || live(&new) == 1);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn opening_fails_only_where_it_was_asked_to() {
    let (_held, address) = reserved();
    let connect = |mode: &str, rest: &str| {
        try_open(&format!(
            "{{mode: '{mode}', listen: {{endpoints: []}}, connect: {{endpoints: ['tcp/{address}'], {rest}}}, {QUIET}}}"
        ))
    };
    let start = Instant::now();
    let error = connect("client", "").err().expect("no listener").to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    assert!(connect("peer", "exit_on_failure: true, timeout_ms: 0").is_err());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}: one attempt each", start.elapsed());
    let start = Instant::now();
    let rules = "exit_on_failure: true, timeout_ms: 400, retry: {period_init_ms: 100}";
    assert!(connect("peer", rules).is_err());
    assert!((400..1500).contains(&start.elapsed().as_millis()), "{:?}: the budget", start.elapsed());
    let start = Instant::now();
    let peer = connect("peer", "").unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(450),
        "{:?}: what fails is not waited for",
        start.elapsed()
    );
    assert!(peer.links().is_empty());
    let client = connect("client", "exit_on_failure: false").unwrap();
    assert!(client.links().is_empty());
    let late = open(&format!("{{mode: 'router', listen: {{endpoints: ['tcp/{address}']}}, {QUIET}}}"));
    eventually("both go on trying", || live(&late) == 2);
}

#[test]
fn opening_waits_until_the_other_peer_has_told_what_it_has() {
    let (_other, address) = peer("");
    let start = Instant::now();
    let (session, _) = peer(&format!("connect: {{endpoints: ['tcp/{address}']}}"));
    assert_eq!(live(&session), 1);
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}

#[test]
fn a_listener_is_bound_within_its_budget() {
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = held.local_addr().unwrap();
    let listen = |rules: &str| {
        try_open(&format!(
            "{{mode: 'peer', listen: {{endpoints: ['tcp/{address}'], retry: {{period_init_ms: 50}}, {rules}}}, {QUIET}}}"
        ))
    };
    let start = Instant::now();
    assert!(listen("").is_err(), "one attempt by default");
    assert!(start.elapsed() < Duration::from_millis(300));
    assert!(listen("timeout_ms: 300").is_err());
    assert!((300..1500).contains(&start.elapsed().as_millis()), "{:?}: the budget", start.elapsed());
    let start = Instant::now();
    let session = listen("timeout_ms: -1, exit_on_failure: false").unwrap();
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}: it goes on without", start.elapsed());
    assert!(session.listening().is_empty());
    drop(held);
    eventually("it listens at last", || session.listening() == [format!("tcp/{address}")]);
    session.close().unwrap();
    let mut held = None;
    eventually("the place is free", || {
        held = TcpListener::bind(address).ok();
        held.is_some()
    });
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(held);
    });
    let session = listen("timeout_ms: -1").unwrap();
    assert_eq!(session.listening(), [format!("tcp/{address}")]);
    release.join().unwrap();
}
