//! Helpers shared by the tests of links.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(unused_imports, reason = "each test uses its part")]

mod authority;
mod slow;

pub(crate) use authority::Authority;
pub(crate) use slow::slow_path;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};
use zwire_engine::{Config, Error, Handler, Queue, RecvError, Session};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos,
    session::{Publication, Sample},
    wire::{PushBody, Put},
};

pub(crate) const WAIT: Duration = Duration::from_secs(10);

pub(crate) fn never() -> impl FnMut() -> bool {
    || false
}

pub(crate) fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

pub(crate) fn try_open(json: &str) -> Result<Session, Error> {
    Session::open(&Config::from_json5(json).unwrap(), &mut never())
}

/// Settings of every session here.
pub(crate) const QUIET: &str = "scouting: {multicast: {enabled: false}}";

pub(crate) fn hub(endpoint: &str, extra: &str) -> Session {
    let listen = format!("listen: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'router', {listen}, {QUIET}, {extra}}}")).unwrap()
}

pub(crate) fn try_client(endpoint: &str, extra: &str) -> Result<Session, Error> {
    let connect = format!("connect: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'client', {connect}, {QUIET}, {extra}}}"))
}

pub(crate) fn client(endpoint: &str, extra: &str) -> Session {
    try_client(endpoint, extra).unwrap()
}

pub(crate) fn put(session: &Session, to: &str, payload: Vec<u8>) {
    let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(Put::new(payload))) };
    session.put(publication, &mut never()).unwrap();
}

pub(crate) fn next(queue: &Queue<Sample>) -> Sample {
    queue.recv(Some(WAIT), &mut never()).unwrap()
}

/// Polls until `condition` holds; fails the test after ten seconds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the hub has all declarations: a put of a probe arrives.
pub(crate) fn settled(publisher: &Session, queue: &Queue<Sample>, to: &str) {
    let end = Instant::now() + WAIT;
    loop {
        put(publisher, to, b"probe".to_vec());
        match queue.recv(Some(Duration::from_millis(50)), &mut never()) {
            Ok(_) => break,
            Err(RecvError::Timeout) => assert!(Instant::now() < end, "the subscription never took effect"),
            Err(other) => panic!("{other:?}"),
        }
    }
    // Earlier samples may still be on their way; behind this one there are none.
    put(publisher, to, b"last".to_vec());
    while next(queue).payload[..] != b"last"[..] {}
}

/// Small, large and fragmented messages from client to client: each arrives once, in order.
pub(crate) fn carries_everything(endpoint: &str, listener: &str, connector: &str) {
    let hub = hub(endpoint, listener);
    let endpoint = &hub.listening()[0];
    let (a, b) = (client(endpoint, connector), client(endpoint, connector));
    let (_, queue) = b.declare_subscriber(key("links/**"), Default::default(), Handler::Default).unwrap();
    settled(&a, &queue, "links/probe");
    let payload = |i: usize| -> Vec<u8> {
        let len = match i % 100 {
            98 => 100_000,
            99 => 1_000_000,
            other => other,
        };
        (0..len).map(|n: usize| (n * (i + 1)).to_le_bytes()[1]).collect()
    };
    let producer = std::thread::spawn(move || {
        (0..1000).for_each(|i| put(&a, "links/data", payload(i)));
        a
    });
    for i in 0..1000 {
        assert!(next(&queue).payload[..] == payload(i)[..], "message {i}");
    }
    producer.join().unwrap();
    for session in [&hub, &b] {
        let links = session.links();
        assert!(!links.is_empty());
        let protocol = endpoint.split('/').next().unwrap();
        for link in links {
            for end in [&link.local, &link.peer] {
                assert!(end.starts_with(&format!("{protocol}/")), "{end}");
            }
        }
    }
}

/// A directory of the test, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zwire-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The result does not matter.
        let _ = fs::remove_dir_all(&self.0);
    }
}
