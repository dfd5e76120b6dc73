//! Capture files of traffic that crossed our own sockets, writing only.
//!
//! ```text
//! bytes that crossed a connection --FrameBuilder, PcapWriter--> bytes of a file
//! ```
//!
//! The crate `zwire-dissect` reads captures.

mod direction;
mod frame;
mod writer;

pub use direction::Direction;
pub use frame::{DatagramTooLong, FrameBuilder, MAX_SEGMENT, write_datagram};
pub use writer::PcapWriter;
