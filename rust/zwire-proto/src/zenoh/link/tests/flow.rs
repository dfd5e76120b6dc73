//! Sender against receiver: every pushed message comes out, in order on each channel.

use super::*;
use crate::zenoh::{
    link::{Progress, StreamFramer},
    wire::Resolution,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Setup {
    batch_size: u16,
    width: u8,
    qos: bool,
    compression: bool,
    low_latency: bool,
    streamed: bool,
    patch: u8,
}

fn setup() -> impl Strategy<Value = Setup> {
    let batch_size = prop_oneof![Just(64), 65..200_u16, 200..4000_u16, Just(49_152), Just(65_535)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (batch_size, 0..4_u8, flags, 0..2_u8).prop_map(
        |(batch_size, width, (qos, compression, low_latency, streamed), patch)| Setup {
            batch_size,
            width,
            qos,
            compression,
            low_latency: low_latency && !qos,
            streamed,
            patch,
        },
    )
}

impl Setup {
    fn params(&self) -> (LinkParams, LinkParams) {
        let (mut tx, mut rx) = both_params(|c| {
            c.batch_size = self.batch_size;
            c.resolution = Resolution::new(self.width, 2);
            (c.qos, c.compression) = (self.qos, self.compression);
            (c.low_latency, c.streamed) = (self.low_latency, self.streamed);
        });
        (tx.patch, rx.patch) = (self.patch, self.patch);
        (tx, rx)
    }

    /// Messages of one lane and reliability stay in order.
    fn channel(&self, message: &NetworkMessage, reliability: Reliability) -> (u8, u8) {
        if self.low_latency {
            return (0, 0);
        }
        let priority = if self.qos { message.qos().priority() as u8 } else { 0 };
        (priority, reliability as u8)
    }
}

#[derive(Clone, Debug)]
enum Action {
    Push { priority: Priority, reliable: bool, len: usize },
    Transmit { max: usize },
    Idle,
}

fn action() -> impl Strategy<Value = Action> {
    let len = prop_oneof![
        8 => 0..40_usize,
        4 => 0..3000_usize,
        2 => 3000..70_000_usize,
        1 => 70_000..300_000_usize
    ];
    let push = (0..8_u8, any::<bool>(), len).prop_map(|(p, reliable, len)| Action::Push {
        priority: Priority::from_bits(p),
        reliable,
        len,
    });
    prop_oneof![
        6 => push,
        2 => (0..100_000_usize).prop_map(|max| Action::Transmit { max }),
        1 => Just(Action::Idle)
    ]
}

/// A payload that contains its number, to check the order, and that is half compressible.
fn payload(number: u32, len: usize) -> Vec<u8> {
    let mut out = number.to_le_bytes().to_vec();
    let mut state = number | 1;
    out.extend((0..len).map(|n| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if n % 64 < 32 { 0 } else { (state >> 24) as u8 }
    }));
    out
}

struct Wire {
    setup: Setup,
    tx: LinkTx,
    rx: LinkRx,
    framer: StreamFramer,
    buf: BytesMut,
    now: Now,
    received: Received,
}

impl Wire {
    fn new(setup: &Setup) -> Self {
        let (tx, rx) = setup.params();
        Self {
            setup: setup.clone(),
            framer: StreamFramer::new(&rx),
            tx: LinkTx::new(&tx, UNBOUNDED, START),
            rx: LinkRx::new(&rx, RxConfig::default(), START),
            buf: BytesMut::new(),
            now: START,
            received: Vec::new(),
        }
    }

    /// Hands over a batch, read in portions as large as the previous output; the last one is not full.
    fn take(&mut self, batch: Bytes) {
        let full = 1 + self.received.len() % 3;
        self.rx.begin_batch(self.now, batch).unwrap();
        let mut portion = Received::new();
        while self.rx.read_batch(&mut portion, full).unwrap() == Progress::More {
            assert_eq!(portion.len(), full);
            self.received.append(&mut portion);
        }
        assert!(self.setup.low_latency || portion.len() <= full);
        self.received.append(&mut portion);
        assert_eq!(self.rx.read_batch(&mut portion, full), Ok(Progress::Done));
        assert!(portion.is_empty(), "a batch is read once");
    }

    /// Returns `false` if there was nothing to transmit.
    fn transmit(&mut self, max: usize) -> bool {
        let mut parts = Vec::new();
        let len = self.tx.poll_transmit(self.now, &mut parts, max);
        assert!(parts.iter().all(|part| !part.is_empty()));
        assert_eq!(len, parts.iter().map(Bytes::len).sum::<usize>());
        // One batch at least; in low latency one buffer of them.
        let one =
            if self.setup.low_latency { 2 * 65_536 + 8 } else { usize::from(self.setup.batch_size) + 2 };
        assert!(len <= max.max(one));
        parts.iter().for_each(|part| self.buf.extend_from_slice(part));
        drop(parts);
        while let Some(batch) = self.framer.next(&mut self.buf).unwrap() {
            self.take(batch);
        }
        assert!(self.buf.is_empty(), "whole batches only");
        len > 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_pushed_comes_out_in_order(setup in setup(), actions in prop::collection::vec(action(), 1..80)) {
        let mut wire = Wire::new(&setup);
        let mut sent = Received::new();
        for (number, action) in (0..).zip(actions) {
            match action {
                Action::Push { priority, reliable, len } => {
                    // A fragment of 64 bytes costs as much as one of 64 KiB.
                    let len = if setup.batch_size < 1000 { len / 32 } else { len };
                    let message = put_at(priority, payload(number, len));
                    let reliability =
                        if reliable { Reliability::Reliable } else { Reliability::BestEffort };
                    match wire.tx.push(&message, reliability) {
                        Ok(()) => sent.push((message, reliability)),
                        Err(error) => {
                            prop_assert!(setup.low_latency, "{error}");
                            prop_assert!(len + 20 > usize::from(setup.batch_size));
                        }
                    }
                }
                Action::Transmit { max } => { wire.transmit(max); }
                Action::Idle => {
                    wire.now = Now::at(wire.now.mono + Duration::from_secs(3));
                    wire.tx.handle_timeout(wire.now);
                }
            }
        }
        while wire.transmit(100_000) {}
        prop_assert!(wire.tx.is_idle());
        prop_assert_eq!(wire.tx.queued_total(), 0);
        // A KEEP_ALIVE says that buffers for the next messages are not needed.
        wire.now = Now::at(wire.now.mono + Duration::from_secs(3));
        wire.tx.handle_timeout(wire.now);
        while wire.transmit(100_000) {}
        prop_assert_eq!(wire.rx.reassembling(), 0);
        prop_assert_eq!(sent.len(), wire.received.len());
        for channel in (0..8).flat_map(|priority| [(priority, 0), (priority, 1)]) {
            let of = |all: &Received| -> Vec<NetworkMessage> {
                let on = all.iter().filter(|(m, r)| setup.channel(m, *r) == channel);
                on.map(|(m, _)| m.clone()).collect()
            };
            prop_assert!(of(&sent) == of(&wire.received), "channel {:?}", channel);
        }
        let stats = wire.rx.stats();
        prop_assert_eq!(
            (stats.old_frames, stats.old_fragments, stats.stray_fragments, stats.torn, stats.undecodable),
            (0, 0, 0, 0, 0)
        );
        prop_assert_eq!(stats.messages, wire.tx.stats().messages);
        prop_assert_eq!(stats.batches, if setup.low_latency { stats.batches } else { wire.tx.stats().batches });
    }

    /// A datagram link that loses batches loses messages, and has no other damage. Without marks it
    /// could not tell the rest of a torn message from the next one.
    #[test]
    fn what_survives_loss_is_whole_and_in_order(
        setup in setup(),
        lens in prop::collection::vec(0..4000_usize, 1..60),
        losses in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        // A window that wraps during heavy loss takes old numbers for new ones.
        let batch_size = setup.batch_size.max(200);
        let setup =
            Setup { width: 2, batch_size, streamed: false, low_latency: false, patch: 1, ..setup };
        let (tx_params, rx_params) = setup.params();
        let mut tx = LinkTx::new(&tx_params, UNBOUNDED, START);
        let mut rx = LinkRx::new(&rx_params, RxConfig::default(), START);
        let count = lens.len();
        for (number, len) in (0..).zip(lens) {
            tx.push(&put("t", payload(number, len)), Reliability::BestEffort).unwrap();
        }
        let mut out = Vec::new();
        let mut losses = losses.into_iter().cycle();
        let mut parts = Vec::new();
        while tx.poll_transmit(START, &mut parts, 0) > 0 {
            let datagram = concat(&parts).freeze().slice(2..);
            parts.clear();
            if !losses.next().unwrap_or(false) {
                rx.handle_batch(START, datagram, &mut out).unwrap();
            }
        }
        let mut last = None;
        for (message, _) in &out {
            let NetworkMessage::Push(Push { body: PushBody::Put(Put { payload: got, .. }), .. }) = message else {
                panic!("not what was sent")
            };
            let number = u32::from_le_bytes(got[..4].try_into().unwrap());
            prop_assert!(got == &payload(number, got.len() - 4));
            prop_assert!(last < Some(number), "order");
            last = Some(number);
        }
        prop_assert!(out.len() <= count);
        prop_assert!(rx.reassembling() <= 8 << 20);
    }

    /// Half a stream with a flipped bit gives an error or fewer messages, never a panic.
    #[test]
    fn damage_never_panics(setup in setup(), at in 0..10_000_usize, bit in 0..8_u32) {
        let (tx_params, rx_params) = setup.params();
        let mut tx = LinkTx::new(&tx_params, UNBOUNDED, START);
        let mut rx = LinkRx::new(&rx_params, RxConfig::default(), START);
        for len in [0, 10, 30, 200, 3000] {
            // Low latency accepts only messages that fit a batch.
            let _ = tx.push(&put_at(Priority::DataHigh, payload(1, len)), Reliability::Reliable);
        }
        let mut stream = drain(&mut tx);
        let at = at % stream.len();
        stream[at] ^= 1 << bit;
        let framer = StreamFramer::new(&rx_params);
        let mut out = Vec::new();
        while let Ok(Some(batch)) = framer.next(&mut stream) {
            if rx.handle_batch(START, batch, &mut out).is_err() {
                break;
            }
        }
        prop_assert!(out.len() < 4000);
    }
}
