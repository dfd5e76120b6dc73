//! `Heartbeat`: a member is alive, and learns whether it has to join again.
//!
//! ```text
//! request: group, generation (4), member, from 3: instance
//! answer:  from 1: throttle (4), error (2)
//! ```

use super::{Code, Read, int32, nullable_text, put_code, put_throttle, since, text};
use zwire_proto::{Text, buf::Reader};

/// Decodes group, generation and member.
pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<(Text, i32, Text)> {
    let group = text(r, "Heartbeat group")?;
    let generation = int32(r, "Heartbeat generation")?;
    let member = text(r, "Heartbeat member")?;
    since(version, 3, None, || nullable_text(r, "Heartbeat instance"))?;
    Ok((group, generation, member))
}

/// Encodes an answer, which is that of `LeaveGroup` as well.
pub(crate) fn encode(code: Code, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 1);
    put_code(out, code);
}
