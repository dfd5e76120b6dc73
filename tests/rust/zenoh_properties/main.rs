//! Properties of the Zenoh codec, on messages of every kind and on bytes of any kind.

#[path = "../generate/mod.rs"]
mod generate;

use bytes::Bytes;
use generate::{bytes, fragment, frame, link_states, network, scouting, transport};
use proptest::{collection::vec, prelude::*, sample::Index};
use zwire_proto::{
    buf::{Counter, Reader, Segments, Sink},
    error::{DecodeErrorKind, Result},
    zenoh::wire::{
        BatchItem, BatchReader, LinkStateList, NetworkMessage, PushBody, ScoutingMessage, TransportMessage,
    },
};

/// Interface to one kind of message.
trait Message: Sized + PartialEq + std::fmt::Debug {
    fn decode(r: &mut Reader<'_>) -> Result<Self>;
    fn encode(&self, sink: &mut impl Sink);

    fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.into()
    }

    /// Decodes the message that fills all of `bytes`.
    fn of(bytes: &Bytes) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let message = Self::decode(&mut r)?;
        r.finish("end")?;
        Ok(message)
    }
}

impl Message for NetworkMessage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Self::decode(r)
    }
    fn encode(&self, sink: &mut impl Sink) {
        self.encode(sink);
    }
}

impl Message for TransportMessage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Self::decode(r)
    }
    fn encode(&self, sink: &mut impl Sink) {
        self.encode(sink);
    }
}

impl Message for ScoutingMessage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Self::decode(r)
    }
    fn encode(&self, sink: &mut impl Sink) {
        self.encode(sink);
    }
}

/// Encoding and decoding are inverse, the sinks agree, and a truncated message is an error that names
/// the least number of missing bytes.
fn laws<M: Message>(message: &M) {
    let wire = message.to_bytes();
    assert_eq!(M::of(&wire).as_ref(), Ok(message));
    let mut count = Counter::default();
    message.encode(&mut count);
    assert_eq!(count.0, wire.len());
    let mut segments = Segments::default();
    message.encode(&mut segments);
    assert_eq!(segments.len(), wire.len());
    let parts = segments.into_parts();
    assert!(parts.iter().all(|part| !part.is_empty()));
    assert_eq!(parts.concat(), wire[..]);
    for cut in 0..wire.len() {
        let error = M::of(&wire.slice(..cut)).expect_err("cut");
        assert!(error.offset <= cut, "{error}");
        match error.kind {
            DecodeErrorKind::Truncated { needed } => assert!(needed > 0),
            // A count of items exceeds the data.
            DecodeErrorKind::OutOfRange { value, bound } => assert!(value > bound),
            kind => panic!("cut at {cut} of {message:?}: {kind:?}"),
        }
    }
}

/// For any bytes: no panic, an offset within them; and a decoded message has a canonical form that
/// decodes to the same message.
fn any_bytes<M: Message>(raw: &Bytes) {
    let mut r = Reader::new(raw);
    match M::decode(&mut r) {
        Ok(message) => {
            let wire = message.to_bytes();
            assert_eq!(M::of(&wire).as_ref(), Ok(&message));
            // Elisions and shortest integers only make it shorter. Neither a lease of whole seconds nor
            // the forms of the empty key are longer.
            assert!(wire.len() <= r.offset(), "{message:?}");
        }
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
}

/// Changes a few bytes of `wire`, cuts it, or repeats a part.
fn damage(wire: &Bytes, at: Index, byte: u8, how: u8) -> Bytes {
    let mut raw = wire.to_vec();
    let at = at.index(raw.len());
    match how % 5 {
        0 => raw[at] = byte,
        1 => raw[at] ^= 1 << (byte % 8),
        2 => raw.insert(at, byte),
        3 => drop(raw.remove(at)),
        _ => raw.extend_from_within(at..),
    }
    raw.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn network_messages_keep_the_laws(message in network()) {
        laws(&message);
    }

    #[test]
    fn transport_messages_keep_the_laws(message in transport()) {
        laws(&message);
    }

    #[test]
    fn scouting_messages_keep_the_laws(message in scouting()) {
        laws(&message);
    }

    #[test]
    fn link_states_keep_the_laws(list in link_states()) {
        let wire = list.encode();
        prop_assert_eq!(LinkStateList::decode(&wire), Ok(list));
        for cut in 0..wire.len() {
            prop_assert!(LinkStateList::decode(&wire.slice(..cut)).is_err());
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(raw in vec(any::<u8>(), 0..80)) {
        let raw = Bytes::from(raw);
        any_bytes::<NetworkMessage>(&raw);
        any_bytes::<TransportMessage>(&raw);
        any_bytes::<ScoutingMessage>(&raw);
        if let Ok(list) = LinkStateList::decode(&raw) {
            prop_assert_eq!(LinkStateList::decode(&list.encode()), Ok(list));
        }
    }

    #[test]
    fn damaged_messages_are_read_or_refused(
        network in network(),
        transport in transport(),
        scouting in scouting(),
        damages in vec((any::<Index>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        let mut all = [network.to_bytes(), transport.to_bytes(), scouting.to_bytes()];
        for (at, byte, how) in damages {
            all = all.map(|wire| if wire.is_empty() { wire } else { damage(&wire, at, byte, how) });
        }
        any_bytes::<NetworkMessage>(&all[0]);
        any_bytes::<TransportMessage>(&all[1]);
        any_bytes::<ScoutingMessage>(&all[2]);
    }

    /// A walk returns the messages written, however they are spread over frames, and the same messages
    /// up to the place where a batch is cut.
    #[test]
    fn batches_are_walked(
        items in vec(
            prop_oneof![
                network().prop_map(BatchItem::Network),
                transport().prop_map(BatchItem::Transport),
                frame().prop_map(|frame| BatchItem::Transport(TransportMessage::Frame(frame))),
            ],
            0..6,
        ),
        tail in proptest::option::of((fragment(), bytes())),
        cut in any::<Index>(),
    ) {
        let mut written = Vec::new();
        let mut wire = Vec::new();
        let mut in_frame = false;
        let first = frame();
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for item in items {
            match &item {
                BatchItem::Network(message) => {
                    if !in_frame {
                        use proptest::strategy::ValueTree;
                        let head = first.new_tree(&mut runner).unwrap().current();
                        head.encode(&mut wire);
                        written.push((BatchItem::Transport(TransportMessage::Frame(head)), wire.len()));
                        in_frame = true;
                    }
                    message.encode(&mut wire);
                }
                BatchItem::Transport(message) => {
                    in_frame = matches!(message, TransportMessage::Frame(_));
                    message.encode(&mut wire);
                }
                BatchItem::Fragment(..) => unreachable!("only the last one"),
            }
            written.push((item, wire.len()));
        }
        if let Some((head, data)) = tail {
            head.encode(&mut wire);
            wire.extend_from_slice(&data);
            written.push((BatchItem::Fragment(head, data), wire.len()));
        }
        let wire = Bytes::from(wire);
        let mut walk = BatchReader::new(&wire);
        for (item, end) in &written {
            let next = walk.next_item();
            prop_assert_eq!(next.as_ref(), Ok(&Some(item.clone())));
            prop_assert_eq!(walk.offset(), *end);
        }
        prop_assert_eq!(walk.next_item(), Ok(None));
        if !wire.is_empty() {
            let part = wire.slice(..cut.index(wire.len()));
            let mut walk = BatchReader::new(&part);
            for (item, end) in &written {
                if *end > part.len() {
                    break;
                }
                let next = walk.next_item();
                prop_assert_eq!(next.as_ref(), Ok(&Some(item.clone())));
            }
        }
    }

    /// A payload is a slice of the receive buffer, and a segment of the output.
    #[test]
    fn payloads_are_never_copied(len in 4096usize..9000, key in "[a-z]{1,60}") {
        use zwire_proto::zenoh::wire::{Push, Put, WireExpr};
        let payload = Bytes::from(vec![7; len]);
        let push = Push::new(WireExpr::full(key.as_str()), PushBody::Put(Put::new(payload.clone())));
        let message = NetworkMessage::Push(push);
        let mut segments = Segments::default();
        message.encode(&mut segments);
        let parts = segments.into_parts();
        prop_assert_eq!(parts.len(), 2);
        prop_assert_eq!(parts[1].as_ptr(), payload.as_ptr());
        let wire = message.to_bytes();
        let NetworkMessage::Push(push) = <NetworkMessage as Message>::of(&wire).unwrap() else { panic!() };
        let PushBody::Put(put) = push.body else { panic!() };
        prop_assert_eq!(put.payload.as_ptr(), wire[wire.len() - len..].as_ptr());
    }
}

/// Extension chains written by hand: in any order, with duplicates, with long integers.
mod chains {
    use super::*;

    /// An extension of PUSH: header without Z, and its body.
    fn extension() -> impl Strategy<Value = (u8, Vec<u8>)> {
        let z64 =
            |header: u8, bound: u64| (0..bound, 0usize..9).prop_map(move |(v, pad)| (header, vle(v, pad)));
        prop_oneof![
            z64(0x21, 256),
            z64(0x33, 65_536),
            (vle_any(), 0usize..4).prop_map(|(time, pad)| {
                let body = [&time[..], &vle(2, pad), &[1, 2]].concat();
                (0x42, [vle(body.len() as u64, 0), body].concat())
            }),
            // Unknown and optional: skipped.
            Just((0x0e, Vec::new())),
            z64(0x2f, u64::MAX),
            vec(any::<u8>(), 0..20).prop_map(|body| (0x4d, [vle(body.len() as u64, 0), body].concat())),
        ]
    }

    fn vle_any() -> impl Strategy<Value = Vec<u8>> {
        (any::<u64>(), 0usize..9).prop_map(|(value, pad)| vle(value, pad))
    }

    /// `value` in at least `1 + pad` bytes, up to nine: legal, though not minimal.
    pub(super) fn vle(value: u64, pad: usize) -> Vec<u8> {
        let minimal = zwire_proto::buf::vle_len(value);
        let len = (minimal + pad).min(9);
        let mut out: Vec<u8> = (0..len).map(|i| (value >> (7 * i)) as u8 & 0x7f).collect();
        for byte in &mut out[..len - 1] {
            *byte |= 0x80;
        }
        if len == 9 {
            out[8] = (value >> 56) as u8;
        }
        out
    }

    /// PUSH to scope 5 with these extensions, PUT of "hi".
    fn push(chain: &[(u8, Vec<u8>)]) -> Bytes {
        let mut out = vec![if chain.is_empty() { 0x5d } else { 0xdd }, 5];
        for (i, (header, body)) in chain.iter().enumerate() {
            out.push(header | if i + 1 < chain.len() { 0x80 } else { 0 });
            out.extend_from_slice(body);
        }
        out.extend_from_slice(&[1, 2, b'h', b'i']);
        out.into()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// "Order is free for the decoder. Duplicates: last one wins."
        #[test]
        fn the_last_of_each_counts_in_any_order(
            chain in vec(extension(), 0..8),
            order in any::<Index>(),
        ) {
            let message = <NetworkMessage as Message>::of(&push(&chain)).unwrap();
            // Only the last of each header, turned around by some steps.
            let mut last: Vec<(u8, Vec<u8>)> = Vec::new();
            for ext in &chain {
                last.retain(|(header, _)| *header != ext.0);
                last.push(ext.clone());
            }
            let steps = order.index(last.len().max(1));
            last.rotate_left(steps);
            prop_assert_eq!(&<NetworkMessage as Message>::of(&push(&last)).unwrap(), &message);
            last.retain(|(header, _)| [0x21, 0x33, 0x42].contains(header));
            prop_assert_eq!(<NetworkMessage as Message>::of(&push(&last)).unwrap(), message);
        }

        /// Long integers decode to the same value as short ones, in every field of a message.
        #[test]
        fn long_integers_are_accepted(
            pads in any::<[u8; 6]>(),
            scope in any::<u16>(),
            qos in any::<u8>(),
            encoding in any::<u16>(),
            suffix in "[a-z]{1,30}",
            payload in vec(any::<u8>(), 0..200),
        ) {
            let write = |pads: [usize; 6]| {
                let mut out = vec![0xfd];
                out.extend(vle(scope.into(), pads[0]));
                out.extend(vle(suffix.len() as u64, pads[1]));
                out.extend_from_slice(suffix.as_bytes());
                out.push(0x21);
                out.extend(vle(qos.into(), pads[2]));
                out.push(0x41);
                out.extend(vle(u64::from(encoding) << 1, pads[3]));
                out.extend(vle(payload.len() as u64, pads[4]));
                out.extend_from_slice(&payload);
                Bytes::from(out)
            };
            let long = <NetworkMessage as Message>::of(&write(pads.map(|pad| usize::from(pad % 9))));
            prop_assert_eq!(long, <NetworkMessage as Message>::of(&write([0; 6])));
        }
    }
}

/// "At most 9 bytes: the ninth byte carries eight full bits."
#[test]
fn an_integer_has_nine_bytes_at_most() {
    let raw = Bytes::from([&[0xff; 9][..], &[0x01]].concat());
    let mut r = Reader::new(&raw);
    assert_eq!(r.vle("test"), Ok(u64::MAX));
    assert_eq!(r.offset(), 9);
    assert_eq!(chains::vle(u64::MAX, 3), [0xff; 9]);
    assert_eq!(chains::vle(0, 8), [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]);
}
