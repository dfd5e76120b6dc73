//! HELLO, sequences, restarts.

use super::*;

fn group() -> Text {
    Text::from("G")
}

#[test]
fn two_nodes_find_each_other_and_part() {
    let mut world = World::of(2);
    world.run(ms(100));
    assert_eq!(world.events(0), ["1 ENTER"]);
    assert_eq!(world.events(1), ["0 ENTER"]);
    world.act(0, |node, now| node.join(now, &group())).unwrap();
    world.act(1, |node, now| node.whisper(now, &uuid(0), vec![octets("a"), octets("b")])).unwrap();
    world.run(ms(10));
    assert_eq!(world.events(0), ["1 WHISPER a|b"]);
    assert_eq!(world.events(1), ["0 JOIN G"]);
    world.act(0, |node, now| node.stop(now)).unwrap();
    world.run(ms(200));
    assert_eq!(world.events(0), ["0 STOP"]);
    assert_eq!(world.events(1), ["0 EXIT"]);
    assert_eq!(world.places[0].datagrams, 1 + 3);
    assert!(world.places[0].node.is_stopped() && world.places[0].dealers.is_empty());
    assert_eq!(world.act(0, |node, now| node.join(now, &group())), Err(NodeError::Stopped));
}

/// A goodbye is a datagram: it would overtake earlier messages.
#[test]
fn the_last_message_comes_before_the_goodbye() {
    for shout in [false, true] {
        let mut bench = Bench::new(config(0, Generations::default()));
        bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
        bench.wait(ms(500));
        let last = vec![octets("last")];
        if shout {
            bench.node.shout(bench.at(), &group(), last).unwrap();
        } else {
            bench.node.whisper(bench.at(), &uuid(1), last).unwrap();
        }
        drop(bench.actions());
        bench.node.stop(bench.at()).unwrap();
        bench.wait(ms(49));
        assert_eq!(bench.actions(), []);
        bench.wait(ms(1));
        assert!(matches!(bench.actions()[..], [Action::Beacon { .. }]));
        bench.wait(ms(100));
        assert!(bench.node.is_stopped());
    }
}

/// The same UUID, without a goodbye: one EXIT and one ENTER.
#[test]
fn a_restart_with_the_same_uuid() {
    for pause in [0, 50, 3000] {
        let mut world = World::of(3);
        world.run(ms(1500));
        (0..3).for_each(|place| drop(world.events(place)));
        world.kill(1);
        world.run(ms(pause));
        world.restart(1, config(1, Generations::default()));
        world.run(ms(5000));
        assert_eq!(world.events(0), ["1 EXIT", "1 ENTER"], "after {pause} ms");
        assert_eq!(world.events(2), ["1 EXIT", "1 ENTER"], "after {pause} ms");
        assert_eq!(world.events(1), ["0 ENTER", "2 ENTER"], "after {pause} ms");
        assert!(world.is_whole());
    }
}

/// Same, when this node notices the end of the connection first and sends HELLO before the peer does.
#[test]
fn a_restart_after_its_connection_ended() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    let actions = bench.actions();
    let [Action::Connect { dealer, .. }, ..] = actions[..] else { panic!("{actions:?}") };
    bench.node.handle_dealer_ended(bench.at(), dealer);
    bench.wait(ms(1500));
    drop((bench.actions(), bench.kinds()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    let kinds = bench.kinds();
    assert!(
        matches!(kinds[..], [EventKind::Exit, EventKind::Enter { .. }, EventKind::Join { .. }]),
        "{kinds:?}"
    );
    // The peer has this node's HELLO: another one would look like a restart.
    let actions = bench.actions();
    assert!(!actions.iter().any(|action| matches!(action, Action::Connect { .. })), "{actions:?}");
}

/// Another UUID on the same endpoint: the old one is purged at once.
#[test]
fn a_restart_with_another_uuid() {
    let mut world = World::of(2);
    world.run(ms(1500));
    drop(world.events(0));
    world.kill(1);
    let other = ZreNodeConfig { uuid: uuid(77), ..config(1, Generations::default()) };
    world.restart(1, other);
    world.run(ms(1500));
    assert_eq!(world.events(0), ["1 EXIT", "77 ENTER"]);
    assert!(world.is_whole());
}

#[test]
fn a_gap_is_told_and_mended() {
    let mut world = World::of(2);
    world.run(ms(1500));
    world.act(0, |node, now| node.join(now, &group())).unwrap();
    world.run(ms(10));
    (0..2).for_each(|place| drop(world.events(place)));
    world.message_loss = 100;
    for _ in 0..3 {
        world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("lost")])).unwrap();
    }
    world.message_loss = 0;
    world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("x")])).unwrap();
    world.run(ms(100));
    assert_eq!(world.events(1), ["0 LOST 3", "0 EXIT", "0 ENTER", "0 JOIN G"]);
    assert_eq!(world.events(0), ["1 EXIT", "1 ENTER"]);
    world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("y")])).unwrap();
    world.run(ms(100));
    assert_eq!(world.events(1), ["0 WHISPER y"]);
    world.run(Duration::from_secs(20));
    assert!(world.events(0).is_empty() && world.events(1).is_empty());
}

/// Without beacons and after the loss of a HELLO, too.
#[test]
fn a_failed_connection_is_tried_again_without_a_flap() {
    let mut world = World::of(2);
    world.run(ms(1500));
    (0..2).for_each(|place| drop(world.events(place)));
    let dealer = *world.places[0].dealers.keys().next().unwrap();
    world.act(0, |node, now| node.handle_dealer_failed(now, dealer));
    let failed = world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("x")]));
    assert_eq!(failed, Err(NodeError::NotResponding { peer: uuid(1) }));
    world.run(ms(1500));
    assert!(world.events(0).is_empty());
    assert_eq!(world.events(1), ["0 EXIT", "0 ENTER"]);
    world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("x")])).unwrap();
    world.act(1, |node, now| node.whisper(now, &uuid(0), vec![octets("y")])).unwrap();
    world.run(Duration::from_secs(60));
    assert_eq!(world.events(0), ["1 WHISPER y"]);
    assert_eq!(world.events(1), ["0 WHISPER x"]);
}

/// `zre` 11.3: "wrapping 65535 -> 0"; "accept 0 after 65534 as well as after 65535".
#[test]
fn the_sequence_wraps() {
    for last in [65535, 65534] {
        let mut bench = Bench::new(config(0, Generations::default()));
        bench.hear(1, G36, 65533, Body::Hello(hello_of(1, G36)));
        bench.hear(1, G36, 65534, Body::Ping);
        if last == 65535 {
            bench.hear(1, G36, 65535, Body::Ping);
        }
        bench.hear(1, G36, 0, Body::Ping);
        bench.hear(1, G36, 1, Body::Ping);
        assert_eq!(bench.node.stats().gaps, 0);
        let ours = bench.sent(G36).len();
        assert_eq!(ours, if last == 65535 { 5 } else { 4 });
    }
}

#[test]
fn our_own_sequence_wraps() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    for _ in 0..65_540 {
        bench.node.whisper(Now::default(), &uuid(1), vec![Bytes::new()]).unwrap();
    }
    let sequences: Vec<u16> = bench.sent(G36).iter().map(|message| message.sequence).collect();
    assert_eq!(sequences[..2], [1, 2]);
    assert_eq!(sequences[65_533..65_537], [65534, 65535, 0, 1]);
}

/// For pyre, which counts to 65534.
#[test]
fn a_session_can_be_renewed_before_the_sequence_ends() {
    let mut world = World::new();
    world.add(ZreNodeConfig { renew_after: Some(50), ..config(0, Generations::default()) });
    world.add(config(1, Generations::default()));
    world.run(ms(1500));
    (0..2).for_each(|place| drop(world.events(place)));
    for _ in 0..60 {
        world.act(0, |node, now| node.whisper(now, &uuid(1), vec![octets("x")])).unwrap();
        world.run(ms(10));
    }
    assert!(world.events(0).is_empty(), "the peer was there all the time");
    let events = world.events(1);
    assert_eq!(events.iter().filter(|event| *event == "0 WHISPER x").count(), 60);
    assert_eq!(events.iter().filter(|event| *event == "0 EXIT").count(), 1);
}

/// "silently ignore any commands that precede a HELLO"; they do not count either (`zre` 16.12).
#[test]
fn what_comes_before_hello_does_not_count() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 7, Body::Ping);
    bench.hear(1, G36, 1, Body::Join { group: octets("G"), status: 9 });
    assert!(bench.actions().is_empty() && bench.kinds().is_empty());
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.hear(1, G36, 2, Body::Ping);
    assert_eq!(bench.node.stats().before_hello, 2);
    assert_eq!(bench.kinds().len(), 2);
    let bodies: Vec<Body> = bench.sent(G36).into_iter().map(|message| message.body).collect();
    assert!(matches!(bodies[..], [Body::Hello(_), Body::PingOk]), "{bodies:?}");
}

/// Every event contains the peer's address, also the last one.
#[test]
fn events_have_an_address() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.hear(1, G36, 2, Body::Whisper { content: vec![octets("x")] });
    bench.wait(Duration::from_secs(40));
    bench.node.stop(bench.at()).unwrap();
    bench.wait(ms(100));
    let events: Vec<ZreEvent> = core::iter::from_fn(|| bench.node.poll_event()).collect();
    assert_eq!(events.len(), 7, "{events:?}");
    assert!(events[..6].iter().all(|event| event.address == "tcp://10.0.0.2:49152" && event.name == "peer"));
    assert_eq!((events[6].kind.clone(), &*events[6].address), (EventKind::Stop, "tcp://10.0.0.1:49152"));
}

/// A message that does not decode has consumed its number, without further effect.
#[test]
fn malformed_and_unknown_messages_do_not_end_a_session() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    drop((bench.actions(), bench.kinds()));
    // JOIN cut short, an unknown number, another protocol, then a good message.
    for raw in
        [&b"\xaa\xa1\x04\x02\0\x02\x05GR"[..], b"\xaa\xa1\x63\x02\0\x03", b"\xaa\xa2\x04\x02\0\x09", b""]
    {
        bench.hear_frames(1, G36, &[Bytes::copy_from_slice(raw)]);
    }
    bench.hear_frames(1, G36, &[]);
    bench.hear(1, G36, 4, Body::Ping);
    assert_eq!(bench.node.stats().malformed, 5);
    assert_eq!(bench.node.stats().gaps, 0);
    assert!(bench.kinds().is_empty());
    assert_eq!(bench.sent(G36).len(), 1);
}

#[test]
fn hello_of_nobody_and_of_ourselves() {
    let mut bench = Bench::new(config(0, Generations::default()));
    let frames = ZreMessage { sequence: 1, body: Body::Hello(hello_of(1, G36)) }.encode(G36).unwrap();
    for identity in [&b""[..], b"\0\x01\x02\x03\x04", b"somebody"] {
        bench.node.handle_message(Now::default(), identity, &frames);
    }
    bench.hear_frames(0, G36, &frames);
    // Another UUID with this node's address: the DEALER would connect to this node itself.
    bench.hear(5, G36, 1, Body::Hello(hello_of(0, G36)));
    assert_eq!(bench.node.stats().unknown_identities, 5);
    let reasons: Vec<Reason> = bench.node.ignored().iter().map(|entry| entry.reason).collect();
    let nobody = Reason::NoUuid;
    assert_eq!(reasons, [nobody, nobody, nobody, Reason::OwnUuid, Reason::OwnEndpoint]);
    assert_eq!(bench.node.ignored()[4].source, Source::Peer(uuid(5)));
    assert!(bench.kinds().is_empty() && bench.actions().is_empty());
}

/// A peer with a changed address that it does not know of: beacons come from the new address, and its
/// connection is dead.
#[test]
fn beacons_from_elsewhere_do_not_keep_a_dead_session_alive() {
    for answers in [false, true] {
        let mut bench = Bench::new(config(0, Generations::default()));
        bench.hear_beacon(1, 49152);
        bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
        bench.kinds();
        let elsewhere = Beacon { uuid: uuid(1), port: 49152, public_key: None }.encode();
        let mut sequence = 2;
        let mut seen = Vec::new();
        for _ in 0..20 {
            bench.wait(ms(1000));
            let asked = bench.sent(G36).iter().any(|message| message.body == Body::Ping);
            if asked && answers {
                bench.hear(1, G36, sequence, Body::PingOk);
                sequence += 1;
            }
            bench.node.handle_beacon(bench.at(), [10, 7, 7, 7].into(), &elsewhere);
            seen.extend(bench.kinds());
        }
        let exits = seen.iter().filter(|kind| **kind == EventKind::Exit).count();
        assert_eq!(exits, usize::from(!answers), "{answers} {seen:?}");
    }
}
