use super::super::wire::testing::unhex;
use super::*;
use crate::Now;
use std::collections::BTreeMap;

fn at(ms: u64) -> Now {
    Now::at(Duration::from_millis(ms))
}

fn octets(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// The tuple of `zre` 20.8.
fn node() -> Tuple {
    Tuple {
        uuid: "0F1E2D3C4B5A69788796A5B4C3D2E1F0".parse().unwrap(),
        endpoint: octets("tcp://10.99.0.3:49200"),
        public_key: None,
    }
}

fn key_and_value(tuple: &Tuple) -> (Bytes, Bytes) {
    let Gossip::Publish { key, value, .. } = tuple.publish() else { panic!() };
    (key, value)
}

const HELLO: &str = "AAA00101";
const PING: &str = "AAA00301";
const PONG: &str = "AAA00401";
const INVALID: &str = "AAA00501";
const PUBLISH: &str = "AAA0020120304631453244334334423541363937383837393641354234433344324531463000000015\
                       7463703A2F2F31302E39392E302E333A343932303000000000";

fn publish(key: &'static str, value: &'static str) -> Bytes {
    Gossip::Publish { key: octets(key), value: octets(value), ttl: 0 }.encode().unwrap()
}

fn from_client(client: &mut Client) -> Vec<Bytes> {
    core::iter::from_fn(|| client.poll_transmit()).collect()
}

fn from_hub(hub: &mut Hub) -> Vec<(u64, Bytes)> {
    core::iter::from_fn(|| hub.poll_transmit()).collect()
}

fn heard(hub: &mut Hub) -> Vec<Heard> {
    core::iter::from_fn(|| hub.poll_event()).collect()
}

fn hub_of(clients: &[u64]) -> Hub {
    let mut hub = Hub::new(HubConfig::default());
    for client in clients {
        hub.handle_message(at(0), *client, &unhex(HELLO));
    }
    assert!(from_hub(&mut hub).is_empty());
    hub
}

/// Flow 1: "sends HELLO, then PUBLISH for each tuple it knows".
#[test]
fn a_client_says_hello_and_publishes() {
    let mut client = Client::new();
    let (key, value) = key_and_value(&node());
    client.publish(at(0), &key, &value).unwrap();
    assert_eq!(client.poll_timeout(), None);
    assert!(from_client(&mut client).is_empty());
    client.handle_opened(at(10));
    assert_eq!(from_client(&mut client), [unhex(HELLO), unhex(PUBLISH)]);
    // Later tuples are published at once.
    client.publish(at(20), &octets("a"), &octets("b")).unwrap();
    assert_eq!(from_client(&mut client), [publish("a", "b")]);
    assert!(client.publish(at(20), &octets(""), &octets("b")).is_err());
    assert!(client.publish(at(20), &octets("a\0"), &octets("b")).is_err());
}

/// "A client that wants to stay subscribed must send PING at least every 0.9 s."
#[test]
fn a_client_pings_twice_a_second() {
    let mut client = Client::new();
    client.handle_opened(at(0));
    drop(from_client(&mut client));
    for round in 1..5 {
        assert_eq!(client.poll_timeout(), Some(Duration::from_millis(500 * round)));
        client.handle_timeout(at(500 * round - 1));
        assert!(from_client(&mut client).is_empty());
        client.handle_timeout(at(500 * round));
        assert_eq!(from_client(&mut client), [unhex(PING)]);
        client.handle_message(at(500 * round), &unhex(PONG));
    }
    client.handle_closed();
    assert_eq!(client.poll_timeout(), None);
    client.handle_timeout(at(9000));
    assert!(from_client(&mut client).is_empty());
}

#[test]
fn a_client_hears_the_tuples_of_others() {
    let mut client = Client::new();
    client.publish(at(0), &octets("own"), &octets("1")).unwrap();
    client.handle_opened(at(0));
    client.handle_message(at(1), &publish("own", "1"));
    client.handle_message(at(1), &unhex(PUBLISH));
    client.handle_message(at(1), &publish("other", "2"));
    for junk in ["", "AAA1", "AAA00102", HELLO, PING] {
        client.handle_message(at(1), &unhex(junk));
    }
    let events: Vec<Heard> = core::iter::from_fn(|| client.poll_event()).collect();
    assert_eq!(events.iter().map(Heard::node).collect::<Vec<_>>(), [Some(node()), None]);
    assert_eq!(events[1], Heard { key: octets("other"), value: octets("2") });
    assert_eq!(client.stats(), &ClientStats { hellos: 1, heard: 2, invalid: 0, malformed: 5 });
}

/// Flow 4: "its next PUBLISH is answered with INVALID; it must send HELLO again".
#[test]
fn a_client_that_was_forgotten_begins_anew() {
    let mut client = Client::new();
    client.publish(at(0), &octets("a"), &octets("b")).unwrap();
    client.handle_opened(at(0));
    drop(from_client(&mut client));
    client.handle_message(at(600), &unhex(INVALID));
    assert_eq!(from_client(&mut client), [unhex(HELLO), publish("a", "b")]);
    // A hub that answers INVALID gets HELLO twice a second.
    for round in 0..100 {
        client.handle_message(at(600 + round), &unhex(INVALID));
    }
    assert!(from_client(&mut client).is_empty());
    client.handle_timeout(at(1100));
    assert_eq!(from_client(&mut client), [unhex(HELLO), publish("a", "b")]);
    client.handle_timeout(at(1600));
    assert_eq!(from_client(&mut client), [unhex(PING)]);
    assert_eq!(client.stats().invalid, 101);
}

#[test]
fn a_new_connection_begins_anew() {
    let mut client = Client::new();
    client.publish(at(0), &octets("a"), &octets("b")).unwrap();
    client.handle_opened(at(0));
    client.handle_closed();
    client.handle_message(at(5), &publish("late", "1"));
    assert!(from_client(&mut client).is_empty() && client.poll_event().is_none() && !client.is_open());
    client.handle_opened(at(10));
    assert_eq!(from_client(&mut client), [unhex(HELLO), publish("a", "b")]);
}

/// Flow 1: "Before HELLO the hub sends nothing"; any other message is answered with INVALID.
#[test]
fn a_hub_wants_a_hello_first() {
    let mut hub = hub_of(&[]);
    hub.publish(at(0), &octets("a"), &octets("b")).unwrap();
    assert!(from_hub(&mut hub).is_empty());
    for first in [PUBLISH, PING, PONG, INVALID] {
        hub.handle_message(at(1), 7, &unhex(first));
        assert_eq!(from_hub(&mut hub), [(7, unhex(INVALID))], "{first}");
    }
    assert_eq!((hub.tuples().count(), hub.clients()), (1, 0));
    // Flow 5: "Wrong version or signature: logged and dropped."
    hub.handle_message(at(1), 7, &unhex("AAA00102"));
    hub.handle_message(at(1), 7, &unhex("AAA10101"));
    assert!(from_hub(&mut hub).is_empty());
    assert_eq!(hub.stats().malformed, 2);
    hub.handle_message(at(1), 7, &unhex(HELLO));
    assert_eq!(from_hub(&mut hub), [(7, publish("a", "b"))]);
    // As czmq: a second HELLO is not in order, and a third begins anew.
    hub.handle_message(at(2), 7, &unhex(HELLO));
    assert_eq!(from_hub(&mut hub), [(7, unhex(INVALID))]);
    hub.handle_message(at(3), 7, &unhex(HELLO));
    assert_eq!(from_hub(&mut hub), [(7, publish("a", "b"))]);
}

/// Flow 2: "stored, delivered to the node, and forwarded to all clients and remotes, including the one
/// it came from". Flow 3: "A tuple with the same key and value is dropped silently; the same key with
/// another value replaces it."
#[test]
fn a_hub_passes_on_what_is_new() {
    let mut hub = hub_of(&[1, 2]);
    hub.handle_connected(at(0), 9);
    assert_eq!(from_hub(&mut hub), [(9, unhex(HELLO))]);
    hub.handle_message(at(1), 1, &unhex(PUBLISH));
    assert_eq!(from_hub(&mut hub), [1, 2, 9].map(|to| (to, unhex(PUBLISH))));
    assert_eq!(heard(&mut hub)[0].node(), Some(node()));
    hub.handle_message(at(2), 2, &unhex(PUBLISH));
    hub.handle_message(at(2), 9, &unhex(PUBLISH));
    assert!(from_hub(&mut hub).is_empty());
    // The application may have removed the node, so the tuple is reported again.
    assert_eq!(heard(&mut hub).len(), 2);
    let (key, _) = key_and_value(&node());
    let moved = Gossip::Publish { key, value: octets("tcp://10.99.0.4:1"), ttl: 0 }.encode().unwrap();
    hub.handle_message(at(600), 1, &unhex(PING));
    hub.handle_message(at(600), 2, &unhex(PING));
    drop(from_hub(&mut hub));
    hub.handle_message(at(1100), 1, &moved);
    assert_eq!(from_hub(&mut hub), [1, 2, 9].map(|to| (to, moved.clone())));
    assert_eq!(hub.tuples().map(|(_, value)| value.clone()).collect::<Vec<_>>(), ["tcp://10.99.0.4:1"]);
    assert_eq!((hub.stats().accepted, hub.stats().repeated), (2, 2));
}

/// Flow 4: "The hub expires a client after 1000 ms of silence. An expired client gets no forwarded
/// tuples."
#[test]
fn a_hub_forgets_who_is_silent() {
    let mut hub = hub_of(&[1, 2]);
    assert_eq!(hub.poll_timeout(), Some(Duration::from_secs(1)));
    hub.handle_message(at(900), 1, &unhex(PING));
    assert_eq!(from_hub(&mut hub), [(1, unhex(PONG))]);
    hub.handle_timeout(at(999));
    assert_eq!(hub.clients(), 2);
    hub.handle_timeout(at(1000));
    assert_eq!((hub.clients(), hub.stats().clients_expired), (1, 1));
    assert_eq!(hub.poll_timeout(), Some(Duration::from_millis(1900)));
    hub.publish(at(1001), &octets("a"), &octets("b")).unwrap();
    assert_eq!(from_hub(&mut hub), [(1, publish("a", "b"))]);
    hub.handle_message(at(1002), 2, &publish("c", "d"));
    assert_eq!(from_hub(&mut hub), [(2, unhex(INVALID))]);
    // Expiry also works without a call of `handle_timeout`.
    hub.handle_message(at(5000), 1, &publish("c", "d"));
    assert_eq!(from_hub(&mut hub), [(1, unhex(INVALID))]);
    assert_eq!((hub.clients(), hub.poll_timeout()), (0, None));
}

#[test]
fn a_hub_is_a_client_of_other_hubs() {
    let mut hub = hub_of(&[]);
    hub.publish(at(0), &octets("a"), &octets("b")).unwrap();
    hub.handle_connected(at(0), 9);
    assert_eq!(from_hub(&mut hub), [(9, unhex(HELLO)), (9, publish("a", "b"))]);
    assert_eq!(hub.poll_timeout(), Some(Duration::from_millis(500)));
    hub.handle_timeout(at(500));
    assert_eq!(from_hub(&mut hub), [(9, unhex(PING))]);
    hub.handle_message(at(501), 9, &unhex(INVALID));
    assert_eq!(from_hub(&mut hub), [(9, unhex(HELLO)), (9, publish("a", "b"))]);
    hub.handle_message(at(502), 9, &unhex(PONG));
    hub.handle_message(at(502), 9, &unhex(HELLO));
    assert!(from_hub(&mut hub).is_empty() && hub.stats().malformed == 1);
    hub.handle_closed(9);
    assert_eq!(hub.poll_timeout(), None);
}

#[test]
fn tuples_of_ours_are_ours() {
    let mut hub = hub_of(&[1]);
    hub.publish(at(0), &octets("a"), &octets("b")).unwrap();
    hub.publish(at(0), &octets("a"), &octets("b")).unwrap();
    assert_eq!(from_hub(&mut hub).len(), 1);
    hub.handle_message(at(900), 1, &publish("a", "elsewhere"));
    hub.handle_message(at(900), 1, &publish("a", "b"));
    assert!(from_hub(&mut hub).is_empty() && heard(&mut hub).is_empty());
    assert_eq!(hub.stats().refused, 1);
    assert!(hub.remove(&octets("a")) && !hub.remove(&octets("a")));
    hub.handle_message(at(901), 1, &publish("a", "c"));
    assert_eq!(heard(&mut hub), [Heard { key: octets("a"), value: octets("c") }]);
}

#[test]
fn a_hub_is_bounded() {
    let config = HubConfig { max_clients: 2, max_tuples: 3, max_bytes: 20, ..HubConfig::default() };
    let mut hub = Hub::new(config);
    (1..4).for_each(|client| hub.handle_message(at(0), client, &unhex(HELLO)));
    assert_eq!(from_hub(&mut hub), [(3, unhex(INVALID))]);
    assert_eq!((hub.clients(), hub.stats().clients_refused), (2, 1));
    for (key, value) in [("a", "1"), ("b", "1"), ("c", "0123456789abcdef"), ("c", "012345678"), ("d", "1")] {
        hub.handle_message(at(0), 1, &publish(key, value));
    }
    assert_eq!(hub.tuples().map(|(key, _)| key.clone()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(hub.stats().refused, 2);
    // The size of a replaced value is released.
    hub.handle_message(at(900), 1, &unhex(PING));
    hub.handle_message(at(1000), 1, &publish("c", "0123456789abcde"));
    assert_eq!(hub.bytes(), 4 + 16);
    // A tuple that cannot be forwarded is not stored: here a zero octet.
    hub.handle_message(at(1000), 1, &unhex("AAA00201 0161 00000001 00 00000000"));
    assert_eq!(hub.stats().refused, 3);
    assert!(hub.remove(&octets("c")));
    assert_eq!(hub.bytes(), 4);
}

/// Two hubs that are each other's client, and two values of one key: those of czmq exchange them
/// endlessly.
#[test]
fn two_values_of_one_key_do_not_circle() {
    let mut hubs = [hub_of(&[]), hub_of(&[])];
    // Each hub has opened connection 1 to the other, where it arrives as connection 2.
    hubs.iter_mut().for_each(|hub| hub.handle_connected(at(0), 1));
    let settle = |now: Now, hubs: &mut [Hub; 2]| {
        for passed in 0..1000 {
            let side = (0..2).find_map(|side| Some((side, hubs[side].poll_transmit()?)));
            let Some((side, (connection, frame))) = side else { return passed };
            hubs[1 - side].handle_message(now, 3 - connection, &frame);
        }
        panic!("it does not end")
    };
    settle(at(0), &mut hubs);
    hubs[0].handle_message(at(10), 8, &unhex(HELLO));
    hubs[1].handle_message(at(10), 8, &unhex(HELLO));
    hubs[0].handle_message(at(10), 8, &publish("k", "one"));
    hubs[1].handle_message(at(10), 8, &publish("k", "two"));
    for hub in &mut hubs {
        hub.handle_closed(8);
    }
    settle(at(11), &mut hubs);
}

/// Three zwire clients at a hub over half a minute, one of them stopped for two seconds: all receive
/// all tuples.
#[test]
fn clients_and_a_hub_over_time() {
    let mut hub = hub_of(&[]);
    let mut clients: BTreeMap<u64, Client> = (1..=3).map(|id| (id, Client::new())).collect();
    let mut known: BTreeMap<u64, Vec<Bytes>> = BTreeMap::new();
    for (id, client) in &mut clients {
        client.publish(at(0), &Bytes::from(format!("n{id}")), &octets("x")).unwrap();
        client.handle_opened(at(0));
    }
    for now in (0..30_000).step_by(50) {
        for (id, client) in &mut clients {
            let stopped = *id == 2 && (10_000..12_000).contains(&now);
            if stopped {
                continue;
            }
            client.handle_timeout(at(now));
            while let Some(frame) = client.poll_transmit() {
                hub.handle_message(at(now), *id, &frame);
            }
        }
        hub.handle_timeout(at(now));
        if now == 11_000 {
            hub.publish(at(now), &octets("late"), &octets("x")).unwrap();
        }
        while let Some((to, frame)) = hub.poll_transmit() {
            let client = clients.get_mut(&to).unwrap();
            client.handle_message(at(now), &frame);
            while let Some(heard) = client.poll_event() {
                known.entry(to).or_default().push(heard.key);
            }
        }
    }
    assert_eq!(hub.clients(), 3);
    assert_eq!(clients.values().map(|client| client.stats().hellos).collect::<Vec<_>>(), [1, 2, 1]);
    for (id, keys) in known {
        assert!(keys.iter().any(|key| key == "late"), "{id}: {keys:?}");
        assert!(keys.len() >= 3 && !keys.contains(&Bytes::from(format!("n{id}"))), "{id}: {keys:?}");
    }
}
