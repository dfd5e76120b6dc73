//! [`Offer`]: shape of a QUIC connection, negotiated by ALPN names.

use crate::config::{Choice, LinkOptions};
use quinn::Connection;
use zwire_proto::zenoh::{Priority, Reliability};

const ONE_STREAM: &[u8] = b"zenoh";
/// Name for both a single stream and datagrams only, in versions up to 1.8.
const OLD: &[u8] = b"hq-29";
const STREAMS: &[u8] = b"zenoh-ms";
const MIXED: &[u8] = b"zenoh-mr";
const STREAMS_MIXED: &[u8] = b"zenoh-ms-mr";

/// Shape requested by an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// `rel=0`: each batch is a datagram.
    Datagrams,
    /// Streams: a single one, or one for each priority; optionally with datagrams for best-effort messages.
    Streams { multistream: Choice, mixed: Choice },
}

/// Shape that two endpoints have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) streams: bool,
    pub(super) multistream: bool,
    pub(super) datagrams: bool,
}

impl Offer {
    pub(super) fn of(options: &LinkOptions) -> Self {
        if options.reliability == Some(Reliability::BestEffort) {
            return Self::Datagrams;
        }
        Self::Streams {
            multistream: options.multistream.unwrap_or(Choice::Auto),
            mixed: options.mixed_rel.unwrap_or(Choice::No),
        }
    }

    /// ALPN names of the requested shapes; the first one that both sides know is used.
    pub(super) fn names(self) -> Vec<Vec<u8>> {
        let Self::Streams { multistream, mixed } = self else { return vec![OLD.to_vec()] };
        [
            (STREAMS_MIXED, multistream.allows(true) && mixed.allows(true)),
            (STREAMS, multistream.allows(true) && mixed.allows(false)),
            (MIXED, multistream.allows(false) && mixed.allows(true)),
            (ONE_STREAM, multistream.allows(false) && mixed.allows(false)),
            (OLD, multistream.allows(false) && mixed.allows(false)),
        ]
        .into_iter()
        .filter(|(_, allowed)| *allowed)
        .map(|(name, _)| name.to_vec())
        .collect()
    }

    /// Number of unidirectional streams that the other side may open.
    pub(super) fn streams_of_one_direction(self) -> u32 {
        match self {
            Self::Streams { multistream, .. } if multistream.allows(true) => Priority::COUNT as u32 - 1,
            _ => 0,
        }
    }

    /// Whether there are bidirectional streams.
    pub(super) const fn has_streams(self) -> bool {
        matches!(self, Self::Streams { .. })
    }

    pub(super) fn has_datagrams(self) -> bool {
        match self {
            Self::Datagrams => true,
            Self::Streams { mixed, .. } => mixed.allows(true),
        }
    }

    /// The shape negotiated for a connection.
    pub(super) fn agreed(self, connection: &Connection) -> Shape {
        if self == Self::Datagrams {
            return Shape { streams: false, multistream: false, datagrams: true };
        }
        let data = connection.handshake_data();
        let data = data.and_then(|data| data.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
        let name = data.and_then(|data| data.protocol).unwrap_or_default();
        Shape {
            streams: true,
            multistream: name == STREAMS || name == STREAMS_MIXED,
            datagrams: name == MIXED || name == STREAMS_MIXED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that eclipse-zenoh 1.10.2 offers, as recorded by a logging listener.
    #[test]
    fn names_are_those_of_the_reference() {
        use Choice::{Auto, No, Yes};
        let all: [(Choice, Choice, &[&str]); 9] = [
            (Auto, No, &["zenoh-ms", "zenoh", "hq-29"]),
            (Yes, No, &["zenoh-ms"]),
            (No, No, &["zenoh", "hq-29"]),
            (Auto, Yes, &["zenoh-ms-mr", "zenoh-mr"]),
            (Yes, Yes, &["zenoh-ms-mr"]),
            (No, Yes, &["zenoh-mr"]),
            (Auto, Auto, &["zenoh-ms-mr", "zenoh-ms", "zenoh-mr", "zenoh", "hq-29"]),
            (Yes, Auto, &["zenoh-ms-mr", "zenoh-ms"]),
            (No, Auto, &["zenoh-mr", "zenoh", "hq-29"]),
        ];
        for (multistream, mixed, names) in all {
            let offer = Offer::Streams { multistream, mixed };
            let expected: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(offer.names(), expected, "{offer:?}");
        }
        assert_eq!(Offer::Datagrams.names(), [b"hq-29"]);
    }
}
