//! TLS and QUIC: sessions of zwire, and errors for certificates, names or protocols that do not match.

mod links;

use links::{
    Authority, QUIET, WAIT, carries_everything, client, eventually, hub, key, never, next, put, settled,
    slow_path, try_client, try_open,
};
use rcgen::{CertificateParams, date_time_ymd};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use zwire_engine::{ConnectReason, Error, Handler, Session, TlsFailure};
use zwire_proto::zenoh::{
    CongestionControl, Priority, Qos,
    session::Publication,
    wire::{PushBody, Put},
};

const EXPIRED: fn(&mut CertificateParams) = |params| {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
};

fn reason(session: Result<Session, Error>) -> ConnectReason {
    match session.err().expect("a refusal") {
        Error::Connect { reason, .. } | Error::Bind { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

fn failure(session: Result<Session, Error>) -> TlsFailure {
    match reason(session) {
        ConnectReason::Tls(failure) => failure,
        other => panic!("{other}"),
    }
}

#[test]
fn tls_and_quic_carry_everything() {
    for protocol in ["tls", "quic"] {
        carries(protocol);
    }
}

fn carries(protocol: &str) {
    let at = |address: &str| format!("{protocol}/{address}");
    let ca = Authority::new(&format!("tls-carry-{protocol}"));
    ca.issue("node", |_| ());
    carries_everything(&at("localhost:0"), &ca.listener("node", ""), &ca.connector(""));
}

#[test]
fn both_sides_show_certificates() {
    for protocol in ["tls", "quic"] {
        mutual(protocol);
    }
}

/// Bytes that the small socket buffer does not accept stay with the connection and are sent later.
#[test]
fn tls_through_a_narrow_socket_carries_everything() {
    let ca = Authority::new("tls-narrow");
    ca.issue("node", |_| ());
    let narrow = "so_sndbuf: 2048, so_rcvbuf: 2048";
    carries_everything("tls/localhost:0", &ca.listener("node", narrow), &ca.connector(narrow));
}

fn mutual(protocol: &str) {
    let at = |address: &str| format!("{protocol}/{address}");
    let ca = Authority::new(&format!("tls-mutual-{protocol}"));
    ca.issue("node", |_| ());
    ca.issue("robot", |_| ());
    let listener = ca.listener("node", "enable_mtls: true");
    let connector = ca.connector(&ca.shows("robot"));
    carries_everything(&at("127.0.0.1:0"), &listener, &connector);
    let hub = hub(&at("127.0.0.1:0"), &listener);
    let client = client(&hub.listening()[0], &connector);
    assert_eq!(client.links()[0].auth_identifier(), Some("node"));
    eventually("the hub knows its client", || !hub.links().is_empty());
    assert_eq!(hub.links()[0].auth_identifier(), Some("robot"));
}

#[test]
fn an_endpoint_has_settings_of_its_own() {
    let ca = Authority::new("tls-endpoint");
    ca.issue("n", |_| ());
    let (chain, key, root) = (ca.path("n.pem"), ca.path("n.key"), ca.path("ca.pem"));
    let hub =
        hub(&format!("tls/localhost:0#listen_certificate_file={chain};listen_private_key_file={key}"), "");
    client(&format!("{}#root_ca_certificate_file={root}", hub.listening()[0]), "");
    let raw = fs::read_to_string(&root).unwrap();
    let base64 = data_encoding::BASE64.encode(raw.as_bytes());
    let tls = format!("transport: {{link: {{tls: {{root_ca_certificate_base64: '{base64}'}}}}}}");
    client(&hub.listening()[0], &tls);
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    for protocol in ["tls", "quic"] {
        wrong_certificates(protocol);
    }
}

fn wrong_certificates(protocol: &str) {
    let at = |address: &str| format!("{protocol}/{address}");
    let ca = Authority::new(&format!("tls-wrong-{protocol}"));
    ca.issue("node", |_| ());
    ca.issue("old", EXPIRED);
    ca.issue("other", |params| {
        *params = CertificateParams::new(vec!["elsewhere".to_owned()]).unwrap();
    });
    let stranger = Authority::new(&format!("tls-stranger-{protocol}"));
    let expired = hub(&at("localhost:0"), &ca.listener("old", ""));
    assert_eq!(failure(try_client(&expired.listening()[0], &ca.connector(""))), TlsFailure::Expired);
    let node = hub(&at("localhost:0"), &ca.listener("node", ""));
    let unknown = failure(try_client(&node.listening()[0], &stranger.connector("")));
    assert_eq!(unknown, TlsFailure::UnknownAuthority);
    let other = hub(&at("localhost:0"), &ca.listener("other", ""));
    let endpoint = &other.listening()[0];
    let TlsFailure::Name { expected, presented } = failure(try_client(endpoint, &ca.connector(""))) else {
        panic!("another failure");
    };
    assert!(expected == "localhost" && presented.contains("elsewhere"), "{expected} {presented}");
    // The name is irrelevant if it is not verified; authority and time still matter.
    client(endpoint, &ca.connector("verify_name_on_connect: false"));
    let anybody = "verify_name_on_connect: false";
    assert_eq!(failure(try_client(&expired.listening()[0], &ca.connector(anybody))), TlsFailure::Expired);
    let unknown = failure(try_client(endpoint, &stranger.connector(anybody)));
    assert_eq!(unknown, TlsFailure::UnknownAuthority);
}

#[test]
fn a_listener_refuses_certificates_and_says_why() {
    for protocol in ["tls", "quic"] {
        refused_certificates(protocol);
    }
}

fn refused_certificates(protocol: &str) {
    let at = |address: &str| format!("{protocol}/{address}");
    let ca = Authority::new(&format!("tls-clients-{protocol}"));
    for name in ["node", "robot"] {
        ca.issue(name, |_| ());
    }
    ca.issue("old", EXPIRED);
    let stranger = Authority::new(&format!("tls-clients-stranger-{protocol}"));
    stranger.issue("thief", |_| ());
    let hub = hub(&at("localhost:0"), &ca.listener("node", "enable_mtls: true"));
    let endpoint = &hub.listening()[0];
    for (shows, word) in [
        (String::new(), "requires a certificate"),
        (ca.shows("old"), "our certificate has expired"),
        (stranger.shows("thief"), "does not know the authority"),
    ] {
        let start = Instant::now();
        let refused = failure(try_client(endpoint, &ca.connector(&shows)));
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(matches!(&refused, TlsFailure::Refused(said) if said.contains(word)), "{word}: {refused}");
    }
    client(endpoint, &ca.connector(&ca.shows("robot")));
}

#[test]
fn settings_of_no_use_are_errors_of_open() {
    let ca = Authority::new("tls-settings");
    ca.issue("node", |_| ());
    ca.issue("other", |_| ());
    let open = |extra: &str| {
        let extra = format!("transport: {{link: {{tls: {{{extra}}}}}}}");
        try_open(&format!("{{mode: 'peer', listen: {{endpoints: ['tls/localhost:0']}}, {QUIET}, {extra}}}"))
    };
    let (chain, key, wrong) = (ca.path("node.pem"), ca.path("node.key"), ca.path("other.key"));
    for (extra, words) in [
        (String::new(), vec!["could not listen on tls/localhost:0", "tls/listen_certificate is not set"]),
        (format!("listen_certificate: '{chain}'"), vec!["tls/listen_private_key is not set"]),
        (
            "listen_certificate: '/nowhere/at.all'".to_owned(),
            vec!["listen_certificate: /nowhere/at.all: No such"],
        ),
        (format!("listen_certificate: '{key}', listen_private_key: '{key}'"), vec!["no certificate in it"]),
        (
            format!("listen_certificate: '{chain}', listen_private_key: '{chain}'"),
            vec!["listen_private_key: "],
        ),
        (
            format!("listen_certificate: '{chain}', listen_private_key: '{wrong}'"),
            vec!["listen_private_key: "],
        ),
        (
            format!("listen_certificate: '{chain}', listen_private_key: '{key}', enable_mtls: true"),
            vec!["root_ca_certificate is not set"],
        ),
        (
            format!("listen_certificate: '{chain}', listen_private_key_base64: '%'"),
            vec!["listen_private_key: "],
        ),
    ] {
        let error = open(&extra).err().expect(&extra).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{extra}: {error}");
    }
    let error = try_client("tls/localhost:1", "").err().unwrap().to_string();
    assert!(
        error.contains("could not connect to tls/localhost:1") && error.contains("root_ca_certificate"),
        "{error}"
    );
}

#[test]
fn plain_and_tls_recognise_each_other() {
    let ca = Authority::new("tls-plain");
    ca.issue("node", |_| ());
    let tls = hub("tls/127.0.0.1:0", &ca.listener("node", ""));
    let plain = hub("tcp/127.0.0.1:0", "");
    let start = Instant::now();
    let to_tls = tls.listening()[0].replace("tls/", "tcp/");
    assert_eq!(failure(try_client(&to_tls, "")), TlsFailure::OnlyTls);
    let to_plain = plain.listening()[0].replace("tcp/", "tls/");
    assert_eq!(failure(try_client(&to_plain, &ca.connector(""))), TlsFailure::Closed);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

/// A peer that is silent, or sends anything but TLS, costs one handshake at most.
#[test]
fn rude_peers_are_left_in_time() {
    let ca = Authority::new("tls-rude");
    ca.issue("node", |_| ());
    let limit = "#tls_handshake_timeout_ms=300";
    let hub = hub(&format!("tls/127.0.0.1:0{limit}"), &ca.listener("node", ""));
    let address = hub.listening()[0].replace("tls/", "");
    let descriptors = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    let start = Instant::now();
    let mut rude: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (i, stream) in rude.iter_mut().enumerate() {
        stream.set_read_timeout(Some(WAIT)).unwrap();
        match i % 4 {
            0 => {}
            1 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap(),
            // The beginning of a ClientHello that never ends.
            2 => stream.write_all(&[0x16, 0x03, 0x01, 0x01, 0x00, 0x01]).unwrap(),
            _ => stream.write_all(&[0xff; 2000]).unwrap(),
        }
    }
    for stream in &mut rude {
        // The answer is an alert or empty, then the end.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 64, "{answer:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    drop(rude);
    let end = Instant::now() + WAIT;
    while descriptors() > before {
        assert!(Instant::now() < end, "{} descriptors, {before} before", descriptors());
        std::thread::sleep(Duration::from_millis(10));
    }
    // A listener that stays silent.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tls/{}{limit}", silent.local_addr().unwrap());
    let start = Instant::now();
    let silence = TlsFailure::Silent(Duration::from_millis(300));
    assert_eq!(failure(try_client(&endpoint, &ca.connector(""))), silence);
    assert!(start.elapsed() < Duration::from_secs(2));
    client(&hub.listening()[0], &ca.connector(""));
}

#[test]
fn a_link_ends_with_its_certificate() {
    for protocol in ["tls", "quic"] {
        expires(protocol);
    }
}

fn expires(protocol: &str) {
    let at = |address: &str| format!("{protocol}/{address}");
    let ca = Authority::new(&format!("tls-expiry-{protocol}"));
    ca.issue("short", |params| {
        // Certificates count in whole seconds.
        params.not_after = (std::time::SystemTime::now() + Duration::from_secs(3)).into();
    });
    let hub = hub(&at("localhost:0"), &ca.listener("short", ""));
    let endpoint = &hub.listening()[0];
    let lasting = client(endpoint, &ca.connector(""));
    let ending = client(endpoint, &ca.connector("close_link_on_expiration: true"));
    let (lasting_link, link) = (lasting.links()[0].clone(), ending.links()[0].clone());
    let end = Instant::now() + WAIT;
    while !link.is_closed() {
        assert!(Instant::now() < end, "the link outlives its certificate");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!lasting_link.is_closed(), "the option is off");
    put(&lasting, "links/x", b"still here".to_vec());
}

/// QUIC sends accepted data in order: it must not accept more than the network does.
#[test]
fn an_urgent_message_overtakes_a_bulk_transfer_over_quic() {
    let ca = Authority::new("quic-urgent");
    ca.issue("node", |_| ());
    let hub = hub("quic/127.0.0.1:0", &ca.listener("node", ""));
    let address = hub.listening()[0].strip_prefix("quic/").unwrap().parse().unwrap();
    // The bulk is to cross the link.
    let settings = ca.connector("").replacen('{', "{shared_memory: {enabled: false}, ", 1);
    let sender = client(&format!("quic/{}", slow_path(address)), &settings);
    let (_, queue) = hub.declare_subscriber(key("urgent"), Default::default(), Handler::Default).unwrap();
    settled(&sender, &queue, "urgent");
    let bulk = sender.clone();
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let (_, heap) = hub.declare_subscriber(key("bulk"), Default::default(), Handler::Ring(1)).unwrap();
    let producer = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let qos = Qos::new(Priority::Background, CongestionControl::Block, false);
            let body = PushBody::Put(Put::new(vec![0; 100_000]));
            let publication = Publication { qos, ..Publication::new(key("bulk"), body) };
            bulk.put(publication, &mut never()).unwrap();
        }
    });
    // The congestion window has been found.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        heap.recv(Some(WAIT), &mut never()).unwrap();
    }
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            let qos = Qos::new(Priority::RealTime, CongestionControl::Block, true);
            let body = PushBody::Put(Put::new(vec![1]));
            let publication = Publication { qos, ..Publication::new(key("urgent"), body) };
            sender.put(publication, &mut never()).unwrap();
            next(&queue);
            start.elapsed()
        })
        .collect();
    done.store(true, Ordering::Relaxed);
    producer.join().unwrap();
    times.sort();
    // The queue of the network has 50 ms, a batch takes 26 ms; two megabytes queued in QUIC took 800
    // ms.
    assert!(times[10] < Duration::from_millis(250), "{times:?}");
}
