//! Tests of the rows of `zenoh-wire` 9.2 and 9.3 that a link decides, and garbage.

use super::*;
use crate::{
    error::DecodeErrorKind,
    zenoh::{link::StreamFramer, wire::Resolution},
};
use proptest::prelude::*;

/// A receiver without QoS and with the first sequence number 5.
fn rx_at_5() -> LinkRx {
    rx_with(|params| params.qos = false)
}

fn rx_with(change: impl FnOnce(&mut LinkParams)) -> LinkRx {
    let mut params = params(|_| {});
    params.rx_initial_sn = 5;
    change(&mut params);
    LinkRx::new(&params, RxConfig::default(), START)
}

fn patch_0() -> LinkRx {
    rx_with(|params| params.patch = 0)
}

fn take(rx: &mut LinkRx, batch: &str) -> usize {
    let (result, out) = receive(rx, &hex(batch));
    assert_eq!(result, Ok(None), "{batch}");
    out.len()
}

fn fails(rx: &mut LinkRx, batch: &str) -> (LinkError, usize) {
    let (result, out) = receive(rx, &hex(batch));
    let error = result.unwrap_err();
    assert_eq!(error.close_reason(), Some(CloseReason::INVALID));
    (error, out.len())
}

/// PUT "v" on `t/x` (E0).
const PUT: &str = "7d0003742f78010176";

// ---- 9.2: the link is closed ----

#[test]
fn unknown_transport_id() {
    for id in 0x08..=0x18 {
        let (error, _) = fails(&mut rx_at_5(), &format!("{id:02x}00"));
        assert!(matches!(error, LinkError::Decode(e) if e.kind == DecodeErrorKind::UnknownId { id }));
    }
}

#[test]
fn junk_inside_a_frame_comes_after_what_was_good() {
    for junk in ["1800", "ff"] {
        let (_, delivered) = fails(&mut rx_at_5(), &format!("2505{PUT}{PUT}{junk}"));
        assert_eq!(delivered, 2, "earlier messages of the frame are delivered");
    }
}

#[test]
fn unknown_mandatory_extension() {
    for batch in ["841f", "a5051f", "a6051f", &format!("2505fd0003742f781f{}", "010176")] {
        fails(&mut rx_at_5(), batch);
    }
}

#[test]
fn extension_encoding_3() {
    fails(&mut rx_at_5(), "8461");
    fails(&mut rx_at_5(), "a50561");
}

#[test]
fn a_length_past_the_end() {
    fails(&mut rx_at_5(), "25057d0003742f78010276");
    fails(&mut rx_at_5(), "25057d0009742f78");
}

#[test]
fn sn_outside_the_mask() {
    let (error, _) = fails(&mut rx_at_5(), &format!("258080808001{PUT}"));
    assert_eq!(error, LinkError::SnOutsideMask { sn: 1 << 28, mask: 0x0fff_ffff });
    let mut narrow = rx_with(|params| params.resolution = Resolution::new(0, 2));
    assert!(matches!(fails(&mut narrow, "268001").0, LinkError::SnOutsideMask { sn: 128, .. }));
}

#[test]
fn priority_other_than_data_without_qos() {
    for batch in [format!("a5053100{PUT}"), format!("a605b10002{PUT}")] {
        let (error, delivered) = fails(&mut rx_at_5(), &batch);
        assert_eq!(error, LinkError::PriorityWithoutQos { priority: Priority::Control });
        assert_eq!(delivered, 0);
    }
    assert_eq!(take(&mut rx_at_5(), &format!("a5053105{PUT}")), 1, "Data may be said");
    assert_eq!(take(&mut rx_with(|_| {}), &format!("a5053100{PUT}")), 1, "with QoS");
    // Upper bits are ignored.
    assert_eq!(take(&mut rx_at_5(), &format!("a505310d{PUT}")), 1);
}

#[test]
fn stream_length_above_the_batch_size() {
    let params = params(|_| {});
    let framer = StreamFramer::new(&params);
    assert_eq!(params.batch_size, 49_152);
    let mut good = BytesMut::from(&49_150_u16.to_le_bytes()[..]);
    good.resize(2 + 49_150, 0x04);
    assert_eq!(framer.next(&mut good).unwrap().map(|batch| batch.len()), Some(49_150));
    let mut bad = BytesMut::from(&49_151_u16.to_le_bytes()[..]);
    assert_eq!(framer.next(&mut bad), Err(LinkError::TooLong { len: 49_151, max: 49_150 }));
}

#[test]
fn lease_expiry() {
    let mut rx = rx_with(|params| params.peer_lease = Duration::from_secs(2));
    assert_eq!(rx.poll_timeout(), Some(START.mono + Duration::from_secs(2)));
    let at = |ms| Now::at(START.mono + Duration::from_millis(ms));
    assert!(!rx.handle_timeout(at(1999)));
    // Any batch refreshes it: an empty one, a dropped frame, a bad one.
    for (ms, batch) in [(1500, ""), (3000, "250400"), (4500, "18")] {
        let _ = rx.handle_batch(at(ms), hex(batch), &mut Vec::new());
        assert!(!rx.handle_timeout(at(ms + 1999)));
        assert!(rx.handle_timeout(at(ms + 2000)));
    }
}

#[test]
fn a_lease_of_600_million_years_does_not_overflow() {
    let rx = rx_with(|params| params.peer_lease = Duration::from_millis(u64::MAX));
    assert!(rx.poll_timeout().is_some_and(|at| at > START.mono));
}

// ---- 9.3: ignored or dropped, the link lives ----

#[test]
fn non_minimal_vle() {
    assert_eq!(take(&mut rx_at_5(), &format!("258500{PUT}")), 1);
}

#[test]
fn zero_length_batch_empty_frame_and_keep_alive_with_extensions() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, ""), 0);
    assert_eq!(take(&mut rx, "2505"), 0);
    assert_eq!(take(&mut rx, "840e"), 0);
    assert_eq!(take(&mut rx, &format!("2506{PUT}")), 1);
}

#[test]
fn init_join_and_oam_after_open() {
    let mut rx = rx_at_5();
    for batch in [
        "c10972b8b7b6b5b4b3b2b10ac8ff812701",
        "620ae6cce657",
        "a70931a4a3a2a10a9e9fe01bc2f08c5b2701",
        "0001",
        "2001 05",
    ] {
        assert_eq!(take(&mut rx, batch), 0);
    }
    assert_eq!(rx.stats().ignored, 5);
    assert_eq!(take(&mut rx, &format!("2505{PUT}")), 1);
}

#[test]
fn duplicate_old_and_far_frames_are_dropped() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, &format!("2505{PUT}")), 1);
    assert_eq!(take(&mut rx, &format!("2505{PUT}{PUT}")), 0, "duplicate");
    assert_eq!(take(&mut rx, &format!("2504{PUT}")), 0, "old");
    assert_eq!(take(&mut rx, &format!("25ed07{PUT}")), 1, "a gap of 1000");
    // 1005 + 2^27 and one less.
    assert_eq!(take(&mut rx, &format!("25ed878040{PUT}")), 0, "a jump of 2^27");
    assert_eq!(take(&mut rx, &format!("25ec878040{PUT}")), 1, "a jump of 2^27 - 1");
    assert_eq!(rx.stats().old_frames, 3);
    // Only the frame is dropped, not the messages behind it in the batch.
    let next = format!("2505{PUT}2 5ed878040{PUT}").replace(' ', "");
    assert_eq!(take(&mut rx, &next), 1);
}

#[test]
fn channels_count_separately() {
    let mut rx = rx_with(|_| {});
    for head in ["2505", "0505", "a5053100", "85053100", "a5053107"] {
        assert_eq!(take(&mut rx, &format!("{head}{PUT}")), 1, "{head}");
        assert_eq!(take(&mut rx, &format!("{head}{PUT}")), 0, "{head} again");
    }
    let (_, out) = receive(&mut rx, &hex(&format!("0506{PUT}2506{PUT}")));
    let reliabilities: Vec<_> = out.iter().map(|(_, reliability)| *reliability).collect();
    assert_eq!(reliabilities, [Reliability::BestEffort, Reliability::Reliable]);
}

#[test]
fn fragments_make_a_message() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, "e605027d0003"), 0);
    assert_eq!(take(&mut rx, "6606742f78"), 0);
    assert_eq!(take(&mut rx, "2607010176"), 1);
    // A single fragment; bytes behind the message are ignored.
    assert_eq!(take(&mut rx, &format!("a60802{PUT}ffff")), 1);
    assert_eq!((rx.stats().reassembled, rx.reassembling()), (2, 0));
}

#[test]
fn fragment_without_first() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, "66057d0003"), 0);
    assert_eq!(take(&mut rx, "2606742f78010176"), 0);
    assert_eq!(rx.stats().stray_fragments, 2);
    // Without Patch there are no marks, and one is ignored.
    for first in ["66057d0003", "e605027d0003"] {
        let mut rx = patch_0();
        assert_eq!(take(&mut rx, first), 0);
        assert_eq!(take(&mut rx, "2606742f78010176"), 1);
    }
}

#[test]
fn missing_fragment() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, "e605027d0003"), 0);
    assert_eq!(take(&mut rx, "2607742f78010176"), 0, "6 is missing");
    assert_eq!((rx.stats().torn, rx.stats().stray_fragments, rx.reassembling()), (1, 1, 0));
    assert_eq!(take(&mut rx, &format!("a60802{PUT}")), 1);
}

#[test]
fn interleaved_frame() {
    for mut rx in [rx_at_5(), patch_0()] {
        assert_eq!(take(&mut rx, "e605027d0003"), 0);
        assert_eq!(take(&mut rx, &format!("2506{PUT}")), 1, "the frame itself is good");
        assert_eq!(take(&mut rx, "2607742f78010176"), 0);
        assert_eq!((rx.stats().torn, rx.reassembling()), (1, 0));
        assert_eq!(take(&mut rx, &format!("2508{PUT}")), 1);
    }
}

#[test]
fn other_channels_do_not_tear() {
    let mut rx = rx_with(|_| {});
    assert_eq!(take(&mut rx, "e605027d0003"), 0);
    assert_eq!(take(&mut rx, &format!("0505{PUT}")), 1, "best effort");
    assert_eq!(take(&mut rx, &format!("a5053101{PUT}")), 1, "another priority");
    assert_eq!(take(&mut rx, "2606742f78010176"), 1);
}

#[test]
fn a_new_first_restarts_and_drop_clears() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, "e605027d0003"), 0);
    assert_eq!(take(&mut rx, "e606027d0003"), 0);
    assert_eq!(rx.stats().torn, 1);
    // E65.
    assert_eq!(take(&mut rx, "a60703"), 0);
    assert_eq!((rx.stats().given_up, rx.reassembling()), (1, 0));
    assert_eq!(take(&mut rx, "2608742f78010176"), 0, "nothing to continue");
    assert_eq!(take(&mut rx, &format!("2509{PUT}")), 1);
}

#[test]
fn undecodable_reassembly() {
    let mut rx = rx_at_5();
    assert_eq!(take(&mut rx, "e60502ff"), 0);
    assert_eq!(take(&mut rx, "2606ff"), 0);
    assert_eq!(rx.stats().undecodable, 1);
    assert_eq!(take(&mut rx, &format!("2507{PUT}")), 1);
}

#[test]
fn a_message_above_the_bound_is_dropped_and_the_link_lives() {
    let mut params = params(|_| {});
    params.rx_initial_sn = 0;
    let config = RxConfig { max_message_size: 1000, reassembly_bytes: 1 << 20 };
    let mut rx = LinkRx::new(&params, config, START);
    let filler = "00".repeat(400);
    assert_eq!(take(&mut rx, &format!("e60002{filler}")), 0);
    assert_eq!(take(&mut rx, &format!("6601{filler}")), 0);
    assert_eq!(take(&mut rx, &format!("6602{filler}")), 0);
    assert_eq!((rx.stats().too_large, rx.reassembling()), (1, 0));
    assert_eq!(take(&mut rx, &format!("2603{filler}")), 0);
    assert_eq!(take(&mut rx, &format!("a60402{PUT}")), 1);
}

#[test]
fn sixteen_channels_share_the_memory_of_their_link() {
    let mut params = params(|_| {});
    params.rx_initial_sn = 0;
    let config = RxConfig { max_message_size: 1 << 30, reassembly_bytes: 100_000 };
    let mut rx = LinkRx::new(&params, config, START);
    // A PUT that claims a payload of 4 GiB, 100 kB of it on each channel.
    let filler = "00".repeat(10_000);
    for n in 0..10_u32 {
        for priority in 0..8 {
            for reliable in [0x00, 0x20] {
                let head = if n == 0 {
                    format!("b1{priority:02x}027d0003742f7801ffffffff0f")
                } else {
                    format!("31{priority:02x}")
                };
                let batch = format!("{:02x}{n:02x}{head}{filler}", 0xc6 | reliable);
                assert_eq!(take(&mut rx, &batch), 0);
                assert!(rx.reassembling() <= 100_000, "{}", rx.reassembling());
            }
        }
    }
    assert!(rx.stats().too_large >= 16);
}

#[test]
fn close_is_reported_and_ends_the_batch() {
    for (batch, reason) in [("0300", 0), ("2305", 5), ("0363", 0x63)] {
        let (result, out) = receive(&mut rx_at_5(), &hex(&format!("2505{PUT}{batch}18")));
        assert_eq!(result, Ok(Some(CloseReason(reason))), "{batch}");
        assert_eq!(out.len(), 1);
    }
}

#[test]
fn keep_alive_between_frames() {
    assert_eq!(take(&mut rx_at_5(), &format!("2505{PUT}042506{PUT}")), 2);
}

// ---- compression and low latency ----

#[cfg(feature = "lz4")]
#[test]
fn examples_of_compression() {
    let mut rx = rx_with(|params| {
        params.compression = true;
        params.rx_initial_sn = 56_588_229;
    });
    assert_eq!(take(&mut rx, "01ef25c5effd1a7d0003662f780164610100 4a60616161616161"), 1, "E56");
    assert_eq!(take(&mut rx, "0025c6effd1a7d0003662f7901017a"), 1, "E57");
    assert_eq!(take(&mut rx, "0004"), 0);
    assert_eq!(take(&mut rx, "fe04"), 0, "reserved bits");
    assert_eq!(take(&mut rx, ""), 0);
    assert_eq!(take(&mut rx, "00"), 0);
    let (result, _) = receive(&mut rx, &hex("000300"));
    assert_eq!(result, Ok(Some(CloseReason::GENERIC)));
    assert!(
        matches!(fails(&mut rx, "01ffff").0, LinkError::Decode(e) if e.kind == DecodeErrorKind::Compression)
    );
}

#[test]
fn low_latency_has_bare_messages_only() {
    let rx = || rx_with(|params| (params.qos, params.low_latency) = (false, true));
    assert_eq!(take(&mut rx(), "7d0003662f7901017a"), 1, "E58");
    assert_eq!(take(&mut rx(), "04"), 0);
    let (result, _) = receive(&mut rx(), &hex("0300"));
    assert_eq!(result, Ok(Some(CloseReason::GENERIC)));
    let (error, _) = fails(&mut rx(), &format!("2505{PUT}"));
    assert_eq!(error, LinkError::NotLowLatency { message: "FRAME" });
    let (error, _) = fails(&mut rx(), &format!("a60502{PUT}"));
    assert_eq!(error, LinkError::NotLowLatency { message: "FRAGMENT" });
}

// ---- garbage ----

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn garbage_never_panics(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20),
        qos: bool, compression: bool, low_latency: bool, patch in 0..2_u8,
    ) {
        let mut rx = rx_with(|params| {
            (params.qos, params.compression) = (qos, compression);
            (params.low_latency, params.patch) = (low_latency, patch);
        });
        for batch in batches {
            let mut out = Vec::new();
            let _ = rx.handle_batch(START, batch.into(), &mut out);
            prop_assert!(rx.reassembling() <= 64 << 20);
        }
    }

    /// Fragments with plausible heads, so that reassembly is reached.
    #[test]
    fn fragments_of_garbage_never_panic(
        fragments in prop::collection::vec((any::<bool>(), 0..4_u8, 0..6_u8, any::<[u8; 6]>()), 0..60),
        patch in 0..2_u8,
    ) {
        let mut rx = rx_with(|params| params.patch = patch);
        let mut sn = 4_u8;
        for (more, ext, step, data) in fragments {
            sn = sn.wrapping_add(step) & 0x7f;
            let mut batch = vec![if more { 0x66 } else { 0x26 }, sn];
            match ext {
                1 => batch.push(0x02),
                2 => batch.push(0x03),
                3 => batch.extend([0x82, 0x03]),
                _ => {}
            }
            if ext != 0 {
                batch[0] |= 0x80;
            }
            batch.extend(data);
            prop_assert!(rx.handle_batch(START, batch.into(), &mut Vec::new()).is_ok());
        }
    }
}
