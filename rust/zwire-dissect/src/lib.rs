//! Packet analyser: turns captured traffic into records, one per message.
//!
//! Without IO: the caller hands in the chunks of a file and takes out records. No part of the crate can reach
//! a socket, a clock, a file, a thread, a random source or Python. The codecs are those of `zwire-proto`;
//! no node and no session depends on this crate.
//!
//! ```text
//!                                               ┌─▶ ZenohStream (TCP, WebSocket) ─┬─▶ ZenohSession ─▶ Record
//!  chunks ─▶ CaptureReader ─▶ Flows ─┬─▶ Follower ─┴─▶ ZmtpStream ─▶ ZRE ─▶ Record   │
//!                                    └─▶ beacons, zenoh::Datagrams (UDP) ───────────────┘
//! ```
//!
//! [`Dissector`] finds Zenoh and ZMTP in a capture on any port and ignores everything else. It follows
//! each session of Zenoh through compression, fragments and declared keys, and each connection of ZMTP
//! through its handshake to the messages of ZRE, ZRE/LOG and zgossip in it. Bytes that belong to one of
//! them and do not decode become a record too ([`Message::Error`]), and reading goes on at the next
//! batch or frame. No content of a capture stops the reading, and memory is bounded by [`limits`].
//! [`FrameDissector`] does the same with bytes of Zenoh that do not come from a capture.

pub mod capture;
mod dissector;
mod follower;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod json;
pub mod limits;
mod record;
mod said;
mod shared;
mod side;
mod text;
mod zenoh;
mod zmtp;

pub use dissector::{Dissector, Options};
pub use frames::{Frame, FrameDissector, Framing};
pub use json::write_jsonl;
pub use record::{Cause, Fault, Key, Message, Protocol, Record, Torn};
pub use said::{Handshake, Headers, Said, Stamp, ZreMessage, readable};
pub use text::write_text;
