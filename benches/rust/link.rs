//! Cost of a link beside the codec: `cargo bench -p zwire-proto --bench link`.
//!
//! Each pair is the codec alone and the same messages through the machine; the difference is the
//! machine. Elements are messages.

use bytes::{Bytes, BytesMut};
use core::{hint::black_box, time::Duration};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zwire_proto::{
    Now,
    zenoh::{
        Reliability, Remote, WhatAmI, ZenohId,
        link::{LinkParams, LinkRx, LinkTx, QosLink, RxConfig, StreamFramer, TxConfig},
        wire::{BatchReader, Frame, Mapping, NetworkMessage, Push, PushBody, Put, Resolution, WireExpr},
    },
};

const NOW: Now = Now::at(Duration::from_secs(1));
/// Messages per iteration.
const COUNT: usize = 1000;

fn params() -> LinkParams {
    LinkParams {
        remote: Remote { zid: ZenohId::new(1).expect("not zero"), whatami: WhatAmI::Router },
        batch_size: 65_535,
        resolution: Resolution::DEFAULT,
        qos: true,
        qos_link: QosLink::default(),
        compression: false,
        low_latency: false,
        patch: 1,
        tx_initial_sn: 5,
        rx_initial_sn: 5,
        own_lease: Duration::from_secs(10),
        peer_lease: Duration::from_secs(10),
        streamed: true,
        user: None,
        region_name: None,
        lending: None,
        named: None,
    }
}

fn sender() -> LinkTx {
    LinkTx::new(&params(), TxConfig { bytes_per_priority: usize::MAX, keep_alive: 4 }, NOW)
}

/// On a declared key, as a publisher sends.
fn put(size: usize) -> NetworkMessage {
    let key = WireExpr { scope: 1, mapping: Mapping::Sender, suffix: zwire_proto::Text::EMPTY };
    NetworkMessage::Push(Push::new(key, PushBody::Put(Put::new(vec![7; size]))))
}

fn tx(c: &mut Criterion) {
    let mut group = c.benchmark_group("tx");
    for size in [8, 64, 1024] {
        let message = put(size);
        group.throughput(Throughput::Elements(COUNT as u64));
        group.bench_function(BenchmarkId::new("encode", size), |b| {
            let mut out = Vec::with_capacity(COUNT * (size + 16));
            b.iter(|| {
                out.clear();
                for _ in 0..COUNT {
                    black_box(&message).encode(&mut out);
                }
                out.len()
            });
        });
        group.bench_function(BenchmarkId::new("burst", size), |b| {
            let (mut tx, mut out) = (sender(), Vec::new());
            b.iter(|| {
                for _ in 0..COUNT {
                    tx.push(black_box(&message), Reliability::Reliable).expect("unbounded");
                }
                let mut len = 0;
                loop {
                    match tx.poll_transmit(NOW, &mut out, 65_536) {
                        0 => break len,
                        n => len += n,
                    }
                    out.clear();
                }
            });
        });
        group.bench_function(BenchmarkId::new("one by one", size), |b| {
            let (mut tx, mut out) = (sender(), Vec::new());
            b.iter(|| {
                for _ in 0..COUNT {
                    tx.push(black_box(&message), Reliability::Reliable).expect("unbounded");
                    tx.poll_transmit(NOW, &mut out, 65_536);
                    out.clear();
                }
            });
        });
    }
    group.finish();
}

fn rx(c: &mut Criterion) {
    let mut group = c.benchmark_group("rx");
    for size in [8, 64, 1024] {
        let message = put(size);
        let count = (60_000 / (size + 8)).min(COUNT);
        let batch = |sn: u32| -> Bytes {
            let mut out = Vec::new();
            let frame = Frame { reliability: Reliability::Reliable, sn, priority: Default::default() };
            frame.encode(&mut out);
            (0..count).for_each(|_| message.encode(&mut out));
            out.into()
        };
        group.throughput(Throughput::Elements(count as u64));
        let whole = batch(5);
        group.bench_function(BenchmarkId::new("decode", size), |b| {
            let mut out = Vec::with_capacity(count);
            b.iter(|| {
                out.clear();
                let mut reader = BatchReader::new(black_box(&whole));
                while let Some(item) = reader.next_item().expect("well-formed") {
                    out.push(item);
                }
                out.len()
            });
        });
        group.bench_function(BenchmarkId::new("batch", size), |b| {
            let mut out = Vec::with_capacity(count);
            // Only the first bytes of a batch, its sequence number, change.
            let batches: Vec<_> = (5..105).map(batch).collect();
            let mut rx = LinkRx::new(&params(), RxConfig::default(), NOW);
            let mut next = 0;
            b.iter(|| {
                out.clear();
                if next == batches.len() {
                    rx = LinkRx::new(&params(), RxConfig::default(), NOW);
                    next = 0;
                }
                rx.handle_batch(NOW, batches[next].clone(), &mut out).expect("well-formed");
                next += 1;
                assert_eq!(out.len(), count);
            });
        });
    }
    group.finish();
}

/// One large message, there and back again; the limit is one copy.
fn fragments(c: &mut Criterion) {
    let mut group = c.benchmark_group("fragments");
    for size in [64 << 10, 1 << 20, 8 << 20] {
        let message = put(size);
        group.throughput(Throughput::Bytes(size as u64));
        let source = vec![7_u8; size];
        group.bench_function(BenchmarkId::new("copy", size), |b| {
            b.iter(|| Bytes::from(black_box(&source).to_vec()))
        });
        group.bench_function(BenchmarkId::new("cut", size), |b| {
            let (mut tx, mut out) = (sender(), Vec::new());
            b.iter(|| {
                tx.push(black_box(&message), Reliability::Reliable).expect("unbounded");
                while tx.poll_transmit(NOW, &mut out, 1 << 18) > 0 {
                    out.clear();
                }
            });
        });
        let mut stream = Vec::new();
        let mut tx = sender();
        let mut out = Vec::new();
        tx.push(&message, Reliability::Reliable).expect("unbounded");
        while tx.poll_transmit(NOW, &mut out, 1 << 18) > 0 {}
        out.iter().for_each(|part| stream.extend_from_slice(part));
        let framer = StreamFramer::new(&params());
        let mut stream = BytesMut::from(&stream[..]);
        let mut batches = Vec::new();
        while let Some(batch) = framer.next(&mut stream).expect("ours") {
            batches.push(batch);
        }
        group.bench_function(BenchmarkId::new("put together", size), |b| {
            let mut out = Vec::new();
            b.iter(|| {
                let mut rx = LinkRx::new(&params(), RxConfig::default(), NOW);
                for batch in &batches {
                    rx.handle_batch(NOW, batch.clone(), &mut out).expect("ours");
                }
                assert_eq!(out.len(), 1);
                out.clear();
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000)).without_plots();
    targets = tx, rx, fragments
}
criterion_main!(benches);
