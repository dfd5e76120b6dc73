//! Recording of Zenoh and ZRE traffic into a spool.
//!
//! | Module | Role |
//! |---|---|
//! | [`recorder`] | public handle: sources, statistics, flush, close |
//! | `taker` | thread of one source: takes items from its queue and appends rows |
//! | `shared` | state of all threads: shards, gap log, retention, housekeeping |
//! | `numbers` | sequence numbers of publishers: missing and duplicate samples |
//! | `samples`, `zre` | conversion of queue items to rows |
//! | [`append`] | rows and batches written by a program, without a network |
//! | [`range`] | ranges of a spool, served to readers on a network |
//!
//! The crate reads time only through [`Clock`], by default `zwire_engine::clock`; unit tests advance their own.

pub mod append;
mod error;
mod numbers;
pub mod range;
pub mod recorder;
mod samples;
mod shared;
mod taker;
#[cfg(test)]
mod tests;
mod time;
mod zre;

pub use append::Appender;
pub use error::{Error, Result};
pub use range::{RangeAnswer, RangeServer};
pub use recorder::{Recorder, Settings, Stats};
pub use shared::Keeping;
pub use time::Clock;
pub use zwire_spool::Cell;
