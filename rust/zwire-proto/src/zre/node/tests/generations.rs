//! Several generations on one network (`zre` 15).

use super::*;

/// All nodes find each other, each pair in one encoding; content flows both ways.
#[test]
fn a_mixed_network_with_nodes_in_the_middle() {
    let mut world = World::new();
    let sets = [
        Generations::only(G20),
        Generations::only(G10),
        Generations::only(G36),
        Generations::ALL_REAL,
        Generations::ALL_REAL,
    ];
    for (number, generations) in sets.into_iter().enumerate() {
        world.add(config(number, generations));
    }
    world.run(ms(3000));
    let peers = |world: &World, place: usize| world.places[place].node.peers().count();
    assert_eq!((0..5).map(|place| peers(&world, place)).collect::<Vec<_>>(), [2, 2, 2, 4, 4]);
    let middle = &world.places[3].node;
    for (peer, generation) in [(0, G20), (1, G10), (2, G36), (4, G36)] {
        assert_eq!(middle.peer_generation(&uuid(peer)), Some(generation));
    }
    let group = Text::from("G");
    (0..5).for_each(|place| drop(world.act(place, |node, now| node.join(now, &group))));
    world.run(ms(10));
    (0..5).for_each(|place| drop(world.events(place)));
    for place in 0..5 {
        world.act(place, |node, now| node.shout(now, &group, vec![octets("x")])).unwrap();
    }
    world.run(ms(10));
    assert_eq!(world.events(0), ["3 SHOUT G x", "4 SHOUT G x"]);
    assert_eq!(world.events(3).len(), 4);
    // No session restarts and no message is out of order for the next minute.
    world.run(Duration::from_secs(60));
    for place in 0..5 {
        assert_eq!(world.places[place].node.stats().gaps, 0);
        assert!(world.events(place).iter().all(|event| event.contains("SHOUT")), "{place}");
    }
}

#[test]
fn several_frames_reach_all_but_20_zre() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    for (peer, generation) in [(1, G20), (2, G10), (3, G36)] {
        bench.hear(peer, generation, 1, Body::Hello(hello_of(peer, generation)));
    }
    let two = vec![octets("a"), octets("b")];
    let shouted = bench.node.shout(Now::default(), &Text::from("G"), two.clone()).unwrap();
    let outcomes = [(1, Delivery::Refused), (2, Delivery::Queued), (3, Delivery::Queued)];
    assert_eq!(shouted.peers, outcomes.map(|(peer, delivery)| (uuid(peer), delivery)));
    let error = bench.node.whisper(Now::default(), &uuid(1), two).unwrap_err();
    assert_eq!(error.to_string(), "20/ZRE has one content frame per message, not 2");
}

/// A node of several generations waits 300 ms, and then sends 36/ZRE, which all others ignore.
#[test]
fn a_node_of_several_generations_waits_for_the_first_word() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    bench.wait(ms(500));
    drop(bench.actions());
    bench.hear_beacon(1, 49152);
    bench.wait(ms(299));
    assert!(bench.sent(G36).is_empty());
    bench.wait(ms(1));
    let actions = bench.actions();
    let Action::Connect { identity, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(identity.len(), 17);
    // The peer is of 20/ZRE: the session starts anew in that encoding.
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    let actions = bench.actions();
    assert!(matches!(actions[0], Action::Disconnect { .. }));
    let Action::Connect { identity, .. } = &actions[1] else { panic!("{actions:?}") };
    assert_eq!(identity.len(), 16);
    let Action::Send { frames, .. } = &actions[2] else { panic!("{actions:?}") };
    assert_eq!(Hello::generation(&frames[0]), Ok(G20));
}

/// With some dozen groups a HELLO of 36/ZRE can be read as one of 20/ZRE; such a peer would abort.
#[test]
fn a_hello_that_an_old_peer_would_mistake_waits() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    let mistakable = |bench: &Bench| bench.node.is_mistakable(None);
    assert!(!mistakable(&bench));
    let mut groups = 0;
    while !mistakable(&bench) {
        bench.node.join(Now::default(), &Text::from(format!("group{groups:02}"))).unwrap();
        groups += 1;
    }
    assert!((10..120).contains(&groups), "{groups}");
    // By an endpoint: in 20/ZRE first, which the others ignore.
    bench.node.handle_endpoint(bench.at(), &Text::from("tcp://10.0.0.9:49152"), None).unwrap();
    let sent = bench.sent(G20);
    assert!(matches!(sent[..], [ZreMessage { body: Body::Hello(_), .. }]));
    bench.wait(ms(100));
    drop(bench.actions());
    bench.hear_beacon(1, 49152);
    bench.wait(ms(2999));
    assert!(bench.sent(G36).is_empty(), "an old peer has spoken by now");
    bench.wait(ms(1));
    assert!(matches!(bench.sent(G36)[..], [ZreMessage { body: Body::Hello(_), .. }]));
}

/// Early peers write their identity in hexadecimal digits, and read it so.
#[test]
fn an_identity_is_answered_in_its_form() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    let frames = ZreMessage { sequence: 1, body: Body::Hello(hello_of(1, G20)) }.encode(G20).unwrap();
    bench.node.handle_message(Now::default(), &uuid(1).to_hex(), &frames);
    let actions = bench.actions();
    let Action::Connect { identity, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(identity[..], uuid(0).to_hex());
}

#[test]
fn generations_that_are_not_spoken_are_ignored() {
    for (own, other) in [(G36, G20), (G36, G10), (G20, G36), (G20, G10), (G10, G20), (G20, G43)] {
        let mut bench = Bench::new(config(0, Generations::only(own)));
        bench.hear(1, other, 1, Body::Hello(hello_of(1, other)));
        assert_eq!(bench.node.stats().foreign_generation, 1, "{own}, {other}");
        assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    }
}

/// "Decode version 3 like version 2; reply in the version of the peer's HELLO" (`zre` 17).
#[test]
fn version_3_is_answered_with_version_3() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G43, 1, Body::Hello(hello_of(1, G43)));
    bench.hear(1, G43, 2, Body::Ping);
    assert_eq!(bench.sent(G43).len(), 2);

    let mut world = World::new();
    (0..3).for_each(|number| _ = world.add(config(number, Generations::only(G43))));
    world.run(ms(500));
    assert!(world.is_whole());
}

/// `zre` 15.5: peers of the first generations abort on a second HELLO, so a goodbye comes first.
#[test]
fn a_gap_of_an_old_peer_is_mended_with_a_goodbye() {
    let mut bench = Bench::new(config(0, Generations::only(G20)));
    bench.wait(ms(500));
    bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
    bench.hear(2, G20, 1, Body::Hello(hello_of(2, G20)));
    drop((bench.actions(), bench.kinds()));
    bench.hear(1, G20, 4, Body::Ping);
    assert_eq!(bench.kinds(), [EventKind::MessagesLost { lost: 2 }, EventKind::Exit, EventKind::Exit]);
    let actions = bench.actions();
    assert_eq!(actions.len(), 3);
    let Action::Beacon { datagram, .. } = &actions[2] else { panic!("{actions:?}") };
    assert_eq!(Beacon::decode(datagram).map(|beacon| beacon.port), Ok(0));
    // The node is silent for 300 ms, and sends goodbye twice more.
    bench.hear_beacon(1, 49152);
    bench.wait(ms(299));
    let goodbyes = bench.actions();
    let is_goodbye =
        |action: &Action| matches!(action, Action::Beacon { datagram, .. } if datagram.ends_with(&[0, 0]));
    assert!(goodbyes.len() == 2 && goodbyes.iter().all(is_goodbye), "{goodbyes:?}");
    bench.wait(ms(1));
    assert!(matches!(bench.actions()[..], [Action::Beacon { .. }]));
    bench.hear_beacon(1, 49152);
    assert!(matches!(bench.actions()[..], [Action::Connect { .. }, Action::Send { .. }]));
}

/// A peer that expired here may still have a session: HELLO would be its second one.
#[test]
fn an_old_peer_that_comes_back_is_not_greeted_without_a_goodbye() {
    for moved in [false, true] {
        let mut bench = Bench::new(config(0, Generations::only(G20)));
        bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
        bench.wait(Duration::from_secs(if moved { 6 } else { 31 }));
        drop((bench.actions(), bench.kinds()));
        bench.hear_beacon(1, if moved { 50000 } else { 49152 });
        let actions = bench.actions();
        let Some(Action::Beacon { datagram, .. }) = actions.last() else { panic!("{actions:?}") };
        assert_eq!(Beacon::decode(datagram).map(|beacon| beacon.port), Ok(0));
        assert!(!actions.iter().any(|action| matches!(action, Action::Connect { .. })));
        bench.wait(ms(400));
        bench.hear_beacon(1, 49152);
        assert!(bench.actions().iter().any(|action| matches!(action, Action::Connect { .. })));
    }
}

/// Before the HELLO of the peer as well: its arrival shows that this node's HELLO was received.
#[test]
fn a_connection_to_an_old_peer_that_fails_is_mended_with_a_goodbye() {
    for answered in [false, true] {
        let mut bench = Bench::new(config(0, Generations::only(G20)));
        bench.hear_beacon(1, 49152);
        let hello = || Body::Hello(hello_of(1, G20));
        if answered {
            bench.hear(1, G20, 1, hello());
        }
        let Action::Connect { dealer, .. } = bench.actions()[0] else { panic!() };
        bench.node.handle_dealer_failed(Now::default(), dealer);
        if !answered {
            bench.hear(1, G20, 1, hello());
        }
        let actions = bench.actions();
        let [Action::Disconnect { .. }, Action::Beacon { datagram, .. }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(Beacon::decode(datagram).map(|beacon| beacon.port), Ok(0));
    }
}

#[test]
fn secure_and_plain_nodes_never_meet() {
    let mut world = World::new();
    let key = |number: u8| Some([number; 32]);
    for number in 0..4 {
        let public_key = if number < 2 { key(number as u8 + 1) } else { None };
        world.add(ZreNodeConfig { public_key, ..config(number, Generations::default()) });
    }
    world.run(ms(1500));
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(2), ["3 ENTER"]);
    assert!(world.places[0].node.stats().beacons_security >= 2);
    // A HELLO without key, or with another one than the beacon's.
    let before = world.places[0].node.peers().count();
    let frames = ZreMessage { sequence: 1, body: Body::Hello(hello_of(8, G36)) }.encode(G36).unwrap();
    let identity = IdentityForm::Prefixed.encode(&uuid(8));
    world.act(0, |node, now| node.handle_message(now, &identity, &frames));
    let headers =
        vec![(Bytes::from_static(Hello::PUBLIC_KEY), Bytes::copy_from_slice(&z85::encode_key(&[7; 32])))];
    let hello = Hello { headers, ..hello_of(1, G36) };
    let frames = ZreMessage { sequence: 1, body: Body::Hello(hello) }.encode(G36).unwrap();
    let identity = IdentityForm::Prefixed.encode(&uuid(1));
    world.act(0, |node, now| node.handle_message(now, &identity, &frames));
    assert_eq!(world.places[0].node.stats().hello_security, 2);
    assert_eq!(world.places[0].node.peers().count(), before);
}

/// "zyre does not compare them; an implementation should" (`zre` 14): the key of the connection and that
/// of the HELLO.
#[test]
fn nobody_speaks_with_the_key_of_another() {
    let secure = ZreNodeConfig { public_key: Some([1; 32]), ..config(0, Generations::default()) };
    let mut bench = Bench::new(secure);
    let key = [7; 32];
    let headers =
        vec![(Bytes::from_static(Hello::PUBLIC_KEY), Bytes::copy_from_slice(&z85::encode_key(&key)))];
    let identity = IdentityForm::Prefixed.encode(&uuid(1));
    let encode = |sequence, body| ZreMessage { sequence, body }.encode(G36).unwrap();
    let hello = encode(1, Body::Hello(Hello { headers, ..hello_of(1, G36) }));
    let whisper = encode(2, Body::Whisper { content: vec![octets("x")] });
    let now = Now::default();
    let other = Origin { key: Some([8; 32]), ..Origin::default() };
    let own = Origin { key: Some(key), ..Origin::default() };
    bench.node.handle_message_by(now, &identity, &other, &hello);
    assert_eq!(bench.node.peers().count(), 0, "the key of the HELLO is not that of the connection");
    bench.node.handle_message_by(now, &identity, &own, &hello);
    assert_eq!(bench.node.peers().count(), 1);
    bench.node.handle_message_by(now, &identity, &other, &whisper);
    assert_eq!(bench.node.stats().hello_security, 2);
    bench.node.handle_message_by(now, &identity, &own, &whisper);
    let kinds = bench.kinds();
    assert!(
        matches!(kinds[..], [EventKind::Enter { .. }, EventKind::Join { .. }, EventKind::Whisper { .. }]),
        "{kinds:?}"
    );
}

/// An address added at run time is announced by beacons and to peers; existing peers stay.
#[test]
fn interfaces_may_change() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.wait(ms(10));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.actions();
    let other = Interface { address: [10, 9, 9, 9].into(), prefix: 8 };
    let now = bench.at();
    bench.node.set_interfaces(now, vec![other, bench.node.config().interfaces[0]]);
    assert_eq!(bench.node.poll_timeout(), Some(now.mono), "at once, not when the next beacon is due");
    bench.wait(ms(1));
    assert_eq!(bench.actions().len(), 2);
    assert_eq!(bench.node.endpoint(), "tcp://10.9.9.9:49152");
    assert_eq!(bench.node.peers().count(), 1);
}

/// A node that started before its network had told peers an address that they do not reach.
#[test]
fn peers_are_told_of_an_address_that_changed() {
    let mut world = World::new();
    let here = config(0, Generations::default());
    let loopback = Interface { address: [127, 0, 0, 1].into(), prefix: 8 };
    let early = ZreNodeConfig { interfaces: vec![loopback], beacon_interval: None, ..here.clone() };
    world.add(early);
    world.by_endpoint.clear();
    world.add(config(1, Generations::default()));
    world.run(ms(2500));
    assert_eq!(world.events(0), [""; 0], "the peer has no way to this node");
    let endpoint = endpoint_of(here.interfaces[0].address, here.mailbox);
    world.by_endpoint.insert(endpoint, 0);
    world.act(0, |node, now| node.set_interfaces(now, here.interfaces.clone()));
    world.run(ms(100));
    assert!(world.is_whole());
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(1), ["0 ENTER", "0 EXIT", "0 ENTER"]);
    // The same interfaces change nothing.
    world.act(0, |node, now| node.set_interfaces(now, here.interfaces));
    world.run(ms(100));
    assert_eq!(world.events(0), [""; 0]);
    assert_eq!(world.events(1), [""; 0]);
}

#[test]
fn configurations_that_cannot_be() {
    let good = config(0, Generations::default());
    let new = |config: ZreNodeConfig| ZreNode::new(Now::default(), config).map(drop);
    assert_eq!(new(ZreNodeConfig { interfaces: vec![], ..good.clone() }), Err(NodeError::NoAddress));
    assert_eq!(
        new(ZreNodeConfig { generations: Generations::NONE, ..good.clone() }),
        Err(NodeError::NoGeneration)
    );
    let secure =
        ZreNodeConfig { public_key: Some([1; 32]), generations: Generations::ALL_REAL, ..good.clone() };
    assert_eq!(new(secure), Err(NodeError::SecureLegacy));
    assert_eq!(
        new(ZreNodeConfig { public_key: Some([0; 32]), ..good.clone() }),
        Err(NodeError::KeyBeginsWithZero)
    );
    let endpoint = Text::from("10.0.0.1:5");
    let wrong = ZreNodeConfig { advertise: Some(endpoint.clone()), ..good.clone() };
    assert_eq!(new(wrong), Err(NodeError::Endpoint { endpoint }));
    let headers = vec![(Text::from("a=b"), Text::from("c"))];
    let modern = ZreNodeConfig { headers, ..good.clone() };
    assert_eq!(new(modern.clone()), Ok(()));
    assert!(new(ZreNodeConfig { generations: Generations::ALL_REAL, ..modern }).is_err());
    assert!(new(ZreNodeConfig { name: Text::from("a\0"), ..good }).is_err());
}
