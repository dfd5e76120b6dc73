//! Every bound of this crate, with its reason.

use core::time::Duration;

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

/// Most links in all records of a link-state list: four times as many as a network may have. Each takes a byte of a
/// message and eight in memory.
pub const MAX_TOLD_LINKS: usize = 4 * MAX_ROUTER_LINKS;

/// Most locators in all records of a link-state list: sixteen for each node of the longest one.
pub const MAX_TOLD_LOCATORS: usize = 16 * MAX_LINK_STATES;

/// Most routers in one network, but each neighbour may tell of half of an equal part of them in any case. Each
/// change of a link may cost work for each pair of them: a tree for every router, some 100 ms altogether at this
/// bound.
pub const MAX_ROUTERS: usize = 1024;

/// Most links that all routers of one network say they have: 16 for each, both ends counted; shared by neighbours as
/// the routers are.
pub const MAX_ROUTER_LINKS: usize = 16 * MAX_ROUTERS;

/// Longest key expression: its length travels as `z16`.
pub const MAX_KEYEXPR_LEN: usize = u16::MAX as usize;

/// Most branches for chunks with `$*` in the index of declared keys. A search compares its chunk with
/// each one, which takes 0.1 ms at this bound; keys beyond it are compared as a whole.
pub const MAX_GLOB_BRANCHES: usize = 4096;

/// Longest time that a node takes to compare a key with all declared keys of more than 128 bytes with
/// wildcards: a tenth of what a control loop of 10 Hz notices. A hundred keys of 4 KiB reach it, or 20 000
/// of 160 bytes.
pub const MAX_SLOW_KEYS: Duration = Duration::from_millis(10);

/// Part of the time of a node that matching may take: a twentieth for all faces together, and another one in
/// equal shares, so that faces which use all of it do not keep others from matching.
pub const MATCHING_SHARE: u32 = 20;

/// Time for which a face or a node may match without a pause, after as long without matching: a program
/// that starts declares and publishes much at once.
pub const MATCHING_BURST: Duration = Duration::from_secs(2);

/// Matching of one message that is not charged: a thousand declared keys that may intersect its key.
pub const MATCHING_FREE: Duration = Duration::from_micros(20);

/// Matching of one message after which the driver lets other links in before the next one.
pub const MATCHING_YIELD: Duration = Duration::from_millis(1);

/// Longest key expression with wildcards that a node routes on. Comparing two of 4 KiB takes up to 100
/// µs and two of 64 KiB up to 100 ms, once for each declared key that has wildcards. Keys in practice
/// have some tens of bytes; zenoh-pico stops at 256.
pub const MAX_WILD_KEYEXPR_LEN: usize = 4096;

/// Default limit of a reassembled message (`transport/link/rx/max_message_size`), the same as in
/// Eclipse Zenoh.
pub const MAX_MESSAGE_SIZE: usize = 1 << 30;
