//! Encoding of one message for many peers: only the number differs.

use super::{super::Generation, Body, EncodeError, ZreMessage};
use bytes::Bytes;

/// The header frame of a message without its number.
#[derive(Clone, Debug)]
pub struct Stencil {
    frame: Vec<u8>,
    /// Offset of the number.
    at: usize,
}

impl Stencil {
    /// Encodes all but the number.
    ///
    /// # Errors
    /// A message that must not be sent; see [`EncodeError`].
    pub fn new(generation: Generation, body: &Body) -> Result<Self, EncodeError> {
        let mut frame = Vec::new();
        ZreMessage::encode_body(generation, 0, body, &mut frame)?;
        Ok(Self { frame, at: generation.header_len() - 2 })
    }

    /// The frames of the message with that number, in front of a content that is shared.
    #[must_use]
    pub fn frames(&self, sequence: u16, content: &[Bytes]) -> Vec<Bytes> {
        let mut frame = self.frame.clone();
        frame[self.at..self.at + 2].copy_from_slice(&sequence.to_be_bytes());
        let mut frames = Vec::with_capacity(1 + content.len());
        frames.push(frame.into());
        frames.extend_from_slice(content);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_message_encodes_to() {
        let content = vec![Bytes::from_static(b"a"), Bytes::new()];
        for generation in Generation::ALL {
            let content = if generation == Generation::Rfc20 { &content[..1] } else { &content };
            let body = Body::Shout { group: Bytes::from_static(b"CHAT"), content: content.to_vec() };
            let stencil = Stencil::new(generation, &body).unwrap();
            for sequence in [0, 1, 0x1234, u16::MAX] {
                let whole = ZreMessage { sequence, body: body.clone() }.encode(generation).unwrap();
                assert_eq!(stencil.frames(sequence, content), whole, "{generation}");
            }
        }
        let nothing = Body::Shout { group: Bytes::from_static(b"CHAT"), content: vec![] };
        assert!(Stencil::new(Generation::Rfc36, &nothing).is_err());
    }
}
