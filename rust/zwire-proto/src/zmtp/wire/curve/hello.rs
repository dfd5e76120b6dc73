//! HELLO of CURVE: the client's transient key (`zmtp` 6.3).
//!
//! ```text
//!   0          6         8          80    112     120         200
//! +----------+---------+----------+-----+-------+-----------+
//! | 05 HELLO | version | 72 zeros | C'  | nonce |    box    |
//! +----------+---------+----------+-----+-------+-----------+
//! ```

use crate::{
    buf::{Reader, Sink},
    error::Result,
    zmtp::wire::Command,
};

const PADDING: usize = 72;

/// HELLO from the client, the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveHello {
    /// Major and minor version of CurveZMQ: 1, 0.
    pub version: [u8; 2],
    /// C', the transient public key of the client.
    pub client_transient: [u8; 32],
    /// The short nonce.
    pub nonce: u64,
    /// 64 zeros from C' to S: the client knows the server's key.
    pub signature: [u8; 80],
}

impl CurveHello {
    /// The only known version.
    pub const VERSION: [u8; 2] = [1, 0];
}

impl Command for CurveHello {
    const NAME: &'static str = "HELLO";

    /// The padding is ignored: it only makes a HELLO longer than its answer.
    fn decode_data(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.array("HELLO version")?;
        r.slice(PADDING, "HELLO padding")?;
        let client_transient = r.array("HELLO client key")?;
        let nonce = r.u64_be("HELLO nonce")?;
        let signature = r.array("HELLO box")?;
        r.finish("HELLO")?;
        Ok(Self { version, client_transient, nonce, signature })
    }

    fn encode_data(&self, sink: &mut impl Sink) {
        sink.put(&self.version);
        sink.put(&[0; PADDING]);
        sink.put(&self.client_transient);
        sink.put(&self.nonce.to_be_bytes());
        sink.put(&self.signature);
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
        let wire = unhex(testing::HELLO);
        let hello = CurveHello {
            version: CurveHello::VERSION,
            client_transient: wire[82..114].try_into().unwrap(),
            nonce: 1,
            signature: wire[122..].try_into().unwrap(),
        };
        both_ways_whole(testing::HELLO, &hello);
        assert!(CurveHello::decode(&unhex(&format!("{} 00", testing::HELLO)).slice(2..)).is_err());
    }
}
