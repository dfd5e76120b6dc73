//! Errors and ambiguities of RFC 36 and RFC 43 (`zre` 17), each with the decision taken there.

use super::*;
use crate::zre::wire::{Gossip, Tuple};

/// 1: 'version octet "shall follow the signature"'. "It follows the message id."
#[test]
fn rfc36_problem_1_the_place_of_the_version() {
    let frames = ZreMessage { sequence: 6, body: Body::Ping }.encode(G36).unwrap();
    assert_eq!(frames[0][..], [0xaa, 0xa1, 6, 2, 0, 6]);
}

/// 2: the grammar lists the content inside the frame. "Content = following frames."
#[test]
fn rfc36_problem_2_content_follows() {
    let content = vec![octets("multi"), octets("part")];
    let shout = Body::Shout { group: octets("CHAT"), content };
    let frames = ZreMessage { sequence: 8, body: shout }.encode(G36).unwrap();
    assert_eq!(frames, [&b"\xaa\xa1\x03\x02\x00\x08\x04CHAT"[..], b"multi", b"part"]);
}

/// 3: the address of RFC 20, and its second list of what makes a beacon valid. "Endpoint string; zero
/// port valid."
#[test]
fn rfc36_problem_3_endpoint_and_zero_port() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 1, Body::Hello(hello_of(1, G36)));
    let actions = bench.actions();
    let Action::Send { frames, .. } = &actions[1] else { panic!("{actions:?}") };
    let Body::Hello(hello) = ZreMessage::decode(G36, frames).unwrap().body else { panic!() };
    assert_eq!(hello.address, Address::Endpoint(octets("tcp://10.0.0.1:49152")));
    bench.hear_beacon(1, 0);
    assert_eq!(bench.kinds().last(), Some(&EventKind::Exit));
}

/// 4: the list of the fields of HELLO omits the name. "Name is mandatory", and so has its octet of
/// length also where it is empty.
#[test]
fn rfc36_problem_4_the_name_is_mandatory() {
    let named = Hello { name: Bytes::new(), ..hello_of(1, G36) };
    let frame = ZreMessage { sequence: 1, body: Body::Hello(named) }.encode(G36).unwrap().remove(0);
    assert_eq!(frame[frame.len() - 5..], [0, 0, 0, 0, 0], "name, and the count of headers");
    let mut bench = Bench::new(config(0, Generations::default()));
    let without = [&frame[..frame.len() - 5], &[0; 4]].concat();
    bench.hear_frames(1, G36, &[without.into()]);
    assert!(bench.kinds().is_empty());
    bench.hear_frames(1, G36, &[frame]);
    // A node without a name is called by its UUID.
    assert_eq!(bench.node.poll_event().unwrap().name, "010101");
}

/// 5: '43: beacon "54-octet message", first drawing version %x01, text %x03, key "optional"'. "54 octets,
/// version 3; without key use the 22-octet version-1 beacon."
#[test]
fn rfc36_problem_5_the_two_beacons() {
    for (public_key, len, version) in [(None, 22, 1), (Some([1; 32]), 54, 3)] {
        let mut bench = Bench::new(ZreNodeConfig { public_key, ..config(0, Generations::default()) });
        bench.wait(Duration::ZERO);
        let actions = bench.actions();
        let [Action::Beacon { datagram, .. }] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!((datagram.len(), datagram[3]), (len, version));
    }
}

/// 6: '43: "SHALL ignore v2 beacons when operating in CURVE mode"'. "Means beacons with version octet 1."
#[test]
fn rfc36_problem_6_plain_beacons_in_curve_mode() {
    let secure = ZreNodeConfig { public_key: Some([1; 32]), ..config(0, Generations::default()) };
    let mut bench = Bench::new(secure);
    bench.hear_beacon(1, 49152);
    assert!(bench.actions().is_empty());
    assert_eq!(bench.node.ignored()[0].reason, Reason::PlainBeacon);
}

/// 7: '43: message version 3, "no mechanism for backwards interoperability"'. "Send version 2; accept 3
/// with identical layout"; "reply in the version of the peer's HELLO"; "an option, default off".
#[test]
fn rfc36_problem_7_message_version_3() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear_beacon(1, 49152);
    bench.hear(2, G43, 1, Body::Hello(hello_of(2, G43)));
    let hellos = bench.actions().into_iter().filter_map(|action| match action {
        Action::Send { frames, .. } => Some(frames[0][3]),
        _ => None,
    });
    assert_eq!(hellos.collect::<Vec<_>>(), [2, 3]);
}

/// 8: "43 does not define how a peer found by HELLO or gossip gets the key": "header X-PUBLICKEY, gossip
/// `|key` (zyre)".
#[test]
fn rfc36_problem_8_keys_in_hello_and_gossip() {
    let key = [7; 32];
    let tuple = Tuple { uuid: uuid(1), endpoint: octets("tcp://10.0.0.2:49152"), public_key: Some(key) };
    let Gossip::Publish { key: name, value, .. } = tuple.publish() else { panic!() };
    let heard = Tuple::of(&name, &value).unwrap();
    let secure = ZreNodeConfig { public_key: Some([1; 32]), ..config(0, Generations::default()) };
    let mut bench = Bench::new(secure.clone());
    bench.node.handle_found(Now::default(), heard.uuid, heard.endpoint, heard.public_key);
    let by_gossip = bench.actions();
    assert!(matches!(by_gossip[0], Action::Connect { server_key: Some(found), .. } if found == key));
    let Action::Send { frames, .. } = &by_gossip[1] else { panic!("{by_gossip:?}") };
    let Body::Hello(ours) = ZreMessage::decode(G36, frames).unwrap().body else { panic!() };
    assert_eq!(ours.public_key(), Some([1; 32]));
    let mut bench = Bench::new(secure);
    let headers =
        vec![(Bytes::from_static(Hello::PUBLIC_KEY), Bytes::copy_from_slice(&z85::encode_key(&key)))];
    bench.hear(1, G36, 1, Body::Hello(Hello { headers, ..hello_of(1, G36) }));
    assert!(matches!(bench.actions()[0], Action::Connect { server_key: Some(found), .. } if found == key));
}

/// 9: "IPv6 multicast group not named": "czmq default ff02::1".
#[test]
fn rfc36_problem_9_the_multicast_group() {
    assert_eq!(crate::zre::DISCOVERY_GROUP.to_string(), "ff02::1");
}

/// 10: 'sequence "strictly incrementing" 16-bit': "cyclic".
#[test]
fn rfc36_problem_10_the_sequence_is_cyclic() {
    let mut bench = Bench::new(config(0, Generations::default()));
    bench.hear(1, G36, 65534, Body::Hello(hello_of(1, G36)));
    for sequence in [65535, 0, 1, 2] {
        bench.hear(1, G36, sequence, Body::PingOk);
    }
    assert_eq!(bench.node.stats().gaps, 0);
}
