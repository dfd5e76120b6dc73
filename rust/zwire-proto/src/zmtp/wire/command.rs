//! Commands: a name and data in the body of a frame (`zmtp` 5).
//!
//! ```text
//! +-----+---------+------+
//! | len |  name   | data |   len: 1 to 255
//! +-----+---------+------+
//! ```
//!
//! Names are case-sensitive.

use super::{Cancel, Error, FrameHead, Ping, Pong, Subscribe};
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

/// A command between messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficCommand {
    /// SUBSCRIBE: starts a subscription.
    Subscribe(Subscribe),
    /// CANCEL: ends a subscription.
    Cancel(Cancel),
    /// PING: asks for a sign of life.
    Ping(Ping),
    /// PONG: answers a PING.
    Pong(Pong),
    /// ERROR: the end of the connection, with a reason.
    Error(Error),
    /// Any other command, which must be ignored.
    Unknown {
        /// Name of the command.
        name: Bytes,
        /// Data of the command.
        data: Bytes,
    },
}

impl TrafficCommand {
    /// Reads the body of a command's frame.
    ///
    /// # Errors
    /// Data that does not decode, with field and offset.
    pub fn decode(body: &Bytes) -> Result<Self> {
        let mut r = Reader::new(body);
        let name = command_name(&mut r)?;
        let is = |known: &str| name == known.as_bytes();
        Ok(if is(Subscribe::NAME) {
            Self::Subscribe(Subscribe::decode_data(&mut r)?)
        } else if is(Cancel::NAME) {
            Self::Cancel(Cancel::decode_data(&mut r)?)
        } else if is(Ping::NAME) {
            Self::Ping(Ping::decode_data(&mut r)?)
        } else if is(Pong::NAME) {
            Self::Pong(Pong::decode_data(&mut r)?)
        } else if is(Error::NAME) {
            Self::Error(Error::decode_data(&mut r)?)
        } else {
            let name = body.slice(1..=name.len());
            Self::Unknown { name, data: r.rest() }
        })
    }

    /// Writes the body of a command's frame.
    pub fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Subscribe(c) => c.encode(sink),
            Self::Cancel(c) => c.encode(sink),
            Self::Ping(c) => c.encode(sink),
            Self::Pong(c) => c.encode(sink),
            Self::Error(c) => c.encode(sink),
            Self::Unknown { name, data } => {
                // `decode` never makes a longer name, and no caller does.
                let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
                sink.put_u8(len);
                sink.put(&name[..usize::from(len)]);
                sink.put_shared(data);
            }
        }
    }
}

/// A list of properties and nothing else, as in READY and in PLAIN's INITIATE.
macro_rules! metadata_command {
    ($type:ident, $name:literal) => {
        impl crate::zmtp::wire::Command for $type {
            const NAME: &'static str = $name;

            fn decode_data(r: &mut crate::buf::Reader<'_>) -> crate::error::Result<Self> {
                Ok(Self { metadata: crate::zmtp::wire::Metadata::decode(r)? })
            }

            fn encode_data(&self, sink: &mut impl crate::buf::Sink) {
                self.metadata.encode(sink);
            }
        }
    };
}
pub(super) use metadata_command;

#[cfg(test)]
mod tests {
    use super::super::{
        Ready,
        testing::{kind, unhex},
    };
    use super::*;

    #[test]
    fn an_unknown_command_is_kept_and_written_again() {
        let body = unhex("04 70 69 6E 67 00 01");
        let command = TrafficCommand::decode(&body).unwrap();
        let TrafficCommand::Unknown { name, data } = &command else { panic!("{command:?}") };
        assert_eq!((&name[..], &data[..]), (&b"ping"[..], &[0, 1][..]));
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(out, body);
        // A second READY counts as unknown (`zmtp` 14).
        let ready = Ready::default().to_frame().slice(2..);
        assert!(matches!(TrafficCommand::decode(&ready), Ok(TrafficCommand::Unknown { .. })));
    }

    #[test]
    fn a_body_without_a_name_is_refused() {
        assert_eq!(kind(TrafficCommand::decode(&unhex(""))), DecodeErrorKind::Truncated { needed: 1 });
        assert_eq!(kind(TrafficCommand::decode(&unhex("00 50"))), DecodeErrorKind::Illegal { value: 0 });
        assert_eq!(
            kind(TrafficCommand::decode(&unhex("06 50 49 4E 47"))),
            DecodeErrorKind::Truncated { needed: 2 }
        );
        assert_eq!(kind(Ready::decode(&unhex("04 50 49 4E 47 00 00"))), DecodeErrorKind::Name);
    }
}
