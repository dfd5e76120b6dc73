//! `SyncGroup`: the leader of a generation assigns partitions, and each member gets its own.
//!
//! ```text
//! request: group, generation (4), member, from 3: instance, list of { member, octets }, of the leader
//! answer:  from 1: throttle (4), error (2), octets
//! ```

use super::{
    Code, Read, int32, list, nullable_text, octets, put_code, put_octets, put_throttle, since, text,
};
use bytes::Bytes;
use zwire_proto::{Text, buf::Reader};

/// A request.
#[derive(Debug)]
pub(crate) struct SyncGroup {
    pub(crate) group: Text,
    pub(crate) generation: i32,
    pub(crate) member: Text,
    pub(crate) assignments: Vec<(Text, Bytes)>,
}

impl SyncGroup {
    pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<Self> {
        let group = text(r, "SyncGroup group")?;
        let generation = int32(r, "SyncGroup generation")?;
        let member = text(r, "SyncGroup member")?;
        since(version, 3, None, || nullable_text(r, "SyncGroup instance"))?;
        let assignments = list(r, 6, "SyncGroup assignments", |r| {
            Ok((text(r, "SyncGroup assigned member")?, octets(r, "SyncGroup assignment")?))
        })?;
        Ok(Self { group, generation, member, assignments })
    }
}

/// Encodes an answer.
pub(crate) fn encode(assigned: &Result<Bytes, Code>, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 1);
    put_code(out, assigned.as_ref().err().copied().unwrap_or(Code::None));
    put_octets(out, assigned.as_deref().unwrap_or_default());
}
