//! WHISPER, id 2: a content for one peer (`zre` 9.3).
//!
//! ```text
//! frame 1       further frames
//! +--------+    +---------+
//! | header |    ~ content ~  one in 20/ZRE, any number later; never none
//! +--------+    +---------+
//! ```

use super::{super::Generation, EncodeError, field};
use crate::error::Result;
use bytes::Bytes;

/// A content for one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whisper {
    /// Frames of the content. A decoder accepts none; an encoder requires at least one.
    pub content: Vec<Bytes>,
}

impl Whisper {
    pub(super) fn decode(content: &[Bytes]) -> Result<Self> {
        Ok(Self { content: field::content(content, "WHISPER content")? })
    }

    pub(super) fn check(&self, generation: Generation) -> core::result::Result<(), EncodeError> {
        field::check_content(generation, &self.content, "WHISPER")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both_ways, unhex};
    use super::super::{Body, ZreMessage};
    use super::*;
    use crate::zre::limits::MAX_CONTENT_FRAMES;

    fn whisper(content: Vec<Bytes>) -> ZreMessage {
        ZreMessage { sequence: 2, body: Body::Whisper(Whisper { content }) }
    }

    #[test]
    fn one_frame_in_each_generation_and_several_where_they_are_allowed() {
        let one = vec![Bytes::from_static(b"temp=21.5")];
        let two = vec![Bytes::new(), Bytes::from_static(b"part")];
        both_ways(Generation::Rfc20, "aaa102 0002", &whisper(one.clone()));
        for (generation, hex) in [
            (Generation::Zyre1, "aaa102 0002"),
            (Generation::Rfc36, "aaa10202 0002"),
            (Generation::Rfc43, "aaa10203 0002"),
        ] {
            both_ways(generation, hex, &whisper(one.clone()));
            both_ways(generation, hex, &whisper(two.clone()));
        }
        let generation = Generation::Rfc20;
        let error = whisper(two).encode(generation).unwrap_err();
        assert_eq!(error, EncodeError::MultiFrame { generation, frames: 2 });
        assert_eq!(error.to_string(), "20/ZRE has one content frame per message, not 2");
    }

    #[test]
    fn none_at_all_is_read_and_never_sent() {
        let frames = [unhex("aaa10202 0002")];
        assert_eq!(ZreMessage::decode(Generation::Rfc36, &frames), Ok(whisper(vec![])));
        for generation in Generation::ALL {
            let error = EncodeError::NoContent { message: "WHISPER" };
            assert_eq!(whisper(vec![]).encode(generation), Err(error));
        }
    }

    #[test]
    fn the_number_of_frames_is_bounded() {
        let frames = |content: usize| {
            let mut frames = vec![Bytes::new(); 1 + content];
            frames[0] = unhex("aaa10202 0002");
            frames
        };
        let most = ZreMessage::decode(Generation::Rfc36, &frames(MAX_CONTENT_FRAMES)).unwrap();
        assert_eq!(most.encode(Generation::Rfc36).unwrap(), frames(MAX_CONTENT_FRAMES));
        assert!(ZreMessage::decode(Generation::Rfc36, &frames(MAX_CONTENT_FRAMES + 1)).is_err());
        assert!(whisper(vec![Bytes::new(); MAX_CONTENT_FRAMES + 1]).encode(Generation::Rfc36).is_err());
    }
}
