//! Wire format of Zenoh, one file for each message, and the enums of messages.
//!
//! | Layer | Enum | Place |
//! | --- | --- | --- |
//! | scouting | [`ScoutingMessage`] | one per datagram |
//! | transport | [`TransportMessage`] | one or more per batch |
//! | network | [`NetworkMessage`] | one or more per FRAME, cut into FRAGMENTs, or bare in low latency |
//!
//! [`BatchReader`] walks a batch. Unknown optional extensions are skipped, unknown mandatory ones
//! are an error that names them.

mod batch_reader;
mod close;
mod common;
mod declare;
mod del;
mod err;
mod ext;
mod frame;
mod header;
mod init;
mod interest;
mod join;
mod link_state;
mod oam;
mod open;
mod push;
mod put;
mod query;
mod reply;
mod request;
mod response;
mod response_final;
mod scout;
mod shm;
#[cfg(test)]
pub(super) mod testing;
mod wire_expr;

pub use batch_reader::{BatchItem, BatchReader};
pub use close::{Close, CloseReason};
pub use common::{Resolution, SourceInfo, TsRecord, TsStack};
pub use declare::{Declaration, Declare, QueryableInfo};
pub use del::Del;
pub use err::Err;
pub use ext::{ExtBody, UnknownExt};
pub use frame::{Fragment, Frame};
pub use init::{Init, InitExt, QosOffer};
pub use interest::{Interest, InterestMode, InterestOptions};
pub use join::{Join, NextSn};
pub use link_state::{LinkState, LinkStateList};
pub use oam::{Oam, TransportOam};
pub use open::{Open, OpenExt, OpenMultiLink, OpenShm};
use push::Plain;
pub use push::{Push, PushBody};
pub use put::Put;
pub use query::{Consolidation, Query, QueryBody};
pub use reply::Reply;
pub use request::{QueryTarget, Request};
pub use response::{ResponderId, Response, ResponseBody};
pub use response_final::ResponseFinal;
pub use scout::{Hello, Scout};
pub use shm::{NamedDescription, PayloadSlice};
pub use wire_expr::{Mapping, WireExpr};

use super::{Payload, Qos, Reliability};
use crate::{
    buf::{Gather, Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use header::ID_MASK;
use std::borrow::Cow;

/// Whether `header` starts a network message: the first other header ends a FRAME.
#[must_use]
pub const fn is_network(header: u8) -> bool {
    header & ID_MASK >= interest::ID
}

/// A message between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkMessage {
    /// A publication.
    Push(Push),
    /// A query.
    Request(Request),
    /// A reply or an error.
    Response(Response),
    /// The end of the replies.
    ResponseFinal(ResponseFinal),
    /// A declaration.
    Declare(Declare),
    /// A request for declarations.
    Interest(Interest),
    /// Operation, administration, maintenance.
    Oam(Oam),
}

impl NetworkMessage {
    /// Reads one message.
    ///
    /// # Errors
    /// A message that does not decode, with field and offset.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match Plain::decode(r) {
            Some(plain) => Ok(Self::Push(plain.build())),
            None => Self::decode_any(r),
        }
    }

    /// Reads one message to the end of `out`, with its reliability, or skips it if that is `None`. A
    /// plain message is built in its final place: a `Result` would move it twice.
    #[inline]
    pub(crate) fn decode_to(
        r: &mut Reader<'_>,
        reliability: Option<Reliability>,
        out: &mut Vec<(Self, Reliability)>,
    ) -> Result<()> {
        let plain = Plain::decode(r);
        match (plain, reliability) {
            // If the list has room already, the message is built in it.
            (Some(plain), Some(reliability)) => {
                out.extend(core::iter::once_with(|| (Self::Push(plain.build()), reliability)));
            }
            (Some(_), None) => {}
            (None, Some(reliability)) => out.push((Self::decode_any(r)?, reliability)),
            (None, None) => drop(Self::decode_any(r)?),
        }
        Ok(())
    }

    #[inline(never)]
    fn decode_any(r: &mut Reader<'_>) -> Result<Self> {
        let offset = r.offset();
        let header = r.u8("network message")?;
        match header & ID_MASK {
            push::ID => Push::decode(header, r).map(Self::Push),
            request::ID => Request::decode(header, r).map(Self::Request),
            response::ID => Response::decode(header, r).map(Self::Response),
            response_final::ID => ResponseFinal::decode(header, r).map(Self::ResponseFinal),
            declare::ID => Declare::decode(header, r).map(Self::Declare),
            interest::ID => Interest::decode(header, r).map(Self::Interest),
            oam::ID => Oam::decode(header, r).map(Self::Oam),
            id => Err(r.error("network message", offset, DecodeErrorKind::UnknownId { id })),
        }
    }

    /// Writes the message.
    #[inline]
    pub fn encode(&self, sink: &mut impl Sink) {
        if let Self::Push(push) = self
            && push.encode_plain(sink)
        {
            return;
        }
        self.encode_any(sink);
    }

    /// Writes a message with all its fields. It is a function of its own since the registers it needs would have to be
    /// saved for each [plain](Push::encode_plain) message.
    #[inline(never)]
    fn encode_any(&self, sink: &mut impl Sink) {
        let mut sink = Gather::new(sink);
        match self {
            Self::Push(m) => m.encode(&mut sink),
            Self::Request(m) => m.encode(&mut sink),
            Self::Response(m) => m.encode(&mut sink),
            Self::ResponseFinal(m) => m.encode(&mut sink),
            Self::Declare(m) => m.encode(&mut sink),
            Self::Interest(m) => m.encode(&mut sink),
            Self::Oam(m) => m.encode(&mut sink),
        }
        sink.finish();
    }

    /// Whether the payload is a description of shared memory, not the value (`zenoh-wire` 5.8).
    #[must_use]
    pub const fn is_in_shared_memory(&self) -> bool {
        match self {
            Self::Push(Push { body: PushBody::Put(put), .. })
            | Self::Response(Response {
                body: ResponseBody::Reply(Reply { body: PushBody::Put(put), .. }),
                ..
            }) => put.shm,
            Self::Request(Request { query: Query { body: Some(body), .. }, .. }) => body.shm,
            _ => false,
        }
    }

    /// Payload that may be in shared memory: that of a PUT or a QUERY body.
    #[must_use]
    #[inline]
    pub const fn shareable(&self) -> Option<&Payload> {
        match self {
            Self::Push(Push { body: PushBody::Put(put), .. })
            | Self::Response(Response {
                body: ResponseBody::Reply(Reply { body: PushBody::Put(put), .. }),
                ..
            }) => Some(&put.payload),
            Self::Request(Request { query: Query { body: Some(body), .. }, .. }) => Some(&body.payload),
            _ => None,
        }
    }

    /// Replaces the payload of [`Self::shareable`] and says whether the new one is in sliced form. A message without
    /// such a payload stays as it is.
    pub fn replace_shareable(&mut self, new: Payload, sliced: bool) {
        match self {
            Self::Push(Push { body: PushBody::Put(put), .. })
            | Self::Response(Response {
                body: ResponseBody::Reply(Reply { body: PushBody::Put(put), .. }),
                ..
            }) => (put.payload, put.shm) = (new, sliced),
            Self::Request(Request { query: Query { body: Some(body), .. }, .. }) => {
                (body.payload, body.shm) = (new, sliced);
            }
            _ => {}
        }
    }

    /// The message with its payload in memory that stays; `None` if its payload was taken back. Messages without a payload
    /// in revocable memory are not copied.
    #[must_use]
    #[inline]
    pub fn secured(&self) -> Option<Cow<'_, Self>> {
        match self.shareable() {
            Some(payload) if payload.revocable().is_some() => self.secured_copy().map(Cow::Owned),
            _ => Some(Cow::Borrowed(self)),
        }
    }

    #[cold]
    fn secured_copy(&self) -> Option<Self> {
        let mut message = self.clone();
        let mut payload = message.shareable()?.clone();
        payload.secure().then(|| message.replace_shareable(payload, false))?;
        Some(message)
    }

    /// QoS of the message, which every network message has.
    #[must_use]
    pub const fn qos(&self) -> Qos {
        match self {
            Self::Push(m) => m.qos,
            Self::Request(m) => m.qos,
            Self::Response(m) => m.qos,
            Self::ResponseFinal(m) => m.qos,
            Self::Declare(m) => m.qos,
            Self::Interest(m) => m.qos,
            Self::Oam(m) => m.qos,
        }
    }
}

/// A message of one transport. The contents of FRAME and FRAGMENT follow it in the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportMessage {
    /// First and second of the handshake.
    Init(Init),
    /// Third and fourth of the handshake.
    Open(Open),
    /// The end of a link or session.
    Close(Close),
    /// KEEP_ALIVE of an idle link.
    KeepAlive,
    /// Head of network messages.
    Frame(Frame),
    /// Head of a part of a network message.
    Fragment(Fragment),
    /// Presence in a multicast group.
    Join(Join),
    /// Ignored by all implementations.
    Oam(TransportOam),
}

impl TransportMessage {
    /// Reads one message; for FRAME and FRAGMENT the head only.
    ///
    /// # Errors
    /// A message that does not decode, with field and offset.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let offset = r.offset();
        let header = r.u8("transport message")?;
        match header & ID_MASK {
            frame::ID => Frame::decode(header, r).map(Self::Frame),
            frame::FRAGMENT_ID => Fragment::decode(header, r).map(Self::Fragment),
            close::KEEP_ALIVE_ID => {
                ext::skip_chain(header, r, "KEEP_ALIVE extension").map(|()| Self::KeepAlive)
            }
            close::ID => Close::decode(header, r).map(Self::Close),
            init::ID => Init::decode(header, r).map(Self::Init),
            open::ID => Open::decode(header, r).map(Self::Open),
            join::ID => Join::decode(header, r).map(Self::Join),
            oam::TRANSPORT_ID => TransportOam::decode(header, r).map(Self::Oam),
            id => Err(r.error("transport message", offset, DecodeErrorKind::UnknownId { id })),
        }
    }

    /// Whether a message with this header is a JOIN.
    pub(crate) const fn is_join(header: u8) -> bool {
        header & ID_MASK == join::ID
    }

    /// Writes the message; for FRAME and FRAGMENT the head only.
    pub fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Init(m) => m.encode(sink),
            Self::Open(m) => m.encode(sink),
            Self::Close(m) => m.encode(sink),
            Self::KeepAlive => sink.put_u8(close::KEEP_ALIVE_ID),
            Self::Frame(m) => m.encode(sink),
            Self::Fragment(m) => m.encode(sink),
            Self::Join(m) => m.encode(sink),
            Self::Oam(m) => m.encode(sink),
        }
    }
}

/// Scouting message, one per datagram. Bytes behind it are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoutingMessage {
    /// SCOUT, the request.
    Scout(Scout),
    /// HELLO, the answer.
    Hello(Hello),
}

impl ScoutingMessage {
    /// Reads one message.
    ///
    /// # Errors
    /// A message that does not decode, with field and offset.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let offset = r.offset();
        let header = r.u8("scouting message")?;
        match header & ID_MASK {
            scout::SCOUT_ID => Scout::decode(header, r).map(Self::Scout),
            scout::HELLO_ID => Hello::decode(header, r).map(Self::Hello),
            id => Err(r.error("scouting message", offset, DecodeErrorKind::UnknownId { id })),
        }
    }

    /// Writes the message.
    pub fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Scout(m) => m.encode(sink),
            Self::Hello(m) => m.encode(sink),
        }
    }
}
