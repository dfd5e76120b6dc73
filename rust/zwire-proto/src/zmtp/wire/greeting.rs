//! The greeting of ZMTP 3.x (`zmtp` 3.1).
//!
//! ```text
//!    0        1..9       9      10     11      12..32      32       33..64
//! +------+-----------+------+-------+-------+-----------+--------+--------+
//! |  FF  |  padding  |  7F  | major | minor | mechanism | server | filler |
//! +------+-----------+------+-------+-------+-----------+--------+--------+
//! ```
//!
//! Of byte 9 the lowest bit counts. Padding is for peers of ZMTP 1.0, which read the length of an
//! identity in it; filler and the server's flag are ignored.

use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use core::fmt;

/// The first byte of every greeting since ZMTP 2.0.
pub(super) const SIGNATURE_START: u8 = 0xff;
/// The last byte of the signature.
pub(super) const SIGNATURE_END: u8 = 0x7f;

/// The name of a security mechanism, padded with zeros. Names compare over all 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mechanism(pub [u8; 20]);

impl Mechanism {
    /// No security.
    pub const NULL: Self = Self::named(b"NULL");
    /// User name and password, in clear.
    pub const PLAIN: Self = Self::named(b"PLAIN");
    /// CurveZMQ.
    pub const CURVE: Self = Self::named(b"CURVE");

    const fn named(name: &[u8]) -> Self {
        let mut raw = [0; 20];
        let mut i = 0;
        while i < name.len() {
            raw[i] = name[i];
            i += 1;
        }
        Self(raw)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "{}", self.0[..end].escape_ascii())
    }
}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mechanism({self})")
    }
}

/// The next byte, if it is legal.
pub(super) fn checked(r: &mut Reader<'_>, reading: &'static str, legal: fn(u8) -> bool) -> Result<u8> {
    let value = r.u8(reading)?;
    if legal(value) {
        return Ok(value);
    }
    Err(r.error(reading, r.offset() - 1, DecodeErrorKind::Illegal { value: value.into() }))
}

/// The padding in the signature.
pub(super) fn read_signature(r: &mut Reader<'_>) -> Result<u64> {
    checked(r, "greeting signature", |start| start == SIGNATURE_START)?;
    let padding = r.u64_be("greeting padding")?;
    checked(r, "greeting signature end", |end| end & 1 != 0)?;
    Ok(padding)
}

/// First bytes of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// libzmq writes the length of its identity plus 1.
    pub padding: u64,
    /// 3 or more.
    pub major: u8,
    /// 0: the peer knows no commands in traffic.
    pub minor: u8,
    /// Mechanism of the handshake.
    pub mechanism: Mechanism,
    /// As-server flag. Unreliable: libzmq never sets it.
    pub as_server: bool,
}

impl Greeting {
    /// Length of the greeting.
    pub const LEN: usize = 64;
    /// Length of signature and major version: they must be sent before waiting for the peer (`zmtp` 2,
    /// rule 1).
    pub const PREFIX_LEN: usize = 11;

    /// The greeting of ZMTP 3.1.
    #[must_use]
    pub const fn new(mechanism: Mechanism) -> Self {
        Self { padding: 0, major: 3, minor: 1, mechanism, as_server: false }
    }

    /// Reads a greeting.
    ///
    /// # Errors
    /// Too short, or of another generation than 3.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let padding = read_signature(r)?;
        let major = checked(r, "greeting major version", |major| major >= 3)?;
        let minor = r.u8("greeting minor version")?;
        let mechanism = Mechanism(r.array("greeting mechanism")?);
        let as_server = r.u8("greeting as-server")? != 0;
        r.slice(31, "greeting filler")?;
        Ok(Self { padding, major, minor, mechanism, as_server })
    }

    /// Writes the greeting.
    pub fn encode(&self, sink: &mut impl Sink) {
        sink.put_u8(SIGNATURE_START);
        sink.put(&self.padding.to_be_bytes());
        sink.put(&[SIGNATURE_END, self.major, self.minor]);
        sink.put(&self.mechanism.0);
        sink.put_u8(self.as_server.into());
        sink.put(&[0; 31]);
    }

    /// The greeting as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut out = Vec::with_capacity(Self::LEN);
        self.encode(&mut out);
        out.try_into().expect("the fields are 64 bytes")
    }

    /// Version that both sides may use: the smaller of the two (`zmtp` 3.2). A later major version
    /// counts as the latest known one.
    #[must_use]
    pub fn common_minor(&self, own: u8) -> u8 {
        if self.major > 3 { own } else { own.min(self.minor) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cuts, unhex};
    use super::*;

    const ZEROS: &str =
        "00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000 000000000000";

    fn check(hex: &str, greeting: Greeting) {
        let wire = unhex(hex);
        assert_eq!(greeting.to_bytes()[..], wire);
        let mut r = Reader::new(&wire);
        assert_eq!(Greeting::decode(&mut r), Ok(greeting));
        assert!(r.is_empty());
        cuts(&wire, Greeting::decode);
    }

    /// `zmtp` 15.1, and the greeting of a CURVE server.
    #[test]
    fn the_greetings_of_the_examples() {
        let null = Greeting::new(Mechanism::NULL);
        check(
            &format!("FF 00 00 00 00 00 00 00 01 7F 03 01 4E 55 4C 4C {ZEROS}"),
            Greeting { padding: 1, ..null },
        );
        check(&format!("FF 00 00 00 00 00 00 00 00 7F 03 01 4E 55 4C 4C {ZEROS}"), null);
        check(
            &format!("FF 00 00 00 00 00 00 00 12 7F 03 01 4E 55 4C 4C {ZEROS}"),
            Greeting { padding: 18, ..null },
        );
        let zeros = &ZEROS[2..];
        check(
            &format!("FF 00 00 00 00 00 00 00 01 7F 03 01 43 55 52 56 45 {zeros}"),
            Greeting { padding: 1, ..Greeting::new(Mechanism::CURVE) },
        );
    }

    /// `zmtp` 14: major 4, minor 9, padding and filler that are not zero are accepted.
    #[test]
    fn what_means_nothing_is_ignored() {
        let mut wire = Greeting { minor: 9, major: 4, ..Greeting::new(Mechanism::NULL) }.to_bytes();
        wire[9] = 0x01;
        wire[32..].fill(0xaa);
        let greeting = Greeting::decode(&mut Reader::new(&wire.to_vec().into())).unwrap();
        assert_eq!((greeting.major, greeting.minor, greeting.as_server), (4, 9, true));
        assert_eq!(greeting.common_minor(1), 1);
        assert_eq!(Greeting { minor: 0, ..Greeting::new(Mechanism::NULL) }.common_minor(1), 0);
        // The first version after 3.x may restart its minor numbers at 0.
        assert_eq!(Greeting { major: 4, minor: 0, ..greeting }.common_minor(1), 1);
    }

    #[test]
    fn other_generations_are_errors_that_say_where() {
        let good = Greeting::new(Mechanism::PLAIN).to_bytes();
        for (at, value) in [(0, 0x04), (9, 0x7e), (10, 2)] {
            let mut wire = good;
            wire[at] = value;
            let error = Greeting::decode(&mut Reader::new(&wire.to_vec().into())).unwrap_err();
            assert_eq!(error.offset, at);
            assert_eq!(error.kind, DecodeErrorKind::Illegal { value: value.into() });
        }
    }

    #[test]
    fn names_compare_with_their_padding() {
        let mut dirty = Mechanism::NULL;
        dirty.0[5] = b'x';
        assert_ne!(dirty, Mechanism::NULL);
        assert_eq!(dirty.to_string(), "NULL\\x00x");
        assert_eq!(format!("{:?}", Mechanism::CURVE), "Mechanism(CURVE)");
        assert_eq!(Mechanism([0; 20]).to_string(), "");
    }
}
