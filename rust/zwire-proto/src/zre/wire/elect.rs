//! ELECT, id 8, and LEADER, id 9, of zyre 2.0.1 and later; in no RFC (`zre` 12).
//!
//! ```text
//! +--------+-------+---------------+        +--------+-------+------------+
//! | header | group | challenger id |        | header | group | leader id  |
//! +--------+-------+---------------+        +--------+-------+------------+
//! ```
//!
//! The ids are the texts of UUIDs; the smallest wins.

use super::{EncodeError, field};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// A candidate for the leadership of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elect {
    /// The group.
    pub group: Bytes,
    /// UUID of the candidate: 32 hexadecimal digits.
    pub challenger: Bytes,
}

impl Elect {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            group: field::string(r, "ELECT group")?,
            challenger: field::string(r, "ELECT challenger")?,
        })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) -> core::result::Result<(), EncodeError> {
        field::put_name(sink, &self.group, "ELECT group")?;
        field::put_name(sink, &self.challenger, "ELECT challenger")
    }
}

/// The leader of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The group.
    pub group: Bytes,
    /// UUID of the leader: 32 hexadecimal digits.
    pub leader: Bytes,
}

impl Leader {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { group: field::string(r, "LEADER group")?, leader: field::string(r, "LEADER leader")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) -> core::result::Result<(), EncodeError> {
        field::put_name(sink, &self.group, "LEADER group")?;
        field::put_name(sink, &self.leader, "LEADER leader")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::both_ways;
    use super::super::{Body, ZreMessage};
    use super::*;
    use crate::zre::Generation;

    #[test]
    fn both_and_not_for_the_first_generations() {
        let (group, id) = (Bytes::from_static(b"G"), Bytes::from_static(b"AB"));
        let elect = Body::Elect(Elect { group: group.clone(), challenger: id.clone() });
        let leader = Body::Leader(Leader { group, leader: id });
        for (hex, body) in [("08", elect), ("09", leader)] {
            let message = ZreMessage { sequence: 9, body };
            both_ways(Generation::Rfc36, &format!("aaa1{hex}02 0009 01 47 02 4142"), &message);
            for generation in [Generation::Rfc20, Generation::Zyre1] {
                assert!(matches!(message.encode(generation), Err(EncodeError::NotInGeneration { .. })));
            }
        }
    }
}
