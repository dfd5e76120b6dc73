//! Counters of a node.

/// Counters since the start. They only grow; their reasons are those of `zenoh-behaviour` 2.12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// PUSH received.
    pub pushes_in: u64,
    /// PUSH sent, one per face.
    pub pushes_out: u64,
    /// PUSH without any matching face.
    pub pushes_unmatched: u64,
    /// REQUEST received.
    pub requests_in: u64,
    /// REQUEST sent, one per face.
    pub requests_out: u64,
    /// RESPONSE forwarded.
    pub responses: u64,
    /// Branches of queries that ended by timeout.
    pub query_timeouts: u64,
    /// Interests that were answered although not all nodes asked had answered.
    pub interest_timeouts: u64,
    /// Messages dropped because their key has an unknown scope or is not a key expression.
    pub invalid_keys: u64,
    /// PUT dropped because its timestamp lies in the future.
    pub future_dropped: u64,
    /// PUT that got another timestamp because its own lies in the future.
    pub future_replaced: u64,
    /// RESPONSE and RESPONSE_FINAL to no pending request: late, or invented.
    pub unknown_requests: u64,
    /// Messages that the rules ignore: an id that does not exist, an interest that is not allowed.
    pub ignored: u64,
    /// Routes taken from the cache.
    pub route_hits: u64,
    /// Routes computed.
    pub route_misses: u64,
    /// Inputs after which a face waited, because it had used its time for matching keys.
    pub matching_waits: u64,
}
