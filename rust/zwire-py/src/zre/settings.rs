//! Conversion of the settings of a node from Python to the engine.

use crate::{errors, zre::node};
use core::{ops::RangeInclusive, time::Duration};
use pyo3::{
    conversion::FromPyObjectOwned,
    prelude::*,
    types::{PyDict, PyString},
};
use std::{collections::HashSet, sync::Arc};
use zwire_engine::{
    queue::{Bounds, Overflow},
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

/// Name of a generation.
pub(crate) const fn generation_name(generation: Generation) -> &'static str {
    match generation {
        Generation::Rfc20 => "20",
        Generation::Zyre1 => "zyre1",
        Generation::Rfc36 => "36",
        Generation::Rfc43 => "43",
    }
}

/// Settings by name.
struct Settings<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.0.py()
    }

    fn wrong(&self, name: &str, problem: impl core::fmt::Display) -> PyErr {
        errors::setting(self.py(), name, &problem.to_string())
    }

    /// The value of a setting, unless it is missing or None.
    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    fn take<T: FromPyObjectOwned<'py>>(&self, name: &str, wanted: &str) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match value.extract() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(name, format!("expected {wanted}, not {}", value.repr()?))),
        }
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.take(name, "a text")
    }

    fn texts(&self, name: &str) -> PyResult<Vec<String>> {
        match self.get(name)? {
            // A text is a sequence of texts as well; it is taken as a single element.
            Some(value) if value.is_instance_of::<PyString>() => Ok(vec![value.extract()?]),
            Some(_) => Ok(self.take(name, "a sequence of texts")?.unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    /// Reads a time in seconds, above zero.
    fn seconds(&self, name: &str) -> PyResult<Option<Duration>> {
        let Some(seconds) = self.take::<f64>(name, "a number of seconds")? else { return Ok(None) };
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() => Ok(Some(time)),
            _ => Err(self.wrong(name, format!("expected seconds above 0, not {seconds}"))),
        }
    }

    fn count(&self, name: &str) -> PyResult<Option<usize>> {
        match self.take::<usize>(name, "a number above 0")? {
            Some(0) => Err(self.wrong(name, "expected a number above 0, not 0")),
            count => Ok(count),
        }
    }

    fn port(&self, name: &str) -> PyResult<Option<u16>> {
        self.take(name, "a port, 0 to 65535")
    }

    fn flag(&self, name: &str) -> PyResult<Option<bool>> {
        self.take(name, "True or False")
    }

    fn key(&self, name: &str) -> PyResult<Option<[u8; 32]>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match z85::decode_key(text.as_bytes()) {
            Some(key) => Ok(Some(key)),
            // The value may be a secret, so it is not shown.
            None => Err(self.wrong(name, "expected a key in Z85, 40 characters")),
        }
    }

    fn uuid(&self) -> PyResult<Uuid> {
        match self.get("uuid")? {
            Some(value) => node::uuid(self.py(), &value).map_err(|error| self.wrong("uuid", error)),
            None => {
                let mut bytes = [0; 16];
                fill(&mut bytes)?;
                Ok(Uuid::from_random(bytes))
            }
        }
    }

    fn generations(&self) -> PyResult<Option<Generations>> {
        if self.get("generations")?.is_none() {
            return Ok(None);
        }
        let mut generations = Generations::NONE;
        for name in self.texts("generations")? {
            let found = Generation::ALL.into_iter().find(|generation| generation_name(*generation) == name);
            let found = found.ok_or_else(|| {
                self.wrong("generations", format!("expected 20, zyre1, 36 or 43, not {name:?}"))
            })?;
            generations = generations.with(found);
        }
        Ok(Some(generations))
    }

    fn headers(&self) -> PyResult<Vec<(Text, Text)>> {
        let Some(value) = self.get("headers")? else { return Ok(Vec::new()) };
        let pairs =
            value.call_method0("items").and_then(|items| items.try_iter()?.collect::<PyResult<Vec<_>>>());
        let pairs = pairs.map_err(|_| self.wrong("headers", "expected a mapping of texts to texts"))?;
        let pair = |pair: Bound<'_, PyAny>| match pair.extract::<(String, String)>() {
            Ok((name, value)) => Ok((Text::from(name), Text::from(value))),
            Err(_) => Err(self.wrong("headers", "expected a mapping of texts to texts")),
        };
        pairs.into_iter().map(pair).collect()
    }

    fn mailbox(&self) -> PyResult<Option<RangeInclusive<u16>>> {
        let Some(value) = self.get("mailbox")? else { return Ok(None) };
        if let Ok(port) = value.extract::<u16>() {
            return Ok(Some(port..=port));
        }
        match value.extract::<(u16, u16)>() {
            Ok((first, last)) if first <= last => Ok(Some(first..=last)),
            _ => {
                Err(self
                    .wrong("mailbox", format!("expected a port or a pair of ports, not {}", value.repr()?)))
            }
        }
    }

    fn keys(&self) -> PyResult<Option<Keys>> {
        let (public, secret) = (self.key("public_key")?, self.key("secret_key")?);
        let Some(secret) = secret else {
            return match public {
                Some(_) => Err(self.wrong("secret_key", "missing beside public_key")),
                None => Ok(None),
            };
        };
        let derived = KeyPair::of(SecretKey::new(secret)).public.0;
        if public.is_some_and(|public| public != derived) {
            return Err(self.wrong("public_key", "not the public key of secret_key"));
        }
        Ok(Some(Keys { public: derived, secret }))
    }

    /// Reads a set of keys, or a callable that decides.
    fn allow(&self) -> PyResult<Option<Allow>> {
        let Some(value) = self.get("allow")? else { return Ok(None) };
        if value.is_callable() {
            let judge = value.unbind();
            return Ok(Some(Arc::new(move |key: &[u8; 32]| judged(&judge, key))));
        }
        let mut keys = HashSet::new();
        for text in self.texts("allow")? {
            let key = z85::decode_key(text.as_bytes());
            keys.insert(key.ok_or_else(|| {
                self.wrong("allow", format!("expected keys in Z85, 40 characters each, not {text:?}"))
            })?);
        }
        Ok(Some(Arc::new(move |key| keys.contains(key))))
    }
}

/// Calls the application's filter. An exception refuses the key, and goes to `sys.unraisablehook`.
fn judged(judge: &Py<PyAny>, key: &[u8; 32]) -> bool {
    let asked = Python::try_attach(|py| {
        let text = String::from_utf8_lossy(&z85::encode_key(key)).into_owned();
        let answer = judge.call1(py, (text,)).and_then(|answer| answer.is_truthy(py));
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

/// Converts the settings to the options of a node.
pub(crate) fn options(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<NodeOptions> {
    let s = Settings(settings);
    let mut options = NodeOptions::new(s.uuid()?);
    let machine = &mut options.machine;
    if let Some(name) = s.text("name")? {
        machine.name = name.into();
    }
    machine.headers = s.headers()?;
    machine.generations = s.generations()?.unwrap_or(machine.generations);
    machine.advertise = s.text("advertise")?.map(Text::from);
    machine.beacon_interval = match s.flag("beacons")? {
        Some(false) => None,
        _ => s.seconds("interval")?.or(machine.beacon_interval),
    };
    machine.evasive = s.seconds("evasive")?.unwrap_or(machine.evasive);
    machine.expired = s.seconds("expired")?.unwrap_or(machine.expired);
    if machine.expired <= machine.evasive {
        let problem = format!("{:?} is not above evasive, {:?}", machine.expired, machine.evasive);
        return Err(errors::setting(py, "expired", &problem));
    }
    machine.ping_interval = s.seconds("ping_interval")?.unwrap_or(machine.ping_interval);
    machine.detection_wait = s.seconds("detection_wait")?.unwrap_or(machine.detection_wait);
    machine.collector = s.text("collector")?.map(Text::from);
    machine.log_traffic = s.flag("log_traffic")?.unwrap_or(machine.log_traffic);
    machine.drafts = s.flag("drafts")?.unwrap_or(machine.drafts);
    machine.renew_after = s.take("renew_after", "a number of messages, 1 to 65535")?.or(machine.renew_after);
    machine.max_peers = s.count("max_peers")?.unwrap_or(machine.max_peers);
    machine.max_unanswered = s.count("max_unanswered")?.unwrap_or(machine.max_unanswered);
    for text in s.texts("interfaces")? {
        options.interfaces.push(text.parse().map_err(|error| s.wrong("interfaces", error))?);
    }
    options.beacon_port = s.port("beacon_port")?.unwrap_or(options.beacon_port);
    options.bind = s.text("bind")?.unwrap_or(options.bind);
    options.mailbox = s.mailbox()?.unwrap_or(options.mailbox);
    for text in s.texts("peers")? {
        options.peers.push(peer(&text).ok_or_else(|| s.wrong("peers", WANTED_PEER))?);
    }
    options.gossip_bind = s.texts("gossip_bind")?;
    options.gossip_connect = s.texts("gossip_connect")?;
    options.contest = s.texts("contest")?;
    options.keys = s.keys()?;
    options.allow = s.allow()?;
    options.high_water_mark = s.count("high_water_mark")?.unwrap_or(options.high_water_mark);
    options.high_water_bytes = s.count("high_water_bytes")?.unwrap_or(options.high_water_bytes);
    options.max_message_size = s.count("max_message_size")?.unwrap_or(options.max_message_size);
    // None turns the heartbeat off, unlike a missing setting.
    if s.0.contains("heartbeat")? {
        options.heartbeat = s.seconds("heartbeat")?;
    }
    options.events = Bounds {
        messages: s.count("queue")?.unwrap_or(options::EVENTS.messages),
        bytes: s.count("queue_bytes")?.unwrap_or(options::EVENTS.bytes),
        overflow: match s.text("on_overflow")? {
            None => options::EVENTS.overflow,
            Some(word) => overflow(&word).ok_or_else(|| {
                let problem = format!("expected block, drop_newest or drop_oldest, not {word:?}");
                s.wrong("on_overflow", problem)
            })?,
        },
    };
    Ok(options)
}

/// Policy for a full queue, by name.
pub(crate) fn overflow(word: &str) -> Option<Overflow> {
    match word {
        "block" => Some(options::EVENTS.overflow),
        "drop_newest" => Some(Overflow::DropNewest),
        "drop_oldest" => Some(Overflow::DropOldest),
        _ => None,
    }
}
