//! The commands of CURVE (`zmtp` 6.3). Boxes are bytes here; who opens them is another module's matter.
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

pub use hello::Hello;
pub use initiate::Initiate;
pub use message::Message;
pub use ready::Ready;
pub use welcome::Welcome;

/// How much longer a box is than what is in it.
pub const BOX_OVERHEAD: usize = 16;
/// Length of a cookie.
pub const COOKIE_LEN: usize = 96;
