//! Counters of a session.

/// Counters of a session since it was opened; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// PUSH handed to the link.
    pub pushes_sent: u64,
    /// PUSH that came from the link.
    pub pushes_received: u64,
    /// Samples handed to subscribers, from the network and the own session.
    pub samples_delivered: u64,
    /// REQUEST handed to the link.
    pub requests_sent: u64,
    /// REQUEST that came from the link.
    pub requests_received: u64,
    /// Queries handed to queryables, from the network and the own session.
    pub queries_delivered: u64,
    /// RESPONSE handed to the link.
    pub responses_sent: u64,
    /// RESPONSE that came from the link.
    pub responses_received: u64,
    /// Replies handed to gets.
    pub replies_delivered: u64,
    /// DECLARE and INTEREST handed to the link.
    pub declarations_sent: u64,
    /// DECLARE and INTEREST that came from the link.
    pub declarations_received: u64,
    /// Number of times that the link came up.
    pub links_up: u64,
    /// Dropped messages, by reason.
    pub dropped: SessionDrops,
}

/// Dropped messages, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionDrops {
    /// Publications for the network while there was no link.
    pub put_no_link: u64,
    /// Publications of a publisher without any subscriber according to the answered interest.
    pub put_no_subscriber: u64,
    /// Publications for the own session alone, without a subscriber there.
    pub put_no_local_subscriber: u64,
    /// Messages for the link that were still queued when it was lost.
    pub out_link_lost: u64,
    /// Messages with a key that has an unknown scope, is not canonical or lies outside the namespace.
    pub in_bad_key: u64,
    /// PUSH that no subscriber matches.
    pub push_no_subscriber: u64,
    /// REQUEST that were finished at once, because there are too many queries already.
    pub request_refused: u64,
    /// RESPONSE and RESPONSE_FINAL of gets that are over, or that never existed.
    pub reply_late: u64,
    /// Replies on keys that were not queried.
    pub reply_bad_key: u64,
    /// Replies that were older than one of the same key.
    pub reply_consolidated: u64,
    /// Gets with more replies than can be held back; they were delivered unconsolidated.
    pub consolidation_overflow: u64,
    /// Invalid declarations: an id in use for another key, or one of an interest that is over.
    pub declare_ignored: u64,
}
