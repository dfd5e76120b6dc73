//! Floods, and peers that violate the protocol.

use super::*;

/// Any sender can make up UUIDs; real peers are not affected.
#[test]
fn a_flood_of_100_000_fake_beacons_is_bounded() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop(bench.actions());
    let mut connects = 0_u32;
    for number in 2..100_002 {
        if number % 100 == 0 {
            bench.now += ms(10);
        }
        bench.hear_beacon(number, 49152);
        connects +=
            bench.actions().iter().filter(|action| matches!(action, Action::Connect { .. })).count() as u32;
        assert!(bench.node.peers.len() <= limits::MAX_UNANSWERED + 1);
    }
    assert_eq!(bench.node.unanswered.len(), limits::MAX_UNANSWERED);
    assert!(bench.node.endpoints.len() <= limits::MAX_UNANSWERED + 1);
    assert!(bench.node.dealers.len() <= limits::MAX_UNANSWERED + 1);
    assert!(connects < 50_000, "{connects}");
    assert_eq!(bench.kinds().len(), 2, "ENTER and JOIN of the one that is real");
    // A peer that sends HELLO is accepted nevertheless.
    bench.hear(200_000, G36, 1, Body::Hello(hello_of(200_000, G36)));
    assert_eq!(bench.kinds().len(), 2);
    bench.hear(1, G36, 2, Body::Ping);
    assert_eq!(bench.node.stats().gaps, 0);
}

#[test]
fn no_more_peers_than_allowed() {
    let mut bench = Bench::new(ZreNodeConfig { max_peers: 3, ..config(0, Generations::default()) });
    for peer in 1..10 {
        bench.hear(peer, G36, 1, Body::Hello(hello_of(peer, G36)));
    }
    assert_eq!(bench.node.peers().count(), 3);
    assert_eq!(bench.node.stats().peers_refused, 6);
    // After one peer leaves, a new one is accepted.
    bench.hear_beacon(1, 0);
    bench.hear(9, G36, 1, Body::Hello(hello_of(9, G36)));
    assert_eq!(bench.node.peers().count(), 3);
}

#[test]
fn no_more_groups_than_allowed() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    for number in 0..limits::MAX_GROUPS as u16 + 10 {
        let group = Bytes::from(number.to_string());
        bench.hear(1, G36, number + 2, Body::Join { group, status: (number as u8).wrapping_add(2) });
        drop(bench.kinds());
    }
    assert_eq!(bench.node.peer_groups().len(), limits::MAX_GROUPS);
    assert_eq!(bench.node.stats().groups_dropped, 11);
    assert_eq!((bench.node.stats().status_repaired, bench.node.stats().gaps), (0, 0));
}

#[test]
fn no_more_collectors_than_allowed() {
    let mut bench = Bench::new(config(0, Generations::default()));
    for peer in 1..100 {
        let headers =
            vec![(Bytes::from_static(Hello::LOG_COLLECTOR), Bytes::from(format!("tcp://c:{peer}")))];
        bench.hear(peer, G36, 1, Body::Hello(Hello { headers, ..hello_of(peer, G36) }));
    }
    assert_eq!(bench.node.collectors.len(), limits::MAX_COLLECTORS);
    (1..100).for_each(|peer| bench.hear_beacon(peer, 0));
    assert!(bench.node.collectors.is_empty() && bench.node.peers.is_empty());
}

/// Any order of any messages: no panic, every EXIT has its ENTER, and every DEALER its end.
#[test]
fn whatever_peers_say_the_books_balance() {
    let mut random = Random(7);
    for _ in 0..40 {
        let sets = [Generations::default(), Generations::ALL_REAL, Generations::only(G20)];
        let mut bench = Bench::new(config(0, sets[(random.next() >> 8) as usize % 3]));
        bench.node.join(Now::default(), &Text::from("G")).unwrap();
        let (mut entered, mut open) = (BTreeSet::new(), BTreeSet::new());
        let mut sessions = BTreeMap::<DealerId, (Generation, u16)>::new();
        for _ in 0..300 {
            let peer = 1 + (random.next() >> 20) as usize % 3;
            let generation = [G20, G10, G36, G43][(random.next() >> 20) as usize % 4];
            let sequence = (random.next() >> 20) as u16 % 4;
            let id = octets("01010101010101010000000000000002");
            let (group, content) = (octets("G"), vec![octets("x")]);
            let status = sequence as u8;
            let body = match (random.next() >> 20) % 10 {
                0 | 1 => Body::Hello(hello_of(peer + sequence as usize % 2, generation)),
                2 => Body::Whisper { content },
                3 => Body::Shout { group, content },
                4 => Body::Join { group, status },
                5 => Body::Leave { group, status },
                6 if !generation.is_legacy() => Body::Elect { group, challenger: id },
                7 if !generation.is_legacy() => Body::Leader { group, leader: id },
                8 if !generation.is_legacy() => Body::Goodbye,
                _ => Body::Ping,
            };
            match (random.next() >> 20) % 12 {
                0 => bench.hear_beacon(peer, 49152 + sequence % 2),
                1 => bench.hear_beacon(peer, 0),
                2 => bench.wait(ms((random.next() >> 20) % 12_000)),
                3 => {
                    let failed = bench.node.dealers.keys().min().copied().unwrap_or(DealerId(0));
                    let now = bench.at();
                    bench.node.handle_dealer_failed(now, failed);
                }
                _ => bench.hear(peer, generation, sequence, body),
            }
            for action in bench.actions() {
                match action {
                    Action::Connect { dealer, .. } => assert!(open.insert(dealer)),
                    Action::Disconnect { dealer } => assert!(open.remove(&dealer)),
                    // HELLO once and first, no number left out, only messages that the generation has,
                    // no content message without content: `zre` 21.1.
                    Action::Send { dealer, frames, .. } => {
                        assert!(open.contains(&dealer));
                        if let Ok(generation) = Hello::generation(&frames[0]) {
                            assert!(sessions.insert(dealer, (generation, 1)).is_none());
                        }
                        let (generation, expected) = sessions.get_mut(&dealer).expect("HELLO is first");
                        let message = ZreMessage::decode(*generation, &frames).unwrap();
                        assert_eq!(message.sequence, *expected);
                        *expected += 1;
                        let id = message.body.id().0;
                        assert_eq!(frames.len(), if id == 2 || id == 3 { 2 } else { 1 });
                        assert_eq!(message.encode(*generation).unwrap(), frames);
                    }
                    _ => {}
                }
            }
            while let Some(event) = bench.node.poll_event() {
                match event.kind {
                    EventKind::Enter { .. } => assert!(entered.insert(event.peer)),
                    EventKind::Exit => assert!(entered.remove(&event.peer)),
                    EventKind::Leader { .. } => {}
                    _ => assert!(entered.contains(&event.peer), "{event:?}"),
                }
            }
            assert_eq!(bench.node.peers().collect::<BTreeSet<_>>(), entered);
            let mut members = BTreeMap::<Text, BTreeSet<Uuid>>::new();
            for (uuid, peer) in &bench.node.peers {
                for group in peer.session.iter().flat_map(|session| &session.groups) {
                    members.entry(group.clone()).or_default().insert(*uuid);
                }
            }
            assert_eq!(bench.node.members, members);
            let due = bench.node.peers.iter().filter_map(|(uuid, peer)| Some((peer.due?, *uuid)));
            assert_eq!(bench.node.deadlines, due.collect());
            assert_eq!(bench.node.deadlines.len(), bench.node.peers.len());
            assert_eq!(bench.node.dealers.keys().copied().collect::<BTreeSet<_>>(), open);
            let silent = bench.node.peers.values().filter(|peer| peer.session.is_none()).count();
            assert_eq!(bench.node.unanswered.len(), silent);
            assert_eq!(bench.node.endpoints.len(), bench.node.peers.len());
        }
    }
}
