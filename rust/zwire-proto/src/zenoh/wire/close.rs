//! CLOSE, id 0x03, and KEEP_ALIVE, id 0x04 (`zenoh-wire` 3.7, 3.8).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|X|S|  CLOSE  |   S: the whole session, else this link
//! +-+-+-+---------+
//! |    reason     |
//! ~  extensions   ~   if Z: none defined
//! +---------------+
//! ```

use super::ext::skip_chain;
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use core::fmt;

pub(super) const ID: u8 = 0x03;
pub(super) const KEEP_ALIVE_ID: u8 = 0x04;
const S: u8 = 0x20;

/// Reason of a CLOSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseReason(pub u8);

impl CloseReason {
    /// Normal close; an extension that refuses.
    pub const GENERIC: Self = Self(0x00);
    /// Unsupported feature.
    pub const UNSUPPORTED: Self = Self(0x01);
    /// Undecodable or invalid message.
    pub const INVALID: Self = Self(0x02);
    /// Too many sessions.
    pub const MAX_SESSIONS: Self = Self(0x03);
    /// Too many links of one session.
    pub const MAX_LINKS: Self = Self(0x04);
    /// The lease expired.
    pub const EXPIRED: Self = Self(0x05);
    /// The peer does not drain.
    pub const UNRESPONSIVE: Self = Self(0x06);
    /// The peer is the node itself.
    pub const CONNECTION_TO_SELF: Self = Self(0x07);
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::GENERIC => f.write_str("GENERIC"),
            Self::UNSUPPORTED => f.write_str("UNSUPPORTED"),
            Self::INVALID => f.write_str("INVALID"),
            Self::MAX_SESSIONS => f.write_str("MAX_SESSIONS"),
            Self::MAX_LINKS => f.write_str("MAX_LINKS"),
            Self::EXPIRED => f.write_str("EXPIRED"),
            Self::UNRESPONSIVE => f.write_str("UNRESPONSIVE"),
            Self::CONNECTION_TO_SELF => f.write_str("CONNECTION_TO_SELF"),
            Self(other) => write!(f, "reason {other:#04x}"),
        }
    }
}

/// CLOSE; its sender closes the TCP connection right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Reason.
    pub reason: CloseReason,
    /// Whether the whole session is closed, else this link.
    pub session: bool,
}

impl Close {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let reason = CloseReason(r.u8("CLOSE reason")?);
        skip_chain(header, r, "CLOSE extension")?;
        Ok(Self { reason, session: header & S != 0 })
    }

    pub(super) fn encode(self, sink: &mut impl Sink) {
        sink.put_u8(ID | if self.session { S } else { 0 });
        sink.put_u8(self.reason.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        TransportMessage,
        testing::{both_ways_transport, transport},
    };
    use super::*;

    #[test]
    fn each_flag() {
        let close = |reason, session| TransportMessage::Close(Close { reason, session });
        both_ways_transport("03 00", &close(CloseReason::GENERIC, false));
        both_ways_transport("23 07", &close(CloseReason::CONNECTION_TO_SELF, true));
        both_ways_transport("03 ff", &close(CloseReason(0xff), false));
        both_ways_transport("04", &TransportMessage::KeepAlive);
    }

    #[test]
    fn optional_extensions_and_reserved_bits_are_skipped() {
        assert_eq!(transport("c3 02 0e"), transport("03 02"));
        assert_eq!(transport("e4 2e 05"), transport("04"));
    }

    #[test]
    fn an_unknown_reason_prints_as_a_number() {
        assert_eq!(CloseReason(0x2a).to_string(), "reason 0x2a");
        assert_eq!(CloseReason::MAX_LINKS.to_string(), "MAX_LINKS");
    }
}
