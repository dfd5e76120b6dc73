//! Evasive, silent, expired.

use super::*;

/// Events come at edges; PING once a second; any sign of life resets the state.
#[test]
fn a_silent_peer_is_asked_and_then_forgotten() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.kinds(), bench.actions()));
    bench.wait(ms(3999));
    assert!(bench.kinds().is_empty() && bench.sent(G36).is_empty());
    bench.wait(ms(1));
    assert_eq!(bench.sent(G36).len(), 1);
    bench.wait(ms(999));
    assert!(bench.kinds().is_empty() && bench.sent(G36).is_empty());
    bench.wait(ms(1));
    assert_eq!(bench.kinds(), [EventKind::Evasive]);
    assert_eq!(bench.sent(G36).len(), 1);
    bench.wait(ms(1000));
    assert_eq!(bench.kinds(), [EventKind::Silent]);
    assert_eq!(bench.sent(G36).len(), 1);
    bench.wait(ms(10_000));
    assert!(bench.kinds().is_empty(), "edges, not states");
    assert_eq!(bench.sent(G36).len(), 10);

    bench.hear(1, G36, 2, Body::PingOk);
    bench.wait(ms(4999));
    assert!(bench.kinds().is_empty() && bench.sent(G36).len() == 1);
    bench.wait(ms(1001));
    assert_eq!(bench.kinds(), [EventKind::Evasive, EventKind::Silent]);
    bench.wait(ms(23_999));
    assert!(bench.kinds().is_empty());
    bench.wait(ms(1));
    assert_eq!(bench.kinds(), [EventKind::Exit]);
    assert!(matches!(bench.actions().last(), Some(Action::Disconnect { .. })));
    assert_eq!(bench.node.peers().count(), 0);
}

/// "Two idle Z36 nodes ping each other about every 5 to 6 s", and raise evasive each time. zwire sends
/// PING a second earlier.
#[test]
fn who_lives_and_has_nothing_to_say_is_not_evasive() {
    let mut world = World::new();
    for number in 0..2 {
        world.add(ZreNodeConfig { beacon_interval: None, ..config(number, Generations::default()) });
    }
    let endpoint = octets("tcp://10.0.0.2:49152");
    world.act(0, |node, now| node.handle_found(now, uuid(1), endpoint, None));
    world.run(ms(100));
    let sent = world.sent;
    world.run(Duration::from_secs(400));
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(1), ["0 ENTER"]);
    // PING and PING-OK, each a sign of life, once in four seconds.
    let sent = world.sent - sent;
    assert!((196..=204).contains(&sent), "{sent}");
}

/// "Treat any message and any beacon as a sign of life" (`zre` 11.7).
#[test]
fn beacons_are_a_sign_of_life() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.kinds(), bench.actions()));
    for _ in 0..60 {
        bench.wait(ms(1000));
        bench.hear_beacon(1, 49152);
    }
    assert!(bench.kinds().is_empty() && bench.sent(G36).is_empty());
}

#[test]
fn who_never_says_hello_never_entered() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_beacon(1, 49152);
    bench.wait(ms(29_999));
    bench.hear_beacon(1, 49152);
    assert_eq!(bench.node.peers.len(), 1);
    bench.wait(ms(1));
    assert!(bench.kinds().is_empty());
    assert!(bench.node.peers.is_empty() && bench.node.unanswered.is_empty());
    assert!(bench.node.endpoints.is_empty() && bench.node.dealers.is_empty());
}

#[test]
fn the_times_are_settings() {
    let (evasive, expired, ping_interval) = (ms(100), ms(300), ms(50));
    let settings = ZreNodeConfig { evasive, expired, ping_interval, ..config(0, Generations::default()) };
    let mut bench = Bench::new(settings);
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.kinds(), bench.actions()));
    bench.wait(ms(299));
    assert_eq!(bench.kinds(), [EventKind::Evasive, EventKind::Silent]);
    assert_eq!(bench.sent(G36).len(), 5);
    bench.wait(ms(1));
    assert_eq!(bench.kinds(), [EventKind::Exit]);
}

/// The process is stopped, the network is cut, for 3, 10 and 40 seconds.
#[test]
fn a_cut_network_heals() {
    for (seconds, seen) in [
        (3, vec![]),
        (10, vec!["1 EVASIVE", "1 SILENT"]),
        (40, vec!["1 EVASIVE", "1 SILENT", "1 EXIT", "1 ENTER"]),
    ] {
        let mut world = World::of(2);
        world.run(ms(1500));
        drop(world.events(0));
        world.places[1].part = 1;
        world.run(Duration::from_secs(seconds));
        world.places[1].part = 0;
        // PINGs that were lost leave a gap in the sequence.
        world.run(Duration::from_secs(20));
        let events = world.events(0);
        assert_eq!(events[..seen.len().min(events.len())], seen[..], "{seconds} s");
        assert!(world.is_whole(), "{seconds} s: {events:?}");
    }
}

/// The work per step depends on due timers, not on the number of peers.
#[test]
fn a_thousand_peers_are_not_looked_at_each_time() {
    let mut bench = Bench::new(config(0, Generations::default()));
    for peer in 1..1001 {
        bench.hear(peer, G36, 1, Body::Hello(hello_of(peer, G36)));
    }
    // All but one give signs of life four times a second.
    let seconds = 20;
    for _ in 0..4 * seconds {
        (2..1001).for_each(|peer| bench.hear_beacon(peer, 49152));
        bench.wait(ms(250));
        drop(bench.actions());
    }
    // Each live peer is checked when it would be evasive had it stayed silent, the silent one once a
    // second.
    assert!(bench.node.checks <= 1000 * (seconds / 4) + 60, "{}", bench.node.checks);
    let evasive = bench.kinds().into_iter().filter(|kind| *kind == EventKind::Evasive).count();
    assert_eq!(evasive, 1);
    assert_eq!(bench.node.deadlines.len(), 1000);
    (1..1001).for_each(|peer| bench.hear_beacon(peer, 0));
    assert!(bench.node.deadlines.is_empty() && bench.node.members.is_empty());
}
