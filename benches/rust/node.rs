//! Cost of a routing node beside its sockets: `cargo bench -p zwire-proto --bench node`.
//!
//! A PUSH with a remembered route, from a client or along the tree of another router; and a table of what
//! peers in a mesh, declarations and neighbours take, in time and memory, with as much twice over: both
//! should be what they were.

use core::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use criterion::{BenchmarkId, Criterion};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::VecDeque,
    time::Instant,
};
use zwire_proto::{
    Now,
    zenoh::{
        Reliability, Remote, WhatAmI, ZenohId,
        node::{FaceId, FaceKind, Node, NodeConfig, NodeMode},
        wire::{
            Declaration, Declare, ExtBody, Interest, InterestMode, InterestOptions, LinkState, LinkStateList,
            NetworkMessage, Oam, Push, PushBody, Put, WireExpr,
        },
    },
};

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The allocator of the system, which counts what is taken.
struct Counting;

#[allow(unsafe_code, reason = "an allocator is that; it only counts and passes on")]
// SAFETY: all is passed to the allocator of the system as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: Now = Now { mono: Duration::from_secs(1), wall: Duration::from_secs(1_700_000_000) };
const LATER: Now = Now { mono: Duration::from_secs(2), wall: Duration::from_secs(1_700_000_001) };

fn zid(number: usize) -> ZenohId {
    ZenohId::new(number as u128 + 0x50).expect("not zero")
}

fn node(number: usize, mode: NodeMode) -> Node {
    Node::new(NodeConfig { timestamping: false, ..NodeConfig::new(zid(number), mode) })
}

fn up(node: &mut Node, face: u32, whatami: WhatAmI) {
    let remote = Remote { zid: zid(1000 + face as usize), whatami };
    node.handle_face_up(NOW, FaceId(face), remote, FaceKind::Unicast);
}

fn say(node: &mut Node, face: u32, message: NetworkMessage) -> usize {
    node.handle_message(NOW, FaceId(face), message, Reliability::Reliable).expect("allowed");
    let mut out = VecDeque::new();
    node.take_transmits(&mut out);
    out.len()
}

fn subscriber(id: u32, key: &str) -> NetworkMessage {
    let key = WireExpr::full(key);
    NetworkMessage::Declare(Declare::new(None, Declaration::Subscriber { id, key }))
}

/// Another router at a face, which is linked to this node only.
fn join_router(node: &mut Node, face: u32) {
    up(node, face, WhatAmI::Router);
    let record = |psid, zid, links: &[u64]| LinkState {
        psid,
        sn: 1 - psid,
        zid: Some(zid),
        links: links.to_vec(),
        ..LinkState::default()
    };
    let own = node.config().zid;
    let list = LinkStateList(vec![record(0, zid(1000 + face as usize), &[1]), record(1, own, &[])]);
    say(node, face, NetworkMessage::Oam(Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(list.encode()))));
    node.handle_timeout(LATER);
    while node.poll_transmit().is_some() {}
}

fn push(c: &mut Criterion) {
    let mut group = c.benchmark_group("push");
    for (name, from, to, fan) in [
        ("client to client", WhatAmI::Client, WhatAmI::Client, 1),
        ("client to 8 clients", WhatAmI::Client, WhatAmI::Client, 8),
        ("router to client", WhatAmI::Router, WhatAmI::Client, 1),
        ("client to router", WhatAmI::Client, WhatAmI::Router, 1),
    ] {
        let mut node = node(0, NodeMode::Router);
        for (face, whatami) in (1..=fan).map(|face| (face, to)).chain([(100, from)]) {
            match whatami {
                WhatAmI::Router => join_router(&mut node, face),
                _ => up(&mut node, face, whatami),
            }
        }
        for face in 1..=fan {
            say(&mut node, face, subscriber(0, "demo/*"));
        }
        let put = PushBody::Put(Put::new(vec![7; 64]));
        let mut message = NetworkMessage::Push(Push::new(WireExpr::full("demo/a"), put));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                let mut given = 0;
                let give = |to, message: &mut NetworkMessage| {
                    black_box((to, message));
                    given += 1;
                };
                node.forward(NOW, FaceId(100), &mut message, give).expect("the face is there");
                assert_eq!(given, fan);
            });
        });
    }
    group.finish();
}

/// Peers that are all linked to each other and have told each other everything, each with a
/// subscriber. Returns the nodes and how many messages that took.
fn mesh(peers: usize) -> (Vec<Node>, usize) {
    let mut nodes: Vec<Node> = (0..peers).map(|number| node(number, NodeMode::Peer)).collect();
    for (number, node) in nodes.iter_mut().enumerate() {
        node.set_locators(NOW, vec![format!("tcp/10.0.0.{number}:7447").into()]);
        let own = Remote { zid: zid(number), whatami: WhatAmI::Client };
        node.handle_face_up(NOW, FaceId(1000), own, FaceKind::Local);
        say(node, 1000, subscriber(1, &format!("peer/{number}")));
    }
    let mut messages = 0;
    for late in 1..peers {
        for early in 0..late {
            for (a, b) in [(early, late), (late, early)] {
                let remote = Remote { zid: zid(b), whatami: WhatAmI::Peer };
                nodes[a].handle_face_up(NOW, FaceId(b as u32), remote, FaceKind::Unicast);
            }
        }
        loop {
            let before = messages;
            for from in 0..=late {
                let mut out = VecDeque::new();
                nodes[from].take_transmits(&mut out);
                for (to, message, reliability) in out {
                    messages += 1;
                    nodes[to.0 as usize]
                        .handle_message(NOW, FaceId(from as u32), message, reliability)
                        .expect("allowed");
                }
                while nodes[from].poll_event().is_some() {}
            }
            if messages == before {
                break;
            }
        }
    }
    (nodes, messages)
}

/// Prints what something took, for each of so many.
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "the numbers are the result")]
fn line<T>(what: &str, count: usize, make: impl FnOnce() -> (T, usize)) {
    let (bytes, start) = (BYTES.load(Relaxed), Instant::now());
    let (made, messages) = make();
    let taken = start.elapsed();
    let bytes = BYTES.load(Relaxed) - bytes;
    drop(made);
    println!(
        "| {what} | {count} | {:.1} | {:.2} | {} | {} |",
        taken.as_secs_f64() * 1e3,
        taken.as_secs_f64() * 1e6 / count as f64,
        bytes / count,
        messages / count,
    );
}

#[allow(clippy::print_stdout, reason = "the numbers are the result")]
fn table() {
    println!("| what | how many | all, ms | each, µs | each, bytes | each, messages |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for peers in [25, 50, 100] {
        // Of a mesh each link is counted.
        line("links of a mesh of peers, both ends", peers * (peers - 1) / 2, || mesh(peers));
    }
    for count in [5_000, 10_000, 20_000] {
        let declare = |node: &mut Node, count: usize| -> usize {
            (0..count).map(|n| say(node, 1, subscriber(n as u32, &format!("fleet/{n}/position")))).sum()
        };
        line("subscriptions at a router, alone", count, || {
            let mut node = node(0, NodeMode::Router);
            up(&mut node, 1, WhatAmI::Client);
            let messages = declare(&mut node, count);
            (node, messages)
        });
        line("subscriptions, 100 clients that do not ask", count, || {
            let mut node = node(0, NodeMode::Router);
            (1..=100).for_each(|face| up(&mut node, face, WhatAmI::Client));
            let messages = declare(&mut node, count);
            (node, messages)
        });
        line("subscriptions, one other router", count, || {
            let mut node = node(0, NodeMode::Router);
            up(&mut node, 1, WhatAmI::Client);
            join_router(&mut node, 2);
            let messages = declare(&mut node, count);
            (node, messages)
        });
    }
    for (routers, count) in [(10, 10_000), (20, 10_000), (100, 10_000)] {
        line(&format!("subscriptions, {routers} other routers"), count, || {
            let mut node = node(0, NodeMode::Router);
            up(&mut node, 1, WhatAmI::Client);
            (2..2 + routers).for_each(|face| join_router(&mut node, face));
            let declared =
                (0..count).map(|n| say(&mut node, 1, subscriber(n as u32, &format!("fleet/{n}/x"))));
            let messages = declared.sum();
            (node, messages)
        });
    }
    for clients in [25, 50, 100] {
        line(&format!("subscriptions told to {clients} clients"), 10_000, || {
            let mut node = node(0, NodeMode::Router);
            for face in 1..=clients {
                up(&mut node, face, WhatAmI::Client);
                let options = InterestOptions::SUBSCRIBERS;
                let interest = Interest::new(1, InterestMode::CurrentFuture, options, None);
                say(&mut node, face, NetworkMessage::Interest(interest));
            }
            let declared = (0..10_000).map(|n| say(&mut node, 1, subscriber(n, &format!("fleet/{n}/x"))));
            let messages = declared.sum();
            (node, messages)
        });
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    push(&mut criterion);
    criterion.final_summary();
    table();
}
