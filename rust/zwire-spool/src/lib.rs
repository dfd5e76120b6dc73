//! Log of messages on disk, for readers that need to read the same range twice.
//!
//! A spool is a folder with one ordered log for each shard, and one more for lost messages. A log is a
//! sequence of segments; a segment is an Arrow file, readable by any Arrow reader; a block is a record
//! batch with a checksum. Each row has an offset: dense in its shard, and never used twice.
//!
//! | Module | Content |
//! |---|---|
//! | [`columns`] | names, types and meanings of columns, of all rows of zwire |
//! | [`layout`], [`stored`] | which of them files keep, and how; shards |
//! | [`block`] | encoding of rows as blocks, compressed or not |
//! | [`shard`], [`writer`] | appending, exclusive access, recovery after a crash |
//! | [`reader`], [`plan`] | reading, limiting and splitting of ranges |
//! | `keys`, `sealed`, `listing`, `select` | summaries of segments, and the choice of rows by them |
//! | `merge` | one segment of several, with their blocks |
//! | [`wire`] | transfer of ranges over a network |
//! | [`tier`] | interface of a store that has sealed segments outside the folder |
//!
//! The crate deals with files and formats only, without sockets, threads, clocks, random numbers or
//! Python: time and ids are passed as arguments.

pub mod block;
mod column;
pub mod columns;
mod consumers;
mod cursor;
mod decode;
mod describe;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod head;
mod index;
mod keys;
pub mod layout;
mod listing;
mod merge;
mod meta;
mod pack;
pub mod plan;
mod read_at;
pub mod reader;
mod recover;
mod remember;
mod resume;
mod retain;
mod rows;
mod sealed;
mod segment;
mod select;
pub mod shard;
mod slots;
pub mod stored;
pub mod tier;
pub mod wire;
pub mod writer;

pub use column::{Cell, Value};
pub use consumers::{Consumer, Offsets};
pub use cursor::Cursor;
pub use error::{Error, Result};
pub use head::{FORMAT, SpoolId, hex};
pub use keys::{KeyChoice, Wants};
pub use layout::{Layout, Shard};
pub use meta::{Meta, Rule, open_json, seal_json};
pub use pack::Compression;
pub use plan::{Plan, Range};
pub use read_at::ReadAt;
pub use reader::{BatchLimits, Spool};
pub use recover::Recovered;
pub use remember::{LastNumber, Remembered};
pub use retain::{Deleted, Retention, Waiting};
pub use rows::Rows;
pub use select::Selection;
pub use shard::{Durability, Mark, Options, ShardWriter};
pub use stored::unhex;
pub use writer::{Gap, Shards, Wanted, Writer};
