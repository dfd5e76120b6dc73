//! Routers that tell of others what is not so: neighbours and this node speak for themselves, and what is claimed
//! about them is overwritten in the whole network (`zenoh-behaviour` 5.6).

use super::{
    fabric::{End, Fabric},
    routers::{SN, along, record},
    *,
};
use crate::{
    limits::{MATCHING_BURST, MAX_ROUTERS},
    zenoh::{KeyExpr, session::SubscriberOptions},
};

const MS: Duration = Duration::from_millis(1);
/// Number of a state that no router reaches by itself.
const HIGH: u64 = 1 << 62;

impl World {
    /// Meets router 8, which has a link to this node and claims whatever else it is told to.
    fn with_liar() -> Self {
        let mut world = Self::with_router();
        world.meets(8, WhatAmI::Router);
        world.tells(8, states(vec![record(0, 5, Some(8), &[2]), record(2, 0, Some(0xf000), &[])]));
        world.after(100 * MS);
        world
    }

    /// Router 8 also tells of a thousand routers that it is linked to, numbered from 11 on.
    fn with_crowd() -> Self {
        let mut world = Self::with_liar();
        let links: Vec<u64> = (11..1000).chain([2]).collect();
        let crowd = (11..1000).map(|n| record(n, 9, Some(0x9000 + n as u32), &[0]));
        let own = record(0, 6, None, &links);
        world.tells(8, states(core::iter::once(own).chain(crowd).collect()));
        world
    }
}

#[test]
fn a_neighbour_speaks_for_itself() {
    let mut world = World::with_liar();
    world.tells(9, d_sub(0, "k"));
    let ignored = world.node.stats().ignored;
    for sn in [7, HIGH] {
        assert!(world.tells(8, states(vec![record(3, sn, Some(9), &[])])).is_empty(), "told to nobody");
    }
    assert_eq!(world.node.stats().ignored, ignored + 2);
    assert_eq!(world.node.poll_timeout(), Some(world.now + 20 * MS));
    world.now += 20 * MS;
    world.node.handle_timeout(world.now());
    // The neighbour hears of the number, with its own links.
    assert_eq!(world.words(), [format!("9: 1=59 sn {HIGH} router [0]")]);
    world.after(500 * MS);
    assert_eq!(world.says(1, put("k", "")), ["9: k PUT "]);
    // It answers with a greater number, of which others are told.
    let answer = world.tells(9, states(vec![record(0, HIGH + 1, None, &[1])]));
    assert_eq!(answer, [format!("8: 1 sn {} [0]", HIGH + 1)]);
    world.after(500 * MS);
    assert_eq!(world.says(1, put("k", "")), ["9: k PUT "]);
    // Numbers wrap around: none is the last one.
    for sn in [3 * HIGH, 1] {
        assert_eq!(world.tells(9, states(vec![record(0, sn, None, &[1])])), [format!("8: 1 sn {sn} [0]")]);
    }
}

#[test]
fn this_node_overwrites_claims_about_itself() {
    let mut world = World::with_liar();
    let own = SN + 100_000;
    // An echo is no claim.
    let echo = |sn| states(vec![record(2, sn, Some(0xf000), &[0, 4]), record(4, 0, Some(9), &[])]);
    for sn in [0, 1, own] {
        assert!(world.tells(8, echo(sn)).is_empty());
        assert!(world.after(100 * MS).is_empty(), "{sn}");
    }
    for (sn, answer) in [(own + 1, own + 2), (HIGH, HIGH + 1), (3 * HIGH, 3 * HIGH + 1), (u64::MAX, 1)] {
        assert!(world.tells(8, states(vec![record(2, sn, None, &[])])).is_empty());
        world.now += 20 * MS;
        world.node.handle_timeout(world.now());
        assert_eq!(world.words(), [format!("8: 0 sn {answer} [2, 1]"), format!("9: 0 sn {answer} [2, 1]")]);
    }
    // The same number with other links, too; and many claims have one answer.
    for _ in 0..100 {
        world.tells(8, states(vec![record(2, 1, None, &[])]));
    }
    world.now += 20 * MS;
    world.node.handle_timeout(world.now());
    assert_eq!(world.words(), ["8: 0 sn 2 [2, 1]", "9: 0 sn 2 [2, 1]"]);
    assert_eq!(world.node.poll_timeout(), None);
}

/// A neighbour may lose its link to this node before this node does.
#[test]
fn a_claim_counts_when_the_neighbour_is_gone() {
    let mut world = World::with_liar();
    let moved = [record(3, 9, Some(9), &[0, 4]), record(4, 3, Some(7), &[3])];
    world.tells(8, states([record(0, 6, None, &[2, 3])].into_iter().chain(moved).collect()));
    world.after(100 * MS);
    world.tells(9, d_sub(0, "k"));
    assert_eq!(world.says(1, put("k", "")), ["9: k PUT "]);
    world.node.handle_face_down(world.now(), FaceId(9));
    let words = world.words();
    assert!(words.iter().any(|word| word.contains("1 sn 9 [3, 2]")), "others are told: {words:?}");
    world.after(100 * MS);
    assert_eq!(world.says(1, put("k", "")), ["8: k PUT "]);
    assert_eq!(world.node.routers().links.len(), 3, "7 is behind 9");
}

#[test]
fn of_two_states_with_one_number_all_prefer_the_same() {
    let state = |links: &[u64]| states(vec![record(3, 4, Some(7), links), record(5, 1, Some(6), &[])]);
    let weigh = |order: [&[u64]; 2]| {
        let mut world = World::with_liar();
        order.into_iter().for_each(|links| drop(world.tells(8, state(links))));
        let links = world.node.network.links_of(zid(7));
        (links, world.tells(8, state(order[0])).len() + world.tells(8, state(order[1])).len())
    };
    let (a, b) = (weigh([&[0, 5], &[0]]), weigh([&[0], &[0, 5]]));
    assert_eq!(a, b);
    assert_eq!(a, (vec![zid(8)], 0), "no state counts twice");
}

/// Routers A - B - C with a session at A and one at C, and a liar that is linked to one of them.
fn chain(linked_to: usize) -> (Fabric, usize) {
    let mut fabric = Fabric::new(5);
    let nodes = [1, 2, 3, 4].map(|n| fabric.node(NodeConfig::new(zid(n), NodeMode::Router)));
    for pair in nodes[..3].windows(2) {
        fabric.link(End::Node(pair[0]), End::Node(pair[1]), FaceKind::Unicast);
    }
    let bad = fabric.link(End::Node(linked_to), End::Node(nodes[3]), FaceKind::Unicast);
    for at in [0, 2] {
        let session = fabric.session();
        fabric.link(End::Node(at), End::Session(session), FaceKind::Unicast);
    }
    let key: KeyExpr = "k".parse().unwrap();
    fabric.with_session(1, |s, now| {
        s.declare_subscriber(now, key, SubscriberOptions::default()).unwrap();
    });
    fabric.run(Duration::from_secs(1));
    (fabric, bad)
}

/// Claims about each router of the chain, with numbers that are or will be in use, or greater than any.
#[test]
fn claims_change_no_route() {
    for linked_to in 0..3 {
        let (mut fabric, bad) = chain(linked_to);
        let mut lies = 0_u64;
        for number in [SN, SN + 2_000_000, SN + 4_000_000, HIGH, 3 * HIGH - 5, u64::MAX] {
            for victim in 1..=3 {
                for links in [&[][..], &[0], &[0, 1001]] {
                    let mut all = vec![record(1000, number.wrapping_add(lies % 3), Some(victim), links)];
                    all.push(record(1001, 1, Some(0x77), &[1000]));
                    fabric.say(bad, 3, states(all));
                    lies += 1;
                    for put in 0..8 {
                        fabric.run(50 * MS);
                        fabric.put(0, &"k".parse().unwrap(), format!("{lies}/{put}"));
                    }
                }
            }
        }
        fabric.run(Duration::from_secs(1));
        assert_eq!(fabric.samples.len(), 8 * lies as usize, "liar at {linked_to}");
        assert!(fabric.samples.values().all(|count| *count == 1));
    }
}

/// The router in the middle is a neighbour of both others, which it does not let be spoken for.
#[test]
fn a_flood_of_claims_at_the_router_in_the_middle_changes_no_route() {
    let (mut fabric, bad) = chain(1);
    for number in 0..1000 {
        let lies =
            (1..=3).map(|victim| record(u64::from(victim) + 1000, HIGH - 2000 + number, Some(victim), &[]));
        fabric.say(bad, 3, states(lies.collect()));
        fabric.run(5 * MS);
        fabric.put(0, &"k".parse().unwrap(), format!("{number}"));
    }
    fabric.run(Duration::from_secs(1));
    assert_eq!(fabric.samples.len(), 1000);
    assert!(fabric.samples.values().all(|count| *count == 1));
}

/// Routers that one neighbour invents do not keep out others.
#[test]
fn invented_routers_leave_room_for_others() {
    let mut world = World::with_liar();
    let crowd = |from: u32| (from..from + 3000).map(|n| record(n.into(), 9, Some(0x9000 + n), &[0]));
    world.tells(8, states(crowd(10).collect()));
    assert!(world.node.network.size().0 >= MAX_ROUTERS);
    world.meets(7, WhatAmI::Router);
    let behind = (10..40).map(|n| record(n, 9, Some(0x700 + n as u32), &[0]));
    let links: Vec<u64> = (10..40).chain([2]).collect();
    let own = [record(0, 5, Some(7), &links), record(2, 0, Some(0xf000), &[])];
    world.tells(7, states(own.into_iter().chain(behind).collect()));
    world.after(100 * MS);
    world.tells(7, d_sub(0, "near"));
    world.tells(7, along(39, d_sub(0, "far")));
    assert_eq!(world.says(1, put("near", "")), ["7: near PUT "]);
    assert_eq!(world.says(1, put("far", "")), ["7: far PUT "]);
    world.node.check_bounds();
}

/// Claims that change nothing take memory, too.
#[test]
fn claims_are_bounded() {
    let mut world = World::with_liar();
    for face in 10..14 {
        world.meets(face, WhatAmI::Router);
        world.tells(face, states(vec![record(0, 5, Some(face), &[1]), record(1, 0, Some(0xf000), &[])]));
    }
    let links: Vec<u64> = (100..9000).collect();
    world.tells(8, states(links.iter().map(|n| record(*n, 1, Some(0x9000 + *n as u32), &[])).collect()));
    for sn in 0..3 {
        let claims = (10..14).map(|face| record(face, HIGH + sn, Some(face as u32), &links));
        world.tells(8, states(claims.collect()));
        world.node.check_bounds();
        assert!(world.node.network.claimed() > 16_000);
        world.after(100 * MS);
    }
    (7..14).for_each(|face| drop(world.down(face)));
    world.after(Duration::from_secs(20));
    for face in 1..3 {
        world.down(face);
    }
    world.node.check_nothing_left();
}

/// As many routers as a network may have, all with declarations: their trees are computed in steps.
#[test]
fn the_trees_of_many_routers_are_computed_in_steps() {
    let mut world = World::with_liar();
    let invented = 1..1000_u64;
    let links: Vec<u64> = invented.clone().map(|n| n + 10).chain([2]).collect();
    let all = |sn: u64| {
        let states = invented.clone().map(move |n| {
            // Each is linked to some others.
            let others: Vec<u64> = (1..8).map(|step| 10 + (n + step * 100) % 1000).chain([0]).collect();
            record(n + 10, sn, Some(0x9000 + n as u32), &others)
        });
        states.collect::<Vec<_>>()
    };
    let steps = |world: &mut World| {
        let begun = world.now;
        let mut steps = 0;
        while let Some(at) = world.node.poll_timeout() {
            world.now = world.now.max(at);
            world.node.handle_timeout(world.now());
            steps += 1;
            assert!(steps < 10_000 && world.now - begun < 1000 * MS);
        }
        steps
    };
    world.tells(8, states([vec![record(0, 6, None, &links)], all(9)].concat()));
    for n in invented.clone() {
        world.tells(8, along(n as u16 + 10, d_sub(0, "k")));
    }
    let first = steps(&mut world);
    assert!(first > 50, "{first}");
    // The same links under new numbers change no tree.
    world.tells(8, states(all(10)));
    let again = steps(&mut world);
    assert!(again < 5, "{again}");
    world.tells(8, states(vec![record(11, 11, None, &[0])]));
    let changed = steps(&mut world);
    assert!(changed > 50, "{changed}");
}

/// Link states take time that is charged to their link, as that of matching is.
#[test]
fn a_stream_of_link_states_uses_up_the_time_of_its_link() {
    let mut world = World::with_crowd();
    let mut waits = None;
    for number in 0..10_000 {
        let links: &[u64] = if number % 2 == 0 { &[0, 12] } else { &[0] };
        world.tells(8, states(vec![record(11, 10 + number, None, links)]));
        if let Some(until) = world.node.take_wait(FaceId(8)).filter(|until| *until > world.now) {
            waits = Some((number, until));
            break;
        }
    }
    assert!(waits.is_some_and(|(number, _)| number > 100), "{waits:?} {MATCHING_BURST:?}");
    // Another router has time left.
    world.tells(9, states(vec![record(0, 2, None, &[1])]));
    assert_eq!(world.node.take_wait(FaceId(9)), None);
}

/// A neighbour has no more time for link states than this node has, and gets data on the same link: it is told of the
/// changes of a moment together.
#[test]
fn in_a_large_network_changes_are_told_together() {
    let mut world = World::with_crowd();
    let mut lists = 0;
    for number in 0..1000 {
        world.now += MS;
        world.node.handle_timeout(world.now());
        let links: &[u64] = if number % 2 == 0 { &[0, 12] } else { &[0] };
        let mut told = world.words();
        told.extend(world.tells(8, states(vec![record(11, 10 + number, None, links)])));
        lists += told.iter().filter(|words| words.starts_with("9: ")).count();
    }
    assert!((5..60).contains(&lists), "{lists}");
    let number = 10 + 999;
    world.now += 500 * MS;
    world.node.handle_timeout(world.now());
    let told = world.words();
    assert!(told.iter().any(|words| words.contains(&format!(" sn {number} "))), "{told:?}");
}
