//! Bounds on the memory that peers can make a node use, each with its reason.

use core::time::Duration;

/// Longest short string: its length is one octet.
pub const MAX_STRING: usize = u8::MAX as usize;

/// Longest entry `name=value` that is sent: zyre of that time cuts longer ones.
pub const MAX_HEADER_ENTRY: usize = 254;

/// Most groups in a HELLO, and most of one peer. The count of four octets would allow 4 294 967 295.
/// A peer in this many groups costs 640 KiB, and its HELLO is 1 MiB at most. A bridge is in all groups that cross.
pub const MAX_GROUPS: usize = 16_384;

/// Most headers in a HELLO. Applications set a handful.
pub const MAX_HEADERS: usize = 1024;

/// Longest header value and longest group of a HELLO, with lengths of four octets. A certificate fits.
pub const MAX_LONG_STRING: usize = 64 << 10;

/// Most frames of one content. Each costs 32 bytes besides its own.
pub const MAX_CONTENT_FRAMES: usize = 4096;

/// Longest value of a gossip tuple: an endpoint, the separator `|` and a key.
pub const MAX_TUPLE_VALUE: usize = 1024;

/// Most octets of the data of an INFO: zyre cuts there.
pub const MAX_LOG_INFO: usize = 254;

/// Most peers of a node by default. Each costs about 1,800 bytes (`benches/rust/zre.rs`) and, at the driver, a connection each way.
pub const MAX_PEERS: usize = 10_000;

/// Default limit of peers known only from a beacon or a tuple. Any sender can make up a UUID; each
/// costs a connection attempt. At the limit a new one replaces the oldest.
pub const MAX_UNANSWERED: usize = 4096;

/// Most new nodes of one address that a node connects to in a second, because of their beacons. A host with more
/// nodes than this is known within seconds, and sooner by their HELLO.
pub const MAX_NEW_OF_ADDRESS: usize = 100;

/// Most new nodes of all addresses in a second: the beacons of a thousand nodes, which all come within one. Each
/// attempt takes about 0.1 ms of a processor.
pub const MAX_NEW: usize = 1000;

/// Most peers of the first generations that are remembered after they expired. Such peers only exist
/// where old software is kept on purpose.
pub const MAX_GIVEN_UP: usize = 256;

/// Least time between two restarts for peers of the first generations: every peer sees this node leave and come
/// back. Such a peer expires after this time (`zre` 22), so a peer that is dropped alone in between is met again.
/// Each restart doubles the time before the next one, since any stranger can cause one.
pub const RESTART_PAUSE: Duration = Duration::from_secs(10);

/// Longest time between two such restarts. A peer that waited for one is old, and not forgotten.
pub const MAX_RESTART_PAUSE: Duration = Duration::from_secs(600);

/// Most endpoints of a configuration, each retried until it is reachable.
pub const MAX_ENDPOINTS: usize = 1024;

/// Most addresses to which the name in an endpoint resolves.
pub const MAX_ADDRESSES: usize = 16;

/// Most messages in the queue of a connection to a peer: 100 a second for the 30 seconds after which it
/// would expire (RFC 20).
pub const HIGH_WATER_MARK: usize = 3000;

/// Most messages that wait until a peer's connection is chosen.
pub const MAX_WAITING: usize = 256;

/// Most collectors that a node sends its log to; each costs a connection.
pub const MAX_COLLECTORS: usize = 16;

/// Most clients of a gossip hub: every tuple is sent to each of them.
pub const MAX_GOSSIP_CLIENTS: usize = 4096;

/// Most tuples that a gossip hub keeps. The protocol has no removal, so tuples of nodes that left stay
/// until the application removes them.
pub const MAX_GOSSIP_TUPLES: usize = 16 << 10;

/// Most octets of keys and values of a gossip hub. A tuple of ZRE takes about 60.
pub const MAX_GOSSIP_BYTES: usize = 4 << 20;
