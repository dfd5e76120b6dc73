//! SCOUT, id 0x01, and HELLO, id 0x02, of scouting (`zenoh-wire` 2).
//!
//! ```text
//!  7 6 5 4 3 2 1 0            7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+          +-+-+-+-+-+-+-+-+
//! |Z|X|X|  SCOUT  |          |Z|X|L|  HELLO  |   L: locators
//! +-+-+-+---------+          +-+-+-+---------+
//! |    version    |          |    version    |
//! |zid_len|I| what|          |zid_len|X|X|wai|
//! ~      zid      ~  if I    ~      zid      ~
//! ~  extensions   ~  if Z    ~   locators    ~   if L: VLE count, then <utf8;z8> each
//! +---------------+          ~  extensions   ~   if Z
//!                            +---------------+
//! ```
//!
//! No extension is defined, and even mandatory unknown ones are skipped.

use super::{
    common::{put_node, put_zid, read_node, read_zid, zid_len_bits},
    ext::skip_chain_leniently,
};
use crate::{
    Text,
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::Result,
    limits::MAX_LOCATORS,
    zenoh::{WhatAmI, ZenohId},
};

pub(super) const SCOUT_ID: u8 = 0x01;
pub(super) const HELLO_ID: u8 = 0x02;
const I: u8 = 0x08;
const L: u8 = 0x20;

/// SCOUT: asks for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scout {
    /// Protocol version; not checked by any implementation.
    pub version: u8,
    /// Roles looked for: 1 router, 2 peer, 4 client.
    pub what: u8,
    /// Id of the sender; sessions leave it out.
    pub zid: Option<ZenohId>,
}

impl Scout {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("SCOUT version")?;
        let flags = r.u8("SCOUT what")?;
        let zid =
            if flags & I == 0 { None } else { Some(read_zid(r, usize::from(flags >> 4) + 1, "SCOUT zid")?) };
        skip_chain_leniently(header, r, "SCOUT extension")?;
        Ok(Self { version, what: flags & 0x07, zid })
    }

    pub(super) fn encode(self, sink: &mut impl Sink) {
        sink.put_u8(SCOUT_ID);
        sink.put_u8(self.version);
        sink.put_u8(self.what & 0x07 | self.zid.map_or(0, |zid| zid_len_bits(zid) | I));
        if let Some(zid) = self.zid {
            put_zid(sink, zid);
        }
    }
}

/// HELLO: announces a node and its locators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Protocol version; not checked by any implementation.
    pub version: u8,
    /// Role of the sender.
    pub whatami: WhatAmI,
    /// The sender.
    pub zid: ZenohId,
    /// Locators on which the sender listens. Eclipse Zenoh ignores a HELLO without any.
    pub locators: Vec<Text>,
}

impl Hello {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let (version, whatami, zid) = read_node(r, ["HELLO version", "HELLO whatami", "HELLO zid"])?;
        let mut locators = Vec::new();
        if header & L != 0 {
            for _ in 0..r.count(MAX_LOCATORS, "HELLO locators")? {
                locators.push(r.text(u64::from(u8::MAX), "HELLO locator")?);
            }
        }
        skip_chain_leniently(header, r, "HELLO extension")?;
        Ok(Self { version, whatami, zid, locators })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        sink.put_u8(HELLO_ID | if self.locators.is_empty() { 0 } else { L });
        put_node(sink, self.version, self.whatami, self.zid);
        if !self.locators.is_empty() {
            put_vle(sink, self.locators.len() as u64);
            for locator in &self.locators {
                put_zbytes(sink, locator.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        ScoutingMessage,
        testing::{both_ways_scouting, kind, scouting},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    #[test]
    fn shortest_and_longest_scout() {
        let scout = |what, zid| ScoutingMessage::Scout(Scout { version: 9, what, zid });
        both_ways_scouting("01 09 00", &scout(0, None));
        both_ways_scouting("01 09 08 01", &scout(0, ZenohId::new(1)));
        both_ways_scouting(&format!("01 09 ff {}", "ff".repeat(16)), &scout(7, ZenohId::new(u128::MAX)));
    }

    #[test]
    fn hello_with_and_without_locators() {
        let hello = |locators| {
            let zid = ZenohId::new(1).unwrap();
            ScoutingMessage::Hello(Hello { version: 9, whatami: WhatAmI::Peer, zid, locators })
        };
        both_ways_scouting("02 09 01 01", &hello(Vec::new()));
        let longest = "l".repeat(255);
        let hex = format!("22 09 01 01 02 00 ff01 {}", "6c".repeat(255));
        both_ways_scouting(&hex, &hello(vec![Text::EMPTY, longest.as_str().into()]));
    }

    /// "Trailing bytes, reserved bits and unknown (even mandatory) extensions are ignored."
    #[test]
    fn what_scouting_tolerates() {
        assert_eq!(scouting("e1 09 07 9f b1 05 4e 01 00"), scouting("01 09 07"));
        assert_eq!(scouting("c2 08 0d 01 1f"), scouting("02 08 01 01"));
        assert_eq!(kind(scouting("81 09 07 7f")), DecodeErrorKind::ReservedEncoding { header: 0x7f });
    }

    #[test]
    fn the_number_of_locators_is_bounded() {
        let hex = |n: usize| format!("22 09 01 01 {} {}", "8102", "00".repeat(n));
        assert!(matches!(kind(scouting(&hex(257))), DecodeErrorKind::OutOfRange { value: 257, bound: 256 }));
        assert!(matches!(kind(scouting("22 09 01 01 7f 00")), DecodeErrorKind::OutOfRange { bound: 1, .. }));
        assert_eq!(kind(scouting("02 09 03 01")), DecodeErrorKind::Illegal { value: 3 });
        assert_eq!(kind(scouting("03 09 03 01")), DecodeErrorKind::UnknownId { id: 3 });
    }
}
