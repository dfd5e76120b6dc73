//! Groups in virtual time: membership, delivery, and the cost of strangers.

use super::*;
use crate::zenoh::{
    Priority, Reliability,
    link::{JOIN_GAP, LinkTx, StreamFramer},
    wire::{
        Close, CloseReason, Fragment, Frame, NetworkMessage, Push, PushBody, Put, TransportMessage, WireExpr,
        testing::unhex,
    },
};
use bytes::{Bytes, BytesMut};
use core::net::SocketAddr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const START: Duration = Duration::from_secs(1000);
/// Delay between sending and receiving.
const DELAY: Duration = Duration::from_millis(1);

fn addr(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1000 + n as u16))
}

fn zid(n: usize) -> ZenohId {
    ZenohId::new(n as u128 + 1).unwrap()
}

fn config(n: usize) -> GroupConfig {
    GroupConfig { initial_sn: n as u32 * 77_777, ..GroupConfig::new(zid(n), WhatAmI::Peer) }
}

fn message(number: usize, len: usize) -> NetworkMessage {
    let mut payload = vec![number as u8; len + 8];
    payload[..8].copy_from_slice(&(number as u64).to_le_bytes());
    NetworkMessage::Push(Push::new(WireExpr::full("g/x"), PushBody::Put(Put::new(payload))))
}

/// The number of a message that is whole.
fn number(message: &NetworkMessage) -> usize {
    let NetworkMessage::Push(Push { body: PushBody::Put(put), .. }) = message else { panic!("{message:?}") };
    let (head, rest) = put.payload.split_at(8);
    let number = u64::from_le_bytes(head.try_into().unwrap()) as usize;
    assert!(rest.iter().all(|byte| *byte == number as u8), "message {number} is torn");
    number
}

struct Node {
    at: SocketAddr,
    tx: LinkTx,
    rx: GroupRx,
    framer: StreamFramer,
    members: BTreeMap<MemberId, ZenohId>,
    heard: Vec<(ZenohId, usize)>,
    joins: Vec<Duration>,
}

impl Node {
    fn new(config: &GroupConfig, at: SocketAddr, now: Now) -> Self {
        Self {
            at,
            tx: config.sender(TxConfig::default(), now),
            rx: GroupRx::new(config.clone()),
            framer: StreamFramer::new(&config.params()),
            members: BTreeMap::new(),
            heard: Vec::new(),
            joins: Vec::new(),
        }
    }

    fn events(&mut self, now: Now) {
        while let Some(event) = self.rx.poll_event() {
            match event {
                GroupEvent::Joined { member, remote, .. } => {
                    assert_eq!(self.members.insert(member, remote.zid), None);
                    self.tx.announce(now);
                }
                GroupEvent::Left { member } => assert!(self.members.remove(&member).is_some()),
            }
        }
        assert_eq!(
            self.members.keys().copied().collect::<BTreeSet<_>>(),
            self.rx.members().map(|m| m.0).collect()
        );
    }

    fn hear(&mut self, now: Now, from: SocketAddr, datagram: Bytes) {
        let mut out = Vec::new();
        let heard = self.rx.handle_datagram(now, from, datagram, &mut out);
        if let Some(heard) = heard {
            // Joined comes before, and leaving by CLOSE has no event.
            while let Some(event) = self.rx.poll_event() {
                let GroupEvent::Joined { member, remote, .. } = event else { panic!("{event:?}") };
                self.members.insert(member, remote.zid);
                self.tx.announce(now);
            }
            let who = self.members[&heard.member];
            self.heard.extend(out.iter().map(|(message, _)| (who, number(message))));
            if heard.closed.is_some() {
                self.members.remove(&heard.member);
            }
        } else {
            assert!(out.is_empty());
        }
        self.events(now);
    }

    /// Its pending output, one datagram each.
    fn transmit(&mut self, now: Now) -> Vec<Bytes> {
        let mut parts = Vec::new();
        self.tx.poll_transmit(now, &mut parts, usize::MAX);
        let mut stream = BytesMut::new();
        parts.iter().for_each(|part| stream.extend_from_slice(part));
        let mut datagrams = Vec::new();
        while let Some(datagram) = self.framer.next(&mut stream).unwrap() {
            if TransportMessage::is_join(datagram[0]) {
                self.joins.push(now.mono);
            }
            datagrams.push(datagram);
        }
        assert!(stream.is_empty() && self.tx.is_idle());
        datagrams
    }
}

/// A network on which every node receives all datagrams, its own included.
struct World {
    now: Duration,
    nodes: Vec<Option<Node>>,
    /// Datagrams on the way: time of arrival, source, bytes.
    air: Vec<(Duration, SocketAddr, Bytes)>,
    /// Loss: one datagram of this many is lost at each receiver; 0 for none.
    loss: u64,
    seed: u64,
}

impl World {
    fn new(loss: u64) -> Self {
        Self { now: START, nodes: Vec::new(), air: Vec::new(), loss, seed: 0x9e37_79b9_7f4a_7c15 }
    }

    fn enter(&mut self, config: &GroupConfig, at: SocketAddr) -> usize {
        self.nodes.push(Some(Node::new(config, at, Now::at(self.now))));
        self.settle();
        self.nodes.len() - 1
    }

    fn node(&mut self, n: usize) -> &mut Node {
        self.nodes[n].as_mut().unwrap()
    }

    fn put(&mut self, n: usize, number: usize, len: usize) {
        self.node(n).tx.push(&message(number, len), Reliability::Reliable).unwrap();
        self.settle();
    }

    fn settle(&mut self) {
        let now = Now::at(self.now);
        for node in self.nodes.iter_mut().flatten() {
            let from = node.at;
            self.air.extend(node.transmit(now).into_iter().map(|d| (self.now + DELAY, from, d)));
        }
    }

    fn lost(&mut self) -> bool {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.loss > 0 && self.seed.is_multiple_of(self.loss)
    }

    /// Runs for this time, from one event to the next.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            let timers = self
                .nodes
                .iter()
                .flatten()
                .flat_map(|n| [n.tx.poll_timeout(), n.rx.poll_timeout()])
                .flatten();
            let next = timers.chain(self.air.first().map(|flight| flight.0)).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let now = Now::at(self.now);
            let landed = self.air.iter().take_while(|flight| flight.0 <= self.now).count();
            for (_, from, datagram) in self.air.drain(..landed).collect::<Vec<_>>() {
                for n in 0..self.nodes.len() {
                    let lost = self.lost();
                    if let Some(node) = self.nodes[n].as_mut().filter(|node| !lost || node.at == from) {
                        node.hear(now, from, datagram.clone());
                    }
                }
            }
            for node in self.nodes.iter_mut().flatten() {
                node.tx.handle_timeout(now);
                node.rx.handle_timeout(now);
                node.events(now);
            }
            self.settle();
        }
        panic!("time stands still");
    }

    fn know_each_other(&self) -> bool {
        let present = self.nodes.iter().flatten().count();
        self.nodes.iter().flatten().all(|node| node.members.len() == present - 1)
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_newcomer_knows_everybody_within_a_moment() {
    let mut world = World::new(0);
    for n in 0..20 {
        world.enter(&config(n), addr(n));
        world.run(millis(300));
        assert!(world.know_each_other(), "{n}");
    }
    // All nodes start at once, and answer each other with few JOINs.
    let mut world = World::new(0);
    for n in 0..50 {
        world.enter(&config(n), addr(n));
    }
    world.run(millis(300));
    assert!(world.know_each_other());
    assert!(world.nodes.iter().flatten().all(|node| node.joins.len() <= 3));
}

#[test]
fn joins_come_in_their_interval_also_under_traffic() {
    let mut world = World::new(0);
    world.enter(&config(0), addr(0));
    for n in 0..100 {
        world.put(0, n, 10);
        world.run(millis(100));
    }
    let joins: Vec<_> = world.node(0).joins.iter().map(|at| (*at - START).as_millis()).collect();
    assert_eq!(joins, [0, 2500, 5000, 7500, 10_000]);
}

#[test]
fn what_is_sent_arrives_once_and_whole_at_everybody() {
    let mut world = World::new(0);
    for n in 0..5 {
        world.enter(&config(n), addr(n));
    }
    world.run(millis(500));
    for number in 0..200 {
        // From one datagram to thirteen.
        world.put(number % 5, number, (number * 499) % 100_000);
        world.run(millis(7));
    }
    for n in 0..5 {
        let heard: Vec<usize> = world.node(n).heard.iter().map(|(_, number)| *number).collect();
        assert_eq!(heard, (0..200).filter(|number| number % 5 != n).collect::<Vec<_>>());
        assert!(world.node(n).heard.iter().all(|(who, number)| *who == zid(number % 5)));
        assert_eq!(world.node(n).rx.reassembling(), 0);
    }
}

#[test]
fn a_latecomer_begins_with_what_comes() {
    let mut world = World::new(0);
    // Numbers of 7 bits: more messages than their whole range precede the new member.
    let narrow = |n| GroupConfig { resolution: Resolution(0), ..config(n) };
    world.enter(&narrow(0), addr(0));
    for number in 0..300 {
        world.put(0, number, 0);
    }
    world.run(millis(10));
    world.enter(&narrow(1), addr(1));
    world.run(millis(200));
    for number in 300..310 {
        world.put(0, number, 20_000);
        world.run(millis(10));
    }
    let heard: Vec<usize> = world.node(1).heard.iter().map(|(_, number)| *number).collect();
    assert_eq!(heard, (300..310).collect::<Vec<_>>());
}

/// The numbers in a JOIN are those of the messages sent after it, not of those queued after it.
#[test]
fn a_join_tells_what_follows_it() {
    for qos in [false, true] {
        let config = GroupConfig { qos, ..config(0) };
        let now = Now::at(START);
        let mut tx = config.sender(TxConfig::default(), now);
        for n in 0..3 {
            tx.push(&message(n, 20_000), Reliability::Reliable).unwrap();
            tx.push(&message(n, 10), Reliability::BestEffort).unwrap();
        }
        let mut other = Node::new(&super::tests::config(1), addr(1), now);
        let mut parts = Vec::new();
        tx.poll_transmit(now, &mut parts, usize::MAX);
        let mut stream = BytesMut::new();
        parts.iter().for_each(|part| stream.extend_from_slice(part));
        let framer = StreamFramer::new(&config.params());
        while let Some(datagram) = framer.next(&mut stream).unwrap() {
            other.hear(now, addr(0), datagram);
        }
        assert_eq!(other.heard.len(), 6, "qos {qos}");
    }
}

#[test]
fn who_is_silent_is_gone_after_its_lease_and_who_says_so_at_once() {
    let mut world = World::new(0);
    for n in 0..3 {
        world.enter(&config(n), addr(n));
    }
    world.run(millis(2600));
    world.nodes[2] = None;
    world.run(millis(9_700));
    assert_eq!(world.node(0).members.len(), 2);
    world.run(millis(400));
    assert_eq!(world.node(0).members.len(), 1, "lease of 10 s since the JOIN at 2.5 s");
    world.node(1).tx.close(CloseReason::GENERIC);
    world.settle();
    world.run(millis(2));
    assert_eq!(world.node(0).members.len(), 0);
    // A JOIN that was on its way does not restore the member; a later one does.
    world.nodes[1] = None;
    world.enter(&config(1), addr(1));
    world.run(millis(500));
    assert_eq!(world.node(0).members.len(), 0);
    world.run(millis(2500));
    assert!(world.know_each_other());
}

#[test]
fn a_node_that_moves_is_one_member() {
    let mut world = World::new(0);
    world.enter(&config(0), addr(0));
    world.enter(&config(1), addr(1));
    world.run(millis(1000));
    world.nodes[1] = None;
    world.enter(&config(1), addr(7));
    world.run(millis(100));
    assert_eq!(world.node(0).rx.members().map(|m| m.2).collect::<Vec<_>>(), [addr(1)], "may still be there");
    world.run(millis(5100));
    assert_eq!(world.node(0).rx.members().map(|m| m.2).collect::<Vec<_>>(), [addr(7)]);
    assert!(world.know_each_other());
}

#[test]
fn a_node_that_starts_again_at_its_address_is_heard() {
    let mut world = World::new(0);
    world.enter(&GroupConfig { initial_sn: 200_000_000, ..config(0) }, addr(0));
    world.enter(&config(1), addr(1));
    world.run(millis(500));
    world.put(0, 1, 10);
    world.run(millis(10));
    world.nodes[0] = None;
    let again = world.enter(&GroupConfig { initial_sn: 100_000_000, ..config(0) }, addr(0));
    world.run(millis(10));
    world.put(again, 2, 10);
    world.run(millis(10));
    assert_eq!(world.node(1).heard, [(zid(0), 1), (zid(0), 2)]);
}

fn join(n: usize) -> Join {
    config(n).join()
}

fn encode(message: &TransportMessage) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out);
    out.into()
}

#[test]
fn only_what_is_equal_is_accepted() {
    let mut node = Node::new(&config(0), addr(0), Now::at(START));
    let unfit = [
        Join { version: 8, ..join(1) },
        Join { size: Some((Resolution(0x09), 8192)), ..join(1) },
        Join { size: Some((Resolution(0x0a), 2048)), ..join(1) },
        Join { whatami: WhatAmI::Client, ..join(1) },
        Join { next_sn: NextSn { reliable: 1 << 28, best_effort: 0 }, ..join(1) },
    ];
    for join in &unfit {
        node.hear(Now::at(START), addr(1), encode(&TransportMessage::Join(join.clone())));
    }
    assert_eq!((node.members.len(), node.rx.stats().unfit), (0, 5));
    // `zenoh-wire` E59, E66.
    for (n, hex) in [
        "a70931a4a3a2a10a9e9fe01bc2f08c5b2701",
        "e70931a5a3a2a10a00200a0102d110010201020102010201020102010201022701",
    ]
    .iter()
    .enumerate()
    {
        node.hear(Now::at(START), addr(2 + n), unhex(hex));
    }
    assert_eq!(node.members.len(), 2);
    // Own datagrams, from any address.
    node.hear(Now::at(START), addr(0), encode(&TransportMessage::Join(join(0))));
    assert_eq!(node.members.len(), 2);
    // A member does not become another one, and no other node takes its id.
    node.hear(Now::at(START), addr(2), encode(&TransportMessage::Join(join(3))));
    let stolen = Join { zid: ZenohId::new(0xa1a2_a3a4).unwrap(), ..join(1) };
    node.hear(Now::at(START), addr(9), encode(&TransportMessage::Join(stolen)));
    assert_eq!((node.members.len(), node.rx.stats().contradictions), (2, 2));
}

#[test]
fn wrong_bytes_lose_their_datagram_only() {
    let mut world = World::new(0);
    world.enter(&config(0), addr(0));
    world.enter(&config(1), addr(1));
    world.run(millis(500));
    let now = Now::at(world.now);
    for wrong in [&b"\x1f\xff\xff"[..], b"\x07", b"\x07\x09\x31", b"\x25\xff\xff\xff\xff\x7f\x1d", b""] {
        world.node(0).hear(now, addr(1), Bytes::copy_from_slice(wrong));
        world.node(0).hear(now, addr(55), Bytes::copy_from_slice(wrong));
    }
    world.put(1, 1, 30_000);
    world.run(millis(10));
    assert_eq!(world.node(0).heard, [(zid(1), 1)]);
    assert!(world.node(0).rx.stats().undecodable >= 4);
}

/// Bytes of eclipse-zenoh 1.10.2, which asks no member of a group whether it reads shared memory.
#[test]
fn payloads_in_shared_memory_are_dropped_alone() {
    let mut node = Node::new(&config(0), addr(0), Now::at(START));
    node.hear(Now::at(START), addr(1), encode(&TransportMessage::Join(join(1))));
    let first = join(1).next_sn.reliable;
    let frame = |sn| {
        let head = Frame { reliability: Reliability::Reliable, sn, priority: Priority::Data };
        encode(&TransportMessage::Frame(head)).to_vec()
    };
    // A PUT of 100,000 bytes: PUSH on `/a`, Shm, one slice, a description of 8 bytes.
    let described = unhex("3d01022f61 8112 010108 a08d06 bbb301 00 00");
    let mut datagram = frame(first);
    message(1, 10).encode(&mut datagram);
    datagram.extend_from_slice(&described);
    message(2, 10).encode(&mut datagram);
    let mut out = Vec::new();
    let heard = node.rx.handle_datagram(Now::at(START), addr(1), datagram.into(), &mut out).unwrap();
    assert_eq!(heard.in_shared_memory, 1);
    assert_eq!(out.iter().map(|(message, _)| number(message)).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((node.rx.stats().undecodable, node.rx.stats().messages), (0, 2));
    // The same put together from fragments, and behind it another message.
    let fragment = |sn, more, data: &[u8]| {
        let (reliability, priority) = (Reliability::Reliable, Priority::Data);
        let head = Fragment { reliability, sn, priority, more, first: more, drop: false };
        [&encode(&TransportMessage::Fragment(head))[..], data].concat()
    };
    out.clear();
    for datagram in [fragment(first + 1, true, &described[..9]), fragment(first + 2, false, &described[9..])]
    {
        let heard = node.rx.handle_datagram(Now::at(START), addr(1), datagram.into(), &mut out).unwrap();
        assert!(heard.in_shared_memory <= 1 && out.is_empty());
    }
    let mut datagram = frame(first + 3);
    message(3, 10).encode(&mut datagram);
    let heard = node.rx.handle_datagram(Now::at(START), addr(1), datagram.into(), &mut out).unwrap();
    assert_eq!((heard.in_shared_memory, out.len()), (0, 1));
}

#[test]
fn a_flood_of_strangers_is_bounded() {
    let mut config = config(0);
    (config.max_members, config.reassembly_bytes) = (100, 1 << 20);
    let mut node = Node::new(&config, addr(0), Now::at(START));
    let mut joins = 0;
    for n in 1..20_000 {
        let now = Now::at(START + Duration::from_micros(50) * n as u32);
        let forever = Join { lease_ms: u64::MAX / 2, ..join(n) };
        node.hear(now, addr(n), encode(&TransportMessage::Join(forever)));
        // A fragment of a message that never ends.
        let mut fragment = vec![0x66, 0x00];
        fragment.extend(vec![0; 60_000]);
        node.hear(now, addr(n), fragment.into());
        node.tx.handle_timeout(now);
        joins += node.transmit(now).len();
        assert!(node.rx.reassembling() <= 1 << 20);
    }
    assert_eq!(node.members.len(), 100);
    assert!(joins <= 12, "{joins} in a second");
    // No unused place is kept.
    let later = Now::at(START + Duration::from_secs(65));
    assert!(node.rx.poll_timeout().is_some_and(|due| due <= later.mono));
    node.rx.handle_timeout(later);
    node.events(later);
    assert_eq!((node.members.len(), node.rx.reassembling(), node.rx.poll_timeout()), (0, 0, None));
}

#[test]
fn an_answer_waits_for_its_gap_and_no_longer() {
    let mut node = Node::new(&config(0), addr(0), Now::at(START));
    assert_eq!(node.transmit(Now::at(START)).len(), 1);
    node.hear(Now::at(START + millis(1)), addr(1), encode(&TransportMessage::Join(join(1))));
    assert_eq!(node.transmit(Now::at(START + millis(1))).len(), 0);
    let due = START + JOIN_GAP;
    assert_eq!(node.tx.poll_timeout(), Some(due));
    node.tx.handle_timeout(Now::at(due));
    assert_eq!(node.transmit(Now::at(due)).len(), 1);
    node.hear(
        Now::at(due + millis(200)),
        addr(1),
        encode(&TransportMessage::Close(Close { reason: CloseReason::GENERIC, session: false })),
    );
    node.tx.close(CloseReason::GENERIC);
    assert_eq!(node.transmit(Now::at(due + millis(200))).len(), 1, "CLOSE");
    assert_eq!(node.tx.poll_timeout(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Members that come and go, loss, messages of many sizes: each message arrives at most once, whole
    /// and in order; in the end every node knows all members.
    #[test]
    fn groups_with_loss_heal(
        loss in prop::sample::select(vec![0, 50, 10, 3]),
        steps in prop::collection::vec((0..12_u8, 0..8_usize, 0..60_000_usize, 1..900_u64), 1..60),
        qos in any::<bool>(),
        width in 0..3_u8,
    ) {
        let mut world = World::new(loss);
        let of = |n| GroupConfig { qos, resolution: Resolution::new(width, 2), ..config(n) };
        for n in 0..8 {
            world.enter(&of(n), addr(n));
        }
        let mut places: Vec<usize> = (0..8).collect();
        let mut sent = BTreeMap::new();
        for (number, (what, who, len, wait)) in steps.into_iter().enumerate() {
            match what {
                0 => { world.nodes[places[who]] = None; }
                1 => if let Some(node) = &mut world.nodes[places[who]] {
                    node.tx.close(CloseReason::GENERIC);
                    world.settle();
                    world.nodes[places[who]] = None;
                },
                2 => if world.nodes[places[who]].is_none() {
                    let fresh = GroupConfig { initial_sn: number as u32 * 1_234_567, ..of(who) };
                    places[who] = world.enter(&fresh, addr(who + 8 * number));
                },
                _ => if world.nodes[places[who]].is_some() {
                    sent.insert(number, zid(who));
                    world.put(places[who], number, len);
                },
            }
            world.run(millis(wait));
        }
        for node in world.nodes.iter().flatten() {
            let mut last = BTreeMap::new();
            for (who, number) in &node.heard {
                prop_assert_eq!(sent.get(number), Some(who));
                prop_assert!(last.insert(who, number).is_none_or(|before| before < number), "once and in order");
            }
        }
        world.loss = 0;
        world.run(Duration::from_secs(16));
        prop_assert!(world.know_each_other());
    }
}

/// Each new member costs the node a look at all others.
#[test]
fn members_beyond_those_of_a_burst_join_in_turns() {
    let config = config(0);
    let mut node = Node::new(&config, addr(0), Now::at(START));
    let mut joined = |at: Duration| {
        for n in 1..2000 {
            node.hear(Now::at(at), addr(n), encode(&TransportMessage::Join(join(n))));
        }
        node.events(Now::at(at));
        node.members.len()
    };
    let first = joined(START);
    assert!((128..=130).contains(&first), "{first}");
    assert_eq!(joined(START), first, "those that have joined are members");
    let second = Duration::from_secs(1);
    assert_eq!(joined(START + second), 2 * first);
    let last = (2..9).map(|n| joined(START + second * n)).last();
    assert_eq!(last, Some(config.max_members));
}
