//! Nodes that find each other: by multicast on the loopback, each test with a port of its own, and by
//! gossip.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};
use zwire_engine::{Config, Error, Handler, Session, config::Roles, scouting};
use zwire_proto::zenoh::{WhatAmI, ZenohId};

const WAIT: Duration = Duration::from_secs(10);

/// A group that no other test uses.
fn group() -> SocketAddr {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    SocketAddr::from(([224, 0, 0, 224], free))
}

type Settings<'a> = &'a [(&'a str, &'a str)];

fn config(mode: &str, group: SocketAddr, settings: Settings<'_>) -> Config {
    let mut config = Config::from_json5(&format!(
        "{{mode: '{mode}', scouting: {{multicast: {{address: '{group}', interface: 'lo'}}}},
          listen: {{endpoints: {{router: ['tcp/127.0.0.1:0'], peer: ['tcp/127.0.0.1:0'], client: []}}}}}}"
    ))
    .unwrap();
    for (path, value) in settings {
        config.insert_json5(path, value).unwrap();
    }
    config
}

fn open(mode: &str, group: SocketAddr, settings: Settings<'_>) -> Session {
    try_open(mode, group, settings).unwrap()
}

fn try_open(mode: &str, group: SocketAddr, settings: Settings<'_>) -> Result<Session, Error> {
    Session::open(&config(mode, group, settings), &mut || false)
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ids of the neighbours, sorted.
fn neighbours(session: &Session) -> Vec<ZenohId> {
    let live = session.links().into_iter().filter(|link| !link.is_closed());
    let mut all: Vec<ZenohId> = live.map(|link| link.params.remote.zid).collect();
    all.sort();
    all
}

#[test]
fn peers_find_each_other_and_stay_linked_once() {
    let group = group();
    let all: Vec<Session> = (0..4).map(|_| open("peer", group, &[])).collect();
    eventually("a mesh", || all.iter().all(|session| neighbours(session).len() == 3));
    let links: Vec<_> = all.iter().flat_map(Session::links).collect();
    // The next SCOUT changes nothing.
    std::thread::sleep(Duration::from_millis(1300));
    assert!(links.iter().all(|link| !link.is_closed()), "a link was replaced");
    for session in &all {
        let mut neighbours = neighbours(session);
        neighbours.dedup();
        assert_eq!(neighbours.len(), 3);
    }
}

#[test]
fn peers_that_start_at_once_have_one_link() {
    for _ in 0..5 {
        let group = group();
        let start = || std::thread::spawn(move || open("peer", group, &[]));
        let all: Vec<Session> = [start(), start(), start()].map(|thread| thread.join().unwrap()).into();
        eventually("a mesh", || all.iter().all(|session| neighbours(session).len() == 2));
    }
}

#[test]
fn opening_beside_a_peer_does_not_take_the_whole_delay() {
    let group = group();
    let first = open("peer", group, &[]);
    let start = Instant::now();
    let second = open("peer", group, &[]);
    let took = start.elapsed();
    assert_eq!(neighbours(&second), [first.zid()]);
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[test]
fn a_client_finds_a_router_and_finds_the_next_one() {
    let group = group();
    let router = open("router", group, &[]);
    let _peer = open("peer", group, &[("scouting/gossip/enabled", "false")]);
    let start = Instant::now();
    let client = open("client", group, &[]);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(neighbours(&client), [router.zid()], "a router is preferred");
    router.close().unwrap();
    drop(router);
    let next = open("router", group, &[]);
    eventually("another neighbour", || {
        let now = neighbours(&client);
        now.len() == 1 && now != [client.zid()]
    });
    drop(next);
}

#[test]
fn a_client_that_finds_nobody_says_what_it_tried() {
    let group = group();
    let start = Instant::now();
    let error = try_open("client", group, &[("scouting/timeout", "300")]).err().unwrap();
    assert!((300..1500).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let text = error.to_string();
    for part in [group.to_string().as_str(), "300ms", "lo"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(error, Error::NobodyFound { failures, .. } if failures.is_empty()));
}

#[test]
fn rules_say_who_connects() {
    let group = group();
    let strategy = ("scouting/multicast/autoconnect_strategy", "'greater-zid'");
    let lesser = open("peer", group, &[("id", "'1a'"), strategy]);
    let greater = open("peer", group, &[("id", "'2b'"), strategy]);
    eventually("a link", || neighbours(&lesser) == [greater.zid()]);
    let nobody = open(
        "peer",
        group,
        &[("scouting/multicast/autoconnect", "[]"), ("scouting/multicast/listen", "false")],
    );
    std::thread::sleep(Duration::from_millis(200));
    assert!(neighbours(&nobody).is_empty());
    // A router does not connect to the nodes that it finds.
    let routers = [open("router", group, &[]), open("router", group, &[])];
    std::thread::sleep(Duration::from_millis(200));
    for router in &routers {
        assert!(!neighbours(router).contains(&routers[0].zid()));
        assert!(!neighbours(router).contains(&routers[1].zid()));
    }
}

#[test]
fn everybody_is_listed_once_per_question() {
    let group = group();
    let router = open("router", group, &[]);
    let peer = open("peer", group, &[]);
    let listed = |roles: &[WhatAmI]| {
        let roles: Roles = roles.iter().copied().collect();
        let listing = scouting::scout(&config("peer", group, &[]), roles, Handler::Default).unwrap();
        let mut found = Vec::new();
        let end = Instant::now() + Duration::from_millis(500);
        while let Ok(hello) =
            listing.queue().recv(Some(end.saturating_duration_since(Instant::now())), &mut || false)
        {
            assert!(!hello.locators.is_empty());
            found.push((hello.zid, hello.whatami));
        }
        listing.stop();
        assert!(listing.queue().is_closed());
        found.sort_by_key(|(zid, _)| *zid);
        found
    };
    assert_eq!(listed(&[WhatAmI::Router]), [(router.zid(), WhatAmI::Router)]);
    assert_eq!(listed(&[WhatAmI::Peer]), [(peer.zid(), WhatAmI::Peer)]);
    assert_eq!(listed(&[WhatAmI::Peer, WhatAmI::Router]).len(), 2);
    assert!(listed(&[WhatAmI::Client]).is_empty());
}

#[test]
fn an_interface_that_is_not_there_is_no_reason_to_fail() {
    let group = group();
    let start = Instant::now();
    let session = open("peer", group, &[("scouting/multicast/interface", "'nonesuch9'")]);
    assert!(start.elapsed() < Duration::from_millis(300), "no node can be found: {:?}", start.elapsed());
    assert!(neighbours(&session).is_empty());
    let wrong = Config::default().insert_json5("scouting/multicast/interface", "'fe80::1'");
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("scouting/multicast/interface") && error.contains("fe80::1"), "{error}");
}

/// A flood of answers from nodes that do not exist: the node stays alive, and its dials are bounded.
#[test]
fn made_up_answers_cost_little() {
    let group = group();
    let victim = open("peer", group, &[]);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The source of its SCOUT is the address to which answers must go.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    listener.set_reuse_address(true).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, group.port())).into()).unwrap();
    listener.join_multicast_v4(&Ipv4Addr::new(224, 0, 0, 224), &Ipv4Addr::LOCALHOST).unwrap();
    let listener: UdpSocket = listener.into();
    listener.set_read_timeout(Some(WAIT)).unwrap();
    let (_, asker) = listener.recv_from(&mut [0; 64]).unwrap();
    let trap = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    trap.set_nonblocking(true).unwrap();
    let locator = format!("tcp/{}", trap.local_addr().unwrap());
    for n in 1..=20_000_u32 {
        let mut hello = vec![0x22, 0x09, 0x31];
        hello.extend((n | 0x4000_0000).to_le_bytes());
        hello.extend([1, locator.len() as u8]);
        hello.extend(locator.as_bytes());
        let _ = socket.send_to(&hello, asker);
    }
    let mut dialled = 0;
    let end = Instant::now() + Duration::from_secs(2);
    let mut held = Vec::new();
    while Instant::now() < end {
        match trap.accept() {
            Ok((stream, _)) => {
                dialled += 1;
                held.push(stream);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    assert!(dialled <= 64, "{dialled} connections at once");
    drop(held);
    let other = open("peer", group, &[]);
    eventually("it still finds others", || neighbours(&other).contains(&victim.zid()));
}

/// Three peers, of which the second and the third are only configured with the first.
#[test]
fn peers_hear_of_each_other_by_gossip() {
    let quiet = "multicast: {enabled: false}";
    let open = |extra: &str| {
        let config = format!("{{mode: 'peer', listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {extra}}}");
        Session::open(&Config::from_json5(&config).unwrap(), &mut || false).unwrap()
    };
    let first = open(&format!("scouting: {{{quiet}}}"));
    let connect = format!("connect: {{endpoints: ['{}']}}", first.listening()[0]);
    let second = open(&format!("{connect}, scouting: {{{quiet}}}"));
    let third = open(&format!("{connect}, scouting: {{{quiet}}}"));
    let deaf =
        open(&format!("{connect}, scouting: {{{quiet}, gossip: {{enabled: false, autoconnect: []}}}}"));
    eventually("a mesh of three", || {
        neighbours(&second).contains(&third.zid()) && neighbours(&third).contains(&second.zid())
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(neighbours(&deaf), [first.zid()], "a node that ignores gossip opens no connection");
}
