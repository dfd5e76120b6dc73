//! Commands: a name and data in the body of a frame (`zmtp` 5).
//!
//! ```text
//! +-----+---------+------+
//! | len |  name   | data |   len: 1 to 255
//! +-----+---------+------+
//! ```
//!
//! Names are case-sensitive.

use super::{FrameHead, Metadata};
use crate::{
    buf::{Counter, Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

/// The name at the start of a command's body. The reader is left at the data.
///
/// # Errors
/// An empty body, an empty name, or a name that is longer than the body.
pub fn command_name<'a>(r: &mut Reader<'a>) -> Result<&'a [u8]> {
    const READING: &str = "command name";
    let offset = r.offset();
    match r.u8(READING)? {
        0 => Err(r.error(READING, offset, DecodeErrorKind::Illegal { value: 0 })),
        len => r.slice(len.into(), READING),
    }
}

/// A command: a name and the data behind it.
pub trait Command: Sized {
    /// Name on the wire.
    const NAME: &'static str;

    /// Reads the data, to its end.
    ///
    /// # Errors
    /// Data that does not decode, with field and offset.
    fn decode_data(r: &mut Reader<'_>) -> Result<Self>;

    /// Writes the data.
    fn encode_data(&self, sink: &mut impl Sink);

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// Another name, or data that does not decode.
    fn decode(body: &Bytes) -> Result<Self> {
        let mut r = Reader::new(body);
        if command_name(&mut r)? != Self::NAME.as_bytes() {
            return Err(r.error(Self::NAME, 0, DecodeErrorKind::Name));
        }
        Self::decode_data(&mut r)
    }

    /// Writes the body of the frame.
    fn encode(&self, sink: &mut impl Sink) {
        #[allow(clippy::cast_possible_truncation, reason = "names have up to nine bytes")]
        sink.put_u8(Self::NAME.len() as u8);
        sink.put(Self::NAME.as_bytes());
        self.encode_data(sink);
    }

    /// Writes the whole frame.
    fn encode_frame(&self, sink: &mut impl Sink) {
        let mut len = Counter::default();
        self.encode(&mut len);
        FrameHead::command(len.0).encode(sink);
        self.encode(sink);
    }

    /// The whole frame.
    fn to_frame(&self) -> Bytes {
        let mut out = Vec::new();
        self.encode_frame(&mut out);
        out.into()
    }
}

/// Writes up to 255 bytes behind a byte with their number. More, which no caller has, are cut.
pub(super) fn put_short(sink: &mut impl Sink, bytes: &[u8]) {
    let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    sink.put_u8(len);
    sink.put(&bytes[..usize::from(len)]);
}

/// Data of a command with one field, to the end of the frame.
pub(super) trait Data: Sized {
    fn decode(r: &mut Reader<'_>) -> Result<Self>;

    fn encode(&self, sink: &mut impl Sink);
}

impl Data for Bytes {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.rest())
    }

    fn encode(&self, sink: &mut impl Sink) {
        sink.put_shared(self);
    }
}

impl Data for Metadata {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Self::decode(r)
    }

    fn encode(&self, sink: &mut impl Sink) {
        self.encode(sink);
    }
}

/// Implements [`Command`] for a type with one field.
macro_rules! command {
    ($type:ident, $name:literal, $field:ident) => {
        impl crate::zmtp::wire::Command for $type {
            const NAME: &'static str = $name;

            fn decode_data(r: &mut crate::buf::Reader<'_>) -> crate::error::Result<Self> {
                Ok(Self { $field: crate::zmtp::wire::command::Data::decode(r)? })
            }

            fn encode_data(&self, sink: &mut impl crate::buf::Sink) {
                crate::zmtp::wire::command::Data::encode(&self.$field, sink);
            }
        }
    };
}
pub(super) use command;
