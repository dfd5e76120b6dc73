//! Counters of a session.

/// What a session has done since it was opened; all counters only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// PUSH handed to the link.
    pub pushes_sent: u64,
    /// PUSH that came from the link.
    pub pushes_received: u64,
    /// Samples handed to subscribers, from near and far.
    pub samples_delivered: u64,
    /// REQUEST handed to the link.
    pub requests_sent: u64,
    /// REQUEST that came from the link.
    pub requests_received: u64,
    /// Queries handed to queryables, from near and far.
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
    /// How often the link came up.
    pub links_up: u64,
    /// What was not passed on, by reason.
    pub dropped: SessionDrops,
}

/// Messages that went no further, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionDrops {
    /// Publications for the network while there was no link.
    pub put_no_link: u64,
    /// Publications of a publisher whose interest is answered and that nobody listens to.
    pub put_no_subscriber: u64,
    /// Publications for the own session alone that it has no subscriber for.
    pub put_no_local_subscriber: u64,
    /// Messages for the link that were still here when it went.
    pub out_link_lost: u64,
    /// Messages whose key has an unknown scope, is not canonical or lies outside the namespace.
    pub in_bad_key: u64,
    /// PUSH that no subscriber matches.
    pub push_no_subscriber: u64,
    /// REQUEST that were finished at once, because there are too many queries already.
    pub request_refused: u64,
    /// RESPONSE and RESPONSE_FINAL of gets that are over, or that nobody asked for.
    pub reply_late: u64,
    /// Replies on keys that were not asked for.
    pub reply_bad_key: u64,
    /// Replies that were older than one of the same key.
    pub reply_consolidated: u64,
    /// Gets of which more replies came than are held back; they were delivered unconsolidated.
    pub consolidation_overflow: u64,
    /// Declarations that make no sense: an id in use for another key, one of an interest that is over.
    pub declare_ignored: u64,
}
