//! Publications, queries and replies.

use crate::build::*;
use bytes::Bytes;
use zwire_proto::{
    Text,
    zenoh::{
        Encoding, Priority, Qos, Reliability, ZenohId,
        wire::{
            BatchItem, Consolidation, Del, Err, Frame, NetworkMessage, Push, PushBody, Put, Query, QueryBody,
            QueryTarget, Reply, Request, ResponderId, Response, ResponseBody, ResponseFinal,
            TransportMessage, TsRecord, TsStack, WireExpr,
        },
    },
};

fn message(push: Push) -> BatchItem {
    network(NetworkMessage::Push(push))
}

fn encoded(id: u16, schema: Option<&'static str>, payload: &'static str) -> Put {
    Put { encoding: Encoding { id, schema: schema.map(|schema| Box::new(bytes(schema))) }, ..put(payload) }
}

/// A record of a TsStack: a timestamp of the client in its wire form.
fn record(flags: u8, time: &str) -> TsRecord {
    let id = [8, 0xb8, 0xb7, 0xb6, 0xb5, 0xb4, 0xb3, 0xb2, 0xb1];
    TsRecord { flags, bytes: [crate::unhex(time), id.to_vec()].concat().into() }
}

pub(crate) fn items(id: &str) -> Option<Vec<BatchItem>> {
    let reliable = |sn: u32, item: BatchItem| vec![frame(sn), item];
    Some(match id {
        "E0.5" => reliable(5, push_put(full("t/x"), "v")),
        "E0.7" => reliable(
            233_634_991,
            message(push(
                full("t/y"),
                Put { timestamp: Some(timestamp(0x6b00_f41e_391a_2370, router())), ..put("ok") },
            )),
        ),
        "E21" => reliable(OPENER_SN, push_put(full("demo/a/x"), "hi")),
        "E22" => vec![
            frame_at(OPENER_SN, Priority::RealTime),
            message(Push {
                qos: Qos(0x19),
                ..push(
                    full("demo/a/x"),
                    Put { attachment: Some(bytes("att")), ..encoded(4, Some("utf-8"), "hi") },
                )
            }),
        ],
        "E23" => reliable(OPENER_SN + 1, push_del(full("demo/a/x"), Del::default())),
        "E24" => reliable(OPENER_SN, push_put(theirs(1, "/x"), "hi")),
        "E25" => reliable(OPENER_SN, push_put(ours(3, ""), "2")),
        "E26" => reliable(
            ACCEPTOR_SN,
            message(push(
                theirs(1, "/1"),
                Put { timestamp: Some(timestamp(0x6b00_ed11_fdab_85b0, router())), ..put("from A") },
            )),
        ),
        "E27" => reliable(
            OPENER_SN + 1,
            message(push(
                full("f/y"),
                Put {
                    timestamp: Some(timestamp(0x6b00_ede9_24fd_9030, client())),
                    source_info: Some(Box::new(source(6, 7))),
                    attachment: Some(bytes("A")),
                    ..put("v")
                },
            )),
        ),
        "E28" => reliable(
            OPENER_SN + 2,
            push_del(
                full("f/y"),
                Del {
                    timestamp: Some(timestamp(0x6b00_ede9_71e0_15d4, client())),
                    source_info: Some(Box::new(source(6, 8))),
                    attachment: Some(bytes("A")),
                    ..Del::default()
                },
            ),
        ),
        "E29" => vec![
            frame(OPENER_SN + 5),
            message(push(full("f/enc"), encoded(65_535, Some("my/custom"), "v"))),
            message(push(full("f/enc"), encoded(5, None, "v"))),
            message(push(full("f/enc"), encoded(16, Some("x"), "v"))),
            push_put(full("f/enc"), ""),
        ],
        "E30" => vec![
            transport(TransportMessage::Frame(Frame {
                reliability: Reliability::BestEffort,
                sn: OPENER_SN,
                priority: Priority::Data,
            })),
            message(push(ours(2, ""), encoded(1, None, "be"))),
        ],
        "E31" => reliable(OPENER_SN + 4, message(Push { qos: Qos(0x25), ..push(full("f/bf"), put("v")) })),
        "E32" => {
            let records = vec![record(1, "a0ef95c18dbdbb806b"), record(2, "f0b89dc18dbdbb806b")];
            let ts_stack = Some(Box::new(TsStack { flags: 7, records }));
            reliable(OPENER_SN, message(Push { ts_stack, ..push(full("f/x"), put("v")) }))
        }
        "E53" => reliable(
            0x0fab_bd46,
            message(Push {
                node_id: 1,
                ..push(
                    theirs(1, ""),
                    Put {
                        timestamp: Some(timestamp(0x6b00_edf3_986b_e230, ZenohId::new(0xa1).unwrap())),
                        ..put("x")
                    },
                )
            }),
        ),
        "E56" => {
            let payload = Bytes::from(vec![b'a'; 100]);
            reliable(OPENER_SN, message(Push::new(full("f/x"), PushBody::Put(Put::new(payload)))))
        }
        "E57" => reliable(OPENER_SN + 1, push_put(full("f/y"), "z")),
        "E58" => vec![push_put(full("f/y"), "z")],
        _ => return None,
    })
}

/// A request with block and Data, the usual QoS.
fn request(id: u32, key: WireExpr, timeout_ms: u64, query: Query) -> Request {
    Request { qos: Qos(0x0d), timeout_ms: Some(timeout_ms), ..Request::new(id, key, query) }
}

fn asked(request: Request) -> BatchItem {
    network(NetworkMessage::Request(request))
}

fn consolidated(consolidation: Consolidation) -> Query {
    Query { consolidation, ..Query::default() }
}

fn response(id: u32, key: WireExpr, zid: ZenohId, eid: u32, body: ResponseBody) -> BatchItem {
    network(NetworkMessage::Response(Response {
        id,
        key,
        qos: Qos(0x0d),
        timestamp: None,
        responder: Some(ResponderId { zid, eid }),
        ts_stack: None,
        body,
    }))
}

fn reply(body: PushBody) -> ResponseBody {
    ResponseBody::Reply(Reply { consolidation: Consolidation::Auto, extensions: Vec::new(), body })
}

fn last(id: u32, qos: u8) -> BatchItem {
    network(NetworkMessage::ResponseFinal(ResponseFinal { id, qos: Qos(qos), timestamp: None }))
}

pub(crate) fn query_items(id: &str) -> Option<Vec<BatchItem>> {
    Some(match id {
        "E33" => vec![
            frame(OPENER_SN + 2),
            asked(request(1, full("demo/q"), 2000, consolidated(Consolidation::Latest))),
        ],
        "E34" => vec![
            frame(ACCEPTOR_SN),
            response(1, full("demo/q"), router(), 7, reply(PushBody::Put(encoded(4, None, "hello")))),
            last(1, 0x0d),
        ],
        "E35" => {
            let query = Query {
                consolidation: Consolidation::None,
                parameters: Text::from_static("x=1;err=2"),
                body: Some(QueryBody {
                    encoding: Encoding { id: 4, schema: None },
                    shm: false,
                    payload: bytes("qbody").into(),
                }),
                attachment: Some(bytes("qa")),
                ..Query::default()
            };
            let target = QueryTarget::All;
            vec![frame(OPENER_SN + 3), asked(Request { target, ..request(2, full("demo/q"), 2000, query) })]
        }
        "E36" => {
            let err = Err {
                encoding: Encoding { id: 4, schema: None },
                payload: bytes("bad").into(),
                ..Err::default()
            };
            vec![
                frame(ACCEPTOR_SN + 1),
                response(2, full("demo/q"), router(), 7, ResponseBody::Err(err)),
                last(2, 0x0d),
            ]
        }
        "E37" => {
            let del = Del { attachment: Some(bytes("zz")), ..Del::default() };
            vec![
                frame(ACCEPTOR_SN),
                response(1, full("q"), router(), 7, reply(PushBody::Del(del))),
                last(1, 0x0d),
            ]
        }
        "E38" => {
            let query = consolidated(Consolidation::Latest);
            let target = QueryTarget::AllComplete;
            vec![
                frame_at(OPENER_SN, Priority::DataHigh),
                asked(Request { qos: Qos(0x1c), target, ..request(2, full("q"), 1000, query) }),
            ]
        }
        "E39" => {
            let parameters = Text::from_static("_time=[now(-1h)..]");
            let query = Query { parameters, ..consolidated(Consolidation::Monotonic) };
            vec![frame(OPENER_SN + 3), asked(request(1, full("q"), 1000, query))]
        }
        "E40" => {
            let err = Err { payload: bytes("Timeout").into(), ..Err::default() };
            let zid = ZenohId::new(0x52).unwrap();
            vec![response(9, full(""), zid, 0, ResponseBody::Err(err)), last(9, 0x0d)]
        }
        "E62" => {
            let body = QueryBody { encoding: Encoding::DEFAULT, shm: false, payload: bytes("val").into() };
            let query = Query { body: Some(body), ..consolidated(Consolidation::Monotonic) };
            vec![frame(0), asked(request(1, full("demo/example/q"), 10_000, query))]
        }
        "E63" => {
            let zid = ZenohId::new(0x04ad_fd34_b09b_91f0_2b9c_e112_4c45_4665).unwrap();
            let body = reply(PushBody::Put(put("Queryable from Pico!")));
            vec![frame(2), response(1, full("demo/qq"), zid, 0, body)]
        }
        "E63.1" => vec![frame(3), last(1, 0x05)],
        // In the shortest REQUEST: no extensions, the empty key.
        "E64" => {
            let query = Query { source_info: Some(source(3, 257)), ..Query::default() };
            vec![asked(Request { qos: Qos(0x05), ..Request::new(1, theirs(0, ""), query) })]
        }
        _ => return None,
    })
}
