//! Codec rates against `zenoh-codec`, the codec of eclipse-zenoh, in the same run.
//!
//! `cargo bench -p zwire-proto --bench codec` prints criterion's report and then one table of ratios.
//!
//! # Method
//!
//! - A PUSH with a PUT, as an application makes it: QoS and encoding at their defaults, no timestamp.
//!   Once with the full key of 24 bytes, once with a declared key (scope 7, no suffix).
//! - Decode: a buffer of many equal messages back to back is walked, each message is taken as a
//!   `NetworkMessage` and dropped. Both sides share the payload with the buffer (`Bytes` here, `ZSlice`
//!   there); neither copies it. The time is that of one message.
//! - Encode: one message into an emptied buffer that is large enough, as both do when they fill a
//!   batch (`BytesMut` here, `BBuf` there). At 64 KiB the payload does not fit a batch: both sides
//!   take the way that they take before they cut fragments, which shares the payload instead of
//!   copying it (`Segments` here, `ZBuf` there). `copied` is the same message copied by both.
//! - The outputs are compared byte for byte before anything is measured.

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput};
use std::{hint::black_box, path::Path, time::Duration};
use zenoh_buffers::{BBuf, ZBuf, ZSlice, buffer::SplitBuffer, reader::HasReader, writer::HasWriter};
use zenoh_codec::{RCodec, WCodec, Zenoh080};
use zenoh_protocol::network::NetworkMessage as TheirMessage;
use zwire_proto::{
    Text,
    buf::{Reader, Segments},
    zenoh::{
        Qos,
        wire::{Mapping, NetworkMessage, Push, PushBody, Put, WireExpr},
    },
};

const KEY: &str = "fleet/7/camera/front/raw";
const SIZES: [(&str, usize); 3] = [("8 B", 8), ("1 KiB", 1024), ("64 KiB", 64 * 1024)];
/// How many bytes of messages a decode walks, so that the buffer stays in the cache.
const WALK: usize = 256 * 1024;

#[derive(Clone, Copy)]
enum Key {
    Full,
    Declared,
}

impl Key {
    const ALL: [Self; 2] = [Self::Full, Self::Declared];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "full key",
            Self::Declared => "declared key",
        }
    }
}

fn our_put(key: Key, size: usize) -> NetworkMessage {
    let key = match key {
        Key::Full => WireExpr::full(KEY),
        Key::Declared => WireExpr { scope: 7, mapping: Mapping::Sender, suffix: Text::EMPTY },
    };
    let put = Put::new(vec![0xa5; size]);
    NetworkMessage::Push(Push { qos: Qos::DEFAULT, ..Push::new(key, PushBody::Put(put)) })
}

fn encoded(message: &NetworkMessage) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

/// The same message, read by them from our bytes.
fn their_put(wire: &[u8]) -> TheirMessage {
    Zenoh080::new().read(&mut wire.reader()).expect("they read it")
}

fn decode(c: &mut Criterion) {
    for key in Key::ALL {
        for (name, size) in SIZES {
            let one = encoded(&our_put(key, size));
            let count = (WALK / one.len()).max(4);
            let ours = Bytes::from(one.repeat(count));
            let theirs = ZSlice::from(ours.to_vec());
            let mut group = c.benchmark_group(format!("decode {name}, {}", key.name()));
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function("zwire", |b| {
                b.iter(|| {
                    let mut r = Reader::new(&ours);
                    while !r.is_empty() {
                        let message = NetworkMessage::decode(&mut r);
                        // By reference: handing it over would copy it once more, on both sides.
                        let Ok(message) = &message else { panic!("{message:?}") };
                        black_box(message);
                    }
                });
            });
            group.bench_function("zenoh-codec", |b| {
                b.iter(|| {
                    let mut slice = theirs.clone();
                    let mut reader = slice.reader();
                    for _ in 0..count {
                        let message: Result<TheirMessage, _> = Zenoh080::new().read(&mut reader);
                        let Ok(message) = &message else { panic!("{message:?}") };
                        black_box(message);
                    }
                });
            });
            group.finish();
        }
    }
}

fn encode(c: &mut Criterion) {
    for key in Key::ALL {
        for (name, size) in SIZES {
            let ours = our_put(key, size);
            let wire = encoded(&ours);
            let theirs = their_put(&wire);
            let shares = size >= Segments::SHARE_FROM;

            let copied = if shares { ", copied" } else { "" };
            let mut group = c.benchmark_group(format!("encode {name}, {}{copied}", key.name()));
            group.throughput(Throughput::Elements(1));
            let mut buffer = BytesMut::with_capacity(wire.len());
            group.bench_function("zwire", |b| {
                b.iter(|| {
                    buffer.clear();
                    black_box(&ours).encode(&mut buffer);
                    black_box(&buffer);
                });
            });
            // Once more: a filter may leave the measurement out.
            buffer.clear();
            ours.encode(&mut buffer);
            assert_eq!(buffer, wire);
            let mut buffer = BBuf::with_capacity(wire.len());
            group.bench_function("zenoh-codec", |b| {
                b.iter(|| {
                    buffer.clear();
                    Zenoh080::new().write(&mut buffer.writer(), black_box(&theirs)).expect("it fits");
                    black_box(&buffer);
                });
            });
            buffer.clear();
            Zenoh080::new().write(&mut buffer.writer(), &theirs).expect("it fits");
            assert_eq!(buffer.as_slice(), wire);
            group.finish();

            if shares {
                let mut group = c.benchmark_group(format!("encode {name}, {}", key.name()));
                group.throughput(Throughput::Elements(1));
                let mut segments = Segments::default();
                group.bench_function("zwire", |b| {
                    b.iter(|| {
                        segments.clear();
                        black_box(&ours).encode(&mut segments);
                        black_box(&segments);
                    });
                });
                segments.clear();
                ours.encode(&mut segments);
                assert_eq!(segments.into_parts().concat(), wire);
                let mut buffer = ZBuf::empty();
                group.bench_function("zenoh-codec", |b| {
                    b.iter(|| {
                        buffer.clear();
                        Zenoh080::new().write(&mut buffer.writer(), black_box(&theirs)).expect("it fits");
                        black_box(&buffer);
                    });
                });
                buffer.clear();
                Zenoh080::new().write(&mut buffer.writer(), &theirs).expect("it fits");
                assert_eq!(buffer.contiguous()[..], wire);
                group.finish();
            }
        }
    }
}

/// Criterion's point estimate for one iteration, in nanoseconds; `None` where it was not measured.
fn estimate(home: &Path, group: &str, function: &str) -> Option<f64> {
    let group: String = group.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    let path = home.join(group).join(function).join("new/estimates.json");
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["slope"]["point_estimate"]
        .as_f64()
        .or_else(|| serde_json::from_str::<serde_json::Value>(&text).ok()?["mean"]["point_estimate"].as_f64())
}

#[allow(clippy::print_stdout, reason = "the table is the result")]
fn table(home: &Path) {
    println!("\n| PUSH/PUT | zwire | zenoh-codec | ratio |\n|---|---:|---:|---:|");
    for verb in ["decode", "encode"] {
        for key in Key::ALL {
            for (name, size) in SIZES {
                let shares = verb == "encode" && size >= Segments::SHARE_FROM;
                for copied in if shares { &["", ", copied"][..] } else { &[""] } {
                    let group = format!("{verb} {name}, {}{copied}", key.name());
                    let messages = match verb {
                        "decode" => (WALK / encoded(&our_put(key, size)).len()).max(4) as f64,
                        _ => 1.0,
                    };
                    let (Some(ours), Some(theirs)) =
                        (estimate(home, &group, "zwire"), estimate(home, &group, "zenoh-codec"))
                    else {
                        continue;
                    };
                    let (ours, theirs) = (ours / messages, theirs / messages);
                    println!("| {group} | {ours:.1} ns | {theirs:.1} ns | {:.2} |", theirs / ours);
                }
            }
        }
    }
}

fn main() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("criterion-codec");
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .output_directory(&home)
        .configure_from_args();
    decode(&mut criterion);
    encode(&mut criterion);
    criterion.final_summary();
    table(&home);
}
