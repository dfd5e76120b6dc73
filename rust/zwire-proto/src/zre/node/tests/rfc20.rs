//! Sentences of RFC 20 and problems of its text (`zre` 16) that are about behaviour.

use super::*;

fn legacy() -> Bench {
    Bench::new(config(0, Generations::only(G20)))
}

fn ready() -> Bench {
    let mut bench = legacy();
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    drop((bench.actions(), bench.kinds()));
    bench
}

/// "Each ZRE node SHALL broadcast, at regular intervals, on UDP port 5670 a beacon that identifies
/// itself"; problem 31: "1 s, first one at once".
#[test]
fn beacons_go_out_at_regular_intervals() {
    let mut bench = legacy();
    for second in 0..5 {
        bench.wait(if second == 0 { Duration::ZERO } else { ms(1000) });
        let actions = bench.actions();
        let [Action::Beacon { interface: 0, datagram }] = &actions[..] else { panic!("{actions:?}") };
        // "The node SHALL broadcast this mailbox port number in all beacons that it sends."
        let beacon = Beacon { uuid: uuid(0), port: 49152, public_key: None };
        assert_eq!(Beacon::decode(datagram), Ok(beacon));
    }
}

/// "A node that receives an invalid beacon SHALL discard it silently."
#[test]
fn an_invalid_beacon_is_discarded_silently() {
    let mut bench = legacy();
    for raw in [&b"ZRE"[..], b"ZRE\x02", &[0; 22], &[0; 54]] {
        bench.node.handle_beacon(Now::default(), [10, 0, 0, 9].into(), &Bytes::copy_from_slice(raw));
    }
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    assert_eq!(bench.node.stats().beacons_malformed, 4);
}

/// "A node SHALL discard beacons that it receives from itself."
#[test]
fn own_beacons_are_discarded() {
    let mut bench = legacy();
    bench.hear_beacon(0, 49152);
    bench.hear_beacon(0, 50000);
    bench.hear_beacon(0, 0);
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    assert_eq!(bench.node.stats().beacons_own, 3);
}

/// "When a ZRE node receives a beacon from a node that it does not already know about, with a non-zero
/// port number, it SHALL consider this to be a new peer." "When a node discovers a new peer, it SHALL
/// create a ZeroMQ DEALER socket, set its identity (binary 16-octet UUID) on that socket, and connect
/// this to the peer's mailbox port." "Each node SHALL start a dialog by sending HELLO as the first
/// command."
#[test]
fn a_beacon_of_an_unknown_node_is_a_new_peer() {
    let mut bench = legacy();
    bench.hear_beacon(1, 49777);
    let actions = bench.actions();
    let [Action::Connect { endpoint, identity, peer, .. }, Action::Send { frames, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((&endpoint[..], *peer), (&b"tcp://10.0.0.2:49777"[..], Some(uuid(1))));
    assert_eq!(identity[..], uuid(0).as_bytes()[..]);
    let hello = Message::decode(G20, frames).unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    assert_eq!(hello.sequence, 1);
    // An unknown node that says goodbye is nobody.
    bench.hear_beacon(2, 0);
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
}

/// Problem 1: "When a ZRE node receives a beacon from a known node, with a non-zero port number, it
/// SHALL disconnect from this peer" means a zero port.
#[test]
fn problem_1_a_known_node_with_zero_port_leaves() {
    let mut bench = ready();
    bench.hear_beacon(1, 49152);
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    bench.hear_beacon(1, 0);
    assert_eq!(bench.kinds(), [EventKind::Exit]);
    assert!(matches!(bench.actions()[..], [Action::Disconnect { .. }]));
}

/// "A node SHALL connect each DEALER sockets to at most one peer."
#[test]
fn a_dealer_has_one_peer() {
    let mut bench = legacy();
    for _ in 0..3 {
        (1..5).for_each(|peer| bench.hear_beacon(peer, 49152));
    }
    let mut peers = BTreeMap::new();
    for action in bench.actions() {
        if let Action::Connect { dealer, peer, .. } = action {
            assert!(peers.insert(dealer, peer).is_none());
        }
    }
    assert_eq!(peers.values().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(peers.len(), 4);
}

/// Problem 10: "Known UUID, other address or port: a live session wins; if the session is dead or
/// expired, replace it." Of a peer of 20/ZRE that takes a goodbye first; see `generations`.
#[test]
fn problem_10_a_known_node_elsewhere() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.actions(), bench.kinds()));
    bench.hear_beacon(1, 50000);
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    bench.wait(ms(5000));
    assert_eq!(bench.kinds(), [EventKind::Evasive]);
    drop(bench.actions());
    bench.hear_beacon(1, 50000);
    assert_eq!(bench.kinds(), [EventKind::Exit]);
    let actions = bench.actions();
    assert!(matches!(&actions[1], Action::Connect { endpoint, .. } if endpoint == "tcp://10.0.0.2:50000"));
}

/// Problem 11: "New UUID on an endpoint in use: disconnect the old peer, raise EXIT."
#[test]
fn problem_11_a_new_uuid_on_an_endpoint_in_use() {
    let mut bench = ready();
    let datagram = Beacon { uuid: uuid(9), port: 49152, public_key: None }.encode();
    bench.node.handle_beacon(Now::default(), [10, 0, 0, 2].into(), &datagram);
    assert_eq!(bench.kinds(), [EventKind::Exit]);
    assert!(matches!(
        bench.actions()[..],
        [Action::Disconnect { .. }, Action::Connect { .. }, Action::Send { .. }]
    ));
}

/// Problem 13: "receives, on its ROUTER socket, a valid message from an unknown node, it SHALL treat
/// this as a new peer": only HELLO does. "If the recipient has not already connected to this peer it
/// SHALL create a ZeroMQ DEALER socket and connect it to the endpoint specified as
/// tcp://ipaddress:mailbox."
#[test]
fn problem_13_only_hello_makes_a_peer() {
    let mut bench = legacy();
    bench.hear(1, G20, 1, Body::Ping);
    assert!(bench.actions().is_empty() && bench.node.peers.is_empty());
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    let actions = bench.actions();
    assert!(matches!(&actions[0], Action::Connect { endpoint, .. } if endpoint == "tcp://10.0.0.2:49152"));
    let enter = bench.node.poll_event().unwrap();
    assert!(matches!(enter.kind, EventKind::Enter { .. }));
    assert_eq!(enter.address, "tcp://10.0.0.2:49152");
}

/// "If the recipient has not already connected": the way that a beacon told is kept.
#[test]
fn a_hello_does_not_connect_twice() {
    let mut bench = legacy();
    bench.hear_beacon(1, 49152);
    drop(bench.actions());
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    assert!(bench.actions().is_empty());
}

/// Problem 14: "End the old session, start a new one (EXIT, ENTER)."
#[test]
fn problem_14_a_second_hello() {
    let mut bench = ready();
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    let kinds = bench.kinds();
    assert!(
        matches!(kinds[..], [EventKind::Exit, EventKind::Enter { .. }, EventKind::Join { .. }]),
        "{kinds:?}"
    );
    assert!(matches!(
        bench.actions()[..],
        [Action::Disconnect { .. }, Action::Connect { .. }, Action::Send { .. }]
    ));
}

/// Problem 15: "as 36/ZRE: drop the peer, EXIT, wait for a new HELLO".
#[test]
fn problem_15_a_lost_message() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.actions(), bench.kinds()));
    bench.hear(1, G36, 3, Body::Ping);
    assert_eq!(bench.kinds(), [EventKind::MessagesLost { lost: 1 }, EventKind::Exit]);
    bench.hear(1, G36, 4, Body::Ping);
    assert_eq!(bench.node.stats().before_hello, 1);
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    assert!(matches!(bench.kinds()[0], EventKind::Enter { .. }));
    // One that goes back is a repetition: nothing can be said about how many are missing.
    bench.hear(1, G36, 1, Body::Ping);
    assert_eq!(bench.kinds(), [EventKind::MessagesLost { lost: 0 }, EventKind::Exit]);
}

/// "When a node joins a group it SHALL broadcast a JOIN command to all its peers", and LEAVE likewise;
/// "the group status sequence number after joining".
#[test]
fn joins_and_leaves_go_to_all_peers() {
    let mut bench = legacy();
    (1..4).for_each(|peer| bench.hear(peer, G20, 1, Body::Hello(hello_of(peer, G20))));
    drop(bench.actions());
    let group = Text::from("G");
    bench.node.join(Now::default(), &group).unwrap();
    let joins = bench.sent(G20);
    let join = Body::Join(Join { group: octets("G"), status: 1 });
    assert!(joins.len() == 3 && joins.iter().all(|message| message.body == join));
    bench.node.leave(Now::default(), &group).unwrap();
    let leaves = bench.sent(G20);
    let leave = Body::Leave(Leave { group: octets("G"), status: 2 });
    assert!(leaves.len() == 3 && leaves.iter().all(|message| message.body == leave));
}

/// "When a node receives a PING command it SHALL reply with a PING-OK command."
#[test]
fn a_ping_is_answered() {
    let mut bench = ready();
    bench.hear(1, G20, 2, Body::Ping);
    assert_eq!(bench.sent(G20), [Message { sequence: 2, body: Body::PingOk }]);
    bench.hear(1, G20, 3, Body::PingOk);
    assert!(bench.actions().is_empty());
}

/// Problems 21, 22: "PING only silent peers."
#[test]
fn problem_22_only_silent_peers_are_pinged() {
    let mut bench = legacy();
    (1..4).for_each(|peer| bench.hear(peer, G20, 1, Body::Hello(hello_of(peer, G20))));
    drop(bench.actions());
    bench.wait(ms(3000));
    bench.hear_beacon(1, 49152);
    bench.hear(2, G20, 2, Body::PingOk);
    bench.wait(ms(1999));
    assert_eq!(bench.sent(G20).len(), 1);
}

/// Problem 32: "the HELLO must come first and already include that group"; see also
/// `groups::every_peer_hears_the_same_status`.
#[test]
fn problem_32_a_join_while_connecting() {
    let mut bench = legacy();
    bench.hear_beacon(1, 49152);
    bench.node.join(Now::default(), &Text::from("G")).unwrap();
    bench.hear_beacon(2, 49152);
    let sent = bench.sent(G20);
    let statuses: Vec<u8> = sent
        .iter()
        .map(|message| match &message.body {
            Body::Hello(hello) => hello.status,
            Body::Join(join) => join.status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [0, 1, 1]);
}

/// Problem 33: "close; peers expire", except that those of 36/ZRE get a GOODBYE: it costs no more than the
/// session, which is at its end. Those of 20/ZRE would abort.
#[test]
fn problem_33_leaving_without_beacons() {
    let quiet = NodeConfig { beacon_interval: None, ..config(0, Generations::ALL_REAL) };
    let mut bench = Bench::new(quiet);
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    bench.hear(2, G36, 1, Body::Hello(hello_of(2, G36)));
    drop((bench.actions(), bench.kinds()));
    bench.node.stop(Now::default()).unwrap();
    let actions = bench.actions();
    let [Action::Send { frames, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(Message::decode(G36, frames).unwrap().body, Body::Goodbye);
    bench.wait(ms(100));
    assert!(matches!(bench.actions()[..], [Action::Disconnect { .. }, Action::Disconnect { .. }]));
    assert_eq!(bench.kinds(), [EventKind::Stop]);
    assert_eq!(bench.node.poll_timeout(), None);
}

/// GOODBYE of a peer is a leave; a peer found by gossip or a configuration is greeted like any other.
#[test]
fn peers_that_gossip_names() {
    let quiet = NodeConfig { beacon_interval: None, ..config(0, Generations::default()) };
    let mut bench = Bench::new(quiet);
    bench.node.handle_found(Now::default(), uuid(1), octets("tcp://10.0.0.2:49152"), None);
    bench.node.handle_found(Now::default(), uuid(1), octets("tcp://10.0.0.2:49152"), None);
    bench.node.handle_found(Now::default(), uuid(0), octets("tcp://10.0.0.9:49152"), None);
    bench.node.handle_found(Now::default(), uuid(3), octets("tcp://10.0.0.1:49152"), None);
    bench.node.handle_found(Now::default(), uuid(4), octets("tcp://10.0.0.4:1"), Some([1; 32]));
    assert!(matches!(bench.actions()[..], [Action::Connect { .. }, Action::Send { .. }]));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.hear(1, G36, 2, Body::Goodbye);
    let kinds = bench.kinds();
    assert!(
        matches!(kinds[..], [EventKind::Enter { .. }, EventKind::Join { .. }, EventKind::Exit]),
        "{kinds:?}"
    );
}
