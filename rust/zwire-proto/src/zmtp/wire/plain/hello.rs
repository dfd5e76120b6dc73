//! HELLO of PLAIN: user and password (`zmtp` 6.2).
//!
//! ```text
//! +----+---------+-----+------+-----+----------+
//! | 05 | "HELLO" | len | user | len | password |
//! +----+---------+-----+------+-----+----------+
//! ```

use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::{Command, command::put_short},
};
use bytes::Bytes;
use core::fmt;

/// HELLO from the client, the first command.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainHello {
    /// At most 255 bytes.
    pub username: Bytes,
    /// At most 255 bytes, in clear.
    pub password: Bytes,
}

impl Command for PlainHello {
    const NAME: &'static str = "HELLO";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let len = r.u8("HELLO username length")?;
        let username = r.bytes(len.into(), "HELLO username")?;
        let len = r.u8("HELLO password length")?;
        let password = r.bytes(len.into(), "HELLO password")?;
        r.finish("HELLO")?;
        Ok(Self { username, password })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        put_short(sink, &self.username);
        put_short(sink, &self.password);
    }
}

impl fmt::Debug for PlainHello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("username", &self.username).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::DecodeErrorKind,
        zmtp::wire::testing::{both_ways_whole, kind, unhex},
    };

    /// `zmtp` 15.8.
    #[test]
    fn the_command_of_the_example() {
        let hello =
            PlainHello { username: Bytes::from_static(b"admin"), password: Bytes::from_static(b"secret") };
        both_ways_whole("04 13 05 48 45 4C 4C 4F 05 61 64 6D 69 6E 06 73 65 63 72 65 74", &hello);
        assert!(!format!("{hello:?}").contains("secret"));
    }

    #[test]
    fn nothing_may_follow() {
        let body = unhex("05 48 45 4C 4C 4F 00 00 00");
        assert_eq!(kind(PlainHello::decode(&body)), DecodeErrorKind::TrailingBytes { left: 1 });
    }
}
