//! `FindCoordinator`: the broker that has a group, which is the only one.
//!
//! ```text
//! request: name, from 1: kind (1), 0 for a group
//! answer:  from 1: throttle (4), error (2), from 1: reason, broker (4), host, port (4)
//! ```

use super::{Code, Read, metadata::BROKER, put_code, put_nullable_text, put_text, put_throttle, since, text};
use bytes::BufMut as _;
use zwire_proto::buf::Reader;

/// Decodes whether a group is asked for.
pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<bool> {
    text(r, "FindCoordinator name")?;
    Ok(since(version, 1, 0, || r.u8("FindCoordinator kind"))? == 0)
}

/// Encodes an answer; transactions have no coordinator.
pub(crate) fn encode(group: bool, (host, port): (&str, u16), out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 1);
    put_code(out, if group { Code::None } else { Code::InvalidRequest });
    if version >= 1 {
        put_nullable_text(out, (!group).then_some("spools of zwire have no transactions"));
    }
    out.put_i32(if group { BROKER } else { -1 });
    put_text(out, if group { host } else { "" });
    out.put_i32(if group { port.into() } else { -1 });
}
