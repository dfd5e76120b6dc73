//! Tests of the public ZMTP captures, one for each: messages sent and received by each socket.

use super::{
    run::{dissect, faults, file, json},
    truth::facts,
    zre::keys,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use zwire_dissect::Options;

/// A connection, and the socket that opened it.
#[derive(Default)]
struct Connection {
    port: u64,
    /// Records of the connecting side, and of the other.
    said: [Vec<Value>; 2],
}

/// The connections of a capture in the order in which they were opened.
fn connections(lines: &[Value]) -> Vec<Connection> {
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, Connection> = BTreeMap::new();
    for line in lines {
        let [src, dst] = ["src", "dst"].map(|end| line[end].as_str().unwrap().to_owned());
        let port = |end: &str| end.rsplit(':').next().unwrap().parse::<u64>().unwrap();
        // The sockets of the truth listen on ports below those given to connecting sockets.
        let side = usize::from(port(&src) < port(&dst));
        let (client, server) = if side == 0 { (src, dst) } else { (dst, src) };
        let connection = found.entry(client.clone()).or_insert_with(|| {
            order.push(client);
            Connection { port: port(&server), ..Connection::default() }
        });
        connection.said[side].push(line.clone());
    }
    order.iter().map(|client| found.remove(client).unwrap()).collect()
}

fn of<'a>(facts: &'a [Value], op: &'a str, peer: &'a str) -> impl Iterator<Item = &'a Value> {
    facts.iter().filter(move |fact| fact["op"] == op && fact["peer"] == peer)
}

/// The frames of messages, as the application of a socket of this type has them.
fn contents(said: &[Value], socket: &str) -> Vec<Value> {
    let messages = said.iter().filter(|line| line["message"] == "message");
    let frames = messages.map(|line| line["content"].clone());
    let delimited = matches!(socket, "REQ" | "REP");
    frames
        .map(|mut frames| {
            if delimited {
                assert_eq!(frames.as_array_mut().unwrap().remove(0), "");
            }
            frames
        })
        .collect()
}

fn commands(said: &[Value], kind: &str) -> Vec<Value> {
    let commands = said.iter().filter(|line| line["message"] == "command" && line["kind"] == kind);
    commands.map(|line| line["payload"].clone()).collect()
}

/// Compares each connection with the facts of the socket that opened it, and the records of all of them
/// with the facts of the listening socket. Returns the number of messages.
fn check(facts: &[Value], lines: &[Value], not_there: &[&str]) -> usize {
    let connections = connections(lines);
    let open = |connection: &&Connection| !commands(&connection.said[1], "ready").is_empty();
    let made: Vec<_> = connections.iter().filter(open).collect();
    let makers: Vec<_> = facts
        .iter()
        .filter(|fact| fact["op"] == "connect" && !not_there.contains(&fact["peer"].as_str().unwrap()))
        .collect();
    assert_eq!(made.len(), makers.len());
    let mut count = 0;
    let mut heard: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for (fact, connection) in makers.iter().zip(made) {
        let (peer, socket) = (fact["peer"].as_str().unwrap(), fact["socket"].as_str().unwrap());
        assert_eq!(fact["port"], connection.port, "{peer}");
        let [said, answers] = &connection.said;
        // The identity, from READY or INITIATE.
        let handshake = said.iter().find(|line| line["kind"] == "ready" || line["kind"] == "initiate");
        let headers = &handshake.unwrap()["headers"];
        assert_eq!(headers["Socket-Type"], socket);
        if let Some(identity) = fact["options"].get("ROUTING_ID") {
            assert_eq!(&headers["Identity"], identity, "{peer}");
        }
        let sent: Vec<_> = of(facts, "send", peer).map(|fact| fact["frames_b64"].clone()).collect();
        let received: Vec<_> = of(facts, "recv", peer).map(|fact| fact["frames_b64"].clone()).collect();
        let (said_frames, answer_frames) = (contents(said, socket), contents(answers, socket));
        assert!(said_frames == sent, "{peer}: {} on the wire, {} sent", said_frames.len(), sent.len());
        assert!(
            answer_frames == received,
            "{peer}: {} on the wire, {} received",
            answer_frames.len(),
            received.len()
        );
        count += sent.len() + received.len();
        let topics = |op| of(facts, op, peer).map(|fact| fact["topic_b64"].clone()).collect::<Vec<_>>();
        assert_eq!(commands(said, "subscribe"), topics("subscribe"), "{peer}");
        assert_eq!(commands(said, "cancel"), topics("unsubscribe"), "{peer}");
        heard.entry(connection.port).or_default().extend(said_frames);
    }
    for fact in facts.iter().filter(|fact| fact["op"] == "bind") {
        let peer = fact["peer"].as_str().unwrap();
        let address = usize::from(fact["socket"] == "ROUTER");
        let mut received: Vec<_> = of(facts, "recv", peer)
            .map(|fact| json!(fact["frames_b64"].as_array().unwrap()[address..]))
            .collect();
        let mut found = heard.remove(&fact["port"].as_u64().unwrap()).unwrap_or_default();
        received.sort_by_key(ToString::to_string);
        found.sort_by_key(ToString::to_string);
        assert!(found == received, "{peer}");
    }
    count
}

fn counts(lines: &[Value]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in lines {
        assert_eq!(line["protocol"], "zmtp", "{line}");
        let kind = line["kind"].as_str().unwrap_or("-");
        *found.entry(format!("{} {kind}", line["message"].as_str().unwrap())).or_insert(0) += 1;
    }
    found
}

fn expected<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(what, count)| (what.to_owned(), count)).into()
}

#[test]
fn zmtp_null() {
    let facts = facts("zmtp-null");
    let records = dissect(&file("zmtp-null"), Options::default());
    assert_eq!(faults(&records), Vec::<String>::new());
    let lines: Vec<Value> = records.iter().map(json).collect();
    assert_eq!(check(&facts, &lines, &[]), 328);
    assert_eq!(
        counts(&lines),
        expected([
            ("command cancel", 1),
            ("command ping", 50),
            ("command pong", 48),
            ("command ready", 22),
            ("command subscribe", 4),
            ("greeting null", 22),
            ("message -", 328),
        ])
    );
    for line in &lines {
        if line["message"] == "greeting" {
            assert_eq!(line["headers"], json!({"version": "3.1", "mechanism": "NULL"}));
        }
        if line["kind"] == "ping" {
            // HEARTBEAT_TTL is 2000 ms, on the wire tenths of a second.
            assert_eq!(line["headers"], json!({"ttl": "20"}));
        }
    }
}

#[test]
fn zmtp_curve() {
    let facts = facts("zmtp-curve");
    let options = Options { keys: keys(&facts), ..Options::default() };
    let records = dissect(&file("zmtp-curve"), options);
    assert_eq!(faults(&records), Vec::<String>::new());
    let lines: Vec<Value> = records.iter().map(json).collect();
    assert_eq!(check(&facts, &lines, &["wrong"]), 32);
    assert_eq!(
        counts(&lines),
        expected([
            ("command hello", 11),
            ("command initiate", 3),
            ("command ready", 3),
            ("command welcome", 3),
            ("greeting curve", 22),
            ("message -", 32),
        ])
    );
}

/// Foreign keys open nothing, and the records are the same as without keys.
#[test]
fn zmtp_curve_without_its_keys() {
    let others = keys(&super::truth::facts("zre-draft-curve"));
    for keys in [Vec::new(), others] {
        let records = dissect(&file("zmtp-curve"), Options { keys, ..Options::default() });
        assert_eq!(faults(&records), Vec::<String>::new());
        let lines: Vec<Value> = records.iter().map(json).collect();
        let found = counts(&lines);
        assert_eq!((found["message encrypted"], found.get("message -")), (97, None));
        assert!(lines.iter().all(|line| line["content"] == Value::Null));
    }
}
