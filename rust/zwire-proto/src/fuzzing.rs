//! Bodies of the fuzz targets. They live in this crate so that every change of the codec must keep them
//! compiling.
//!
//! Each body states properties that hold for any bytes and panics if one is violated:
//!
//! - Nothing panics, and an error lies within the bytes.
//! - A message that decodes has a canonical form, the bytes that the encoder writes. They decode to the
//!   same message, and encoding that gives the same bytes again.
//! - The canonical form is never longer than the input: encoders leave out what decoders tolerate (long
//!   integers, explicit defaults, skipped and repeated extensions, high zero bytes of an id).
//! - An input as long as its canonical form differs from it only in the order of extensions and in
//!   reserved bits, so that at most [`IGNORED`] bytes differ.
//! - All sinks get the same bytes.

use crate::{
    buf::{Counter, Reader, Segments, Sink},
    error::Result,
    zenoh::wire::{
        BatchItem, BatchReader, LinkStateList, NetworkMessage, Oam, ScoutingMessage, TransportMessage,
    },
    zre::{
        Generation,
        wire::{self as zre_wire, Beacon, EncodeError, Hello, Log},
    },
};
use bytes::Bytes;
use core::fmt::Debug;

mod advanced;
mod bridge;
mod cdr;
mod discovery;
mod gossip;
mod group;
mod intercept;
mod keyexpr;
mod lending;
mod node;
mod zmtp;

pub use advanced::advanced;
pub use bridge::bridge;
pub use cdr::cdr;
#[cfg(test)]
pub(crate) use cdr::{copy, plan};
pub use discovery::discovery;
pub use gossip::zre_gossip;
pub use group::group;
pub use intercept::{access, intercept};
pub use keyexpr::keyexpr;
pub use lending::lending;
pub use node::zenoh_node;
pub use zmtp::zmtp;

/// The most bytes with reserved bits in one message of canonical length: its headers, those of body
/// and extensions, and the flag bytes and integers with ignored upper bits.
const IGNORED: usize = 64;

/// A datagram of scouting.
pub fn scouting(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    check(&raw, ScoutingMessage::decode, |message, sink| message.encode(sink));
}

/// A message of the remote API, in both directions.
pub fn remote_api(data: &[u8]) {
    crate::zenoh::remote_api::both_ways(data);
}

/// A batch: as of a usual session, of a low-latency one, and as a dissector reads it.
pub fn transport(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    walk(&raw, BatchReader::new);
    walk(&raw, BatchReader::low_latency);
    let mut walk = BatchReader::of(Reader::new(&raw).with_shared_memory());
    while let Ok(Some(_)) = walk.next_item() {}
}

/// A network message alone, and its contents where it is link state.
pub fn network(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    let message = check(&raw, NetworkMessage::decode, |message, sink| message.encode(sink));
    if let Some(NetworkMessage::Oam(Oam {
        id: Oam::LINK_STATE,
        body: crate::zenoh::wire::ExtBody::ZBuf(body),
        ..
    })) = message
    {
        link_state(&body);
    }
    link_state(&raw);
}

fn link_state(raw: &Bytes) {
    if let Ok(list) = LinkStateList::decode(raw) {
        let canonical = list.encode();
        assert!(canonical.len() <= raw.len());
        assert_eq!(LinkStateList::decode(&canonical), Ok(list));
    }
}

/// A message of ZRE, in each generation. The first octet of each frame is its length, the last frame may
/// be shorter.
pub fn zre(data: &[u8]) {
    let mut frames = Vec::new();
    let mut rest = data;
    while let [len, tail @ ..] = rest {
        let (frame, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        frames.push(Bytes::copy_from_slice(frame));
        rest = tail;
    }
    let len: usize = frames.iter().map(Bytes::len).sum();
    for generation in Generation::ALL {
        let message = match zre_wire::ZreMessage::decode(generation, &frames) {
            Ok(message) => message,
            Err(error) => {
                assert!(error.offset <= len, "{error}");
                continue;
            }
        };
        let canonical = match message.encode(generation) {
            Ok(canonical) => canonical,
            Err(error) => {
                assert_refused_for_a_reason(&error);
                continue;
            }
        };
        assert!(canonical.iter().map(Bytes::len).sum::<usize>() <= len, "{message:?}");
        // The canonical form is the input without ignored parts: octets and frames behind the end, and
        // dictionary entries without an equals sign.
        if canonical[0].len() == frames[0].len() {
            assert_eq!(canonical[0], frames[0]);
        }
        assert_eq!(zre_wire::ZreMessage::decode(generation, &canonical).as_ref(), Ok(&message));
        assert_eq!(message.encode(generation).as_ref(), Ok(&canonical));
        if let zre_wire::Body::Hello(_) = message.body {
            let found = Hello::generation(&canonical[0]);
            assert!(found.is_ok() || message.sequence >> 8 != 0 && generation.is_legacy(), "{message:?}");
        }
    }
}

/// Checks that the encoder refuses only what decoders tolerate and encoders must not write.
fn assert_refused_for_a_reason(error: &EncodeError) {
    let lenient = matches!(
        error,
        EncodeError::NotText { .. }
            | EncodeError::Empty { .. }
            | EncodeError::TooLong { .. }
            | EncodeError::NoContent { .. }
            | EncodeError::MultiFrame { .. }
            | EncodeError::Undefined { .. }
    );
    assert!(lenient, "{error}");
}

/// A beacon of ZRE: nothing of it is ignored.
pub fn zre_beacon(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    match Beacon::decode(&raw) {
        Ok(beacon) => assert_eq!(beacon.encode(), raw),
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
}

/// ZRE/LOG. Bytes behind the end are ignored.
pub fn zre_log(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    match Log::decode(&raw).map(|log| log.encode()) {
        Ok(Ok(canonical)) => assert_eq!(canonical, raw[..canonical.len()]),
        Ok(Err(error)) => assert_refused_for_a_reason(&error),
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
}

/// Checks the properties of the module documentation for one message.
fn check<M: PartialEq + Debug>(
    raw: &Bytes,
    decode: impl Fn(&mut Reader<'_>) -> Result<M>,
    encode: impl Fn(&M, &mut AnySink),
) -> Option<M> {
    let mut r = Reader::new(raw);
    let message = match decode(&mut r) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= raw.len(), "{error}");
            return None;
        }
    };
    let read = raw.slice(..r.offset());
    let canonical = AnySink::write(|sink| encode(&message, sink));
    assert!(canonical.len() <= read.len(), "{message:?}");
    if canonical.len() == read.len() {
        assert!(distance(&canonical, &read) <= IGNORED, "{message:?}");
    }
    let mut r = Reader::new(&canonical);
    let again = decode(&mut r).unwrap_or_else(|e| panic!("{e}: {message:?}"));
    assert!(r.is_empty(), "{message:?}");
    assert_eq!(again, message);
    assert_eq!(AnySink::write(|sink| encode(&again, sink)), canonical);
    Some(message)
}

/// Same checks for the messages of a batch, and for the batch that is made of them.
fn walk<'a>(raw: &'a Bytes, start: impl Fn(&'a Bytes) -> BatchReader<'a>) {
    let mut batch = start(raw);
    let mut begin = 0;
    loop {
        let item = match batch.next_item() {
            Ok(Some(item)) => item,
            Ok(None) => {
                assert_eq!(batch.offset(), raw.len());
                return;
            }
            Err(error) => {
                assert!(error.offset <= raw.len(), "{error}");
                return;
            }
        };
        let end = batch.offset();
        assert!(end > begin, "a walk goes on");
        match item {
            // Frequent messages take a faster path through the walk.
            BatchItem::Network(message) => {
                let alone = raw.slice(begin..end);
                let same = check(&alone, NetworkMessage::decode, |message, sink| message.encode(sink));
                assert_eq!(same, Some(message));
            }
            BatchItem::Transport(message) => {
                let alone = raw.slice(begin..end);
                let same = check(&alone, TransportMessage::decode, |message, sink| message.encode(sink));
                assert_eq!(same, Some(message));
            }
            BatchItem::Fragment(head, data) => {
                assert_eq!(data, raw[end - data.len()..end]);
                let canonical = AnySink::write(|sink| {
                    head.encode(sink);
                    sink.put_shared(&data);
                });
                let mut again = BatchReader::new(&canonical);
                assert_eq!(again.next_item(), Ok(Some(BatchItem::Fragment(head, data))));
            }
        }
        begin = end;
    }
}

/// Number of bytes in one input that the other lacks, in any order.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut counts = [0i64; 256];
    one.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    other.iter().for_each(|byte| counts[usize::from(*byte)] -= 1);
    counts.iter().map(|n| n.unsigned_abs() as usize).sum::<usize>() / 2
}

/// All sinks at once.
#[derive(Default)]
struct AnySink {
    vec: Vec<u8>,
    count: Counter,
    segments: Segments,
}

impl AnySink {
    /// Encodes into all sinks, checks that they got the same bytes, and returns these.
    fn write(encode: impl Fn(&mut Self)) -> Bytes {
        let mut all = Self::default();
        encode(&mut all);
        assert_eq!(all.count.0, all.vec.len());
        assert_eq!(all.segments.len(), all.vec.len());
        assert_eq!(all.segments.into_parts().concat(), all.vec);
        all.vec.into()
    }
}

impl Sink for AnySink {
    fn put(&mut self, bytes: &[u8]) {
        self.vec.put(bytes);
        self.count.put(bytes);
        self.segments.put(bytes);
    }
    fn put_u8(&mut self, byte: u8) {
        self.vec.put_u8(byte);
        self.count.put_u8(byte);
        self.segments.put_u8(byte);
    }
    fn put_shared(&mut self, bytes: &Bytes) {
        self.vec.put_shared(bytes);
        self.count.put_shared(bytes);
        self.segments.put_shared(bytes);
    }
}

#[cfg(test)]
#[path = "../../../tests/rust/mutated.rs"]
pub(crate) mod mutated;

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! mutated_seeds_hold {
        ($($target:ident)*) => {
            mod mutated_seeds_hold {
                $(#[test]
                fn $target() {
                    super::super::mutated::fuzz(stringify!($target), super::super::$target);
                })*
            }
        };
    }

    mutated_seeds_hold! {
        scouting transport network advanced access discovery group intercept lending zenoh_node remote_api zmtp zre zre_beacon zre_gossip zre_log
    }

    #[test]
    fn the_bodies_accept_what_is_right_and_what_is_wrong() {
        for data in
            [&[][..], &[0x01, 0x09, 0x03], &[0xff; 20], &[0x05, 0x00, 0x1d, 0x00, 0x02], &[0x06, 0x01, 1, 2]]
        {
            scouting(data);
            transport(data);
            network(data);
        }
        network(&[0x5f, 0x01, 0x05, 0x01, 0x00, 0x05, 0x06, 0x00]);
    }

    #[test]
    fn the_distance_knows_no_order() {
        assert_eq!(distance(&[1, 2, 3], &[3, 1, 2]), 0);
        assert_eq!(distance(&[1, 2, 3], &[3, 1, 4]), 1);
    }
}
