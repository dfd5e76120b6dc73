//! Both ends of a connection against each other, and against the bytes of `zmtp`.

#[cfg(feature = "curve")]
mod curve;
mod handshake;
mod lending;
mod malformed;
mod traffic;

use super::{
    AuthRequest, Denial, Handshake, HandshakeStep, Inbound, Message, PlainCredentials, Security, Version,
    ZmtpHandshakeConfig, ZmtpHandshakeError, ZmtpLinkParams, ZmtpRx, ZmtpRxConfig, ZmtpTx, ZmtpTxConfig,
};
use crate::{
    Now,
    zmtp::wire::{Metadata, SocketType},
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;

/// The time at which connections come up.
const START: Now = Now::at(Duration::from_secs(1000));

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn named(socket_type: SocketType, identity: &'static str) -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig::new(socket_type).with_identity(identity).unwrap()
}

fn plain_client(config: ZmtpHandshakeConfig) -> ZmtpHandshakeConfig {
    let credentials = PlainCredentials { username: bytes("admin"), password: bytes("secret") };
    ZmtpHandshakeConfig { security: Security::PlainClient(credentials), ..config }
}

fn plain_server(config: ZmtpHandshakeConfig) -> ZmtpHandshakeConfig {
    ZmtpHandshakeConfig { security: Security::PlainServer, ..config }
}

type Verdict = Result<(Bytes, Metadata), Denial>;
type End = Result<Box<ZmtpLinkParams>, ZmtpHandshakeError>;

/// Accepts every peer.
fn anybody(_: &AuthRequest) -> Verdict {
    Ok((bytes("somebody"), Metadata::default()))
}

/// End of a handshake under test.
struct Side {
    machine: Handshake,
    buf: BytesMut,
    end: Option<End>,
    said: Vec<u8>,
}

impl Side {
    fn new(config: ZmtpHandshakeConfig) -> Self {
        Self { machine: Handshake::new(config), buf: BytesMut::new(), end: None, said: Vec::new() }
    }

    /// Output since the last call.
    fn says(&mut self) -> Bytes {
        let mut all = BytesMut::new();
        while let Some(part) = self.machine.poll_transmit() {
            all.extend_from_slice(&part);
        }
        self.said.extend_from_slice(&all);
        all.freeze()
    }

    fn hears(&mut self, bytes: &[u8], judge: &mut dyn FnMut(&AuthRequest) -> Verdict) {
        self.buf.extend_from_slice(bytes);
        while self.end.is_none() {
            let mut step = self.machine.handle_bytes(&mut self.buf);
            let judged = matches!(step, Ok(HandshakeStep::Authenticate(_)));
            if let Ok(HandshakeStep::Authenticate(request)) = &step {
                step = match judge(request) {
                    Ok((user, metadata)) => self.machine.allow(user, metadata),
                    Err(denial) => Err(self.machine.deny(denial)),
                };
            }
            match step {
                Ok(HandshakeStep::Continue) if judged => {}
                Ok(HandshakeStep::Continue) => return,
                Ok(HandshakeStep::Authenticate(_)) => panic!("one question is enough"),
                Ok(HandshakeStep::Done(params)) => self.end = Some(Ok(params)),
                Err(error) => self.end = Some(Err(error)),
            }
        }
    }
}

/// Runs both machines until neither has output; each gets at most `chunk` bytes at a time.
fn meet(
    one: ZmtpHandshakeConfig,
    other: ZmtpHandshakeConfig,
    chunk: usize,
    judge: &mut dyn FnMut(&AuthRequest) -> Verdict,
) -> [Side; 2] {
    let mut sides = [Side::new(one), Side::new(other)];
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let said = sides[from].says();
            said.chunks(chunk).for_each(|part| sides[to].hears(part, judge));
        }
    }
    sides
}

fn params(config: ZmtpHandshakeConfig, peer: ZmtpHandshakeConfig) -> Box<ZmtpLinkParams> {
    let [one, _] = meet(config, peer, usize::MAX, &mut anybody);
    one.end.expect("the handshake ends").unwrap()
}

/// A sender of one socket and the receiver at the other end.
fn link(from: ZmtpHandshakeConfig, to: ZmtpHandshakeConfig) -> (ZmtpTx, ZmtpRx) {
    let [one, other] = meet(from, to, usize::MAX, &mut anybody);
    let (one, other) = (one.end.unwrap().unwrap(), other.end.unwrap().unwrap());
    (ZmtpTx::new(&one, ZmtpTxConfig::default(), START), ZmtpRx::new(&other, ZmtpRxConfig::default(), START))
}

/// All pending output of a sender.
fn drain(tx: &mut ZmtpTx) -> Bytes {
    let mut out = Vec::new();
    while tx.poll_transmit(&mut out, 100_000) > 0 {}
    out.concat().into()
}

fn receive(rx: &mut ZmtpRx, stream: &[u8]) -> Vec<Inbound> {
    let mut out = Vec::new();
    let mut buf = BytesMut::from(stream);
    while rx.read(START, &mut buf, &mut out, usize::MAX).unwrap() {}
    assert!(buf.is_empty(), "{buf:?} is left");
    out
}

fn message(frames: &[&'static str]) -> Message {
    Message::of(frames.iter().map(|frame| bytes(frame)).collect()).unwrap()
}
