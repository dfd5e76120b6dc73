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

/// "A node MAY log the sender IP address for the purposes of debugging."
#[test]
fn the_sender_of_an_invalid_beacon_is_remembered() {
    let mut bench = legacy();
    bench.node.handle_beacon(Now::default(), [10, 0, 0, 9].into(), &octets("ZRE"));
    let [entry] = bench.node.ignored() else { panic!() };
    assert_eq!((&entry.source, entry.reason), (&Source::Address([10, 0, 0, 9].into()), Reason::NoBeacon));
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
    let hello = ZreMessage::decode(G20, frames).unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
    assert_eq!(hello.sequence, 1);
    // A goodbye of an unknown node is ignored.
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

/// Problem 11: "New UUID on an endpoint in use: disconnect the old peer, raise EXIT; not while it answers, unless
/// HELLO comes from the host of the endpoint."
#[test]
fn problem_11_a_new_uuid_on_an_endpoint_in_use() {
    let mut bench = ready();
    let datagram = Beacon { uuid: uuid(9), port: 49152, public_key: None }.encode();
    bench.node.handle_beacon(Now::default(), [10, 0, 0, 2].into(), &datagram);
    assert!(bench.kinds().is_empty() && bench.actions().is_empty(), "a datagram proves nothing");
    bench.hear_from([10, 0, 0, 3], 9, G20, hello_of(1, G20));
    assert!(bench.kinds().iter().all(|kind| !matches!(kind, EventKind::Exit)), "the HELLO of another host");
    bench.hear_from([10, 0, 0, 2], 8, G20, hello_of(1, G20));
    assert!(bench.kinds().contains(&EventKind::Exit), "the HELLO of the host of the endpoint");

    let mut bench = ready();
    bench.wait(ms(5000));
    assert_eq!(bench.kinds(), [EventKind::Evasive]);
    drop(bench.actions());
    bench.node.handle_beacon(bench.at(), [10, 0, 0, 2].into(), &datagram);
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

/// "If the recipient has not already connected": the connection that a beacon caused is kept.
#[test]
fn a_hello_does_not_connect_twice() {
    let mut bench = legacy();
    bench.hear_beacon(1, 49152);
    drop(bench.actions());
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    assert!(bench.actions().is_empty());
}

/// "This ROUTER socket SHALL be used for all incoming ZeroMQ messages from other nodes. A node SHALL NOT
/// send messages to peers via this socket." "This DEALER socket SHALL be used for all outgoing ZeroMQ
/// messages to a specific peer. A node SHALL not receive messages on this socket."
#[test]
fn all_messages_to_a_peer_go_over_one_dealer() {
    let mut bench = ready();
    bench.hear_beacon(2, 49152);
    bench.hear(2, G20, 1, Body::Hello(hello_of(2, G20)));
    let now = Now::default();
    bench.node.join(now, &Text::from("x")).unwrap();
    bench.node.whisper(now, &uuid(2), vec![octets("a")]).unwrap();
    bench.node.shout(now, &Text::from("G"), vec![octets("a")]).unwrap();
    bench.hear(2, G20, 2, Body::Ping);
    bench.wait(ms(6000));
    bench.node.leave(bench.at(), &Text::from("x")).unwrap();
    let mut used = BTreeMap::<Uuid, BTreeSet<DealerId>>::new();
    let mut sent = 0;
    for action in bench.actions() {
        // A DEALER is the only output of messages, and no input exists for messages that a DEALER
        // receives.
        if let Action::Send { dealer, peer: Some(peer), .. } = action {
            used.entry(peer).or_default().insert(dealer);
            sent += 1;
        }
    }
    assert!(sent > 8 && used.len() == 2 && used.values().all(|dealers| dealers.len() == 1), "{used:?}");
}

/// "The sender SHOULD set the send timeout on the socket to zero so that a full send buffer can be
/// detected and treated as 'peer not responding'." "A node may disconnect its DEALER socket if the peer
/// has failed to respond."
#[test]
fn a_full_buffer_is_a_peer_that_does_not_respond() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    let Action::Connect { dealer, .. } = bench.actions()[0] else { panic!() };
    bench.node.handle_dealer_failed(Now::default(), dealer);
    assert_eq!(bench.actions(), [Action::Disconnect { dealer }]);
    let told = bench.node.whisper(Now::default(), &uuid(1), vec![octets("x")]);
    assert_eq!(told, Err(NodeError::NotResponding { peer: uuid(1) }));
    assert_eq!(bench.node.peers().count(), 1, "it stays until it expires");
}

/// "When a node wishes to send a message to a single peer it SHALL use the WHISPER command."
#[test]
fn a_whisper_goes_to_one_peer() {
    let mut bench = ready();
    bench.hear(2, G20, 1, Body::Hello(hello_of(2, G20)));
    drop(bench.actions());
    bench.node.whisper(Now::default(), &uuid(2), vec![octets("x")]).unwrap();
    let actions = bench.actions();
    let [Action::Send { peer, frames, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(*peer, Some(uuid(2)));
    let whisper = Body::Whisper { content: vec![octets("x")] };
    assert_eq!(ZreMessage::decode(G20, frames).unwrap().body, whisper);
}

/// "When a node wishes to send a message to a set of nodes participating in a group it SHALL use the
/// SHOUT command"; "the SHOUT command is unicast to each peer that should receive it."
#[test]
fn a_shout_goes_to_each_member() {
    let mut bench = ready();
    (2..5).for_each(|peer| bench.hear(peer, G20, 1, Body::Hello(hello_of(peer, G20))));
    bench.hear(3, G20, 2, Body::Leave { group: octets("G"), status: 2 });
    drop(bench.actions());
    bench.node.shout(Now::default(), &Text::from("G"), vec![octets("x")]).unwrap();
    let shout = Body::Shout { group: octets("G"), content: vec![octets("x")] };
    let sent = bench.sent(G20);
    assert!(sent.len() == 3 && sent.iter().all(|message| message.body == shout));
}

/// Problem 9: "Each peer MAY use this to assert the accuracy of its own group management information."
/// Real peers abort. "Never send a wrong one; never abort."
#[test]
fn problem_9_a_status_that_does_not_add_up() {
    let mut bench = ready();
    bench.hear(1, G20, 2, Body::Join { group: octets("x"), status: 77 });
    bench.hear(1, G20, 3, Body::Leave { group: octets("x"), status: 78 });
    let group = Text::from("x");
    assert_eq!(bench.kinds(), [EventKind::Join { group: group.clone() }, EventKind::Leave { group }]);
    assert_eq!(bench.node.stats().status_repaired, 1);
    assert!(bench.actions().is_empty());
}

/// Problem 12: commands before HELLO: "do they count in the sequence? no; HELLO restarts at 1."
#[test]
fn problem_12_what_precedes_hello_does_not_count() {
    let mut bench = legacy();
    (1..9).for_each(|sequence| bench.hear(1, G20, sequence, Body::Ping));
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    bench.hear(1, G20, 2, Body::Ping);
    assert_eq!((bench.node.stats().before_hello, bench.node.stats().gaps), (8, 0));
    assert_eq!(bench.sent(G20).len(), 2);
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
    // A number that goes back is a repetition: the count of missing messages is unknown.
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
    let join = Body::Join { group: octets("G"), status: 1 };
    assert!(joins.len() == 3 && joins.iter().all(|message| message.body == join));
    bench.node.leave(Now::default(), &group).unwrap();
    let leaves = bench.sent(G20);
    let leave = Body::Leave { group: octets("G"), status: 2 };
    assert!(leaves.len() == 3 && leaves.iter().all(|message| message.body == leave));
}

/// "When a node receives a PING command it SHALL reply with a PING-OK command."
#[test]
fn a_ping_is_answered() {
    let mut bench = ready();
    bench.hear(1, G20, 2, Body::Ping);
    assert_eq!(bench.sent(G20), [ZreMessage { sequence: 2, body: Body::PingOk }]);
    bench.hear(1, G20, 3, Body::PingOk);
    assert!(bench.actions().is_empty());
}

/// Problem 21: "typically five seconds", "typically 30 seconds"; code: 5 s and 10 s. The defaults of
/// zwire are 5 s and 30 s, and can be configured.
#[test]
fn problem_21_evasive_and_dead() {
    let mut bench = ready();
    bench.wait(ms(5000));
    assert_eq!(bench.kinds(), [EventKind::Evasive]);
    bench.wait(ms(24_999));
    assert_eq!(bench.kinds(), [EventKind::Silent]);
    bench.wait(ms(1));
    assert_eq!(bench.kinds(), [EventKind::Exit]);
}

/// Problem 23: "100 messages per second" as the size of a queue. "3000 messages."
#[test]
fn problem_23_the_high_water_mark() {
    assert_eq!(limits::HIGH_WATER_MARK, 3000);
}

/// Problem 24: "Currently ZRE supports two extension protocols:" followed by one. FILEMQ was removed, and
/// its header means nothing.
#[test]
fn problem_24_one_extension() {
    let mut bench = legacy();
    let headers = vec![
        (octets("X-FILEMQ"), octets("tcp://10.0.0.2:1")),
        (octets("X-ZRELOG"), octets("tcp://10.0.0.2:2")),
    ];
    bench.hear(1, G20, 1, Body::Hello(Hello { headers, ..hello_of(1, G20) }));
    let connected = bench.actions().into_iter().filter(|action| {
        matches!(action, Action::ConnectLog { .. }) || matches!(action, Action::Connect { .. })
    });
    assert_eq!(connected.count(), 2, "the peer and its log");
    assert_eq!(bench.node.peer_headers(&uuid(1)).unwrap().len(), 2, "the application may know it");
}

/// Problem 29: LEAVE has, in old drafts, the "name of the group to join".
#[test]
fn problem_29_leave_names_the_group_to_leave() {
    let mut bench = ready();
    bench.hear(1, G20, 2, Body::Leave { group: octets("G"), status: 2 });
    assert_eq!(bench.kinds(), [EventKind::Leave { group: Text::from("G") }]);
    assert_eq!(bench.node.peers_of("G").count(), 0);
}

/// Problem 30: "any of the defined security mechanism may be used", and no distribution of keys. "NULL
/// unless both sides are configured."
#[test]
fn problem_30_no_key_means_null() {
    let key = |actions: &[Action]| match actions {
        [Action::Connect { server_key, .. }, ..] => *server_key,
        other => panic!("{other:?}"),
    };
    let mut bench = legacy();
    bench.hear_beacon(1, 49152);
    assert_eq!(key(&bench.actions()), None);
    let secure = ZreNodeConfig { public_key: Some([1; 32]), ..config(0, Generations::default()) };
    let mut bench = Bench::new(secure);
    let beacon = Beacon { uuid: uuid(1), port: 49152, public_key: Some([2; 32]) };
    bench.node.handle_beacon(Now::default(), [10, 0, 0, 2].into(), &beacon.encode());
    assert_eq!(key(&bench.actions()), Some([2; 32]));
}

/// Problem 31: the "regular intervals" of beacons. "1 s, first one at once."
#[test]
fn problem_31_the_interval_of_beacons() {
    assert_eq!(ZreNodeConfig::new(uuid(0)).beacon_interval, Some(ms(1000)));
    let mut bench = legacy();
    bench.wait(Duration::ZERO);
    assert_eq!(bench.actions().len(), 1);
    bench.wait(ms(999));
    assert!(bench.actions().is_empty());
    bench.wait(ms(1));
    assert_eq!(bench.actions().len(), 1);
}

/// "The log service SHALL broadcast its connection endpoint in the HELLO command": "service-name=
/// tcp://ipaddress:port".
#[test]
fn a_collector_is_announced() {
    let collector = Some(Text::from("tcp://10.0.0.1:50100"));
    let mut bench = Bench::new(ZreNodeConfig { collector, ..config(0, Generations::only(G20)) });
    bench.hear_beacon(1, 49152);
    let actions = bench.actions();
    let Action::Send { frames, .. } = &actions[1] else { panic!("{actions:?}") };
    assert!(frames[0].ends_with(b"\x1dX-ZRELOG=tcp://10.0.0.1:50100"));
}

/// The endpoint of a collector on all addresses is that of the interface by which the receiver is reached.
#[test]
fn a_collector_is_announced_with_the_address_of_the_network() {
    let near = |last, address: [u8; 4]| Interface { address: address.into(), prefix: last };
    for (collector_everywhere, hosts) in [(true, ["10.0.0.1", "10.0.2.1"]), (false, ["10.0.0.1"; 2])] {
        let mut bench = Bench::new(ZreNodeConfig {
            collector: Some(Text::from("tcp://10.0.0.1:50100")),
            collector_everywhere,
            interfaces: vec![near(24, [10, 0, 0, 1]), near(24, [10, 0, 2, 1])],
            ..config(0, Generations::only(G20))
        });
        // Peer 1 is 10.0.0.2, peer 513 is 10.0.2.2.
        for (peer, host) in [1, 513].into_iter().zip(hosts) {
            bench.hear_beacon(peer, 49152);
            let actions = bench.actions();
            let Action::Send { frames, .. } = &actions[1] else { panic!("{actions:?}") };
            let Body::Hello(hello) = ZreMessage::decode(G20, frames).unwrap().body else { panic!() };
            let expected = Bytes::from(format!("tcp://{host}:50100"));
            assert_eq!(hello.header(Hello::LOG_COLLECTOR), Some(&expected));
        }
    }
}

/// "Any node wishing to send log data SHALL create a PUB socket and connect it to this endpoint."
#[test]
fn a_collector_is_connected_to() {
    let mut bench = legacy();
    let headers = vec![(octets("X-ZRELOG"), octets("tcp://10.0.0.2:50100"))];
    bench.hear(1, G20, 1, Body::Hello(Hello { headers, ..hello_of(1, G20) }));
    let connect = Action::ConnectLog { endpoint: octets("tcp://10.0.0.2:50100") };
    assert!(bench.actions().contains(&connect));
}

/// "When a ZRE node stops receiving beacons from a peer that it knows about, after a certain interval it
/// SHALL consider this peer to be disconnected or dead."
#[test]
fn a_peer_without_beacons_is_dead_after_a_while() {
    let mut bench = ready();
    for _ in 0..10 {
        bench.wait(ms(1000));
        bench.hear_beacon(1, 49152);
    }
    assert!(bench.kinds().is_empty());
    bench.wait(ms(30_000));
    assert_eq!(bench.kinds(), [EventKind::Evasive, EventKind::Silent, EventKind::Exit]);
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
            Body::Join { status, .. } => *status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [0, 1, 1]);
}

/// Problem 33: "close; peers expire", except that those of 36/ZRE get a GOODBYE: it costs no more than the
/// session, which is at its end. Those of 20/ZRE would abort.
#[test]
fn problem_33_leaving_without_beacons() {
    let quiet = ZreNodeConfig { beacon_interval: None, ..config(0, Generations::ALL_REAL) };
    let mut bench = Bench::new(quiet);
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    bench.hear(2, G36, 1, Body::Hello(hello_of(2, G36)));
    drop((bench.actions(), bench.kinds()));
    bench.node.stop(Now::default()).unwrap();
    let actions = bench.actions();
    let [Action::Send { frames, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(ZreMessage::decode(G36, frames).unwrap().body, Body::Goodbye);
    bench.wait(ms(100));
    assert!(matches!(bench.actions()[..], [Action::Disconnect { .. }, Action::Disconnect { .. }]));
    assert_eq!(bench.kinds(), [EventKind::Stop]);
    assert_eq!(bench.node.poll_timeout(), None);
}

/// GOODBYE of a peer is a leave; a peer found by gossip or a configuration is greeted like any other.
#[test]
fn peers_that_gossip_names() {
    let quiet = ZreNodeConfig { beacon_interval: None, ..config(0, Generations::default()) };
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
