//! Handshakes, leases, closes and joins.

use crate::{build::*, unhex};
use bytes::Bytes;
use zwire_proto::{
    Text,
    zenoh::{
        VERSION, WhatAmI, ZenohId,
        wire::{
            BatchItem, Close, CloseReason, Init, InitExt, Join, NextSn, Open, OpenExt, QosOffer, Resolution,
            TransportMessage,
        },
    },
};

const COOKIE_E5: &str = "204360778f3d20afa6da4a2269e7726b3ab78874ec8655e9b899d315b2b25b0302";
const COOKIE_E8: &str = "206554b7f34779efddaf433a9c584942d964c20c97f5086ae14d906146788abe71";
const COOKIE_E14: &str = concat!(
    "30f9e24a58bd6c5a822fbff4cbb1b48c63e9850167bd595cef33b2515b527b1f",
    "010bb13bf6eca1b95c9fe3f6a9e1eec4b4"
);
const MAC_E15: &str = "c7c9ffc777f80b34cea97066cb4c5ff6d33dfbc1cd95cc07777b0906df042a92";

fn cookie(hex: &str) -> Option<Bytes> {
    Some(unhex(hex).into())
}

/// Default offer of eclipse-zenoh: QoS and patch 1.
fn offer() -> InitExt {
    InitExt { qos: Some(QosOffer::Plain), patch: 1, ..InitExt::default() }
}

/// The INIT SYN of the client that most examples use.
fn syn(ext: InitExt) -> BatchItem {
    transport(TransportMessage::Init(Init {
        version: VERSION,
        whatami: WhatAmI::Client,
        zid: client(),
        size: Some((Resolution(0x0a), 65_480)),
        cookie: None,
        ext,
    }))
}

fn ack(cookie: Option<Bytes>, ext: InitExt) -> BatchItem {
    transport(TransportMessage::Init(Init {
        version: VERSION,
        whatami: WhatAmI::Router,
        zid: router(),
        size: Some((Resolution(0x0a), 49_152)),
        cookie,
        ext,
    }))
}

fn open(lease_ms: u64, initial_sn: u32, cookie: Option<Bytes>, ext: OpenExt) -> BatchItem {
    transport(TransportMessage::Open(Open { lease_ms, initial_sn, cookie, ext }))
}

fn close(session: bool) -> BatchItem {
    transport(TransportMessage::Close(Close { reason: CloseReason(0), session }))
}

fn auth(chain: &[u8]) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(chain))
}

pub(crate) fn items(id: &str) -> Option<Vec<BatchItem>> {
    let item = match id {
        "E0.1" => transport(TransportMessage::Init(Init {
            version: VERSION,
            whatami: WhatAmI::Client,
            zid: ZenohId::new(0x03_02_01).unwrap(),
            size: None,
            cookie: None,
            ext: offer(),
        })),
        "E0.4" => open(10_000, 233_634_991, None, OpenExt::default()),
        "E0.8" | "E18" => transport(TransportMessage::KeepAlive),
        "E0.9" | "E19" => close(false),
        "E4" => syn(offer()),
        "E5" => ack(cookie(COOKIE_E5), offer()),
        "E6" => open(10_000, OPENER_SN, cookie(COOKIE_E5), OpenExt::default()),
        "E7" => open(10_000, ACCEPTOR_SN, None, OpenExt::default()),
        "E8" => open(2_500, OPENER_SN, cookie(COOKIE_E8), OpenExt::default()),
        "E9" => transport(TransportMessage::Init(Init {
            version: VERSION,
            whatami: WhatAmI::Client,
            zid: client(),
            size: Some((Resolution(0x08), 65_480)),
            cookie: None,
            ext: offer(),
        })),
        "E10" => syn(InitExt { qos: Some(QosOffer::Link(0x8280e)), ..offer() }),
        "E11" => syn(InitExt { compression: true, ..offer() }),
        "E12" => syn(InitExt { qos: None, low_latency: true, ..offer() }),
        "E13" => syn(InitExt { auth: auth(&[0x02]), ..offer() }),
        "E14" => {
            let chain = unhex("229c9d92a7a4adb5d268");
            ack(cookie(COOKIE_E14), InitExt { auth: auth(&chain), ..offer() })
        }
        "E15" => {
            let chain = [&[0x42, 0x27, 5][..], b"user1", &[32], &unhex(MAC_E15)].concat();
            let ext = OpenExt { auth: auth(&chain), ..OpenExt::default() };
            open(10_000, OPENER_SN, cookie(COOKIE_E14), ext)
        }
        "E16" => open(10_000, ACCEPTOR_SN, None, OpenExt { auth: auth(&[0x02]), ..OpenExt::default() }),
        "E17" => syn(InitExt { region_name: Some(Text::from_static("edge")), ..offer() }),
        "E20" => close(true),
        "E59" => join(NextSn { reliable: 0x0378_0f9e, best_effort: 0x0b63_3842 }, None),
        "E60" => transport(TransportMessage::Init(Init {
            version: VERSION,
            whatami: WhatAmI::Client,
            zid: ZenohId::new(0x0472_501f_b891_3b2b_3da8_b828_f3f9_3087).unwrap(),
            size: Some((Resolution(0x0a), 2_048)),
            cookie: None,
            ext: InitExt { patch: 1, ..InitExt::default() },
        })),
        "E66" => {
            let sn = NextSn { reliable: 1, best_effort: 2 };
            join(sn, Some((Resolution(0x0a), 8_192)))
        }
        _ => return None,
    };
    Some(vec![item])
}

/// With a size: the QoS extension too, all priorities at the same numbers.
fn join(next_sn: NextSn, size: Option<(Resolution, u16)>) -> BatchItem {
    transport(TransportMessage::Join(Join {
        version: VERSION,
        whatami: WhatAmI::Peer,
        zid: router(),
        size,
        lease_ms: 10_000,
        next_sn,
        qos: size.map(|_| Box::new([next_sn; 8])),
        shm: None,
        patch: 1,
    }))
}
