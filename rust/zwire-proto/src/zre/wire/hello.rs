//! HELLO, id 1 (`zre` 9.2).
//!
//! ```text
//!  20/ZRE, zyre 1.0.0             36/ZRE, 43/ZRE
//! +--------------------+         +--------------------+
//! ~     ipaddress      ~ string  ~      endpoint      ~ string: tcp://ip:port
//! |      mailbox       | 2       ~       groups       ~ strings
//! ~       groups       ~ strings |       status       | 1
//! |       status       | 1       ~        name        ~ string
//! ~      headers       ~         ~      headers       ~ dictionary
//! +--------------------+         +--------------------+
//! ```
//!
//! The lists of zyre 1.0.0 are those of 36/ZRE. All fields are present, also if they are empty.

use super::{
    super::{Generation, z85},
    EncodeError, MessageId,
    field::{Encoded, groups, headers, put_groups, put_headers, put_name, put_string, string},
    header::{Header, signed_id},
};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

/// Address at which the sender listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Before 36/ZRE.
    Mailbox {
        /// The text of an IP address.
        ip: Bytes,
        /// The port of the ROUTER socket.
        port: u16,
    },
    /// From 36/ZRE on: `tcp://ip:port`.
    Endpoint(Bytes),
}

impl Address {
    /// `tcp://ip:port`, an IPv6 address in brackets.
    #[must_use]
    pub fn endpoint(&self) -> Bytes {
        match self {
            Self::Endpoint(endpoint) => endpoint.clone(),
            Self::Mailbox { ip, port } => {
                let bare = ip.contains(&b':') && ip[0] != b'[';
                let (open, close): (&[u8], &[u8]) = if bare { (b"[", b"]") } else { (b"", b"") };
                [b"tcp://", open, ip, close, format!(":{port}").as_bytes()].concat().into()
            }
        }
    }
}

/// Introduction of a node: its address, groups, name and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Address at which the sender listens.
    pub address: Address,
    /// Groups of the sender.
    pub groups: Vec<Bytes>,
    /// Group status: how often the sender joined or left a group, modulo 256.
    pub status: u8,
    /// Name of the sender; empty before 36/ZRE, which has none.
    pub name: Bytes,
    /// Names and values, in the order of the wire.
    pub headers: Vec<(Bytes, Bytes)>,
}

impl Hello {
    /// Announces a ZRE/LOG collector.
    pub const LOG_COLLECTOR: &'static [u8] = b"X-ZRELOG";
    /// Announces the CURVE key, as Z85.
    pub const PUBLIC_KEY: &'static [u8] = b"X-PUBLICKEY";

    /// The value of the first header of that name.
    #[must_use]
    pub fn header(&self, name: &[u8]) -> Option<&Bytes> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The CURVE key that the sender announces.
    #[must_use]
    pub fn public_key(&self) -> Option<[u8; 32]> {
        z85::decode_key(self.header(Self::PUBLIC_KEY)?)
    }

    /// The generation of a peer, from the header frame of its HELLO (`zre` 15.1).
    ///
    /// The octet behind the id is a version or, before 36/ZRE, the upper half of the sequence 1. 20/ZRE
    /// and zyre 1.0.0 are told apart by which of them consumes the frame to its last octet.
    ///
    /// # Errors
    /// No HELLO of any generation.
    pub fn generation(frame: &Bytes) -> Result<Generation> {
        Self::read(frame).map(|(generation, ..)| generation)
    }

    /// Generation, sequence and contents of a HELLO, without knowledge of the sender.
    ///
    /// # Errors
    /// No HELLO of any generation.
    pub fn read(frame: &Bytes) -> Result<(Generation, u16, Self)> {
        let mut r = Reader::new(frame);
        let id = signed_id(&mut r)?;
        if id != MessageId::HELLO {
            return Err(r.error("message id", 2, DecodeErrorKind::UnknownId { id: id.0 }));
        }
        let generation = match r.u8("message version")? {
            0 => return Self::read_legacy(frame),
            2 => Generation::Rfc36,
            3 => Generation::Rfc43,
            value => {
                let kind = DecodeErrorKind::Illegal { value: value.into() };
                return Err(r.error("message version", 3, kind));
            }
        };
        Self::consume(generation, frame).map(|(_, sequence, hello)| (generation, sequence, hello))
    }

    fn read_legacy(frame: &Bytes) -> Result<(Generation, u16, Self)> {
        if let Ok((0, sequence, hello)) = Self::consume(Generation::Rfc20, frame) {
            return Ok((Generation::Rfc20, sequence, hello));
        }
        match Self::consume(Generation::Zyre1, frame)? {
            (0, sequence, hello) => Ok((Generation::Zyre1, sequence, hello)),
            (left, ..) => Err(crate::DecodeError {
                reading: "HELLO",
                offset: frame.len() - left,
                kind: DecodeErrorKind::TrailingBytes { left },
            }),
        }
    }

    /// Whether a peer of 20/ZRE, which ignores trailing octets, would decode the header frame of a
    /// later HELLO as its own: its version and sequence as the number 512, and 112 groups in the rest.
    #[must_use]
    pub fn looks_like_rfc20(frame: &Bytes) -> bool {
        Self::consume(Generation::Rfc20, frame).is_ok()
    }

    /// Number of octets left behind the HELLO, its sequence, and its contents.
    fn consume(generation: Generation, frame: &Bytes) -> Result<(usize, u16, Self)> {
        let mut r = Reader::new(frame);
        let header = Header::decode(generation, &mut r)?;
        let hello = Self::decode(generation, &mut r)?;
        Ok((r.remaining(), header.sequence, hello))
    }

    pub(super) fn decode(generation: Generation, r: &mut Reader<'_>) -> Result<Self> {
        let address = if generation.is_legacy() {
            Address::Mailbox { ip: string(r, "HELLO ipaddress")?, port: r.u16_be("HELLO mailbox")? }
        } else {
            Address::Endpoint(string(r, "HELLO endpoint")?)
        };
        let groups = groups(r, generation)?;
        let status = r.u8("HELLO status")?;
        let name = if generation.is_legacy() { Bytes::new() } else { string(r, "HELLO name")? };
        Ok(Self { address, groups, status, name, headers: headers(r, generation)? })
    }

    pub(super) fn encode(&self, generation: Generation, sink: &mut impl Sink) -> Encoded {
        match &self.address {
            Address::Mailbox { ip, port } if generation.is_legacy() => {
                put_name(sink, ip, "HELLO ipaddress")?;
                sink.put(&port.to_be_bytes());
            }
            Address::Endpoint(endpoint) if !generation.is_legacy() => {
                put_name(sink, endpoint, "HELLO endpoint")?;
            }
            _ => return Err(EncodeError::Address { generation }),
        }
        put_groups(sink, generation, &self.groups)?;
        sink.put_u8(self.status);
        if !generation.is_legacy() {
            put_string(sink, &self.name, "HELLO name")?;
        }
        put_headers(sink, generation, &self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hello, unhex};
    use super::super::{Body, ZreMessage};
    use super::*;

    fn encode(generation: Generation, hello: Hello) -> core::result::Result<Vec<Bytes>, EncodeError> {
        ZreMessage { sequence: 1, body: Body::Hello(hello) }.encode(generation)
    }

    #[test]
    fn an_empty_hello_has_all_its_counts() {
        for (generation, hex) in [
            (Generation::Rfc20, "aaa101 0001 01 61 0001 00 00 00"),
            (Generation::Zyre1, "aaa101 0001 01 61 0001 00000000 00 00000000"),
            (Generation::Rfc36, "aaa10102 0001 01 61 00000000 00 00 00000000"),
            (Generation::Rfc43, "aaa10103 0001 01 61 00000000 00 00 00000000"),
        ] {
            let address = match generation.is_legacy() {
                true => Address::Mailbox { ip: Bytes::from_static(b"a"), port: 1 },
                false => Address::Endpoint(Bytes::from_static(b"a")),
            };
            let empty = Hello { address, groups: vec![], status: 0, name: Bytes::new(), headers: vec![] };
            assert_eq!(encode(generation, empty).unwrap(), [unhex(hex)], "{generation}");
            assert_eq!(Hello::generation(&unhex(hex)), Ok(generation));
        }
    }

    #[test]
    fn a_generation_is_told_only_by_what_fits_to_the_last_octet() {
        for generation in Generation::ALL {
            let frame = encode(generation, hello(generation)).unwrap().remove(0);
            assert_eq!(Hello::generation(&frame), Ok(generation));
            for cut in 0..frame.len() {
                // Three octets of a count of zyre 1.0.0 look like the three empty lists of 20/ZRE.
                let found = Hello::generation(&frame.slice(..cut));
                let looks_older = generation == Generation::Zyre1 && found == Ok(Generation::Rfc20);
                assert!(found.is_err() || looks_older && cut == 20, "{generation} cut at {cut}");
            }
            let longer = Bytes::from([&frame[..], &[0]].concat());
            assert_eq!(Hello::generation(&longer).is_ok(), !generation.is_legacy(), "{generation}");
        }
        assert!(Hello::generation(&unhex("aaa10402 0001")).is_err());
        assert!(Hello::generation(&unhex("aaa10104 0001")).is_err());
    }

    #[test]
    fn an_address_has_the_form_of_its_generation() {
        let legacy = hello(Generation::Rfc20);
        for generation in [Generation::Rfc36, Generation::Rfc43] {
            assert_eq!(encode(generation, legacy.clone()), Err(EncodeError::Address { generation }));
        }
        let generation = Generation::Zyre1;
        assert_eq!(encode(generation, hello(Generation::Rfc36)), Err(EncodeError::Address { generation }));
    }

    #[test]
    fn counts_are_bounded_before_memory_is_taken() {
        for (hex, reading) in [
            ("aaa10102 0001 01 61 ffffffff", "HELLO groups"),
            ("aaa10102 0001 01 61 00004001", "HELLO groups"),
            ("aaa10102 0001 01 61 00000001 00010001", "HELLO groups"),
            ("aaa10102 0001 01 61 00000000 00 00 ffffffff", "HELLO headers"),
            ("aaa10102 0001 01 61 00000000 00 00 00000001 01 61 ffffffff", "HELLO headers"),
        ] {
            let error = ZreMessage::decode(Generation::Rfc36, &[unhex(hex)]).unwrap_err();
            assert_eq!(error.reading, reading);
            assert!(matches!(error.kind, DecodeErrorKind::OutOfRange { .. }), "{hex}: {error}");
        }
        // A count within the bound that the frame cannot hold.
        let error =
            ZreMessage::decode(Generation::Rfc36, &[unhex("aaa10102 0001 01 61 00001000")]).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Truncated { needed: 4 * 4096 });
    }

    #[test]
    fn the_endpoint_of_an_ipv6_address_has_brackets() {
        let endpoint =
            |ip: &'static [u8]| Address::Mailbox { ip: Bytes::from_static(ip), port: 49200 }.endpoint();
        assert_eq!(endpoint(b"10.99.0.3"), "tcp://10.99.0.3:49200");
        assert_eq!(endpoint(b"fe80::1"), "tcp://[fe80::1]:49200");
        assert_eq!(endpoint(b"[fe80::1]"), "tcp://[fe80::1]:49200");
    }
}
