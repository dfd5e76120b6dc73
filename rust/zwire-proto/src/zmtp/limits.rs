//! Every bound of ZMTP, with its reason.

/// Longest identity that is accepted: its length is one byte in ZMTP 2.0, and no property of 3.x may be
/// longer (`zmtp` 8.1).
pub const MAX_IDENTITY: usize = 255;

/// Most properties of one metadata list. Real peers send two; an application may add some of its own, and
/// an authenticator some more. A property of nothing takes 5 bytes on the wire and 64 in memory.
pub const MAX_PROPERTIES: usize = 256;

/// Longest context of a PING (`zmtp` 10).
pub const MAX_PING_CONTEXT: usize = 16;

/// Largest TTL of a PING that we send, in tenths of a second: above it libzmq counts in 16 bits and closes
/// at once (`zmtp` 10).
pub const MAX_PING_TTL: u16 = 655;
