//! `OffsetCommit`: positions of a group.
//!
//! ```text
//! request: group, generation (4), member, from 7: instance, to 4: retention (8),
//!          topics { number (4), offset (8), from 6: epoch (4), note }
//! answer:  from 3: throttle (4), topics { number (4), error (2) }
//! ```

use super::{
    Code, Read, Topics, int32, int64, nullable_text, put_code, put_throttle, put_topics, since, text, topics,
};
use bytes::BufMut as _;
use zwire_proto::{Text, buf::Reader};

/// A request. Notes are not kept.
#[derive(Debug)]
pub(crate) struct OffsetCommit {
    pub(crate) group: Text,
    pub(crate) generation: i32,
    pub(crate) member: Text,
    pub(crate) topics: Topics<(i32, i64)>,
}

impl OffsetCommit {
    pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<Self> {
        let group = text(r, "OffsetCommit group")?;
        let generation = int32(r, "OffsetCommit generation")?;
        let member = text(r, "OffsetCommit member")?;
        since(version, 7, None, || nullable_text(r, "OffsetCommit instance"))?;
        if version <= 4 {
            int64(r, "OffsetCommit retention")?;
        }
        let topics = topics(r, 14, "OffsetCommit topics", |r| {
            let number = int32(r, "OffsetCommit partition")?;
            let offset = int64(r, "OffsetCommit offset")?;
            since(version, 6, -1, || int32(r, "OffsetCommit epoch"))?;
            nullable_text(r, "OffsetCommit note")?;
            Ok((number, offset))
        })?;
        Ok(Self { group, generation, member, topics })
    }
}

/// Encodes an answer.
pub(crate) fn encode(topics: &Topics<(i32, Code)>, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 3);
    put_topics(out, topics, |out, (number, code)| {
        out.put_i32(*number);
        put_code(out, *code);
    });
}
