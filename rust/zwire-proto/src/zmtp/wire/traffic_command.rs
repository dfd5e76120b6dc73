//! [`TrafficCommand`]: commands between messages (`zmtp` 5).

use super::{Cancel, Command, Error, Ping, Pong, Subscribe, command::put_short, command_name};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// A command between messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficCommand {
    /// A topic is wanted.
    Subscribe(Subscribe),
    /// It is not wanted any more.
    Cancel(Cancel),
    /// Are you there?
    Ping(Ping),
    /// I am.
    Pong(Pong),
    /// The end, with a reason.
    Error(Error),
    /// Any other, which is to be ignored.
    Unknown {
        /// Its name.
        name: Bytes,
        /// What follows it.
        data: Bytes,
    },
}

impl TrafficCommand {
    /// Reads the body of a command's frame.
    ///
    /// # Errors
    /// What does not decode, with field and offset.
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
                put_short(sink, name);
                sink.put_shared(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Ready,
        testing::{kind, unhex},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    #[test]
    fn an_unknown_command_is_kept_and_written_again() {
        let body = unhex("04 70 69 6E 67 00 01");
        let command = TrafficCommand::decode(&body).unwrap();
        let TrafficCommand::Unknown { name, data } = &command else { panic!("{command:?}") };
        assert_eq!((&name[..], &data[..]), (&b"ping"[..], &[0, 1][..]));
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(out, body);
        // A second READY is one of them (`zmtp` 14).
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
