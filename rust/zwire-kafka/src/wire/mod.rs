//! Requests and answers of Kafka, a file each, in the versions without compact fields.
//!
//! ```text
//! request: length (4), number of the message (2), version (2), correlation (4), name of the client, fields
//! answer:  length (4), correlation (4), fields
//! ```
//!
//! Integers are big-endian. A text has a length of two octets, other octets and lists of four; -1 is null.

pub(crate) mod api_versions;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod heartbeat;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_offsets;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_fetch;
pub(crate) mod produce;
pub(crate) mod sync_group;

use bytes::{BufMut as _, Bytes};
use std::collections::BTreeSet;
use zwire_proto::{DecodeError, DecodeErrorKind, Text, buf::Reader};

pub(crate) type Read<T> = core::result::Result<T, DecodeError>;

/// Messages that are answered.
#[allow(clippy::enum_variant_names, reason = "names of Kafka")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Api {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    FindCoordinator,
    JoinGroup,
    Heartbeat,
    LeaveGroup,
    SyncGroup,
    ApiVersions,
}

impl Api {
    /// Each message with its number, and its least and greatest version here. The least ones are those of Kafka 2.1,
    /// below which clients of Kafka 4 do not go, or lower; the greatest are the last ones without compact fields.
    /// `Produce` is there to be refused with a reason, and because librdkafka takes it for a sign of new batches.
    pub(crate) const TABLE: [(Self, i16, i16, i16); 12] = [
        (Self::Produce, 0, 3, 8),
        (Self::Fetch, 1, 4, 11),
        (Self::ListOffsets, 2, 1, 5),
        (Self::Metadata, 3, 1, 8),
        (Self::OffsetCommit, 8, 2, 7),
        (Self::OffsetFetch, 9, 1, 5),
        (Self::FindCoordinator, 10, 0, 2),
        (Self::JoinGroup, 11, 0, 5),
        (Self::Heartbeat, 12, 0, 3),
        (Self::LeaveGroup, 13, 0, 2),
        (Self::SyncGroup, 14, 0, 3),
        (Self::ApiVersions, 18, 0, 3),
    ];
}

/// Head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestHead {
    /// Number of the message.
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
}

impl RequestHead {
    /// Decodes a head up to the name of the client.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Read<Self> {
        Ok(Self {
            key: int16(r, "request: number of the message")?,
            version: int16(r, "request: version")?,
            correlation: int32(r, "request: correlation")?,
        })
    }

    /// The message, or `None` if it is unknown or of a version that is not answered.
    pub(crate) fn api(&self) -> Option<Api> {
        let known = |(_, key, least, most): &&(Api, i16, i16, i16)| {
            *key == self.key && (*least..=*most).contains(&self.version)
        };
        Api::TABLE.iter().find(known).map(|(api, ..)| *api)
    }
}

/// Result of a part of a request, as a number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i16)]
pub(crate) enum Code {
    Unknown = -1,
    None = 0,
    OffsetOutOfRange = 1,
    CorruptMessage = 2,
    UnknownTopicOrPartition = 3,
    MessageTooLarge = 10,
    IllegalGeneration = 22,
    InconsistentGroupProtocol = 23,
    InvalidGroupId = 24,
    UnknownMemberId = 25,
    InvalidSessionTimeout = 26,
    RebalanceInProgress = 27,
    GroupAuthorizationFailed = 30,
    UnsupportedVersion = 35,
    InvalidRequest = 42,
    PolicyViolation = 44,
    KafkaStorageError = 56,
    GroupMaxSizeReached = 81,
}

/// Part of a request that is about a partition.
pub(crate) trait OfPartition {
    fn number(&self) -> i32;
}

impl OfPartition for i32 {
    fn number(&self) -> i32 {
        *self
    }
}

/// A partition with an offset or a time.
impl OfPartition for (i32, i64) {
    fn number(&self) -> i32 {
        self.0
    }
}

/// Parts of a request by topic.
pub(crate) type Topics<P> = Vec<(Text, Vec<P>)>;

/// Answers each part of a request.
pub(crate) fn answers<P, A>(topics: &Topics<P>, mut answer: impl FnMut(&str, &P) -> A) -> Topics<A> {
    let each = |(name, parts): &(Text, Vec<P>)| {
        (name.clone(), parts.iter().map(|part| answer(name, part)).collect())
    };
    topics.iter().map(each).collect()
}

pub(crate) fn int16(r: &mut Reader<'_>, reading: &'static str) -> Read<i16> {
    r.array(reading).map(i16::from_be_bytes)
}

pub(crate) fn int32(r: &mut Reader<'_>, reading: &'static str) -> Read<i32> {
    r.array(reading).map(i32::from_be_bytes)
}

pub(crate) fn int64(r: &mut Reader<'_>, reading: &'static str) -> Read<i64> {
    r.array(reading).map(i64::from_be_bytes)
}

/// A field that versions below the first one do not have.
pub(crate) fn since<T>(version: i16, first: i16, default: T, read: impl FnOnce() -> Read<T>) -> Read<T> {
    if version < first { Ok(default) } else { read() }
}

/// A length, -1 for null, which is compared with the number of unread octets.
fn length(r: &mut Reader<'_>, wide: bool, least: usize, reading: &'static str) -> Read<Option<usize>> {
    let offset = r.offset();
    let len = if wide { int32(r, reading)? } else { int16(r, reading)?.into() };
    let bound = r.remaining() / least;
    match usize::try_from(len) {
        Ok(len) if len <= bound => Ok(Some(len)),
        Err(_) if len == -1 => Ok(None),
        _ => {
            let kind = DecodeErrorKind::OutOfRange { value: len.cast_unsigned().into(), bound: bound as u64 };
            Err(r.error(reading, offset, kind))
        }
    }
}

fn not_null<T>(r: &Reader<'_>, value: Option<T>, reading: &'static str) -> Read<T> {
    let null = DecodeErrorKind::Illegal { value: u64::MAX };
    value.ok_or_else(|| r.error(reading, r.offset(), null))
}

pub(crate) fn nullable_text(r: &mut Reader<'_>, reading: &'static str) -> Read<Option<Text>> {
    length(r, false, 1, reading)?.map(|len| r.text_of(len, reading)).transpose()
}

pub(crate) fn text(r: &mut Reader<'_>, reading: &'static str) -> Read<Text> {
    let text = nullable_text(r, reading)?;
    not_null(r, text, reading)
}

pub(crate) fn nullable_octets(r: &mut Reader<'_>, reading: &'static str) -> Read<Option<Bytes>> {
    length(r, true, 1, reading)?.map(|len| r.bytes(len, reading)).transpose()
}

pub(crate) fn octets(r: &mut Reader<'_>, reading: &'static str) -> Read<Bytes> {
    let octets = nullable_octets(r, reading)?;
    not_null(r, octets, reading)
}

/// A list of items with at least so many octets each; `None` for null.
pub(crate) fn nullable_list<'a, T>(
    r: &mut Reader<'a>,
    least: usize,
    reading: &'static str,
    mut item: impl FnMut(&mut Reader<'a>) -> Read<T>,
) -> Read<Option<Vec<T>>> {
    let count = length(r, true, least, reading)?;
    count.map(|count| (0..count).map(|_| item(r)).collect()).transpose()
}

pub(crate) fn list<'a, T>(
    r: &mut Reader<'a>,
    least: usize,
    reading: &'static str,
    item: impl FnMut(&mut Reader<'a>) -> Read<T>,
) -> Read<Vec<T>> {
    let items = nullable_list(r, least, reading, item)?;
    not_null(r, items, reading)
}

/// Topics with parts of at least so many octets each; `None` for null. A topic or partition that is named twice is
/// refused: each is read once, so that a request costs no more than all partitions.
pub(crate) fn nullable_topics<'a, P: OfPartition>(
    r: &mut Reader<'a>,
    least: usize,
    reading: &'static str,
    mut part: impl FnMut(&mut Reader<'a>) -> Read<P>,
) -> Read<Option<Topics<P>>> {
    let mut names = BTreeSet::new();
    nullable_list(r, 6, reading, |r| {
        let offset = r.offset();
        let (name, parts) = (text(r, reading)?, list(r, least, reading, &mut part)?);
        let mut numbers = BTreeSet::new();
        let again = parts.iter().map(P::number).find(|number| !numbers.insert(*number));
        if again.is_some() || !names.insert(name.clone()) {
            let value = again.unwrap_or(0).cast_unsigned().into();
            return Err(r.error(reading, offset, DecodeErrorKind::Illegal { value }));
        }
        Ok((name, parts))
    })
}

pub(crate) fn topics<'a, P: OfPartition>(
    r: &mut Reader<'a>,
    least: usize,
    reading: &'static str,
    part: impl FnMut(&mut Reader<'a>) -> Read<P>,
) -> Read<Topics<P>> {
    let topics = nullable_topics(r, least, reading, part)?;
    not_null(r, topics, reading)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a text of this server, or of a request with such a length"
)]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

pub(crate) fn put_nullable_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.put_i16(-1),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "octets and lists of requests, or of what this server has"
)]
pub(crate) fn put_octets(out: &mut Vec<u8>, octets: &[u8]) {
    out.put_u32(octets.len() as u32);
    out.put_slice(octets);
}

#[allow(clippy::cast_possible_truncation, reason = "as above")]
pub(crate) fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    out.put_u32(items.len() as u32);
    items.for_each(|item| put(out, item));
}

pub(crate) fn put_topics<P>(out: &mut Vec<u8>, topics: &Topics<P>, mut put: impl FnMut(&mut Vec<u8>, &P)) {
    put_list(out, topics.iter(), |out, (name, parts)| {
        put_text(out, name);
        put_list(out, parts.iter(), &mut put);
    });
}

/// Time for which a client should pause, from the version on that has this field: none.
pub(crate) fn put_throttle(out: &mut Vec<u8>, version: i16, first: i16) {
    if version >= first {
        out.put_i32(0);
    }
}

pub(crate) fn put_code(out: &mut Vec<u8>, code: Code) {
    out.put_i16(code as i16);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes a request of each version of a message.
    fn decode(api: Api, version: i16, octets: &Bytes) -> Read<()> {
        let r = &mut Reader::new(octets);
        match api {
            Api::Produce => produce::decode(r).map(drop),
            Api::Fetch => fetch::FetchRequest::decode(r, version).map(drop),
            Api::ListOffsets => list_offsets::decode(r, version).map(drop),
            Api::Metadata => metadata::decode(r).map(drop),
            Api::OffsetCommit => offset_commit::OffsetCommit::decode(r, version).map(drop),
            Api::OffsetFetch => offset_fetch::decode(r).map(drop),
            Api::FindCoordinator => find_coordinator::decode(r, version).map(drop),
            Api::JoinGroup => join_group::JoinGroup::decode(r, version).map(drop),
            Api::Heartbeat => heartbeat::decode(r, version).map(drop),
            Api::LeaveGroup => leave_group::decode(r).map(drop),
            Api::SyncGroup => sync_group::SyncGroup::decode(r, version).map(drop),
            Api::ApiVersions => Ok(()),
        }
    }

    #[test]
    fn a_count_that_lies_is_refused_before_memory_is_allocated() {
        let octets = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 0]);
        let error = metadata::decode(&mut Reader::new(&octets)).unwrap_err();
        assert_eq!(error.to_string(), "Metadata topics: value 2147483647 above the bound 1 at offset 0");
        let octets = Bytes::from_static(&[0xff, 0xff, 0xff, 0xfe]);
        assert!(metadata::decode(&mut Reader::new(&octets)).is_err());
        let octets = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(metadata::decode(&mut Reader::new(&octets)), Ok(None));
    }

    #[test]
    fn a_partition_or_topic_that_is_named_twice_is_refused() {
        let topic = |numbers: &[i32]| {
            let mut out = Vec::new();
            put_text(&mut out, "fleet");
            put_list(&mut out, numbers.iter(), |out, number| out.put_i32(*number));
            out
        };
        let decode = |topics: &[Vec<u8>]| {
            let mut out = Vec::new();
            put_list(&mut out, topics.iter(), |out, topic| out.put_slice(topic));
            nullable_topics(&mut Reader::new(&out.into()), 4, "topics", |r| int32(r, "partition"))
        };
        assert_eq!(decode(&[topic(&[3, 5])]).unwrap().unwrap(), [(Text::from("fleet"), vec![3, 5])]);
        let error = decode(&[topic(&[3, 5, 3])]).unwrap_err();
        assert_eq!(error.to_string(), "topics: illegal value 3 at offset 4");
        assert!(decode(&[topic(&[3]), topic(&[5])]).is_err());
    }

    proptest! {
        #[test]
        fn any_octets_are_a_request_or_an_error(octets: Vec<u8>, zeros in 0usize..24) {
            // Zeros before the rest reach the inner fields of more messages.
            let octets: Bytes = core::iter::repeat_n(0, zeros).chain(octets).collect::<Vec<u8>>().into();
            for (api, _, least, most) in Api::TABLE {
                for version in least..=most {
                    let _ = decode(api, version, &octets);
                }
            }
        }
    }
}
