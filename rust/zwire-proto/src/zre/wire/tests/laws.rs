//! Properties: an encoded message decodes to itself; no input makes a decoder panic.

use super::*;
use crate::fuzzing;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Bytes> {
    "[a-zA-Zé /._-]{1,40}".prop_map(Bytes::from)
}

fn content(generation: Generation) -> impl Strategy<Value = Vec<Bytes>> {
    let most = if generation == Generation::Rfc20 { 1 } else { 4 };
    let frame = prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop::collection::vec(frame, 1..=most)
}

fn hellos(generation: Generation) -> impl Strategy<Value = Body> {
    let legacy = generation.is_legacy();
    let headers = prop::collection::vec((name(), "[ -~]{0,40}".prop_map(Bytes::from)), 0..8);
    (name(), any::<u16>(), prop::collection::vec(name(), 0..8), any::<u8>(), name(), headers).prop_map(
        move |(address, port, groups, status, name, headers)| {
            let address = match legacy {
                true => Address::Mailbox { ip: address, port },
                false => Address::Endpoint(address),
            };
            let name = if legacy { Bytes::new() } else { name };
            Body::Hello(Hello { address, groups, status, name, headers })
        },
    )
}

fn bodies(generation: Generation) -> BoxedStrategy<Body> {
    let old = prop_oneof![
        3 => hellos(generation),
        1 => content(generation).prop_map(|content| Body::Whisper { content }),
        1 => (name(), content(generation)).prop_map(|(group, content)| Body::Shout { group, content }),
        1 => (name(), any::<u8>()).prop_map(|(group, status)| Body::Join { group, status }),
        1 => (name(), any::<u8>()).prop_map(|(group, status)| Body::Leave { group, status }),
        1 => Just(Body::Ping),
        1 => Just(Body::PingOk),
    ];
    if generation.is_legacy() {
        return old.boxed();
    }
    prop_oneof![
        9 => old,
        1 => (name(), name()).prop_map(|(group, challenger)| Body::Elect { group, challenger }),
        1 => (name(), name()).prop_map(|(group, leader)| Body::Leader { group, leader }),
        1 => Just(Body::Goodbye),
    ]
    .boxed()
}

fn messages() -> impl Strategy<Value = (Generation, ZreMessage)> {
    prop::sample::select(Generation::ALL.to_vec()).prop_flat_map(|generation| {
        (Just(generation), any::<u16>(), bodies(generation))
            .prop_map(|(generation, sequence, body)| (generation, message(sequence, body)))
    })
}

proptest! {
    #[test]
    fn messages_round_trip((generation, message) in messages()) {
        let frames = message.encode(generation).unwrap();
        prop_assert_eq!(ZreMessage::decode(generation, &frames), Ok(message.clone()));
        for cut in 0..frames[0].len() {
            let mut part = frames.clone();
            part[0].truncate(cut);
            prop_assert!(ZreMessage::decode(generation, &part).is_err());
        }
    }

    #[test]
    fn the_generation_of_a_hello_is_found(
        (generation, hello) in prop::sample::select(Generation::ALL.to_vec())
            .prop_flat_map(|generation| (Just(generation), hellos(generation)))
    ) {
        let frames = message(1, hello).encode(generation).unwrap();
        prop_assert_eq!(Hello::generation(&frames[0]), Ok(generation));
    }

    #[test]
    fn beacons_and_logs_round_trip(
        uuid: [u8; 16], port: u16, public_key: Option<[u8; 32]>,
        level in 1_u8..=3, event in 0_u8..=6, node: u16, peer: u16, time: u64, data in "[ -~é]{0,100}",
    ) {
        let beacon = Beacon { uuid: Uuid::from_bytes(uuid), port, public_key };
        prop_assert_eq!(Beacon::decode(&beacon.encode()), Ok(beacon));
        let (level, event) = (LogLevel(level), LogEvent(event));
        let log = Log { level, event, node, peer, time, data: data.into() };
        prop_assert_eq!(Log::decode(&log.encode().unwrap()), Ok(log));
    }

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..12) {
        fuzzing::zre(&data);
        fuzzing::zre_beacon(&data);
        fuzzing::zre_log(&data);
        for version in [0, 2, 3] {
            fuzzing::zre(&[&[200, 0xaa, 0xa1, kind, version], &data[..]].concat());
        }
    }

    #[test]
    fn damaged_messages_are_survived((generation, message) in messages(), at: prop::sample::Index, by: u8) {
        let mut frame = message.encode(generation).unwrap()[0].to_vec();
        let at = at.index(frame.len());
        frame[at] = frame[at].wrapping_add(by);
        frame.insert(0, 255);
        fuzzing::zre(&frame);
    }
}
