//! Bare frames give the records of the captures they come from, in any order of sessions; no contents
//! cause a panic.

use super::run::{dissect, file, packets};
use proptest::prelude::*;
use std::{net::SocketAddr, time::Duration};
use zwire_dissect::capture::{FlowEvent, Flows, MAX_CONNECTIONS};
use zwire_dissect::{Frame, FrameDissector, Framing, Options, Record};

fn read(framing: Framing, frames: impl IntoIterator<Item = Frame>) -> Vec<Record> {
    let mut dissector = FrameDissector::new(framing);
    let mut records = Vec::new();
    let mut take = |dissector: &mut FrameDissector| {
        loop {
            let found = dissector.poll_records();
            if found.is_empty() {
                break;
            }
            records.extend_from_slice(found);
        }
    };
    for frame in frames {
        dissector.push(frame);
        take(&mut dissector);
    }
    dissector.finish();
    take(&mut dissector);
    assert_eq!(dissector.ends().count(), 0, "everything is forgotten");
    records
}

fn chunks(name: &str) -> Vec<Frame> {
    let mut flows = Flows::default();
    let mut frames = Vec::new();
    for packet in packets(name) {
        flows.handle_packet(&packet).unwrap();
        while let Some(event) = flows.poll_event() {
            if let FlowEvent::Data { timestamp, connection, direction, data, .. } = event {
                let (src, dst) = (connection.src(direction), connection.dst(direction));
                frames.push(Frame { time: Some(timestamp), src, dst, data });
            }
        }
    }
    frames
}

#[test]
fn chunks_of_streams_say_what_the_capture_says() {
    for name in ["zenoh-compression", "zenoh-declared-keyexpr", "zenoh-fragmented", "zenoh-lowlatency"] {
        let expected = dissect(&file(name), Options::default());
        assert!(read(Framing::Stream, chunks(name)) == expected, "{name}");
    }
}

fn end(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 1))
}

#[test]
fn the_oldest_of_too_many_sessions_is_told_and_forgotten() {
    // A FRAME with a PUSH, and the length of a batch that does not follow.
    let frame = |number: usize| Frame {
        time: None,
        src: end(number),
        dst: SocketAddr::from(([10, 1, 0, 0], 7447)),
        data: [6, 0, 0x25, 1, 0x1d, 1, 1, 0, 9, 0].as_slice().into(),
    };
    let records = read(Framing::Stream, (0..MAX_CONNECTIONS + 3).map(frame));
    let cut: Vec<_> =
        records.iter().filter(|record| record.fault().is_some()).map(|record| record.src).collect();
    assert_eq!(cut.len(), MAX_CONNECTIONS + 3);
    assert_eq!(records.iter().filter(|record| record.message() == "push").count(), MAX_CONNECTIONS + 3);
    assert!(records.iter().all(|record| record.time == FrameDissector::UNKNOWN));
}

proptest! {
    #[test]
    fn noise_never_panics(
        frames in prop::collection::vec(
            (0..4usize, 0..4usize, prop::option::of(0..9u64), prop::collection::vec(any::<u8>(), 0..60)),
            0..60,
        ),
        stream: bool,
        prefixed: bool,
    ) {
        let framing = if stream { Framing::Stream } else { Framing::Batch };
        let bytes: usize = frames.iter().map(|frame| frame.3.len()).sum();
        let frames = frames.into_iter().map(|(src, dst, time, data)| {
            let prefix = (data.len() as u16).to_le_bytes();
            let data = if prefixed { [&prefix[..], &data].concat() } else { data };
            Frame { time: time.map(Duration::from_secs), src: end(src), dst: end(dst), data: data.into() }
        });
        let records = read(framing, frames);
        prop_assert!(records.len() <= 2 * (bytes + 120));
    }

    #[test]
    fn damage_never_panics(
        name in prop::sample::select(vec!["zenoh-compression", "zenoh-pubsub-basic"]),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..8),
        batches: bool,
    ) {
        let mut frames = chunks(name);
        for (which, place, byte) in cuts {
            let at = which.index(frames.len());
            let mut data = frames[at].data.to_vec();
            let place = place.index(data.len());
            data[place] = byte;
            frames[at].data = data.into();
        }
        let framing = if batches { Framing::Batch } else { Framing::Stream };
        read(framing, frames);
    }
}
