//! `LeaveGroup`: a member leaves, and its partitions go to the others at once.
//!
//! ```text
//! request: group, member
//! answer:  from 1: throttle (4), error (2), as of a heartbeat
//! ```

use super::{Read, text};
use zwire_proto::{Text, buf::Reader};

/// Decodes group and member.
pub(crate) fn decode(r: &mut Reader<'_>) -> Read<(Text, Text)> {
    Ok((text(r, "LeaveGroup group")?, text(r, "LeaveGroup member")?))
}
