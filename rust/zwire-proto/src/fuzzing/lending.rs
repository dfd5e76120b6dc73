//! Fuzz body of lending: messages of the channel, payloads in sliced form, numbers that a borrower returns, and memory
//! of Eclipse Zenoh.

use crate::{
    lending::{ChannelMessage, Lender, MAX_LOANS, SegmentState},
    zenoh::{
        link::named::{ChunkHeader, HANDSHAKE_SIZE, HandshakeSegment, HeaderPlace, METADATA_SIZE},
        wire::{NamedDescription, PayloadSlice},
    },
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// A message of the channel, the payload of a message, and steps of a lender.
pub fn lending(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    match ChannelMessage::decode(&raw) {
        Ok(message) => {
            let canonical = Bytes::from(message.encode());
            assert!(canonical.len() <= raw.len(), "{message:?}");
            assert_eq!(ChannelMessage::decode(&canonical), Ok(message));
        }
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
    match PayloadSlice::decode_all(&raw) {
        Ok(slices) => {
            let canonical = PayloadSlice::encode_all(&slices).into_bytes();
            assert!(canonical.len() <= raw.len(), "{slices:?}");
            assert_eq!(PayloadSlice::decode_all(&canonical), Ok(slices));
        }
        Err(error) => assert!(error.offset <= raw.len(), "{error}"),
    }
    steps(data);
    named(&raw);
}

/// A handshake segment, and a header with a description: the payload is inside of its chunk, and that of its segment.
fn named(raw: &Bytes) {
    if let Some(segment) = HandshakeSegment::decode(raw) {
        let mut same = HandshakeSegment::encode(segment.challenge);
        same.resize(HANDSHAKE_SIZE, 0);
        assert_eq!(HandshakeSegment::decode(&same).map(|s| s.challenge), Some(segment.challenge));
    }
    let Some((head, rest)) = raw.split_first_chunk::<28>() else { return };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let header = ChunkHeader {
        protocol: word(0) % 2,
        segment: word(4),
        offset: word(8),
        length: u64::from(word(12)) << (head[27] % 64),
    };
    let size = usize::try_from(word(16)).unwrap_or(usize::MAX);
    let Ok(description) = NamedDescription::decode(&raw.slice(raw.len() - rest.len()..)) else { return };
    assert_eq!(NamedDescription::decode(&description.encode()), Ok(description));
    if let Some(range) = header.range(&description, size) {
        assert!(
            range.end <= size && range.len() as u64 == description.len && description.len <= header.length
        );
    }
    if let Some(place) = HeaderPlace::of(description.index.into()) {
        assert!(place.length() + 8 <= place.watchdog().0 && place.watchdog().0 + 8 <= METADATA_SIZE);
    }
}

/// Loans that begin, and numbers that come back, right and wrong: each number is on loan once, and no segment is used
/// that the borrower has not mapped.
fn steps(data: &[u8]) {
    let mut lender = Lender::<u8, u8, usize>::default();
    let (mut loans, mut numbers, mut mapped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for (at, step) in data.iter().enumerate() {
        let (kind, value) = (step >> 6, step & 0x3f);
        match kind {
            0 => match lender.lend(at) {
                Some(number) => assert_eq!(loans.insert(number, at), None),
                None => assert_eq!(loans.len(), MAX_LOANS),
            },
            1 => assert_eq!(lender.end(value.into()), loans.remove(&u32::from(value))),
            2 => match lender.segment(value, || value) {
                SegmentState::New(number) => assert_eq!(numbers.insert(value, number), None),
                SegmentState::Mapped(number) => {
                    assert_eq!(numbers.get(&value), Some(&number));
                    assert!(mapped.contains(&number));
                }
                SegmentState::Unusable => assert!(numbers.get(&value).is_some_and(|n| !mapped.contains(n))),
                SegmentState::TooMany => assert!(numbers.len() >= 64, "there are 64 keys"),
            },
            _ if value < 0x20 => {
                lender.handle_mapped(value.into());
                mapped.insert(u32::from(value));
                mapped.retain(|number| numbers.values().any(|known| known == number));
            }
            _ => {
                for number in lender.retire(|kept| *kept == value) {
                    assert_eq!(numbers.remove(&value), Some(number));
                    mapped.remove(&number);
                }
            }
        }
    }
    assert_eq!(lender.loans(), loans.len());
    assert_eq!(lender.end_all().len(), loans.len());
}
