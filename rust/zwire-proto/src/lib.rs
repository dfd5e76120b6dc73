//! Wire formats and protocol rules of Zenoh and ZRE, without IO.
//!
//! This crate encodes and decodes messages and implements the rules of a node; it cannot reach a
//! socket, a clock, a random source or Python. `zwire-engine` drives it.
//!
//! # The contract between a machine and its driver
//!
//! A machine (Zenoh link, session, node; ZMTP connection) is driven by its caller. Its methods fall
//! into four families:
//!
//! | Family | Shape | Example |
//! | --- | --- | --- |
//! | input | `handle_*(now, …)` | bytes on a link, a message of a face, link closed, deadline reached |
//! | command | a verb | `put`, `declare_subscriber`, `get` |
//! | output | `poll_*` until nothing comes | what to transmit, an event for the application, the next deadline |
//! | getter | a noun | peer id, statistics |
//!
//! **After each input or command, drain the outputs before the next one.** Nothing in a machine blocks:
//! time is the argument [`Now`], random numbers are arguments, and a command that does not fit returns
//! an error instead of growing a queue.

pub mod bridge;
pub mod buf;
pub mod cdr;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod lending;
pub mod limits;
mod named;
pub mod pcap;
mod printable;
pub mod text;
pub mod zenoh;
pub mod zmtp;
pub mod zre;

use core::time::Duration;

pub use error::{DecodeError, DecodeErrorKind};
pub use printable::printable;
pub use text::Text;

/// The two clocks a machine may ask for, read once by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since an arbitrary start; leases, timeouts and deadlines count in it.
    pub mono: Duration,
    /// Wall-clock time since the UNIX epoch; only timestamps are made of it.
    pub wall: Duration,
}

impl Now {
    /// A time for tests and simulations: both clocks show `mono` after their starts.
    #[must_use]
    pub const fn at(mono: Duration) -> Self {
        Self { mono, wall: mono }
    }
}
