//! Strangers: endpoints of others, invented beacons, peers that make this node restart.

use super::*;

fn announcing(endpoint: &str) -> Hello {
    Hello { address: Address::Endpoint(Bytes::copy_from_slice(endpoint.as_bytes())), ..hello_of(1, G36) }
}

/// Anyone can name the endpoint of another node, or loopback, which is this node for itself.
#[test]
fn a_hello_connects_to_its_own_host_only() {
    let cases = [
        ("tcp://10.0.0.7:5000", "tcp://10.0.0.7:5000", 0),
        ("tcp://10.0.0.8:5000", "tcp://10.0.0.7:5000", 1),
        ("tcp://127.0.0.1:22", "tcp://10.0.0.7:22", 1),
        ("tcp://[::1]:22", "tcp://10.0.0.7:22", 1),
        ("tcp://0.0.0.0:22", "tcp://10.0.0.7:22", 1),
        ("tcp://victim.example:80", "tcp://10.0.0.7:80", 1),
        ("victim", "", 1),
    ];
    for (announced, reached, refused) in cases {
        let mut bench = Bench::new(config(0, Generations::default()));
        bench.hear_from([10, 0, 0, 7], 1, G36, announcing(announced));
        assert_eq!(bench.connects(), [reached], "{announced}");
        assert_eq!(bench.node.stats().endpoints_refused, refused, "{announced}");
        let noted = bench.node.ignored().iter().any(|entry| entry.reason == Reason::OtherHost);
        assert_eq!(noted, refused > 0, "{announced}");
        assert_eq!(&**bench.node.peer_address(&uuid(1)).unwrap(), announced, "shown as it was announced");
    }
}

/// All addresses of this host are one host: a peer beside this node may come from loopback.
#[test]
fn addresses_of_this_host_are_the_same_host() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_from([127, 0, 0, 1], 1, G36, announcing("tcp://10.0.0.1:5000"));
    bench.hear_from([10, 0, 0, 1], 2, G36, announcing("tcp://127.0.0.1:5001"));
    assert_eq!(bench.connects(), ["tcp://10.0.0.1:5000", "tcp://127.0.0.1:5001"]);
    assert_eq!(bench.node.stats().endpoints_refused, 0);
}

/// The endpoint of a live peer, named by a stranger on another host, and by one whose own port is that of a
/// peer behind the same address translation.
#[test]
fn a_hello_with_the_endpoint_of_a_live_peer_ends_no_session() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_from([10, 0, 0, 2], 1, G36, hello_of(1, G36));
    drop((bench.actions(), bench.kinds()));
    bench.hear_from([10, 0, 0, 7], 2, G36, hello_of(1, G36));
    assert!(!bench.kinds().contains(&EventKind::Exit));
    assert_eq!(bench.connects(), ["tcp://10.0.0.7:49152"]);
    // The port of the second peer, at the host that both come from.
    bench.hear_from([10, 0, 0, 7], 3, G36, announcing("tcp://10.9.9.9:49152"));
    assert!(bench.kinds().is_empty() && bench.connects().is_empty());
    assert_eq!(bench.node.peers().count(), 2);
    assert_eq!(bench.node.stats().endpoints_refused, 2);
    // A second HELLO of a live peer, which names the endpoint of another one.
    bench.hear_from([10, 0, 0, 7], 2, G36, announcing("tcp://10.0.0.2:49152"));
    let gone = core::iter::from_fn(|| bench.node.poll_event()).filter(|event| event.kind == EventKind::Exit);
    assert_eq!(gone.map(|event| event.peer).collect::<Vec<_>>(), [uuid(2)], "its own session alone");
    assert_eq!(bench.connects(), ["tcp://10.0.0.7:49152"]);
}

/// A node with the endpoint of this one would connect to itself.
#[test]
fn a_hello_of_the_own_host_with_the_own_port_is_refused() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_from([10, 0, 0, 1], 1, G36, announcing("tcp://10.3.3.3:49152"));
    assert!(bench.connects().is_empty() && bench.node.peers().count() == 0);
}

/// A collector of logs is connected to as well.
#[test]
fn a_collector_is_on_the_host_that_announces_it() {
    for (collector, refused) in [("tcp://10.0.0.7:5100", 0), ("tcp://10.0.0.8:22", 1)] {
        let mut bench = Bench::new(config(0, Generations::default()));
        let headers = vec![(Bytes::from_static(Hello::LOG_COLLECTOR), octets(collector))];
        let hello = Hello { headers, ..announcing("tcp://10.0.0.7:5000") };
        bench.hear_from([10, 0, 0, 7], 1, G36, hello);
        assert_eq!(bench.connects().len(), 2 - refused);
        assert_eq!(bench.node.stats().endpoints_refused, refused as u64);
    }
}

/// A peer that a beacon named before keeps the connection to the address of the datagram (`zre` 7).
#[test]
fn the_address_of_a_beacon_is_kept() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_beacon(1, 49152);
    assert_eq!(bench.connects(), ["tcp://10.0.0.2:49152"]);
    bench.hear_from([10, 0, 0, 2], 1, G36, announcing("tcp://10.0.0.8:5000"));
    assert_eq!((bench.connects().len(), bench.node.stats().endpoints_refused), (0, 0));
}

/// A peer with a broken connection does not answer, although the connection is tried again. A beacon of another
/// node on its endpoint takes its place at once: else that node would get two HELLOs, and begin anew.
#[test]
fn a_beacon_takes_the_endpoint_of_a_broken_connection() {
    let mut bench = Bench::new(config(0, Generations::default()));
    let second = |bench: &mut Bench| {
        let beacon = Beacon { uuid: uuid(2), port: 49152, public_key: None }.encode();
        bench.node.handle_beacon(bench.at(), [10, 0, 0, 2].into(), &beacon);
    };
    bench.hear_beacon(1, 49152);
    let actions = bench.actions();
    let [Action::Connect { dealer, .. }, ..] = actions[..] else { panic!("{actions:?}") };
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.node.handle_dealer_connected(bench.at(), dealer);
    second(&mut bench);
    assert!(!bench.kinds().contains(&EventKind::Exit) && bench.connects().is_empty(), "it answers");
    bench.node.handle_dealer_failed(bench.at(), dealer);
    drop(bench.actions());
    bench.wait(ms(1500));
    assert_eq!(bench.connects(), ["tcp://10.0.0.2:49152"], "tried again");
    second(&mut bench);
    assert!(bench.kinds().contains(&EventKind::Exit));
    assert_eq!(bench.connects(), ["tcp://10.0.0.2:49152"]);
}

/// An address that never answers gets one attempt for each beacon.
#[test]
fn one_attempt_for_each_beacon() {
    let mut bench = Bench::new(config(0, Generations::default()));
    let dealers = |bench: &mut Bench| {
        let opened = bench.actions().into_iter().filter_map(|action| match action {
            Action::Connect { dealer, .. } => Some(dealer),
            _ => None,
        });
        opened.collect::<Vec<_>>()
    };
    for beacon in 1..5 {
        bench.hear_beacon(1, 49152);
        let opened = dealers(&mut bench);
        assert_eq!(opened.len(), 1, "beacon {beacon}");
        let end = |bench: &mut Bench| match beacon % 2 {
            0 => bench.node.handle_attempt_failed(bench.at(), opened[0]),
            _ => bench.node.handle_dealer_ended(bench.at(), opened[0]),
        };
        end(&mut bench);
        assert_eq!(bench.actions(), [Action::Disconnect { dealer: opened[0] }]);
        end(&mut bench);
        bench.wait(Duration::from_secs(60));
        assert!(dealers(&mut bench).is_empty() && bench.node.peers.is_empty() && bench.kinds().is_empty());
    }
    // A peer that has sent HELLO is tried on, and so is one that gossip tells of only once.
    bench.hear_beacon(1, 49152);
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    bench.node.handle_found(bench.at(), uuid(2), octets("tcp://10.0.0.3:49152"), None);
    for dealer in dealers(&mut bench) {
        bench.node.handle_attempt_failed(bench.at(), dealer);
    }
    assert!(bench.actions().is_empty() && bench.node.peers.len() == 2);
}

/// Invented nodes of one address leave the nodes of others their part.
#[test]
fn a_flood_of_one_address_leaves_others_their_part() {
    let mut bench = Bench::new(config(0, Generations::default()));
    let mut connects = [0, 0];
    for number in 2..100_002_u32 {
        if number.is_multiple_of(25) {
            bench.now += ms(1);
        }
        let beacon = Beacon { uuid: uuid(number as usize), port: 9, public_key: None }.encode();
        bench.node.handle_beacon(bench.at(), [10, 0, 0, 9].into(), &beacon);
        connects[0] += bench.connects().len();
        if number.is_multiple_of(25_000) {
            let newcomer = 200_000 + number as usize;
            bench.hear_beacon(newcomer, 49152);
            connects[1] += bench.connects().len();
        }
    }
    // Within four seconds, which five periods touch.
    assert!(connects[0] <= 5 * limits::MAX_NEW_OF_ADDRESS, "{connects:?}");
    assert_eq!(connects[1], 4, "each newcomer");
    assert_eq!(bench.node.ignored()[0].reason, Reason::TooManyBeacons);
}

/// A peer with a key that is not allowed.
#[test]
fn a_refused_key_ends_the_entry() {
    let secure = ZreNodeConfig { public_key: Some([1; 32]), ..config(0, Generations::default()) };
    let mut bench = Bench::new(secure);
    let datagram = Beacon { uuid: uuid(1), port: 49152, public_key: Some([7; 32]) }.encode();
    bench.node.handle_beacon(bench.at(), [10, 0, 0, 2].into(), &datagram);
    let actions = bench.actions();
    let [Action::Connect { dealer, .. }, ..] = actions[..] else { panic!("{actions:?}") };
    bench.node.handle_dealer_refused(bench.at(), dealer);
    assert_eq!(bench.actions(), [Action::Disconnect { dealer }]);
    assert!(bench.node.peers.is_empty());
    assert_eq!(bench.node.stats().endpoints_refused, 1);
    assert_eq!(bench.node.ignored()[0].reason, Reason::KeyNotAllowed);
}

/// All peers see a node leave and come back, so a stranger of the first generations may cause that seldom.
#[test]
fn a_peer_that_misses_messages_again_is_dropped_alone() {
    let mut bench = Bench::new(config(0, Generations::ALL_REAL));
    bench.wait(ms(500));
    drop(bench.actions());
    let goodbyes = |bench: &mut Bench| {
        let goodbye = |action: &Action| matches!(action, Action::Beacon { datagram, .. } if datagram.ends_with(&[0, 0]));
        bench.actions().iter().filter(|action| goodbye(action)).count()
    };
    let mut restarts = Vec::new();
    for second in 0..1000_u64 {
        // An honest peer, and one that leaves out a number each second.
        bench.hear(1, G20, 1, Body::Hello(hello_of(1, G20)));
        bench.hear(2, G20, 1, Body::Hello(hello_of(2, G20)));
        bench.hear(2, G20, 9, Body::Ping);
        let now = goodbyes(&mut bench) > 0;
        assert!(now || bench.node.peers().eq([uuid(1)]), "only the cause is dropped");
        bench.wait(ms(900));
        // A restart that was put off.
        let then = goodbyes(&mut bench) > 0;
        // The goodbye is repeated for a moment.
        if (now || then) && restarts.last().is_none_or(|last| last + 1 < second) {
            restarts.push(second);
        }
        drop(bench.kinds());
        bench.hear_beacon(1, 0);
        bench.wait(ms(100));
    }
    assert_eq!(restarts, [0, 10, 30, 70, 150, 310, 630]);
}
