//! Diary of recently ignored messages and the reasons, for the question "why does it not see that
//! peer?".

use super::super::Uuid;
use crate::Now;
use bytes::Bytes;
use core::{fmt, net::IpAddr};
use thiserror::Error;

/// Most entries. An entry is a source and a reason, so a flood from one source takes one entry.
const ENTRIES: usize = 64;

/// Longest identity that is kept; longer ones are cut.
const IDENTITY: usize = 64;

/// Sender of an ignored message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Address of a datagram.
    Address(IpAddr),
    /// A node.
    Peer(Uuid),
    /// The identity of a connection, which names no node.
    Identity(Bytes),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Peer(uuid) => uuid.fmt(f),
            Self::Identity(identity) if identity.is_empty() => f.write_str("no identity"),
            Self::Identity(identity) => write!(f, "identity {}", identity.escape_ascii()),
        }
    }
}

/// Reason why a message was ignored. Its text says how to fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum Reason {
    /// A datagram that is no beacon of any version.
    #[error("a datagram on the port of discovery that is no ZRE beacon")]
    NoBeacon,
    /// A beacon with a key, and this node has none.
    #[error("its beacon has a CURVE key; this node has none and cannot connect to it")]
    SecureBeacon,
    /// A beacon without a key, and this node has one.
    #[error("its beacon has no CURVE key; this node has one and accepts only peers with one")]
    PlainBeacon,
    /// The table of peers is full.
    #[error("this node has reached its limit of peers (`max_peers` or `max_unanswered`)")]
    TooManyPeers,
    /// A beacon of a new node, of too many.
    #[error(
        "more new nodes send beacons, from its address or in all, than this node connects to in a second"
    )]
    TooManyBeacons,
    /// The identity of a connection is no UUID.
    #[error("its connection has no identity that is a UUID, of 16 or 17 octets or 32 digits")]
    NoUuid,
    /// The identity of a connection is this node's own.
    #[error("it uses the UUID of this node")]
    OwnUuid,
    /// A message before HELLO.
    #[error("it has not sent HELLO in this session")]
    BeforeHello,
    /// HELLO of a generation that this node does not speak.
    #[error("it speaks a generation of ZRE that this node is not set to speak")]
    ForeignGeneration,
    /// HELLO without a key, and this node has one.
    #[error("its HELLO has no X-PUBLICKEY; this node has a CURVE key and requires one")]
    NoKey,
    /// Beacon, HELLO and connection do not have the same key.
    #[error("its beacon, its X-PUBLICKEY and its connection do not have the same key")]
    OtherKey,
    /// HELLO with the endpoint of this node.
    #[error("its HELLO names the endpoint of this node: address translation, or copied settings")]
    OwnEndpoint,
    /// HELLO with an endpoint of another host than that of its connection.
    #[error(
        "its HELLO names an endpoint of another host; this node connects to the host of the connection only"
    )]
    OtherHost,
    /// A beacon or a HELLO with the endpoint of a node that answers.
    #[error("it names the endpoint of another node, which answers")]
    EndpointInUse,
    /// The key is not allowed.
    #[error("its CURVE key is not in `allow`")]
    KeyNotAllowed,
    /// It made this node leave and come back a moment ago.
    #[error("messages of it were lost again; this node does not leave the network again so soon")]
    RestartedAgain,
    /// Another connection claims to be a node that answers.
    #[error("a connection from another address, or with another key, has the UUID of a node that answers")]
    Claimed,
    /// A message that does not decode.
    #[error("a message that cannot be read")]
    Malformed,
    /// Earlier messages are missing, or it is a repetition: the session ended.
    #[error("a message out of sequence: some before it were lost, or it came twice")]
    OutOfSequence,
}

/// Entry of the diary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Sender.
    pub source: Source,
    /// Reason.
    pub reason: Reason,
    /// Number of occurrences since the entry was made.
    pub count: u64,
    /// Time of the last occurrence.
    pub last: Now,
}

/// The entries, unordered. A new one replaces the oldest.
#[derive(Debug, Default)]
pub(super) struct Diary(Vec<Ignored>);

impl Diary {
    pub(super) fn note(&mut self, now: Now, source: Source, reason: Reason) {
        let known = self.0.iter_mut().find(|entry| entry.reason == reason && entry.source == source);
        if let Some(entry) = known {
            entry.count += 1;
            entry.last = now;
            return;
        }
        let entry = Ignored { source, reason, count: 1, last: now };
        if self.0.len() < ENTRIES {
            self.0.push(entry);
        } else if let Some(oldest) = self.0.iter_mut().min_by_key(|entry| entry.last.mono) {
            *oldest = entry;
        }
    }

    pub(super) fn entries(&self) -> &[Ignored] {
        &self.0
    }
}

/// The identity of a connection that is no UUID.
pub(super) fn of_identity(identity: &[u8]) -> Source {
    Source::Identity(Bytes::copy_from_slice(&identity[..identity.len().min(IDENTITY)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn at(ms: u64) -> Now {
        Now::at(Duration::from_millis(ms))
    }

    fn from(number: u32) -> Source {
        Source::Address(core::net::Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn the_same_takes_one_place() {
        let mut diary = Diary::default();
        (0..1000).for_each(|ms| diary.note(at(ms), from(1), Reason::NoBeacon));
        diary.note(at(5000), from(1), Reason::PlainBeacon);
        let first = Ignored { source: from(1), reason: Reason::NoBeacon, count: 1000, last: at(999) };
        assert_eq!(diary.entries()[0], first);
        assert_eq!(diary.entries().len(), 2);
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut diary = Diary::default();
        for number in 0..1000 {
            diary.note(at(number.into()), from(number), Reason::NoBeacon);
            diary.note(at(number.into()), from(7), Reason::Malformed);
        }
        assert_eq!(diary.entries().len(), ENTRIES);
        assert!(diary.entries().iter().any(|entry| entry.source == from(999)));
        assert!(diary.entries().iter().any(|entry| entry.source == from(7) && entry.count == 1000));
    }

    #[test]
    fn sources_are_named() {
        assert_eq!(from(0x0a00_0001).to_string(), "10.0.0.1");
        assert_eq!(of_identity(b"").to_string(), "no identity");
        assert_eq!(of_identity(b"\0abc\xff").to_string(), "identity \\x00abc\\xff");
        assert_eq!(of_identity(&[b'a'; 255]).to_string().len(), 9 + IDENTITY);
        let uuid = Uuid::from_bytes([7; 16]);
        assert_eq!(Source::Peer(uuid).to_string(), "07".repeat(16));
        assert_eq!(Reason::BeforeHello.to_string(), "it has not sent HELLO in this session");
    }
}
