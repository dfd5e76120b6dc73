//! Storages of Zenoh.
//!
//! | Module | Role |
//! |---|---|
//! | [`rules`] | update rules without input and output: stamps, tombstones, wildcard updates |
//! | [`wildcards`] | wildcard updates that meet late puts |
//! | [`place`] | keys on the network and in the volume |
//! | [`volume`] | traits of a volume |
//! | [`memory`], [`disk`], [`spooled`], [`files`], [`objects`], [`keyed`] | volumes |
//! | [`timely`] | deadline of a volume that a program supplies |
//! | `record` | octets of an entry on the disk |
//! | `writer` | thread that applies samples and commits |
//! | `answer` | thread that answers queries |
//! | [`replication`] | storages in several sessions that converge |
//! | [`storage`] | public handle: start, flush, statistics, close |
//! | [`config`], [`manager`] | storages as `plugins/storage_manager` of the configuration names them |
//!
//! The crate reads time only through `zwire_engine::clock`, and `rules` not at all.

mod answer;
mod arrivals;
pub mod config;
pub mod disk;
mod error;
pub mod files;
pub mod keyed;
pub mod manager;
pub mod memory;
pub mod objects;
pub mod place;
mod record;
pub mod replication;
pub mod rules;
mod shared;
pub mod spooled;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod timely;
pub mod volume;
pub mod wildcards;
mod writer;

pub use answer::DURABLE;
pub use disk::Disk;
pub use error::{Error, Result};
pub use files::{Folder, FolderSettings};
pub use keyed::{KeyValue, Keyed};
pub use manager::StorageManager;
pub use memory::Memory;
pub use objects::Objects;
pub use replication::ReplicaSettings;
pub use shared::Stats;
pub use spooled::Spooled;
pub use storage::{Collection, Settings, Storage};
pub use timely::Timely;
pub use zwire_tier::BucketSettings;
