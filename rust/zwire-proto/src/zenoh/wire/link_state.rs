//! Link state: the body of OAM 1 between routers, and of gossip between peers (`zenoh-wire` 4.9).
//!
//! VLE count, then per record: options (0x01 zid, 0x02 whatami, 0x04 locators, 0x08 weights, 0x10
//! gateway), psid, sn, then the fields of the options; the list of links is always there.

use super::common::read_zid;
use crate::{
    Text,
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::{DecodeErrorKind, Result},
    limits::{MAX_LINK_STATES, MAX_LOCATORS, MAX_TOLD_LINKS, MAX_TOLD_LOCATORS},
    zenoh::{WhatAmI, ZenohId},
};
use bytes::Bytes;

const ZID: u64 = 0x01;
const WHATAMI: u64 = 0x02;
const LOCATORS: u64 = 0x04;
const WEIGHTS: u64 = 0x08;
const GATEWAY: u64 = 0x10;

/// Record about one node, the sender or another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// The sender's number for the node described.
    pub psid: u64,
    /// Version counter of that node's state.
    pub sn: u64,
    /// The node; absent when `psid` was introduced before.
    pub zid: Option<ZenohId>,
    /// Role of the node; absent means router.
    pub whatami: Option<WhatAmI>,
    /// Locators on which the node listens.
    pub locators: Option<Vec<Text>>,
    /// Whether the node is a gateway of its region.
    pub gateway: bool,
    /// Nodes it is linked to, as psids.
    pub links: Vec<u64>,
    /// Weights, one per link; 0: unset.
    pub weights: Option<Vec<u16>>,
}

/// The records of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStateList(pub Vec<LinkState>);

impl LinkStateList {
    /// Reads the body of an OAM message.
    ///
    /// # Errors
    /// A malformed list; between routers and peers it closes the link.
    pub fn decode(body: &Bytes) -> Result<Self> {
        const READING: &str = "link state";
        let mut r = Reader::new(body);
        let count = r.count(MAX_LINK_STATES, READING)?;
        let mut records = Vec::with_capacity(count.min(64));
        let mut room = Room { links: MAX_TOLD_LINKS, locators: MAX_TOLD_LOCATORS };
        for _ in 0..count {
            records.push(LinkState::decode(&mut r, &mut room)?);
        }
        r.finish(READING)?;
        Ok(Self(records))
    }

    /// Writes the body of an OAM message.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_vle(&mut out, self.0.len() as u64);
        for record in &self.0 {
            record.encode(&mut out);
        }
        Bytes::from(out)
    }
}

/// Room that is left in a list.
struct Room {
    links: usize,
    locators: usize,
}

impl LinkState {
    fn decode(r: &mut Reader<'_>, room: &mut Room) -> Result<Self> {
        let options = r.vle("link state options")?;
        let mut record = Self {
            psid: r.vle("link state psid")?,
            sn: r.vle("link state sn")?,
            gateway: options & GATEWAY != 0,
            ..Self::default()
        };
        if options & ZID != 0 {
            let len = r.len(16, "link state zid")?;
            record.zid = Some(read_zid(r, len, "link state zid")?);
        }
        if options & WHATAMI != 0 {
            let offset = r.offset();
            let mask = r.u8("link state whatami")?;
            record.whatami = Some(WhatAmI::from_mask(mask).ok_or_else(|| {
                r.error("link state whatami", offset, DecodeErrorKind::Illegal { value: mask.into() })
            })?);
        }
        if options & LOCATORS != 0 {
            let count = r.count(MAX_LOCATORS.min(room.locators), "link state locators")?;
            room.locators -= count;
            let mut locators = Vec::with_capacity(count);
            for _ in 0..count {
                locators.push(r.text(u64::from(u8::MAX), "link state locator")?);
            }
            record.locators = Some(locators);
        }
        let count = r.count(MAX_LINK_STATES.min(room.links), "link state links")?;
        room.links -= count;
        for _ in 0..count {
            record.links.push(r.vle("link state link")?);
        }
        if options & WEIGHTS != 0 {
            let mut weights = Vec::with_capacity(count);
            for _ in 0..count {
                weights.push(r.z16("link state weight")?);
            }
            record.weights = Some(weights);
        }
        Ok(record)
    }

    fn encode(&self, sink: &mut impl Sink) {
        let option = |set: bool, bit: u64| if set { bit } else { 0 };
        put_vle(
            sink,
            option(self.zid.is_some(), ZID)
                | option(self.whatami.is_some(), WHATAMI)
                | option(self.locators.is_some(), LOCATORS)
                | option(self.weights.is_some(), WEIGHTS)
                | option(self.gateway, GATEWAY),
        );
        put_vle(sink, self.psid);
        put_vle(sink, self.sn);
        if let Some(zid) = self.zid {
            put_zbytes(sink, &zid.to_le_bytes()[..zid.wire_len()]);
        }
        if let Some(whatami) = self.whatami {
            sink.put_u8(whatami.to_mask());
        }
        if let Some(locators) = &self.locators {
            put_vle(sink, locators.len() as u64);
            for locator in locators {
                put_zbytes(sink, locator.as_bytes());
            }
        }
        put_vle(sink, self.links.len() as u64);
        for link in &self.links {
            put_vle(sink, *link);
        }
        // One weight per link without a count: missing ones are written as unset.
        if let Some(weights) = &self.weights {
            for i in 0..self.links.len() {
                put_vle(sink, weights.get(i).copied().unwrap_or(0).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    fn check(hex: &str, list: &LinkStateList) {
        assert_eq!(list.encode(), unhex(hex));
        assert_eq!(LinkStateList::decode(&unhex(hex)).as_ref(), Ok(list));
        for cut in 0..unhex(hex).len() {
            assert!(LinkStateList::decode(&unhex(hex).slice(..cut)).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn each_option() {
        check("00", &LinkStateList::default());
        let one = |record| LinkStateList(vec![record]);
        check("01 00 05 06 00", &one(LinkState { psid: 5, sn: 6, ..LinkState::default() }));
        let record = LinkState {
            psid: 0,
            sn: 128,
            zid: ZenohId::new(0x0201),
            whatami: Some(WhatAmI::Client),
            locators: Some(vec!["tcp/a:1".into()]),
            gateway: true,
            links: vec![1, 300],
            weights: Some(vec![0, 100]),
        };
        check("01 1f 00 8001 02 0102 04 01 07 7463702f613a31 02 01 ac02 00 64", &one(record));
    }

    /// Worked example of link state between two routers.
    #[test]
    fn two_routers() {
        let router = |psid, sn, zid, links| LinkState {
            psid,
            sn,
            zid: ZenohId::new(zid),
            whatami: Some(WhatAmI::Router),
            links,
            ..LinkState::default()
        };
        let list = LinkStateList(vec![router(0, 2, 0xa3, vec![1]), router(1, 0, 0xa2, Vec::new())]);
        check("02 03 00 02 01 a3 01 01 01 03 01 00 01 a2 01 00", &list);
    }

    /// A byte of a message would else take eight or more in memory, and a message may have 256 MiB.
    #[test]
    fn a_list_has_a_bound_for_all_of_its_records() {
        let list = |record: &LinkState, count| LinkStateList(vec![record.clone(); count]).encode();
        let linked = LinkState { links: vec![1; MAX_LINK_STATES], ..LinkState::default() };
        let most = MAX_TOLD_LINKS / MAX_LINK_STATES;
        assert!(LinkStateList::decode(&list(&linked, most)).is_ok());
        assert!(LinkStateList::decode(&list(&linked, most + 1)).is_err());
        let located = LinkState { locators: Some(vec!["".into(); MAX_LOCATORS]), ..LinkState::default() };
        let most = MAX_TOLD_LOCATORS / MAX_LOCATORS;
        assert!(LinkStateList::decode(&list(&located, most)).is_ok());
        assert!(LinkStateList::decode(&list(&located, most + 1)).is_err());
    }

    #[test]
    fn counts_are_bounded_by_what_is_there() {
        for hex in ["ff7f", "01 00 05 06 ff7f", "01 04 05 06 7f 00", "01 01 05 06 11 00", "01 02 05 06 03 00"]
        {
            assert!(LinkStateList::decode(&unhex(hex)).is_err(), "{hex}");
        }
    }
}
