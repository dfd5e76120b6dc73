//! "To allow any number of nodes to run in one process, to allow large-scale simulation and testing"
//! (RFC 20, Goals): virtual time, a lossy network, the same for the same seed.

use super::*;

/// Milliseconds until everybody sees everybody, and messages sent.
fn converge(nodes: usize, loss: u64, seed: u64) -> (u64, u64) {
    let mut world = World::new();
    world.random = Random(seed);
    world.datagram_loss = loss;
    for number in 0..nodes {
        world.add(config(number, Generations::default()));
    }
    while !world.is_whole() {
        world.run(ms(10));
        assert!(world.now < Duration::from_secs(60), "{nodes} nodes, {loss} % loss");
    }
    let time = world.now.as_millis() as u64;
    world.run(ms(1500));
    for place in &world.places {
        assert_eq!(place.node.stats().gaps, 0);
        let enters =
            place.events.iter().filter(|event| matches!(event.kind, EventKind::Enter { .. })).count();
        assert_eq!(enters, nodes - 1, "ENTER of each, once");
        assert!(!place.events.iter().any(|event| event.kind == EventKind::Exit));
    }
    (time, world.sent)
}

#[test]
fn nodes_see_each_other_within_one_beacon() {
    for nodes in [2, 10, 50, 200] {
        let (time, sent) = converge(nodes, 0, 1);
        assert!(time <= 1000, "{nodes} nodes: {time} ms");
        // One HELLO each way.
        assert_eq!(sent, (nodes * (nodes - 1)) as u64);
    }
}

#[test]
#[ignore = "takes half a minute; cargo test -p zwire-proto --lib -- --ignored a_thousand"]
fn a_thousand_nodes_see_each_other_within_one_beacon() {
    let (time, sent) = converge(1000, 0, 1);
    assert!(time <= 1000, "{time} ms");
    assert_eq!(sent, 999_000);
}

/// A HELLO that answers needs no beacon, so loss costs little time.
#[test]
fn lost_beacons_cost_a_beacon_or_two() {
    for (loss, longest) in [(5, 2000), (20, 3000), (60, 10_000)] {
        for seed in [1, 2, 3] {
            let (time, sent) = converge(30, loss, seed);
            assert!(time <= longest, "{loss} %: {time} ms");
            // Where beacons are lost for four seconds, PING helps.
            assert!(sent >= 30 * 29 && (loss > 20 || sent == 30 * 29), "{loss} %: {sent}");
        }
    }
}

/// Nodes, percent of beacons lost, milliseconds until everybody sees everybody, messages until then.
/// A change of these numbers is a change of behaviour.
#[test]
fn the_table_of_convergence() {
    let table = [(10, 0), (10, 5), (10, 20), (10, 50), (50, 0), (50, 5), (50, 20), (50, 50), (100, 20)];
    let seen: Vec<_> = table
        .iter()
        .map(|(nodes, loss)| {
            let (time, sent) = converge(*nodes, *loss, 1);
            (*nodes, *loss, time, sent)
        })
        .collect();
    let expected = [
        (10, 0, 10, 90),
        (10, 5, 10, 90),
        (10, 20, 1010, 90),
        (10, 50, 2010, 90),
        (50, 0, 10, 2450),
        (50, 5, 1010, 2450),
        (50, 20, 1010, 2450),
        // Where four beacons in a row are lost, PING adds its own.
        (50, 50, 5010, 3092),
        (100, 20, 3010, 9930),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(converge(30, 40, 11), converge(30, 40, 11));
}

/// Messages vanish without a word, as when a connection breaks: every peer is there again after it ends,
/// and nobody believes in a group that is not there.
#[test]
fn a_network_that_loses_messages_heals() {
    let mut world = World::of(15);
    world.run(ms(1500));
    world.message_loss = 5;
    world.datagram_loss = 20;
    let mut random = Random(5);
    for step in 0..600_u32 {
        let place = (random.next() >> 20) as usize % 15;
        let group = Text::from(["a", "b", "c"][(random.next() >> 20) as usize % 3]);
        match step % 4 {
            0 => drop(world.act(place, |node, now| node.join(now, &group))),
            1 => drop(world.act(place, |node, now| node.leave(now, &group))),
            _ => drop(world.act(place, |node, now| node.shout(now, &group, vec![octets("x")]))),
        }
        world.run(ms(20));
    }
    assert!(world.places.iter().map(|place| place.node.stats().gaps).sum::<u64>() > 50);
    world.message_loss = 0;
    world.datagram_loss = 0;
    // The last message of a pair may be missing, which only the next one shows.
    for place in 0..15 {
        for peer in world.places[place].node.peers().collect::<Vec<_>>() {
            drop(world.act(place, |node, now| node.whisper(now, &peer, vec![octets("y")])));
        }
    }
    world.run(Duration::from_secs(62));
    for place in 0..15 {
        for peer in world.places[place].node.peers().collect::<Vec<_>>() {
            drop(world.act(place, |node, now| node.whisper(now, &peer, vec![octets("y")])));
        }
    }
    world.run(Duration::from_secs(5));
    assert!(world.is_whole());
    for group in ["a", "b", "c"] {
        for place in &world.places {
            let seen = place.node.peers_of(group).count();
            let own = usize::from(place.node.own_groups().any(|own| own == group));
            let all =
                world.places.iter().filter(|other| other.node.own_groups().any(|own| own == group)).count();
            assert_eq!(seen + own, all, "{group}");
        }
    }
}

/// The network falls apart for longer than peers are believed in, and comes together.
#[test]
fn a_partition_heals() {
    let mut world = World::of(20);
    world.run(ms(1500));
    for place in 10..20 {
        world.places[place].part = 1;
    }
    world.run(Duration::from_secs(40));
    assert!(world.is_whole());
    assert!(world.places.iter().all(|place| place.node.peers().count() == 9));
    for place in 10..20 {
        world.places[place].part = 0;
    }
    world.run(Duration::from_secs(2));
    assert!(world.is_whole());
    for place in 0..20 {
        let events = world.events(place);
        assert_eq!(events.iter().filter(|event| event.ends_with("EXIT")).count(), 10);
        assert_eq!(events.iter().filter(|event| event.ends_with("ENTER")).count(), 29);
    }
}

/// Nodes come and go; at any time each pair of events alternates.
#[test]
fn churn() {
    let mut world = World::of(12);
    world.datagram_loss = 10;
    let mut random = Random(3);
    for round in 0..60 {
        let place = (random.next() >> 20) as usize % 12;
        if !world.places[place].up {
            let number = if round % 2 == 0 { place } else { 100 + round };
            world.restart(place, NodeConfig { uuid: uuid(number), ..config(place, Generations::default()) });
        } else if round % 3 == 0 {
            world.act(place, |node, now| node.stop(now)).unwrap();
            world.run(ms(100));
            world.kill(place);
        } else {
            world.kill(place);
        }
        world.run(ms(500 + (random.next() >> 20) % 3000));
    }
    world.datagram_loss = 0;
    world.run(Duration::from_secs(70));
    assert!(world.is_whole());
    for place in &world.places {
        let mut there = BTreeSet::new();
        // What a place has seen over all its lives: at its own start it begins anew.
        for event in &place.events {
            match event.kind {
                EventKind::Enter { .. } => drop(there.insert(event.peer)),
                EventKind::Exit => drop(there.remove(&event.peer)),
                _ => {}
            }
        }
        if place.up {
            assert!(place.node.peers().all(|peer| there.contains(&peer)));
        }
    }
}
