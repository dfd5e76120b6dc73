//! SHOUT, id 3: a content for a group (`zre` 9.3).
//!
//! ```text
//! frame 1             further frames
//! +--------+-------+  +---------+
//! | header | group |  ~ content ~  as in WHISPER
//! +--------+-------+  +---------+
//! ```
//!
//! Each member gets its own copy; the sender need not be a member.

use super::{super::Generation, EncodeError, field};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// A content for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shout {
    /// The group; upper and lower case differ.
    pub group: Bytes,
    /// Frames of the content, as in [`Whisper`](super::Whisper).
    pub content: Vec<Bytes>,
}

impl Shout {
    pub(super) fn decode(r: &mut Reader<'_>, content: &[Bytes]) -> Result<Self> {
        let group = field::string(r, "SHOUT group")?;
        Ok(Self { group, content: field::content(content, "SHOUT content")? })
    }

    pub(super) fn encode(
        &self,
        generation: Generation,
        sink: &mut impl Sink,
    ) -> core::result::Result<(), EncodeError> {
        field::check_content(generation, &self.content, "SHOUT")?;
        field::put_name(sink, &self.group, "SHOUT group")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::both_ways;
    use super::super::{Body, ZreMessage};
    use super::*;

    fn shout(group: Vec<u8>, content: Vec<Bytes>) -> ZreMessage {
        ZreMessage { sequence: 3, body: Body::Shout(Shout { group: group.into(), content }) }
    }

    #[test]
    fn shortest_and_longest_group() {
        for content in [vec![Bytes::new()], vec![Bytes::from_static(b"a"), Bytes::from(vec![0; 70_000])]] {
            both_ways(Generation::Rfc36, "aaa10302 0003 01 47", &shout(b"G".to_vec(), content.clone()));
            let hex = format!("aaa103 0003 ff {}", "67".repeat(255));
            both_ways(Generation::Zyre1, &hex, &shout(vec![b'g'; 255], content));
        }
    }

    #[test]
    fn what_does_not_leave() {
        let one = vec![Bytes::new()];
        let field = "SHOUT group";
        for (group, content, error) in [
            (b"G".to_vec(), vec![], EncodeError::NoContent { message: "SHOUT" }),
            (vec![], one.clone(), EncodeError::Empty { field }),
            (vec![b'g'; 256], one.clone(), EncodeError::TooLong { field, len: 256, bound: 255 }),
            (b"caf\xc3".to_vec(), one.clone(), EncodeError::NotText { field }),
            (b"a\0b".to_vec(), one, EncodeError::NotText { field }),
        ] {
            assert_eq!(shout(group, content).encode(Generation::Rfc36), Err(error));
        }
    }
}
