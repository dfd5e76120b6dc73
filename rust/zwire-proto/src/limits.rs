//! Every bound of this crate, with its reason.

/// Largest batch on any link: the stream prefix is a `u16`.
pub const MAX_BATCH_SIZE: u16 = u16::MAX;

/// Smallest batch size accepted in a negotiation. Below it a router was seen to break, and a FRAGMENT
/// would be mostly header.
pub const MIN_BATCH_SIZE: u16 = 64;

/// Most unknown extensions that are kept of one data message. There are 48 different headers of
/// optional extensions (16 ids, three encodings); without a bound a message of Unit extensions would
/// take thirty times its size in memory.
pub const MAX_UNKNOWN_EXTENSIONS: usize = 48;

/// Most entries of a TsStack, the same bound as in Eclipse Zenoh.
pub const MAX_TS_STACK: usize = 255;

/// Most locators in a HELLO or a link-state record. A host has a handful of addresses per interface.
pub const MAX_LOCATORS: usize = 256;

/// Most records in a link-state list and most links of a record: ten times the largest network that
/// was reported, at a few kilobytes of memory.
pub const MAX_LINK_STATES: usize = 10_000;

/// Most routers in one network. Each change of a link may cost work for each pair of them: a tree for
/// every router, some 100 ms altogether at this bound.
pub const MAX_ROUTERS: usize = 1024;

/// Most links that all routers of one network say they have: 16 for each, both ends counted.
pub const MAX_ROUTER_LINKS: usize = 16 * MAX_ROUTERS;

/// Longest key expression: its length travels as `z16`.
pub const MAX_KEYEXPR_LEN: usize = u16::MAX as usize;

/// Longest key expression with wildcards that a node routes on. Comparing two of 4 KiB takes up to 100
/// µs and two of 64 KiB up to 100 ms, once for each declared key that has wildcards. Keys in practice
/// have some tens of bytes; zenoh-pico stops at 256.
pub const MAX_WILD_KEYEXPR_LEN: usize = 4096;

/// Default limit of a reassembled message (`transport/link/rx/max_message_size`), the same as in
/// Eclipse Zenoh.
pub const MAX_MESSAGE_SIZE: usize = 1 << 30;
