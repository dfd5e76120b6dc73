//! MESSAGE of CURVE: one frame, sealed (`zmtp` 6.3).
//!
//! ```text
//!   0            8       16
//! +------------+-------+-----------+        7 6 5 4 3 2 1 0
//! | 07 MESSAGE | nonce |    box    |   box: 0 0 0 0 0 0 C M, data
//! +------------+-------+-----------+        C: command, M: more
//! ```
//!
//! MESSAGE travels in a message frame without MORE: libzmq drops it in a command frame, which the RFCs
//! require. Both are accepted.

use super::{BOX_OVERHEAD, initiate::read_box};
use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::{Command, FrameHead},
};
use bytes::Bytes;

/// MESSAGE from both sides, for all traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveMessage {
    /// The short nonce, larger than the previous one.
    pub nonce: u64,
    /// Flags and data of the frame.
    pub sealed: Bytes,
}

impl CurveMessage {
    /// Length of the body in front of the box.
    pub const PREFIX_LEN: usize = 16;

    /// In the flags of the box: more frames of the message follow.
    pub const MORE: u8 = 0x01;
    /// In the flags of the box: the data is a command, an extension of libzmq.
    pub const COMMAND: u8 = 0x02;

    /// The head of the frame that holds a box of this length.
    #[must_use]
    pub const fn head(sealed: usize) -> FrameHead {
        FrameHead::message(Self::PREFIX_LEN + sealed, false)
    }
}

impl Command for CurveMessage {
    const NAME: &'static str = "MESSAGE";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let nonce = r.u64_be("MESSAGE nonce")?;
        // The flags are in the box.
        Ok(Self { nonce, sealed: read_box(r, BOX_OVERHEAD + 1, "MESSAGE box")? })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.nonce.to_be_bytes());
        sink.put_shared(&self.sealed);
    }

    fn encode_frame(&self, sink: &mut impl Sink) {
        Self::head(self.sealed.len()).encode(sink);
        self.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::{curve::testing, testing::unhex};

    /// `zmtp` 15.9.
    #[test]
    fn the_messages_of_the_example() {
        for (hex, nonce) in [(testing::MESSAGE_C, 3), (testing::MESSAGE_S, 2)] {
            let wire = unhex(hex);
            let body = wire.slice(2..);
            let message = CurveMessage { nonce, sealed: body.slice(16..) };
            assert_eq!(message.to_frame(), wire);
            assert_eq!(CurveMessage::decode(&body), Ok(message));
            for cut in 0..33 {
                assert!(CurveMessage::decode(&body.slice(..cut)).is_err(), "{cut}");
            }
            assert!(CurveMessage::decode(&body.slice(..33)).is_ok());
        }
    }
}
