//! Groups and their status.

use super::*;

fn text(text: &str) -> Text {
    Text::from(text)
}

#[test]
fn only_members_hear_a_shout() {
    let mut world = World::of(4);
    world.run(ms(100));
    for place in [1, 2] {
        assert_eq!(world.act(place, |node, now| node.join(now, &text("chat"))), Ok(true));
        assert_eq!(world.act(place, |node, now| node.join(now, &text("chat"))), Ok(false));
    }
    world.act(3, |node, now| node.join(now, &text("Chat"))).unwrap();
    world.run(ms(10));
    (0..4).for_each(|place| drop(world.events(place)));
    let shouted = world.act(0, |node, now| node.shout(now, &text("chat"), vec![octets("hi")])).unwrap();
    assert_eq!(shouted.peers, [(uuid(1), Delivery::Queued), (uuid(2), Delivery::Queued)]);
    world.run(ms(10));
    assert_eq!(world.events(1), ["0 SHOUT chat hi"]);
    assert_eq!(world.events(2), ["0 SHOUT chat hi"]);
    assert!(world.events(3).is_empty() && world.events(0).is_empty());
    assert_eq!(world.act(1, |node, now| node.leave(now, &text("chat"))), Ok(true));
    assert_eq!(world.act(1, |node, now| node.leave(now, &text("chat"))), Ok(false));
    world.run(ms(10));
    assert_eq!(world.events(0), ["1 LEAVE chat"]);
    let node = &world.places[0].node;
    assert_eq!(node.peer_groups().into_iter().collect::<Vec<_>>(), ["Chat", "chat"]);
    assert_eq!(node.peers_of("chat").collect::<Vec<_>>(), [uuid(2)]);
}

/// Failures that the driver reports while executing the actions correct the answer.
#[test]
fn a_shout_tells_what_became_of_it_for_each_peer() {
    let mut bench = Bench::new(config(0, Generations::default()));
    (1..4).for_each(|peer| bench.hear(peer, G36, 1, Body::Hello(hello_of(peer, G36))));
    let connects = bench.actions().into_iter().filter_map(|action| match action {
        Action::Connect { dealer, peer, .. } => Some((peer?, dealer)),
        _ => None,
    });
    let dealers: BTreeMap<Uuid, DealerId> = connects.collect();
    bench.node.handle_dealer_failed(Now::default(), dealers[&uuid(2)]);
    drop(bench.actions());
    let mut shouted = bench.node.shout(Now::default(), &text("G"), vec![octets("x")]).unwrap();
    for action in bench.actions() {
        let Action::Send { dealer, peer: Some(peer), .. } = action else { panic!("{action:?}") };
        if peer == uuid(3) {
            shouted.correct(&peer, Delivery::Full);
            bench.node.handle_dealer_failed(Now::default(), dealer);
        }
    }
    shouted.correct(&uuid(9), Delivery::Full);
    let outcomes = [(1, Delivery::Queued), (2, Delivery::NotResponding), (3, Delivery::Full)];
    assert_eq!(shouted.peers, outcomes.map(|(peer, delivery)| (uuid(peer), delivery)));
    assert_eq!(shouted.count(Delivery::Full), 1);
    let nobody = bench.node.shout(Now::default(), &text("other"), vec![octets("x")]).unwrap();
    assert!(nobody.peers.is_empty());
    assert!(bench.node.shout(Now::default(), &text("G"), vec![]).is_err());
    assert!(bench.node.shout(Now::default(), &text(""), vec![octets("x")]).is_err());
}

/// A peer with the header of the configuration gets its copy first, as long as its session has the header.
#[test]
fn early_peers_get_a_shout_before_the_others() {
    let mut bench =
        Bench::new(ZreNodeConfig { early: Some(text("X-E")), ..config(0, Generations::default()) });
    for peer in 1..6 {
        let mut hello = hello_of(peer, G36);
        hello.headers = match peer {
            3 | 5 => vec![(octets("X-A"), octets("")), (octets("X-E"), octets("1"))],
            _ => vec![(octets("X-A"), octets("X-E"))],
        };
        bench.hear(peer, G36, 1, Body::Hello(hello));
    }
    drop(bench.actions());
    let mut order = |group: &str| {
        let shouted = bench.node.shout(Now::default(), &text(group), vec![octets("x")]).unwrap();
        let sent = bench.actions().into_iter().filter_map(|action| match action {
            Action::Send { peer, .. } => peer,
            _ => None,
        });
        assert_eq!(sent.collect::<Vec<_>>(), shouted.peers.iter().map(|(peer, _)| *peer).collect::<Vec<_>>());
        shouted.peers.into_iter().map(|(peer, _)| peer).collect::<Vec<_>>()
    };
    assert_eq!(order("G"), [3, 5, 1, 2, 4].map(uuid));
    assert!(order("other").is_empty());
    bench.hear(5, G36, 2, Body::Leave { group: octets("G"), status: 2 });
    bench.hear(3, G36, 1, Body::Hello(hello_of(3, G36)));
    bench.hear(5, G36, 3, Body::Join { group: octets("G"), status: 3 });
    drop(bench.actions());
    let shouted = bench.node.shout(Now::default(), &text("G"), vec![octets("x")]).unwrap();
    assert_eq!(shouted.peers[0].0, uuid(5));
}

/// A content is shared by all copies of a SHOUT, not copied.
#[test]
fn a_shout_shares_its_content() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    for (peer, generation) in [(1, G20), (2, G10), (3, G36), (4, G36)] {
        bench.hear(peer, generation, 1, Body::Hello(hello_of(peer, generation)));
    }
    drop(bench.actions());
    let content = Bytes::from(vec![7; 1000]);
    bench.node.shout(Now::default(), &text("G"), vec![content.clone()]).unwrap();
    let sends: Vec<Action> = bench.actions();
    assert_eq!(sends.len(), 4);
    for (action, generation) in sends.into_iter().zip([G20, G10, G36, G36]) {
        let Action::Send { frames, .. } = action else { panic!("{action:?}") };
        assert_eq!(frames[1].as_ptr(), content.as_ptr());
        let shout = Body::Shout { group: octets("G"), content: vec![content.clone()] };
        assert_eq!(ZreMessage::decode(generation, &frames), Ok(ZreMessage { sequence: 2, body: shout }));
    }
}

/// "Exactly one increment per JOIN/LEAVE sent, the same status to every peer, HELLO with the current
/// value" (`zre` 11.4): a wrong one kills zyre and pyre.
#[test]
fn every_peer_hears_the_same_status() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    let mut seen = BTreeMap::<DealerId, (u8, Generation)>::new();
    let (mut peers, mut changes) = (0, 0);
    for step in 0..2000_usize {
        match step % 7 {
            0 => {
                let generation = [G20, G10, G36][peers % 3];
                peers += 1;
                bench.hear(peers, generation, 1, Body::Hello(hello_of(peers, generation)));
            }
            1 | 2 | 4 | 5 => {
                let name = format!("g{}", step % 5);
                changes += u32::from(bench.node.join(Now::default(), &text(&name)).unwrap());
            }
            _ => {
                let name = format!("g{}", step % 4);
                changes += u32::from(bench.node.leave(Now::default(), &text(&name)).unwrap());
            }
        }
        for action in bench.actions() {
            let Action::Send { dealer, frames, .. } = action else { continue };
            if let Ok(generation) = Hello::generation(&frames[0]) {
                let Body::Hello(hello) = ZreMessage::decode(generation, &frames).unwrap().body else {
                    panic!()
                };
                assert!(seen.insert(dealer, (hello.status, generation)).is_none(), "one HELLO each");
                let groups: Vec<Bytes> =
                    bench.node.groups.iter().map(|group| group.clone().into_bytes()).collect();
                assert_eq!(hello.groups, groups);
                continue;
            }
            let (status, generation) = seen.get_mut(&dealer).expect("HELLO is first");
            match ZreMessage::decode(*generation, &frames).unwrap().body {
                Body::Join { status: new, .. } | Body::Leave { status: new, .. } => {
                    assert_eq!(new, status.wrapping_add(1));
                    *status = new;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.values().all(|(status, _)| *status == bench.node.status));
    }
    assert!(seen.len() > 80);
    assert!(changes > 300, "it has wrapped: {changes}");
}

#[test]
fn a_wrong_status_is_taken_over() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop(bench.kinds());
    bench.hear(1, G36, 2, Body::Join { group: octets("A"), status: 2 });
    assert_eq!(bench.node.stats().status_repaired, 0);
    bench.hear(1, G36, 3, Body::Join { group: octets("B"), status: 200 });
    assert_eq!(bench.node.stats().status_repaired, 1);
    bench.hear(1, G36, 4, Body::Leave { group: octets("A"), status: 201 });
    // A repeated JOIN, and a LEAVE of a group that it was not in: counted, without an event.
    bench.hear(1, G36, 5, Body::Join { group: octets("B"), status: 202 });
    bench.hear(1, G36, 6, Body::Leave { group: octets("Z"), status: 203 });
    assert_eq!(bench.node.stats().status_repaired, 1);
    let group = text("A");
    assert_eq!(
        bench.kinds(),
        [
            EventKind::Join { group: group.clone() },
            EventKind::Join { group: text("B") },
            EventKind::Leave { group }
        ]
    );
}

#[test]
fn what_peers_could_not_be_told_is_refused() {
    let mut bench = Bench::new(config(0, Generations::default()));
    for group in [String::new(), "a\0b".to_owned(), "x".repeat(256)] {
        assert!(matches!(bench.node.join(Now::default(), &Text::from(group)), Err(NodeError::Encode(_))));
    }
    assert_eq!(bench.node.status, 0);
    assert!(matches!(bench.node.shout(Now::default(), &text("G"), vec![]), Err(NodeError::Encode(_))));
    let unknown = NodeError::UnknownPeer { peer: uuid(9) };
    assert_eq!(bench.node.whisper(Now::default(), &uuid(9), vec![octets("x")]), Err(unknown));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    assert!(matches!(bench.node.whisper(Now::default(), &uuid(1), vec![]), Err(NodeError::Encode(_))));
    // None of these has consumed a number.
    bench.node.whisper(Now::default(), &uuid(1), vec![octets("x")]).unwrap();
    assert_eq!(bench.sent(G36).last().map(|message| message.sequence), Some(2));
}

/// A HELLO of 20/ZRE holds 255 groups.
#[test]
fn groups_that_do_not_fit_into_a_hello_are_refused() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    for number in 0..255 {
        bench.node.join(Now::default(), &text(&number.to_string())).unwrap();
    }
    assert!(matches!(bench.node.join(Now::default(), &text("more")), Err(NodeError::Encode(_))));
    assert_eq!((bench.node.status, bench.node.own_groups().count()), (255, 255));
}

/// pyre cuts a name in the middle of a character: "café" comes as `63 61 66 C3`.
#[test]
fn octets_that_are_no_text_are_shown_as_far_as_they_are() {
    let mut bench = Bench::new(config(0, Generations::default()));
    let mut frame =
        ZreMessage { sequence: 1, body: Body::Hello(hello_of(1, G36)) }.encode(G36).unwrap()[0].to_vec();
    let at = frame.windows(4).position(|part| part == b"peer").unwrap();
    frame[at..at + 4].copy_from_slice(b"caf\xc3");
    bench.hear_frames(1, G36, &[frame.into()]);
    assert_eq!(bench.node.poll_event().unwrap().name, "caf\u{fffd}");
}
