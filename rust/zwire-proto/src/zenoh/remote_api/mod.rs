//! Messages of the remote API: WebSocket clients, such as browsers, that use a session of a router.
//!
//! A binary WebSocket message holds one of them:
//!
//! ```text
//! +---+-------------+
//! | A |  id: 7 bits |   A: an answer is wanted, or this is one
//! +---+-------------+
//! ~ sequence: u32   ~   if A, little endian; an answer repeats it
//! ~ fields          ~
//! +-----------------+
//! ```
//!
//! Integers are little endian, strings and lists have their length in front (LEB128), an option is a flag and the
//! value, an id of 16 octets is a list of octets. Octets behind the last field are not looked at, as in the
//! implementation of zenoh-ts. There is no version: 1.5 and later have these bytes, 1.8 has the last six requests.

mod field;
mod messages;
#[cfg(test)]
mod tests;

pub use field::{MAX_LIST, RemoteLink, RemotePriorities, RemoteQos, RemoteSettings, RemoteTransport};
pub use messages::{RemoteEvent, RemoteReply, RemoteRequest};

use crate::{
    buf::{Reader, Sink},
    error::Result,
};

/// Flag of the first byte.
const ANSWER: u8 = 0x80;

/// First bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteHead {
    /// Id of the message: requests and events have ids of their own.
    pub id: u8,
    /// Number of a request that is to be answered, or of the request that this answers.
    pub sequence: Option<u32>,
}

impl RemoteHead {
    /// Reads the first bytes.
    ///
    /// # Errors
    /// The message is empty, or ends in its number. Such a message cannot be answered.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let first = r.u8("remote message id")?;
        let sequence = match first & ANSWER {
            0 => None,
            _ => Some(u32::from_le_bytes(r.array("remote message sequence")?)),
        };
        Ok(Self { id: first & !ANSWER, sequence })
    }

    /// Writes the first bytes.
    pub fn encode(self, sink: &mut impl Sink) {
        match self.sequence {
            None => sink.put_u8(self.id),
            Some(sequence) => {
                sink.put_u8(self.id | ANSWER);
                sink.put(&sequence.to_le_bytes());
            }
        }
    }
}

/// Properties of any bytes, as a message of either direction: what is read is written in a form that is read as the
/// same, and written as the same bytes.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn both_ways(data: &[u8]) {
    use bytes::Bytes;

    macro_rules! check {
        ($message:ty) => {{
            let raw = Bytes::copy_from_slice(data);
            let mut r = Reader::new(&raw);
            if let Ok(head) = RemoteHead::decode(&mut r)
                && let Ok(message) = <$message>::decode(head.id, &mut r)
            {
                let mut first = Vec::new();
                message.encode(head.sequence, &mut first);
                let first = Bytes::from(first);
                assert!(first.len() <= raw.len(), "the canonical form is never longer");
                let mut r = Reader::new(&first);
                assert_eq!(RemoteHead::decode(&mut r), Ok(head));
                let again = <$message>::decode(head.id, &mut r);
                assert_eq!(again.as_ref(), Ok(&message));
                assert!(r.is_empty());
                let mut second = Vec::new();
                message.encode(head.sequence, &mut second);
                assert_eq!(first, second);
            }
        }};
    }

    check!(RemoteRequest);
    check!(RemoteEvent);
}
