//! PUSH (`zenoh-behaviour` 3.3, 5.3).

use super::*;
use crate::zenoh::{
    CongestionControl, Hlc, Ntp64, Priority, Timestamp,
    wire::{TsStack, UnknownExt},
};

#[test]
fn each_face_gets_one_copy_and_the_sender_none() {
    let mut world = World::with_clients(4);
    world.says(1, d_sub(1, "a/**"));
    world.says(2, d_sub(1, "a/**"));
    world.says(2, d_sub(2, "a/b"));
    world.says(3, d_sub(1, "b"));
    for _ in 0..2 {
        assert_eq!(world.says(1, put("a/b", "v")), ["2: a/b PUT v"]);
        assert_eq!(world.says(4, put("a/b", "v")), ["1: a/b PUT v", "2: a/b PUT v"]);
        assert!(world.says(4, put("c", "v")).is_empty());
    }
    let stats = world.node.stats();
    assert_eq!((stats.pushes_in, stats.pushes_out, stats.pushes_unmatched), (6, 6, 2));
    assert_eq!((stats.route_misses, stats.route_hits), (3, 3));
}

#[test]
fn a_wild_key_reaches_all_that_intersect_as_it_is() {
    let mut world = World::with_clients(3);
    world.says(1, d_sub(1, "a/b"));
    world.says(2, d_sub(1, "a/@c"));
    assert_eq!(world.says(3, put("a/*", "")), ["1: a/* PUT "]);
}

#[test]
fn what_the_sender_said_is_passed_on() {
    let mut world = World::with_clients(3);
    world.says(1, d_sub(1, "**"));
    world.says(2, d_sub(1, "**"));
    let qos = Qos::new(Priority::RealTime, CongestionControl::Block, true);
    let timestamp = Some(Timestamp { time: Ntp64(5), id: zid(1) });
    let body = PushBody::Put(Put {
        timestamp,
        attachment: Some("att".into()),
        extensions: vec![UnknownExt { id: 0x0d, body: crate::zenoh::wire::ExtBody::Unit }],
        ..Put::new("v")
    });
    let ts_stack = Some(Box::new(TsStack { flags: 1, records: Vec::new() }));
    let push = Push {
        qos,
        timestamp: timestamp.map(Box::new),
        node_id: 4,
        ts_stack: ts_stack.clone(),
        ..Push::new(wire("a"), body.clone())
    };
    let message = NetworkMessage::Push(push);
    world.node.handle_message(world.now(), FaceId(3), message, Reliability::BestEffort).unwrap();
    for face in [1, 2] {
        let (to, message, reliability) = world.node.poll_transmit().unwrap();
        // NodeId is for routers; the timestamp of the network message is not forwarded.
        let expected = Push { qos, ts_stack: ts_stack.clone(), ..Push::new(wire("a"), body.clone()) };
        assert_eq!((to, message), (FaceId(face), NetworkMessage::Push(expected)));
        assert_eq!(reliability, Reliability::BestEffort);
    }
}

#[test]
fn routes_follow_subscribers_at_once() {
    let mut world = World::with_clients(3);
    assert!(world.says(1, put("a", "")).is_empty());
    world.says(2, d_sub(1, "a"));
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT "]);
    world.says(3, d_sub(1, "*"));
    assert_eq!(world.says(1, put("a", "")).len(), 2);
    world.down(2);
    assert_eq!(world.says(1, put("a", "")), ["3: a PUT "]);
    world.says(3, u_sub(1));
    assert!(world.says(1, put("a", "")).is_empty());
    assert_eq!(world.node.stats().route_hits, 0);
}

fn stamping_world() -> World {
    let mut world = World::hub();
    world.node = Node::new(NodeConfig::new(zid(0xf000), NodeMode::Router));
    world.up(1, WhatAmI::Client);
    world.up(2, WhatAmI::Client);
    world.says(1, d_sub(1, "a"));
    world
}

fn stamped(world: &mut World, timestamp: Option<Timestamp>) -> Option<Timestamp> {
    let body = PushBody::Put(Put { timestamp, ..Put::new("v") });
    let message = NetworkMessage::Push(Push::new(wire("a"), body));
    world.node.handle_message(world.now(), FaceId(2), message, Reliability::Reliable).unwrap();
    match world.drain_raw().pop() {
        Some((1, NetworkMessage::Push(push))) => push.body.timestamp().copied(),
        other => panic!("no PUSH but {other:?}"),
    }
}

#[test]
fn a_put_without_timestamp_gets_that_of_the_node() {
    let mut world = stamping_world();
    let first = stamped(&mut world, None).unwrap();
    assert_eq!(first.id, zid(0xf000));
    assert_eq!(first.time.0 >> 32, 1_700_000_000);
    assert!(stamped(&mut world, None).unwrap() > first);
    // A DEL is left alone.
    world.node.handle_message(world.now(), FaceId(2), del("a"), Reliability::Reliable).unwrap();
    let Some((_, NetworkMessage::Push(push))) = world.drain_raw().pop() else { panic!("no PUSH") };
    assert_eq!(push.body, PushBody::Del(Del::default()));
}

#[test]
fn the_own_session_gets_a_del_with_the_time_of_its_arrival() {
    let mut world = stamping_world();
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Client };
    world.node.handle_face_up(world.now(), FaceId(0), own, FaceKind::Unicast);
    world.says(0, d_sub(1, "a"));
    let mut times = Vec::new();
    for message in [put("a", "1"), del("a"), put("a", "2"), del("a")] {
        world.node.handle_message(world.now(), FaceId(2), message, Reliability::Reliable).unwrap();
        for (to, message) in world.drain_raw() {
            let NetworkMessage::Push(push) = message else { panic!("no PUSH") };
            let is_del = matches!(push.body, PushBody::Del(_));
            match push.body.timestamp() {
                Some(timestamp) if to == 0 => times.push(*timestamp),
                timestamp => assert_eq!((to, timestamp.is_none()), (1, is_del)),
            }
        }
    }
    assert_eq!(times.len(), 4);
    assert!(times.is_sorted() && times.iter().all(|time| time.id == zid(0xf000)), "{times:?}");
}

#[test]
fn a_timestamp_of_the_past_stays_and_one_of_the_future_is_replaced_or_dropped() {
    let mut world = stamping_world();
    let clock = |seconds: u64| Hlc::new(zid(2)).new_timestamp(Now::at(Duration::from_secs(seconds)));
    let past = clock(1_600_000_000);
    assert_eq!(stamped(&mut world, Some(past)), Some(past));
    let future = clock(1_700_003_600);
    assert_eq!(stamped(&mut world, Some(future)).unwrap().id, zid(0xf000));
    assert_eq!(world.node.stats().future_replaced, 1);
    // Within the tolerance it is kept, and the node's clock follows it.
    let near = Timestamp { time: Ntp64((1_700_000_000 << 32) + (1 << 30)), id: zid(2) };
    assert_eq!(stamped(&mut world, Some(near)), Some(near));
    assert!(stamped(&mut world, None).unwrap().time > near.time);

    world.node.config.drop_future_timestamp = true;
    let body = PushBody::Put(Put { timestamp: Some(future), ..Put::new("v") });
    assert!(world.says(2, NetworkMessage::Push(Push::new(wire("a"), body))).is_empty());
    assert_eq!(world.node.stats().future_dropped, 1);
}

#[test]
fn a_clock_that_is_ahead_is_spoken_of_once_a_minute() {
    let mut world = stamping_world();
    let ahead = |clock: u32, now: Duration| {
        let wall = Duration::from_secs(1_700_003_600) + now;
        Some(Hlc::new(zid(clock)).new_timestamp(Now::at(wall)))
    };
    let heard = |world: &mut World| {
        core::iter::from_fn(|| world.node.poll_event())
            .map(|event| match event {
                NodeEvent::ClockAhead { clock, face, ahead, dropped } => {
                    (clock, face.0, ahead.as_secs(), dropped)
                }
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    for clock in [7, 7, 8, 7] {
        stamped(&mut world, ahead(clock, Duration::ZERO));
    }
    assert_eq!(heard(&mut world), [(zid(8), 2, 3600, false), (zid(7), 2, 3600, false)]);
    world.after(Duration::from_secs(59));
    let now = world.now;
    stamped(&mut world, ahead(7, now));
    assert!(heard(&mut world).is_empty());
    world.after(Duration::from_secs(1));
    let now = world.now;
    stamped(&mut world, ahead(7, now));
    assert_eq!(heard(&mut world).len(), 1);
    // Invented clocks are not added up, nor do they suppress reports about other clocks forever.
    for clock in 100..3000 {
        stamped(&mut world, ahead(clock, now));
    }
    assert!(heard(&mut world).len() <= 1024);
    world.after(Duration::from_secs(60));
    let now = world.now;
    stamped(&mut world, ahead(9, now));
    assert_eq!(heard(&mut world).len(), 1);
}

#[test]
fn how_far_a_clock_may_be_ahead_is_configured() {
    for (drift, replaced) in [(3_600_001, 0), (3_599_000, 1), (0, 1)] {
        let max_drift = Duration::from_millis(drift);
        let config = NodeConfig { max_drift, ..NodeConfig::new(zid(0xf000), NodeMode::Router) };
        let mut world = World { node: Node::new(config), now: Duration::ZERO };
        for face in [1, 2] {
            world.up(face, WhatAmI::Client);
        }
        world.says(1, d_sub(1, "a"));
        stamped(
            &mut world,
            Some(Hlc::new(zid(2)).new_timestamp(Now::at(Duration::from_secs(1_700_003_600)))),
        );
        assert_eq!(world.node.stats().future_replaced, replaced, "{drift} ms");
    }
}

#[test]
fn ten_thousand_keys_that_repeat_are_looked_up_once_each() {
    let mut world = World::with_clients(2);
    for number in 0..10_000 {
        world.says(1, d_sub(number, &format!("fleet/{number}/position")));
    }
    for _ in 0..3 {
        for number in 0..10_000 {
            assert_eq!(world.says(2, put(&format!("fleet/{number}/position"), "")).len(), 1);
        }
    }
    let stats = world.node.stats();
    assert_eq!((stats.route_misses, stats.route_hits), (10_000, 20_000));
}

#[test]
fn the_route_cache_forgets_rather_than_grows() {
    let mut world = World::with_clients(2);
    world.node.config.limits.route_cache_bytes = 20_000;
    world.up(3, WhatAmI::Client);
    world.says(1, d_sub(1, "**"));
    for round in 0..3 {
        for number in 0..1000 {
            assert_eq!(world.says(3, put(&format!("k/{number}"), "")).len(), 1, "{round}");
        }
    }
    assert_eq!(world.node.stats().route_misses, 3000);
    // Frequently used routes survive rarely used ones.
    for number in 0..1000 {
        world.says(3, put("often", ""));
        world.says(3, put(&format!("k/{number}"), ""));
    }
    assert_eq!(world.node.stats().route_misses, 4001);
}
