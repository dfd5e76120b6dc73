//! INIT, id 0x01 (`zenoh-wire` 3.3, 3.6).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|S|A|  INIT   |   S: size parameters, A: ACK
//! +-+-+-+---------+
//! |    version    |   0x09
//! |zid_len|X|X|wai|
//! ~      zid      ~
//! |X|X|X|X|rid|fsn|   if S; 0 8 bit, 1 16 bit, 2 32 bit, 3 64 bit
//! |  batch_size   |   if S; u16 little-endian
//! ~    cookie     ~   if A; <u8;z16>
//! ~  extensions   ~   if Z: QoS 0x01 or QoSLink 0x21, Shm 0x42, Auth 0x43, MultiLink 0x44,
//! ~               ~         LowLatency 0x05, Compression 0x06, Patch 0x27, RegionName 0x48,
//! ~               ~         Lending 0x4f of zwire
//! +---------------+
//! ```

use super::{
    common::{Resolution, S, put_node, put_size, read_node, read_size},
    ext::{Chain, Z, read_header, skip_unknown},
};
use crate::{
    Text,
    buf::{Reader, Sink, put_zbytes},
    error::{DecodeError, DecodeErrorKind, Result},
    zenoh::{WhatAmI, ZenohId},
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x01;
const A: u8 = 0x20;
pub(super) const QOS: u8 = 0x01;
const QOS_LINK: u8 = 0x21;
const SHM: u8 = 0x42;
const AUTH: u8 = 0x43;
const MULTILINK: u8 = 0x44;
pub(super) const LOW_LATENCY: u8 = 0x05;
pub(super) const COMPRESSION: u8 = 0x06;
const PATCH: u8 = 0x27;
const REGION_NAME: u8 = 0x48;
/// Not of the protocol: nodes other than zwire skip it.
const LENDING: u8 = 0x4f;

/// Offer of QoS: with or without a range for this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosOffer {
    /// QoS 0x01.
    Plain,
    /// QoSLink 0x21: bit 1 range present, bit 2 reliability present, bits 10:3 and 18:11 first and
    /// last priority, bit 19 reliable.
    Link(u64),
}

/// Options negotiated in INIT beside the sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitExt {
    /// QoS: each priority has channels of its own.
    pub qos: Option<QosOffer>,
    /// Shm, opaque here.
    pub shm: Option<Bytes>,
    /// Auth, a nested chain.
    pub auth: Option<Bytes>,
    /// MultiLink, opaque.
    pub multilink: Option<Bytes>,
    /// LowLatency.
    pub low_latency: bool,
    /// Compression.
    pub compression: bool,
    /// Patch; absent is 0 and elided.
    pub patch: u64,
    /// RegionName; 1..32 bytes when valid.
    pub region_name: Option<Text>,
    /// Lending of memory between nodes of zwire, opaque here.
    pub lending: Option<Bytes>,
}

/// First and second message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// 0x09.
    pub version: u8,
    /// Role of the sender.
    pub whatami: WhatAmI,
    /// The sender.
    pub zid: ZenohId,
    /// Resolution and batch size; absent means 0x0a and 65535.
    pub size: Option<(Resolution, u16)>,
    /// The cookie, in the ACK only: its presence is the A flag.
    pub cookie: Option<Bytes>,
    /// Extensions.
    pub ext: InitExt,
}

impl Init {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let (version, whatami, zid) = read_node(r, ["INIT version", "INIT whatami", "INIT zid"])?;
        let size = read_size(header, r, ["INIT resolution", "INIT batch size"])?;
        let cookie = if header & A == 0 { None } else { Some(r.zbytes(u64::from(u16::MAX), "INIT cookie")?) };
        let mut ext = InitExt::default();
        let mut more = header & Z != 0;
        while more {
            let id;
            let offset = r.offset();
            (id, more) = read_header(r, "INIT extension")?;
            match id {
                QOS | QOS_LINK => {
                    let offer = match id {
                        QOS => QosOffer::Plain,
                        _ => QosOffer::Link(r.vle("INIT QoSLink")?),
                    };
                    // Both forms at once are refused. Of duplicates the last counts.
                    match ext.qos {
                        Some(QosOffer::Plain) if id == QOS_LINK => return Err(conflict(r, offset, id)),
                        Some(QosOffer::Link(_)) if id == QOS => return Err(conflict(r, offset, id)),
                        _ => ext.qos = Some(offer),
                    }
                }
                SHM => ext.shm = Some(r.zbytes(u64::from(u32::MAX), "INIT Shm")?),
                AUTH => ext.auth = Some(r.zbytes(u64::from(u32::MAX), "INIT Auth")?),
                MULTILINK => ext.multilink = Some(r.zbytes(u64::from(u32::MAX), "INIT MultiLink")?),
                LOW_LATENCY => ext.low_latency = true,
                COMPRESSION => ext.compression = true,
                PATCH => ext.patch = r.vle("INIT Patch")?,
                REGION_NAME => ext.region_name = Some(r.text(u64::from(u32::MAX), "INIT RegionName")?),
                LENDING => ext.lending = Some(r.zbytes(u64::from(u32::MAX), "INIT Lending")?),
                _ => skip_unknown(id, r, "INIT extension")?,
            }
        }
        Ok(Self { version, whatami, zid, size, cookie, ext })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let ext = &self.ext;
        let mut chain = Chain::new(
            usize::from(ext.qos.is_some())
                + usize::from(ext.shm.is_some())
                + usize::from(ext.auth.is_some())
                + usize::from(ext.multilink.is_some())
                + usize::from(ext.low_latency)
                + usize::from(ext.compression)
                + usize::from(ext.patch != 0)
                + usize::from(ext.region_name.is_some())
                + usize::from(ext.lending.is_some()),
        );
        let s = if self.size.is_some() { S } else { 0 };
        let a = if self.cookie.is_some() { A } else { 0 };
        sink.put_u8(ID | chain.flag() | s | a);
        put_node(sink, self.version, self.whatami, self.zid);
        put_size(sink, self.size);
        if let Some(cookie) = &self.cookie {
            put_zbytes(sink, cookie);
        }
        match ext.qos {
            None => {}
            Some(QosOffer::Plain) => chain.header(sink, QOS),
            Some(QosOffer::Link(value)) => chain.z64(sink, QOS_LINK, value),
        }
        for (id, bytes) in [(SHM, &ext.shm), (AUTH, &ext.auth), (MULTILINK, &ext.multilink)] {
            if let Some(bytes) = bytes {
                chain.zbuf(sink, id, bytes);
            }
        }
        if ext.low_latency {
            chain.header(sink, LOW_LATENCY);
        }
        if ext.compression {
            chain.header(sink, COMPRESSION);
        }
        if ext.patch != 0 {
            chain.z64(sink, PATCH, ext.patch);
        }
        if let Some(name) = &ext.region_name {
            chain.zbuf(sink, REGION_NAME, name.as_bytes());
        }
        if let Some(lending) = &ext.lending {
            chain.zbuf(sink, LENDING, lending);
        }
    }
}

#[cold]
fn conflict(r: &Reader<'_>, offset: usize, header: u8) -> DecodeError {
    r.error("INIT QoS", offset, DecodeErrorKind::ConflictingExtension { header })
}

#[cfg(test)]
mod tests {
    use super::super::{
        TransportMessage,
        testing::{both_ways_transport, kind, transport},
    };
    use super::*;

    fn minimal() -> Init {
        Init {
            version: 0x09,
            whatami: WhatAmI::Router,
            zid: ZenohId::new(1).unwrap(),
            size: None,
            cookie: None,
            ext: InitExt::default(),
        }
    }

    fn check(hex: &str, init: Init) {
        both_ways_transport(hex, &TransportMessage::Init(init));
    }

    #[test]
    fn each_flag() {
        check("01 09 00 01", minimal());
        check("41 09 00 01 0a 0002", Init { size: Some((Resolution::DEFAULT, 512)), ..minimal() });
        check("21 09 00 01 00", Init { cookie: Some(Bytes::new()), ..minimal() });
        let ext = InitExt { patch: 1, ..InitExt::default() };
        check("81 09 00 01 27 01", Init { ext, ..minimal() });
    }

    #[test]
    fn each_extension_in_the_order_of_their_ids() {
        let ext = InitExt {
            qos: Some(QosOffer::Plain),
            shm: Some(Bytes::from_static(b"s")),
            auth: Some(Bytes::from_static(b"a")),
            multilink: Some(Bytes::from_static(b"m")),
            low_latency: true,
            compression: true,
            patch: 1,
            region_name: Some(Text::from_static("r")),
            lending: Some(Bytes::from_static(b"l")),
        };
        let chain = "81 c2 01 73 c3 01 61 c4 01 6d 85 86 a7 01 c8 01 72 4f 01 6c";
        check(&format!("81 09 00 01 {chain}"), Init { ext, ..minimal() });
        let ext = InitExt { qos: Some(QosOffer::Link(0x8280e)), ..InitExt::default() };
        check("81 09 00 01 21 8ed020", Init { ext, ..minimal() });
    }

    #[test]
    fn the_longest_id_and_cookie() {
        let zid = ZenohId::new(u128::MAX).unwrap();
        let cookie = Some(Bytes::from(vec![7; 65_535]));
        let hex = format!("21 09 f2 {} ffff03 {}", "ff".repeat(16), "07".repeat(65_535));
        let init = Init { zid, cookie, whatami: WhatAmI::Client, ..minimal() };
        assert_eq!(transport(&hex), Ok(TransportMessage::Init(init)));
        let hex = format!("21 09 00 01 808004 {}", "07".repeat(65_536));
        assert!(matches!(kind(transport(&hex)), DecodeErrorKind::OutOfRange { value: 65_536, .. }));
    }

    #[test]
    fn both_forms_of_qos_at_once_are_refused() {
        for (hex, header) in [("81 09 00 01 a1 05 01", QOS), ("81 09 00 01 81 21 05", QOS_LINK)] {
            assert_eq!(kind(transport(hex)), DecodeErrorKind::ConflictingExtension { header });
        }
    }

    #[test]
    fn of_a_duplicate_the_last_counts() {
        let Ok(TransportMessage::Init(init)) = transport("81 09 00 01 a1 05 21 07") else { panic!() };
        assert_eq!(init.ext.qos, Some(QosOffer::Link(7)));
        let Ok(TransportMessage::Init(init)) = transport("81 09 00 01 81 01") else { panic!() };
        assert_eq!(init.ext.qos, Some(QosOffer::Plain));
    }

    #[test]
    fn whatami_3_and_the_zero_id_are_errors() {
        assert_eq!(kind(transport("01 09 03 01")), DecodeErrorKind::Illegal { value: 3 });
        assert_eq!(kind(transport("01 09 10 0000")), DecodeErrorKind::Illegal { value: 0 });
    }

    /// Reserved bits of the whatami and resolution bytes are ignored; high zero bytes of the id too.
    #[test]
    fn what_is_tolerated() {
        assert_eq!(transport("01 09 0c 01"), transport("01 09 00 01"));
        assert_eq!(transport("01 09 20 010000"), transport("01 09 00 01"));
        assert_eq!(transport("41 09 00 01 fa ffff"), transport("41 09 00 01 0a ffff"));
        assert_eq!(transport("81 09 00 01 0e"), transport("01 09 00 01"));
    }

    #[test]
    fn widths_and_masks() {
        let resolution = Resolution::new(1, 3);
        assert_eq!((resolution.frame_sn(), resolution.request_id(), resolution.0), (1, 3, 0x0d));
        assert_eq!(resolution.min(Resolution::DEFAULT), Resolution::new(1, 2));
        let masks = [0, 1, 2, 3].map(|width| Resolution::new(width, 2).sn_mask());
        assert_eq!(masks, [0x7f, 0x3fff, 0x0fff_ffff, 0xffff_ffff]);
    }
}
