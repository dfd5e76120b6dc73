//! SUBSCRIBE: starts a subscription (`zmtp` 9). Peers of 3.0 use [`super::Subscription`].
//!
//! ```text
//! +----+-------------+--------+
//! | 09 | "SUBSCRIBE" | prefix |   to the end of the frame
//! +----+-------------+--------+
//! ```

use super::Command;
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// Subscribes to messages with this prefix of the first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// Empty for every message.
    pub prefix: Bytes,
}

impl Command for Subscribe {
    const NAME: &'static str = "SUBSCRIBE";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { prefix: r.rest() })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put_shared(&self.prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::both_ways;
    use super::*;

    /// `zmtp` 15.5.
    #[test]
    fn the_commands_of_the_examples() {
        both_ways("04 0B 09 53 55 42 53 43 52 49 42 45 41", &Subscribe { prefix: Bytes::from_static(b"A") });
        both_ways("04 0A 09 53 55 42 53 43 52 49 42 45", &Subscribe { prefix: Bytes::new() });
        let long = format!("06 00 00 00 00 00 00 01 04 09 53 55 42 53 43 52 49 42 45 {}", "41".repeat(250));
        both_ways(&long, &Subscribe { prefix: vec![b'A'; 250].into() });
    }
}
