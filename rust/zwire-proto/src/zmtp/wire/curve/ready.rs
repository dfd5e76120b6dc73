//! READY of CURVE: the server's metadata (`zmtp` 6.3).
//!
//! ```text
//!   0          6       14
//! +----------+-------+-----------+
//! | 05 READY | nonce |    box    |   box: metadata
//! +----------+-------+-----------+
//! ```

use super::{BOX_OVERHEAD, initiate::read_box};
use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::Command,
};
use bytes::Bytes;

/// READY from the server, the last command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveReady {
    /// The short nonce.
    pub nonce: u64,
    /// The metadata, from S' to C'.
    pub sealed: Bytes,
}

impl Command for CurveReady {
    const NAME: &'static str = "READY";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let nonce = r.u64_be("READY nonce")?;
        Ok(Self { nonce, sealed: read_box(r, BOX_OVERHEAD, "READY box")? })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.nonce.to_be_bytes());
        sink.put_shared(&self.sealed);
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
        let body = unhex(testing::READY).slice(2..);
        both_ways(testing::READY, &CurveReady { nonce: 1, sealed: body.slice(14..) });
        for cut in 0..30 {
            assert!(CurveReady::decode(&body.slice(..cut)).is_err(), "{cut}");
        }
        assert!(CurveReady::decode(&body.slice(..30)).is_ok());
    }
}
