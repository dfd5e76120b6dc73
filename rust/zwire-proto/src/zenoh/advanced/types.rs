//! Configuration and outputs of a subscriber.

use core::time::Duration;

use super::{
    keys::SampleSource,
    limits::{MAX_PENDING, MAX_PENDING_BYTES, MAX_SOURCES},
};
use crate::{
    Text,
    zenoh::{KeyExpr, session::Sample},
};

/// Past samples that a subscriber wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Whether to query publishers that appear later, announced by a token.
    pub late: bool,
    /// Most samples of each publisher.
    pub max_samples: Option<u64>,
    /// Largest age of a sample.
    pub max_age: Option<Duration>,
}

/// Detection of a missing last sample. Other gaps show when a later sample comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By heartbeats of the publishers.
    Heartbeat,
    /// By queries in each period.
    Periodic(Duration),
}

/// Configuration of a subscriber.
#[derive(Clone, Debug)]
pub struct SubscriberConfig {
    /// Key expression of the subscription.
    pub key: KeyExpr,
    /// Past samples wanted.
    pub history: Option<History>,
    /// Recovery of missing samples; `None`: they are only reported.
    pub recovery: Option<Recovery>,
    /// Mode that keeps everything: late and repeated samples are delivered, too.
    pub keeps: bool,
    /// Most samples held back.
    pub max_pending: usize,
    /// Most bytes of samples held back.
    pub max_pending_bytes: usize,
    /// Most publishers tracked.
    pub max_sources: usize,
}

impl SubscriberConfig {
    /// A subscriber without queries.
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

/// The number of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// A query for all publishers with a cache: each reply counts.
/// [`handle_answered`](super::AdvancedSubscriber::handle_answered) must follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Number for replies.
    pub id: AskId,
    /// Key expression of the query.
    pub key: KeyExpr,
    /// Parameters of the query.
    pub parameters: Text,
}

/// End of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// All queryables have finished, or there was none.
    Fully,
    /// Timeout, or loss of the link: more replies may exist.
    Partly,
    /// No link to send the query.
    NotAsked,
}

/// Samples that no cache holds any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Publisher of the samples.
    pub source: SampleSource,
    /// Number of consecutive samples.
    pub count: u64,
    /// Sequence number of the last one.
    pub last: u32,
}

impl Miss {
    /// Samples of a publisher between two places, the second one exclusive.
    pub(super) const fn between(source: SampleSource, from: u64, to: u64) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "numbers are the low half of places")]
        let last = to.wrapping_sub(1) as u32;
        Self { source, count: to - from, last }
    }

    /// Sequence number of the first sample.
    #[must_use]
    pub const fn first(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "numbers wrap at 32 bits")]
        let before = self.count.saturating_sub(1) as u32;
        self.last.wrapping_sub(before)
    }
}

/// Output of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "samples are what nearly all outputs are")]
pub enum Output {
    /// A sample for the application.
    Sample(Sample),
    /// Samples that will not come.
    Miss(Miss),
    /// A query for caches.
    Ask(Ask),
}
