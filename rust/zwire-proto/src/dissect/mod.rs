//! Captured traffic to records: one per network, scouting or session message.
//!
//! ```text
//!  chunks of a file ─▶ CaptureReader ─▶ Flows ─┬─▶ Stream (TCP, WebSocket) ─┬─▶ Session ─▶ Record
//!                                              └─▶ Datagrams (UDP) ─────────┘
//! ```
//!
//! [`Dissector`] finds the Zenoh in a capture on whatever port it is, follows each session through
//! compression, fragments and declared keys, and leaves everything else alone. Bytes that belong to a
//! session and do not decode become a record too ([`Message::Error`]), and reading goes on at the next
//! batch. Nothing that a capture holds ends the reading of it, and what is remembered of it is bounded
//! by [`limits`]. [`FrameDissector`] does the same with bytes that are in no capture.

mod dissector;
mod frames;
mod json;
pub mod limits;
mod record;
mod text;
mod zenoh;

pub use dissector::{Dissector, Options};
pub use frames::{Frame, FrameDissector, Framing};
pub use json::write_jsonl;
pub use record::{Cause, Fault, Key, Message, Record, Torn};
pub use text::write_text;
