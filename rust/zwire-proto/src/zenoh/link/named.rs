//! Shared memory of Eclipse Zenoh (`zenoh-wire` 3.6, 5.8): payloads stay in files in `/dev/shm`, which both sides of a link
//! map.
//!
//! Each side has a *handshake segment*, here while the handshake runs. INIT tells its number, and both sides prove by a
//! word in it that they read the one of the other. There are two generations of that handshake, and one segment serves
//! both:
//!
//! ```text
//!  first: 1.2.3 to 1.9, 24 + 8n bytes       second: 1.10, 12,288 bytes
//!   0 u64  n                                 0 u64  n, 1 to 256
//!   8 u64  NOT of the challenge              8 u64  the challenge
//!  16 u64  version 1                        16 u64  version 2
//!  24 u64  n ids of protocols               24 u32  n ids of protocols, 0 is POSIX
//!                                         1048 u32  2,810 counters of payloads under way
//! ```
//!
//! ```text
//!  Opener                                          Acceptor
//!    | INIT SYN  segment                              |  reads the segment
//!    |----------------------------------------------->|
//!    |             INIT ACK  challenge, own segment   |
//!    |<-----------------------------------------------|
//!    | OPEN SYN  challenge, counters (second)         |
//!    |----------------------------------------------->|
//!    |             OPEN ACK  1 (first), or counters   |
//!    |<-----------------------------------------------|
//! ```
//!
//! A payload in a *data segment* is described by an entry of a *metadata segment*, which both generations lay out
//! alike: 32,768 headers of 32 bytes, then a bit for each that its readers set while they use it.
//!
//! Counters belong to the sender of payloads: it counts each description up, and the receiver counts it down. This side
//! names none of its own, because it does not end what is on loan by time.

use crate::{
    buf::{Reader, put_vle},
    error::DecodeError,
    zenoh::{
        Priority,
        wire::{NamedDescription, OpenShm},
    },
};
use bytes::Bytes;
use core::{fmt, ops::Range};
use std::sync::Arc;
use thiserror::Error;

/// Size of a handshake segment of the second generation in bytes.
pub const HANDSHAKE_SIZE: usize = 12_288;

/// Size of a metadata segment in bytes.
pub const METADATA_SIZE: usize = 1_310_720;

/// Headers of a metadata segment.
pub const HEADERS: usize = 32_768;

const HEADER_SIZE: usize = 32;
const WATCHDOGS: usize = HEADERS * HEADER_SIZE;

const COUNTERS_OFFSET: usize = 1048;
const COUNTERS: u16 = 2810;
const MAX_PROTOCOLS: u64 = 256;

/// The protocol of files in `/dev/shm`.
const POSIX: u32 = 0;

/// A generation of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedGeneration {
    /// That of Eclipse Zenoh 1.2.3 to 1.9.
    First,
    /// That of Eclipse Zenoh 1.10.
    Second,
}

/// What a handshake segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeSegment {
    /// Its layout.
    pub generation: NamedGeneration,
    /// Proof that it was read.
    pub challenge: u64,
}

impl HandshakeSegment {
    /// The head of a segment of [`HANDSHAKE_SIZE`] bytes that serves both generations; the rest is zero. One of the first
    /// generation reads the word of the challenge inverted.
    #[must_use]
    pub fn encode(challenge: u64) -> Vec<u8> {
        [1_u64, challenge, 2, u64::from(POSIX)].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Reads a segment, given whole. `None` for an unknown layout, and if its owner does not read files in `/dev/shm`.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
        let (count, challenge, version) = (word(0)?, word(1)?, word(2)?);
        if !(1..=MAX_PROTOCOLS).contains(&count) {
            return None;
        }
        let count = usize::try_from(count).ok()?;
        match version {
            1 if bytes.len() == 24 + 8 * count => {
                let posix = words[3..].iter().any(|id| u64::from_ne_bytes(*id) == u64::from(POSIX));
                posix.then_some(Self { generation: NamedGeneration::First, challenge: !challenge })
            }
            2 if bytes.len() == HANDSHAKE_SIZE => {
                let (ids, _) = bytes[24..].as_chunks::<4>();
                let posix = ids[..count].iter().any(|id| u32::from_ne_bytes(*id) == POSIX);
                posix.then_some(Self { generation: NamedGeneration::Second, challenge })
            }
            _ => None,
        }
    }
}

/// The handshake segment of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnSegment {
    /// Its number.
    pub number: u32,
    /// The challenge in it.
    pub challenge: u64,
}

/// Access to handshake segments, which exist while a handshake is under way.
pub trait HandshakeSegments: Send + Sync {
    /// That of this side, made when it is asked for first; `None` if the system has none.
    fn own(&self) -> Option<OwnSegment>;

    /// That of a peer by its number, whole; `None` if there is none that may be read.
    fn read(&self, number: u32) -> Option<Vec<u8>>;
}

/// Offer of one side.
#[derive(Clone)]
pub struct NamedOffer(pub Arc<dyn HandshakeSegments>);

impl fmt::Debug for NamedOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamedOffer(..)")
    }
}

/// Agreement of both sides of a link on shared memory with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedTerms {
    /// Generation of the other side.
    pub generation: NamedGeneration,
    /// Number of its handshake segment.
    pub segment: u32,
    /// Its counters, by priority; `None` if it has none for this link.
    pub counters: Option<[u16; Priority::COUNT]>,
}

impl NamedTerms {
    /// Offset of the counter for messages of a priority in the handshake segment of the other side.
    #[must_use]
    pub fn counter_offset(&self, priority: Priority) -> Option<usize> {
        let counter = self.counters?[priority as usize];
        Some(COUNTERS_OFFSET + 4 * usize::from(counter))
    }
}

/// Reason for which a handshake about shared memory fails: the other side would describe payloads that this one does not
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NamedError {
    /// Another challenge than that of the segment.
    #[error("the proof for shared memory does not fit")]
    Challenge,
    /// Counters outside of the segment, or one of them twice.
    #[error("the counters for shared memory are not eight different ones below {COUNTERS}")]
    Counters,
}

/// An answered offer, until the link is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HalfAgreed {
    own: OwnSegment,
    terms: NamedTerms,
    /// Challenge of the other side.
    theirs: u64,
}

impl NamedOffer {
    /// Extension of INIT SYN.
    pub(super) fn syn(&self) -> Option<Bytes> {
        let mut out = Vec::new();
        put_vle(&mut out, self.0.own()?.number.into());
        Some(out.into())
    }

    /// What the acceptor agrees to with an opener that has sent this extension of INIT SYN; nothing, if its segment
    /// cannot be read.
    pub(super) fn accept(&self, syn: &Bytes) -> Option<HalfAgreed> {
        let mut r = Reader::new(syn);
        let segment = r.z32("INIT Shm segment").ok()?;
        r.finish("INIT Shm").ok()?;
        self.read(segment)
    }

    fn read(&self, segment: u32) -> Option<HalfAgreed> {
        let found = HandshakeSegment::decode(&self.0.read(segment)?)?;
        let terms = NamedTerms { generation: found.generation, segment, counters: None };
        Some(HalfAgreed { own: self.0.own()?, terms, theirs: found.challenge })
    }

    /// What the opener agrees to with an acceptor that has sent this extension of INIT ACK.
    pub(super) fn acknowledged(&self, ack: &Bytes) -> Option<HalfAgreed> {
        let mut r = Reader::new(ack);
        let echo = r.vle("INIT Shm challenge").ok()?;
        let segment = r.z32("INIT Shm segment").ok()?;
        r.finish("INIT Shm").ok()?;
        // The echo tells as what the other side has read the segment of this one.
        let challenge = self.0.own()?.challenge;
        let generation = match echo {
            echo if echo == challenge => NamedGeneration::Second,
            echo if echo == !challenge => NamedGeneration::First,
            _ => return None,
        };
        self.read(segment).filter(|agreed| agreed.terms.generation == generation)
    }
}

impl HalfAgreed {
    /// Extension of INIT ACK.
    pub(super) fn init_ack(&self) -> Bytes {
        let mut out = Vec::new();
        put_vle(&mut out, self.theirs);
        put_vle(&mut out, self.own.number.into());
        out.into()
    }

    /// Terms of the acceptor, by the extension in OPEN SYN; `None` if the opener does not agree.
    pub(super) fn confirm(self, open: Option<&OpenShm>) -> Result<Option<NamedTerms>, NamedError> {
        let challenge = self.own.challenge;
        match (self.terms.generation, open) {
            (NamedGeneration::First, Some(OpenShm::Challenge(proof))) => {
                Ok((*proof == !challenge).then_some(self.terms))
            }
            (NamedGeneration::Second, Some(OpenShm::Segments(bytes))) => {
                let mut r = Reader::new(bytes);
                if r.vle("OPEN Shm challenge") != Ok(challenge) {
                    return Err(NamedError::Challenge);
                }
                Ok(Some(NamedTerms { counters: read_counters(&mut r)?, ..self.terms }))
            }
            _ => Ok(None),
        }
    }

    /// Extension of OPEN SYN.
    pub(super) fn open_syn(&self) -> OpenShm {
        match self.terms.generation {
            NamedGeneration::First => OpenShm::Challenge(self.theirs),
            NamedGeneration::Second => {
                let mut out = Vec::new();
                put_vle(&mut out, self.theirs);
                // No counters.
                out.push(0);
                OpenShm::Segments(out.into())
            }
        }
    }

    /// Terms of the opener, by the extension in OPEN ACK; `None` if the acceptor does not agree after all.
    pub(super) fn conclude(self, open: Option<&OpenShm>) -> Result<Option<NamedTerms>, NamedError> {
        match (self.terms.generation, open) {
            (NamedGeneration::First, Some(OpenShm::Challenge(1))) => Ok(Some(self.terms)),
            (NamedGeneration::Second, Some(OpenShm::Segments(bytes))) => {
                let counters = read_counters(&mut Reader::new(bytes))?;
                Ok(Some(NamedTerms { counters, ..self.terms }))
            }
            _ => Ok(None),
        }
    }
}

/// Extension of OPEN ACK.
pub(super) fn open_ack(terms: &NamedTerms) -> OpenShm {
    match terms.generation {
        NamedGeneration::First => OpenShm::Challenge(1),
        NamedGeneration::Second => OpenShm::Segments(Bytes::from_static(&[0])),
    }
}

/// The counters of the other side, by priority.
fn read_counters(r: &mut Reader<'_>) -> Result<Option<[u16; Priority::COUNT]>, NamedError> {
    let mut read = || {
        let counters = match r.u8("OPEN Shm counters")? {
            0 => None,
            _ => {
                let mut counters = [0; Priority::COUNT];
                for counter in &mut counters {
                    *counter = r.z16("OPEN Shm counter")?;
                }
                Some(counters)
            }
        };
        r.finish("OPEN Shm")?;
        Ok::<_, DecodeError>(counters)
    };
    let counters = read().map_err(|_| NamedError::Counters)?;
    let valid = counters.is_none_or(|counters| {
        let different = (1..counters.len()).all(|at| !counters[..at].contains(&counters[at]));
        different && counters.iter().all(|counter| *counter < COUNTERS)
    });
    if valid { Ok(counters) } else { Err(NamedError::Counters) }
}

/// Offsets of the fields of one header in a metadata segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderPlace(usize);

impl HeaderPlace {
    /// The header with that number; `None` above [`HEADERS`].
    #[must_use]
    pub fn of(index: usize) -> Option<Self> {
        (index < HEADERS).then_some(Self(index * HEADER_SIZE))
    }

    /// `u32`: number of references, counted by all processes.
    #[must_use]
    pub const fn references(self) -> usize {
        self.0
    }

    /// `u8`: 1, when the owner has given the payload up.
    #[must_use]
    pub const fn invalidated(self) -> usize {
        self.0 + 4
    }

    /// `u32`: how often the header was used before.
    #[must_use]
    pub const fn generation(self) -> usize {
        self.0 + 8
    }

    /// `u32`: protocol of the data segment.
    #[must_use]
    pub const fn protocol(self) -> usize {
        self.0 + 12
    }

    /// `u32`: number of the data segment.
    #[must_use]
    pub const fn segment(self) -> usize {
        self.0 + 16
    }

    /// `u32`: offset of the chunk in it.
    #[must_use]
    pub const fn offset(self) -> usize {
        self.0 + 20
    }

    /// `u64`: length of the chunk.
    #[must_use]
    pub const fn length(self) -> usize {
        self.0 + 24
    }

    /// `u64` with the bit that readers set at least every 50 ms, and the bit.
    #[must_use]
    pub const fn watchdog(self) -> (usize, u64) {
        let index = self.0 / HEADER_SIZE;
        (WATCHDOGS + 8 * (index / 64), 1 << (index % 64))
    }
}

/// Fields of a header, each read once: another process may change it at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Protocol of the data segment.
    pub protocol: u32,
    /// Number of the data segment.
    pub segment: u32,
    /// Offset of the chunk.
    pub offset: u32,
    /// Length of the chunk.
    pub length: u64,
}

impl ChunkHeader {
    /// Header of a chunk of files in `/dev/shm`.
    #[must_use]
    pub const fn new(segment: u32, offset: u32, length: u64) -> Self {
        Self { protocol: POSIX, segment, offset, length }
    }

    /// The payload in a data segment of `size` bytes; `None` if it is not inside.
    #[must_use]
    pub fn range(&self, description: &NamedDescription, size: usize) -> Option<Range<usize>> {
        let len = usize::try_from(description.len).ok()?;
        let start = usize::try_from(self.offset).ok()?;
        let chunk = start.checked_add(usize::try_from(self.length).ok()?)?;
        let end = start.checked_add(len)?;
        (self.protocol == POSIX && end <= chunk && chunk <= size).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHALLENGE: u64 = 0x680c_3806_4648_3c34;

    fn unhex(text: &str) -> Bytes {
        crate::zenoh::wire::testing::unhex(text)
    }

    /// Access to one segment of another side.
    struct One {
        challenge: u64,
        number: u32,
        segment: Vec<u8>,
    }

    impl HandshakeSegments for One {
        fn own(&self) -> Option<OwnSegment> {
            Some(OwnSegment { number: 1_777_087_424, challenge: self.challenge })
        }

        fn read(&self, number: u32) -> Option<Vec<u8>> {
            (number == self.number).then(|| self.segment.clone())
        }
    }

    fn offer(challenge: u64, number: u32, segment: Vec<u8>) -> NamedOffer {
        NamedOffer(Arc::new(One { challenge, number, segment }))
    }

    fn first(challenge: u64) -> Vec<u8> {
        [1, !challenge, 1, 0].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    fn second(challenge: u64) -> Vec<u8> {
        let mut segment = HandshakeSegment::encode(challenge);
        segment.resize(HANDSHAKE_SIZE, 0);
        segment
    }

    #[test]
    fn both_layouts_are_read() {
        let found = |bytes: &[u8]| HandshakeSegment::decode(bytes);
        let of = |generation| Some(HandshakeSegment { generation, challenge: 7 });
        assert_eq!(found(&first(7)), of(NamedGeneration::First));
        assert_eq!(found(&second(7)), of(NamedGeneration::Second));
        let several: Vec<u8> = [2, !7_u64, 1, 5, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(found(&several), of(NamedGeneration::First));
    }

    #[test]
    fn unknown_layouts_are_none() {
        let change = |at: usize, value: u64, mut segment: Vec<u8>| {
            segment[8 * at..8 * at + 8].copy_from_slice(&value.to_ne_bytes());
            segment
        };
        for count in [0, 2, 257, 1 << 63, u64::MAX] {
            assert_eq!(HandshakeSegment::decode(&change(0, count, first(7))), None, "{count}");
        }
        for count in [0, 257, 1 << 63] {
            assert_eq!(HandshakeSegment::decode(&change(0, count, second(7))), None, "{count}");
        }
        for version in [0, 1, 3, 99] {
            assert_eq!(HandshakeSegment::decode(&change(2, version, second(7))), None, "{version}");
        }
        assert_eq!(HandshakeSegment::decode(&change(3, 1, first(7))), None, "no protocol that is read");
        for len in [0, 8, 24, 31, 33, 4096, 12_287, 12_289] {
            let mut segment = second(7);
            segment.resize(len, 0);
            assert_eq!(HandshakeSegment::decode(&segment), None, "{len}");
        }
    }

    /// The bytes that two nodes of 1.10.2 have exchanged.
    #[test]
    fn the_extensions_of_a_real_handshake() {
        assert_eq!(offer(0, 0, Vec::new()).syn(), Some(unhex("c0e7b0cf06")));
        let ours = offer(CHALLENGE, 177_734_990, second(CHALLENGE));
        let ack = unhex("b4f8a0b2e4808e8668 ce8ae054");
        let agreed = ours.acknowledged(&ack).unwrap();
        assert_eq!(agreed.terms.segment, 177_734_990);
        assert_eq!(agreed.init_ack(), [&ack[..9], &unhex("c0e7b0cf06")].concat());
        let syn = OpenShm::Segments(unhex("b4f8a0b2e4808e8668 01 0001020304050607"));
        let counters = Some([0, 1, 2, 3, 4, 5, 6, 7]);
        let terms = NamedTerms { counters, ..agreed.terms };
        assert_eq!(agreed.confirm(Some(&syn)), Ok(Some(terms)));
        let ack = OpenShm::Segments(unhex("01 0001020304050607"));
        assert_eq!(agreed.conclude(Some(&ack)), Ok(Some(terms)));
        assert_eq!(terms.counter_offset(Priority::Data), Some(1048 + 20));
        assert_eq!(agreed.terms.counter_offset(Priority::Data), None);
    }

    #[test]
    fn each_pair_of_generations_agrees() {
        for theirs in [first(9), second(9)] {
            let ours = offer(5, 3, theirs.clone());
            let generation = HandshakeSegment::decode(&theirs).unwrap().generation;
            // As acceptor.
            let agreed = ours.accept(&unhex("03")).unwrap();
            assert_eq!((agreed.terms.generation, agreed.theirs), (generation, 9));
            let (proof, ack) = match generation {
                NamedGeneration::First => (OpenShm::Challenge(!5), OpenShm::Challenge(1)),
                NamedGeneration::Second => {
                    (OpenShm::Segments(unhex("05 00")), OpenShm::Segments(unhex("00")))
                }
            };
            let terms = agreed.confirm(Some(&proof)).unwrap().unwrap();
            assert_eq!(open_ack(&terms), ack);
            // As opener.
            let mut echo = Vec::new();
            put_vle(&mut echo, if generation == NamedGeneration::First { !5 } else { 5 });
            put_vle(&mut echo, 3);
            let agreed = ours.acknowledged(&echo.into()).unwrap();
            let expected = match generation {
                NamedGeneration::First => OpenShm::Challenge(9),
                NamedGeneration::Second => OpenShm::Segments(unhex("09 00")),
            };
            assert_eq!(agreed.open_syn(), expected);
            assert_eq!(agreed.conclude(Some(&ack)), Ok(Some(terms)));
        }
    }

    #[test]
    fn what_does_not_fit_is_off_or_an_error() {
        let ours = offer(5, 3, second(9));
        for syn in ["", "04", "03 00", "ffffffff7f"] {
            assert_eq!(ours.accept(&unhex(syn)), None, "{syn}");
        }
        // The echo says the first generation, and the segment the second; then another echo.
        let mut echo = Vec::new();
        put_vle(&mut echo, !5);
        put_vle(&mut echo, 3);
        assert_eq!(ours.acknowledged(&echo.into()), None);
        assert_eq!(ours.acknowledged(&unhex("06 03")), None);
        let agreed = ours.accept(&unhex("03")).unwrap();
        assert_eq!(agreed.confirm(None), Ok(None));
        assert_eq!(agreed.confirm(Some(&OpenShm::Challenge(!5))), Ok(None));
        let opened = |hex: &str| agreed.confirm(Some(&OpenShm::Segments(unhex(hex))));
        assert_eq!(opened("06 00"), Err(NamedError::Challenge));
        for counters in ["", "00 00", "01 00010203040506", "01 0001020304050606", "01 000102030405 06 fa15"] {
            assert_eq!(opened(&format!("05 {counters}")), Err(NamedError::Counters), "{counters}");
            assert!(agreed.conclude(Some(&OpenShm::Segments(unhex(counters)))).is_err(), "{counters}");
        }
        assert_eq!(agreed.conclude(None), Ok(None));
        assert_eq!(agreed.conclude(Some(&OpenShm::Challenge(1))), Ok(None));
    }

    #[test]
    fn places_of_headers() {
        assert_eq!(HeaderPlace::of(HEADERS), None);
        let last = HeaderPlace::of(HEADERS - 1).unwrap();
        assert_eq!((last.length() + 8, last.watchdog()), (1_048_576, (1_048_576 + 8 * 511, 1 << 63)));
        let second = HeaderPlace::of(1).unwrap();
        assert_eq!((second.references(), second.invalidated(), second.generation()), (32, 36, 40));
        assert_eq!((second.protocol(), second.segment(), second.offset()), (44, 48, 52));
    }

    proptest! {
        /// No header leads outside of the data segment.
        #[test]
        fn ranges_are_inside(protocol in 0..2_u32, offset: u32, length: u64, len: u64, size in 0..1_000_000_usize) {
            let header = ChunkHeader { protocol, segment: 0, offset: offset % 2_000_000, length: length % 2_000_000 };
            let description = NamedDescription { len: len % 2_000_000, metadata: 0, index: 0, generation: 0 };
            if let Some(range) = header.range(&description, size) {
                prop_assert!(protocol == 0 && range.end <= size && range.len() as u64 == description.len);
                prop_assert!(description.len <= header.length);
            }
            let header = ChunkHeader { protocol: 0, segment: 0, offset, length };
            let found = header.range(&NamedDescription { len, ..description }, size);
            prop_assert!(found.is_none_or(|range| range.end <= size));
        }
    }
}
