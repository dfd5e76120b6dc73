//! The commands of PLAIN (`zmtp` 6.2); the last one is [`super::Ready`].
//!
//! ```text
//! client                         server
//!   | HELLO user, password         |
//!   |----------------------------->|
//!   |            WELCOME, or ERROR |
//!   |<-----------------------------|
//!   | INITIATE metadata            |
//!   |----------------------------->|
//!   |               READY metadata |
//!   |<-----------------------------|
//! ```

mod hello;
mod initiate;
mod welcome;

pub use hello::PlainHello;
pub use initiate::PlainInitiate;
pub use welcome::PlainWelcome;
