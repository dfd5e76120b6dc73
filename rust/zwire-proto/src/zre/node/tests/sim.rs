//! "To allow any number of nodes to run in one process, to allow large-scale simulation and testing"
//! (RFC 20, Goals): virtual time, a lossy network, the same for the same seed.

use super::*;

/// Cost of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    /// Milliseconds until all nodes know each other.
    time: u64,
    /// Messages until then, and in the next one and a half beacon intervals.
    messages: u64,
    /// Beacons, likewise.
    beacons: u64,
}

fn until_whole(world: &mut World, most: Duration) {
    let end = world.now + most;
    while !world.is_whole() {
        world.run(ms(10));
        assert!(world.now < end, "not whole after {most:?}");
    }
}

fn converge(nodes: usize, loss: u64, seed: u64) -> Cost {
    let mut world = World::new();
    world.random = Random(seed);
    world.datagram_loss = loss;
    for number in 0..nodes {
        world.add(config(number, Generations::default()));
    }
    until_whole(&mut world, Duration::from_secs(60));
    let time = world.now.as_millis() as u64;
    world.run(ms(1500));
    for place in &world.places {
        assert_eq!(place.node.stats().gaps, 0);
        let enters =
            place.events.iter().filter(|event| matches!(event.kind, EventKind::Enter { .. })).count();
        assert_eq!(enters, nodes - 1, "ENTER of each, once");
        assert!(!place.events.iter().any(|event| event.kind == EventKind::Exit));
    }
    let beacons = world.places.iter().map(|place| place.datagrams).sum();
    Cost { time, messages: world.sent, beacons }
}

#[test]
fn nodes_see_each_other_within_one_beacon() {
    for nodes in [2, 10, 50, 200] {
        let Cost { time, messages, .. } = converge(nodes, 0, 1);
        assert!(time <= 1000, "{nodes} nodes: {time} ms");
        // One HELLO each way.
        assert_eq!(messages, (nodes * (nodes - 1)) as u64);
    }
}

/// A HELLO in answer needs no beacon, so loss costs little time.
#[test]
fn lost_beacons_cost_a_beacon_or_two() {
    for (loss, longest) in [(5, 2000), (20, 3000), (60, 10_000)] {
        for seed in [1, 2, 3] {
            let Cost { time, messages, .. } = converge(30, loss, seed);
            assert!(time <= longest, "{loss} %: {time} ms");
            // If beacons are lost for four seconds, PING helps.
            assert!(messages >= 30 * 29 && (loss > 20 || messages == 30 * 29), "{loss} %: {messages}");
        }
    }
}

const PAGE: &str = include_str!("../../../../../../docs/zre-simulation.md");

/// The numbers of a line of a table in the documentation that begins with these.
fn documented(section: &str, begin: &[u64]) -> Vec<u64> {
    let (_, table) = PAGE.split_once(section).unwrap();
    let table = table.split_once("\n## ").map_or(table, |(table, _)| table);
    let cells = |line: &str| -> Option<Vec<u64>> {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        line.split('|').map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
    };
    let mut found = table.lines().filter_map(cells).filter(|line| line.starts_with(begin));
    let line = found.next().unwrap_or_else(|| panic!("no line {begin:?}"));
    assert_eq!(found.next(), None, "two lines {begin:?}");
    line[begin.len()..].to_vec()
}

fn compare(lines: &[(u64, u64)]) {
    let documented = lines.iter().map(|(nodes, loss)| documented("## Convergence", &[*nodes, *loss]));
    let seen = lines.iter().map(|(nodes, loss)| {
        let Cost { time, messages, beacons } = converge(*nodes as usize, *loss, 1);
        vec![time, messages, beacons]
    });
    assert_eq!(documented.collect::<Vec<_>>(), seen.collect::<Vec<_>>(), "{lines:?}");
}

/// A change of these numbers is a change of behaviour: the page must be updated with it.
#[test]
fn the_table_of_convergence() {
    compare(&[(10, 0), (10, 5), (10, 20), (100, 0), (100, 5), (100, 20)]);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_thousand_nodes_without_loss() {
    compare(&[(1000, 0)]);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_thousand_nodes_with_5_percent_loss() {
    compare(&[(1000, 5)]);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_thousand_nodes_with_20_percent_loss() {
    compare(&[(1000, 20)]);
}

/// Twenty nodes die or leave and others take their places; a tenth of the network is cut off for longer
/// than the expiry time, and comes back. With timers of a few seconds, so that the run is short.
fn live(nodes: usize) -> [u64; 4] {
    let settings = |number| ZreNodeConfig {
        beacon_interval: Some(ms(2000)),
        evasive: ms(4100),
        expired: ms(8000),
        ..config(number, Generations::default())
    };
    let mut world = World::new();
    world.datagram_loss = 5;
    (0..nodes).for_each(|number| _ = world.add(settings(number)));
    let most = Duration::from_secs(30);
    until_whole(&mut world, most);
    let mut random = Random(9);
    for round in 0..20 {
        let place = (random.next() >> 20) as usize % nodes;
        if round % 2 == 0 {
            world.act(place, |node, now| node.stop(now)).unwrap();
            world.run(ms(100));
        }
        world.kill(place);
        world.run(ms(100));
        let new = if round % 3 == 0 { place } else { 10_000 + round };
        world.restart(place, ZreNodeConfig { uuid: uuid(new), ..settings(place) });
    }
    until_whole(&mut world, most);
    let churned = (world.now.as_millis() as u64, world.sent);
    for place in world.places.iter_mut().take(nodes / 10) {
        place.part = 1;
    }
    until_whole(&mut world, most);
    for place in &mut world.places {
        place.part = 0;
    }
    let cut = world.now;
    until_whole(&mut world, most);
    let healed = (world.now - cut).as_millis() as u64;
    for place in &mut world.places {
        let mut there = BTreeSet::new();
        // The view of a node that died is gone with it.
        let lived =
            place.events.iter().rposition(|event| event.kind == EventKind::Stop).map_or(0, |at| at + 1);
        for event in &place.events[lived..] {
            match event.kind {
                EventKind::Enter { .. } => _ = there.insert(event.peer),
                EventKind::Exit => _ = there.remove(&event.peer),
                _ => {}
            }
        }
        assert!(place.node.peers().all(|peer| there.contains(&peer)));
    }
    [churned.0, churned.1, healed, world.sent - churned.1]
}

#[test]
fn a_hundred_nodes_through_churn_and_partition() {
    assert_eq!(documented("## Churn", &[100]), live(100));
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_thousand_nodes_through_churn_and_partition() {
    assert_eq!(documented("## Churn", &[1000]), live(1000));
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(converge(30, 40, 11), converge(30, 40, 11));
}

/// Messages are lost silently, as when a connection breaks: afterwards every peer is found again, and
/// no node lists a group that a peer is not in.
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
    // The last message of a pair may be missing, which only the next one reveals.
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

/// The network is split for longer than the expiry time, and joined again.
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

/// A node that starts and stops a thousand times costs a few messages each time: HELLO in both
/// directions with each of the others, and the messages sent on entry.
#[test]
fn a_thousand_starts_and_stops() {
    for same in [false, true] {
        let mut world = World::of(3);
        world.run(ms(1500));
        (0..3).for_each(|place| drop(world.events(place)));
        for cycle in 0..1000 {
            let sent = world.sent;
            // Every other one dies without a goodbye.
            if cycle % 2 == 0 {
                world.act(2, |node, now| node.stop(now)).unwrap();
                world.run(ms(100));
            }
            world.kill(2);
            world.run(ms(50));
            let number = if same { 2 } else { 100 + cycle };
            world.restart(2, ZreNodeConfig { uuid: uuid(number), ..config(2, Generations::default()) });
            world.run(ms(2500));
            assert!(world.is_whole(), "cycle {cycle}");
            assert!(world.sent - sent <= 8, "cycle {cycle}: {} messages", world.sent - sent);
            let before = if same || cycle == 0 { 2 } else { 99 + cycle };
            for place in 0..2 {
                let expected = [format!("{before} EXIT"), format!("{number} ENTER")];
                assert_eq!(world.events(place), expected, "cycle {cycle}");
            }
            drop(world.events(2));
        }
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
            world.restart(
                place,
                ZreNodeConfig { uuid: uuid(number), ..config(place, Generations::default()) },
            );
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
        // Over all lives of a place: its own restart resets the state.
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
