//! Tier of a spool: its sealed segments in an object store, for readers that need no spooler and no folder.
//!
//! | Module | Content |
//! |---|---|
//! | [`place`] | addresses of stores, and where their credentials come from |
//! | [`bucket`] | objects by name, for storages |
//! | [`lease`] | rules by which several spoolers take turns at one spool |
//! | [`spread`] | rules by which several spoolers share one spool by its shards |
//! | [`manifest`] | log of the segments that a store has |
//! | [`store`] | reading: [`Store`] is a [`zwire_spool::tier::Tier`] |
//! | [`writer`] | uploading, verification, deletion |
//! | [`compact`] | merging of small segments, deletion of objects that no entry names |
//! | `object` | ranged reads of a segment, some ahead of the reader |
//! | `runtime` | threads that wait for the network |
//!
//! Calls block. They may come from any thread but those of a runtime.

pub mod bucket;
pub mod compact;
pub mod lease;
pub mod manifest;
mod object;
pub mod place;
mod runtime;
pub mod spread;
pub mod store;
#[cfg(test)]
mod tests;
pub mod writer;

pub use bucket::{Bucket, Labelled};
pub use place::BucketSettings;
pub use store::{Clock, Store, of_store, open};
pub use writer::TierWriter;
