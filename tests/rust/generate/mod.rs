//! Strategies for every Zenoh message, in the form that decoding gives: values with the same wire form
//! (an empty key in the two mappings of a null extension, an interest of mode Final with options) are
//! made only once.

use bytes::Bytes;
use proptest::{
    collection::vec,
    option::of,
    prelude::{Just, Strategy, any, prop_oneof},
    strategy::BoxedStrategy,
};
use zwire_proto::{
    Text,
    zenoh::{
        Encoding, Ntp64, Priority, Qos, Reliability, Timestamp, WhatAmI, ZenohId,
        wire::{
            Close, CloseReason, Consolidation, Declaration, Declare, Del, Err, ExtBody, Fragment, Frame,
            Hello, Init, InitExt, Interest, InterestMode, InterestOptions, Join, LinkState, LinkStateList,
            Mapping, NetworkMessage, NextSn, Oam, Open, OpenExt, OpenMultiLink, OpenShm, Push, PushBody, Put,
            QosOffer, Query, QueryBody, QueryTarget, QueryableInfo, Reply, Request, Resolution, ResponderId,
            Response, ResponseBody, ResponseFinal, Scout, ScoutingMessage, SourceInfo, TransportMessage,
            TransportOam, TsRecord, TsStack, UnknownExt, WireExpr,
        },
    },
};

/// Numbers around the sizes of their encoding, and any others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..4,
        (0u32..64, 0u64..3).prop_map(|(bit, add)| (1u64 << bit).wrapping_add(add).wrapping_sub(1)),
        any::<u64>(),
    ]
}

fn u32s() -> impl Strategy<Value = u32> {
    number().prop_map(|n| u32::try_from(n).unwrap_or(n as u32))
}

fn u16s() -> impl Strategy<Value = u16> {
    number().prop_map(|n| u16::try_from(n).unwrap_or(n as u16))
}

pub(crate) fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        1 => vec(any::<u8>(), 120..140).prop_map(Bytes::from),
    ]
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        6 => "[a-z/@$*#é]{0,30}".prop_map(Text::from),
        1 => "\\PC{0,80}".prop_map(Text::from),
    ]
}

fn zid() -> impl Strategy<Value = ZenohId> {
    (any::<u128>(), 0u32..16).prop_map(|(n, bytes)| {
        ZenohId::new(n >> (8 * bytes)).unwrap_or_else(|| ZenohId::new(1).expect("not zero"))
    })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (number(), zid()).prop_map(|(time, id)| Timestamp { time: Ntp64(time), id })
}

fn encoding() -> impl Strategy<Value = Encoding> {
    let schema = vec(any::<u8>(), 0..30).prop_map(Bytes::from);
    prop_oneof![
        Just(Encoding::DEFAULT),
        (u16s(), of(schema.prop_map(Box::new))).prop_map(|(id, schema)| Encoding { id, schema })
    ]
}

fn source_info() -> impl Strategy<Value = SourceInfo> {
    (zid(), u32s(), u32s()).prop_map(|(zid, eid, sn)| SourceInfo { zid, eid, sn })
}

fn ts_stack() -> BoxedStrategy<Box<TsStack>> {
    let record = (any::<u8>(), bytes()).prop_map(|(flags, bytes)| TsRecord { flags, bytes });
    (1u8.., vec(record, 0..4)).prop_map(|(flags, records)| Box::new(TsStack { flags, records })).boxed()
}

fn ext_body() -> BoxedStrategy<ExtBody> {
    prop_oneof![Just(ExtBody::Unit), number().prop_map(ExtBody::Z64), bytes().prop_map(ExtBody::ZBuf)].boxed()
}

/// Optional extensions with ids that no data message defines.
fn unknown() -> BoxedStrategy<Vec<UnknownExt>> {
    vec((6u8..16, ext_body()).prop_map(|(id, body)| UnknownExt { id, body }), 0..4).boxed()
}

fn wire_expr() -> BoxedStrategy<WireExpr> {
    let mapping = prop_oneof![Just(Mapping::Sender), Just(Mapping::Receiver)];
    (u16s(), mapping, text()).prop_map(|(scope, mapping, suffix)| WireExpr { scope, mapping, suffix }).boxed()
}

fn qos() -> impl Strategy<Value = Qos> {
    prop_oneof![Just(Qos::DEFAULT), any::<u8>().prop_map(Qos)]
}

fn priority() -> impl Strategy<Value = Priority> {
    any::<u8>().prop_map(Priority::from_bits)
}

fn reliability() -> impl Strategy<Value = Reliability> {
    prop_oneof![Just(Reliability::Reliable), Just(Reliability::BestEffort)]
}

fn whatami() -> impl Strategy<Value = WhatAmI> {
    prop_oneof![Just(WhatAmI::Router), Just(WhatAmI::Peer), Just(WhatAmI::Client)]
}

/// QoS, timestamp, node id: the common fields of network messages.
fn common() -> BoxedStrategy<(Qos, Option<Box<Timestamp>>, u16)> {
    (qos(), of(timestamp().prop_map(Box::new)), prop_oneof![Just(0), u16s()]).boxed()
}

fn put() -> BoxedStrategy<Put> {
    (of(timestamp()), encoding(), of(source_info().prop_map(Box::new)), of(bytes()), unknown(), bytes())
        .prop_map(|(timestamp, encoding, source_info, attachment, extensions, payload)| Put {
            timestamp,
            encoding,
            source_info,
            shm: false,
            attachment,
            extensions,
            payload: payload.into(),
        })
        .boxed()
}

fn del() -> BoxedStrategy<Del> {
    (of(timestamp()), of(source_info().prop_map(Box::new)), of(bytes()), unknown())
        .prop_map(|(timestamp, source_info, attachment, extensions)| Del {
            timestamp,
            source_info,
            attachment,
            extensions,
        })
        .boxed()
}

fn push_body() -> BoxedStrategy<PushBody> {
    prop_oneof![
        2 => bytes().prop_map(|payload| PushBody::Put(Put::new(payload))),
        4 => put().prop_map(PushBody::Put),
        1 => del().prop_map(PushBody::Del),
    ]
    .boxed()
}

fn push() -> BoxedStrategy<Push> {
    let plain = (wire_expr(), qos(), encoding(), bytes()).prop_map(|(key, qos, encoding, payload)| Push {
        qos,
        ..Push::new(key, PushBody::Put(Put { encoding, ..Put::new(payload) }))
    });
    let any = (wire_expr(), common(), of(ts_stack()), push_body()).prop_map(
        |(key, (qos, timestamp, node_id), ts_stack, body)| Push {
            key,
            qos,
            timestamp,
            node_id,
            ts_stack,
            body,
        },
    );
    prop_oneof![plain, any].boxed()
}

fn consolidation() -> impl Strategy<Value = Consolidation> {
    prop_oneof![
        Just(Consolidation::Auto),
        Just(Consolidation::None),
        Just(Consolidation::Monotonic),
        Just(Consolidation::Latest)
    ]
}

fn query() -> BoxedStrategy<Query> {
    let body = (encoding(), bytes()).prop_map(|(encoding, payload)| QueryBody {
        encoding,
        shm: false,
        payload: payload.into(),
    });
    (consolidation(), text(), of(source_info()), of(body), of(bytes()), unknown())
        .prop_map(|(consolidation, parameters, source_info, body, attachment, extensions)| Query {
            consolidation,
            parameters,
            source_info,
            body,
            attachment,
            extensions,
        })
        .boxed()
}

fn request() -> BoxedStrategy<Request> {
    let target =
        prop_oneof![Just(QueryTarget::BestMatching), Just(QueryTarget::All), Just(QueryTarget::AllComplete)];
    let budget = u32s().prop_map(core::num::NonZeroU32::new);
    (u32s(), wire_expr(), common(), target, budget, of(number()), of(ts_stack()), query())
        .prop_map(|(id, key, (qos, timestamp, node_id), target, budget, timeout_ms, ts_stack, query)| {
            Request { id, key, qos, timestamp, target, budget, timeout_ms, node_id, ts_stack, query }
        })
        .boxed()
}

fn response() -> BoxedStrategy<Response> {
    let reply = (consolidation(), unknown(), push_body())
        .prop_map(|(consolidation, extensions, body)| Reply { consolidation, extensions, body });
    let err = (encoding(), of(source_info()), unknown(), bytes()).prop_map(
        |(encoding, source_info, extensions, payload)| Err {
            encoding,
            source_info,
            shm: false,
            extensions,
            payload: payload.into(),
        },
    );
    let body = prop_oneof![reply.prop_map(ResponseBody::Reply), err.prop_map(ResponseBody::Err)];
    let responder = (zid(), u32s()).prop_map(|(zid, eid)| ResponderId { zid, eid });
    (u32s(), wire_expr(), common(), of(responder), of(ts_stack()), body)
        .prop_map(|(id, key, (qos, timestamp, _), responder, ts_stack, body)| Response {
            id,
            key,
            qos,
            timestamp,
            responder,
            ts_stack,
            body,
        })
        .boxed()
}

fn declaration() -> BoxedStrategy<Declaration> {
    let own = wire_expr().prop_map(|key| WireExpr { mapping: Mapping::Sender, ..key });
    let gone = || of(wire_expr().prop_map(|key| if key.is_empty() { WireExpr::EMPTY } else { key }));
    let info = (any::<bool>(), u16s()).prop_map(|(complete, distance)| QueryableInfo { complete, distance });
    prop_oneof![
        (u16s(), own).prop_map(|(id, key)| Declaration::KeyExpr { id, key }),
        u16s().prop_map(|id| Declaration::UndeclareKeyExpr { id }),
        (u32s(), wire_expr()).prop_map(|(id, key)| Declaration::Subscriber { id, key }),
        (u32s(), gone()).prop_map(|(id, key)| Declaration::UndeclareSubscriber { id, key }),
        (u32s(), wire_expr(), info).prop_map(|(id, key, info)| Declaration::Queryable { id, key, info }),
        (u32s(), gone()).prop_map(|(id, key)| Declaration::UndeclareQueryable { id, key }),
        (u32s(), wire_expr()).prop_map(|(id, key)| Declaration::Token { id, key }),
        (u32s(), gone()).prop_map(|(id, key)| Declaration::UndeclareToken { id, key }),
        Just(Declaration::Final),
    ]
    .boxed()
}

fn declare() -> BoxedStrategy<Declare> {
    (of(u32s()), common(), declaration())
        .prop_map(|(interest_id, (qos, timestamp, node_id), body)| Declare {
            interest_id,
            qos,
            timestamp,
            node_id,
            body,
        })
        .boxed()
}

fn interest() -> BoxedStrategy<Interest> {
    const OPTIONS: [InterestOptions; 5] = [
        InterestOptions::KEYEXPRS,
        InterestOptions::SUBSCRIBERS,
        InterestOptions::QUERYABLES,
        InterestOptions::TOKENS,
        InterestOptions::AGGREGATE,
    ];
    let options = any::<[bool; 5]>().prop_map(|on| {
        let chosen = OPTIONS.into_iter().zip(on).filter(|(_, on)| *on);
        chosen.fold(InterestOptions::default(), |all, (option, _)| all | option)
    });
    let mode = prop_oneof![
        Just(InterestMode::Final),
        Just(InterestMode::Current),
        Just(InterestMode::Future),
        Just(InterestMode::CurrentFuture)
    ];
    (u32s(), mode, options, of(wire_expr()), common())
        .prop_map(|(id, mode, options, key, (qos, timestamp, node_id))| {
            let (options, key) = match mode {
                InterestMode::Final => (InterestOptions::default(), None),
                _ => (options, key),
            };
            Interest { id, mode, options, key, qos, timestamp, node_id }
        })
        .boxed()
}

fn oam() -> BoxedStrategy<Oam> {
    (u16s(), common(), ext_body())
        .prop_map(|(id, (qos, timestamp, _), body)| Oam { id, qos, timestamp, body })
        .boxed()
}

pub(crate) fn network() -> BoxedStrategy<NetworkMessage> {
    prop_oneof![
        4 => push().prop_map(NetworkMessage::Push),
        2 => request().prop_map(NetworkMessage::Request),
        2 => response().prop_map(NetworkMessage::Response),
        1 => (u32s(), common()).prop_map(|(id, (qos, timestamp, _))| {
            NetworkMessage::ResponseFinal(ResponseFinal { id, qos, timestamp })
        }),
        2 => declare().prop_map(NetworkMessage::Declare),
        1 => interest().prop_map(NetworkMessage::Interest),
        1 => oam().prop_map(NetworkMessage::Oam),
    ]
    .boxed()
}

fn size() -> impl Strategy<Value = Option<(Resolution, u16)>> {
    of((0u8..16, any::<u16>()).prop_map(|(resolution, batch)| (Resolution(resolution), batch)))
}

fn init() -> BoxedStrategy<Init> {
    let qos = of(prop_oneof![Just(QosOffer::Plain), number().prop_map(QosOffer::Link)]);
    let flags = any::<(bool, bool)>();
    let blobs = (of(bytes()), of(bytes()), of(bytes()), of(bytes()));
    let ext =
        (qos, blobs, flags, number(), of(text())).prop_map(
            |(qos, (shm, auth, multilink, lending), (low_latency, compression), patch, region_name)| {
                InitExt { qos, shm, auth, multilink, low_latency, compression, patch, region_name, lending }
            },
        );
    (any::<u8>(), whatami(), zid(), size(), of(bytes()), ext)
        .prop_map(|(version, whatami, zid, size, cookie, ext)| Init {
            version,
            whatami,
            zid,
            size,
            cookie,
            ext,
        })
        .boxed()
}

fn open() -> BoxedStrategy<Open> {
    let shm = prop_oneof![bytes().prop_map(OpenShm::Segments), number().prop_map(OpenShm::Challenge)];
    let multilink = prop_oneof![bytes().prop_map(OpenMultiLink::Proof), Just(OpenMultiLink::Accepted)];
    let flags = any::<(bool, bool, bool)>();
    let ext = (flags, of(shm), of(bytes()), of(multilink), of(number())).prop_map(
        |((qos, low_latency, compression), shm, auth, multilink, remote_bound)| OpenExt {
            qos,
            shm,
            auth,
            multilink,
            low_latency,
            compression,
            remote_bound,
        },
    );
    (number(), u32s(), of(bytes()), ext)
        .prop_map(|(lease_ms, initial_sn, cookie, ext)| Open { lease_ms, initial_sn, cookie, ext })
        .boxed()
}

fn join() -> BoxedStrategy<Join> {
    let sn = || (u32s(), u32s()).prop_map(|(reliable, best_effort)| NextSn { reliable, best_effort });
    let qos = of(proptest::array::uniform8(sn()).prop_map(Box::new));
    (any::<u8>(), whatami(), zid(), size(), number(), sn(), qos, of(bytes()), number())
        .prop_map(|(version, whatami, zid, size, lease_ms, next_sn, qos, shm, patch)| Join {
            version,
            whatami,
            zid,
            size,
            lease_ms,
            next_sn,
            qos,
            shm,
            patch,
        })
        .boxed()
}

pub(crate) fn fragment() -> impl Strategy<Value = Fragment> {
    (reliability(), u32s(), priority(), any::<(bool, bool, bool)>()).prop_map(
        |(reliability, sn, priority, (more, first, drop))| Fragment {
            reliability,
            sn,
            priority,
            more,
            first,
            drop,
        },
    )
}

pub(crate) fn frame() -> impl Strategy<Value = Frame> {
    (reliability(), u32s(), priority()).prop_map(|(reliability, sn, priority)| Frame {
        reliability,
        sn,
        priority,
    })
}

/// Everything but FRAME and FRAGMENT, which have contents.
pub(crate) fn transport() -> BoxedStrategy<TransportMessage> {
    prop_oneof![
        init().prop_map(TransportMessage::Init),
        open().prop_map(TransportMessage::Open),
        join().prop_map(TransportMessage::Join),
        any::<(u8, bool)>().prop_map(|(reason, session)| {
            TransportMessage::Close(Close { reason: CloseReason(reason), session })
        }),
        Just(TransportMessage::KeepAlive),
        (u16s(), priority(), ext_body())
            .prop_map(|(id, priority, body)| TransportMessage::Oam(TransportOam { id, priority, body })),
    ]
    .boxed()
}

pub(crate) fn scouting() -> BoxedStrategy<ScoutingMessage> {
    let scout =
        (any::<u8>(), 0u8..8, of(zid())).prop_map(|(version, what, zid)| Scout { version, what, zid });
    let hello =
        (any::<u8>(), whatami(), zid(), vec("[a-z]{1,8}/[a-z0-9:.]{1,30}".prop_map(Text::from), 0..4))
            .prop_map(|(version, whatami, zid, locators)| Hello { version, whatami, zid, locators });
    prop_oneof![scout.prop_map(ScoutingMessage::Scout), hello.prop_map(ScoutingMessage::Hello)].boxed()
}

pub(crate) fn link_states() -> BoxedStrategy<LinkStateList> {
    let locators = vec("[a-z]{1,8}/[a-z0-9:.]{1,30}".prop_map(Text::from), 0..4);
    let links = vec((number(), u16s()), 0..4);
    let record = (number(), number(), of(zid()), of(whatami()), of(locators), any::<(bool, bool)>(), links);
    let record =
        record.prop_map(|(psid, sn, zid, whatami, locators, (gateway, weighted), links)| LinkState {
            psid,
            sn,
            zid,
            whatami,
            locators,
            gateway,
            weights: weighted.then(|| links.iter().map(|(_, weight)| *weight).collect()),
            links: links.iter().map(|(link, _)| *link).collect(),
        });
    vec(record, 0..4).prop_map(LinkStateList).boxed()
}
