//! Subscriptions as messages, the form of ZMTP 3.0 and before (`zmtp` 9).
//!
//! ```text
//! +----+--------+
//! | op | prefix |   op: 01 subscribe, 00 cancel; the only frame of its message
//! +----+--------+
//! ```

use crate::buf::Sink;
use bytes::Bytes;

const SUBSCRIBE: u8 = 1;
const CANCEL: u8 = 0;

/// The body of a message from a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Same as [`super::Subscribe`].
    Subscribe(Bytes),
    /// Same as [`super::Cancel`].
    Cancel(Bytes),
}

impl Subscription {
    /// Decodes a message of one frame; `None` if it is no subscription, which a publisher ignores.
    #[must_use]
    pub fn decode(body: &Bytes) -> Option<Self> {
        match *body.first()? {
            SUBSCRIBE => Some(Self::Subscribe(body.slice(1..))),
            CANCEL => Some(Self::Cancel(body.slice(1..))),
            _ => None,
        }
    }

    /// Writes the body.
    pub fn encode(&self, sink: &mut impl Sink) {
        let (op, prefix) = match self {
            Self::Subscribe(prefix) => (SUBSCRIBE, prefix),
            Self::Cancel(prefix) => (CANCEL, prefix),
        };
        sink.put_u8(op);
        sink.put_shared(prefix);
    }

    /// The body.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{put_frame, testing::unhex};
    use super::*;

    /// `zmtp` 15.5.
    #[test]
    fn the_messages_of_the_examples() {
        for (hex, subscription) in [
            ("00 02 01 41", Subscription::Subscribe(Bytes::from_static(b"A"))),
            ("00 01 01", Subscription::Subscribe(Bytes::new())),
            ("00 02 00 41", Subscription::Cancel(Bytes::from_static(b"A"))),
        ] {
            let mut out = Vec::new();
            put_frame(&mut out, &subscription.to_bytes(), false);
            assert_eq!(out, unhex(hex));
            assert_eq!(Subscription::decode(&unhex(hex).slice(2..)), Some(subscription));
        }
    }

    #[test]
    fn other_messages_are_none() {
        assert_eq!(Subscription::decode(&Bytes::new()), None);
        assert_eq!(Subscription::decode(&Bytes::from_static(b"\x02A")), None);
    }
}
