//! Recording of Zenoh and ZRE traffic into a spool.
//!
//! | Module | Role |
//! |---|---|
//! | [`recorder`] | public handle: sources, statistics, flush, close |
//! | `taker` | thread of one source: takes items from its queue and appends rows |
//! | `shared` | state of all threads: shards, gap log, retention, housekeeping |
//! | `tier` | thread that moves sealed segments into an object store |
//! | [`compact`] | merging of small segments there |
//! | `reshard` | change of the number of shards |
//! | `lease`, `turns`, `steps` | several spoolers of one spool: the lease, and how threads begin and end to write |
//! | `spread`, `holder` | several spoolers of one spool, each with shards of its own |
//! | `standby`, `identity`, `follow`, `missing` | what a spooler keeps and knows while another one writes |
//! | `numbers` | sequence numbers of publishers: missing and duplicate samples |
//! | `samples`, `zre` | conversion of queue items to rows |
//! | [`append`] | rows and batches written by a program, without a network |
//! | [`range`] | ranges of a spool, served to readers on a network |
//!
//! The crate reads time only through [`Clock`], by default `zwire_engine::clock`; unit tests advance their own.

pub mod append;
pub mod compact;
mod error;
mod follow;
mod holder;
mod identity;
mod lease;
mod missing;
mod numbers;
pub mod range;
pub mod recorder;
mod reshard;
mod samples;
mod shared;
mod spread;
mod standby;
mod steps;
mod taker;
#[cfg(test)]
mod tests;
mod tier;
mod time;
mod turns;
mod zre;

pub use append::Appender;
pub use compact::Compactor;
pub use error::{Error, Result};
pub use range::{RangeAnswer, RangeServer, selection};
pub use recorder::{Recorder, Settings, Stats};
pub use reshard::Resharding;
pub use shared::Keeping;
pub use steps::{LeaseStats, Turns};
pub use tier::{TierStats, open_spool};
pub use time::Clock;
pub use zwire_spool::Cell;
