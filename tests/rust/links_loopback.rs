//! Sessions of ours over each kind of link, and what is wrong with endpoints.

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

const WAIT: Duration = Duration::from_secs(10);

fn never() -> impl FnMut() -> bool {
    || false
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn try_open(json: &str) -> Result<Session, Error> {
    Session::open(&Config::from_json5(json).unwrap(), &mut never())
}

/// Settings of every session here.
const QUIET: &str = "scouting: {multicast: {enabled: false}}";

fn hub(endpoint: &str, extra: &str) -> Session {
    let listen = format!("listen: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'router', {listen}, {QUIET}, {extra}}}")).unwrap()
}

fn try_client(endpoint: &str, extra: &str) -> Result<Session, Error> {
    let connect = format!("connect: {{endpoints: ['{endpoint}']}}");
    try_open(&format!("{{mode: 'client', {connect}, {QUIET}, {extra}}}"))
}

fn client(endpoint: &str, extra: &str) -> Session {
    try_client(endpoint, extra).unwrap()
}

fn put(session: &Session, to: &str, payload: Vec<u8>) {
    let qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    let publication = Publication { qos, ..Publication::new(key(to), PushBody::Put(Put::new(payload))) };
    session.put(publication, &mut never()).unwrap();
}

fn next(queue: &Queue<Sample>) -> Sample {
    queue.recv(Some(WAIT), &mut never()).unwrap()
}

/// Until the hub has the declarations of everybody: a put of a probe comes through.
fn settled(publisher: &Session, queue: &Queue<Sample>, to: &str) {
    let end = Instant::now() + WAIT;
    loop {
        put(publisher, to, b"probe".to_vec());
        match queue.recv(Some(Duration::from_millis(50)), &mut never()) {
            Ok(_) => break,
            Err(RecvError::Timeout) => assert!(Instant::now() < end, "the subscription never took effect"),
            Err(other) => panic!("{other:?}"),
        }
    }
    // What is still on its way.
    while queue.recv(Some(Duration::from_millis(50)), &mut never()).is_ok() {}
}

/// Small, large and fragmented messages from client to client: each arrives once, in order.
fn carries_everything(endpoint: &str, listener: &str, connector: &str) {
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

#[test]
fn tcp_carries_everything() {
    carries_everything("tcp/127.0.0.1:0", "", "");
}

/// A directory of the test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zwire-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn endpoint(scratch: &Scratch) -> (PathBuf, String) {
        let path = scratch.0.join("node");
        let endpoint = format!("unixsock-stream/{}", path.display());
        (path, endpoint)
    }

    fn listen(endpoint: &str) -> Result<Session, Error> {
        try_open(&format!("{{mode: 'router', listen: {{endpoints: ['{endpoint}']}}, {QUIET}}}"))
    }

    #[test]
    fn unix_sockets_carry_everything() {
        let scratch = Scratch::new("unix-carry");
        carries_everything(&endpoint(&scratch).1, "", "");
    }

    #[test]
    fn a_closed_session_leaves_no_file() {
        let scratch = Scratch::new("unix-close");
        let (path, endpoint) = endpoint(&scratch);
        let hub = listen(&endpoint).unwrap();
        assert_eq!(hub.listening()[0], endpoint);
        assert!(path.exists());
        let error = listen(&endpoint).err().expect("one listener at a time").to_string();
        assert!(error.contains("another process listens there"), "{error}");
        assert!(path.exists(), "the loser removes nothing");
        hub.close().unwrap();
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
        listen(&endpoint).unwrap();
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced() {
        let scratch = Scratch::new("unix-stale");
        let (path, endpoint) = endpoint(&scratch);
        // As after SIGKILL: socket and lock file are there, nobody holds them.
        drop(UnixListener::bind(&path).unwrap());
        fs::write(scratch.0.join("node.lock"), b"").unwrap();
        let hub = listen(&endpoint).unwrap();
        client(&hub.listening()[0], "");
    }

    #[test]
    fn what_is_not_ours_stays() {
        let scratch = Scratch::new("unix-foreign");
        let (path, endpoint) = endpoint(&scratch);
        fs::write(&path, b"precious").unwrap();
        let error = listen(&endpoint).err().expect("a file is no socket").to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let _server = UnixListener::bind(&path).unwrap();
        let error = listen(&endpoint).err().expect("somebody else listens").to_string();
        assert!(error.contains("something listens there"), "{error}");
        assert!(path.exists());
    }
}
