//! Wire format of ZRE.
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
mod error;
mod field;
mod gossip;
mod header;
mod hello;
mod identity;
mod log;
mod stencil;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub use beacon::Beacon;
pub use error::EncodeError;
pub use gossip::{Gossip, Tuple};
pub use header::{Header, MessageId};
pub use hello::{Address, Hello};
pub use identity::IdentityForm;
pub use log::{Log, LogEvent, LogLevel, log_hash, log_hash_of};
pub use stencil::Stencil;

use super::Generation;
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;
use field::{Encoded, check_content, content_of, put_name, string};

/// Message with its number, sent as one ZMTP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZreMessage {
    /// Number in the session: starts at 1, wraps from 65535 to 0.
    pub sequence: u16,
    /// Content of the message.
    pub body: Body,
}

/// Content of a message: the fields behind the header, and the frames behind the header frame.
///
/// Groups are names in which upper and lower case differ; a candidate is the text of a UUID, 32
/// hexadecimal digits. The status of JOIN and LEAVE counts how often the sender joined or left a group,
/// this change included, modulo 256.
#[allow(missing_docs, reason = "fields as named by the documents, explained above")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// HELLO, id 1: introduces a node.
    Hello(Hello),
    /// WHISPER, id 2: a content for one peer, in one frame in 20/ZRE, in any number later. A decoder
    /// accepts none; an encoder requires at least one.
    Whisper { content: Vec<Bytes> },
    /// SHOUT, id 3: a content for a group, as in WHISPER. Each member gets its own copy; the sender need
    /// not be a member.
    Shout { group: Bytes, content: Vec<Bytes> },
    /// JOIN, id 4: the sender joins a group.
    Join { group: Bytes, status: u8 },
    /// LEAVE, id 5: the sender leaves a group.
    Leave { group: Bytes, status: u8 },
    /// PING, id 6: asks for a sign of life.
    Ping,
    /// PING-OK, id 7: answers a PING; it does not tell which one.
    PingOk,
    /// ELECT, id 8: a candidate for the leadership of a group, of which the smallest wins; in no RFC,
    /// zyre 2.0.1 and later (`zre` 12).
    Elect { group: Bytes, challenger: Bytes },
    /// LEADER, id 9: the winner; like ELECT.
    Leader { group: Bytes, leader: Bytes },
    /// GOODBYE, id 10: the sender leaves the network; zyre 2.0.1 and later. Other peers lose count and
    /// drop the sender.
    Goodbye,
}

impl Body {
    /// The number of the message.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Hello(_) => MessageId::HELLO,
            Self::Whisper { .. } => MessageId::WHISPER,
            Self::Shout { .. } => MessageId::SHOUT,
            Self::Join { .. } => MessageId::JOIN,
            Self::Leave { .. } => MessageId::LEAVE,
            Self::Ping => MessageId::PING,
            Self::PingOk => MessageId::PING_OK,
            Self::Elect { .. } => MessageId::ELECT,
            Self::Leader { .. } => MessageId::LEADER,
            Self::Goodbye => MessageId::GOODBYE,
        }
    }

    /// The frames behind the header frame.
    #[must_use]
    pub fn content(&self) -> &[Bytes] {
        match self {
            Self::Whisper { content } | Self::Shout { content, .. } => content,
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
            MessageId::WHISPER => Body::Whisper { content: content_of(content, "WHISPER content")? },
            MessageId::SHOUT => {
                let group = string(&mut r, "SHOUT group")?;
                Body::Shout { group, content: content_of(content, "SHOUT content")? }
            }
            MessageId::JOIN => {
                Body::Join { group: string(&mut r, "JOIN group")?, status: r.u8("JOIN status")? }
            }
            MessageId::LEAVE => {
                Body::Leave { group: string(&mut r, "LEAVE group")?, status: r.u8("LEAVE status")? }
            }
            MessageId::PING => Body::Ping,
            MessageId::PING_OK => Body::PingOk,
            MessageId::ELECT if !generation.is_legacy() => {
                let group = string(&mut r, "ELECT group")?;
                Body::Elect { group, challenger: string(&mut r, "ELECT challenger")? }
            }
            MessageId::LEADER if !generation.is_legacy() => {
                let group = string(&mut r, "LEADER group")?;
                Body::Leader { group, leader: string(&mut r, "LEADER leader")? }
            }
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

    fn encode_body(generation: Generation, sequence: u16, body: &Body, sink: &mut impl Sink) -> Encoded {
        Header { id: body.id(), sequence }.encode(generation, sink)?;
        match body {
            Body::Hello(hello) => hello.encode(generation, sink)?,
            Body::Whisper { content } => check_content(generation, content, "WHISPER")?,
            Body::Shout { group, content } => {
                check_content(generation, content, "SHOUT")?;
                put_name(sink, group, "SHOUT group")?;
            }
            Body::Join { group, status } => {
                put_name(sink, group, "JOIN group")?;
                sink.put_u8(*status);
            }
            Body::Leave { group, status } => {
                put_name(sink, group, "LEAVE group")?;
                sink.put_u8(*status);
            }
            Body::Ping | Body::PingOk | Body::Goodbye => {}
            Body::Elect { group, challenger } => {
                put_name(sink, group, "ELECT group")?;
                put_name(sink, challenger, "ELECT challenger")?;
            }
            Body::Leader { group, leader } => {
                put_name(sink, group, "LEADER group")?;
                put_name(sink, leader, "LEADER leader")?;
            }
        }
        Ok(())
    }
}
