//! WELCOME of CURVE: the server's transient key and a cookie (`zmtp` 6.3).
//!
//! ```text
//!   0            8       24        168
//! +------------+-------+-----------+
//! | 07 WELCOME | nonce |    box    |   box: S', cookie
//! +------------+-------+-----------+
//! ```

use super::{BOX_OVERHEAD, COOKIE_LEN};
use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::Command,
};

const BOX: usize = BOX_OVERHEAD + 32 + COOKIE_LEN;

/// WELCOME from the server, after HELLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveWelcome {
    /// The random half of the nonce.
    pub nonce: [u8; 16],
    /// S' and the cookie, from S to C'.
    pub sealed: [u8; BOX],
}

impl Command for CurveWelcome {
    const NAME: &'static str = "WELCOME";

    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let nonce = r.array("WELCOME nonce")?;
        let sealed = r.array("WELCOME box")?;
        r.finish("WELCOME")?;
        Ok(Self { nonce, sealed })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.nonce);
        sink.put(&self.sealed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::{
        curve::testing,
        testing::{both_ways_whole, unhex},
    };

    /// `zmtp` 15.9.
    #[test]
    fn the_command_of_the_example() {
        let wire = unhex(testing::WELCOME);
        let welcome =
            CurveWelcome { nonce: wire[10..26].try_into().unwrap(), sealed: wire[26..].try_into().unwrap() };
        both_ways_whole(testing::WELCOME, &welcome);
    }
}
