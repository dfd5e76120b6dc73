//! Payloads of several buffers: the bytes on the wire are those of the joined payload.

use super::*;
use crate::{
    buf::Segments,
    zenoh::{
        Encoding, Payload,
        link::StreamFramer,
        wire::{
            Err as ErrBody, Query, QueryBody, Reply, Request, Resolution, Response, ResponseBody, SourceInfo,
        },
    },
};
use proptest::prelude::*;

const LARGE: usize = Segments::SHARE_FROM;

/// Distinguishable bytes of these lengths, in one buffer and divided.
fn both(lens: &[usize]) -> (Payload, Payload) {
    let whole: Bytes = (0..lens.iter().sum::<usize>()).map(|n| (n ^ n >> 8) as u8).collect();
    let mut rest = whole.clone();
    let divided: Payload = lens.iter().map(|&len| rest.split_to(len)).collect();
    assert_eq!(whole.len(), divided.len());
    (whole.into(), divided)
}

/// The kinds of messages that carry a payload of an application.
fn message(kind: u8, priority: Priority, payload: Payload) -> NetworkMessage {
    let (key, qos) = (WireExpr::full("t/x"), Qos::new(priority, CongestionControl::Block, false));
    let encoding = Encoding { id: 7, schema: None };
    let source = SourceInfo { zid: client(), eid: 1, sn: 2 };
    let rich = |payload| Put {
        encoding: encoding.clone(),
        source_info: Some(Box::new(source)),
        attachment: Some(Bytes::from_static(b"attached")),
        payload,
        ..Put::default()
    };
    let response = |body| {
        let key = WireExpr::full("t/x");
        let (timestamp, responder, ts_stack) = (None, None, None);
        NetworkMessage::Response(Response { id: 3, key, qos, timestamp, responder, ts_stack, body })
    };
    match kind {
        0 => {
            let put = Put { payload, ..Put::default() };
            NetworkMessage::Push(Push { qos, ..Push::new(key, PushBody::Put(put)) })
        }
        1 => NetworkMessage::Push(Push { qos, ..Push::new(key, PushBody::Put(rich(payload))) }),
        2 => response(ResponseBody::Reply(Reply::new(PushBody::Put(rich(payload))))),
        3 => response(ResponseBody::Err(ErrBody { encoding, payload, ..ErrBody::default() })),
        _ => {
            let body = Some(QueryBody { encoding, payload, ..QueryBody::default() });
            let attachment = Some(Bytes::from_static(b"attached"));
            NetworkMessage::Request(Request {
                qos,
                ..Request::new(4, key, Query { body, attachment, ..Query::default() })
            })
        }
    }
}

/// Pushes everything and checks that both forms become the same bytes, which the receiver understands.
fn check(params: &(LinkParams, LinkParams), messages: &[(u8, Priority, Vec<usize>)]) {
    let sender = || LinkTx::new(&params.0, UNBOUNDED, START);
    let (mut joined, mut divided) = (sender(), sender());
    let mut expected = Vec::new();
    for (kind, priority, lens) in messages {
        let (whole, slices) = both(lens);
        let whole = message(*kind, *priority, whole);
        let pushed = joined.push(&whole, Reliability::Reliable);
        let again = divided.push(&message(*kind, *priority, slices), Reliability::Reliable);
        assert_eq!(pushed, again);
        assert_eq!(joined.queued_total(), divided.queued_total());
        expected.extend(pushed.is_ok().then_some(whole));
    }
    let mut stream = drain(&mut divided);
    assert!(drain(&mut joined) == stream, "{messages:?}");
    let framer = StreamFramer::new(&params.1);
    let mut rx = LinkRx::new(&params.1, RxConfig::default(), START);
    let mut out = Vec::new();
    while let Some(batch) = framer.next(&mut stream).unwrap() {
        rx.handle_batch(START, batch, &mut out).unwrap();
    }
    // Priorities overtake each other; within each the order stays.
    let lane = |message: &NetworkMessage| message.qos().priority() as u8;
    expected.sort_by_key(lane);
    out.sort_by_key(|(message, _)| lane(message));
    let received: Vec<_> = out.into_iter().map(|(message, _)| message).collect();
    assert!(received == expected, "{messages:?}");
}

fn lens() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![0..40_usize, 0..600_usize, LARGE - 2..LARGE + 2, 0..5 * LARGE];
    prop::collection::vec(len, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random divisions in random messages, batched and fragmented, with QoS and compression.
    #[test]
    fn any_division_is_the_same_on_the_wire(
        batch_size in prop_oneof![64..200_u16, 200..LARGE as u16 + 200, Just(49_152), Just(65_535)],
        width in 0..4_u8,
        (qos, compression, low_latency) in any::<(bool, bool, bool)>(),
        messages in prop::collection::vec((0..5_u8, 1..8_u8, lens()), 1..6),
    ) {
        let params = both_params(|c| {
            (c.batch_size, c.resolution) = (batch_size, Resolution::new(width, 2));
            (c.qos, c.compression, c.low_latency) = (qos, compression, low_latency && !qos);
        });
        let messages: Vec<_> =
            messages.into_iter().map(|(kind, p, lens)| (kind, Priority::from_bits(p), lens)).collect();
        check(&params, &messages);
    }
}

#[test]
fn fragments_may_end_at_each_place_of_a_division() {
    let lens = [3, LARGE, 1, LARGE + 5, LARGE, 30, 0, 2];
    for batch_size in (64..400).chain(LARGE as u16 - 60..LARGE as u16 + 60) {
        let params = both_params(|c| c.batch_size = batch_size);
        check(&params, &[(0, Priority::Data, lens.to_vec())]);
    }
}

#[test]
fn large_buffers_travel_by_reference_and_the_number_of_references_is_bounded() {
    let small = Bytes::from_static(b"!");
    let large = Bytes::from(vec![7; LARGE]);
    let count = 200;
    let payload: Payload = (0..count).flat_map(|_| [small.clone(), large.clone()]).collect();
    let (mut tx, _) = link(|c| c.batch_size = 65_535);
    tx.push(&message(0, Priority::Data, payload), Reliability::Reliable).unwrap();
    let (memory, mut shared) = (large.as_ptr_range(), 0);
    loop {
        let mut out = Vec::new();
        if tx.poll_transmit(START, &mut out, 0) == 0 {
            break;
        }
        assert!(out.len() <= 2 * (65_535 / LARGE) + 4, "{}", out.len());
        shared += out.iter().filter(|p| memory.contains(&p.as_ptr())).map(Bytes::len).sum::<usize>();
    }
    // The end of a buffer that begins a fragment is copied if it is short.
    assert!(shared > count * (LARGE - 512), "{shared}");
}

#[test]
fn a_million_small_buffers_are_a_few_references() {
    let payload: Payload = (0..1_000_000).map(|_| Bytes::from_static(b"x")).collect();
    let (mut tx, _) = link(|_| {});
    tx.push(&message(0, Priority::Data, payload), Reliability::Reliable).unwrap();
    let mut out = Vec::new();
    tx.poll_transmit(START, &mut out, usize::MAX);
    assert!(out.len() < 100, "{}", out.len());
}
