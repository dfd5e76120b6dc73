//! Sessions of zwire over each kind of link, and errors of endpoints.

mod links;

use links::{
    QUIET, Scratch, WAIT, carries_everything, client, hub, key, next, put, settled, try_client, try_open,
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};
use zwire_engine::{ConnectReason, Error, Handler, Session};
use zwire_proto::zenoh::link::{AuthFailure, HandshakeError};

#[test]
fn tcp_carries_everything() {
    carries_everything("tcp/127.0.0.1:0", "", "");
}

#[test]
fn websockets_carry_everything() {
    carries_everything("ws/127.0.0.1:0", "", "");
}

/// Endpoints of all kinds that need no certificates.
fn endpoints(scratch: &Scratch) -> Vec<String> {
    let mut all = vec!["tcp/127.0.0.1:0".to_owned(), "ws/127.0.0.1:0".to_owned()];
    if cfg!(unix) {
        all.push(format!("unixsock-stream/{}", scratch.0.join("node").display()));
    }
    all
}

/// Compression and passwords work on each kind of link.
#[test]
fn each_link_compresses_and_asks_for_passwords() {
    let scratch = Scratch::new("links-options");
    let users = scratch.0.join("users");
    fs::write(&users, "robot:hunter2\n").unwrap();
    let dictionary = format!("auth: {{usrpwd: {{dictionary_file: '{}'}}}}", users.display());
    let password = |word: &str| format!("auth: {{usrpwd: {{user: 'robot', password: '{word}'}}}}");
    let compression = "unicast: {compression: {enabled: true}}";
    let listener = format!("transport: {{{compression}, {dictionary}}}");
    let connector = |word: &str| format!("transport: {{{compression}, {}}}", password(word));
    for endpoint in endpoints(&scratch) {
        carries_everything(&endpoint, &listener, &connector("hunter2"));
        let hub = hub(&endpoint, &listener);
        let endpoint = &hub.listening()[0];
        let friend = client(endpoint, &connector("hunter2"));
        let link = &friend.links()[0];
        assert!(link.params.compression && link.params.qos, "{endpoint}");
        for (extra, failure) in [
            (connector("wrong"), AuthFailure::Refused),
            (format!("transport: {{{compression}}}"), AuthFailure::MaybeDemanded),
        ] {
            let start = Instant::now();
            match try_client(endpoint, &extra).err() {
                Some(Error::Connect { reason: ConnectReason::Handshake(error), .. }) => {
                    assert_eq!(error, HandshakeError::Auth(failure), "{endpoint}");
                }
                other => panic!("{endpoint}: {other:?}"),
            }
            assert!(start.elapsed() < Duration::from_secs(2), "{endpoint}");
        }
    }
}

#[test]
fn low_latency_carries_what_fits_and_counts_the_rest() {
    let scratch = Scratch::new("links-low-latency");
    let low =
        "transport: {unicast: {lowlatency: true, qos: {enabled: false}}, shared_memory: {enabled: false}}";
    for endpoint in endpoints(&scratch) {
        let hub = hub(&endpoint, low);
        let endpoint = &hub.listening()[0];
        let (a, b) = (client(endpoint, low), client(endpoint, low));
        let (_, queue) = b.declare_subscriber(key("low/**"), Default::default(), Handler::Default).unwrap();
        settled(&a, &queue, "low/probe");
        assert!(a.links()[0].params.low_latency, "{endpoint}");
        for i in 0..500usize {
            put(&a, "low/data", vec![i.to_le_bytes()[0]; i * 120]);
        }
        put(&a, "low/large", vec![0; 100_000]);
        put(&a, "low/end", Vec::new());
        for i in 0..500usize {
            assert!(next(&queue).payload[..] == vec![i.to_le_bytes()[0]; i * 120], "{endpoint}: message {i}");
        }
        assert_eq!(next(&queue).key.as_str(), "low/end", "{endpoint}");
        assert_eq!(a.stats()["link.tx_dropped"], 1, "{endpoint}");
        // A client without low latency gets an ordinary link.
        let usual = client(endpoint, "transport: {unicast: {qos: {enabled: false}}}");
        assert!(!usual.links()[0].params.low_latency, "{endpoint}");
    }
}

#[test]
fn a_protocol_that_is_not_spoken_there_is_recognised() {
    let (plain, ws) = (hub("tcp/127.0.0.1:0", ""), hub("ws/127.0.0.1:0", ""));
    let start = Instant::now();
    let swapped = |hub: &Session, from: &str, to: &str| {
        let endpoint = hub.listening()[0].replace(from, to);
        try_client(&endpoint, "").err().expect("another protocol").to_string()
    };
    let error = swapped(&plain, "tcp/", "ws/");
    assert!(error.contains("WebSocket"), "{error}");
    let error = swapped(&ws, "ws/", "tcp/");
    assert!(error.contains("another protocol"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_listener_waits_for_its_port_as_long_as_it_may() {
    let first = hub("tcp/127.0.0.1:0", "");
    let endpoint = first.listening()[0].clone();
    let rules = |rules: &str| {
        let listen = format!("listen: {{endpoints: ['{endpoint}'], retry: {{period_init_ms: 20}}, {rules}}}");
        try_open(&format!("{{mode: 'router', {listen}, {QUIET}}}"))
    };
    let start = Instant::now();
    let error = rules("timeout_ms: 100").err().expect("the port is taken").to_string();
    assert!(error.contains(&format!("could not listen on {endpoint}: Address already in use")), "{error}");
    assert!(start.elapsed() >= Duration::from_millis(100));
    let patient = rules("timeout_ms: -1, exit_on_failure: false").unwrap();
    assert!(patient.listening().is_empty());
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        first.close().unwrap();
    });
    let end = Instant::now() + WAIT;
    while patient.listening() != [endpoint.clone()] {
        assert!(Instant::now() < end, "it never listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    closing.join().unwrap();
    client(&endpoint, "");
}

/// The frames of RFC 6455 by hand.
#[test]
fn pings_are_answered_and_texts_end_the_link() {
    let hub = hub("ws/127.0.0.1:0", "");
    let endpoint = hub.listening()[0].clone();
    let mut stream = TcpStream::connect(endpoint.strip_prefix("ws/").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    // RFC 6455, 1.3: the answer to that key.
    assert!(String::from_utf8(answer).unwrap().contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    // A ping with "hi" under a mask of zeros, and its pong.
    stream.write_all(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i']).unwrap();
    let mut pong = [0; 4];
    stream.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, &[0x8a, 0x02, b'h', b'i']);
    stream.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    client(&endpoint, "");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::{os::unix::net::UnixListener, path::PathBuf};

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
        // As after SIGKILL: socket and lock file exist, without an owner.
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
        let error = listen(&endpoint).err().expect("another listener holds the path").to_string();
        assert!(error.contains("something listens there"), "{error}");
        assert!(path.exists());
    }
}
