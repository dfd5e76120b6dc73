//! ZRE/LOG: the six events reach the collector.

use super::*;

#[test]
fn the_six_events_with_hashes_and_times() {
    let mut world = World::new();
    let collector = Text::from("tcp://10.0.0.1:50100");
    world.add(ZreNodeConfig { collector: Some(collector.clone()), ..config(0, Generations::ALL_REAL) });
    world.add(ZreNodeConfig { log_traffic: true, ..config(1, Generations::ALL_REAL) });
    world.run(ms(2000));
    world.add(config(2, Generations::only(G20)));
    world.run(ms(2000));
    assert!(world.places[2].collectors.contains(collector.as_bytes()));
    assert!(world.places[0].collectors.is_empty());
    let group = Text::from("G");
    world.act(1, |node, now| node.join(now, &group)).unwrap();
    world.act(2, |node, now| node.join(now, &group)).unwrap();
    world.run(ms(10));
    world.act(2, |node, now| node.shout(now, &group, vec![octets("x")])).unwrap();
    world.run(ms(10));
    world.act(1, |node, now| node.leave(now, &group)).unwrap();
    world.act(2, |node, now| node.stop(now)).unwrap();
    world.run(ms(100));

    let logs: Vec<Log> = world.places[1].logs.iter().map(|frame| Log::decode(frame).unwrap()).collect();
    let own = log_hash(b"10.0.0.2:49152");
    let peer = log_hash(b"10.0.0.3:49152");
    for log in &logs {
        assert_eq!(log.node, own);
        assert_eq!(log.timestamp().as_secs() / 10, 180_000_000);
    }
    let of = |event: LogEvent| logs.iter().filter(move |log| log.event == event).collect::<Vec<_>>();
    assert_eq!(of(LogEvent::JOIN).len(), 1);
    assert_eq!((of(LogEvent::JOIN)[0].peer, &of(LogEvent::JOIN)[0].data[..]), (0, &b"G"[..]));
    assert_eq!(of(LogEvent::LEAVE).len(), 1);
    assert!(of(LogEvent::ENTER).iter().any(|log| log.peer == peer && log.data == "tcp://10.0.0.3:49152"));
    assert_eq!(of(LogEvent::EXIT).len(), 1);
    assert_eq!(of(LogEvent::EXIT)[0].peer, peer);
    assert!(of(LogEvent::SEND).iter().any(|log| log.data == "seq=2 command=JOIN"), "{logs:?}");
    assert!(of(LogEvent::RECV).iter().any(|log| log.data == "seq=3 command=SHOUT" && log.peer == peer));
}

#[test]
fn without_a_collector_nothing_is_logged_and_one_that_leaves_is_left() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.node.join(Now::default(), &Text::from("G")).unwrap();
    assert!(bench.actions().is_empty());
    let headers = vec![(Bytes::from_static(Hello::LOG_COLLECTOR), octets("tcp://c:1"))];
    for peer in [1, 2] {
        bench.hear(peer, G36, 1, Body::Hello(Hello { headers: headers.clone(), ..hello_of(peer, G36) }));
    }
    let connects = |actions: &[Action]| {
        actions.iter().filter(|action| matches!(action, Action::ConnectLog { .. })).count()
    };
    assert_eq!(connects(&bench.actions()), 1, "once per endpoint");
    bench.hear_beacon(1, 0);
    assert!(!bench.actions().iter().any(|action| matches!(action, Action::DisconnectLog { .. })));
    bench.hear_beacon(2, 0);
    assert!(bench.actions().iter().any(|action| matches!(action, Action::DisconnectLog { .. })));
}
