//! READY: ends the handshake (`zmtp` 6.1, 6.2). In CURVE it is [`super::curve::Ready`].
//!
//! ```text
//! +----+---------+----------+
//! | 05 | "READY" | metadata |
//! +----+---------+----------+
//! ```

use super::{Metadata, command::command};

/// NULL: from both sides, as soon as the other's greeting arrives. PLAIN: from the server, last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Metadata of the socket.
    pub metadata: Metadata,
}

command!(Ready, "READY", metadata);

#[cfg(test)]
mod tests {
    use super::super::{SocketType, testing::both_ways};
    use super::*;
    use bytes::Bytes;

    fn check(hex: &str, socket_type: SocketType, identity: &[u8]) {
        let identity = Bytes::copy_from_slice(identity);
        both_ways(hex, &Ready { metadata: Metadata::of_socket(socket_type, &identity) });
    }

    /// `zmtp` 15.2 and 15.3.
    #[test]
    fn the_commands_of_the_examples() {
        check(
            "04 3A 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 44 45 41 4C 45 52 08 49 \
             64 65 6E 74 69 74 79 00 00 00 11 01 0F 1E 2D 3C 4B 5A 69 78 87 96 A5 B4 C3 D2 E1 F0",
            SocketType::Dealer,
            &[
                0x01, 0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2,
                0xe1, 0xf0,
            ],
        );
        check(
            "04 29 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 52 4F 55 54 45 52 08 49 \
             64 65 6E 74 69 74 79 00 00 00 00",
            SocketType::Router,
            b"",
        );
        check(
            "04 19 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 03 50 55 42",
            SocketType::Pub,
            b"",
        );
        check(
            "04 19 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 03 53 55 42",
            SocketType::Sub,
            b"",
        );
        // `zmtp` 15.8: PLAIN, from the server "SRV".
        check(
            "04 2C 05 52 45 41 44 59 0B 53 6F 63 6B 65 74 2D 54 79 70 65 00 00 00 06 52 4F 55 54 45 52 08 49 \
             64 65 6E 74 69 74 79 00 00 00 03 53 52 56",
            SocketType::Router,
            b"SRV",
        );
        both_ways("04 06 05 52 45 41 44 59", &Ready::default());
    }
}
