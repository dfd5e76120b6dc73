//! Facts logged by the applications, compared with the records.

use super::run::{dissect, file, gunzip, json, read};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use zwire_dissect::{Message, Options, Record};

/// A dissected capture.
pub(crate) struct Capture {
    pub(crate) facts: Vec<Value>,
    pub(crate) records: Vec<Record>,
    /// Names of peers by address.
    pub(crate) peers: BTreeMap<SocketAddr, String>,
}

/// Captures with truth compressed by xz.
const XZ: [&str; 4] = ["zenoh-bulk", "zmtp-curve", "zmtp-null", "zre-v2-chat"];

pub(crate) fn facts(name: &str) -> Vec<Value> {
    let text = if XZ.contains(&name) {
        let mut out = Vec::new();
        lzma_rs::xz_decompress(&mut &read(&format!("{name}.truth.jsonl.xz"))[..], &mut out).unwrap();
        out
    } else {
        gunzip(&read(&format!("{name}.truth.jsonl.gz")))
    };
    let text = String::from_utf8(text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Capture {
    pub(crate) fn open(name: &str) -> Self {
        let facts = facts(name);
        let records = dissect(&file(name), Options::default());
        // Sessions are distinguished by their ids.
        let names: BTreeMap<&str, &str> = facts
            .iter()
            .filter(|fact| fact["op"] == "session")
            .filter_map(|fact| Some((fact["zid"].as_str()?, fact["peer"].as_str()?)))
            .collect();
        let mut peers = BTreeMap::new();
        for record in &records {
            let zid = match &record.message {
                Message::Init(init) => init.zid,
                Message::Join(join) => join.zid,
                _ => continue,
            };
            let zid = zid.to_string();
            let peer = names.get(zid.as_str()).map_or(zid.clone(), |name| (*name).to_owned());
            peers.insert(record.src.unwrap(), peer);
        }
        Self { facts, records, peers }
    }

    /// The records of a message, by sender: per link, priority and congestion control, within which
    /// order is kept.
    fn streams(&self, message: &str) -> BTreeMap<(String, Stream), Vec<(&Record, Value)>> {
        let mut streams: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.message() == message) {
            let src = record.src.unwrap();
            let peer = self.peers.get(&src).cloned().unwrap_or_default();
            let stream = (src, record.dst.unwrap(), record.priority(), record.congestion());
            streams.entry((peer, stream)).or_default().push((record, json(record)));
        }
        streams
    }

    /// Checks the records of a message against the facts with these ops, by peer: each record in its
    /// order is a fact, and each fact is a record, except those given by `i`. Records of peers without
    /// facts (a router, a program) are passed to `others`.
    pub(crate) fn check(
        &self,
        message: &str,
        ops: &[&str],
        not_sent: &[u64],
        same: impl Fn(&Value, &Record, &Value) -> Result<(), &'static str>,
    ) -> usize {
        let mut todo: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for fact in self.facts.iter().filter(|fact| ops.contains(&fact["op"].as_str().unwrap())) {
            todo.entry(fact["peer"].as_str().unwrap()).or_default().push(fact);
        }
        let mut found = BTreeSet::new();
        for ((peer, stream), records) in self.streams(message) {
            let Some(facts) = todo.get(peer.as_str()) else { continue };
            let mut next = 0;
            for (record, value) in records {
                let mut reasons = BTreeSet::new();
                let at = facts[next..].iter().position(|fact| {
                    same(fact, record, &value).map_err(|reason| reasons.insert(reason)).is_ok()
                });
                let Some(at) = at else { panic!("{peer} {stream:?}: no fact for {value}: {reasons:?}") };
                next += at;
                found.insert(facts[next]["i"].as_u64().unwrap());
                next += 1;
            }
        }
        let missing: Vec<u64> = todo
            .values()
            .flatten()
            .filter(|fact| fact["on_wire"] != false)
            .map(|fact| fact["i"].as_u64().unwrap())
            .filter(|i| !found.contains(i))
            .collect();
        assert_eq!(missing, not_sent, "facts that are no {message}");
        found.len()
    }

    /// Puts and deletes.
    pub(crate) fn check_pushes(&self) -> usize {
        self.check("push", &["put", "delete"], &[], |fact, record, value| push(fact, record, value, &[]))
    }

    /// Checks queries; `not_sent`: facts without a message on the wire.
    pub(crate) fn check_queries(&self, not_sent: &[u64]) -> usize {
        let queriers: BTreeMap<&str, &Value> = self
            .facts
            .iter()
            .filter(|fact| fact["op"] == "declare_querier")
            .map(|fact| (fact["id"].as_str().unwrap(), fact))
            .collect();
        self.check("request", &["query"], not_sent, |fact, record, value| {
            let querier = fact["querier"].as_str().map_or(&Value::Null, |id| queriers[id]);
            query(fact, querier, record, value)
        })
    }

    /// Replies, deletes and errors.
    pub(crate) fn check_replies(&self, not_sent: &[u64]) -> usize {
        self.check("response", &["reply", "reply_del", "reply_err"], not_sent, reply)
    }
}

type Stream = (SocketAddr, SocketAddr, Option<u8>, Option<&'static str>);

fn require(good: bool, what: &'static str) -> Result<(), &'static str> {
    if good { Ok(()) } else { Err(what) }
}

/// A field of the fact, or of the declaration it belongs to, or the default of the API.
fn field<'a>(fact: &'a Value, declared: &'a Value, name: &str) -> Option<&'a str> {
    fact[name].as_str().or_else(|| declared[name].as_str())
}

fn same_payload(fact: &Value, record: &Record, value: &Value) -> Result<(), &'static str> {
    if let Some(len) = fact["payload_len"].as_u64() {
        let payload = record.payload().ok_or("no payload")?;
        require(payload.len() as u64 == len, "length of the payload")?;
        if let Some(expected) = fact["payload_sha256"].as_str() {
            let hash: String = Sha256::digest(payload).iter().map(|byte| format!("{byte:02x}")).collect();
            return require(hash == expected, "SHA-256 of the payload");
        }
        let expected = fact["payload_crc32"].as_u64().ok_or("no checksum")?;
        return require(u64::from(crc32(payload)) == expected, "CRC-32 of the payload");
    }
    require(value["payload"] == fact["payload_b64"], "payload")
}

pub(crate) fn crc32(payload: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(payload);
    crc.sum()
}

/// The priority on the wire.
fn priority(name: &str) -> u64 {
    let names = [
        "CONTROL",
        "REAL_TIME",
        "INTERACTIVE_HIGH",
        "INTERACTIVE_LOW",
        "DATA_HIGH",
        "DATA",
        "DATA_LOW",
        "BACKGROUND",
    ];
    names.iter().position(|other| *other == name).unwrap() as u64
}

fn same_time(fact: &Value, record: &Record) -> Result<(), &'static str> {
    if fact["timestamp"].is_null() {
        return Ok(());
    }
    let timestamp = record.timestamp().ok_or("no timestamp")?;
    require(fact["timestamp"]["ntp64"].as_u64() == Some(timestamp.time.0), "time")?;
    require(fact["timestamp"]["id"].as_str() == Some(&timestamp.id.to_string()), "clock")
}

/// Whether a push is this put or delete. `encodings`: texts that are sent as another text.
pub(crate) fn push(
    fact: &Value,
    record: &Record,
    value: &Value,
    encodings: &[(&str, &str)],
) -> Result<(), &'static str> {
    let deleted = fact["op"] == "delete";
    require(value["kind"] == if deleted { "del" } else { "put" }, "kind")?;
    require(value["key"] == fact["key"], "key")?;
    if deleted {
        require(value["payload"].is_null() && value["encoding"].is_null(), "payload of a delete")?;
    } else {
        same_payload(fact, record, value)?;
    }
    // Programs that print only key and payload.
    if fact["partial"] == true {
        return Ok(());
    }
    if !deleted {
        let encoding = fact["encoding"].as_str().unwrap_or("zenoh/bytes");
        let encoding = encodings.iter().find(|(from, _)| *from == encoding).map_or(encoding, |(_, to)| *to);
        require(value["encoding"] == encoding, "encoding")?;
    }
    require(value["attachment"] == fact["attachment_b64"], "attachment")?;
    same_time(fact, record)?;
    require(value["priority"] == priority(fact["priority"].as_str().unwrap_or("DATA")), "priority")?;
    let congestion = fact["congestion"].as_str().unwrap_or("DROP").to_lowercase();
    require(value["congestion"] == congestion, "congestion")?;
    require(value["express"] == (fact["express"] == true), "express")
}

fn query(fact: &Value, querier: &Value, record: &Record, value: &Value) -> Result<(), &'static str> {
    let selector = fact["selector"].as_str().unwrap();
    let (key, parameters) = selector.split_once('?').unwrap_or((selector, ""));
    require(value["kind"] == "query", "kind")?;
    require(value["key"] == key, "key")?;
    require(value["parameters"] == fact["parameters"].as_str().unwrap_or(parameters), "parameters")?;
    let target = field(fact, querier, "target").unwrap_or("BEST_MATCHING").to_lowercase();
    require(value["target"] == target, "target")?;
    // The runtime resolves "auto" before it sends.
    let consolidation = field(fact, querier, "consolidation").unwrap_or("AUTO").to_lowercase();
    let consolidation = if consolidation == "auto" { "latest" } else { &consolidation };
    require(value["consolidation"] == consolidation, "consolidation")?;
    same_payload(fact, record, value)?;
    if value["payload"].is_null() {
        require(value["encoding"].is_null(), "encoding without a payload")?;
    } else {
        require(value["encoding"] == fact["encoding"].as_str().unwrap_or("zenoh/bytes"), "encoding")?;
    }
    require(value["attachment"] == fact["attachment_b64"], "attachment")?;
    require(value["priority"] == priority(field(fact, querier, "priority").unwrap_or("DATA")), "priority")?;
    require(value["congestion"] == "block", "congestion")?;
    require(value["express"] == (fact["express"] == true), "express")?;
    require(value["request_id"].is_u64(), "request id")
}

fn reply(fact: &Value, record: &Record, value: &Value) -> Result<(), &'static str> {
    require(value["request_id"].is_u64(), "request id")?;
    match fact["op"].as_str().unwrap() {
        "reply" => {
            require(value["kind"] == "put" && value["key"] == fact["key"], "key of a put")?;
            same_payload(fact, record, value)?;
            require(value["encoding"] == fact["encoding"].as_str().unwrap_or("zenoh/bytes"), "encoding")?;
        }
        "reply_del" => {
            require(value["kind"] == "del" && value["key"] == fact["key"], "key of a delete")?;
            require(value["payload"].is_null(), "payload of a delete")?;
        }
        _ => {
            let selector = fact["selector"].as_str().unwrap();
            let key = selector.split_once('?').map_or(selector, |(key, _)| key);
            require(value["kind"] == "err" && value["key"] == key, "key of an error")?;
            same_payload(fact, record, value)?;
            return require(
                value["encoding"] == fact["encoding"].as_str().unwrap_or("zenoh/bytes"),
                "encoding",
            );
        }
    }
    require(value["attachment"] == fact["attachment_b64"], "attachment")?;
    same_time(fact, record)
}
