//! INITIATE of PLAIN: the client's metadata (`zmtp` 6.2).
//!
//! ```text
//! +----+------------+----------+
//! | 08 | "INITIATE" | metadata |
//! +----+------------+----------+
//! ```

use crate::zmtp::wire::{Metadata, command::command};

/// INITIATE from the client, after WELCOME.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainInitiate {
    /// Metadata of the client's socket.
    pub metadata: Metadata,
}

command!(PlainInitiate, "INITIATE", metadata);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::{SocketType, testing::both_ways};
    use bytes::Bytes;

    /// `zmtp` 15.8.
    #[test]
    fn the_command_of_the_example() {
        both_ways(
            "04 2C 08 49 4E 49 54 49 41 54 45 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 44 45 41 4C 45 52 \
             08 49 64 65 6E 74 69 74 79 00 00 00 00",
            &PlainInitiate { metadata: Metadata::of_socket(SocketType::Dealer, &Bytes::new()) },
        );
    }
}
