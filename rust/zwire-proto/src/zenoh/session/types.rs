//! Arguments of commands, and events.

use bytes::Bytes;
use core::{num::NonZeroU32, time::Duration};

use super::{sample::Sample, stamps::Stamps};
use crate::{
    Text,
    zenoh::{
        Encoding, KeyExpr, Payload, Qos, Reliability, Timestamp, ZenohId,
        wire::{Consolidation, PushBody, QueryBody, QueryTarget, ResponderId, SourceInfo},
    },
};

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The id of this node: it signs timestamps and replies.
    pub zid: ZenohId,
    /// Timeout of a get that names none (`queries_default_timeout`).
    pub queries_default_timeout: Duration,
    /// Prefix added to each key sent and removed from each key received; messages on other keys are
    /// ignored. It has no wildcard.
    pub namespace: Option<KeyExpr>,
    /// Whether publications without a timestamp get one.
    pub timestamping: bool,
    /// Largest lead of another clock's timestamp over the local clock for the local one to follow it.
    pub max_drift: Duration,
}

impl SessionConfig {
    /// The defaults of Eclipse Zenoh for a client.
    #[must_use]
    pub const fn new(zid: ZenohId) -> Self {
        Self {
            zid,
            queries_default_timeout: Duration::from_millis(10_000),
            namespace: None,
            timestamping: false,
            max_drift: crate::zenoh::hlc::MAX_DELTA,
        }
    }
}

/// The number of a declared entity; unique within a session over its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId(pub u32);

/// The number of an open get; it is also the request id on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GetId(pub u32);

/// The number of a query to a queryable; each query must be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u64);

/// Counterparts of a publisher or querier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matches {
    /// Whether queryables of a querier are counted, or subscribers of a publisher.
    pub queryables: bool,
    /// Key with the namespace.
    pub key: KeyExpr,
    /// Whether only complete queryables with a key that includes `key` count.
    pub only_complete: bool,
    /// Whether other sessions count at all.
    pub wants_remote: bool,
    /// Entities of this session.
    pub local: usize,
    /// Declarations of the north.
    pub remote: usize,
}

/// The number of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BarrierId(pub u64);

/// Messages that a barrier covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// All declarations. They are sent again on each link, so without a link the barrier waits for the
    /// next one.
    Declarations,
    /// All declarations and publications, except those on the best-effort channel.
    Everything,
}

/// Result of a [`Barrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierEnd {
    /// The north has taken all messages covered.
    Passed,
    /// There is no link, or it was lost before: publications on the way may be lost.
    LinkLost,
    /// The session was closed.
    Closed,
}

/// Sessions that may be the counterpart (`zenoh-behaviour` 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Only this session itself. The entity is never declared to the network.
    SessionLocal,
    /// Only other sessions.
    Remote,
    /// All sessions.
    #[default]
    Any,
}

impl Locality {
    /// Whether the own session may be the counterpart.
    #[must_use]
    pub const fn local(self) -> bool {
        matches!(self, Self::SessionLocal | Self::Any)
    }
    /// Whether other sessions may be the counterpart.
    #[must_use]
    pub const fn remote(self) -> bool {
        matches!(self, Self::Remote | Self::Any)
    }
}

/// Options of a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberOptions {
    /// Origin of the publications that it gets.
    pub origin: Locality,
}

/// Options of a queryable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryableOptions {
    /// Whether it knows every value of its key expression.
    pub complete: bool,
    /// Origin of the queries that it gets.
    pub origin: Locality,
}

/// Options of a publisher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublisherOptions {
    /// QoS of each of its publications.
    pub qos: Qos,
    /// Reliability of each of its publications.
    pub reliability: Reliability,
    /// Sessions that get its publications.
    pub destination: Locality,
}

/// Options of a querier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerierOptions {
    /// Queryables to query; decides also which ones count as matching.
    pub target: QueryTarget,
    /// Same as in [`Get`].
    pub consolidation: Consolidation,
    /// Same as in [`Get`].
    pub timeout: Option<Duration>,
    /// Same as in [`Get`].
    pub budget: Option<NonZeroU32>,
    /// Same as in [`Get`].
    pub qos: Qos,
    /// Same as in [`Get`].
    pub accept_any_key: bool,
    /// Sessions that are queried.
    pub destination: Locality,
}

impl Default for QuerierOptions {
    fn default() -> Self {
        Self {
            target: QueryTarget::BestMatching,
            consolidation: Consolidation::Auto,
            timeout: None,
            budget: None,
            qos: Qos::REQUEST,
            accept_any_key: false,
            destination: Locality::Any,
        }
    }
}

/// A put or delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Key of the publication.
    pub key: KeyExpr,
    /// The data.
    pub body: PushBody,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// The channel of the transport.
    pub reliability: Reliability,
    /// Sessions that get it.
    pub destination: Locality,
    /// Requested stamps.
    pub stamps: Option<Box<Stamps>>,
}

impl Publication {
    /// A publication with default options.
    #[must_use]
    pub const fn new(key: KeyExpr, body: PushBody) -> Self {
        Self {
            key,
            body,
            qos: Qos::DEFAULT,
            reliability: Reliability::Reliable,
            destination: Locality::Any,
            stamps: None,
        }
    }
}

/// Destinations of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Number of subscribers of the own session that got it.
    pub local: usize,
    /// Whether it was sent to the network.
    pub sent: bool,
}

/// Query to queryables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// Key expression to query.
    pub key: KeyExpr,
    /// Parameters: the part behind the `?` of the selector.
    pub parameters: Text,
    /// Queryables to query.
    pub target: QueryTarget,
    /// Consolidation of replies. Auto is Latest, or None when the parameters contain `_time`.
    pub consolidation: Consolidation,
    /// `None`: [`SessionConfig::queries_default_timeout`].
    pub timeout: Option<Duration>,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// Value sent with the query.
    pub body: Option<QueryBody>,
    /// Attachment of the user.
    pub attachment: Option<Bytes>,
    /// Id and sequence number of the querier.
    pub source_info: Option<SourceInfo>,
    /// Whether replies on keys that do not intersect are accepted; parameters with `_anyke` accept them
    /// as well.
    pub accept_any_key: bool,
    /// Sessions that are queried.
    pub destination: Locality,
    /// Most replies wanted. It travels with the request, where no implementation evaluates it; here the
    /// get ends once so many replies have come.
    pub budget: Option<NonZeroU32>,
    /// The querier that asks. The options are taken from this struct nevertheless.
    pub querier: Option<EntityId>,
    /// Requested stamps.
    pub stamps: Option<Box<Stamps>>,
}

impl Get {
    /// A get with default options.
    #[must_use]
    pub const fn new(key: KeyExpr) -> Self {
        Self {
            key,
            parameters: Text::EMPTY,
            target: QueryTarget::BestMatching,
            consolidation: Consolidation::Auto,
            timeout: None,
            qos: Qos::REQUEST,
            body: None,
            attachment: None,
            source_info: None,
            accept_any_key: false,
            destination: Locality::Any,
            budget: None,
            querier: None,
            stamps: None,
        }
    }
}

/// Reply of a queryable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryReply {
    /// Content of the reply.
    pub body: QueryReplyBody,
    /// Express flag; the rest of the query's QoS is copied. `None`: the flag is copied, too.
    pub express: Option<bool>,
    /// Stamps of the query, and that of the reply's sending.
    pub stamps: Option<Box<Stamps>>,
}

/// Kinds of replies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all answers are")]
pub enum QueryReplyBody {
    /// A put or delete.
    Sample {
        /// Key of the sample; it must intersect the key of the query, unless the query accepts any.
        key: KeyExpr,
        /// The data.
        body: PushBody,
    },
    /// An error.
    Err(ReplyError),
}

/// An error reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyError {
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Description of the error, in the format of `encoding`.
    pub payload: Payload,
    /// Times at nodes on its way, if the sender requested them.
    pub stamps: Option<Box<Stamps>>,
}

/// A reply to a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// A sample or an error.
    pub result: Result<Sample, ReplyError>,
    /// Id of the replier, if it was sent.
    pub replier: Option<ResponderId>,
}

/// Reason why a get has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetEnd {
    /// All queryables have finished.
    Completed,
    /// The querier has no matching queryable.
    NoQueryable,
    /// The budget of replies is used up.
    BudgetSpent,
    /// The timeout passed; an error reply `Timeout` came before this.
    TimedOut,
    /// There is no link, or it was lost before all replies had come. Replies that came were delivered.
    LinkLost,
    /// Ended by [`Session::cancel`](super::Session::cancel) or
    /// [`Session::close`](super::Session::close).
    Cancelled,
}

/// Query to a queryable of this session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundQuery {
    /// Id for `reply` and `finish`.
    pub id: QueryId,
    /// Key expression that is asked for.
    pub key: KeyExpr,
    /// Parameters: the part behind the `?` of the selector.
    pub parameters: Text,
    /// Value sent with the query.
    pub body: Option<QueryBody>,
    /// Attachment of the user.
    pub attachment: Option<Bytes>,
    /// Id and sequence number of the querier.
    pub source_info: Option<SourceInfo>,
    /// QoS of the request; replies copy it.
    pub qos: Qos,
    /// Whether replies on other keys are accepted.
    pub accept_any_key: bool,
    /// Times at nodes on its way, if the sender requested them.
    pub stamps: Option<Box<Stamps>>,
}

/// Event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all events are")]
pub enum Event {
    /// For a subscriber or a liveliness subscriber.
    Sample {
        /// The subscriber.
        subscriber: EntityId,
        /// The sample.
        sample: Sample,
    },
    /// A query to a queryable; [`Session::finish`](super::Session::finish) must follow.
    Query {
        /// The queryable.
        queryable: EntityId,
        /// The query.
        query: InboundQuery,
    },
    /// A reply to a get.
    Reply {
        /// The get.
        get: GetId,
        /// The reply.
        reply: Reply,
    },
    /// The last event of a get.
    GetDone {
        /// The get.
        get: GetId,
        /// Reason of the end.
        reason: GetEnd,
    },
    /// The matching state of a publisher or querier has changed.
    Matching {
        /// The publisher or querier.
        entity: EntityId,
        /// The new state.
        matching: bool,
    },
    /// The end of a [`Session::barrier`](super::Session::barrier).
    Passed {
        /// The barrier.
        barrier: BarrierId,
        /// Result of the barrier.
        end: BarrierEnd,
    },
}

/// Adds a timestamp if one is wanted.
pub(super) fn stamp(body: &mut PushBody, timestamp: impl FnOnce() -> Timestamp) {
    let slot = match body {
        PushBody::Put(put) => &mut put.timestamp,
        PushBody::Del(del) => &mut del.timestamp,
    };
    if slot.is_none() {
        *slot = Some(timestamp());
    }
}
