//! CANCEL: ends a subscription (`zmtp` 9). Peers of 3.0 use [`super::Subscription`].
//!
//! ```text
//! +----+----------+--------+
//! | 06 | "CANCEL" | prefix |   to the end of the frame
//! +----+----------+--------+
//! ```

use super::Command;
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// Cancels the prefix of an earlier SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Empty for every message.
    pub prefix: Bytes,
}

impl Command for Cancel {
    const NAME: &'static str = "CANCEL";

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
    fn the_command_of_the_example() {
        both_ways("04 08 06 43 41 4E 43 45 4C 41", &Cancel { prefix: Bytes::from_static(b"A") });
        both_ways("04 07 06 43 41 4E 43 45 4C", &Cancel { prefix: Bytes::new() });
    }
}
