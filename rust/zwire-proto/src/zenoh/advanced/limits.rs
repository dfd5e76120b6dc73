//! Bounds on the memory that publishers can make a subscriber use, each with its reason.

use core::time::Duration;

/// Most publishers that a subscriber tracks, separately for those with numbers and those without. A
/// fleet of ten thousand robots has some of them each; a silent one takes about 100 bytes. Above the
/// bound those silent for longest are dropped.
pub const MAX_SOURCES: usize = 1 << 16;

/// Most samples that a subscriber holds back while earlier ones are missing: roughly the arrivals at 10
/// 000 a second within the timeout of a query. Above the bound the missing ones are given up.
pub const MAX_PENDING: usize = 1 << 16;

/// Most bytes of these samples.
pub const MAX_PENDING_BYTES: usize = 64 << 20;

/// Number of answered queries in vain for the same samples. Where samples are lost, parts of answers
/// are lost, too.
pub const MAX_ATTEMPTS: u32 = 3;

/// Number of queries without a complete answer: then queries or replies are lost, and the contents of
/// the cache are unknown.
pub const MAX_UNANSWERED: u32 = 9;

/// Number of consecutive empty answers after which a publisher counts as one without a cache, in the
/// mode that keeps everything: queries in vain delay the delivery of new samples.
pub const MAX_FRUITLESS: u32 = 6;

/// Duration of that state, unless a heartbeat of the publisher comes.
pub const FRUITLESS_REST: Duration = Duration::from_secs(10);

/// Delay before samples known only from a heartbeat are queried again. The heartbeat may have overtaken
/// them.
pub const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Delay before a query is repeated that could not be sent for lack of a link.
pub const RETRY_WITHOUT_LINK: Duration = Duration::from_secs(1);

/// Time for which a silent publisher's state is kept, unless its token is alive.
pub const STATE_LIFE: Duration = Duration::from_secs(3600);

/// Shortest time between two heartbeats, and between two rounds of queries: zero would be a busy loop.
pub const MIN_PERIOD: Duration = Duration::from_millis(1);
