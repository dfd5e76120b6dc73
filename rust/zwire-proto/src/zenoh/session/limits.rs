//! Bounds on the memory that a north can make a session use, each with its reason.

/// Most D_SUBSCRIBER, D_QUERYABLE or D_TOKEN of one link, each kind by itself. A fleet of a hundred
/// thousand tokens was reported; at about 200 bytes each this is 200 MB in the worst case, which only
/// the router that the user chose can cause.
pub const MAX_DECLARATIONS: usize = 1 << 20;

/// Most bytes of keys in each such kind, and in the table of D_KEYEXPR. Keys have some 50 bytes.
pub const MAX_DECLARED_KEY_BYTES: usize = 64 << 20;

/// Most queries that may wait for this session's replies. The application holds each of them in memory;
/// further ones are finished at once without a reply.
pub const MAX_PENDING_QUERIES: usize = 1 << 16;

/// Most gets of this session that may wait for replies, for the same reason.
pub const MAX_PENDING_GETS: usize = 1 << 16;

/// Most barriers at a time: each has a waiting thread of the application.
pub const MAX_PENDING_BARRIERS: usize = 1 << 16;

/// Most bytes that one get holds back for consolidation. Beyond it replies are passed on as they come:
/// for a get over a large storage, less consolidation is better than a failure.
pub const MAX_HELD_REPLY_BYTES: usize = 256 << 20;

/// Most prefixes that a session assigns numbers to; further keys travel in full. Each one costs the
/// north memory, and half of the numbers are left to it.
pub const MAX_OWN_KEYEXPRS: usize = 1 << 15;

/// Most bytes of cached routes, for publications and for received messages each. That is 60 000 keys of
/// 50 bytes. Above it the cache is emptied: computing a route takes a microsecond.
pub const MAX_ROUTE_BYTES: usize = 32 << 20;
