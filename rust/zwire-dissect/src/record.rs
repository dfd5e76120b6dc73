//! [`Record`]: one message of a capture.

use super::said::{self, Said, ZreMessage};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use thiserror::Error;
use zwire_proto::{
    Text,
    error::DecodeError,
    zenoh::{
        Encoding, Qos, Timestamp,
        wire::{
            Close, Consolidation, Declaration, Hello, Init, InterestMode, Join, NetworkMessage, Open, Push,
            PushBody, QueryTarget, Reply, Request, Response, ResponseBody, Scout, TransportOam, WireExpr,
        },
    },
    zre::wire::{Beacon, Gossip, Log},
};

/// Message of a capture, or bytes that could not be decoded.
///
/// Strings and payloads are slices of the capture. Formatting happens only on writing; each field of
/// the written form is a method here, `None` where a message does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the last byte of the message was captured, since the UNIX epoch.
    pub time: Duration,
    /// Sender; `None` for damage of the capture file itself.
    pub src: Option<SocketAddr>,
    /// Receiver, possibly a multicast group.
    pub dst: Option<SocketAddr>,
    /// Sequence number of the FRAME or the last FRAGMENT with the message; the initial one of OPEN.
    pub sn: Option<u32>,
    /// Text in front of the suffix of the message's key: the string declared for its scope, or the
    /// empty text. `None`: the message has no key, or its scope was declared outside of the capture.
    pub prefix: Option<Text>,
    /// The message.
    pub message: Message,
}

/// Content of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "the large one is the one that comes all the time")]
#[allow(missing_docs, reason = "the names of the documents")]
pub enum Message {
    /// PUSH, REQUEST, RESPONSE, RESPONSE_FINAL, DECLARE, INTEREST, OAM.
    Network(NetworkMessage),
    Init(Box<Init>),
    Open(Box<Open>),
    Close(Close),
    Join(Box<Join>),
    /// OAM of the transport; no known implementation sends it.
    TransportOam(TransportOam),
    Scout(Scout),
    Hello(Hello),
    /// Anything else on a connection of ZMTP: greetings, commands, messages of an application.
    Zmtp(Box<Said>),
    /// A datagram of ZRE.
    Beacon(Beacon),
    /// A message between nodes of ZRE.
    Zre(Box<ZreMessage>),
    Log(Box<Log>),
    /// A message of zgossip, by which nodes of ZRE find each other.
    Gossip(Box<Gossip>),
    /// Bytes that gave no message.
    Error(Fault),
}

/// Protocol of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Zenoh.
    Zenoh,
    /// ZMTP, with any messages of an application.
    Zmtp,
    /// ZRE, with its discovery.
    Zre,
    /// ZRE/LOG.
    ZreLog,
}

impl Protocol {
    /// Name of the protocol: `zenoh`, `zmtp`, `zre`, `zrelog`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zenoh => "zenoh",
            Self::Zmtp => "zmtp",
            Self::Zre => "zre",
            Self::ZreLog => "zrelog",
        }
    }
}

/// Bytes that gave no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Protocol of the bytes; `None` for damage of the capture file itself.
    pub protocol: Option<Protocol>,
    /// Offset in the stream, in the datagram, or in the file.
    pub offset: u64,
    /// Reason.
    pub cause: Cause,
}

/// Reason why bytes gave no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the text of each cause names its fields")]
pub enum Cause {
    /// A message that does not decode.
    #[error("{}: {}", .0.reading, .0.kind)]
    Decode(DecodeError),
    /// A length in front of a batch that no batch can have.
    #[error("batch of {len} bytes announced, {max} are possible")]
    Prefix { len: u64, max: u64 },
    /// Bytes that were on the wire and are not in the capture.
    #[error("{bytes} bytes are missing in the capture")]
    Missing { bytes: u64 },
    /// Bytes in which no batch begins.
    #[error("{bytes} bytes skipped up to the next batch")]
    Skipped { bytes: u64 },
    /// A frame that exceeds the length that is read, or the memory left.
    #[error("frame of {len} bytes not read, {max} are possible")]
    Frame { len: u64, max: u64 },
    /// A message with more frames than are read.
    #[error("message of more than {max} frames not read")]
    Frames { max: usize },
    /// A connection of ZMTP with its beginning not in the capture.
    #[error("the start of the connection is missing, its sender is not known, {bytes} bytes skipped")]
    Joined { bytes: u64 },
    /// Bytes in which no frame begins.
    #[error("{bytes} bytes skipped up to the next frame")]
    Unframed { bytes: u64 },
    /// The stream ends inside a greeting, a frame or a message of several frames.
    #[error("the capture ends inside a message, behind {bytes} bytes of it")]
    Unfinished { bytes: u64 },
    /// A CURVE box that does not open with the keys that opened the earlier boxes.
    #[error("{command}: the box does not open")]
    Sealed { command: &'static str },
    /// The stream or the datagram ends inside a batch.
    #[error("the capture ends inside a batch, behind {bytes} bytes of it")]
    Cut { bytes: u64 },
    /// A fragmented message that was not completed.
    #[error("message in fragments dropped behind {bytes} bytes, last sn {sn}: {why}")]
    Torn { sn: u32, bytes: u64, why: Torn },
    /// Fragments of a message, the first of which is not in the capture.
    #[error("fragments dropped from sn {sn} on: the start of their message is missing")]
    Stray { sn: u32 },
    /// Declarations beyond the memory bound: keys that use them stay unresolved.
    #[error("declaration not stored: more than {bound} bytes are declared")]
    TooManyDeclarations { bound: usize },
    /// Damage of the capture file. Later parts could be read, unless this is the last record.
    #[error("capture file: {}: {}", .0.reading, .0.kind)]
    Capture(DecodeError),
}

/// Reason why a fragmented message was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Torn {
    /// The next fragment has another sequence number than expected.
    #[error("a fragment is missing")]
    Missing,
    /// A FRAME of the same channel came in between.
    #[error("a frame came in between")]
    Interrupted,
    /// The Drop marker: the sender abandoned the message.
    #[error("the sender abandoned it")]
    GivenUp,
    /// The message exceeds the reassembly bound.
    #[error("it is too large")]
    TooLarge,
    /// The connection, or the capture, ended.
    #[error("the stream ends")]
    End,
}

/// A key expression in its two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// String declared for the scope.
    pub prefix: &'a str,
    /// Rest of the key; joined to the prefix without a separator.
    pub suffix: &'a str,
}

impl Record {
    /// Name of the message: `push`, `request`, `init`, `error`, …
    #[must_use]
    pub const fn message(&self) -> &'static str {
        match &self.message {
            Message::Network(message) => match message {
                NetworkMessage::Push(_) => "push",
                NetworkMessage::Request(_) => "request",
                NetworkMessage::Response(_) => "response",
                NetworkMessage::ResponseFinal(_) => "response_final",
                NetworkMessage::Declare(m) if is_undeclare(&m.body) => "undeclare",
                NetworkMessage::Declare(_) => "declare",
                NetworkMessage::Interest(_) => "interest",
                NetworkMessage::Oam(_) => "oam",
            },
            Message::Init(_) => "init",
            Message::Open(_) => "open",
            Message::Close(_) => "close",
            Message::Join(_) => "join",
            Message::TransportOam(_) => "oam",
            Message::Scout(_) => "scout",
            Message::Hello(_) => "hello",
            Message::Zmtp(said) => said.message(),
            Message::Beacon(_) => "beacon",
            Message::Zre(message) => message.message(),
            Message::Log(_) => "log",
            Message::Gossip(_) => "gossip",
            Message::Error(_) => "error",
        }
    }

    /// Protocol of the message; `None` for damage of the capture file itself.
    #[must_use]
    pub const fn protocol(&self) -> Option<Protocol> {
        Some(match &self.message {
            Message::Error(fault) => return fault.protocol,
            Message::Zmtp(_) => Protocol::Zmtp,
            Message::Beacon(_) | Message::Zre(_) | Message::Gossip(_) => Protocol::Zre,
            Message::Log(_) => Protocol::ZreLog,
            _ => Protocol::Zenoh,
        })
    }

    /// Subtype of the message: `put` or `del` of a push; `query` of a request; `put`, `del` or `err` of
    /// a response; the noun of a declaration; the mode of an interest; `syn` or `ack` of the handshake;
    /// the name of a ZMTP command, the generation of a ZRE message, the event of ZRE/LOG.
    #[must_use]
    pub const fn kind(&self) -> Option<&'static str> {
        Some(match &self.message {
            Message::Network(message) => match message {
                NetworkMessage::Push(Push { body, .. }) => body_kind(body),
                NetworkMessage::Request(_) => "query",
                NetworkMessage::Response(Response { body, .. }) => match body {
                    ResponseBody::Reply(Reply { body, .. }) => body_kind(body),
                    ResponseBody::Err(_) => "err",
                },
                NetworkMessage::Declare(m) => noun(&m.body),
                NetworkMessage::Interest(m) => match m.mode {
                    InterestMode::Final => "final",
                    InterestMode::Current => "current",
                    InterestMode::Future => "future",
                    InterestMode::CurrentFuture => "current_future",
                },
                NetworkMessage::ResponseFinal(_) | NetworkMessage::Oam(_) => return None,
            },
            Message::Init(m) if m.cookie.is_some() => "ack",
            Message::Init(_) => "syn",
            Message::Open(m) if m.cookie.is_some() => "syn",
            Message::Open(_) => "ack",
            Message::Zmtp(said) => return said.kind(),
            Message::Beacon(Beacon { port: 0, .. }) => "goodbye",
            Message::Zre(message) => return message.kind(),
            Message::Log(log) => return said::log_event(log.event),
            Message::Gossip(gossip) => said::gossip_kind(gossip),
            _ => return None,
        })
    }

    /// The key as on the wire.
    #[must_use]
    pub fn wire_key(&self) -> Option<&WireExpr> {
        if let Message::Network(message) = &self.message { wire_key(message) } else { None }
    }

    /// The full key, if its scope is known.
    #[must_use]
    pub fn key(&self) -> Option<Key<'_>> {
        let suffix = self.wire_key().map_or("", |key| key.suffix.as_str());
        self.prefix.as_ref().map(|prefix| Key { prefix: prefix.as_str(), suffix })
    }

    /// The key as on the wire, if its scope is unknown.
    #[must_use]
    pub fn unresolved(&self) -> Option<&WireExpr> {
        if self.prefix.is_some() { None } else { self.wire_key() }
    }

    /// The value of a put, query, reply or error, the data of a ZMTP command; `None` in shared memory.
    #[must_use]
    pub fn payload(&self) -> Option<&Bytes> {
        if let Message::Zmtp(said) = &self.message {
            return said.payload();
        }
        let (shm, payload) = match self.data()? {
            Data::Body(PushBody::Put(put)) => (put.shm, &put.payload),
            Data::Body(PushBody::Del(_)) => return None,
            Data::Query(query) => {
                let body = query.body.as_ref()?;
                (body.shm, &body.payload)
            }
            Data::Err(err) => (false, &err.payload),
        };
        if shm { None } else { Some(payload) }
    }

    /// The encoding of the value.
    #[must_use]
    pub fn encoding(&self) -> Option<&Encoding> {
        match self.data()? {
            Data::Body(PushBody::Put(put)) => Some(&put.encoding),
            Data::Body(PushBody::Del(_)) => None,
            Data::Query(query) => query.body.as_ref().map(|body| &body.encoding),
            Data::Err(err) => Some(&err.encoding),
        }
    }

    /// The time that the value carries.
    #[must_use]
    pub fn timestamp(&self) -> Option<&Timestamp> {
        match self.data()? {
            Data::Body(body) => body.timestamp(),
            Data::Query(_) | Data::Err(_) => None,
        }
    }

    /// The attachment of the user.
    #[must_use]
    pub fn attachment(&self) -> Option<&Bytes> {
        match self.data()? {
            Data::Body(PushBody::Put(put)) => put.attachment.as_ref(),
            Data::Body(PushBody::Del(del)) => del.attachment.as_ref(),
            Data::Query(query) => query.attachment.as_ref(),
            Data::Err(_) => None,
        }
    }

    /// The priority, 0 (control) to 7 (background).
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.qos().map(|qos| qos.priority() as u8)
    }

    /// The congestion control: `drop`, `block` or `block_first`.
    #[must_use]
    pub fn congestion(&self) -> Option<&'static str> {
        self.qos().map(|qos| qos.congestion().name())
    }

    /// Whether the message is express: sent without waiting to fill a batch.
    #[must_use]
    pub fn express(&self) -> Option<bool> {
        self.qos().map(Qos::express)
    }

    /// The number that joins a query, its replies and their end on one link.
    #[must_use]
    pub const fn request_id(&self) -> Option<u32> {
        match &self.message {
            Message::Network(NetworkMessage::Request(m)) => Some(m.id),
            Message::Network(NetworkMessage::Response(m)) => Some(m.id),
            Message::Network(NetworkMessage::ResponseFinal(m)) => Some(m.id),
            _ => None,
        }
    }

    /// The parameters of a query, possibly empty.
    #[must_use]
    pub fn parameters(&self) -> Option<&Text> {
        self.request().map(|request| &request.query.parameters)
    }

    /// The consolidation of a query.
    #[must_use]
    pub fn consolidation(&self) -> Option<&'static str> {
        Some(match self.request()?.query.consolidation {
            Consolidation::Auto => "auto",
            Consolidation::None => "none",
            Consolidation::Monotonic => "monotonic",
            Consolidation::Latest => "latest",
        })
    }

    /// The target of a query.
    #[must_use]
    pub fn target(&self) -> Option<&'static str> {
        Some(match self.request()?.target {
            QueryTarget::BestMatching => "best_matching",
            QueryTarget::All => "all",
            QueryTarget::AllComplete => "all_complete",
        })
    }

    /// The reason why bytes could not be decoded.
    #[must_use]
    pub const fn fault(&self) -> Option<&Fault> {
        if let Message::Error(fault) = &self.message { Some(fault) } else { None }
    }

    #[inline]
    fn qos(&self) -> Option<Qos> {
        if let Message::Network(message) = &self.message { Some(message.qos()) } else { None }
    }

    #[inline]
    fn request(&self) -> Option<&Request> {
        if let Message::Network(NetworkMessage::Request(request)) = &self.message {
            Some(request)
        } else {
            None
        }
    }

    #[inline]
    fn data(&self) -> Option<Data<'_>> {
        let Message::Network(message) = &self.message else { return None };
        match message {
            NetworkMessage::Push(m) => Some(Data::Body(&m.body)),
            NetworkMessage::Request(m) => Some(Data::Query(&m.query)),
            NetworkMessage::Response(m) => Some(match &m.body {
                ResponseBody::Reply(reply) => Data::Body(&reply.body),
                ResponseBody::Err(err) => Data::Err(err),
            }),
            _ => None,
        }
    }
}

/// The data message inside a network message.
enum Data<'a> {
    Body(&'a PushBody),
    Query(&'a zwire_proto::zenoh::wire::Query),
    Err(&'a zwire_proto::zenoh::wire::Err),
}

const fn body_kind(body: &PushBody) -> &'static str {
    match body {
        PushBody::Put(_) => "put",
        PushBody::Del(_) => "del",
    }
}

const fn is_undeclare(body: &Declaration) -> bool {
    matches!(
        body,
        Declaration::UndeclareKeyExpr { .. }
            | Declaration::UndeclareSubscriber { .. }
            | Declaration::UndeclareQueryable { .. }
            | Declaration::UndeclareToken { .. }
    )
}

const fn noun(body: &Declaration) -> &'static str {
    match body {
        Declaration::KeyExpr { .. } | Declaration::UndeclareKeyExpr { .. } => "keyexpr",
        Declaration::Subscriber { .. } | Declaration::UndeclareSubscriber { .. } => "subscriber",
        Declaration::Queryable { .. } | Declaration::UndeclareQueryable { .. } => "queryable",
        Declaration::Token { .. } | Declaration::UndeclareToken { .. } => "token",
        Declaration::Final => "final",
    }
}

#[inline]
pub(super) fn wire_key(message: &NetworkMessage) -> Option<&WireExpr> {
    match message {
        NetworkMessage::Push(m) => Some(&m.key),
        NetworkMessage::Request(m) => Some(&m.key),
        NetworkMessage::Response(m) => Some(&m.key),
        NetworkMessage::Interest(m) => m.key.as_ref(),
        NetworkMessage::Declare(m) => declared_key(&m.body),
        NetworkMessage::ResponseFinal(_) | NetworkMessage::Oam(_) => None,
    }
}

/// The key of a declaration; the empty key of an undeclaration counts as none.
pub(super) fn declared_key(body: &Declaration) -> Option<&WireExpr> {
    match body {
        Declaration::KeyExpr { key, .. }
        | Declaration::Subscriber { key, .. }
        | Declaration::Queryable { key, .. }
        | Declaration::Token { key, .. } => Some(key),
        Declaration::UndeclareSubscriber { key, .. }
        | Declaration::UndeclareQueryable { key, .. }
        | Declaration::UndeclareToken { key, .. } => match key {
            Some(key) if !key.is_empty() => Some(key),
            _ => None,
        },
        Declaration::UndeclareKeyExpr { .. } | Declaration::Final => None,
    }
}
