//! The commands of CURVE (`zmtp` 6.3). Boxes are plain bytes here; the link opens them.
//!
//! ```text
//! client                            server
//!   | HELLO C', box                   |
//!   |-------------------------------->|
//!   |          WELCOME box(S', cookie)|
//!   |<--------------------------------|
//!   | INITIATE cookie, box(C, vouch,  |
//!   |          metadata)              |
//!   |-------------------------------->|
//!   |     READY box(metadata) or ERROR|
//!   |<--------------------------------|
//!   | MESSAGE box(flags, data)        |
//!   |<------------------------------->|
//! ```
//!
//! All but MESSAGE travel in command frames; MESSAGE travels in message frames.

mod hello;
mod initiate;
mod message;
mod ready;
#[cfg(test)]
pub(in crate::zmtp) mod testing;
mod welcome;

pub use hello::CurveHello;
pub use initiate::CurveInitiate;
pub use message::CurveMessage;
pub use ready::CurveReady;
pub use welcome::CurveWelcome;

/// Length of a box beyond that of its content.
pub const BOX_OVERHEAD: usize = 16;
/// Length of a cookie.
pub const COOKIE_LEN: usize = 96;
