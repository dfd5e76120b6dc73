//! Conversion of the settings of a node from Python to the engine.

use crate::{
    loops::ending,
    options::{OptionValue, Options},
    zre::node,
};
use core::{ops::RangeInclusive, time::Duration};
use pyo3::{prelude::*, types::PyTuple};
use std::{collections::HashSet, sync::Arc};
use zwire_engine::{
    queue::Overflow,
    zre::{
        Keys, NodeOptions,
        options::{self, Allow},
    },
};
use zwire_proto::{
    Text,
    zmtp::crypto::{KeyPair, SecretKey},
    zre::{Generation, Generations, Uuid, z85},
};

/// Number of messages to a peer.
struct Messages(u16);

impl OptionValue for Messages {
    const WANTED: &'static str = "a number of messages, 1 to 65535";

    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        value.extract().ok().map(Self)
    }
}

fn texts(from: &Options<'_, '_>, name: &'static str) -> PyResult<Vec<String>> {
    Ok(from.take(name)?.unwrap_or_default())
}

/// Reads a time above zero.
fn seconds(from: &Options<'_, '_>, name: &'static str) -> PyResult<Option<Duration>> {
    match from.take(name)? {
        Some(Duration::ZERO) => Err(from.wrong(name, "expected seconds above 0, not 0")),
        time => Ok(time),
    }
}

fn key(from: &Options<'_, '_>, name: &'static str) -> PyResult<Option<[u8; 32]>> {
    let Some(value) = from.get(name)? else { return Ok(None) };
    match value.extract::<String>().ok().and_then(|text| z85::decode_key(text.as_bytes())) {
        Some(key) => Ok(Some(key)),
        // The value may be a secret, so it is not shown.
        None => Err(from.wrong(name, "expected a key in Z85, 40 characters")),
    }
}

fn uuid(from: &Options<'_, '_>) -> PyResult<Uuid> {
    if let Some(value) = from.get("uuid")? {
        return node::uuid(value.py(), &value).map_err(|error| from.wrong("uuid", error));
    }
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(Uuid::from_random(bytes))
}

fn generations(from: &Options<'_, '_>) -> PyResult<Option<Generations>> {
    if from.get("generations")?.is_none() {
        return Ok(None);
    }
    let mut generations = Generations::NONE;
    for name in texts(from, "generations")? {
        let found = Generation::ALL.into_iter().find(|generation| generation.name() == name);
        let found = found.ok_or_else(|| {
            from.wrong("generations", format!("expected 20, zyre1, 36 or 43, not {name:?}"))
        })?;
        generations = generations.with(found);
    }
    Ok(Some(generations))
}

fn headers(from: &Options<'_, '_>) -> PyResult<Vec<(Text, Text)>> {
    let Some(value) = from.get("headers")? else { return Ok(Vec::new()) };
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let (name, value) = pair?.extract::<(String, String)>()?;
        Ok((name.into(), value.into()))
    };
    let pairs = value.call_method0("items").and_then(|items| items.try_iter()?.map(pair).collect());
    pairs.map_err(|_| from.wrong("headers", "expected a mapping of texts to texts"))
}

fn mailbox(from: &Options<'_, '_>) -> PyResult<Option<RangeInclusive<u16>>> {
    let Some(value) = from.get("mailbox")? else { return Ok(None) };
    if let Ok(port) = value.extract::<u16>() {
        return Ok(Some(port..=port));
    }
    match value.extract::<(u16, u16)>() {
        Ok((first, last)) if first <= last => Ok(Some(first..=last)),
        _ => Err(from.wrong("mailbox", format!("expected a port or a pair of ports, not {}", value.repr()?))),
    }
}

fn keys(from: &Options<'_, '_>) -> PyResult<Option<Keys>> {
    let (public, secret) = (key(from, "public_key")?, key(from, "secret_key")?);
    let Some(secret) = secret else {
        return match public {
            Some(_) => Err(from.wrong("secret_key", "missing beside public_key")),
            None => Ok(None),
        };
    };
    let derived = KeyPair::of(SecretKey::new(secret)).public.0;
    if public.is_some_and(|public| public != derived) {
        return Err(from.wrong("public_key", "not the public key of secret_key"));
    }
    Ok(Some(Keys { public: derived, secret }))
}

/// Reads a set of keys, or a callable that decides.
fn allow(from: &Options<'_, '_>) -> PyResult<Option<Allow>> {
    let Some(value) = from.get("allow")? else { return Ok(None) };
    if value.is_callable() {
        let judge = value.unbind();
        return Ok(Some(Arc::new(move |key: &[u8; 32]| judged(&judge, key))));
    }
    let mut keys = HashSet::new();
    for text in texts(from, "allow")? {
        let key = z85::decode_key(text.as_bytes());
        keys.insert(key.ok_or_else(|| {
            from.wrong("allow", format!("expected keys in Z85, 40 characters each, not {text:?}"))
        })?);
    }
    Ok(Some(Arc::new(move |key| keys.contains(key))))
}

/// Calls the application's filter. An exception refuses the key, and goes to `sys.unraisablehook`.
fn judged(judge: &Py<PyAny>, key: &[u8; 32]) -> bool {
    let asked = Python::try_attach(|py| {
        let text = String::from_utf8_lossy(&z85::encode_key(key)).into_owned();
        // The interpreter may end in the middle of the call.
        let answer = PyTuple::new(py, [text]).and_then(|text| ending::call(judge, &text)?.is_truthy());
        answer.unwrap_or_else(|error| {
            error.write_unraisable(py, Some(judge.bind(py)));
            false
        })
    });
    asked.unwrap_or(false)
}

fn fill(bytes: &mut [u8]) -> PyResult<()> {
    getrandom::fill(bytes).map_err(|error| pyo3::exceptions::PyOSError::new_err(error.to_string()))
}

/// Makes a pair of keys, public and secret.
pub(crate) fn keypair() -> PyResult<(String, String)> {
    loop {
        let mut secret = [0; 32];
        fill(&mut secret)?;
        let public = KeyPair::of(SecretKey::new(secret)).public.0;
        if public[0] != 0 {
            let text = |key| String::from_utf8_lossy(&z85::encode_key(key)).into_owned();
            return Ok((text(&public), text(&secret)));
        }
    }
}

/// Format of the endpoint of a peer, for error texts.
pub(crate) const WANTED_PEER: &str = "expected tcp://host:port, with |KEY behind it if there is one";

/// Parses the endpoint of a peer, and its key.
pub(crate) fn peer(text: &str) -> Option<(String, Option<[u8; 32]>)> {
    Some(match text.split_once('|') {
        Some((endpoint, key)) => (endpoint.to_owned(), Some(z85::decode_key(key.as_bytes())?)),
        None => (text.to_owned(), None),
    })
}

/// Reads the settings of a node.
pub(crate) fn read(from: &Options<'_, '_>) -> PyResult<NodeOptions> {
    let mut options = NodeOptions::new(uuid(from)?);
    let machine = &mut options.machine;
    from.set("name", &mut machine.name)?;
    machine.headers = headers(from)?;
    machine.generations = generations(from)?.unwrap_or(machine.generations);
    machine.advertise = from.take("advertise")?;
    let interval = seconds(from, "interval")?.or(machine.beacon_interval);
    machine.beacon_interval = if from.take("beacons")?.unwrap_or(true) { interval } else { None };
    machine.evasive = seconds(from, "evasive")?.unwrap_or(machine.evasive);
    machine.expired = seconds(from, "expired")?.unwrap_or(machine.expired);
    if machine.expired <= machine.evasive {
        let problem = format!("{:?} is not above evasive, {:?}", machine.expired, machine.evasive);
        return Err(from.wrong("expired", problem));
    }
    machine.ping_interval = seconds(from, "ping_interval")?.unwrap_or(machine.ping_interval);
    machine.detection_wait = seconds(from, "detection_wait")?.unwrap_or(machine.detection_wait);
    machine.collector = from.take("collector")?;
    from.set("log_traffic", &mut machine.log_traffic)?;
    from.set("drafts", &mut machine.drafts)?;
    machine.renew_after = from.take("renew_after")?.map(|Messages(count)| count).or(machine.renew_after);
    from.set("max_peers", &mut machine.max_peers)?;
    from.set("max_unanswered", &mut machine.max_unanswered)?;
    for text in texts(from, "interfaces")? {
        options.interfaces.push(text.parse().map_err(|error| from.wrong("interfaces", error))?);
    }
    from.set("beacon_port", &mut options.beacon_port)?;
    from.set("bind", &mut options.bind)?;
    options.mailbox = mailbox(from)?.unwrap_or(options.mailbox);
    for text in texts(from, "peers")? {
        options.peers.push(peer(&text).ok_or_else(|| from.wrong("peers", WANTED_PEER))?);
    }
    options.gossip_bind = texts(from, "gossip_bind")?;
    options.gossip_connect = texts(from, "gossip_connect")?;
    options.contest = texts(from, "contest")?;
    options.keys = keys(from)?;
    options.allow = allow(from)?;
    from.set("high_water_mark", &mut options.high_water_mark)?;
    from.set("high_water_bytes", &mut options.high_water_bytes)?;
    from.set("max_message_size", &mut options.max_message_size)?;
    // None turns the heartbeat off, unlike a missing setting.
    if from.given("heartbeat")?.is_some() {
        options.heartbeat = seconds(from, "heartbeat")?;
    }
    options.events = options::EVENTS;
    from.set("queue", &mut options.events.messages)?;
    from.set("queue_bytes", &mut options.events.bytes)?;
    from.set("shared_memory", &mut options.shared_memory.enabled)?;
    from.set("shared_memory_size", &mut options.shared_memory.pool_size)?;
    from.set("shared_memory_threshold", &mut options.shared_memory.threshold)?;
    from.set("shared_memory_users", &mut options.shared_memory.users)?;
    if let Some(word) = from.take::<String>("on_overflow")? {
        options.events.overflow = overflow(&word).ok_or_else(|| {
            from.wrong("on_overflow", format!("expected block, drop_newest or drop_oldest, not {word:?}"))
        })?;
    }
    Ok(options)
}

/// Policy for a full queue, by name.
pub(crate) fn overflow(word: &str) -> Option<Overflow> {
    let policies = [options::EVENTS.overflow, Overflow::DropNewest, Overflow::DropOldest];
    policies.into_iter().find(|policy| policy.word() == word)
}
