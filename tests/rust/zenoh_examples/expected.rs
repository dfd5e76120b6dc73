//! Hand-written values of the examples.

use crate::{Meaning, build::*, data, session, unhex};
use bytes::Bytes;
use zwire_proto::{
    Text,
    zenoh::{
        Priority, Reliability, VERSION, WhatAmI, ZenohId,
        wire::{BatchItem, Fragment, Hello, Scout, ScoutingMessage},
    },
};

pub(crate) fn meaning(id: &str) -> Meaning {
    if let Some(scouting) = scouting(id) {
        return Meaning::Scouting(scouting);
    }
    let items = session::items(id)
        .or_else(|| data::items(id))
        .or_else(|| crate::data::query_items(id))
        .or_else(|| declarations::items(id))
        .or_else(|| fragments(id));
    Meaning::Items(items.unwrap_or_else(|| panic!("{id} has no expected value")))
}

fn scouting(id: &str) -> Option<ScoutingMessage> {
    let zid = ZenohId::new(0x03_02_01);
    Some(match id {
        "E1" => ScoutingMessage::Scout(Scout { version: VERSION, what: 0b011, zid: None }),
        "E2" => ScoutingMessage::Scout(Scout { version: VERSION, what: 0b111, zid }),
        "E3" => ScoutingMessage::Hello(Hello {
            version: VERSION,
            whatami: WhatAmI::Router,
            zid: router(),
            locators: vec![Text::from_static("tcp/10.9.9.1:17447"), Text::from_static("udp/10.9.9.1:17447")],
        }),
        _ => return None,
    })
}

fn fragment(sn: u32, more: bool, first: bool, drop: bool, data: Bytes) -> BatchItem {
    let head =
        Fragment { reliability: Reliability::Reliable, sn, priority: Priority::Data, more, first, drop };
    BatchItem::Fragment(head, data)
}

fn fragments(id: &str) -> Option<Vec<BatchItem>> {
    Some(vec![match id {
        // The beginning of PUSH f/x, PUT of 102400 bytes.
        "E54" => {
            let data = unhex("7d0003662f780180a006000102030405060708");
            fragment(OPENER_SN, true, true, false, data.into())
        }
        "E55.1" => fragment(OPENER_SN + 1, true, false, false, Bytes::new()),
        "E55.2" => fragment(OPENER_SN + 2, false, false, false, Bytes::new()),
        "E65" => fragment(8, false, false, true, Bytes::new()),
        _ => return None,
    }])
}

mod declarations {
    use crate::build::*;
    use bytes::Bytes;
    use zwire_proto::zenoh::{
        Qos,
        wire::{
            BatchItem, Declaration, Declare, ExtBody, Interest, InterestMode, InterestOptions as Options,
            NetworkMessage, Oam, QueryableInfo, WireExpr,
        },
    };

    fn interest(id: u32, mode: InterestMode, options: Options, key: Option<WireExpr>) -> BatchItem {
        let qos = Qos(0x08);
        let interest = Interest { id, mode, options, key, qos, timestamp: None, node_id: 0 };
        network(NetworkMessage::Interest(interest))
    }

    /// Without QoS, as zenoh-pico sends it.
    fn plain(body: Declaration) -> BatchItem {
        let qos = Qos(0x05);
        network(NetworkMessage::Declare(Declare {
            interest_id: None,
            qos,
            timestamp: None,
            node_id: 0,
            body,
        }))
    }

    pub(crate) fn items(id: &str) -> Option<Vec<BatchItem>> {
        Some(match id {
            "E0.6" => vec![control(5), declare(Declaration::Subscriber { id: 1, key: full("t/y") })],
            "E41" => vec![control(ACCEPTOR_SN), answer(Some(0), Declaration::Final)],
            "E42" => vec![
                control(OPENER_SN),
                declare(keyexpr(1, "k/s")),
                declare(Declaration::Subscriber { id: 1, key: ours(1, "/*") }),
            ],
            "E43" => vec![
                control(ACCEPTOR_SN + 4),
                declare(Declaration::Queryable {
                    id: 2,
                    key: ours(2, ""),
                    info: QueryableInfo { complete: true, distance: 0 },
                }),
            ],
            "E44" => vec![
                control(OPENER_SN + 4),
                declare(keyexpr(5, "k/tok")),
                declare(Declaration::Token { id: 5, key: ours(5, "") }),
            ],
            "E45" => vec![
                control(ACCEPTOR_SN + 5),
                declare(Declaration::UndeclareSubscriber { id: 1, key: None }),
                declare(Declaration::UndeclareQueryable { id: 2, key: Some(WireExpr::EMPTY) }),
            ],
            "E46" => vec![
                control(0x0ec4_651f),
                declare(Declaration::UndeclareSubscriber { id: 0, key: Some(ours(1, "")) }),
            ],
            "E47" => vec![
                control(OPENER_SN + 2),
                declare(keyexpr(3, "k/p")),
                interest(
                    3,
                    InterestMode::CurrentFuture,
                    Options::KEYEXPRS | Options::SUBSCRIBERS,
                    Some(ours(3, "")),
                ),
            ],
            "E48" => vec![
                control(ACCEPTOR_SN + 2),
                answer(Some(2), Declaration::Subscriber { id: 1, key: full("f/**") }),
                answer(Some(2), Declaration::Final),
            ],
            "E49" => vec![
                control(OPENER_SN + 6),
                interest(7, InterestMode::Current, Options::KEYEXPRS | Options::TOKENS, Some(ours(6, "/**"))),
            ],
            "E49.1" => vec![
                control(ACCEPTOR_SN + 5),
                answer(Some(7), Declaration::Token { id: 0, key: theirs(5, "") }),
            ],
            "E49.2" => vec![control(ACCEPTOR_SN + 6), answer(Some(7), Declaration::Final)],
            "E50" => vec![control(OPENER_SN + 8), interest(6, InterestMode::Final, Options::default(), None)],
            "E51" => {
                let body = Declaration::Subscriber { id: 0, key: ours(1, "") };
                vec![
                    control(0x0fab_bd48),
                    declare(keyexpr(1, "n/one")),
                    network(NetworkMessage::Declare(Declare {
                        interest_id: None,
                        qos: Qos(0x08),
                        timestamp: None,
                        node_id: 1,
                        body,
                    })),
                ]
            }
            "E52" => {
                let records = [2, 3, 0, 2, 1, 0xa3, 1, 1, 1, 3, 1, 0, 1, 0xa2, 1, 0];
                vec![
                    control(0x0ec4_651b),
                    network(NetworkMessage::Oam(Oam {
                        id: 1,
                        qos: Qos(0x08),
                        timestamp: None,
                        body: ExtBody::ZBuf(Bytes::copy_from_slice(&records)),
                    })),
                ]
            }
            "E61" => vec![frame(0), plain(keyexpr(1, "demo/example/p"))],
            "E61.1" => vec![frame(1), push_put(ours(1, ""), "hello")],
            "E61.2" => vec![frame(2), plain(Declaration::UndeclareKeyExpr { id: 1 })],
            _ => return None,
        })
    }
}
