//! Messages per second between two sessions of one process over loopback TCP, without Python.
//!
//! `cargo bench -p zwire-engine --bench engine [-- FILTER]`. One line per case: what a message costs
//! the publishing thread, and how many arrive per second. Both ends share the machine's cores, so the
//! rate is a lower bound of what two machines do.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use zwire_engine::{Config, Handler, Queue, Session};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos,
    session::{PublisherOptions, Sample},
    wire::{PushBody, Put},
};

fn open(json: &str) -> Session {
    Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap()
}

fn pair() -> (Session, Session) {
    let quiet = "scouting: {multicast: {enabled: false}}";
    let a = open(&format!("{{mode: 'peer', listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {quiet}}}"));
    let endpoint = &a.listening()[0];
    let b = open(&format!(
        "{{mode: 'peer', listen: {{endpoints: []}}, connect: {{endpoints: ['{endpoint}']}}, {quiet}}}"
    ));
    (a, b)
}

/// Counts what arrives until `total`, by batches.
fn count(queue: Arc<Queue<Sample>>, total: usize) -> std::thread::JoinHandle<Instant> {
    std::thread::spawn(move || {
        let (mut got, mut samples) = (0, Vec::new());
        while got < total {
            queue.wait_readable(Some(Duration::from_secs(20)), &mut || false).unwrap();
            got += queue.drain_into(&mut samples, 65_536);
            samples.clear();
        }
        Instant::now()
    })
}

#[allow(clippy::print_stdout, reason = "the table is the result")]
fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let smoke = std::env::args().any(|arg| arg == "--test" || arg == "--smoke");
    for (name, size, total) in [
        ("many-8", 8, 3_000_000),
        ("many-64", 64, 3_000_000),
        ("many-1k", 1 << 10, 1_000_000),
        ("single-8", 8, 1_000_000),
        ("single-64", 64, 1_000_000),
        ("single-64k", 1 << 16, 30_000),
        ("single-1m", 1 << 20, 2_000),
    ] {
        if !name.contains(&filter) {
            continue;
        }
        let total: usize = if smoke { 1_000 } else { total };
        let (a, b) = pair();
        let key = KeyExpr::new("bench/engine").unwrap();
        let (_, queue) = a.declare_subscriber(key.clone(), Default::default(), Handler::Default).unwrap();
        let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
        let options = PublisherOptions { qos, ..PublisherOptions::default() };
        let publisher = b.declare_publisher(key.clone(), options).unwrap();
        while !b.matching(publisher).unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let payload = bytes::Bytes::from(vec![7; size]);
        let end = count(queue, total);
        let start = Instant::now();
        if name.starts_with("many") {
            let mut left = 0..total;
            let fill = |to: &mut Option<KeyExpr>, filled: &mut Qos, body: &mut PushBody| {
                if left.next().is_none() {
                    return *to = None;
                }
                to.get_or_insert_with(|| key.clone());
                *filled = qos;
                *body = PushBody::Put(Put::new(payload.clone()));
            };
            b.put_many(fill, |_| {}, &mut || false).unwrap();
        } else {
            for _ in 0..total {
                let body = PushBody::Put(Put::new(payload.clone()));
                b.publish(publisher, qos, body, None, &mut || false).unwrap();
            }
        }
        let sent = start.elapsed();
        let received = end.join().unwrap() - start;
        let per = |d: Duration| d.as_nanos() as usize / total;
        println!(
            "{name:<12} publish {:>8} ns, arrive {:>8} ns each, {:>9.0}/s, {:>7.1} MB/s",
            per(sent),
            per(received),
            total as f64 / received.as_secs_f64(),
            (total * size) as f64 / received.as_secs_f64() / 1e6,
        );
    }
}
