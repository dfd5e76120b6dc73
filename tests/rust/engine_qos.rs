//! Delays between priorities on one link: a slow link, and droppable messages on a busy one.

use socket2::SockRef;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use zwire_engine::{Config, Handler, RecvError, Session, connectivity::LinkInfo};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos, Reliability,
    session::{Barrier, Publication},
    wire::{PushBody, Put},
};

const WAIT: Duration = Duration::from_secs(10);

/// Bytes per second of the slow link: 20 Mbit/s.
const RATE: u64 = 2_500_000;

fn never() -> impl FnMut() -> bool {
    || false
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn open(json: &str) -> Session {
    let json = format!("{{scouting: {{multicast: {{enabled: false}}}}, {json}}}");
    Session::open(&Config::from_json5(&json).unwrap(), &mut never()).unwrap()
}

fn hub() -> (Session, SocketAddr) {
    let hub = open("mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0']}");
    let address = hub.listening()[0].strip_prefix("tcp/").unwrap().parse().unwrap();
    (hub, address)
}

/// Its payloads cross the link, which shared memory would spare them.
fn client(address: SocketAddr) -> Session {
    let memory = "transport: {shared_memory: {enabled: false}}";
    open(&format!("mode: 'client', connect: {{endpoints: ['tcp/{address}']}}, {memory}"))
}

fn put(session: &Session, to: &str, qos: Qos, payload: Vec<u8>) {
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(Put::new(payload))) };
    session.put(publication, &mut never()).unwrap();
}

/// Forwards one connection, [`RATE`] bytes a second each way, with almost no buffer of its own. Ends
/// with its connection.
fn slow_link(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&listener).set_recv_buffer_size(16 * 1024).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        far.set_nodelay(true).unwrap();
        let (near2, far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || pass_on(far2, near2));
        pass_on(near, far);
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut part = [0; 4096];
    let mut due = Instant::now();
    while let Ok(n @ 1..) = from.read(&mut part) {
        // Unused rate is lost, except for two milliseconds.
        due = due.max(Instant::now() - Duration::from_millis(2));
        due += Duration::from_micros(n as u64 * 1_000_000 / RATE);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&part[..n]).is_err() {
            break;
        }
    }
}

#[test]
fn an_urgent_message_overtakes_a_bulk_transfer_on_a_slow_link() {
    let (hub, address) = hub();
    let (_, urgent) = hub.declare_subscriber(key("urgent"), Default::default(), Handler::Fifo(1000)).unwrap();
    let (_, _bulk) = hub.declare_subscriber(key("bulk"), Default::default(), Handler::Ring(1)).unwrap();
    let sender = client(slow_link(address));
    let stop = Arc::new(AtomicBool::new(false));
    let bulk = {
        let (sender, stop) = (sender.clone(), stop.clone());
        let qos = Qos::new(Priority::Background, CongestionControl::Block, false);
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                put(&sender, "bulk", qos, vec![0; 500_000]);
            }
        })
    };
    // The bulk transfer fills all buffers between the two.
    thread::sleep(Duration::from_secs(1));
    let mut delays = Vec::new();
    for _ in 0..40 {
        let start = Instant::now();
        put(&sender, "urgent", Qos::new(Priority::RealTime, CongestionControl::Block, true), vec![1]);
        urgent.recv(Some(WAIT), &mut never()).unwrap();
        delays.push(start.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    delays.sort_unstable();
    // A batch takes 26 ms here, unsent data in the kernel 7 ms, the relay itself up to 20 ms. The
    // buffers of the kernel alone would take more than a second.
    assert!(delays[20] < Duration::from_millis(75), "{delays:?}");
    assert!(delays[39] < Duration::from_millis(400), "{delays:?}");
    sender.close().unwrap();
    hub.close().unwrap();
    bulk.join().unwrap();
}

#[test]
fn droppable_messages_in_a_loop_are_not_dropped_where_somebody_reads() {
    const MESSAGES: usize = 100_000;
    let (hub, address) = hub();
    let handler = Handler::Fifo(MESSAGES);
    let (_, queue) = hub.declare_subscriber(key("a"), Default::default(), handler).unwrap();
    // A lane of 64 KiB is full every few hundred messages; a reader on a busy machine may sleep for a while.
    let sender = open(&format!(
        "mode: 'client', connect: {{endpoints: ['tcp/{address}']}}, zwire: {{queue: {{bytes_per_priority: 65536}}}},
         transport: {{link: {{tx: {{queue: {{congestion_control: {{drop: {{wait_before_drop: 1000000}}}}}}}}}}}}"
    ));
    // In batches: message by message this thread is no faster than the readers.
    let mut left = MESSAGES;
    let fill = |to: &mut Option<KeyExpr>, qos: &mut Qos, body: &mut PushBody| {
        *to = (left > 0).then(|| key("a"));
        left = left.saturating_sub(1);
        (*qos, *body) = (Qos::DEFAULT, PushBody::Put(Put::new(&[7; 64][..])));
    };
    sender.put_many(fill, |_| (), &mut never()).unwrap();
    for n in 0..MESSAGES {
        let sample = queue.recv(Some(WAIT), &mut never());
        assert!(sample.is_ok(), "{n} of {MESSAGES} arrived: {sample:?}");
    }
    assert_eq!(queue.recv(Some(Duration::ZERO), &mut never()), Err(RecvError::Timeout));
}

#[test]
fn one_who_has_stopped_reading_costs_a_droppable_message_one_wait() {
    let (hub, address) = hub();
    let (_, queue) = hub.declare_subscriber(key("a"), Default::default(), Handler::Ring(1)).unwrap();
    // The client subscribes and its socket is never read: its window fills, then its lane.
    let stalled = client(slow_link(address));
    let (_, _held) = stalled.declare_subscriber(key("a"), Default::default(), Handler::Ring(1)).unwrap();
    stalled.barrier(Barrier::Declarations, Some(WAIT), &mut never()).unwrap();
    let start = Instant::now();
    for _ in 0..2_000 {
        put(&hub, "a", Qos::DEFAULT, vec![0; 60_000]);
    }
    // 120 MB at 20 Mbit/s take 48 s; waiting a millisecond for each message would take 2 s.
    let took = start.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    queue.recv(Some(WAIT), &mut never()).unwrap();
}

/// As in Eclipse Zenoh, the metadata of a listener does not restrict connecting peers.
#[test]
fn a_link_is_for_what_its_endpoint_says() {
    let hub = open("mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0?prio=5-6']}");
    let address = hub.listening()[0].strip_prefix("tcp/").unwrap().split('?').next().unwrap().to_owned();
    let endpoints = [
        ("", (Priority::Control, Priority::Background), Reliability::Reliable),
        ("?prio=2-4;rel=1", (Priority::InteractiveHigh, Priority::DataHigh), Reliability::Reliable),
        ("?prio=5;rel=0", (Priority::Data, Priority::Data), Reliability::BestEffort),
    ];
    for (metadata, priorities, reliability) in endpoints {
        let client = open(&format!("mode: 'client', connect: {{endpoints: ['tcp/{address}{metadata}']}}"));
        client.barrier(Barrier::Declarations, Some(WAIT), &mut never()).unwrap();
        for session in [&client, &hub] {
            let links: Vec<_> = session.links().iter().map(|link| LinkInfo::of(link)).collect();
            let said: Vec<_> = links.iter().map(|link| (link.priorities, link.reliability)).collect();
            assert_eq!(said, [(Some(priorities), reliability)], "{metadata}");
        }
        client.close().unwrap();
        let end = Instant::now() + WAIT;
        while !hub.links().is_empty() {
            assert!(Instant::now() < end, "the hub never noticed that the client is gone");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
