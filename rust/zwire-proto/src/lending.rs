//! Lending: payloads stay in memory of their sender, which a receiver on the same host reads (design note of
//! 2026-11-27, shared memory).
//!
//! Both sides offer it in their handshake. Once the link is up, its opener connects to the door of its acceptor: a second
//! connection, the channel, which passes descriptors. The acceptor then knows by [`ChannelMessage::Hello`] which link
//! the channel belongs to, and the opener by [`ChannelMessage::Welcome`] that it has reached the other end.
//!
//! ```text
//!  Lender                                            Borrower
//!    | Ring, with the file for returned loans           |
//!    |------------------------------------------------->|
//!    | Segment, with its file                           |
//!    |------------------------------------------------->|
//!    |                                          Mapped  |
//!    |<-------------------------------------------------|
//!    | messages of the link with loans of this segment  |
//!    | Retired, when the lender has given it up         |
//!    |------------------------------------------------->|
//! ```
//!
//! Each side may be lender and borrower. A side half-closes the channel when the link has ended and it holds no loan of
//! the other one; the other one then ends all loans. A process that dies does the same.

use crate::{
    buf::{Reader, Sink, put_vle, vle_len},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;
use core::{fmt, hash::Hash};
use hashbrown::{HashMap, hash_map::Entry};

/// Version of the messages and descriptions; nodes with different ones do not lend.
const LENDING_VERSION: u8 = 1;

/// Most loans of a link at the same time, the number of words of its ring: those of 64 KiB are a pool of 64 MiB.
pub const MAX_LOANS: usize = 1024;

/// Most segments of a link: a pool of 4 GiB in the smallest segments.
pub const MAX_SEGMENTS: usize = 1024;

/// A random value that only both ends of a link know, or the name of a door.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelSecret(pub [u8; Self::LEN]);

impl ChannelSecret {
    const LEN: usize = 16;
}

impl fmt::Debug for ChannelSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelSecret(..)")
    }
}

/// Offer of one side, in its handshake: an extension of INIT (Zenoh), a property of its metadata (ZMTP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingOffer {
    /// Proves that a node has received this offer.
    pub secret: ChannelSecret,
    /// Name of the door; that of an acceptor.
    pub door: Option<ChannelSecret>,
}

impl LendingOffer {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![LENDING_VERSION];
        out.extend(self.secret.0);
        out.extend(self.door.iter().flat_map(|door| door.0));
        out.into()
    }

    /// The offer that the other side has sent; `None` for that of another version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let door = match rest {
            [] => None,
            rest => Some(ChannelSecret(rest.try_into().ok()?)),
        };
        (*version == LENDING_VERSION).then_some(Self { secret: ChannelSecret(*secret), door })
    }
}

/// Agreement of both sides of a link to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingTerms {
    /// Secret of this side.
    pub ours: ChannelSecret,
    /// Secret of the other side.
    pub theirs: ChannelSecret,
    /// Door of the acceptor, if this side is the opener.
    pub door: Option<ChannelSecret>,
}

impl LendingTerms {
    /// Terms of both offers. An opener needs the door of the other side.
    pub(crate) fn of(ours: Option<LendingOffer>, theirs: Option<&Bytes>) -> Option<Self> {
        let (ours, theirs) = (ours?, LendingOffer::decode(theirs?)?);
        let is_complete = ours.door.is_some() != theirs.door.is_some();
        is_complete.then_some(Self { ours: ours.secret, theirs: theirs.secret, door: theirs.door })
    }
}

/// Message of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelMessage {
    /// First message of the side that connects, with the secret of the other one.
    Hello(ChannelSecret),
    /// Answer to it, with the secret of the side that connects.
    Welcome(ChannelSecret),
    /// The file that takes the numbers of returned loans comes with this message.
    Ring {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The file of a segment comes with this message, and the channels by which it has come before.
    Segment {
        /// Number of the segment.
        segment: u32,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The borrower reads the segment.
    Mapped {
        /// Number of the segment.
        segment: u32,
    },
    /// The borrower cannot read the segment, and wants no loans of it.
    Refused {
        /// Number of the segment.
        segment: u32,
    },
    /// The lender has given the segment up; no loan of it is left.
    Retired {
        /// Number of the segment.
        segment: u32,
    },
}

impl ChannelMessage {
    /// Whether so many files may come with the message. With that of a segment come the channels of those who have lent
    /// it before, which its borrower keeps open as long as it maps the segment: as long as one of them is open, what came
    /// over it stays on loan, also if the node between ends.
    #[must_use]
    pub const fn takes_files(&self, count: usize) -> bool {
        match self {
            Self::Ring { .. } => count == 1,
            Self::Segment { .. } => count >= 1,
            _ => count == 0,
        }
    }

    /// The bytes: an id, then the fields as VLE integers, or the secret.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + ChannelSecret::LEN);
        let mut fields = |id: u8, fields: &[u64]| {
            out.push(id);
            fields.iter().for_each(|field| put_vle(&mut out, *field));
        };
        match *self {
            Self::Hello(_) => fields(1, &[]),
            Self::Welcome(_) => fields(2, &[]),
            Self::Ring { size } => fields(3, &[size]),
            Self::Segment { segment, size } => fields(4, &[segment.into(), size]),
            Self::Mapped { segment } => fields(5, &[segment.into()]),
            Self::Refused { segment } => fields(6, &[segment.into()]),
            Self::Retired { segment } => fields(7, &[segment.into()]),
        }
        if let Self::Hello(secret) | Self::Welcome(secret) = self {
            out.extend(secret.0);
        }
        out
    }

    /// The message in `bytes`, which it must fill.
    ///
    /// # Errors
    /// An unknown id, or other fields than those of the message.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let message = match r.u8("channel message")? {
            1 => Self::Hello(ChannelSecret(r.array("HELLO secret")?)),
            2 => Self::Welcome(ChannelSecret(r.array("WELCOME secret")?)),
            3 => Self::Ring { size: r.vle("RING size")? },
            4 => Self::Segment { segment: r.z32("SEGMENT number")?, size: r.vle("SEGMENT size")? },
            5 => Self::Mapped { segment: r.z32("MAPPED number")? },
            6 => Self::Refused { segment: r.z32("REFUSED number")? },
            7 => Self::Retired { segment: r.z32("RETIRED number")? },
            id => return Err(r.error("channel message", 0, DecodeErrorKind::UnknownId { id })),
        };
        r.finish("channel message")?;
        Ok(message)
    }
}

/// Bytes in a segment of the sender, lent to the receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoanDescription {
    /// Number of the loan, by which the receiver returns it.
    pub loan: u32,
    /// Number of the segment, by which the sender has announced it.
    pub segment: u32,
    /// Offset of the first byte in the segment.
    pub offset: u64,
    /// Number of bytes, not 0.
    pub len: u64,
}

impl LoanDescription {
    /// Length of the longest one: two numbers of 32 bits and two of 64.
    pub(crate) const LONGEST: usize = 5 + 5 + 9 + 9;

    const fn fields(&self) -> [u64; 4] {
        [self.loan as u64, self.segment as u64, self.offset, self.len]
    }

    /// Number of bytes that [`Self::encode`] writes.
    pub(crate) fn encoded_len(&self) -> usize {
        self.fields().map(vle_len).iter().sum()
    }

    /// Writes the description: each field as a VLE integer.
    pub(crate) fn encode(&self, sink: &mut impl Sink) {
        self.fields().iter().for_each(|field| put_vle(sink, *field));
    }

    /// Reads a description to its end.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let loan = r.z32("loan number")?;
        let segment = r.z32("loan segment")?;
        let offset = r.vle("loan offset")?;
        let at = r.offset();
        let len = r.vle("loan length")?;
        if len == 0 {
            return Err(r.error("loan length", at, DecodeErrorKind::Illegal { value: 0 }));
        }
        r.finish("loan")?;
        Ok(Self { loan, segment, offset, len })
    }
}

/// Whether loans of a segment may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Under this number.
    Mapped(u32),
    /// The borrower has not answered yet, or has refused it.
    Unusable,
    /// It has to be announced under this number.
    New(u32),
    /// There are too many segments.
    TooMany,
}

/// Segments and loans of a lender on one link. `K` identifies a segment, `S` is kept with it, and `T` with a loan.
#[derive(Debug)]
pub struct Lender<K, S, T> {
    segments: HashMap<K, Announced<S>>,
    next: u32,
    loans: Vec<Option<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Announced<S> {
    number: u32,
    mapped: bool,
    kept: S,
}

impl<K, S, T> Default for Lender<K, S, T> {
    fn default() -> Self {
        Self { segments: HashMap::new(), next: 0, loans: Vec::new(), free: Vec::new() }
    }
}

impl<K: Eq + Hash, S, T> Lender<K, S, T> {
    /// State of a segment. A new one counts as announced from now on, with `kept` beside it.
    pub fn segment(&mut self, key: K, kept: impl FnOnce() -> S) -> SegmentState {
        let many = self.segments.len() >= MAX_SEGMENTS;
        match self.segments.entry(key) {
            Entry::Occupied(known) if known.get().mapped => SegmentState::Mapped(known.get().number),
            Entry::Occupied(_) => SegmentState::Unusable,
            Entry::Vacant(_) if many => SegmentState::TooMany,
            Entry::Vacant(place) => {
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                place.insert(Announced { number, mapped: false, kept: kept() });
                SegmentState::New(number)
            }
        }
    }

    /// Notes that the borrower reads a segment.
    pub fn handle_mapped(&mut self, number: u32) {
        if let Some(known) = self.segments.values_mut().find(|known| known.number == number) {
            known.mapped = true;
        }
    }

    /// Takes back the announcement of a segment, which did not reach the borrower.
    pub fn forget(&mut self, key: &K) {
        self.segments.remove(key);
    }

    /// Removes segments that `is_gone` selects. Returns their numbers, which the borrower is to be told.
    pub fn retire(&mut self, mut is_gone: impl FnMut(&S) -> bool) -> Vec<u32> {
        let mut gone = Vec::new();
        self.segments.retain(|_, known| {
            let retired = is_gone(&known.kept);
            gone.extend(retired.then_some(known.number));
            !retired
        });
        gone
    }

    /// Begins a loan, which keeps `held`. `None` if there are [`MAX_LOANS`].
    pub fn lend(&mut self, held: T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.loans[number as usize] = Some(held);
            return Some(number);
        }
        let number = u32::try_from(self.loans.len()).ok().filter(|number| (*number as usize) < MAX_LOANS)?;
        self.loans.push(Some(held));
        Some(number)
    }

    /// Ends a loan. A number that is not on loan, which a borrower may return as well, has no effect.
    pub fn end(&mut self, number: u32) -> Option<T> {
        let held = self.loans.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(held)
    }

    /// Ends all loans and forgets all segments.
    pub fn end_all(&mut self) -> Vec<T> {
        self.free.clear();
        self.segments.clear();
        self.loans.drain(..).flatten().collect()
    }

    /// Number of loans.
    #[must_use]
    pub fn loans(&self) -> usize {
        self.loans.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SECRET: ChannelSecret = ChannelSecret([7; 16]);
    const DOOR: ChannelSecret = ChannelSecret([9; 16]);

    #[test]
    fn offers_survive_the_wire_and_other_versions_are_none() {
        for door in [None, Some(DOOR)] {
            let offer = LendingOffer { secret: SECRET, door };
            let bytes = offer.encode();
            assert_eq!(LendingOffer::decode(&bytes), Some(offer));
            for cut in 0..bytes.len() {
                let found = LendingOffer::decode(&bytes[..cut]);
                assert!(found.is_none() || cut == 17, "cut at {cut}: {found:?}");
            }
            let mut other = bytes.to_vec();
            other[0] = 2;
            assert_eq!(LendingOffer::decode(&other), None);
            other[0] = 1;
            other.push(0);
            assert_eq!(LendingOffer::decode(&other), None);
        }
    }

    #[test]
    fn one_side_has_the_door() {
        let (opener, acceptor) = (
            LendingOffer { secret: SECRET, door: None },
            LendingOffer { secret: ChannelSecret([8; 16]), door: Some(DOOR) },
        );
        let terms = LendingTerms::of(Some(opener), Some(&acceptor.encode())).unwrap();
        assert_eq!(terms, LendingTerms { ours: SECRET, theirs: acceptor.secret, door: Some(DOOR) });
        let terms = LendingTerms::of(Some(acceptor), Some(&opener.encode())).unwrap();
        assert_eq!(terms, LendingTerms { ours: acceptor.secret, theirs: SECRET, door: None });
        for (ours, theirs) in [
            (Some(opener), Some(opener)),
            (Some(acceptor), Some(acceptor)),
            (None, Some(acceptor)),
            (Some(opener), None),
        ] {
            assert_eq!(LendingTerms::of(ours, theirs.map(|offer| offer.encode()).as_ref()), None);
        }
    }

    fn messages() -> impl Strategy<Value = ChannelMessage> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(|secret| ChannelMessage::Hello(ChannelSecret(secret))),
            any::<[u8; 16]>().prop_map(|secret| ChannelMessage::Welcome(ChannelSecret(secret))),
            any::<u64>().prop_map(|size| ChannelMessage::Ring { size }),
            any::<(u32, u64)>().prop_map(|(segment, size)| ChannelMessage::Segment { segment, size }),
            any::<u32>().prop_map(|segment| ChannelMessage::Mapped { segment }),
            any::<u32>().prop_map(|segment| ChannelMessage::Refused { segment }),
            any::<u32>().prop_map(|segment| ChannelMessage::Retired { segment }),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_the_wire(message in messages()) {
            let bytes = Bytes::from(message.encode());
            prop_assert_eq!(ChannelMessage::decode(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                prop_assert!(ChannelMessage::decode(&bytes.slice(..cut)).is_err());
            }
            let longer = [&bytes[..], &[0]].concat().into();
            prop_assert!(ChannelMessage::decode(&longer).is_err());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            if let Ok(message) = ChannelMessage::decode(&bytes.into()) {
                prop_assert_eq!(ChannelMessage::decode(&message.encode().into()), Ok(message));
            }
        }

        /// No number is lent twice at the same time, whatever a borrower returns.
        #[test]
        fn numbers_are_lent_once(steps in prop::collection::vec(prop::option::of(0..40_u32), 0..200)) {
            let mut lender = Lender::<u8, (), usize>::default();
            let mut model = BTreeMap::new();
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    None => {
                        let number = lender.lend(at).unwrap();
                        prop_assert_eq!(model.insert(number, at), None);
                    }
                    Some(number) => prop_assert_eq!(lender.end(number), model.remove(&number)),
                }
                prop_assert_eq!(lender.loans(), model.len());
            }
            let mut left = lender.end_all();
            left.sort_unstable();
            let mut expected: Vec<_> = model.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn loans_and_segments_have_bounds() {
        let mut lender = Lender::<usize, bool, usize>::default();
        for number in 0..MAX_LOANS {
            assert_eq!(lender.lend(number), Some(number as u32));
        }
        assert_eq!(lender.lend(0), None);
        assert_eq!(lender.end(7), Some(7));
        assert_eq!(lender.lend(0), Some(7));
        for key in 0..MAX_SEGMENTS {
            assert_eq!(lender.segment(key, || key.is_multiple_of(2)), SegmentState::New(key as u32));
        }
        assert_eq!(lender.segment(MAX_SEGMENTS, || true), SegmentState::TooMany);
        assert_eq!(lender.segment(3, || true), SegmentState::Unusable);
        lender.handle_mapped(3);
        lender.handle_mapped(4_000_000);
        assert_eq!(lender.segment(3, || true), SegmentState::Mapped(3));
        assert_eq!(lender.retire(|even| *even).len(), MAX_SEGMENTS / 2);
        assert_eq!(lender.segment(2, || true), SegmentState::New(MAX_SEGMENTS as u32));
        assert_eq!(lender.segment(3, || true), SegmentState::Mapped(3));
    }
}
