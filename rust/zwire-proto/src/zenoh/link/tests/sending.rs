//! Sender: lanes, batches, fragments, keep-alive, close.

use super::*;
use crate::{
    buf::Segments,
    zenoh::{
        link::PushError,
        wire::{BatchItem, BatchReader, Fragment, Resolution, TransportMessage},
    },
};

const KEEP_ALIVE_AFTER: Duration = Duration::from_millis(2500);

fn after(millis: u64) -> Now {
    Now::at(START.mono + Duration::from_millis(millis))
}

/// The batches of a stream, without prefixes.
fn batches(mut stream: BytesMut) -> Vec<Bytes> {
    let framer = crate::zenoh::link::StreamFramer::handshake();
    let mut out = Vec::new();
    while let Some(batch) = framer.next(&mut stream).unwrap() {
        out.push(batch);
    }
    assert!(stream.is_empty(), "half a batch");
    out
}

fn one_batch(tx: &mut LinkTx) -> Vec<Bytes> {
    let mut out = Vec::new();
    let len = tx.poll_transmit(START, &mut out, 0);
    assert_eq!(len, concat(&out).len());
    out
}

fn fragments(tx: &mut LinkTx) -> Vec<(Fragment, usize)> {
    let heads = batches(drain(tx)).into_iter().filter_map(|batch| {
        match BatchReader::new(&batch).next_item().unwrap() {
            Some(BatchItem::Fragment(head, data)) => Some((head, data.len())),
            _ => None,
        }
    });
    heads.collect()
}

#[test]
fn e0_frame_on_the_data_channel() {
    let (mut tx, _) = link(|_| {});
    tx.push(&put("t/x", "v"), Reliability::Reliable).unwrap();
    // The initial number of the examples; E0's client has 5.
    assert_eq!(drain(&mut tx), hex("0e0025c5effd1a7d0003742f78010176"));
}

#[test]
fn consecutive_messages_share_a_frame_and_reliability_starts_another() {
    let (mut tx, _) = link(|_| {});
    for reliability in [Reliability::Reliable, Reliability::Reliable, Reliability::BestEffort] {
        tx.push(&put("t", "v"), reliability).unwrap();
    }
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    let put = "7d000174010176";
    let batch = format!("25c5effd1a{put}{put}05c5effd1a{put}25c6effd1a{put}");
    assert_eq!(batches(drain(&mut tx)), [hex(&batch)]);
}

#[test]
fn priorities_have_their_own_numbers_and_the_lowest_goes_first() {
    let (mut tx, _) = link(|_| {});
    for priority in [Priority::Background, Priority::Data, Priority::Control, Priority::RealTime] {
        tx.push(&put_at(priority, "v"), Reliability::Reliable).unwrap();
    }
    let sent = batches(drain(&mut tx));
    let heads: Vec<_> = sent.iter().map(|batch| batch.slice(..7)).collect();
    let expected = ["a5c5effd1a3100", "a5c5effd1a3101", "25c5effd1afd00", "a5c5effd1a3107"];
    assert_eq!(heads, expected.map(hex));
}

#[test]
fn without_qos_everything_is_data_and_in_order() {
    let (mut tx, mut rx) = link(|c| c.qos = false);
    for priority in [Priority::Background, Priority::Control] {
        tx.push(&put_at(priority, "v"), Reliability::Reliable).unwrap();
    }
    let sent = batches(drain(&mut tx));
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with(&hex("25c5effd1a")));
    let (_, out) = receive(&mut rx, &sent[0]);
    // The QoS of the application is kept.
    let priorities: Vec<_> = out.iter().map(|(m, _)| m.qos().priority()).collect();
    assert_eq!(priorities, [Priority::Background, Priority::Control]);
}

#[test]
fn a_batch_never_exceeds_the_negotiated_size() {
    for size in [64, 65, 100, 1000, 65_535] {
        for compression in [false, true] {
            let (mut tx, _) = link(|c| (c.batch_size, c.compression) = (size, compression));
            for len in (0..3000).step_by(7) {
                tx.push(&put("t", vec![0; len]), Reliability::Reliable).unwrap();
            }
            for batch in batches(drain(&mut tx)) {
                assert!(batch.len() + 2 <= usize::from(size));
            }
            assert_eq!(tx.queued_total(), 0);
        }
    }
}

/// `zenoh-wire` E54 and E55: 102400 bytes on `f/x`, batches of 49152.
#[test]
fn e54_e55_fragments_fill_their_batches() {
    let (mut tx, mut rx) = link(|_| {});
    let payload: Vec<u8> = (0..102_400_u32).map(|n| n as u8).collect();
    let message = put("f/x", payload);
    tx.push(&message, Reliability::Reliable).unwrap();
    let sent = batches(drain(&mut tx));
    assert!(sent[0].starts_with(&hex("e6c5effd1a027d0003662f780180a006000102030405060708")));
    assert!(sent[1].starts_with(&hex("66c6effd1a")) && sent[2].starts_with(&hex("26c7effd1a")));
    // The note of E55 counts the middle and last ones behind a four byte number without First.
    let sizes: Vec<_> = sent.iter().map(Bytes::len).collect();
    assert_eq!(sizes, [49_150, 49_150, 4126]);
    let mut out = Vec::new();
    for batch in sent {
        rx.handle_batch(START, batch, &mut out).unwrap();
    }
    assert_eq!(out, [(message, Reliability::Reliable)]);
}

#[test]
fn without_patch_fragments_have_no_marks() {
    let mut params = params(|c| c.batch_size = 100);
    params.patch = 0;
    let mut tx = LinkTx::new(&params, TxConfig::default(), START);
    tx.push(&put("f/x", vec![0; 200]), Reliability::Reliable).unwrap();
    assert!(fragments(&mut tx).iter().all(|(head, _)| !head.first));
}

#[test]
fn payloads_travel_by_reference() {
    let payload = Bytes::from(vec![7; 300_000]);
    for size in [payload.slice(..Segments::SHARE_FROM), payload] {
        let (mut tx, _) = link(|_| {});
        tx.push(&put("t", size.clone()), Reliability::Reliable).unwrap();
        let mut out = Vec::new();
        tx.poll_transmit(START, &mut out, usize::MAX);
        let memory = size.as_ptr_range();
        let shared = out.iter().filter(|part| memory.contains(&part.as_ptr()));
        assert_eq!(shared.map(Bytes::len).sum::<usize>(), size.len());
    }
}

#[test]
fn other_priorities_go_between_fragments() {
    let (mut tx, _) = link(|_| {});
    tx.push(&put_at(Priority::Data, vec![0; 200_000]), Reliability::Reliable).unwrap();
    let first = concat(&one_batch(&mut tx));
    assert_eq!(first[2] & 0x1f, 0x06);
    tx.push(&put_at(Priority::Background, "later"), Reliability::Reliable).unwrap();
    tx.push(&put_at(Priority::RealTime, "now"), Reliability::Reliable).unwrap();
    tx.push(&put_at(Priority::Data, "behind"), Reliability::Reliable).unwrap();
    let ids: Vec<_> = batches(drain(&mut tx)).iter().map(|b| (b[0] & 0x1f, b.len())).collect();
    assert_eq!(ids[0].0, 0x05, "RealTime");
    assert!(ids[1..5].iter().all(|(id, _)| *id == 0x06), "the rest of the message in one piece");
    assert_eq!(ids[5..].iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0x05, 0x05]);
}

#[test]
fn one_batch_at_least_and_no_more_than_asked() {
    let (mut tx, _) = link(|c| c.batch_size = 1000);
    for _ in 0..100 {
        tx.push(&put("t", vec![0; 90]), Reliability::Reliable).unwrap();
    }
    let total = tx.queued_total();
    let mut out = Vec::new();
    let first = tx.poll_transmit(START, &mut out, 0);
    assert!((900..=1000).contains(&first));
    let some = tx.poll_transmit(START, &mut out, 3500);
    assert!((2700..=3500).contains(&some));
    assert_eq!(tx.queued_total(), total - first - some);
    assert_eq!(tx.poll_transmit(START, &mut out, usize::MAX), total - first - some);
    assert_eq!(concat(&out).len(), total);
    assert!(tx.is_idle());
}

#[test]
fn a_lane_is_bounded_in_bytes_and_takes_one_message_of_any_size() {
    let params = params(|_| {});
    let mut tx = LinkTx::new(&params, TxConfig { bytes_per_priority: 1000, keep_alive: 4 }, START);
    tx.push(&put_at(Priority::Data, vec![0; 500_000]), Reliability::Reliable).unwrap();
    let queued = tx.queued_bytes(Priority::Data);
    let full = PushError::LaneFull { priority: Priority::Data, queued };
    assert!(queued > 500_000);
    assert_eq!(tx.push(&put_at(Priority::Data, "v"), Reliability::Reliable), Err(full));
    assert_eq!(tx.push(&put_at(Priority::DataHigh, "v"), Reliability::Reliable), Ok(()), "another lane");
    drain(&mut tx);
    let mut taken = 0;
    while tx.push(&put_at(Priority::Data, "v"), Reliability::Reliable).is_ok() {
        taken += 1;
        assert!(taken < 1000);
    }
    assert!((1000..1100).contains(&tx.queued_bytes(Priority::Data)));
}

#[test]
fn keep_alive_when_nothing_was_transmitted() {
    let (mut tx, _) = link(|_| {});
    let mut out = Vec::new();
    assert_eq!(tx.poll_timeout(), Some(START.mono + KEEP_ALIVE_AFTER));
    tx.handle_timeout(after(2499));
    assert_eq!(tx.poll_transmit(after(2499), &mut out, 0), 0);
    tx.handle_timeout(after(2500));
    assert_eq!(tx.poll_transmit(after(2500), &mut out, 0), 3);
    assert_eq!(concat(&out), hex("010004"), "E18");
    assert_eq!(tx.poll_timeout(), Some(after(5000).mono));
    // Any other output counts as well.
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    tx.poll_transmit(after(4000), &mut out, 0);
    assert_eq!(tx.poll_timeout(), Some(after(6500).mono));
    assert_eq!((tx.stats().keep_alives, tx.stats().messages), (1, 1));
}

#[test]
fn no_keep_alive_behind_what_waits() {
    let (mut tx, _) = link(|_| {});
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    tx.handle_timeout(after(2500));
    assert_eq!(tx.poll_timeout(), Some(after(5000).mono), "the deadline moves on: no hot loop");
    assert_eq!(batches(drain(&mut tx)).len(), 1);
    assert_eq!(tx.stats().keep_alives, 0);
}

#[test]
fn lanes_that_are_separate_are_asked_one_by_one() {
    let (tx, _) = link(|_| {});
    let mut tx = tx.with_separate_lanes();
    let mut out = Vec::new();
    for priority in [Priority::Background, Priority::RealTime] {
        tx.push(&put_at(priority, "v"), Reliability::Reliable).unwrap();
    }
    assert_eq!(tx.ready_lanes(), 1 << Priority::Background as u8 | 1 << Priority::RealTime as u8);
    assert_eq!(tx.poll_lane(START, Priority::Data, &mut out, usize::MAX), 0);
    assert!(tx.poll_lane(START, Priority::RealTime, &mut out, usize::MAX) > 0);
    // A stuck lane does not let the peer's lease for this side expire.
    tx.handle_timeout(after(2500));
    out.clear();
    assert_eq!(tx.poll_lane(after(2500), Priority::Control, &mut out, usize::MAX), 3);
    assert_eq!(concat(&out), hex("010004"));
    tx.close(CloseReason::GENERIC);
    assert_eq!(tx.poll_close(START, &mut out), 0, "the last lane is not empty");
    assert!(tx.poll_lane(START, Priority::Background, &mut out, usize::MAX) > 0);
    assert_eq!(tx.poll_close(START, &mut out), 4);
    assert!(tx.is_idle());
}

#[test]
fn a_lease_of_zero_does_not_make_a_hot_loop() {
    let (tx, _) = link(|c| c.lease = Duration::ZERO);
    assert!(tx.poll_timeout().unwrap() > START.mono);
}

#[test]
fn close_goes_behind_what_is_queued() {
    let (mut tx, mut rx) = link(|_| {});
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    tx.close(CloseReason::GENERIC);
    tx.close(CloseReason::EXPIRED);
    assert_eq!(tx.push(&put("t", "v"), Reliability::Reliable), Err(PushError::Closed));
    assert!(!tx.is_idle());
    let sent = batches(drain(&mut tx));
    assert_eq!(sent[1], hex("0300"), "E19, with the first reason");
    assert!(tx.is_idle());
    assert_eq!(tx.poll_timeout(), None);
    assert_eq!(receive(&mut rx, &sent[0]).1.len(), 1);
    assert_eq!(receive(&mut rx, &sent[1]).0, Ok(Some(CloseReason::GENERIC)));
}

#[cfg(feature = "lz4")]
#[test]
fn every_batch_has_the_header_on_a_compressed_link() {
    let (mut tx, _) = link(|c| c.compression = true);
    tx.handle_timeout(after(2500));
    tx.push(&put("f/x", vec![b'a'; 100]), Reliability::Reliable).unwrap();
    tx.close(CloseReason::GENERIC);
    // Keep-alive, E56, close.
    let e56 = "1a0001ef25c5effd1a7d0003662f78016461 01004a60616161616161";
    assert_eq!(drain(&mut tx), hex(&format!("02000004{e56}0300000300")));
}

#[cfg(feature = "lz4")]
#[test]
fn fragments_are_compressed_too() {
    let (mut tx, mut rx) = link(|c| c.compression = true);
    let message = put("f/x", vec![b'a'; 300_000]);
    tx.push(&message, Reliability::Reliable).unwrap();
    let stream = drain(&mut tx);
    assert!(stream.len() < 10_000);
    let mut out = Vec::new();
    for batch in batches(stream) {
        rx.handle_batch(START, batch, &mut out).unwrap();
    }
    assert_eq!(out, [(message, Reliability::Reliable)]);
}

#[test]
fn e58_low_latency() {
    let (mut tx, _) = link(|c| (c.qos, c.low_latency, c.compression) = (false, true, true));
    tx.push(&put("f/y", "z"), Reliability::Reliable).unwrap();
    tx.push(&put("f/y", "z"), Reliability::BestEffort).unwrap();
    let e58 = "090000007d0003662f7901017a";
    assert_eq!(drain(&mut tx), hex(&format!("{e58}{e58}")));
    tx.handle_timeout(after(2500));
    tx.close(CloseReason::GENERIC);
    assert_eq!(drain(&mut tx), hex("0100000004020000000300"));
}

#[test]
fn low_latency_refuses_what_does_not_fit_a_batch() {
    let (mut tx, _) = link(|c| (c.qos, c.low_latency) = (false, true));
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    // 7d 00 01 74 01, three bytes of length, payload.
    let most = 49_152 - 8;
    let too_large = PushError::TooLarge { len: 49_153, max: 49_152 };
    assert_eq!(tx.push(&put("t", vec![0; most + 1]), Reliability::Reliable), Err(too_large));
    tx.push(&put("t", vec![0; most]), Reliability::Reliable).unwrap();
    let stream = drain(&mut tx);
    assert_eq!(stream.len(), 4 + 7 + 4 + 49_152);
    assert_eq!(stream[11..15], 49_152_u32.to_le_bytes());
}

#[test]
fn on_a_link_that_keeps_boundaries_the_prefix_does_not_count() {
    for low_latency in [false, true] {
        let (tx_params, rx_params) = both_params(|c| {
            (c.streamed, c.batch_size) = (false, 1200);
            (c.qos, c.low_latency) = (!low_latency, low_latency);
        });
        let mut tx = LinkTx::new(&tx_params, UNBOUNDED, START);
        let framer = crate::zenoh::link::StreamFramer::new(&rx_params);
        let mut rx = LinkRx::new(&rx_params, RxConfig::default(), START);
        for n in 0..20_u8 {
            tx.push(&put("t", vec![n; 500]), Reliability::BestEffort).unwrap();
        }
        // The longest possible message: the key and the length take 8 bytes, the head of a FRAME 5.
        let longest = 1200 - if low_latency { 7 } else { 12 };
        tx.push(&put("t", vec![0; longest]), Reliability::BestEffort).unwrap();
        let (mut out, mut lens) = (Vec::new(), Vec::new());
        let mut stream = drain(&mut tx);
        while let Some(datagram) = framer.next(&mut stream).unwrap() {
            lens.push(datagram.len());
            rx.handle_batch(START, datagram, &mut out).unwrap();
        }
        assert_eq!(out.len(), 21);
        assert_eq!(lens.iter().max(), Some(&1200), "{lens:?}");
    }
}

#[test]
fn a_discarded_half_sent_message_is_taken_back() {
    let (mut tx, mut rx) = link(|_| {});
    tx.push(&put("t", vec![0; 200_000]), Reliability::Reliable).unwrap();
    let begun = concat(&one_batch(&mut tx));
    tx.push(&put("t", "lost"), Reliability::Reliable).unwrap();
    tx.push(&put("t", "lost"), Reliability::BestEffort).unwrap();
    let discarded = tx.discard(Priority::Data);
    assert_eq!(discarded.messages, 3);
    assert!(discarded.bytes > 150_000);
    assert_eq!(tx.queued_bytes(Priority::Data), 0);
    tx.push(&put("t", "kept"), Reliability::Reliable).unwrap();
    tx.push(&put("t", "kept"), Reliability::BestEffort).unwrap();
    let rest = batches(drain(&mut tx));
    assert_eq!(rest[0], hex("a6c6effd1a03"), "Drop");
    assert!(rest[1].starts_with(&hex("25c7effd1a")), "the numbers go on behind it");
    let mut out = Vec::new();
    for batch in batches(begun).into_iter().chain(rest) {
        rx.handle_batch(START, batch, &mut out).unwrap();
    }
    assert_eq!(out, [Reliability::Reliable, Reliability::BestEffort].map(|r| (put("t", "kept"), r)));
    assert_eq!((rx.stats().given_up, tx.stats().discarded), (1, 3));
}

/// More than half the range of an 8-bit channel is dropped: numbers that were never sent are reused, or
/// the peer would take all later ones for old.
#[test]
fn discarding_leaves_no_gap() {
    let (mut tx, mut rx) = link(|c| (c.resolution, c.batch_size) = (Resolution::new(0, 2), 64));
    for _ in 0..5 {
        for _ in 0..100 {
            tx.push(&put("t", vec![0; 40]), Reliability::Reliable).unwrap();
        }
        one_batch(&mut tx);
        assert_eq!(tx.discard(Priority::Data).messages, 99);
        assert!(tx.is_idle());
        tx.push(&put("t", "kept"), Reliability::Reliable).unwrap();
        let sent = batches(drain(&mut tx));
        assert_eq!(receive(&mut rx, &sent[0]).1.len(), 1);
    }
    assert_eq!(rx.stats().old_frames, 0);
}

#[test]
fn discarding_twice_keeps_the_drop_mark() {
    let (mut tx, _) = link(|_| {});
    tx.push(&put("t", vec![0; 200_000]), Reliability::Reliable).unwrap();
    one_batch(&mut tx);
    tx.discard(Priority::Data);
    assert_eq!(tx.discard(Priority::Data).messages, 0);
    assert!(!tx.is_idle());
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    let rest = batches(drain(&mut tx));
    assert_eq!(rest[0], hex("a6c6effd1a03"));
    assert!(rest[1].starts_with(&hex("25c7effd1a")));
}

#[test]
fn batches_decode_as_a_foreign_receiver_sees_them() {
    let (mut tx, _) = link(|_| {});
    tx.push(&put("t", vec![1; 5000]), Reliability::Reliable).unwrap();
    tx.push(&put("t", "v"), Reliability::Reliable).unwrap();
    let sent = batches(drain(&mut tx));
    let mut reader = BatchReader::new(&sent[0]);
    let mut kinds = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        kinds.push(match item {
            BatchItem::Transport(TransportMessage::Frame(_)) => "frame",
            BatchItem::Network(_) => "message",
            _ => "other",
        });
    }
    assert_eq!(kinds, ["frame", "message", "message"]);
}
