//! What commands take and what events say.

use bytes::Bytes;
use core::{num::NonZeroU32, time::Duration};

use super::{sample::Sample, stamps::Stamps};
use crate::{
    Text,
    zenoh::{
        Encoding, KeyExpr, Qos, Reliability, Timestamp, ZenohId,
        wire::{Consolidation, PushBody, QueryBody, QueryTarget, ResponderId, SourceInfo},
    },
};

/// How a session is set up.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The id of this node: it signs timestamps and replies.
    pub zid: ZenohId,
    /// How long a get waits that names no time itself (`queries_default_timeout`).
    pub queries_default_timeout: Duration,
    /// Put before each key that leaves and taken from each that arrives; messages on other keys are
    /// not for this session. It holds no wildcard.
    pub namespace: Option<KeyExpr>,
    /// Whether publications without a timestamp get one.
    pub timestamping: bool,
    /// How far ahead of our clock a timestamp of others may lie for ours to follow it.
    pub max_drift: Duration,
}

impl SessionConfig {
    /// The defaults of the reference for a client.
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

/// The number of a get that is under way; it is also the request id on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GetId(pub u32);

/// The number of a query that a queryable was asked; each has to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u64);

/// What is at the other end of a publisher or querier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matches {
    /// Queryables of a querier, not subscribers of a publisher.
    pub queryables: bool,
    /// Its key, with the namespace.
    pub key: KeyExpr,
    /// Only complete queryables whose key includes that key count.
    pub only_complete: bool,
    /// Whether others may be at the other end at all.
    pub wants_remote: bool,
    /// Entities of this session.
    pub local: usize,
    /// Declarations of the north.
    pub remote: usize,
}

/// The number of a wait for neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BarrierId(pub u64);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// That the north has taken all declarations. They are made again on each link, so that this waits
    /// for the next link when there is none.
    Declarations,
    /// That it has taken all declarations and publications, but for those on the best-effort channel.
    Everything,
}

/// How a [`Barrier`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierEnd {
    /// The north has taken everything.
    Passed,
    /// There is no link, or it went before: publications that were under way may be lost.
    LinkLost,
    /// The session was closed.
    Closed,
}

/// Who may be at the other end (`zenoh-behaviour` 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Only this session itself. The entity is never declared to the network.
    SessionLocal,
    /// Only others.
    Remote,
    /// Everybody.
    #[default]
    Any,
}

impl Locality {
    /// Whether the own session may be at the other end.
    #[must_use]
    pub const fn local(self) -> bool {
        matches!(self, Self::SessionLocal | Self::Any)
    }
    /// Whether others may be at the other end.
    #[must_use]
    pub const fn remote(self) -> bool {
        matches!(self, Self::Remote | Self::Any)
    }
}

/// How a subscriber is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberOptions {
    /// Whose publications it gets.
    pub origin: Locality,
}

/// How a queryable is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryableOptions {
    /// Whether it knows every value of its key expression.
    pub complete: bool,
    /// Whose queries it gets.
    pub origin: Locality,
}

/// How a publisher is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublisherOptions {
    /// Of each of its publications.
    pub qos: Qos,
    /// Of each of its publications.
    pub reliability: Reliability,
    /// Who gets its publications.
    pub destination: Locality,
}

/// How a querier is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerierOptions {
    /// Which queryables are asked; decides also what counts as matching.
    pub target: QueryTarget,
    /// As in [`Get`].
    pub consolidation: Consolidation,
    /// As in [`Get`].
    pub timeout: Option<Duration>,
    /// As in [`Get`].
    pub qos: Qos,
    /// As in [`Get`].
    pub accept_any_key: bool,
    /// Who is asked.
    pub destination: Locality,
}

impl Default for QuerierOptions {
    fn default() -> Self {
        Self {
            target: QueryTarget::BestMatching,
            consolidation: Consolidation::Auto,
            timeout: None,
            qos: Qos::REQUEST,
            accept_any_key: false,
            destination: Locality::Any,
        }
    }
}

/// A put or delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Where to.
    pub key: KeyExpr,
    /// The data.
    pub body: PushBody,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// The channel of the transport.
    pub reliability: Reliability,
    /// Who gets it.
    pub destination: Locality,
    /// Whether and where it is stamped.
    pub stamps: Option<Box<Stamps>>,
}

impl Publication {
    /// A publication with everything but key and body left at its default.
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

/// Where a publication went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// How many subscribers of the own session got it.
    pub local: usize,
    /// Whether it left for the network.
    pub sent: bool,
}

/// A question to queryables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// What is asked for.
    pub key: KeyExpr,
    /// What stands behind the `?` of the selector.
    pub parameters: Text,
    /// Which queryables are asked.
    pub target: QueryTarget,
    /// How replies are thinned out. Auto is Latest, or None when the parameters hold `_time`.
    pub consolidation: Consolidation,
    /// `None`: [`SessionConfig::queries_default_timeout`].
    pub timeout: Option<Duration>,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// The value that goes with it.
    pub body: Option<QueryBody>,
    /// Bytes of the user.
    pub attachment: Option<Bytes>,
    /// Who asks.
    pub source_info: Option<SourceInfo>,
    /// Whether replies on keys that do not intersect are welcome; so they are also when the
    /// parameters hold `_anyke`.
    pub accept_any_key: bool,
    /// Who is asked.
    pub destination: Locality,
    /// Most replies wanted. It travels with the request, where nobody heeds it; here the get ends
    /// once so many replies have come.
    pub budget: Option<NonZeroU32>,
    /// The querier that asks. The options are taken from this struct all the same.
    pub querier: Option<EntityId>,
    /// Whether and where it is stamped.
    pub stamps: Option<Box<Stamps>>,
}

impl Get {
    /// A get with everything but the key left at its default.
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

/// What a queryable answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryReply {
    /// The answer.
    pub body: QueryReplyBody,
    /// Everything else of the query's QoS is copied; `None`: this also.
    pub express: Option<bool>,
    /// Those of the query, and that of its sending.
    pub stamps: Option<Box<Stamps>>,
}

/// The two kinds of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all answers are")]
pub enum QueryReplyBody {
    /// A put or delete.
    Sample {
        /// It intersects the key of the query, unless the query accepts any.
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
    /// What the payload holds.
    pub encoding: Encoding,
    /// What went wrong, in the format of `encoding`.
    pub payload: Bytes,
    /// When it passed where, if its sender wants to know.
    pub stamps: Option<Box<Stamps>>,
}

/// A reply to a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// A sample or an error.
    pub result: Result<Sample, ReplyError>,
    /// Who answered, where it said so.
    pub replier: Option<ResponderId>,
}

/// Why a get has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetEnd {
    /// Everybody asked has finished.
    Completed,
    /// Its querier knows that there is nobody to ask.
    NoQueryable,
    /// As many replies as its budget allows have come.
    BudgetSpent,
    /// Its time was up; an error reply `Timeout` came before this.
    TimedOut,
    /// There is no link, or it went before all answers had come. Replies that came were delivered.
    LinkLost,
    /// By [`Session::cancel`](super::Session::cancel) or [`Session::close`](super::Session::close).
    Cancelled,
}

/// Something for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all events are")]
pub enum Event {
    /// For a subscriber or a liveliness subscriber.
    Sample {
        /// Which one.
        subscriber: EntityId,
        /// The sample.
        sample: Sample,
    },
    /// A question to a queryable; [`Session::finish`](super::Session::finish) has to follow.
    Query {
        /// Which one.
        queryable: EntityId,
        /// For `reply` and `finish`.
        id: QueryId,
        /// What is asked for.
        key: KeyExpr,
        /// What stands behind the `?` of the selector.
        parameters: Text,
        /// The value that came with it.
        body: Option<QueryBody>,
        /// Bytes of the user.
        attachment: Option<Bytes>,
        /// Who asks.
        source_info: Option<SourceInfo>,
        /// That of the request; replies copy it.
        qos: Qos,
        /// Whether replies on other keys are welcome.
        accept_any_key: bool,
        /// When it passed where, if its sender wants to know.
        stamps: Option<Box<Stamps>>,
    },
    /// A reply to a get.
    Reply {
        /// Which one.
        get: GetId,
        /// The reply.
        reply: Reply,
    },
    /// The last event of a get.
    GetDone {
        /// Which one.
        get: GetId,
        /// Why.
        reason: GetEnd,
    },
    /// Whether somebody listens to a publisher or may answer a querier has changed.
    Matching {
        /// The publisher or querier.
        entity: EntityId,
        /// The new state.
        matching: bool,
    },
    /// The end of a [`Session::barrier`](super::Session::barrier).
    Passed {
        /// Which one.
        barrier: BarrierId,
        /// How it ended.
        end: BarrierEnd,
    },
}

/// A timestamp where one is wanted, as a helper of the commands.
pub(super) fn stamp(body: &mut PushBody, timestamp: impl FnOnce() -> Timestamp) {
    let slot = match body {
        PushBody::Put(put) => &mut put.timestamp,
        PushBody::Del(del) => &mut del.timestamp,
    };
    if slot.is_none() {
        *slot = Some(timestamp());
    }
}
