//! Header of every message (`zre` 9.1).
//!
//! ```text
//! +----+----+----+------------------+-----------+
//! | AA | A1 | id | 02 or 03, if any | sequence  |
//! +----+----+----+------------------+-----------+
//! ```
//!
//! RFC 36 says that the version follows the signature; its grammar and all code have it behind the id.

use super::{
    super::Generation,
    EncodeError,
    field::{Encoded, expect},
};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};

const SIGNATURE: u16 = 0xaaa1;

/// The number of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub u8);

#[allow(missing_docs, reason = "the names of the documents")]
impl MessageId {
    pub const HELLO: Self = Self(1);
    pub const WHISPER: Self = Self(2);
    pub const SHOUT: Self = Self(3);
    pub const JOIN: Self = Self(4);
    pub const LEAVE: Self = Self(5);
    pub const PING: Self = Self(6);
    pub const PING_OK: Self = Self(7);
    pub const ELECT: Self = Self(8);
    pub const LEADER: Self = Self(9);
    pub const GOODBYE: Self = Self(10);
}

/// Id and number of a message, readable even if the rest is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Id of the message, possibly unknown.
    pub id: MessageId,
    /// Number of the message in the session.
    pub sequence: u16,
}

impl Header {
    /// Reads the beginning of a header frame.
    ///
    /// # Errors
    /// No signature, another version, or too short.
    pub fn decode(generation: Generation, r: &mut Reader<'_>) -> Result<Self> {
        let id = signed_id(r)?;
        if let Some(version) = generation.version() {
            expect(r, version, Reader::u8, "message version")?;
        }
        Ok(Self { id, sequence: r.u16_be("message sequence")? })
    }

    pub(super) fn encode(self, generation: Generation, sink: &mut impl Sink) -> Encoded {
        let MessageId(id) = self.id;
        if generation.is_legacy() && id > MessageId::PING_OK.0 {
            return Err(EncodeError::NotInGeneration { id, generation });
        }
        sink.put(&SIGNATURE.to_be_bytes());
        sink.put_u8(id);
        if let Some(version) = generation.version() {
            sink.put_u8(version);
        }
        sink.put(&self.sequence.to_be_bytes());
        Ok(())
    }
}

/// Signature and id, which all generations have.
pub(super) fn signed_id(r: &mut Reader<'_>) -> Result<MessageId> {
    expect(r, SIGNATURE, Reader::u16_be, "message signature")?;
    Ok(MessageId(r.u8("message id")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeErrorKind;
    use bytes::Bytes;

    fn decode(generation: Generation, raw: &'static [u8]) -> Result<Header> {
        Header::decode(generation, &mut Reader::new(&Bytes::from_static(raw)))
    }

    #[test]
    fn the_version_stands_behind_the_id() {
        let header = Header { id: MessageId::PING, sequence: 0x0306 };
        assert_eq!(decode(Generation::Rfc20, b"\xaa\xa1\x06\x03\x06"), Ok(header));
        assert_eq!(decode(Generation::Zyre1, b"\xaa\xa1\x06\x03\x06"), Ok(header));
        assert_eq!(decode(Generation::Rfc36, b"\xaa\xa1\x06\x02\x03\x06"), Ok(header));
        assert_eq!(decode(Generation::Rfc43, b"\xaa\xa1\x06\x03\x03\x06"), Ok(header));
    }

    #[test]
    fn another_version_or_signature_is_named() {
        let error = decode(Generation::Rfc36, b"\xaa\xa1\x01\x03\x00\x01").unwrap_err();
        assert_eq!((error.reading, error.offset), ("message version", 3));
        assert_eq!(error.kind, DecodeErrorKind::Illegal { value: 3 });
        let error = decode(Generation::Rfc36, b"\xaa\xa0\x01\x02\x00\x01").unwrap_err();
        assert_eq!((error.reading, error.offset), ("message signature", 0));
    }

    /// An unknown message still consumes a number.
    #[test]
    fn the_number_of_an_unknown_message_is_readable() {
        let header = decode(Generation::Rfc36, b"\xaa\xa1\x63\x02\x00\x09").unwrap();
        assert_eq!(header, Header { id: MessageId(0x63), sequence: 9 });
    }
}
