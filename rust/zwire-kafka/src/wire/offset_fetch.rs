//! `OffsetFetch`: the positions that a group has committed.
//!
//! ```text
//! request: group, topics { number (4) }, from 2: null for all
//! answer:  from 3: throttle (4), topics { number (4), offset (8), from 5: epoch (4), note, error (2) },
//!          from 2: error (2)
//! ```

use super::{
    Code, Read, Topics, int32, nullable_topics, put_code, put_nullable_text, put_throttle, put_topics, text,
};
use bytes::BufMut as _;
use zwire_proto::{Text, buf::Reader};

/// Decodes the group and the partitions; `None` for all.
pub(crate) fn decode(r: &mut Reader<'_>) -> Read<(Text, Option<Topics<i32>>)> {
    let group = text(r, "OffsetFetch group")?;
    let topics = nullable_topics(r, 4, "OffsetFetch topics", |r| int32(r, "OffsetFetch partition"))?;
    Ok((group, topics))
}

/// Answer for a partition; offset -1 if none was committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Committed {
    pub(crate) number: i32,
    pub(crate) offset: i64,
    pub(crate) code: Code,
}

/// Encodes an answer.
pub(crate) fn encode(topics: &Topics<Committed>, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 3);
    put_topics(out, topics, |out, committed| {
        out.put_i32(committed.number);
        out.put_i64(committed.offset);
        if version >= 5 {
            out.put_i32(-1);
        }
        put_nullable_text(out, Some(""));
        put_code(out, committed.code);
    });
    if version >= 2 {
        put_code(out, Code::None);
    }
}
