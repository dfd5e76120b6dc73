//! Forms of links over QUIC: a stream for each priority, datagrams beside streams, datagrams alone.

mod links;

use bytes::{Bytes, BytesMut};
use links::{
    Authority, WAIT, carries_everything, client, eventually, hub, key, never, next, put, settled, slow_path,
    try_client,
};
use quinn::{
    Connection, Endpoint, RecvStream, SendStream, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use std::{
    net::Ipv4Addr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, time::timeout};
use zwire_engine::{Handler, Queue, Session};
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, Priority, Qos, Reliability, WhatAmI, ZenohId,
        link::{Acceptor, HandshakeConfig, LinkParams, LinkTx, Step, StreamFramer, TxConfig, frame_batch},
        session::{Publication, Sample},
        wire::{NetworkMessage, Push, PushBody, Put, WireExpr},
    },
};

/// A node scripted by a test, with the codec of zwire and its own handling of streams.
struct Node {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    tx: LinkTx,
}

/// Endpoint at which such nodes accept connections that offer `protocol`.
fn endpoint(ca: &Authority, protocol: &str) -> Endpoint {
    let chain = CertificateDer::pem_file_iter(ca.path("node.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(ca.path("node.key")).unwrap();
    let mut tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap()
}

/// Configuration of a client that connects to a listener of zwire without being a session of zwire.
fn anybody(ca: &Authority) -> quinn::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca.path("ca.pem")).unwrap()).unwrap();
    let mut tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"zenoh-ms".to_vec()];
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

async fn batch(receive: &mut RecvStream) -> Bytes {
    let mut len = [0; 2];
    receive.read_exact(&mut len).await.unwrap();
    let mut batch = vec![0; u16::from_le_bytes(len).into()];
    receive.read_exact(&mut batch).await.unwrap();
    batch.into()
}

impl Node {
    async fn accept(endpoint: &Endpoint) -> Self {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (mut send, mut receive) = connection.accept_bi().await.unwrap();
        let zid = ZenohId::new(0x00c0_ffee).unwrap();
        // It sends no keep-alives.
        let lease = Duration::from_secs(3600);
        let config = HandshakeConfig { lease, ..HandshakeConfig::new(zid, WhatAmI::Router) };
        let mut acceptor = Acceptor::new(config, Bytes::from_static(b"cookie"));
        let params: LinkParams = loop {
            let admitted = match acceptor.handle_batch(batch(&mut receive).await).unwrap() {
                Step::Admit(_) => Some(acceptor.admit().unwrap()),
                _ => None,
            };
            while let Some(batch) = acceptor.poll_transmit() {
                send.write_all(&frame_batch(&batch)).await.unwrap();
            }
            if let Some(params) = admitted {
                break params;
            }
        };
        let tx = LinkTx::new(&params, TxConfig::default(), Now::at(Duration::from_secs(1)));
        Self { connection, send, receive, tx }
    }

    /// The stream that carries `priority`, once it has.
    async fn stream(&self, priority: Priority) -> RecvStream {
        for _ in 0..Priority::COUNT {
            let stream = self.connection.accept_uni().await.unwrap();
            if stream.id().index() + 1 == priority as u64 {
                return stream;
            }
        }
        panic!("no stream of {priority:?}");
    }

    /// The batches of a message, behind their prefixes.
    fn batches(&mut self, message: &NetworkMessage, reliability: Reliability) -> BytesMut {
        self.tx.push(message, reliability).unwrap();
        let mut parts = Vec::new();
        while self.tx.poll_transmit(Now::at(Duration::from_secs(1)), &mut parts, usize::MAX) > 0 {}
        parts.iter().fold(BytesMut::new(), |mut all, part| {
            all.extend_from_slice(part);
            all
        })
    }
}

fn message(priority: Priority, payload: Vec<u8>) -> NetworkMessage {
    let mut push = Push::new(WireExpr::full("t/x"), PushBody::Put(Put::new(payload)));
    push.qos = Qos::new(priority, CongestionControl::Block, false);
    NetworkMessage::Push(push)
}

fn put_at(session: &Session, to: &str, priority: Priority, payload: Vec<u8>) {
    let qos = Qos::new(priority, CongestionControl::Block, false);
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(Put::new(payload))) };
    session.put(publication, &mut never()).unwrap();
}

fn put_best_effort(session: &Session, to: &str, payload: Vec<u8>) {
    let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    let publication = Publication {
        qos,
        reliability: Reliability::BestEffort,
        ..Publication::new(key(to), PushBody::Put(Put::new(payload)))
    };
    session.put(publication, &mut never()).unwrap();
}

/// A client of zwire and a scripted node at its other end.
fn met(runtime: &Runtime, ca: &Authority, protocol: &str, options: &str, extra: &str) -> (Session, Node) {
    ca.issue("node", |_| ());
    let _guard = runtime.enter();
    let endpoint = endpoint(ca, protocol);
    let at = format!("quic/127.0.0.1:{}{options}", endpoint.local_addr().unwrap().port());
    let node = runtime.spawn(async move { Node::accept(&endpoint).await });
    let root = ca.path("ca.pem");
    let tls = format!("tls: {{root_ca_certificate: '{root}'}}");
    let session = client(&at, &format!("transport: {{link: {{{tls}, {extra}}}}}"));
    let node = runtime.block_on(async { timeout(WAIT, node).await.unwrap().unwrap() });
    (session, node)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Reads whole batches until one is accepted.
async fn until(stream: &mut RecvStream, mut found: impl FnMut(&[u8]) -> bool) {
    let end = async { while !found(&batch(stream).await) {} };
    timeout(WAIT, end).await.expect("it comes");
}

#[test]
fn who_does_not_read_one_priority_keeps_no_other_waiting() {
    let (runtime, ca) = (runtime(), Authority::new("quic-stuck"));
    let tx = "tx: {lease: 800, queue: {congestion_control: {block: {wait_before_close: 60000000}}}}";
    let (session, mut node) = met(&runtime, &ca, "zenoh-ms", "", tx);
    // The other side does not read: after some megabytes its stream is blocked.
    let link = session.links()[0].clone();
    let dropped = || link.stats.tx_dropped[Priority::Data as usize].load(Ordering::Relaxed);
    let end = Instant::now() + WAIT;
    while dropped() < 10 {
        assert!(Instant::now() < end, "the lane of the bulk is never full");
        let body = PushBody::Put(Put::new(vec![0; 100_000]));
        session.put(Publication::new(key("bulk"), body), &mut never()).unwrap();
    }
    runtime.block_on(async {
        put_at(&session, "urgent", Priority::RealTime, b"now!".to_vec());
        let mut urgent = node.stream(Priority::RealTime).await;
        until(&mut urgent, |batch| batch.ends_with(b"now!")).await;
        // The live stream carries KEEP_ALIVE, and no other messages.
        until(&mut node.receive, |batch| *batch == [0x04]).await;
        put_at(&session, "urgent", Priority::RealTime, b"again".to_vec());
        until(&mut urgent, |batch| batch.ends_with(b"again")).await;
        // Now the other side reads, and all streams continue.
        let mut stream = node.stream(Priority::Data).await;
        let reader = tokio::spawn(async move { until(&mut stream, |batch| batch.ends_with(b"last")).await });
        put_at(&session, "bulk", Priority::Data, b"last".to_vec());
        reader.await.unwrap();
    });
    session.close().unwrap();
}

#[test]
fn batches_are_put_together_on_each_stream() {
    let (runtime, ca) = (runtime(), Authority::new("quic-pieces"));
    let (session, mut node) = met(&runtime, &ca, "zenoh-ms", "?multistream=1", "");
    let (_, queue) = session.declare_subscriber(key("t/x"), Default::default(), Handler::Default).unwrap();
    let urgent = node.batches(&message(Priority::RealTime, b"urgent".to_vec()), Reliability::Reliable);
    let large = node.batches(&message(Priority::Background, vec![7; 200_000]), Reliability::Reliable);
    let last = node.batches(&message(Priority::Data, b"last".to_vec()), Reliability::Reliable);
    runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 1..Priority::COUNT {
            streams.push(node.connection.open_uni().await.unwrap());
        }
        // One stream is in the middle of a batch while the others continue, in the smallest possible
        // pieces.
        let (head, tail) = large.split_at(100_000);
        streams[Priority::Background as usize - 1].write_all(head).await.unwrap();
        for byte in &urgent[..] {
            streams[Priority::RealTime as usize - 1].write_all(&[*byte]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(next(&queue).payload[..], b"urgent"[..]);
        // On a single stream priorities do not matter.
        node.send.write_all(&last).await.unwrap();
        assert_eq!(next(&queue).payload[..], b"last"[..]);
        streams[Priority::Background as usize - 1].write_all(tail).await.unwrap();
        assert_eq!(next(&queue).payload[..], vec![7; 200_000][..]);
        // The end of one stream does not end the link, but a peer that resets one has left.
        streams[0].finish().unwrap();
        let still = node.batches(&message(Priority::Data, b"still".to_vec()), Reliability::Reliable);
        node.send.write_all(&still).await.unwrap();
        assert_eq!(next(&queue).payload[..], b"still"[..]);
    });
    let link = session.links()[0].clone();
    assert!(!link.is_closed());
    node.send.reset(VarInt::from_u32(7)).unwrap();
    eventually("the link ends", || link.is_closed());
}

#[test]
fn what_is_best_effort_goes_as_datagrams() {
    let (runtime, ca) = (runtime(), Authority::new("quic-mixed"));
    let (session, mut node) = met(&runtime, &ca, "zenoh-mr", "?mixed_rel=1", "tx: {lease: 800}");
    let (_, queue) = session.declare_subscriber(key("t/x"), Default::default(), Handler::Default).unwrap();
    let link = session.links()[0].clone();
    put_best_effort(&session, "best/effort", b"perhaps".to_vec());
    put_best_effort(&session, "best/effort", vec![1; 10_000]);
    runtime.block_on(async {
        let (mut found, mut alive, mut fragments) = (false, false, 0);
        while !(found && alive && fragments == 9) {
            let datagram = timeout(WAIT, node.connection.read_datagram()).await.expect("it comes").unwrap();
            assert!(datagram.len() <= 1150, "{}", datagram.len());
            found |= datagram.ends_with(b"perhaps");
            alive |= datagram[..] == [0x04];
            fragments += usize::from(datagram[0] & 0x1f == 0x06);
        }
        until(&mut node.receive, |batch| *batch == [0x04]).await;
        // One datagram is lost, one comes twice, one is nonsense of a kind that is skipped.
        let mut framer = node.batches(&message(Priority::Data, b"first".to_vec()), Reliability::BestEffort);
        let first = StreamFramer::handshake().next(&mut framer).unwrap().unwrap();
        drop(node.batches(&message(Priority::Data, b"lost".to_vec()), Reliability::BestEffort));
        let mut framer = node.batches(&message(Priority::Data, b"third".to_vec()), Reliability::BestEffort);
        let third = StreamFramer::handshake().next(&mut framer).unwrap().unwrap();
        for datagram in [&first, &third, &third, &Bytes::new(), &first] {
            node.connection.send_datagram(datagram.clone()).unwrap();
        }
        assert_eq!(next(&queue).payload[..], b"first"[..]);
        assert_eq!(next(&queue).payload[..], b"third"[..]);
        let sure = node.batches(&message(Priority::Data, b"sure".to_vec()), Reliability::Reliable);
        node.send.write_all(&sure).await.unwrap();
        assert_eq!(next(&queue).payload[..], b"sure"[..]);
        // A datagram that does not decode ends the link.
        node.connection.send_datagram(Bytes::from_static(&[0xff; 100])).unwrap();
    });
    eventually("the link ends", || link.is_closed());
}

#[test]
fn every_shape_carries_everything() {
    let ca = Authority::new("quic-shapes");
    ca.issue("node", |_| ());
    for options in ["?multistream=0", "?mixed_rel=1;multistream=0"] {
        carries_everything(
            &format!("quic/localhost:0{options}"),
            &ca.listener("node", ""),
            &ca.connector(""),
        );
    }
}

/// QUIC without encryption: no certificates, and observers can read the messages.
#[test]
fn reliable_udp_carries_everything() {
    for options in ["?rel=1;multistream=0", "?rel=1;mixed_rel=1"] {
        carries_everything(&format!("udp/127.0.0.1:0{options}"), "", "");
    }
    let hub = hub("udp/127.0.0.1:0?rel=1", "");
    let address = hub.listening()[0].strip_prefix("udp/").unwrap().split('?').next().unwrap().to_owned();
    assert!(client(&hub.listening()[0], "").links()[0].is_reliable());
    // Clients without these options get no session, and do not block those with them.
    let start = Instant::now();
    let open = "transport: {unicast: {open_timeout: 500}}";
    for endpoint in [format!("udp/{address}"), format!("udp/{address}?rel=1;multistream=0;mixed_rel=1")] {
        try_client(&endpoint, open).err().expect(&endpoint);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    client(&hub.listening()[0], "").close().unwrap();
    eventually("no link is left", || hub.links().is_empty());
}

#[test]
fn datagrams_alone_are_a_link() {
    let ca = Authority::new("quic-rel0");
    ca.issue("node", |_| ());
    let hub = hub("quic/localhost:0?rel=0", &ca.listener("node", ""));
    let client = client(&hub.listening()[0], &ca.connector(""));
    assert!(!client.links()[0].is_reliable());
    let (_, queue) = hub.declare_subscriber(key("links/**"), Default::default(), Handler::Default).unwrap();
    settled(&client, &queue, "links/probe");
    // Less than the buffers hold, so that on a loopback nothing is lost.
    for len in [0, 1000, 10_000, 100_000] {
        put(&client, "links/data", vec![7; len]);
        assert_eq!(next(&queue).payload[..], vec![7; len][..]);
    }
    client.close().unwrap();
    eventually("CLOSE is a datagram like others", || hub.links().is_empty());
}

#[test]
fn shapes_that_do_not_fit_are_refused_in_time() {
    let ca = Authority::new("quic-misfits");
    ca.issue("node", |_| ());
    for (listener, connector, words) in [
        ("?multistream=0", "?multistream=1", "multistream"),
        ("?multistream=1", "?multistream=0", "multistream"),
        ("", "?mixed_rel=1", "mixed_rel"),
        ("?mixed_rel=1", "", "mixed_rel"),
        ("?rel=0", "", "no streams"),
        ("", "?rel=0", "no datagrams"),
        ("?multistream=1", "?rel=0", "rel"),
    ] {
        let hub = hub(&format!("quic/localhost:0{listener}"), &ca.listener("node", ""));
        let at = hub.listening()[0].split('?').next().unwrap().to_owned();
        let start = Instant::now();
        let error = try_client(&format!("{at}{connector}"), &ca.connector("")).err().expect(connector);
        assert!(start.elapsed() < Duration::from_secs(3), "{listener} {connector}: {:?}", start.elapsed());
        let error = error.to_string();
        assert!(error.contains(words), "{listener} {connector}: {error}");
        eventually("no link is left", || hub.links().is_empty());
        // The listener still accepts clients with matching options.
        client(&format!("{at}{listener}"), &ca.connector(""));
    }
}

/// A client without a completed handshake cannot occupy megabytes, on any number of streams, and is
/// closed in time.
#[test]
fn strangers_send_little_ahead() {
    let (runtime, ca) = (runtime(), Authority::new("quic-strangers"));
    ca.issue("node", |_| ());
    let tls = ca.listener("node", "");
    let hub = hub(
        "quic/127.0.0.1:0",
        &tls.replacen("transport: {", "transport: {unicast: {accept_timeout: 1000}, ", 1),
    );
    let address = hub.listening()[0].strip_prefix("quic/").unwrap().parse().unwrap();
    runtime.block_on(async {
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        endpoint.set_default_client_config(anybody(&ca));
        let connection = endpoint.connect(address, "localhost").unwrap().await.unwrap();
        let (mut first, _) = connection.open_bi().await.unwrap();
        first.write_all(&[200]).await.unwrap();
        let mut taken = 0;
        for _ in 1..Priority::COUNT {
            let mut stream = connection.open_uni().await.unwrap();
            let fill = async {
                while let Ok(n) = stream.write(&[0; 10_000]).await {
                    taken += n;
                    assert!(taken < 1 << 20, "{taken}");
                }
            };
            // Blocks once the receiver accepts no more.
            let _ = timeout(Duration::from_millis(50), fill).await;
        }
        timeout(WAIT, connection.closed()).await.expect("it is closed after a second");
    });
    client(&hub.listening()[0], &ca.connector(""));
}

/// CLOSE and data leave on different streams. Half of the data is on its way over a slow network when
/// the session closes.
#[test]
fn closing_loses_nothing_on_any_stream() {
    const EACH: usize = 20;
    let ca = Authority::new("quic-closing");
    ca.issue("node", |_| ());
    let hub = hub("quic/127.0.0.1:0", &ca.listener("node", ""));
    let address = hub.listening()[0].strip_prefix("quic/").unwrap().parse().unwrap();
    let sender = client(&format!("quic/{}", slow_path(address)), &ca.connector(""));
    let queues: Vec<Arc<Queue<Sample>>> = Priority::ALL[1..]
        .iter()
        .map(|priority| {
            let key = key(&format!("p/{}", *priority as u8));
            hub.declare_subscriber(key, Default::default(), Handler::Default).unwrap().1
        })
        .collect();
    for _ in 0..EACH {
        for priority in &Priority::ALL[1..] {
            put_at(&sender, &format!("p/{}", *priority as u8), *priority, vec![1; 5000]);
        }
    }
    sender.close_within(2 * WAIT, &mut never()).unwrap();
    for queue in queues {
        (0..EACH).for_each(|_| drop(next(&queue)));
    }
}
