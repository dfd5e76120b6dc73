//! The greeting of ZMTP 2.0 (`zmtp` 13.1).
//!
//! ```text
//!    0      1..9      9       10         11         12    13     14..
//! +------+---------+------+----------+-------------+----+-----+----------+
//! |  FF  | padding |  7F  | revision | socket type | 00 | len | identity |
//! +------+---------+------+----------+-------------+----+-----+----------+
//! ```
//!
//! Behind it come frames as in 3.x, without commands.

use super::{
    SocketType,
    command::put_short,
    greeting::{SIGNATURE_END, SIGNATURE_START, checked, read_signature},
};
use crate::{
    buf::{Reader, Sink},
    error::Result,
};
use bytes::Bytes;

/// Greeting of a peer of ZMTP 2.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting2 {
    /// Same as in 3.x.
    pub padding: u64,
    /// Revision 1; current libzmq sends 3 here even to such a peer.
    pub revision: u8,
    /// Socket type.
    pub socket_type: SocketType,
    /// At most 255 bytes.
    pub identity: Bytes,
}

impl Greeting2 {
    /// Reads a greeting. The revision is not checked: [`super::ZmtpGeneration`] does that.
    ///
    /// # Errors
    /// Too short, an unknown socket type, or an identity that is not a final short frame.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let padding = read_signature(r)?;
        let revision = r.u8("greeting revision")?;
        let code = checked(r, "greeting socket type", |code| SocketType::from_code(code).is_some())?;
        let socket_type = SocketType::ALL[usize::from(code)];
        // A final short frame.
        checked(r, "greeting identity flags", |flags| flags == 0)?;
        let len = r.u8("greeting identity length")?;
        let identity = r.bytes(len.into(), "greeting identity")?;
        Ok(Self { padding, revision, socket_type, identity })
    }

    /// Writes the greeting. An identity above 255 bytes, which no socket has, is truncated.
    pub fn encode(&self, sink: &mut impl Sink) {
        sink.put_u8(SIGNATURE_START);
        sink.put(&self.padding.to_be_bytes());
        sink.put(&[SIGNATURE_END, self.revision]);
        self.encode_end(sink);
    }

    /// Writes the part behind the revision: the beginning is the same for all generations and was sent
    /// before the peer's was known.
    pub fn encode_end(&self, sink: &mut impl Sink) {
        sink.put(&[self.socket_type.code(), 0]);
        put_short(sink, &self.identity);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cuts, kind, unhex};
    use super::*;
    use crate::error::DecodeErrorKind;

    /// `zmtp` 13.1: bytes that libzmq sends as a ROUTER "SRVID" to a peer of 2.0.
    const EXAMPLE: &str = "FF 00 00 00 00 00 00 00 06 7F 03 06 00 05 53 52 56 49 44";

    fn decode(hex: &str) -> Result<Greeting2> {
        Greeting2::decode(&mut Reader::new(&unhex(hex)))
    }

    #[test]
    fn the_greeting_of_the_example() {
        let greeting = Greeting2 {
            padding: 6,
            revision: 3,
            socket_type: SocketType::Router,
            identity: Bytes::from_static(b"SRVID"),
        };
        assert_eq!(decode(EXAMPLE).as_ref(), Ok(&greeting));
        let mut out = Vec::new();
        greeting.encode(&mut out);
        assert_eq!(out, unhex(EXAMPLE));
        cuts(&unhex(EXAMPLE), Greeting2::decode);
    }

    #[test]
    fn a_socket_or_an_identity_of_another_form_is_refused() {
        let illegal = |value| DecodeErrorKind::Illegal { value };
        assert_eq!(kind(decode("FF 0000000000000000 7F 01 0B 00 00")), illegal(11));
        assert_eq!(kind(decode("FF 0000000000000000 7F 01 05 01 00")), illegal(1));
        assert_eq!(kind(decode("FE 0000000000000000 7F 01 05 00 00")), illegal(0xfe));
        assert_eq!(kind(decode("FF 0000000000000000 7E 01 05 00 00")), illegal(0x7e));
        assert!(decode("FF 0000000000000000 7F 01 05 00 00").is_ok());
    }
}
