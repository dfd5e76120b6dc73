//! Bounds on what one client costs, each with its reason.

use core::time::Duration;

/// Most connections at once. A client has two: one to fetch, one for its group.
pub(crate) const MAX_CONNECTIONS: usize = 256;
/// Longest request in octets: a fetch of 16 topics with 1024 partitions each has 0.4 MB.
pub(crate) const MAX_REQUEST: usize = 1 << 20;
/// Octets allocated for a request before they arrive: its length may be a lie.
pub(crate) const FIRST_READ: usize = 16 << 10;
/// Most octets of records in an answer, unless the first row alone is longer. All connections together may hold
/// this many times their number.
pub(crate) const MAX_ANSWER: usize = 4 << 20;
/// Longest row that is sent: the length of an answer has 31 bits.
pub(crate) const MAX_ROW: usize = 1 << 30;
/// Rows and octets that are read from files at once.
pub(crate) const READ_ROWS: usize = 32_768;
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Time until the first request has arrived, for a client that connects and is silent.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Time between two requests; clients of Kafka close connections after nine minutes.
pub(crate) const IDLE: Duration = Duration::from_secs(600);
/// Time for the rest of a request, and between two parts of an answer that a client accepts.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// Longest wait for new rows; clients give up after 30 s.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(20);
/// First and longest pause between two looks for new rows.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(10));
/// Age up to which the ends of a spool are known: all clients that wait share one reading.
pub(crate) const FRESH: Duration = Duration::from_millis(1);
/// Positions kept open for later requests of a topic. Each holds an open file and the positions of its blocks.
pub(crate) const MAX_CURSORS: usize = 16;

/// Most consumers of a spool that a client may add: each is a file, and keeps rows from being deleted.
pub(crate) const MAX_CONSUMERS: usize = 1024;
/// Most members of all groups together.
pub(crate) const MAX_MEMBERS: usize = 512;
/// Most octets that a member may leave here: its subscriptions, or its assignment.
pub(crate) const MAX_MEMBER_BYTES: usize = 64 << 10;
/// Most protocols that a member may offer; clients have up to five. Each is compared with those of all members.
pub(crate) const MAX_PROTOCOLS: usize = 32;
/// Shortest and longest time in which a member has to be heard of.
pub(crate) const SESSIONS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1800));
/// Wait for further members of a group that has none, so that programs started together share at once.
pub(crate) const GATHER: Duration = Duration::from_millis(100);
/// Pause between two looks at a group that is waited for, in which silent members are noticed.
pub(crate) const GROUP_LOOK: Duration = Duration::from_millis(100);
