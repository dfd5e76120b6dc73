//! Captures and bare Zenoh bytes as batches of records.

mod files;
mod frames;
mod input;
mod records;

pub use files::{CaptureError, Captures, Source};
pub use frames::FrameRows;
pub use records::{Limits, schema};
