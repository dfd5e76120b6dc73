//! `ListOffsets`: the earliest or latest offset of partitions, or the first one at or after a time.
//!
//! ```text
//! request: replica (4), from 2: isolation (1), topics { number (4), from 4: epoch (4), time in ms (8) }
//! answer:  from 2: throttle (4), topics { number (4), error (2), time (8), offset (8), from 4: epoch (4) }
//! ```

use super::{Code, Read, Topics, int32, int64, put_code, put_throttle, put_topics, since, topics};
use bytes::BufMut as _;
use zwire_proto::buf::Reader;

/// Time that stands for the end, and for the first row.
pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;

/// Decodes the partitions of a request, each with its time.
pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<Topics<(i32, i64)>> {
    int32(r, "ListOffsets replica")?;
    since(version, 2, 0, || r.u8("ListOffsets isolation"))?;
    topics(r, 12, "ListOffsets topics", |r| {
        let number = int32(r, "ListOffsets partition")?;
        since(version, 4, -1, || int32(r, "ListOffsets epoch"))?;
        Ok((number, int64(r, "ListOffsets time")?))
    })
}

/// Answer for a partition; both -1 if no row has the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListedOffset {
    pub(crate) number: i32,
    pub(crate) code: Code,
    pub(crate) time: i64,
    pub(crate) offset: i64,
}

/// Encodes an answer.
pub(crate) fn encode(topics: &Topics<ListedOffset>, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 2);
    put_topics(out, topics, |out, listed| {
        out.put_i32(listed.number);
        put_code(out, listed.code);
        out.put_i64(listed.time);
        out.put_i64(listed.offset);
        if version >= 4 {
            out.put_i32(-1);
        }
    });
}
