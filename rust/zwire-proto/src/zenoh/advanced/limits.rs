//! What others may make a subscriber remember, and why so much.

use core::time::Duration;

/// Most publishers that a subscriber follows, those that number and those that do not each by themselves. A
/// fleet of ten thousand robots has some of them each; one that is silent takes about 100 bytes. When there
/// are more, those that have been silent for longest are forgotten.
pub const MAX_SOURCES: usize = 1 << 16;

/// Most samples that a subscriber holds back, waiting for those before them: what arrives at 10 000 a second
/// within the time that a question may take, roughly. Beyond it what is missing is given up.
pub const MAX_PENDING: usize = 1 << 16;

/// Most bytes that they may have.
pub const MAX_PENDING_BYTES: usize = 64 << 20;

/// How often the same samples are asked for in vain. Where samples are lost, parts of answers are, too.
pub const MAX_ATTEMPTS: u32 = 3;

/// How often, if no answer ends: then questions and answers are lost, and nothing is known of the cache.
pub const MAX_UNANSWERED: u32 = 9;

/// After how many answers with nothing in them, one after the other, a publisher counts as one without a cache
/// for who keeps everything: what is asked for in vain holds up what comes.
pub const MAX_FRUITLESS: u32 = 6;

/// For how long, unless a heartbeat of it comes.
pub const FRUITLESS_REST: Duration = Duration::from_secs(10);

/// When what nobody has but a heartbeat tells of is asked for again. The heartbeat may have overtaken it.
pub const RETRY_AFTER: Duration = Duration::from_millis(100);

/// When a question is asked again for which there was no link.
pub const RETRY_WITHOUT_LINK: Duration = Duration::from_secs(1);

/// How long a publisher is remembered that says nothing, unless its token is there.
pub const STATE_LIFE: Duration = Duration::from_secs(3600);

/// Shortest time between two heartbeats, and between two rounds of questions: no time at all would be a loop.
pub const MIN_PERIOD: Duration = Duration::from_millis(1);
