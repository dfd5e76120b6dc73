//! ELECT and LEADER (`zre` 12).

use super::*;

fn elect(world: &mut World, contestants: &[usize]) {
    let group = Text::from("LEAD");
    let all = world.places.len();
    (0..all).for_each(|place| drop(world.act(place, |node, now| node.join(now, &group))));
    world.run(ms(100));
    for place in contestants {
        world.act(*place, |node, now| node.contest(now, &group)).unwrap();
        world.run(ms(3));
    }
    world.run(ms(1000));
}

#[test]
fn the_smallest_contestant_leads_and_all_know() {
    for contestants in [&[0_usize, 1, 2, 3][..], &[3, 2, 1], &[2], &[1, 3]] {
        let mut world = World::new();
        for number in 0..4 {
            world.add(ZreNodeConfig { drafts: true, ..config(number, Generations::default()) });
        }
        world.run(ms(1500));
        elect(&mut world, contestants);
        let best = uuid(*contestants.iter().min().unwrap());
        for place in &world.places {
            assert_eq!(place.node.leader("LEAD"), Some(best), "{contestants:?}");
            assert_eq!(place.node.stats().gaps, 0);
        }
        // The leader leaves: the next one wins.
        let leader = *contestants.iter().min().unwrap();
        world.act(leader, |node, now| node.stop(now)).unwrap();
        world.kill(leader);
        world.run(ms(2000));
        let next = contestants.iter().filter(|other| **other != leader).min().map(|next| uuid(*next));
        for place in world.places.iter().filter(|place| place.up) {
            assert_eq!(place.node.leader("LEAD"), next, "{contestants:?}");
        }
    }
}

/// A passive node answers peers that have sent an election message, and no others.
#[test]
fn peers_that_may_be_pyre_hear_nothing_of_elections() {
    let mut bench = Bench::new(config(5, Generations::default()));
    for peer in [1, 2, 3] {
        bench.hear(peer, G36, 1, Body::Hello(hello_of(peer, G36)));
    }
    bench.node.join(Now::default(), &Text::from("G")).unwrap();
    drop((bench.actions(), bench.kinds()));
    let challenger = Bytes::copy_from_slice(&uuid(1).to_hex());
    let body = || Body::Elect { group: octets("G"), challenger: challenger.clone() };
    bench.hear(1, G36, 2, body());
    assert!(bench.sent(G36).is_empty(), "2 and 3 may be pyre, 1 knows already");
    bench.hear(2, G36, 2, body());
    let sent = bench.sent(G36);
    assert_eq!(sent.len(), 1, "2 knows elections");
    bench.hear(3, G36, 2, body());
    let sent = bench.sent(G36);
    assert_eq!(sent.len(), 2, "3 does, and the wave goes back to 1");
    assert!(sent.iter().all(|message| message.body == body()));
    // All members report the winner.
    let leader = || Body::Leader { group: octets("G"), leader: challenger.clone() };
    bench.hear(1, G36, 3, leader());
    assert_eq!(bench.sent(G36).len(), 3);
    bench.hear(2, G36, 3, leader());
    assert!(bench.kinds().is_empty());
    bench.hear(3, G36, 3, leader());
    assert_eq!(bench.kinds(), [EventKind::Leader { group: Text::from("G") }]);
    assert_eq!(bench.node.leader("G"), Some(uuid(1)));
    // Without an election LEADER is ignored.
    bench.hear(1, G36, 4, leader());
    assert!(bench.sent(G36).is_empty() && bench.kinds().is_empty());
}

#[test]
fn elections_of_other_groups_and_of_nobody_are_ignored() {
    let mut bench = Bench::new(config(5, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.actions(), bench.kinds()));
    let elect = |group, challenger| Body::Elect { group: octets(group), challenger: octets(challenger) };
    bench.hear(1, G36, 2, elect("other", "01010101010101010000000000000001"));
    bench.hear(1, G36, 3, elect("G", "nobody"));
    assert!(bench.sent(G36).is_empty() && bench.node.elections.is_empty());
    let group = Text::from("G");
    assert_eq!(bench.node.contest(Now::default(), &group), Err(NodeError::NotInGroup { group }));
}
