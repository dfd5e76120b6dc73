//! Generation of a peer, from its first bytes (`zmtp` 13).
//!
//! ```text
//! byte 0 not FF            ZMTP 1.0, or not ZMTP
//! byte 9, bit 0 clear      ZMTP 1.0 with a long identity
//! byte 10 = 0              a versioned greeting, frames of 1.0
//! byte 10 = 1, 2           ZMTP 2.0
//! byte 10 >= 3             ZMTP 3.x
//! ```

use super::{Greeting, greeting::SIGNATURE_START};
use core::fmt;

/// The family of greetings and frames that a peer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpGeneration {
    /// ZMTP 1.0, or any other text or protocol, which cannot be told apart.
    V1,
    /// Revision 0: a greeting as of ZMTP 2.0 and frames as of 1.0. No release is known to send it.
    Revision0,
    /// ZMTP 2.0.
    V2,
    /// ZMTP 3.0 and later.
    V3,
}

impl ZmtpGeneration {
    /// The generation of a peer, from its first bytes; `None` when more are needed, which is never so
    /// with [`Greeting::PREFIX_LEN`] of them.
    #[must_use]
    pub fn detect(first: &[u8]) -> Option<Self> {
        if *first.first()? != SIGNATURE_START || first.get(9)? & 1 == 0 {
            return Some(Self::V1);
        }
        Some(match *first.get(Greeting::PREFIX_LEN - 1)? {
            0 => Self::Revision0,
            1 | 2 => Self::V2,
            3.. => Self::V3,
        })
    }
}

impl fmt::Display for ZmtpGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "ZMTP 1.0 or not ZMTP",
            Self::Revision0 => "ZMTP revision 0",
            Self::V2 => "ZMTP 2.0",
            Self::V3 => "ZMTP 3",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    #[test]
    fn each_row_of_the_table() {
        for (hex, generation) in [
            ("04 00 01 61 62", ZmtpGeneration::V1),
            ("47 45 54 20 2F", ZmtpGeneration::V1),
            ("FF 00 00 00 00 00 00 01 2D 00", ZmtpGeneration::V1),
            ("FF 00 00 00 00 00 00 00 00 7F 00", ZmtpGeneration::Revision0),
            ("FF 00 00 00 00 00 00 00 00 7F 01", ZmtpGeneration::V2),
            ("FF 00 00 00 00 00 00 00 00 7F 02", ZmtpGeneration::V2),
            ("FF 00 00 00 00 00 00 00 00 01 03", ZmtpGeneration::V3),
            ("FF 00 00 00 00 00 00 00 00 7F 04", ZmtpGeneration::V3),
        ] {
            let wire = unhex(hex);
            assert_eq!(ZmtpGeneration::detect(&wire), Some(generation), "{hex}");
            // No shorter piece gives another result.
            for cut in 0..wire.len() {
                let seen = ZmtpGeneration::detect(&wire[..cut]);
                assert!(seen.is_none_or(|seen| seen == generation), "{hex} cut at {cut}");
            }
        }
    }
}
