//! LOG of ZRE/LOG, a protocol of its own from PUB to SUB (RFC 20, `zre` 13.1).
//!
//! ```text
//! +----+----+----+-------+-------+---------+---------+---------+-------------+
//! | AA | A2 | 01 | level | event | node(2) | peer(2) | time(8) | data string |
//! +----+----+----+-------+-------+---------+---------+---------+-------------+
//! ```

use super::{
    super::limits,
    EncodeError,
    field::{expect, put_string, string},
};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;
use core::time::Duration;

const SIGNATURE: u16 = 0xaaa2;
const ID: u8 = 1;

/// Smallest time in milliseconds, the unit of the document. Smaller ones are in seconds, as real peers
/// send them. The bound is the year 5138 in seconds and 1973 in milliseconds.
const FIRST_MILLISECOND: u64 = 100_000_000_000;

/// Numbers of the document, each with its name.
macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident: $($name:ident = $number:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $type(pub u8);

        #[allow(missing_docs, reason = "the names of the document")]
        impl $type {
            $(pub const $name: Self = Self($number);)+

            /// Names of the numbers that the document defines.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Name of the number; `None`: the document does not define it.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                Self::NAMES.get(usize::from(self.0).checked_sub(1)?).copied()
            }

            /// The number of that name.
            #[must_use]
            pub fn of(name: &str) -> Option<Self> {
                (1..=u8::MAX).map(Self).zip(Self::NAMES).find_map(|(number, known)| (*known == name).then_some(number))
            }
        }
    };
}

numbers! {
    /// Severity of a log line.
    LogLevel: ERROR = 1, WARNING = 2, INFO = 3
}

numbers! {
    /// Event at the sender.
    LogEvent: JOIN = 1, LEAVE = 2, ENTER = 3, EXIT = 4, SEND = 5, RECV = 6
}

impl LogEvent {
    /// No event: a warning or an error.
    pub const NONE: Self = Self(0);
}

/// Log line of ZRE/LOG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Severity.
    pub level: LogLevel,
    /// Event.
    pub event: LogEvent,
    /// [`log_hash`] of the sender.
    pub node: u16,
    /// [`log_hash`] of the peer, zero if there is none.
    pub peer: u16,
    /// Time since 1970, in the unit of the sender; see [`Self::timestamp`].
    pub time: u64,
    /// Any text.
    pub data: Bytes,
}

impl Log {
    /// A line about an event.
    #[must_use]
    pub fn info(event: LogEvent, node: u16, peer: u16, wall: Duration, data: &str) -> Self {
        Self::new(LogLevel::INFO, event, node, peer, wall, data)
    }

    /// A line of any level; its text is cut at the limit of zyre. The time is in milliseconds, as in
    /// the document.
    #[must_use]
    pub fn new(level: LogLevel, event: LogEvent, node: u16, peer: u16, wall: Duration, data: &str) -> Self {
        let end = (0..=data.len().min(limits::MAX_LOG_INFO)).rev().find(|at| data.is_char_boundary(*at));
        let data = Bytes::copy_from_slice(&data.as_bytes()[..end.unwrap_or(0)]);
        let time = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { level, event, node, peer, time, data }
    }

    /// Time since 1970, for senders that count seconds and those that count milliseconds.
    #[must_use]
    pub const fn timestamp(&self) -> Duration {
        if self.time < FIRST_MILLISECOND {
            Duration::from_secs(self.time)
        } else {
            Duration::from_millis(self.time)
        }
    }

    /// Reads a frame. Octets behind the end are ignored.
    ///
    /// # Errors
    /// A frame that does not decode; a collector should drop it silently.
    pub fn decode(frame: &Bytes) -> Result<Self> {
        let mut r = Reader::new(frame);
        expect(&mut r, SIGNATURE, Reader::u16_be, "LOG signature")?;
        let id = r.u8("LOG id")?;
        if id != ID {
            return Err(r.error("LOG id", 2, DecodeErrorKind::UnknownId { id }));
        }
        let (level, event) = (LogLevel(r.u8("LOG level")?), LogEvent(r.u8("LOG event")?));
        let (node, peer) = (r.u16_be("LOG node")?, r.u16_be("LOG peer")?);
        let time = r.u64_be("LOG time")?;
        let data = string(&mut r, "LOG data")?;
        Ok(Self { level, event, node, peer, time, data })
    }

    /// The frame.
    ///
    /// # Errors
    /// An undefined level or event, or a text that is not UTF-8 or too long.
    pub fn encode(&self) -> core::result::Result<Bytes, EncodeError> {
        let (LogLevel(level), LogEvent(event)) = (self.level, self.event);
        if !(LogLevel::ERROR.0..=LogLevel::INFO.0).contains(&level) {
            return Err(EncodeError::Undefined { field: "LOG level", value: level });
        }
        if event > LogEvent::RECV.0 {
            return Err(EncodeError::Undefined { field: "LOG event", value: event });
        }
        let mut frame = Vec::with_capacity(18 + self.data.len());
        frame.put(&SIGNATURE.to_be_bytes());
        frame.put(&[ID, level, event]);
        frame.put(&self.node.to_be_bytes());
        frame.put(&self.peer.to_be_bytes());
        frame.put(&self.time.to_be_bytes());
        put_string(&mut frame, &self.data, "LOG data")?;
        Ok(frame.into())
    }
}

/// Hash of a node in ZRE/LOG. The document names no function; this is the one of zyre.
///
/// The input is the `ip:port` of the mailbox. For a peer zyre hashes the endpoint with `tcp://`, so
/// that the two numbers of one node differ.
#[must_use]
pub fn log_hash(text: &[u8]) -> u16 {
    // Octets are signed in the code of zyre, so that those above 127 set the upper half.
    text.iter().fold(0, |hash: u16, octet| hash.wrapping_mul(33) ^ octet.cast_signed() as u16)
}

/// Hash of a node by its endpoint without `tcp://`, so that its numbers as node and as peer are equal.
#[must_use]
pub fn log_hash_of(endpoint: &[u8]) -> u16 {
    log_hash(endpoint.strip_prefix(b"tcp://").unwrap_or(endpoint))
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    /// `zre` 13.1, "Check values, all seen in real traffic".
    #[test]
    fn hashes_seen_in_real_traffic() {
        for (text, hash) in [
            ("10.99.0.1:49152", 0xbecf),
            ("tcp://10.99.0.2:49152", 0x0651),
            ("tcp://10.99.0.3:49200", 0xe634),
            ("0F1E2D3C4B5A69788796A5B4C3D2E1F0", 0xda40),
            ("", 0),
        ] {
            assert_eq!(log_hash(text.as_bytes()), hash, "{text}");
        }
        assert_eq!(log_hash(b"\x80"), 0xff80);
        assert_eq!(log_hash_of(b"tcp://10.99.0.1:49152"), 0xbecf);
        assert_eq!(log_hash_of(b"10.99.0.1:49152"), 0xbecf);
    }

    #[test]
    fn names_of_levels_and_events() {
        for level in 0..=255 {
            let level = LogLevel(level);
            assert_eq!(level.name().map(LogLevel::of), (1..=3).contains(&level.0).then_some(Some(level)));
        }
        for event in 0..=255 {
            let event = LogEvent(event);
            assert_eq!(event.name().map(LogEvent::of), (1..=6).contains(&event.0).then_some(Some(event)));
        }
        assert_eq!((LogLevel::of("info"), LogEvent::of("")), (None, None));
    }

    /// `zre` 20.7.
    #[test]
    fn the_messages_of_the_document() {
        let info = |event, peer, time, data: &'static [u8]| Log {
            level: LogLevel::INFO,
            event,
            node: 0xbecf,
            peer,
            time,
            data: Bytes::from_static(data),
        };
        for (hex, log) in [
            (
                "AAA2010301BECF0000000000006B00EE1C064C4F47474544",
                info(LogEvent::JOIN, 0, 1_795_223_068, b"LOGGED"),
            ),
            (
                "AAA2010303BECF0651000000006B00EE1D157463703A2F2F31302E39392E302E323A3439313532",
                info(LogEvent::ENTER, 0x0651, 1_795_223_069, b"tcp://10.99.0.2:49152"),
            ),
            (
                "AAA2010305BECFDA40000000006B00EE1C127365713D3220636F6D6D616E643D4A4F494E",
                info(LogEvent::SEND, 0xda40, 1_795_223_068, b"seq=2 command=JOIN"),
            ),
        ] {
            let raw = unhex(hex);
            assert_eq!(Log::decode(&raw), Ok(log.clone()));
            assert_eq!(log.encode().unwrap(), raw);
            for cut in 0..raw.len() {
                assert!(Log::decode(&raw.slice(..cut)).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn the_unit_of_a_time_is_told_by_its_size() {
        let log = |time| Log { time, ..Log::info(LogEvent::JOIN, 0, 0, Duration::ZERO, "") };
        assert_eq!(log(1_795_223_068).timestamp(), Duration::from_secs(1_795_223_068));
        assert_eq!(log(1_795_223_068_123).timestamp(), Duration::from_millis(1_795_223_068_123));
        assert_eq!(log(FIRST_MILLISECOND).timestamp(), Duration::from_secs(100_000_000));
        let info = Log::info(LogEvent::EXIT, 0, 0, Duration::from_millis(1_795_223_068_123), "");
        assert_eq!(info.timestamp(), Duration::from_millis(1_795_223_068_123));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let data = |text: String| Log::info(LogEvent::JOIN, 0, 0, Duration::ZERO, &text).data.len();
        assert_eq!(data("a".repeat(300)), 254);
        assert_eq!(data("é".repeat(300)), 254);
        assert_eq!(data("a".to_owned() + &"é".repeat(300)), 253);
    }

    #[test]
    fn undefined_numbers_are_read_and_never_sent() {
        let raw = unhex("AAA20109070000000000000000000000006100");
        let log = Log::decode(&raw).unwrap_err();
        assert_eq!(log.reading, "LOG data");
        let log = Log::decode(&unhex("AAA2010907 0000 0000 0000000000000000 00")).unwrap();
        assert_eq!((log.level, log.event), (LogLevel(9), LogEvent(7)));
        assert_eq!(log.encode(), Err(EncodeError::Undefined { field: "LOG level", value: 9 }));
        let log = Log { level: LogLevel::ERROR, ..log };
        assert_eq!(log.encode(), Err(EncodeError::Undefined { field: "LOG event", value: 7 }));
    }
}
