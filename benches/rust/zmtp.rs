//! ZMTP frames through the machines of one connection: encode, decode, and both under CURVE.
//!
//! `cargo bench -p zwire-proto --bench zmtp` prints rates; elements are messages.

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use zwire_proto::{
    Now,
    zmtp::{
        crypto::{KeyPair, SecretKey},
        link::{
            CurveClient, CurveServer, Handshake, HandshakeStep, Message, Security, ZmtpHandshakeConfig,
            ZmtpLinkParams, ZmtpRx, ZmtpRxConfig, ZmtpTx, ZmtpTxConfig,
        },
        wire::SocketType,
    },
};

const MESSAGES: usize = 1000;
const SIZES: [usize; 2] = [64, 8 * 1024];

/// Both ends of a connection after the handshake.
fn connected(client: Security, server: Security) -> (ZmtpLinkParams, ZmtpLinkParams) {
    let config =
        |socket_type, security| ZmtpHandshakeConfig { security, ..ZmtpHandshakeConfig::new(socket_type) };
    let mut ends = [
        (Handshake::new(config(SocketType::Dealer, client)), BytesMut::new(), None),
        (Handshake::new(config(SocketType::Router, server)), BytesMut::new(), None),
    ];
    for turn in 0..20 {
        let (mine, other) = (turn % 2, 1 - turn % 2);
        while let Some(bytes) = ends[mine].0.poll_transmit() {
            ends[other].1.extend_from_slice(&bytes);
        }
        let (machine, buf, params) = &mut ends[other];
        if params.is_none()
            && let HandshakeStep::Done(done) = machine.handle_bytes(buf).expect("the handshake goes through")
        {
            *params = Some(*done);
        }
    }
    let [(.., client), (.., server)] = ends;
    (client.expect("the client is done"), server.expect("the server is done"))
}

fn null() -> (ZmtpLinkParams, ZmtpLinkParams) {
    connected(Security::Null { authenticate: false }, Security::Null { authenticate: false })
}

fn curve() -> (ZmtpLinkParams, ZmtpLinkParams) {
    let keys = |first: u8| KeyPair::of(SecretKey::new(core::array::from_fn(|i| first + i as u8)));
    let (client, server) = (keys(0x40), keys(0x20));
    let client = CurveClient::new(client, server.public, &[7; 48]);
    connected(
        Security::CurveClient(Box::new(client)),
        Security::CurveServer(Box::new(CurveServer::new(server, false, &[9; 96]))),
    )
}

fn sender(params: &ZmtpLinkParams) -> ZmtpTx {
    let config = ZmtpTxConfig { max_messages: MESSAGES, max_bytes: usize::MAX, ..ZmtpTxConfig::default() };
    ZmtpTx::new(params, config, Now::default())
}

fn encode(tx: &mut ZmtpTx, body: &Bytes) -> Vec<Bytes> {
    for _ in 0..MESSAGES {
        tx.push(Message::single(body.clone())).expect("there is room");
    }
    let mut parts = Vec::new();
    while tx.poll_transmit(&mut parts, 256 * 1024) > 0 {}
    parts
}

fn frames(c: &mut Criterion) {
    for (name, (dealer, router)) in [("NULL", null()), ("CURVE", curve())] {
        let mut group = c.benchmark_group(format!("zmtp {name}"));
        for size in SIZES {
            let body = Bytes::from(vec![7; size]);
            group.throughput(Throughput::Elements(MESSAGES as u64));
            group.bench_function(format!("encode {size} B"), |b| {
                let mut tx = sender(&dealer);
                b.iter(|| black_box(encode(&mut tx, &body)));
            });
            let wire = encode(&mut sender(&dealer), &body).concat();
            group.bench_function(format!("decode {size} B"), |b| {
                // A receiver of CURVE takes each box once.
                let fresh = || {
                    let rx = ZmtpRx::new(&router, ZmtpRxConfig::default(), Now::default());
                    (rx, BytesMut::from(&wire[..]), Vec::with_capacity(MESSAGES))
                };
                let read = |(mut rx, mut buf, mut out): (ZmtpRx, BytesMut, Vec<_>)| {
                    rx.read(Now::default(), &mut buf, &mut out, MESSAGES).expect("it decodes");
                    assert_eq!(out.len(), MESSAGES);
                    out
                };
                b.iter_batched(fresh, read, BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
