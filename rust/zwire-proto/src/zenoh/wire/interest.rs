//! INTEREST, id 0x19 (`zenoh-wire` 4.8).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|MOD|INTEREST |   MOD: 00 Final, 01 Current, 10 Future, 11 CurrentFuture
//! +-+-+-+---------+
//! %  interest id  %   z32
//! |A|M|N|R|T|Q|S|K|   options; absent when MOD = Final
//! ~   WireExpr    ~   if R
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33 (mandatory)
//! +---------------+
//! ```

use super::{
    common::{NODE_ID, QOS, TIMESTAMP, put_timestamp_ext, read_node_id, read_qos, read_timestamp_ext},
    ext::{Chain, Z, read_header, skip_unknown},
    wire_expr::{M as WIRE_M, N as WIRE_N, WireExpr},
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
    zenoh::{Qos, Timestamp},
};
use core::ops::BitOr;

pub(super) const ID: u8 = 0x19;
const MODE: u8 = 0x60;

/// Time range of an interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterestMode {
    /// Ends the interest with that id.
    Final,
    /// Existing declarations.
    Current,
    /// Future declarations, and the end of existing ones.
    Future,
    /// Existing and future declarations.
    CurrentFuture,
}

impl InterestMode {
    /// All of them, in the order of their numbers on the wire.
    const ALL: [Self; 4] = [Self::Final, Self::Current, Self::Future, Self::CurrentFuture];

    /// Whether existing declarations are requested.
    #[must_use]
    pub const fn current(self) -> bool {
        matches!(self, Self::Current | Self::CurrentFuture)
    }
    /// Whether future declarations are requested.
    #[must_use]
    pub const fn future(self) -> bool {
        matches!(self, Self::Future | Self::CurrentFuture)
    }
}

/// Kinds of declarations requested. R, N and M are not included: they follow from the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InterestOptions(u8);

impl InterestOptions {
    /// K: the receiver may use D_KEYEXPR to shorten its declarations.
    pub const KEYEXPRS: Self = Self(0x01);
    /// S: subscribers.
    pub const SUBSCRIBERS: Self = Self(0x02);
    /// Q: queryables.
    pub const QUERYABLES: Self = Self(0x04);
    /// T: tokens.
    pub const TOKENS: Self = Self(0x08);
    /// A: one aggregate declaration with the key of the interest suffices.
    pub const AGGREGATE: Self = Self(0x80);

    const RESTRICTED: u8 = 0x10;
    const NAMED: u8 = 0x20;
    const MAPPING: u8 = 0x40;

    /// Whether all options of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without the options of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for InterestOptions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// INTEREST: a request for declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Chosen by the sender.
    pub id: u32,
    /// Time range.
    pub mode: InterestMode,
    /// Kinds of declarations requested; empty for Final.
    pub options: InterestOptions,
    /// Restriction to a key; `None`: all keys.
    pub key: Option<WireExpr>,
    /// Control and Block from all implementations but zenoh-pico, which leaves it out.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// Same as in PUSH.
    pub node_id: u16,
}

impl Interest {
    /// An interest with the usual QoS.
    #[must_use]
    pub const fn new(id: u32, mode: InterestMode, options: InterestOptions, key: Option<WireExpr>) -> Self {
        Self { id, mode, options, key, qos: Qos::DECLARE, timestamp: None, node_id: 0 }
    }

    /// The end of the interest `id`.
    #[must_use]
    pub const fn finished(id: u32) -> Self {
        Self::new(id, InterestMode::Final, InterestOptions(0), None)
    }

    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let id = r.z32("INTEREST id")?;
        let mode = InterestMode::ALL[usize::from((header & MODE) >> 5)];
        let mut interest = Self { qos: Qos::DEFAULT, ..Self::finished(id) };
        interest.mode = mode;
        if mode != InterestMode::Final {
            let options = r.u8("INTEREST options")?;
            if options & InterestOptions::RESTRICTED != 0 {
                let flags = (if options & InterestOptions::NAMED == 0 { 0 } else { WIRE_N })
                    | if options & InterestOptions::MAPPING == 0 { 0 } else { WIRE_M };
                interest.key = Some(WireExpr::decode(flags, r, "INTEREST key")?);
            }
            interest.options = InterestOptions(options & 0x8f);
        }
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "INTEREST extension")?;
            match ext {
                QOS => interest.qos = read_qos(r)?,
                TIMESTAMP => interest.timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                NODE_ID => interest.node_id = read_node_id(r)?,
                _ => skip_unknown(ext, r, "INTEREST extension")?,
            }
        }
        Ok(interest)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos != Qos::DEFAULT)
                + usize::from(self.timestamp.is_some())
                + usize::from(self.node_id != 0),
        );
        sink.put_u8(ID | chain.flag() | (self.mode as u8) << 5);
        put_vle(sink, u64::from(self.id));
        if self.mode != InterestMode::Final {
            let mut options = self.options.0;
            if let Some(key) = &self.key {
                options |= InterestOptions::RESTRICTED;
                options |= if key.flags() & WIRE_N == 0 { 0 } else { InterestOptions::NAMED };
                options |= if key.flags() & WIRE_M == 0 { 0 } else { InterestOptions::MAPPING };
            }
            sink.put_u8(options);
            if let Some(key) = &self.key {
                key.encode(sink);
            }
        }
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
        if self.node_id != 0 {
            chain.z64(sink, NODE_ID, u64::from(self.node_id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{both_ways, network},
    };
    use super::*;

    fn check(hex: &str, interest: Interest) {
        both_ways(hex, &NetworkMessage::Interest(interest));
    }

    fn plain(mode: InterestMode, options: InterestOptions, key: Option<WireExpr>) -> Interest {
        Interest { qos: Qos::DEFAULT, ..Interest::new(1, mode, options, key) }
    }

    #[test]
    fn each_mode() {
        check("19 01", plain(InterestMode::Final, InterestOptions::default(), None));
        check("39 01 02", plain(InterestMode::Current, InterestOptions::SUBSCRIBERS, None));
        check("59 01 04", plain(InterestMode::Future, InterestOptions::QUERYABLES, None));
        check("79 01 08", plain(InterestMode::CurrentFuture, InterestOptions::TOKENS, None));
        check("99 01 21 08", Interest::finished(1));
    }

    /// K S Q T R N M A, from bit 0.
    #[test]
    fn each_option() {
        let all = InterestOptions::KEYEXPRS
            | InterestOptions::SUBSCRIBERS
            | InterestOptions::QUERYABLES
            | InterestOptions::TOKENS
            | InterestOptions::AGGREGATE;
        check("39 01 8f", plain(InterestMode::Current, all, None));
        check("39 01 ff 00 01 6b", plain(InterestMode::Current, all, Some(WireExpr::full("k"))));
        let receiver = |suffix: &str| {
            Some(WireExpr { scope: 5, mapping: super::super::Mapping::Receiver, suffix: suffix.into() })
        };
        check("39 01 11 05", plain(InterestMode::Current, InterestOptions::KEYEXPRS, receiver("")));
        check("39 01 31 05 01 6b", plain(InterestMode::Current, InterestOptions::KEYEXPRS, receiver("k")));
        assert!(all.contains(InterestOptions::TOKENS | InterestOptions::AGGREGATE));
        assert!(!InterestOptions::KEYEXPRS.contains(all));
    }

    /// N and M have no meaning without R.
    #[test]
    fn options_of_the_key_without_a_key_are_ignored() {
        assert_eq!(network("39 01 61"), network("39 01 01"));
    }
}
