//! What a subscriber takes and what it says.

use core::time::Duration;

use super::{
    keys::Source,
    limits::{MAX_PENDING, MAX_PENDING_BYTES, MAX_SOURCES},
};
use crate::{
    Text,
    zenoh::{KeyExpr, session::Sample},
};

/// What of the past a subscriber wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Also that of publishers that come later, and that say so by a token.
    pub late: bool,
    /// Most samples of each publisher.
    pub max_samples: Option<u64>,
    /// How old a sample may be.
    pub max_age: Option<Duration>,
}

/// How a subscriber comes to know that the last sample is missing. That others are it knows by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It is told by heartbeats.
    Heartbeat,
    /// It asks, each time that so much time is over.
    Periodic(Duration),
}

/// How a subscriber is set up.
#[derive(Clone, Debug)]
pub struct SubscriberConfig {
    /// What it subscribes to.
    pub key: KeyExpr,
    /// What of the past it wants.
    pub history: Option<History>,
    /// How it gets what is missing; `None`: not at all, it reports that.
    pub recovery: Option<Recovery>,
    /// For who keeps everything: what comes late or again is handed over, too.
    pub keeps: bool,
    /// Most samples that wait for others.
    pub max_pending: usize,
    /// Most bytes of them.
    pub max_pending_bytes: usize,
    /// Most publishers that are followed.
    pub max_sources: usize,
}

impl SubscriberConfig {
    /// A subscriber that asks for nothing.
    #[must_use]
    pub const fn new(key: KeyExpr) -> Self {
        Self {
            key,
            history: None,
            recovery: None,
            keeps: false,
            max_pending: MAX_PENDING,
            max_pending_bytes: MAX_PENDING_BYTES,
            max_sources: MAX_SOURCES,
        }
    }
}

/// The number of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// A question for everybody who has a cache: each reply counts. [`handle_answered`](super::Subscriber::handle_answered) has to
/// follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// For replies.
    pub id: AskId,
    /// What is asked for.
    pub key: KeyExpr,
    /// Which samples.
    pub parameters: Text,
}

/// How a question has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Everybody asked has answered, or there was nobody.
    Fully,
    /// Time was up, or the link went: there may have been more.
    Partly,
    /// There was no link to ask by.
    NotAsked,
}

/// Samples that nobody has any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Who published them.
    pub source: Source,
    /// How many one after the other.
    pub count: u64,
}

/// What a subscriber wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all outputs are")]
pub enum Output {
    /// A sample for the application.
    Sample(Sample),
    /// Something that will not come.
    Miss(Miss),
    /// A question for caches.
    Ask(Ask),
}
