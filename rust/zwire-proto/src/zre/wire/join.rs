//! JOIN, id 4, and LEAVE, id 5 (`zre` 9.3).
//!
//! ```text
//! +--------+-------+--------+
//! | header | group | status |   status: the value after the change
//! +--------+-------+--------+
//! ```

use super::{EncodeError, field};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// The sender joins a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Name of the group; upper and lower case differ.
    pub group: Bytes,
    /// Number of times that the sender joined or left a group, this one included, modulo 256.
    pub status: u8,
}

impl Join {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { group: field::string(r, "JOIN group")?, status: r.u8("JOIN status")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) -> core::result::Result<(), EncodeError> {
        field::put_name(sink, &self.group, "JOIN group")?;
        sink.put_u8(self.status);
        Ok(())
    }
}

/// The sender leaves a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Name of the group; upper and lower case differ.
    pub group: Bytes,
    /// Number of times that the sender joined or left a group, this one included, modulo 256.
    pub status: u8,
}

impl Leave {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { group: field::string(r, "LEAVE group")?, status: r.u8("LEAVE status")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) -> core::result::Result<(), EncodeError> {
        field::put_name(sink, &self.group, "LEAVE group")?;
        sink.put_u8(self.status);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both_ways, unhex};
    use super::super::{Body, ZreMessage};
    use super::*;
    use crate::zre::Generation;

    fn join(group: &'static [u8], status: u8) -> ZreMessage {
        ZreMessage { sequence: 4, body: Body::Join(Join { group: Bytes::from_static(group), status }) }
    }

    #[test]
    fn both_in_each_generation() {
        let leave = |status| ZreMessage {
            sequence: 5,
            body: Body::Leave(Leave { group: Bytes::from_static(b"ALERTS"), status }),
        };
        both_ways(Generation::Rfc20, "aaa104 0004 06 414c45525453 03", &join(b"ALERTS", 3));
        both_ways(Generation::Zyre1, "aaa105 0005 06 414c45525453 00", &leave(0));
        both_ways(Generation::Rfc36, "aaa10402 0004 06 414c45525453 ff", &join(b"ALERTS", 255));
        both_ways(Generation::Rfc43, "aaa10503 0005 06 414c45525453 04", &leave(4));
    }

    #[test]
    fn octets_and_frames_behind_the_end_are_ignored() {
        let frames = [unhex("aaa10402 0004 01 47 03 ffff"), Bytes::from_static(b"content")];
        assert_eq!(ZreMessage::decode(Generation::Rfc36, &frames), Ok(join(b"G", 3)));
    }

    #[test]
    fn a_group_without_name_or_with_odd_octets_is_read_and_never_sent() {
        for (hex, group) in [("aaa10402 0004 00 03", &b""[..]), ("aaa10402 0004 03 ff0061 03", b"\xff\0a")] {
            assert_eq!(ZreMessage::decode(Generation::Rfc36, &[unhex(hex)]), Ok(join(group, 3)));
            assert!(join(group, 3).encode(Generation::Rfc36).is_err());
        }
    }
}
