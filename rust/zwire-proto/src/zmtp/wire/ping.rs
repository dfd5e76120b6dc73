//! PING, which asks for a sign of life, and PONG, the answer (`zmtp` 10).
//!
//! ```text
//! +----+--------+-----+---------+
//! | 04 | "PING" | TTL | context |   TTL: 2 bytes, tenths of a second; context: 0 to 16 bytes
//! +----+--------+-----+---------+
//! | 04 | "PONG" | context |         that of the PING
//! +----+--------+---------+
//! ```

use super::{Command, command::command};
use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::limits::MAX_PING_CONTEXT,
};
use bytes::Bytes;

/// Asks for a [`Pong`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// TTL: silence of the sender after which it counts as gone; 0 for none.
    pub ttl: u16,
    /// Bytes that the PONG has to repeat.
    pub context: Bytes,
}

impl Command for Ping {
    const NAME: &'static str = "PING";

    /// A context that is too long is truncated, as in libzmq.
    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let ttl = r.u16_be("PING TTL")?;
        let mut context = r.rest();
        context.truncate(MAX_PING_CONTEXT);
        Ok(Self { ttl, context })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.ttl.to_be_bytes());
        sink.put(&self.context);
    }
}

/// Answers a [`Ping`]. A context may have any length: libzmq answers a PING that is too short with bytes
/// that were not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// Context of the PING.
    pub context: Bytes,
}

command!(Pong, "PONG", context);

#[cfg(test)]
mod tests {
    use super::super::testing::{both_ways, kind, unhex};
    use super::*;
    use crate::error::DecodeErrorKind;

    /// `zmtp` 15.6.
    #[test]
    fn the_commands_of_the_examples() {
        both_ways("04 07 04 50 49 4E 47 00 00", &Ping::default());
        both_ways(
            "04 0B 04 50 49 4E 47 00 00 61 62 63 64",
            &Ping { ttl: 0, context: Bytes::from_static(b"abcd") },
        );
        both_ways("04 07 04 50 49 4E 47 00 19", &Ping { ttl: 25, context: Bytes::new() });
    }

    #[test]
    fn a_missing_ttl_is_an_error_and_a_long_context_is_cut() {
        for (hex, needed) in [("04 50 49 4E 47", 2), ("04 50 49 4E 47 00", 1)] {
            assert_eq!(kind(Ping::decode(&unhex(hex))), DecodeErrorKind::Truncated { needed });
        }
        let long = unhex(&format!("04 50 49 4E 47 00 00 {}", "61".repeat(17)));
        assert_eq!(Ping::decode(&long).unwrap().context, "a".repeat(16));
    }

    /// `zmtp` 15.6.
    #[test]
    fn the_answers_of_the_examples() {
        both_ways("04 05 04 50 4F 4E 47", &Pong::default());
        both_ways("04 09 04 50 4F 4E 47 61 62 63 64", &Pong { context: Bytes::from_static(b"abcd") });
    }
}
