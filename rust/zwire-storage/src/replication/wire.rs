//! Octets of replication: bincode 1 with its defaults, as zenohd writes it (`zenoh-services` 4.8).
//!
//! Numbers have a fixed size and are little endian. A length is a `u64`, an option a `u8`, the number of a variant a
//! `u32`; a map or a set is a length and its entries. zenohd ignores octets behind a message. A reply with a value uses
//! that for the attachment of its publisher, for which zenohd has no place: an option of a length and octets.
//!
//! A length is compared with the octets that are left before anything is allocated.

use crate::{
    record::{self, Flaw},
    replication::ReplicaSettings,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use zwire_proto::zenoh::Timestamp;

/// Largest message that is read: replies of this crate are far smaller, those of zenohd grow with its storage.
pub const MAX_MESSAGE: usize = 16 << 20;

/// Fingerprints by interval.
pub type Sums = BTreeMap<u64, u64>;

/// Fingerprints by interval and part.
pub type PartSums = BTreeMap<u64, Sums>;

/// State of a replica in fingerprints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Fingerprint of the settings.
    pub settings: u64,
    /// Fingerprint of all events before the warm intervals.
    pub cold: u64,
    /// Fingerprints of the warm intervals.
    pub warm: Sums,
    /// Fingerprints of the parts of the hot intervals.
    pub hot: PartSums,
}

/// Parts of a digest that differ from the state here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Whether the events before the warm intervals differ.
    pub cold: bool,
    /// Warm intervals.
    pub warm: BTreeSet<u64>,
    /// Parts of hot intervals.
    pub hot: BTreeMap<u64, BTreeSet<u64>>,
}

impl Difference {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.cold && self.warm.is_empty() && self.hot.is_empty()
    }
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A key has a value.
    Put,
    /// A key was deleted.
    Delete,
    /// All keys of an expression got a value.
    WildcardPut(Box<str>),
    /// All keys of an expression were deleted.
    WildcardDelete(Box<str>),
}

/// An event without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMeta {
    /// Key in the volume; the full key expression of a wildcard update. Empty: the prefix of the storage itself.
    pub key: Box<str>,
    /// Time of the event.
    pub stamp: Timestamp,
    /// Time of the last update of the key itself.
    pub own: Option<Timestamp>,
    /// What happened.
    pub action: Action,
}

/// Attachment of a query to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignQuery {
    /// Asks which replicas there are.
    Discovery,
    /// Asks for every event.
    All,
    /// Asks for the next level of what differs.
    Diff(Difference),
    /// Asks for the fingerprints of the parts of intervals.
    Intervals(BTreeSet<u64>),
    /// Asks for the events in parts of intervals.
    SubIntervals(BTreeMap<u64, BTreeSet<u64>>),
    /// Asks for the values of events.
    Events(Vec<EventMeta>),
}

/// Attachment of a reply of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignReply {
    /// Id of the replica.
    Discovery(Box<str>),
    /// Fingerprints of intervals.
    Intervals(Sums),
    /// Fingerprints of parts of intervals.
    SubIntervals(PartSums),
    /// Events.
    EventsMetadata(Vec<EventMeta>),
    /// An event, whose value is the payload of the reply; and the attachment of the value.
    Retrieval(EventMeta, Option<Bytes>),
}

struct Out(Vec<u8>);

impl Out {
    fn tag(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn octets(&mut self, octets: &[u8]) {
        self.number(octets.len() as u64);
        self.0.extend_from_slice(octets);
    }

    fn sums(&mut self, sums: &Sums) {
        self.number(sums.len() as u64);
        for (at, sum) in sums {
            self.number(*at);
            self.number(*sum);
        }
    }

    fn part_sums(&mut self, sums: &PartSums) {
        self.number(sums.len() as u64);
        for (at, parts) in sums {
            self.number(*at);
            self.sums(parts);
        }
    }

    fn set(&mut self, set: &BTreeSet<u64>) {
        self.number(set.len() as u64);
        set.iter().for_each(|number| self.number(*number));
    }

    fn sets(&mut self, sets: &BTreeMap<u64, BTreeSet<u64>>) {
        self.number(sets.len() as u64);
        for (at, set) in sets {
            self.number(*at);
            self.set(set);
        }
    }

    fn event(&mut self, event: &EventMeta) {
        if event.key.is_empty() {
            self.0.push(0);
        } else {
            self.0.push(1);
            self.octets(event.key.as_bytes());
        }
        record::write_stamp(&mut self.0, event.stamp);
        self.0.push(u8::from(event.own.is_some()));
        if let Some(own) = event.own {
            record::write_stamp(&mut self.0, own);
        }
        match &event.action {
            Action::Put => self.tag(0),
            Action::Delete => self.tag(1),
            Action::WildcardPut(key) => {
                self.tag(2);
                self.octets(key.as_bytes());
            }
            Action::WildcardDelete(key) => {
                self.tag(3);
                self.octets(key.as_bytes());
            }
        }
    }

    fn events(&mut self, events: &[EventMeta]) {
        self.number(events.len() as u64);
        events.iter().for_each(|event| self.event(event));
    }
}

/// Least octets of an event: no key, a time, no other time, an action.
const EVENT: usize = 1 + record::STAMP + 1 + 4;

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn new(octets: &'a [u8]) -> Result<Self, Flaw> {
        if octets.len() > MAX_MESSAGE {
            return Err("it is larger than 16 MiB");
        }
        Ok(Self(octets))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it is cut")?;
        self.0 = rest;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, Flaw> {
        Ok(self.take(1)?[0])
    }

    fn flag(&mut self) -> Result<bool, Flaw> {
        match self.octet()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a boolean is neither 0 nor 1"),
        }
    }

    fn tag(&mut self) -> Result<u32, Flaw> {
        let octets = self.take(4)?;
        octets.try_into().map(u32::from_le_bytes).map_err(|_| "it is cut")
    }

    fn number(&mut self) -> Result<u64, Flaw> {
        let octets = self.take(8)?;
        octets.try_into().map(u64::from_le_bytes).map_err(|_| "it is cut")
    }

    /// Number of entries of at least that size, which are there.
    fn len(&mut self, least: usize) -> Result<usize, Flaw> {
        let len = self.number()?;
        let len = usize::try_from(len).ok().filter(|len| *len <= self.0.len() / least);
        len.ok_or("a length exceeds the message")
    }

    fn octets(&mut self) -> Result<&'a [u8], Flaw> {
        let len = self.len(1)?;
        self.take(len)
    }

    fn text(&mut self) -> Result<Box<str>, Flaw> {
        let octets = self.octets()?;
        core::str::from_utf8(octets).map(Into::into).map_err(|_| "a text is no UTF-8")
    }

    fn stamp(&mut self) -> Result<Timestamp, Flaw> {
        record::read_stamp(self.take(record::STAMP)?)
    }

    fn sums(&mut self) -> Result<Sums, Flaw> {
        (0..self.len(16)?).map(|_| Ok((self.number()?, self.number()?))).collect()
    }

    fn part_sums(&mut self) -> Result<PartSums, Flaw> {
        (0..self.len(16)?).map(|_| Ok((self.number()?, self.sums()?))).collect()
    }

    fn set(&mut self) -> Result<BTreeSet<u64>, Flaw> {
        (0..self.len(8)?).map(|_| self.number()).collect()
    }

    fn sets(&mut self) -> Result<BTreeMap<u64, BTreeSet<u64>>, Flaw> {
        (0..self.len(16)?).map(|_| Ok((self.number()?, self.set()?))).collect()
    }

    fn event(&mut self) -> Result<EventMeta, Flaw> {
        let key = if self.flag()? { self.text()? } else { Box::default() };
        let stamp = self.stamp()?;
        let own = if self.flag()? { Some(self.stamp()?) } else { None };
        let action = match self.tag()? {
            0 => Action::Put,
            1 => Action::Delete,
            2 => Action::WildcardPut(self.text()?),
            3 => Action::WildcardDelete(self.text()?),
            _ => return Err("its action is unknown"),
        };
        Ok(EventMeta { key, stamp, own, action })
    }

    fn events(&mut self) -> Result<Vec<EventMeta>, Flaw> {
        (0..self.len(EVENT)?).map(|_| self.event()).collect()
    }
}

impl Digest {
    /// Octets of the digest.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::new());
        out.number(self.settings);
        out.number(self.cold);
        out.sums(&self.warm);
        out.part_sums(&self.hot);
        out.0
    }

    /// Reads a digest.
    ///
    /// # Errors
    /// The octets are none.
    pub fn decode(octets: &[u8]) -> Result<Self, Flaw> {
        let mut input = In::new(octets)?;
        Ok(Self {
            settings: input.number()?,
            cold: input.number()?,
            warm: input.sums()?,
            hot: input.part_sums()?,
        })
    }

    /// Reads a digest of a replica with these settings, which bound its size.
    ///
    /// # Errors
    /// The octets are none, or have more fingerprints than the settings allow.
    pub fn decode_bounded(octets: &[u8], settings: &ReplicaSettings) -> Result<Self, Flaw> {
        let parts = settings.most_parts();
        let of_hot = parts.saturating_add(1).saturating_mul(settings.hot);
        // Both fingerprints at the front, two lengths, and 16 octets for each entry.
        let most = of_hot.saturating_add(settings.warm).saturating_mul(16).saturating_add(32);
        if octets.len() as u64 > most {
            return Err("its digest is larger than its settings allow");
        }
        let digest = Self::decode(octets)?;
        if digest.warm.len() as u64 > settings.warm {
            return Err("its digest has more warm intervals than its settings allow");
        }
        if digest.hot.len() as u64 > settings.hot {
            return Err("its digest has more hot intervals than its settings allow");
        }
        if digest.hot.values().any(|sums| sums.len() as u64 > parts) {
            return Err("its digest has more parts of an interval than its settings allow");
        }
        Ok(digest)
    }
}

impl AlignQuery {
    /// Octets of the query.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::new());
        match self {
            Self::Discovery => out.tag(0),
            Self::All => out.tag(1),
            Self::Diff(difference) => {
                out.tag(2);
                out.0.push(u8::from(difference.cold));
                out.set(&difference.warm);
                out.sets(&difference.hot);
            }
            Self::Intervals(intervals) => {
                out.tag(3);
                out.set(intervals);
            }
            Self::SubIntervals(parts) => {
                out.tag(4);
                out.sets(parts);
            }
            Self::Events(events) => {
                out.tag(5);
                out.events(events);
            }
        }
        out.0
    }

    /// Reads a query.
    ///
    /// # Errors
    /// The octets are none.
    pub fn decode(octets: &[u8]) -> Result<Self, Flaw> {
        let mut input = In::new(octets)?;
        Ok(match input.tag()? {
            0 => Self::Discovery,
            1 => Self::All,
            2 => Self::Diff(Difference { cold: input.flag()?, warm: input.set()?, hot: input.sets()? }),
            3 => Self::Intervals(input.set()?),
            4 => Self::SubIntervals(input.sets()?),
            5 => Self::Events(input.events()?),
            _ => return Err("the query is of an unknown kind"),
        })
    }
}

impl AlignReply {
    /// Octets of the reply.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::new());
        match self {
            Self::Discovery(zid) => {
                out.tag(0);
                out.octets(zid.as_bytes());
            }
            Self::Intervals(sums) => {
                out.tag(1);
                out.sums(sums);
            }
            Self::SubIntervals(sums) => {
                out.tag(2);
                out.part_sums(sums);
            }
            Self::EventsMetadata(events) => {
                out.tag(3);
                out.events(events);
            }
            Self::Retrieval(event, attachment) => {
                out.tag(4);
                out.event(event);
                if let Some(attachment) = attachment {
                    out.0.push(1);
                    out.octets(attachment);
                }
            }
        }
        out.0
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// The octets are none.
    pub fn decode(octets: &[u8]) -> Result<Self, Flaw> {
        let mut input = In::new(octets)?;
        Ok(match input.tag()? {
            0 => Self::Discovery(input.text()?),
            1 => Self::Intervals(input.sums()?),
            2 => Self::SubIntervals(input.part_sums()?),
            3 => Self::EventsMetadata(input.events()?),
            4 => {
                let event = input.event()?;
                let given = !input.0.is_empty() && input.flag()?;
                let attachment = if given { Some(Bytes::copy_from_slice(input.octets()?)) } else { None };
                Self::Retrieval(event, attachment)
            }
            _ => return Err("the reply is of an unknown kind"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zwire_proto::zenoh::{Ntp64, ZenohId};

    const T: &str = "0c5a48dcf6cb826633000000000000000000000000000000";

    fn stamp() -> Timestamp {
        Timestamp { time: Ntp64(7_386_690_599_959_157_260), id: ZenohId::new(0x33).unwrap() }
    }

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    fn put() -> EventMeta {
        EventMeta { key: "a".into(), stamp: stamp(), own: Some(stamp()), action: Action::Put }
    }

    fn put_all() -> EventMeta {
        let action = Action::WildcardPut("test/**".into());
        EventMeta { key: "test/**".into(), stamp: stamp(), own: None, action }
    }

    /// The vectors of `zenoh-services` 4.9.
    #[test]
    fn octets_are_those_of_the_reference() {
        let of_put = format!("01010000000000000061{T}01{T}00000000");
        let of_all = format!("010700000000000000746573742f2a2a{T}00020000000700000000000000746573742f2a2a");
        let difference = Difference { cold: true, warm: [5].into(), ..Difference::default() };
        for (query, octets) in [
            (AlignQuery::Discovery, "00000000".to_owned()),
            (AlignQuery::All, "01000000".to_owned()),
            (
                AlignQuery::Diff(difference),
                "0200000001010000000000000005000000000000000000000000000000".to_owned(),
            ),
            (AlignQuery::Events(vec![put()]), format!("050000000100000000000000{of_put}")),
            (AlignQuery::Events(vec![put_all()]), format!("050000000100000000000000{of_all}")),
        ] {
            assert_eq!(hex(&query.encode()), octets);
            assert_eq!(AlignQuery::decode(&query.encode()), Ok(query));
        }
        for (reply, octets) in [
            (AlignReply::Discovery("33".into()), "0000000002000000000000003333".to_owned()),
            (AlignReply::Retrieval(put(), None), format!("04000000{of_put}")),
        ] {
            assert_eq!(hex(&reply.encode()), octets);
            assert_eq!(AlignReply::decode(&reply.encode()), Ok(reply));
        }
        let hot = [(172, [(3, 0x1122_3344_5566_7788)].into())].into();
        let digest = Digest { settings: 5_452_541_923_675_143_030, hot, ..Digest::default() };
        let octets = "76fb94a3fd51ab4b000000000000000000000000000000000100000000000000ac00000000000000\
                      010000000000000003000000000000008877665544332211";
        assert_eq!(hex(&digest.encode()), octets);
        assert_eq!(Digest::decode(&digest.encode()), Ok(digest));
    }

    #[test]
    fn an_attachment_travels_behind_the_event() {
        for attachment in [Bytes::new(), Bytes::from_static(b"note")] {
            let reply = AlignReply::Retrieval(put(), Some(attachment));
            assert_eq!(AlignReply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn a_length_that_lies_is_refused_before_anything_is_allocated() {
        for tag in 1_u32..6 {
            for fill in [0xff, 0x7f, 0x01] {
                let mut octets = tag.to_le_bytes().to_vec();
                octets.extend_from_slice(&[fill; 40]);
                octets[4] = 1;
                assert!(AlignReply::decode(&octets).is_err(), "{octets:?}");
                if tag > 1 {
                    assert!(AlignQuery::decode(&octets).is_err(), "{octets:?}");
                }
                assert!(Digest::decode(&octets).is_err());
            }
        }
        assert!(Digest::decode(&vec![0; MAX_MESSAGE + 1]).is_err());
    }

    #[test]
    fn a_digest_is_bounded_by_its_settings() {
        let settings = ReplicaSettings { sub_intervals: 2, hot: 3, warm: 4, ..ReplicaSettings::default() };
        let sums = |count: u64| -> Sums { (0..count).map(|at| (at, 7)).collect() };
        let hot = |count: u64, parts| -> PartSums { (0..count).map(|at| (at, sums(parts))).collect() };
        let of = |warm, hot| Digest { settings: 1, cold: 2, warm: sums(warm), hot };
        let full = of(4, hot(3, 3));
        assert_eq!(Digest::decode_bounded(&full.encode(), &settings), Ok(full.clone()));
        for (digest, word) in [
            (of(5, hot(0, 0)), "warm"),
            (of(0, hot(4, 1)), "hot"),
            (of(0, hot(1, 4)), "parts"),
            (of(5, hot(3, 3)), "larger"),
        ] {
            let flaw = Digest::decode_bounded(&digest.encode(), &settings).unwrap_err();
            assert!(flaw.contains(word), "{flaw}");
        }
        let long = [full.encode(), vec![0]].concat();
        assert!(Digest::decode_bounded(&long, &settings).is_err());
    }

    fn events() -> impl Strategy<Value = EventMeta> {
        let stamp = (any::<u64>(), 1..u128::MAX)
            .prop_map(|(time, id)| Timestamp { time: Ntp64(time), id: ZenohId::new(id).unwrap() });
        let action = prop_oneof![
            Just(Action::Put),
            Just(Action::Delete),
            "[a-z*/]{0,9}".prop_map(|key| Action::WildcardPut(key.into())),
            "[a-z*/]{0,9}".prop_map(|key| Action::WildcardDelete(key.into())),
        ];
        ("[a-z/é]{0,9}", stamp.clone(), proptest::option::of(stamp), action)
            .prop_map(|(key, stamp, own, action)| EventMeta { key: key.into(), stamp, own, action })
    }

    proptest! {
        #[test]
        fn every_message_comes_back_and_no_cut_panics(
            events in proptest::collection::vec(events(), 0..4),
            sets in proptest::collection::btree_map(any::<u64>(), proptest::collection::btree_set(any::<u64>(), 0..4), 0..4),
            sums in proptest::collection::btree_map(any::<u64>(), proptest::collection::btree_map(any::<u64>(), any::<u64>(), 0..4), 0..4),
            cold in any::<bool>(), at in any::<proptest::sample::Index>(), bit in 0..8_u8,
        ) {
            let warm: BTreeSet<u64> = sets.keys().copied().collect();
            let flat: Sums = sums.keys().map(|at| (*at, !*at)).collect();
            let queries = [
                AlignQuery::Diff(Difference { cold, warm: warm.clone(), hot: sets.clone() }),
                AlignQuery::Intervals(warm), AlignQuery::SubIntervals(sets), AlignQuery::Events(events.clone()),
            ];
            let replies = [
                AlignReply::Intervals(flat.clone()), AlignReply::SubIntervals(sums.clone()),
                AlignReply::EventsMetadata(events),
            ];
            let digest = Digest { settings: 7, cold: 9, warm: flat, hot: sums };
            prop_assert_eq!(Digest::decode(&digest.encode()), Ok(digest.clone()));
            let mut all = vec![digest.encode()];
            for query in queries {
                prop_assert_eq!(AlignQuery::decode(&query.encode()), Ok(query.clone()));
                all.push(query.encode());
            }
            for reply in replies {
                prop_assert_eq!(AlignReply::decode(&reply.encode()), Ok(reply.clone()));
                all.push(reply.encode());
            }
            for mut octets in all {
                let at = at.index(octets.len());
                for cut in [&octets[..at], &octets] {
                    let _ = (Digest::decode(cut), AlignQuery::decode(cut), AlignReply::decode(cut));
                }
                octets[at] ^= 1 << bit;
                let _ = (Digest::decode(&octets), AlignQuery::decode(&octets), AlignReply::decode(&octets));
            }
        }
    }
}
