//! PONG: the answer to a PING (`zmtp` 10).
//!
//! ```text
//! +----+--------+---------+
//! | 04 | "PONG" | context |   that of the PING
//! +----+--------+---------+
//! ```

use super::Command;
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// Answers a [`super::Ping`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// Context of the PING.
    pub context: Bytes,
}

impl Command for Pong {
    const NAME: &'static str = "PONG";

    /// Any length: libzmq answers a PING that is too short with bytes that were not in it (`zmtp` 10).
    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { context: r.rest() })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::both_ways;
    use super::*;

    /// `zmtp` 15.6.
    #[test]
    fn the_commands_of_the_examples() {
        both_ways("04 05 04 50 4F 4E 47", &Pong::default());
        both_ways("04 09 04 50 4F 4E 47 61 62 63 64", &Pong { context: Bytes::from_static(b"abcd") });
    }
}
