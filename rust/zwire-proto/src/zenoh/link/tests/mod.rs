//! Both ends of a link against each other, and against the tables of `zenoh-wire`.

mod flow;
mod handshake;
mod malformed;
mod sending;
mod slices;

use super::{
    Acceptor, HandshakeConfig, HandshakeError, LinkError, LinkParams, LinkRx, LinkTx, Opener, RxConfig, Step,
    TxConfig,
};
use crate::{
    Now,
    zenoh::{
        CongestionControl, Priority, Qos, Reliability, WhatAmI, ZenohId,
        wire::{CloseReason, NetworkMessage, Push, PushBody, Put, WireExpr, testing::unhex as hex},
    },
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;

/// The time at which links come up.
const START: Now = Now::at(Duration::from_secs(1000));

const UNBOUNDED: TxConfig = TxConfig { bytes_per_priority: usize::MAX, keep_alive: 4 };

/// The nodes of the examples.
fn client() -> ZenohId {
    ZenohId::new(0xb1b2_b3b4_b5b6_b7b8).unwrap()
}
fn router() -> ZenohId {
    ZenohId::new(0xa1a2_a3a4).unwrap()
}

fn opener_config() -> HandshakeConfig {
    HandshakeConfig { batch_size: 65_480, ..HandshakeConfig::new(client(), WhatAmI::Client) }
}
fn acceptor_config() -> HandshakeConfig {
    HandshakeConfig { batch_size: 49_152, ..HandshakeConfig::new(router(), WhatAmI::Router) }
}

/// Runs both machines until there is a session; returns the result of each side.
fn shake_hands(
    opener: HandshakeConfig,
    acceptor: HandshakeConfig,
) -> Result<(LinkParams, LinkParams), HandshakeError> {
    let mut opener = Opener::new(opener);
    let mut acceptor = Acceptor::new(acceptor, Bytes::from_static(b"a cookie"));
    let mut accepted = None;
    for _ in 0..4 {
        while let Some(batch) = opener.poll_transmit() {
            match acceptor.handle_batch(batch)? {
                Step::Continue => {}
                Step::Admit(_) => accepted = Some(acceptor.admit()?),
                Step::Done(_) => panic!("only openers are done"),
            }
        }
        while let Some(batch) = acceptor.poll_transmit() {
            if let Step::Done(params) = opener.handle_batch(batch)? {
                return Ok((params, accepted.expect("the acceptor was first")));
            }
        }
    }
    panic!("no end of the handshake");
}

/// Parameters of the opener's side of a default session with these changes.
fn params(change: impl Fn(&mut HandshakeConfig)) -> LinkParams {
    both_params(change).0
}

fn both_params(change: impl Fn(&mut HandshakeConfig)) -> (LinkParams, LinkParams) {
    let (mut opener, mut acceptor) = (opener_config(), acceptor_config());
    change(&mut opener);
    change(&mut acceptor);
    shake_hands(opener, acceptor).unwrap()
}

/// A sender and the receiver at the other end.
fn link(change: impl Fn(&mut HandshakeConfig)) -> (LinkTx, LinkRx) {
    let (opener, acceptor) = both_params(change);
    let tx = LinkTx::new(&opener, UNBOUNDED, START);
    (tx, LinkRx::new(&acceptor, RxConfig::default(), START))
}

fn put(key: &str, payload: impl Into<Bytes>) -> NetworkMessage {
    NetworkMessage::Push(Push::new(WireExpr::full(key), PushBody::Put(Put::new(payload))))
}

fn put_at(priority: Priority, payload: impl Into<Bytes>) -> NetworkMessage {
    let mut push = Push::new(WireExpr::full("t/x"), PushBody::Put(Put::new(payload)));
    push.qos = Qos::new(priority, CongestionControl::Block, false);
    NetworkMessage::Push(push)
}

/// All pending output of a sender, in one piece.
fn drain(tx: &mut LinkTx) -> BytesMut {
    let mut out = Vec::new();
    while tx.poll_transmit(START, &mut out, 100_000) > 0 {}
    concat(&out)
}

fn concat(parts: &[Bytes]) -> BytesMut {
    let mut stream = BytesMut::new();
    parts.iter().for_each(|part| stream.extend_from_slice(part));
    stream
}

type Received = Vec<(NetworkMessage, Reliability)>;

/// Hands over one batch without prefix.
fn receive(rx: &mut LinkRx, batch: &[u8]) -> (Result<Option<CloseReason>, LinkError>, Received) {
    let mut out = Vec::new();
    let result = rx.handle_batch(START, Bytes::copy_from_slice(batch), &mut out);
    (result, out)
}
