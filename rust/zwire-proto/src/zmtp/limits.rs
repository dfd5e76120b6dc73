//! Every bound of ZMTP, with its reason.

/// Longest identity that is accepted: its length is one byte in ZMTP 2.0, and no property of 3.x may be
/// longer (`zmtp` 8.1).
pub const MAX_IDENTITY: usize = 255;

/// Most properties of one metadata list. Real peers send two; an application may add some of its own,
/// and an authenticator some more. An empty property takes 5 bytes on the wire and 64 in memory.
pub const MAX_PROPERTIES: usize = 256;

/// Longest command of a handshake: room for metadata a hundred times as long as that of real peers. No
/// peer can make a socket hold more before it has proved its identity.
pub const MAX_HANDSHAKE_COMMAND: usize = 64 << 10;

/// Longest context of a PING (`zmtp` 10).
pub const MAX_PING_CONTEXT: usize = 16;

/// Largest TTL of a PING that is sent, in tenths of a second: above it libzmq counts in 16 bits and closes
/// at once (`zmtp` 10).
pub const MAX_PING_TTL: u16 = 655;

/// Most PONGs that wait to be sent. A peer that sends more PINGs without reading loses the oldest
/// PONGs.
pub const MAX_WAITING_PONGS: usize = 16;

/// Default limit of a message, all frames together: many times the size that sensors and models send in
/// one piece, and one such message does not exhaust a small machine.
pub const MAX_MESSAGE_SIZE: usize = 256 << 20;

/// Default high-water mark, in messages waiting to be sent; the same as in libzmq (`zmtp` 17).
pub const HIGH_WATER_MARK: usize = 1000;

/// Default bound on the bytes waiting to be sent. A thousand messages of 64 KiB fit.
pub const MAX_QUEUED_BYTES: usize = 64 << 20;

/// Most bytes of subscriptions that a publisher keeps of one subscriber, with [`SUBSCRIPTION_COST`] for
/// each: some hundred thousand topics of usual length.
pub const MAX_SUBSCRIPTION_BYTES: usize = 32 << 20;

/// Overhead charged for a subscription beside its bytes: up to two nodes of the tree and an entry in
/// the set of its subscriber.
pub const SUBSCRIPTION_COST: usize = 256;
