//! INITIATE of CURVE: the client's key and its vouch (`zmtp` 6.3).
//!
//! ```text
//!   0             9        105     113
//! +-------------+--------+-------+-----------+
//! | 08 INITIATE | cookie | nonce |    box    |   box: C, vouch, metadata
//! +-------------+--------+-------+-----------+
//! ```

use super::{BOX_OVERHEAD, COOKIE_LEN};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
    zmtp::wire::Command,
};
use bytes::Bytes;

/// The box of a client without metadata: C and the vouch.
const LEAST_BOX: usize = BOX_OVERHEAD + 32 + 96;

/// INITIATE from the client, after WELCOME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveInitiate {
    /// The server's cookie, unchanged.
    pub cookie: [u8; COOKIE_LEN],
    /// The short nonce.
    pub nonce: u64,
    /// C, the vouch and the metadata, from C' to S'.
    pub sealed: Bytes,
}

impl Command for CurveInitiate {
    const NAME: &'static str = "INITIATE";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let cookie = r.array("INITIATE cookie")?;
        let nonce = r.u64_be("INITIATE nonce")?;
        let sealed = read_box(r, LEAST_BOX, "INITIATE box")?;
        Ok(Self { cookie, nonce, sealed })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.cookie);
        sink.put(&self.nonce.to_be_bytes());
        sink.put_shared(&self.sealed);
    }
}

/// A box of at least `least` bytes, to the end.
pub(super) fn read_box(r: &mut Reader<'_>, least: usize, reading: &'static str) -> Result<Bytes> {
    match least.checked_sub(r.remaining()) {
        None | Some(0) => Ok(r.rest()),
        Some(needed) => Err(r.error(reading, r.offset(), DecodeErrorKind::Truncated { needed })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::{
        curve::testing,
        testing::{both_ways, unhex},
    };

    /// `zmtp` 15.9.
    #[test]
    fn the_command_of_the_example() {
        let wire = unhex(testing::INITIATE);
        let body = wire.slice(9..);
        let initiate =
            CurveInitiate { cookie: body[9..105].try_into().unwrap(), nonce: 2, sealed: body.slice(113..) };
        both_ways(testing::INITIATE, &initiate);
        // 257 bytes are the shortest.
        for cut in 0..257 {
            assert!(CurveInitiate::decode(&body.slice(..cut)).is_err(), "{cut}");
        }
        assert!(CurveInitiate::decode(&body.slice(..257)).is_ok());
    }
}
