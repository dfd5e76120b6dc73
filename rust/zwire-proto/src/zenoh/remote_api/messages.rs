//! Tables of the messages, in both directions.

use super::{
    RemoteHead,
    field::{Field, RemoteLink, RemoteQos, RemoteSettings, RemoteTransport},
};
use crate::{
    Text,
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
    zenoh::{
        Encoding, KeyExpr, Payload, Timestamp, ZenohId,
        session::{Locality, SampleKind},
    },
};
use bytes::Bytes;

/// Declares an enum of messages by their ids, with the codec of their fields in this order.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $id:literal $variant:ident { $($field:ident: $kind:ty),* $(,)? })+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "fields have the names of the protocol")]
        #[allow(clippy::large_enum_variant, reason = "messages are read one by one")]
        pub enum $name {
            $($(#[$variant_doc])* $variant { $($field: $kind),* },)+
        }

        impl $name {
            /// Reads the fields of the message with an id.
            ///
            /// # Errors
            /// The id is unknown, or a field is wrong. Octets behind the last field are not looked at.
            pub fn decode(id: u8, r: &mut Reader<'_>) -> Result<Self> {
                match id {
                    $($id => Ok(Self::$variant {
                        $($field: Field::read(r, concat!(stringify!($variant), " ", stringify!($field)))?),*
                    }),)+
                    _ => Err(r.error("remote message id", 0, DecodeErrorKind::UnknownId { id })),
                }
            }

            /// Id of the message.
            #[must_use]
            pub const fn id(&self) -> u8 {
                match self { $(Self::$variant { .. } => $id,)+ }
            }

            /// Writes the message; `sequence` is the number of a request that is to be answered, or is answered.
            pub fn encode(&self, sequence: Option<u32>, sink: &mut impl Sink) {
                RemoteHead { id: self.id(), sequence }.encode(sink);
                match self {
                    $(Self::$variant { $($field),* } => { $($field.write(sink);)* })+
                }
            }
        }
    };
}

impl RemoteRequest {
    /// Reads the id of a get out of the fields of a message that cannot be read as a whole; `None` for another message.
    pub fn get_id(id: u8, r: &mut Reader<'_>) -> Option<u32> {
        const GET: u8 = 18;
        const QUERIER_GET: u8 = 19;
        const LIVELINESS_GET: u8 = 20;
        match id {
            GET | QUERIER_GET | LIVELINESS_GET => r.array("get id").ok().map(u32::from_le_bytes),
            _ => None,
        }
    }
}

messages! {
    /// Message of a client. Ids of entities and gets are chosen by the client.
    RemoteRequest {
        /// Declares a publisher.
        0 DeclarePublisher { id: u32, key: KeyExpr, encoding: Encoding, qos: RemoteQos }
        /// Undeclares a publisher.
        1 UndeclarePublisher { id: u32 }
        /// Declares a subscriber.
        2 DeclareSubscriber { id: u32, key: KeyExpr, origin: Locality }
        /// Undeclares a subscriber.
        3 UndeclareSubscriber { id: u32 }
        /// Declares a queryable.
        4 DeclareQueryable { id: u32, key: KeyExpr, complete: bool, origin: Locality }
        /// Undeclares a queryable.
        5 UndeclareQueryable { id: u32 }
        /// Declares a querier.
        6 DeclareQuerier { id: u32, key: KeyExpr, qos: RemoteQos, settings: RemoteSettings, timeout_ms: u32 }
        /// Undeclares a querier.
        7 UndeclareQuerier { id: u32 }
        /// Declares a liveliness token.
        8 DeclareToken { id: u32, key: KeyExpr }
        /// Undeclares a liveliness token.
        9 UndeclareToken { id: u32 }
        /// Declares a liveliness subscriber.
        10 DeclareLivelinessSubscriber { id: u32, key: KeyExpr, history: bool }
        /// Undeclares a liveliness subscriber.
        11 UndeclareLivelinessSubscriber { id: u32 }
        /// Asks for the ids of the session and of its neighbours.
        12 GetSessionInfo {}
        /// Asks for a new timestamp.
        13 GetTimestamp {}
        /// Publishes.
        14 Put {
            key: KeyExpr, payload: Payload, encoding: Encoding, attachment: Option<Bytes>,
            timestamp: Option<Timestamp>, qos: RemoteQos,
        }
        /// Deletes.
        15 Delete { key: KeyExpr, attachment: Option<Bytes>, timestamp: Option<Timestamp>, qos: RemoteQos }
        /// Publishes with a publisher.
        16 PublisherPut {
            publisher: u32, payload: Payload, encoding: Option<Encoding>, attachment: Option<Bytes>,
            timestamp: Option<Timestamp>,
        }
        /// Deletes with a publisher.
        17 PublisherDelete { publisher: u32, attachment: Option<Bytes>, timestamp: Option<Timestamp> }
        /// Queries.
        18 Get {
            id: u32, key: KeyExpr, parameters: Text, payload: Option<Payload>, encoding: Option<Encoding>,
            attachment: Option<Bytes>, qos: RemoteQos, settings: RemoteSettings, timeout_ms: u32,
        }
        /// Queries with a querier.
        19 QuerierGet {
            id: u32, querier: u32, parameters: Text, payload: Option<Payload>, encoding: Option<Encoding>,
            attachment: Option<Bytes>,
        }
        /// Asks for liveliness tokens.
        20 LivelinessGet { id: u32, key: KeyExpr, timeout_ms: u32 }
        /// Replies to a query with a value.
        21 ReplyOk {
            query: u32, key: KeyExpr, payload: Payload, encoding: Encoding, attachment: Option<Bytes>,
            timestamp: Option<Timestamp>, qos: RemoteQos,
        }
        /// Replies to a query with a deletion.
        22 ReplyDel {
            query: u32, key: KeyExpr, attachment: Option<Bytes>, timestamp: Option<Timestamp>, qos: RemoteQos,
        }
        /// Replies to a query with an error.
        23 ReplyErr { query: u32, payload: Payload, encoding: Encoding }
        /// Ends the replies to a query.
        24 FinishQuery { query: u32 }
        /// Asks for an answer.
        25 Ping {}
        /// Declares a listener of the matching state of a publisher.
        26 DeclareMatchingListener { id: u32, publisher: u32 }
        /// Undeclares a listener of a matching state.
        27 UndeclareMatchingListener { id: u32 }
        /// Asks whether a publisher has subscribers.
        28 GetMatchingStatus { publisher: u32 }
        /// Declares a listener of the matching state of a querier.
        29 DeclareQuerierMatchingListener { id: u32, querier: u32 }
        /// Asks whether a querier has queryables.
        30 GetQuerierMatchingStatus { querier: u32 }
        /// Asks for the connected nodes.
        31 GetTransports {}
        /// Asks for the links.
        32 GetLinks {}
        /// Declares a listener of connected nodes.
        33 DeclareTransportListener { id: u32, history: bool }
        /// Undeclares a listener of connected nodes.
        34 UndeclareTransportListener { id: u32 }
        /// Declares a listener of links.
        35 DeclareLinkListener { id: u32, history: bool }
        /// Undeclares a listener of links.
        36 UndeclareLinkListener { id: u32 }
    }
}

messages! {
    /// Message to a client: answers repeat the number of their request, events have none.
    RemoteEvent {
        /// Answer to a ping: an id of the connection.
        0 PingAck { uuid: Text }
        /// Answer: the request with this id was carried out.
        1 Done { request: u8 }
        /// Answer: the request was not carried out.
        2 Failed { problem: Text }
        /// Answer: a timestamp.
        3 Timestamp { timestamp: Timestamp }
        /// Answer: ids of the session and of its neighbours.
        4 SessionInfo { zid: ZenohId, routers: Vec<ZenohId>, peers: Vec<ZenohId> }
        /// Sample of a subscriber.
        5 Sample {
            subscriber: u32, key: KeyExpr, payload: Payload, kind: SampleKind, encoding: Encoding,
            attachment: Option<Bytes>, timestamp: Option<Timestamp>, qos: RemoteQos,
        }
        /// Query to a queryable.
        6 Query {
            queryable: u32, query: u32, key: KeyExpr, parameters: Text, payload: Option<Payload>,
            encoding: Option<Encoding>, attachment: Option<Bytes>, any_key: u8,
        }
        /// Reply to a get.
        7 Reply { get: u32, reply: RemoteReply }
        /// End of the replies to a get.
        8 GetDone { get: u32 }
        /// Answer: whether there is a counterpart.
        9 MatchingStatus { matching: bool }
        /// Change of a matching state.
        10 MatchingChanged { listener: u32, matching: bool }
        /// Answer: the connected nodes.
        11 Transports { transports: Vec<RemoteTransport> }
        /// Answer: the links.
        12 Links { links: Vec<RemoteLink> }
        /// Node that was connected or disconnected.
        13 TransportChanged { listener: u32, kind: SampleKind, transport: RemoteTransport }
        /// Link that came up or went down.
        14 LinkChanged { listener: u32, kind: SampleKind, link: RemoteLink }
    }
}

/// Content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all replies are")]
pub enum RemoteReply {
    /// A value, or a deletion.
    Sample {
        /// Key of the sample.
        key: KeyExpr,
        /// The value.
        payload: Payload,
        /// Whether it is a value or a deletion.
        kind: SampleKind,
        /// Encoding of the payload.
        encoding: Encoding,
        /// Attachment of the user.
        attachment: Option<Bytes>,
        /// Time of the publication.
        timestamp: Option<Timestamp>,
        /// Quality of service.
        qos: RemoteQos,
    },
    /// An error.
    Error {
        /// Description of the error.
        payload: Payload,
        /// Encoding of the description.
        encoding: Encoding,
    },
}

impl Field for RemoteReply {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self> {
        if !bool::read(r, "Reply ok")? {
            return Ok(Self::Error {
                payload: Field::read(r, "Reply payload")?,
                encoding: Field::read(r, "Reply encoding")?,
            });
        }
        Ok(Self::Sample {
            key: Field::read(r, "Reply key")?,
            payload: Field::read(r, "Reply payload")?,
            kind: Field::read(r, "Reply kind")?,
            encoding: Field::read(r, "Reply encoding")?,
            attachment: Field::read(r, "Reply attachment")?,
            timestamp: Field::read(r, "Reply timestamp")?,
            qos: Field::read(r, "Reply qos")?,
        })
    }

    fn write(&self, sink: &mut impl Sink) {
        match self {
            Self::Sample { key, payload, kind, encoding, attachment, timestamp, qos } => {
                true.write(sink);
                key.write(sink);
                payload.write(sink);
                kind.write(sink);
                encoding.write(sink);
                attachment.write(sink);
                timestamp.write(sink);
                qos.write(sink);
            }
            Self::Error { payload, encoding } => {
                false.write(sink);
                payload.write(sink);
                encoding.write(sink);
            }
        }
    }
}
