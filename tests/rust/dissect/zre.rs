//! Tests of the public ZRE captures, one for each: the counts of its notes, and each fact of its truth.

use super::{
    run::{dissect, faults, file, json},
    truth::facts,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use zwire_dissect::{Options, Record};
use zwire_proto::{
    zmtp::crypto::SecretKey,
    zre::{
        wire::{Log, LogEvent, LogLevel},
        z85,
    },
};

struct Capture {
    facts: Vec<Value>,
    records: Vec<Record>,
    /// Written form of the records.
    lines: Vec<Value>,
    /// UUIDs of nodes by their names in the truth.
    uuids: BTreeMap<String, String>,
    /// UUIDs of nodes by their endpoints: `ip:port`.
    listeners: BTreeMap<String, String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The keys given in a truth.
pub(crate) fn keys(facts: &[Value]) -> Vec<SecretKey> {
    let unhex =
        |text: &str| core::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap());
    facts
        .iter()
        .filter(|fact| fact["op"] == "key_pair")
        .map(|fact| SecretKey::new(unhex(fact["secret_hex"].as_str().unwrap())))
        .collect()
}

impl Capture {
    fn open(name: &str) -> Self {
        let facts = facts(name);
        let options = Options { keys: keys(&facts), ..Options::default() };
        let records = dissect(&file(name), options);
        let lines: Vec<Value> = records.iter().map(json).collect();
        let uuids = facts.iter().filter(|fact| fact["op"] == "node");
        let uuids = uuids.map(|fact| (text(&fact["peer"]), text(&fact["uuid"]))).collect();
        let beacons =
            lines.iter().filter(|line| line["message"] == "beacon" && line["address"] != Value::Null);
        let listeners =
            beacons.map(|line| (text(&line["address"]).replace("tcp://", ""), text(&line["peer"]))).collect();
        Self { facts, records, lines, uuids, listeners }
    }

    fn lines(&self, message: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["message"] == message && line["protocol"] != "zmtp")
    }

    fn events<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.facts.iter().filter(move |fact| fact["op"] == "event" && fact["event"] == event)
    }

    /// Whether two nodes are on one host: their messages to each other pass no bridge.
    fn are_neighbours(&self, a: &str, b: &str) -> bool {
        let host = |uuid: &str| {
            let (address, _) = self.listeners.iter().find(|(_, listener)| *listener == uuid).unwrap();
            address.split(':').next().unwrap().to_owned()
        };
        host(a) == host(b)
    }

    /// Receiver of a record.
    fn receiver(&self, line: &Value) -> String {
        self.listeners[line["dst"].as_str().unwrap()].clone()
    }

    /// Checks the number of records of each protocol and message; other records and errors are not
    /// allowed.
    fn check_counts(&self, counts: &[(&str, &str, usize)]) {
        assert_eq!(faults(&self.records), Vec::<String>::new());
        let mut found = BTreeMap::new();
        for line in &self.lines {
            *found.entry((text(&line["protocol"]), text(&line["message"]))).or_insert(0) += 1;
        }
        let expected = counts.iter().map(|(a, b, count)| (((*a).to_owned(), (*b).to_owned()), *count));
        assert_eq!(found, expected.collect());
    }

    /// Each beacon is of a node, and each node that stopped has sent goodbye.
    fn check_beacons(&self) {
        let uuids: BTreeSet<_> = self.uuids.values().cloned().collect();
        let mut gone = BTreeSet::new();
        for line in self.lines("beacon") {
            assert!(uuids.contains(&text(&line["peer"])), "{line}");
            assert!(text(&line["dst"]).ends_with(":5670"), "{line}");
            if line["kind"] == "goodbye" {
                assert_eq!(line["address"], Value::Null, "{line}");
                gone.insert(text(&line["peer"]));
            } else {
                assert_eq!(line["kind"], Value::Null);
            }
        }
        let stopped = self.facts.iter().filter(|fact| fact["op"] == "stop");
        assert_eq!(gone, stopped.map(|fact| self.uuids[fact["peer"].as_str().unwrap()].clone()).collect());
        assert_eq!(self.listeners.values().cloned().collect::<BTreeSet<_>>(), uuids);
    }

    /// Every message is of the generation of its sender and numbered without a gap.
    fn check_sequences(&self, kind: &str) {
        let mut next: BTreeMap<String, u64> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line["protocol"] == "zre") {
            if line["message"] == "beacon" {
                continue;
            }
            assert_eq!(line["kind"], kind, "{line}");
            let number = next.entry(text(&line["src"])).or_insert(1);
            assert_eq!(line["sequence"], *number, "{line}");
            *number += 1;
        }
        assert!(next.len() >= 2);
    }

    /// Received contents are those on the wire, in the order between two nodes.
    fn check_contents(&self) -> usize {
        type Heard = BTreeMap<(String, String), Vec<(String, String, Value)>>;
        let (mut expected, mut found) = (Heard::new(), Heard::new());
        for (message, event) in [("shout", "SHOUT"), ("whisper", "WHISPER")] {
            for fact in self.events(event) {
                let receiver = self.uuids[fact["peer"].as_str().unwrap()].clone();
                let heard = (event.to_owned(), text(&fact["group"]), fact["content_b64"].clone());
                expected.entry((text(&fact["from"]), receiver)).or_default().push(heard);
            }
            for line in self.lines(message) {
                let heard = (event.to_owned(), text(&line["group"]), line["content"].clone());
                found.entry((text(&line["peer"]), self.receiver(line))).or_default().push(heard);
            }
        }
        assert!(found == expected, "contents differ");
        // Each was sent by the application.
        for (message, op) in [("shout", "shout"), ("whisper", "whisper")] {
            let said: BTreeSet<String> = self
                .facts
                .iter()
                .filter(|fact| fact["op"] == op)
                .map(|fact| {
                    let from = &self.uuids[fact["peer"].as_str().unwrap()];
                    format!("{from} {} {}", text(&fact["group"]), fact["content_b64"])
                })
                .collect();
            for line in self.lines(message) {
                let line = format!("{} {} {}", text(&line["peer"]), text(&line["group"]), line["content"]);
                assert!(said.contains(&line), "{line}");
            }
        }
        expected.values().map(Vec::len).sum()
    }

    /// Groups joined and left, as other nodes saw it; `told`: joins known only from a HELLO.
    fn check_groups(&self) {
        let mut told: BTreeSet<(String, String, String)> = BTreeSet::new();
        for line in self.lines("hello") {
            for group in line["groups"].as_array().unwrap() {
                told.insert((text(&line["peer"]), self.receiver(line), text(group)));
            }
            // The status counts groups that were left, too.
            assert!(line["status"].as_u64().unwrap() as usize >= line["groups"].as_array().unwrap().len());
        }
        let seen = |event: &'static str| -> BTreeSet<_> {
            self.events(event)
                .map(|fact| {
                    let receiver = self.uuids[fact["peer"].as_str().unwrap()].clone();
                    (text(&fact["from"]), receiver, text(&fact["group"]))
                })
                .filter(|(from, receiver, _)| !self.are_neighbours(from, receiver))
                .collect()
        };
        let on_wire = |message| -> BTreeSet<_> {
            self.lines(message)
                .map(|line| (text(&line["peer"]), self.receiver(line), text(&line["group"])))
                .collect()
        };
        let joined: BTreeSet<_> = on_wire("join").union(&told).cloned().collect();
        assert_eq!(joined, seen("JOIN"));
        assert_eq!(on_wire("leave"), seen("LEAVE"));
        // Each change has its own status, the same for all receivers.
        for line in self.lines("join").chain(self.lines("leave")) {
            assert!(line["status"].as_u64().unwrap() > 0, "{line}");
        }
    }

    /// Name, headers and address of each node that entered.
    fn check_hellos(&self) -> usize {
        let mut found = BTreeMap::new();
        for line in self.lines("hello") {
            found.insert((text(&line["peer"]), self.receiver(line)), line);
        }
        let mut entered = BTreeSet::new();
        for fact in self.events("ENTER") {
            let receiver = self.uuids[fact["peer"].as_str().unwrap()].clone();
            let from = text(&fact["from"]);
            if self.are_neighbours(&from, &receiver) {
                continue;
            }
            let Some(line) = found.get(&(from.clone(), receiver.clone())) else {
                panic!("no HELLO for {fact}")
            };
            assert_eq!(line["name"], fact["name"], "{fact}");
            assert_eq!(line["headers"], fact["headers"], "{fact}");
            assert!(text(&line["address"]).contains(&text(&fact["address"])), "{fact}");
            entered.insert((from, receiver));
        }
        assert_eq!(entered, found.keys().cloned().collect());
        entered.len()
    }

    /// Messages of ZRE/LOG, field by field.
    fn check_log(&self) -> usize {
        let mut expected: Vec<Value> = Vec::new();
        for fact in self.facts.iter().filter(|fact| fact["op"] == "log_received") {
            let log = Log::decode(&Bytes::from(base64(fact["frame_b64"].as_str().unwrap()))).unwrap();
            assert_eq!(log.level, LogLevel::INFO);
            let kind = match log.event {
                LogEvent::JOIN => "join",
                LogEvent::LEAVE => "leave",
                LogEvent::ENTER => "enter",
                LogEvent::EXIT => "exit",
                LogEvent::SEND => "send",
                LogEvent::RECV => "recv",
                other => panic!("{other:?}"),
            };
            expected.push(json!({
                "kind": kind,
                "headers": {"level": "INFO", "node": log.node.to_string(), "peer": log.peer.to_string()},
                "seconds": log.timestamp().as_secs(),
                "data": String::from_utf8(log.data.to_vec()).unwrap(),
            }));
        }
        let mut found: Vec<Value> = self
            .lines("log")
            .map(|line| {
                let [data] = &line["content"].as_array().unwrap()[..] else { panic!("{line}") };
                // A node logs at once, and the clock of the capture is its own.
                let captured = line["ts"].as_f64().unwrap();
                let stamp = text(&line["timestamp"]);
                assert!(stamp.ends_with(".000000000Z"), "{line}");
                json!({
                    "kind": line["kind"], "headers": line["headers"], "seconds": seconds(&stamp, captured),
                    "data": String::from_utf8(base64(data.as_str().unwrap())).unwrap(),
                })
            })
            .collect();
        let sort = |values: &mut Vec<Value>| values.sort_by_key(ToString::to_string);
        sort(&mut expected);
        sort(&mut found);
        assert_eq!(found, expected);
        found.len()
    }
}

/// The time of a stamp with whole seconds, near a time that is known.
fn seconds(stamp: &str, near: f64) -> u64 {
    let part = |range: core::ops::Range<usize>| stamp[range].parse::<u64>().unwrap();
    let of_day = part(11..13) * 3600 + part(14..16) * 60 + part(17..19);
    let time = near as u64 / 86_400 * 86_400 + of_day;
    assert!((time as f64 - near).abs() < 5.0, "{stamp} is not near {near}");
    time
}

pub(crate) fn base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut value, mut bits) = (0_u32, 0);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        value = value << 6 | alphabet.iter().position(|known| *known == digit).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((value >> bits) as u8);
            value &= (1 << bits) - 1;
        }
    }
    out
}

fn check_first_generation(name: &str, kind: &str) {
    let capture = Capture::open(name);
    capture.check_counts(&[
        ("zmtp", "greeting", 26),
        // 26 of READY, 3 of SUBSCRIBE.
        ("zmtp", "command", 29),
        ("zre", "beacon", 60),
        ("zre", "hello", 10),
        ("zre", "join", 12),
        ("zre", "leave", 4),
        ("zre", "ping", 6),
        ("zre", "ping_ok", 6),
        ("zre", "shout", 17),
        ("zre", "whisper", 14),
        ("zrelog", "log", 13),
    ]);
    capture.check_beacons();
    capture.check_sequences(kind);
    assert_eq!(capture.check_contents(), 31);
    capture.check_groups();
    assert_eq!(capture.check_hellos(), 10);
    assert_eq!(capture.check_log(), 13);
}

#[test]
fn zre_v1_rfc20() {
    check_first_generation("zre-v1-rfc20", "20");
}

#[test]
fn zre_v1_zyre100() {
    check_first_generation("zre-v1-zyre100", "zyre1");
}

#[test]
fn zre_v2_chat() {
    let capture = Capture::open("zre-v2-chat");
    capture.check_counts(&[
        ("zmtp", "greeting", 20),
        ("zmtp", "command", 20),
        ("zre", "beacon", 46),
        ("zre", "hello", 10),
        ("zre", "join", 16),
        ("zre", "leave", 2),
        ("zre", "ping", 1),
        ("zre", "shout", 64),
        ("zre", "whisper", 28),
    ]);
    capture.check_beacons();
    capture.check_sequences("36");
    assert_eq!(capture.check_contents(), 92);
    capture.check_groups();
    assert_eq!(capture.check_hellos(), 10);
}

#[test]
fn zre_draft_election() {
    let capture = Capture::open("zre-draft-election");
    capture.check_counts(&[
        ("zmtp", "greeting", 12),
        ("zmtp", "command", 12),
        ("zre", "beacon", 24),
        ("zre", "elect", 19),
        ("zre", "hello", 6),
        ("zre", "join", 6),
        ("zre", "leader", 8),
        ("zre", "shout", 2),
    ]);
    capture.check_beacons();
    capture.check_sequences("36");
    assert_eq!(capture.check_contents(), 2);
    capture.check_groups();
    assert_eq!(capture.check_hellos(), 6);
    let nodes: BTreeSet<_> = capture.uuids.values().cloned().collect();
    for line in capture.lines("elect") {
        assert_eq!(line["group"], "LEAD");
        assert!(nodes.contains(&text(&line["headers"]["challenger"])), "{line}");
    }
    let leaders: BTreeSet<_> = capture.lines("leader").map(|line| text(&line["headers"]["leader"])).collect();
    for fact in capture.events("LEADER") {
        assert!(leaders.contains(&text(&fact["from"])), "{fact}");
    }
}

#[test]
fn zre_draft_curve() {
    let capture = Capture::open("zre-draft-curve");
    capture.check_counts(&[
        ("zmtp", "greeting", 4),
        ("zmtp", "command", 8),
        ("zre", "beacon", 13),
        ("zre", "hello", 2),
        ("zre", "join", 2),
        ("zre", "shout", 1),
        // One of the sides sends a command under CURVE, none of them a message of an application.
    ]);
    capture.check_beacons();
    capture.check_sequences("36");
    assert_eq!(capture.check_contents(), 1);
    capture.check_groups();
    assert_eq!(capture.check_hellos(), 2);
    for node in capture.facts.iter().filter(|fact| fact["op"] == "node") {
        for line in capture.lines("beacon").filter(|line| line["peer"] == node["uuid"]) {
            assert_eq!(line["headers"], json!({"X-PUBLICKEY": node["public"]}));
            assert!(z85::decode_key(text(&line["headers"]["X-PUBLICKEY"]).as_bytes()).is_some());
        }
    }
}

/// Without keys the records are the handshakes, and encrypted frames.
#[test]
fn zre_draft_curve_without_keys() {
    let records = dissect(&file("zre-draft-curve"), Options::default());
    let mut found = BTreeMap::new();
    for line in records.iter().map(json) {
        assert_eq!(line["content"], Value::Null);
        let kind = line["kind"].as_str().unwrap_or("-");
        *found
            .entry(format!("{} {} {kind}", text(&line["protocol"]), text(&line["message"])))
            .or_insert(0) += 1;
    }
    let expected = [
        ("zmtp command hello", 2),
        ("zmtp command initiate", 2),
        ("zmtp command ready", 2),
        ("zmtp command welcome", 2),
        ("zmtp greeting curve", 4),
        ("zmtp message encrypted", 6),
        ("zre beacon -", 11),
        ("zre beacon goodbye", 2),
    ];
    assert_eq!(found, expected.map(|(what, count)| (what.to_owned(), count)).into());
}
