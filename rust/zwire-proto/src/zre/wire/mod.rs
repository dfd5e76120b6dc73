//! Wire format of ZRE, one file for each message.
//!
//! | Content | Type | Place |
//! | --- | --- | --- |
//! | discovery | [`Beacon`] | one per datagram |
//! | messages between nodes | [`ZreMessage`] | a header frame, and content frames behind WHISPER and SHOUT |
//! | sender | [`IdentityForm`] | the identity of the DEALER |
//! | log collection | [`Log`] | one frame |
//! | discovery by gossip | [`Gossip`], [`Tuple`] | one frame |
//!
//! Strings have no declared character set, so they are octets here. Decoders are lenient: any octets,
//! any number of content frames, and octets and frames behind the end are ignored. Encoders are strict:
//! they refuse any message that is known to crash a peer (`zre` 21.1).
//!
//! ```text
//!  20/ZRE, zyre 1.0.0                    36/ZRE, 43/ZRE
//! +----+----+----+---------+----        +----+----+----+----+---------+----
//! | AA | A1 | id | sequence| body       | AA | A1 | id | 02 | sequence| body
//! +----+----+----+---------+----        +----+----+----+----+---------+----
//! ```
//!
//! All numbers are big-endian.

mod beacon;
mod elect;
mod error;
mod field;
mod gossip;
mod header;
mod hello;
mod identity;
mod join;
mod log;
mod ping;
mod shout;
mod stencil;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod whisper;

pub use beacon::Beacon;
pub use elect::{Elect, Leader};
pub use error::EncodeError;
pub use gossip::{Gossip, Tuple};
pub use header::{Header, MessageId};
pub use hello::{Address, Hello};
pub use identity::IdentityForm;
pub use join::{Join, Leave};
pub use log::{Log, LogEvent, LogLevel, log_hash, log_hash_of};
pub use shout::Shout;
pub use stencil::Stencil;
pub use whisper::Whisper;

use super::Generation;
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

/// Message with its number, sent as one ZMTP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZreMessage {
    /// Number in the session: starts at 1, wraps from 65535 to 0.
    pub sequence: u16,
    /// Content of the message.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// HELLO: introduces a node.
    Hello(Hello),
    /// WHISPER: a content for one peer.
    Whisper(Whisper),
    /// SHOUT: a content for a group.
    Shout(Shout),
    /// JOIN: the sender joins a group.
    Join(Join),
    /// LEAVE: the sender leaves a group.
    Leave(Leave),
    /// PING: asks for a sign of life.
    Ping,
    /// PING-OK: answers a PING.
    PingOk,
    /// ELECT: a candidate; zyre 2.0.1 and later.
    Elect(Elect),
    /// LEADER: the winner; zyre 2.0.1 and later.
    Leader(Leader),
    /// GOODBYE: the sender leaves the network; zyre 2.0.1 and later.
    Goodbye,
}

impl Body {
    /// The number of the message.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Hello(_) => MessageId::HELLO,
            Self::Whisper(_) => MessageId::WHISPER,
            Self::Shout(_) => MessageId::SHOUT,
            Self::Join(_) => MessageId::JOIN,
            Self::Leave(_) => MessageId::LEAVE,
            Self::Ping => MessageId::PING,
            Self::PingOk => MessageId::PING_OK,
            Self::Elect(_) => MessageId::ELECT,
            Self::Leader(_) => MessageId::LEADER,
            Self::Goodbye => MessageId::GOODBYE,
        }
    }

    /// The frames behind the header frame.
    #[must_use]
    pub fn content(&self) -> &[Bytes] {
        match self {
            Self::Whisper(whisper) => &whisper.content,
            Self::Shout(shout) => &shout.content,
            _ => &[],
        }
    }
}

impl ZreMessage {
    /// Decodes a message in the generation of the peer's HELLO.
    ///
    /// # Errors
    /// A message that does not decode, with field and offset in the header frame.
    pub fn decode(generation: Generation, frames: &[Bytes]) -> Result<Self> {
        let none = Bytes::new();
        let (frame, content) = match frames {
            [frame, content @ ..] => (frame, content),
            [] => (&none, frames),
        };
        let mut r = Reader::new(frame);
        let header = Header::decode(generation, &mut r)?;
        let body = match header.id {
            MessageId::HELLO => Body::Hello(Hello::decode(generation, &mut r)?),
            MessageId::WHISPER => Body::Whisper(Whisper::decode(content)?),
            MessageId::SHOUT => Body::Shout(Shout::decode(&mut r, content)?),
            MessageId::JOIN => Body::Join(Join::decode(&mut r)?),
            MessageId::LEAVE => Body::Leave(Leave::decode(&mut r)?),
            MessageId::PING => Body::Ping,
            MessageId::PING_OK => Body::PingOk,
            MessageId::ELECT if !generation.is_legacy() => Body::Elect(Elect::decode(&mut r)?),
            MessageId::LEADER if !generation.is_legacy() => Body::Leader(Leader::decode(&mut r)?),
            MessageId::GOODBYE if !generation.is_legacy() => Body::Goodbye,
            MessageId(id) => return Err(r.error("message id", 2, DecodeErrorKind::UnknownId { id })),
        };
        Ok(Self { sequence: header.sequence, body })
    }

    /// The frames of the message.
    ///
    /// # Errors
    /// A message that must not be sent; see [`EncodeError`].
    pub fn encode(&self, generation: Generation) -> core::result::Result<Vec<Bytes>, EncodeError> {
        let mut header = Vec::new();
        Self::encode_body(generation, self.sequence, &self.body, &mut header)?;
        let mut frames = Vec::with_capacity(1 + self.body.content().len());
        frames.push(header.into());
        frames.extend_from_slice(self.body.content());
        Ok(frames)
    }

    fn encode_body(
        generation: Generation,
        sequence: u16,
        body: &Body,
        sink: &mut impl Sink,
    ) -> core::result::Result<(), EncodeError> {
        Header { id: body.id(), sequence }.encode(generation, sink)?;
        match body {
            Body::Hello(hello) => hello.encode(generation, sink),
            Body::Whisper(whisper) => whisper.check(generation),
            Body::Shout(shout) => shout.encode(generation, sink),
            Body::Join(join) => join.encode(sink),
            Body::Leave(leave) => leave.encode(sink),
            Body::Ping | Body::PingOk | Body::Goodbye => Ok(()),
            Body::Elect(elect) => elect.encode(sink),
            Body::Leader(leader) => leader.encode(sink),
        }
    }
}
