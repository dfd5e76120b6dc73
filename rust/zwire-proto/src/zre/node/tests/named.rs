//! Peers of a configuration: the endpoint is known, the node is not.

use super::*;
use core::net::SocketAddr;

/// A node that sends no beacons.
fn quiet(number: usize, generations: Generations) -> ZreNodeConfig {
    ZreNodeConfig { beacon_interval: None, ..config(number, generations) }
}

fn endpoint(number: usize) -> Text {
    Text::from(format!("tcp://10.0.0.{}:49152", number + 1))
}

fn name(world: &mut World, place: usize, other: usize) {
    world.act(place, |node, now| node.handle_endpoint(now, &endpoint(other), None)).unwrap();
}

fn world(count: usize) -> World {
    let mut world = World::new();
    (0..count).for_each(|number| _ = world.add(quiet(number, Generations::default())));
    world
}

/// Checks that no session restarts, and that messages pass both ways.
fn talk(world: &mut World, one: usize, other: usize) {
    for (from, to) in [(one, other), (other, one)] {
        world.act(from, |node, now| node.whisper(now, &uuid(to), vec![octets("x")])).unwrap();
        world.run(ms(10));
        assert_eq!(world.events(to), [format!("{from} WHISPER x")]);
    }
    world.run(Duration::from_secs(120));
    assert!(world.events(one).is_empty() && world.events(other).is_empty());
}

/// "You do not need to know the peer's UUID in advance" (`zre` 7).
#[test]
fn an_endpoint_is_enough() {
    let mut world = world(2);
    name(&mut world, 0, 1);
    world.run(ms(20));
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(1), ["0 ENTER"]);
    assert_eq!(world.connections, 2);
    talk(&mut world, 0, 1);
    assert_eq!(world.connections, 2);
}

/// A list of all nodes on each of them, the same on all.
#[test]
fn everybody_may_name_everybody() {
    let mut world = world(5);
    for place in 0..5 {
        (0..5).for_each(|other| name(&mut world, place, other));
    }
    world.run(ms(20));
    assert!(world.is_whole());
    assert_eq!(world.connections, 20);
    (0..5).for_each(|place| assert_eq!(world.events(place).len(), 4));
    talk(&mut world, 1, 3);
}

/// The node retries until the peer is up, and again after it has left.
#[test]
fn who_is_not_there_yet_is_waited_for() {
    let mut world = world(2);
    world.kill(1);
    name(&mut world, 0, 1);
    world.run(Duration::from_secs(100));
    world.restart(1, quiet(1, Generations::default()));
    world.run(Duration::from_secs(1));
    assert_eq!(world.events(0), ["1 ENTER"]);
    // The peer dies; another one starts there later.
    world.kill(1);
    world.run(Duration::from_secs(50));
    assert_eq!(world.events(0), ["1 EVASIVE", "1 SILENT", "1 EXIT"]);
    let other = ZreNodeConfig { uuid: uuid(7), ..quiet(1, Generations::default()) };
    world.restart(1, other);
    world.run(Duration::from_secs(5));
    assert_eq!(world.events(0), ["7 ENTER"]);
    assert!(world.is_whole());
}

/// With several generations 36/ZRE is first, and the others follow one after another.
#[test]
fn the_generation_is_found_out() {
    for (generation, seconds) in [(G36, 1), (G20, 3), (G10, 33)] {
        let mut world = World::new();
        world.add(quiet(0, Generations::ALL_REAL));
        world.add(quiet(1, Generations::only(generation)));
        name(&mut world, 0, 1);
        world.run(Duration::from_secs(seconds));
        assert_eq!(world.events(0), ["1 ENTER"], "{generation}");
        assert_eq!(world.events(1), ["0 ENTER"], "{generation}");
        assert_eq!(world.places[0].node.peer_generation(&uuid(1)), Some(generation));
        talk(&mut world, 0, 1);
    }
}

#[test]
fn a_name_is_resolved() {
    let mut world = world(2);
    let host = Bytes::from_static(b"tcp://edge.example:49152");
    world.names.insert(host.clone(), vec!["10.0.0.2:49152".parse().unwrap()]);
    world
        .act(0, |node, now| node.handle_endpoint(now, &Text::from("tcp://edge.example:49152"), None))
        .unwrap();
    // The peer is configured with this node as well, and connects first.
    name(&mut world, 1, 0);
    world.run(ms(50));
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(1), ["0 ENTER"]);
    assert_eq!(world.connections, 2);
    talk(&mut world, 0, 1);
}

/// The name does not resolve at first, resolves to the second of its addresses, or to this node.
#[test]
fn names_that_mean_nothing_at_first() {
    let mut bench = Bench::new(quiet(0, Generations::default()));
    let host = Text::from("tcp://edge.example:49152");
    let key = Bytes::from_static(b"tcp://edge.example:49152");
    bench.node.handle_endpoint(bench.at(), &host, None).unwrap();
    assert_eq!(bench.actions(), [Action::Resolve { endpoint: key.clone() }]);
    // The pause doubles up to a minute.
    let mut asked = Vec::new();
    for _ in 0..9 {
        let before = bench.now;
        bench.node.handle_resolved(bench.at(), &key, &[]);
        while bench.actions().is_empty() {
            bench.wait(ms(1000));
        }
        asked.push((bench.now - before).as_secs());
    }
    assert_eq!(asked, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let two: [SocketAddr; 2] = ["10.0.0.8:1".parse().unwrap(), "10.0.0.9:1".parse().unwrap()];
    let mut tried = Vec::new();
    bench.node.handle_resolved(bench.at(), &key, &two);
    for _ in 0..3 {
        let actions = bench.actions();
        let Some(Action::Connect { dealer, endpoint, .. }) =
            actions.iter().find(|action| matches!(action, Action::Connect { .. }))
        else {
            panic!("{actions:?}")
        };
        tried.push(endpoint.clone());
        bench.node.handle_dealer_failed(bench.at(), *dealer);
        bench.wait(Duration::from_secs(60));
        bench.node.handle_resolved(bench.at(), &key, &two);
    }
    assert_eq!(tried, ["tcp://10.0.0.8:1", "tcp://10.0.0.9:1", "tcp://10.0.0.8:1"]);
    let ours = Text::from("tcp://self.example:49152");
    bench.node.handle_endpoint(bench.at(), &ours, None).unwrap();
    let key = Bytes::from_static(b"tcp://self.example:49152");
    bench.node.handle_resolved(bench.at(), &key, &["10.0.0.1:49152".parse().unwrap()]);
    assert!(!bench.node.named.contains_key(&key));
}

/// Beacons and an endpoint lead to one session.
#[test]
fn a_beacon_and_an_endpoint_are_one_peer() {
    for beacon_first in [false, true] {
        let mut world = World::of(2);
        if beacon_first {
            world.run(ms(1500));
        }
        name(&mut world, 0, 1);
        world.run(Duration::from_secs(60));
        assert_eq!(world.events(0), ["1 ENTER"], "{beacon_first}");
        assert_eq!(world.events(1), ["0 ENTER"], "{beacon_first}");
        assert_eq!(world.connections, 2);
        talk(&mut world, 0, 1);
    }
}

/// Behind address translation the answers name other endpoints than the configured ones: two nodes are
/// told apart, one by one, by PING and PING-OK. Messages sent meanwhile arrive.
#[test]
fn behind_an_address_translation() {
    for mutual in [false, true] {
        let mut world = world(3);
        // 1 and 2 announce addresses at which they cannot be reached.
        for place in 1..3 {
            let inside = world.by_endpoint.remove(&Bytes::from(endpoint(place).as_bytes().to_vec())).unwrap();
            world.by_endpoint.insert(Bytes::from(format!("tcp://192.0.2.{place}:777")), inside);
        }
        for place in 1..3 {
            let outside = Text::from(format!("tcp://192.0.2.{place}:777"));
            if mutual {
                name(&mut world, place, 0);
                world.run(ms(5));
            }
            world.act(0, |node, now| node.handle_endpoint(now, &outside, None)).unwrap();
        }
        let mut said = BTreeSet::new();
        for _ in 0..100 {
            world.run(ms(10));
            let entered: Vec<Uuid> = world.places[0].node.peers().collect();
            for peer in entered {
                if said.insert(peer) && !mutual {
                    world.act(0, |node, now| node.whisper(now, &peer, vec![octets("first")])).unwrap();
                }
            }
        }
        for place in 1..3 {
            let first = ["0 ENTER", "0 WHISPER first"];
            assert_eq!(world.events(place), first[..if mutual { 1 } else { 2 }], "{mutual}");
        }
        let mut entered = world.events(0);
        entered.sort();
        assert_eq!(entered, ["1 ENTER", "2 ENTER"]);
        talk(&mut world, 0, 1);
        talk(&mut world, 0, 2);
        assert_eq!(world.places[0].dealers.len(), 2);
        // A loss in either direction is repaired over the established connections.
        for (from, to) in [(0, 1), (1, 0)] {
            world.message_loss = 100;
            world.act(from, |node, now| node.whisper(now, &uuid(to), vec![octets("lost")])).unwrap();
            world.message_loss = 0;
            world.act(from, |node, now| node.whisper(now, &uuid(to), vec![octets("x")])).unwrap();
            world.run(Duration::from_secs(100));
            let events = world.events(to);
            let text = |what: &str| format!("{from} {what}");
            assert_eq!(events, [text("LOST 1"), text("EXIT"), text("ENTER")], "{mutual}");
            assert_eq!(world.events(from), [format!("{to} EXIT"), format!("{to} ENTER")], "{mutual}");
        }
    }
}

/// A peer that has the HELLO and has not answered is told of new groups: otherwise its count would be
/// wrong.
#[test]
fn a_group_joined_while_connecting() {
    let mut world = world(2);
    world.kill(1);
    name(&mut world, 0, 1);
    world.act(0, |node, now| node.join(now, &Text::from("a"))).unwrap();
    world.act(0, |node, now| node.join(now, &Text::from("b"))).unwrap();
    world.act(0, |node, now| node.leave(now, &Text::from("a"))).unwrap();
    world.restart(1, quiet(1, Generations::default()));
    world.run(ms(100));
    assert_eq!(world.places[1].node.peers_of("b").collect::<Vec<_>>(), [uuid(0)]);
    assert_eq!(world.places[1].node.stats().status_repaired, 0);
    world.act(0, |node, now| node.leave(now, &Text::from("b"))).unwrap();
    world.run(ms(100));
    assert_eq!(world.places[1].node.stats().status_repaired, 0);
}

#[test]
fn what_is_no_endpoint() {
    let mut bench = Bench::new(quiet(0, Generations::default()));
    for wrong in ["10.0.0.1:5", "tcp://10.0.0.1", "tcp://:5", "tcp://a:0", "tcp://a:70000", "udp://a:5", ""] {
        let endpoint = Text::from(wrong);
        let error = bench.node.handle_endpoint(Now::default(), &endpoint, None);
        assert_eq!(error, Err(NodeError::Endpoint { endpoint }));
    }
    let good = Text::from("tcp://10.0.0.7:5");
    let error = bench.node.handle_endpoint(Now::default(), &good, Some([1; 32])).unwrap_err();
    assert_eq!(error.to_string(), "`tcp://10.0.0.7:5` has a public key, and this node has none");
    for number in 0..limits::MAX_ENDPOINTS as u32 {
        let ip = core::net::Ipv4Addr::from_bits(0x0a01_0000 + number);
        bench.node.handle_endpoint(Now::default(), &Text::from(format!("tcp://{ip}:1")), None).unwrap();
    }
    let error = bench.node.handle_endpoint(Now::default(), &good, None).unwrap_err();
    assert_eq!(error, NodeError::TooManyEndpoints { bound: limits::MAX_ENDPOINTS });
    drop(bench.actions());
    bench.node.stop(Now::default()).unwrap();
    bench.wait(ms(100));
    let closed = bench.actions();
    assert_eq!(closed.len(), limits::MAX_ENDPOINTS);
    assert!(closed.iter().all(|action| matches!(action, Action::Disconnect { .. })));
    assert!(bench.node.handle_endpoint(Now::default(), &good, None).is_err());
}

/// An endpoint that accepts every connection and stays silent, or closes it at once: the pauses grow.
#[test]
fn an_endpoint_that_is_no_node() {
    for drops in [false, true] {
        let mut bench = Bench::new(quiet(0, Generations::ALL_REAL));
        bench.node.handle_endpoint(bench.at(), &endpoint(1), None).unwrap();
        let mut attempts = 0;
        while bench.now < Duration::from_secs(3600) {
            for action in bench.actions() {
                if let Action::Connect { dealer, .. } = action {
                    attempts += 1;
                    bench.node.handle_dealer_connected(bench.at(), dealer);
                    if drops {
                        bench.node.handle_dealer_failed(bench.at(), dealer);
                    }
                }
            }
            bench.wait(ms(500));
        }
        assert!((30..150).contains(&attempts), "{attempts}");
        assert!(bench.kinds().is_empty() && bench.node.dealers.len() <= 1);
    }
}
