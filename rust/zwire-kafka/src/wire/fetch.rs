//! `Fetch`: rows of partitions from offsets on.
//!
//! ```text
//! request: replica (4), longest wait in ms (4), least octets (4), most octets (4), isolation (1),
//!          from 7: session (4), its epoch (4), topics, from 7: topics to forget, from 11: rack
//! partition: number (4), from 9: epoch (4), offset (8), from 5: start (8), most octets (4)
//! answer:  throttle (4), from 7: error (2), session (4), topics
//! partition: number (4), error (2), end (8), stable end (8), from 5: start (8), aborted (4), from 11: replica (4),
//!          length (4) and octets of batches
//! ```
//!
//! A session would spare the client from naming all partitions each time; session 0 in the answer says that there
//! is none.

use super::{Code, OfPartition, Read, Topics, int32, int64, put_code, since, topics};
use bytes::BufMut as _;
use zwire_proto::buf::Reader;

/// A request.
#[derive(Debug)]
pub(crate) struct FetchRequest {
    pub(crate) max_wait: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) topics: Topics<WantedRows>,
}

/// Rows that a client wants of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WantedRows {
    pub(crate) number: i32,
    pub(crate) offset: i64,
    pub(crate) max_bytes: i32,
}

impl OfPartition for WantedRows {
    fn number(&self) -> i32 {
        self.number
    }
}

impl FetchRequest {
    /// Decodes a request up to its topics: no session remembers others.
    pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<Self> {
        int32(r, "Fetch replica")?;
        let max_wait = int32(r, "Fetch longest wait")?;
        let min_bytes = int32(r, "Fetch least octets")?;
        let max_bytes = int32(r, "Fetch most octets")?;
        r.u8("Fetch isolation")?;
        since(version, 7, 0, || int64(r, "Fetch session"))?;
        let topics = topics(r, 16, "Fetch topics", |r| {
            let number = int32(r, "Fetch partition")?;
            since(version, 9, -1, || int32(r, "Fetch epoch"))?;
            let offset = int64(r, "Fetch offset")?;
            since(version, 5, -1, || int64(r, "Fetch start"))?;
            Ok(WantedRows { number, offset, max_bytes: int32(r, "Fetch most octets of a partition")? })
        })?;
        Ok(Self { max_wait, min_bytes, max_bytes, topics })
    }
}

/// Encodes the beginning of an answer.
pub(crate) fn put_head(out: &mut Vec<u8>, version: i16) {
    out.put_i32(0);
    if version >= 7 {
        put_code(out, Code::None);
        out.put_i32(0);
    }
}

/// Encodes a partition: its number, error, and its first offset and end, -1 if they are unknown. `rows` appends
/// batches.
pub(crate) fn put_partition(
    out: &mut Vec<u8>,
    version: i16,
    number: i32,
    rows: impl FnOnce(&mut Vec<u8>) -> (Code, i64, i64),
) {
    out.put_i32(number);
    let at = out.len();
    put_code(out, Code::None);
    out.put_i64(-1);
    out.put_i64(-1);
    if version >= 5 {
        out.put_i64(-1);
    }
    out.put_i32(-1);
    if version >= 11 {
        out.put_i32(-1);
    }
    let begin = out.len() + 4;
    out.put_i32(0);
    let (code, start, end) = rows(out);
    #[allow(clippy::cast_possible_truncation, reason = "bounded by the limits of an answer")]
    let len = (out.len() - begin) as u32;
    out[begin - 4..begin].copy_from_slice(&len.to_be_bytes());
    out[at..at + 2].copy_from_slice(&(code as i16).to_be_bytes());
    for at in [at + 2, at + 10] {
        out[at..at + 8].copy_from_slice(&end.to_be_bytes());
    }
    if version >= 5 {
        out[at + 18..at + 26].copy_from_slice(&start.to_be_bytes());
    }
}
