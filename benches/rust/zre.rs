//! Cost of a ZRE node beside its sockets: `cargo bench -p zwire-proto --bench zre`.
//!
//! A SHOUT to so many members, from the command to the last action that the driver takes; the messages
//! of 36/ZRE and the beacon, both ways; and at the end the memory of a node with 10,000 idle peers.

use bytes::Bytes;
use core::{hint::black_box, time::Duration};
use criterion::{BenchmarkId, Criterion, Throughput};
use zwire_proto::{
    Now, Text,
    zre::{
        Generation, Generations, Uuid, ZreNode, ZreNodeConfig,
        node::Interface,
        wire::{Address, Beacon, Body, Hello, IdentityForm, ZreMessage},
    },
};

const NOW: Now = Now::at(Duration::from_secs(1));
const GENERATION: Generation = Generation::Rfc36;

fn uuid(number: usize) -> Uuid {
    let mut bytes = [1; 16];
    bytes[8..].copy_from_slice(&(number as u64).to_be_bytes());
    Uuid::from_bytes(bytes)
}

fn hello(number: usize) -> ZreMessage {
    let ip = core::net::Ipv4Addr::from_bits(0x0a00_0001 + number as u32);
    let body = Body::Hello(Hello {
        address: Address::Endpoint(format!("tcp://{ip}:49152").into()),
        groups: vec![Bytes::from_static(b"CHAT")],
        status: 1,
        name: Bytes::from(format!("node{number}")),
        headers: vec![(Bytes::from_static(b"X-ROLE"), Bytes::from_static(b"edge"))],
    });
    ZreMessage { sequence: 1, body }
}

/// An idle node with all peers in one group.
fn node(peers: usize) -> ZreNode {
    let interface = Interface { address: [10, 0, 0, 1].into(), prefix: 8 };
    let generations = Generations::default();
    let config = ZreNodeConfig { interfaces: vec![interface], generations, ..ZreNodeConfig::new(uuid(0)) };
    let mut node = ZreNode::new(NOW, config).expect("a configuration that can be");
    for number in 1..=peers {
        let identity = IdentityForm::of(GENERATION).encode(&uuid(number));
        let frames = hello(number).encode(GENERATION).expect("it has an encoding");
        node.handle_message(NOW, &identity, &frames);
        while node.poll_action().is_some() || node.poll_event().is_some() {}
    }
    assert_eq!(node.peers_of("CHAT").count(), peers);
    node
}

fn shout(c: &mut Criterion) {
    let mut group = c.benchmark_group("shout");
    let (name, content) = (Text::from("CHAT"), Bytes::from(vec![7; 64]));
    for members in [2, 10, 50, 1000] {
        let mut node = node(members);
        group.throughput(Throughput::Elements(members as u64));
        group.bench_function(BenchmarkId::from_parameter(members), |b| {
            b.iter(|| {
                let shouted = node.shout(NOW, &name, vec![content.clone()]).expect("it can be told");
                while let Some(action) = node.poll_action() {
                    black_box(action);
                }
                shouted.peers.len()
            });
        });
    }
    group.finish();
}

fn codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    let shout =
        Body::Shout { group: Bytes::from_static(b"CHAT"), content: vec![Bytes::from_static(b"Hello")] };
    for (name, message) in [
        ("HELLO", hello(1)),
        ("SHOUT", ZreMessage { sequence: 3, body: shout }),
        ("PING", ZreMessage { sequence: 6, body: Body::Ping }),
    ] {
        let frames = message.encode(GENERATION).expect("it has an encoding");
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| black_box(&message).encode(GENERATION));
        });
        group.bench_function(BenchmarkId::new("decode", name), |b| {
            b.iter(|| ZreMessage::decode(GENERATION, black_box(&frames)));
        });
    }
    let beacon = Beacon { uuid: uuid(1), port: 49152, public_key: None };
    let datagram = beacon.encode();
    group.bench_function("encode/beacon", |b| b.iter(|| black_box(&beacon).encode()));
    group.bench_function("decode/beacon", |b| b.iter(|| Beacon::decode(black_box(&datagram))));
    group.finish();
}

/// Pages of this process.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    statm.split(' ').nth(1)?.parse().ok()
}

#[allow(clippy::print_stdout, reason = "the numbers are the result")]
fn memory() {
    const PEERS: usize = 10_000;
    let Some(before) = resident() else { return println!("memory: no /proc here") };
    let node = node(PEERS);
    let after = resident().unwrap_or(before);
    println!("memory: {} bytes per idle peer, of {PEERS}", (after - before) * 4096 / PEERS);
    drop(node);
}

fn main() {
    memory();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    shout(&mut criterion);
    codec(&mut criterion);
    criterion.final_summary();
}
