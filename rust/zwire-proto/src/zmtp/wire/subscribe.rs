//! SUBSCRIBE and CANCEL: start and end a subscription (`zmtp` 9). Peers of 3.0 use [`super::Subscription`].
//!
//! ```text
//! +----+-------------+--------+     +----+----------+--------+
//! | 09 | "SUBSCRIBE" | prefix |     | 06 | "CANCEL" | prefix |   to the end of the frame
//! +----+-------------+--------+     +----+----------+--------+
//! ```

use super::command::command;
use bytes::Bytes;

/// Subscribes to messages with this prefix of the first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// Empty for every message.
    pub prefix: Bytes,
}

command!(Subscribe, "SUBSCRIBE", prefix);

/// Cancels the prefix of an earlier SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Empty for every message.
    pub prefix: Bytes,
}

command!(Cancel, "CANCEL", prefix);

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

    /// `zmtp` 15.5.
    #[test]
    fn the_command_of_the_example() {
        both_ways("04 08 06 43 41 4E 43 45 4C 41", &Cancel { prefix: Bytes::from_static(b"A") });
        both_ways("04 07 06 43 41 4E 43 45 4C", &Cancel { prefix: Bytes::new() });
    }
}
