//! Single values: checked when they enter the tree, and parsed by the same functions when read.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use crate::net::interfaces::Selector;
use serde_json::{Map, Value};
use zwire_proto::{
    zenoh::{CongestionControl, KeyExpr, Priority, Reliability, WhatAmI, ZenohId},
    zre::node::Interface,
};

use super::{
    ConfigError, Endpoint, KEYS, Key, Kind,
    endpoint::{HIDDEN, redacted},
    error::Result,
    intercept,
    nearest::nearest,
};

/// Number of endpoints of a group that have to be connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupStrategy {
    /// All, as links of the same session.
    #[default]
    AllOf,
    /// The first that answers.
    OneOf,
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// No role.
    pub const NONE: Self = Self(0);

    /// Whether the set contains `role`.
    #[must_use]
    pub const fn contains(self, role: WhatAmI) -> bool {
        self.0 & role.to_mask() != 0
    }

    /// The mask of SCOUT: router 1, peer 2, client 4.
    #[must_use]
    pub const fn mask(self) -> u8 {
        self.0
    }

    /// Whether the set contains no role.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<WhatAmI> for Roles {
    fn from_iter<I: IntoIterator<Item = WhatAmI>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |mask, role| mask | role.to_mask()))
    }
}

/// Which of two nodes connects, by the role of the other node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoConnect {
    /// Rule towards routers.
    pub to_router: AutoConnectRule,
    /// Rule towards peers.
    pub to_peer: AutoConnectRule,
}

/// Whether to connect to a node that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoConnectRule {
    /// Always.
    #[default]
    Always,
    /// Only if the own id is the greater number.
    GreaterZid,
}

impl AutoConnect {
    /// Whether a node with id `own` connects to a node with id `other`.
    #[must_use]
    pub fn allows(self, own: ZenohId, other: ZenohId, role: WhatAmI) -> bool {
        let rule = match role {
            WhatAmI::Router => self.to_router,
            WhatAmI::Peer | WhatAmI::Client => self.to_peer,
        };
        match rule {
            AutoConnectRule::Always => own != other,
            AutoConnectRule::GreaterZid => own.number() > other.number(),
        }
    }
}

/// Entry of `qos/publication`; `None` leaves the value of the caller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublicationQos {
    /// The keys that it applies to.
    pub key_exprs: Vec<KeyExpr>,
    /// Replaces the congestion control.
    pub congestion_control: Option<CongestionControl>,
    /// Replaces the priority; never Control.
    pub priority: Option<Priority>,
    /// Replaces express.
    pub express: Option<bool>,
    /// Replaces the reliability.
    pub reliability: Option<Reliability>,
    /// Replaces the destination.
    pub allowed_destination: Option<Destination>,
}

/// Sessions that a publication may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// All sessions.
    #[default]
    Any,
    /// Only the own session.
    SessionLocal,
    /// Only other sessions.
    Remote,
}

/// Longest part of an invalid value that an error repeats, in characters.
const SHOWN: usize = 60;

/// Names of the priorities, the most urgent first.
pub(super) const PRIORITIES: [&str; Priority::COUNT] = [
    "control",
    "real_time",
    "interactive_high",
    "interactive_low",
    "data_high",
    "data",
    "data_low",
    "background",
];

/// The modes as keys of a per-mode value.
const MODES: [&str; 3] = ["router", "peer", "client"];

/// Checks a value for a key and converts it to the form stored in the tree.
pub(super) fn check(key: &Key, value: Value) -> Result<Value> {
    match value {
        Value::Null => Ok(key.initial()),
        Value::Object(mut map) if key.per_mode && is_per_mode(key.kind, &map) => {
            if let Some(name) = map.keys().find(|name| !MODES.contains(&name.as_str())) {
                return Err(unknown(key.path, name, &MODES));
            }
            let mut modes = Map::new();
            // In the order that eclipse-zenoh prints, independent of the input.
            for mode in MODES {
                if let Some(value) = map.shift_remove(mode).filter(|value| !value.is_null()) {
                    let value = normal(key.kind, &format!("{}/{mode}", key.path), value)?;
                    modes.insert(mode.to_owned(), value);
                }
            }
            Ok(Value::Object(modes))
        }
        value => normal(key.kind, key.path, value),
    }
}

/// Part of a checked value that applies to a mode; `None` asks for the default.
pub(super) fn for_mode<'a>(key: &Key, value: &'a Value, mode: WhatAmI) -> Option<&'a Value> {
    match value {
        Value::Null => None,
        Value::Object(map) if key.per_mode && is_per_mode(key.kind, map) => map.get(&mode.to_string()),
        value => Some(value),
    }
}

/// Whether an object gives one value per mode, for a key that allows it.
fn is_per_mode(kind: Kind, map: &Map<String, Value>) -> bool {
    kind != Kind::AutoConnect || !map.keys().any(|name| name.starts_with("to_"))
}

fn normal(kind: Kind, path: &str, value: Value) -> Result<Value> {
    match kind {
        Kind::Bool => boolean(path, &value).map(Value::from),
        Kind::Int(..) => integer(kind, path, &value).map(Value::from),
        Kind::Float(..) => float(kind, path, &value).map(|_| value),
        Kind::Text(_) | Kind::Secret | Kind::Choice(_) => text(kind, path, &value).map(Value::from),
        Kind::Zid => zid(path, &value).map(|_| value),
        Kind::Group => group(path, &value).map(|_| value),
        Kind::Endpoints { groups } => {
            endpoints(groups, path, &value).map(|list| endpoints_json(&value, list))
        }
        Kind::Roles => roles(path, &value).map(|_| value),
        Kind::AutoConnect => auto_connect(path, &value).map(|_| value),
        Kind::Key => key_expr(path, &value, true).map(|_| value),
        Kind::KeyExprs => key_exprs(path, &value).map(|_| value),
        Kind::Weights => weights(path, &value).map(|_| value),
        Kind::Words | Kind::Interfaces => words(kind, path, &value).map(|_| value),
        Kind::Networks => networks(path, &value).map(|_| value),
        Kind::Users => users(path, &value).map(|_| value),
        Kind::Entries(entries) => intercept::check(entries, path, &value).map(|()| value),
        Kind::List if value.is_array() => Ok(value),
        Kind::List => Err(wrong(kind, path, &value)),
        Kind::Any => Ok(sorted(value)),
    }
}

/// Sorts objects by name, as eclipse-zenoh does with those of free form.
pub(super) fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

fn wrong(kind: Kind, path: &str, value: &Value) -> ConfigError {
    let got = if kind == Kind::Secret { type_of(value).to_owned() } else { shown(value) };
    ConfigError::value(path, kind.expected(), got)
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The value as JSON, shortened.
pub(super) fn shown(value: &Value) -> String {
    shorten(&redacted(&value.to_string()), SHOWN)
}

/// A value without secrets: those of endpoints, and all texts below a name of a secret.
pub(super) fn without_secrets(value: &mut Value, is_secret: bool) {
    match value {
        Value::String(_) if is_secret => *value = HIDDEN.into(),
        Value::String(text) if text.contains('=') => *text = redacted(text),
        Value::Array(items) => items.iter_mut().for_each(|item| without_secrets(item, is_secret)),
        Value::Object(map) => {
            // As in eclipse-zenoh: plugins keep secrets in such objects.
            map.remove("private");
            for (name, value) in map {
                without_secrets(value, is_secret || is_secret_key(name));
            }
        }
        _ => {}
    }
}

/// Whether the last part of a path names a secret: of a key, or in a key of free form.
pub(super) fn is_secret_key(name: &str) -> bool {
    let last = |path: &str| path.rsplit('/').next() == Some(name);
    KEYS.iter().any(|key| key.kind == Kind::Secret && last(key.path))
        || ["password", "secret"].iter().any(|word| name.to_ascii_lowercase().contains(word))
}

/// Shortens external text for an error message.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn unknown(path: &str, name: &str, known: &[&str]) -> ConfigError {
    ConfigError::UnknownKey {
        path: format!("{path}/{}", shorten(name, SHOWN)),
        nearest: format!("{path}/{}", nearest(name, known).unwrap_or_default()),
    }
}

pub(super) fn boolean(path: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong(Kind::Bool, path, value))
}

/// Parses an integer; `1e3` and `5.0` are integers as well.
pub(super) fn integer(kind: Kind, path: &str, value: &Value) -> Result<i64> {
    // Up to this bound every integral f64 is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |f: f64| (f.fract() == 0.0 && f.abs() <= EXACT).then_some(f as i64);
    let number = value.as_i64().or_else(|| value.as_f64().and_then(whole));
    match (kind, number) {
        (Kind::Int(min, max), Some(n)) if (min..=max).contains(&n) => Ok(n),
        _ => Err(wrong(kind, path, value)),
    }
}

pub(super) fn float(kind: Kind, path: &str, value: &Value) -> Result<f64> {
    match (kind, value.as_f64()) {
        (Kind::Float(min, max), Some(f)) if (min..=max).contains(&f) => Ok(f),
        _ => Err(wrong(kind, path, value)),
    }
}

pub(super) fn text<'a>(kind: Kind, path: &str, value: &'a Value) -> Result<&'a str> {
    let text = value.as_str().filter(|text| match kind {
        Kind::Text(max) => text.len() <= max,
        Kind::Choice(words) => words.contains(text),
        _ => true,
    });
    text.ok_or_else(|| wrong(kind, path, value))
}

pub(super) fn zid(path: &str, value: &Value) -> Result<ZenohId> {
    let hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    value
        .as_str()
        .filter(|text| text.len() <= 32 && !text.starts_with('0') && text.bytes().all(hex))
        .and_then(|text| u128::from_str_radix(text, 16).ok())
        .and_then(ZenohId::new)
        .ok_or_else(|| wrong(Kind::Zid, path, value))
}

pub(super) fn group(path: &str, value: &Value) -> Result<SocketAddr> {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .filter(|address: &SocketAddr| address.ip().is_multicast())
        .ok_or_else(|| wrong(Kind::Group, path, value))
}

/// Parses names, patterns, addresses and networks of interfaces; an empty list for `auto`.
fn interfaces(path: &str, value: &Value) -> Result<Vec<String>> {
    let wrong = || wrong(Kind::Interfaces, path, value);
    parse_interfaces(value.as_str().ok_or_else(wrong)?).map_err(|_| wrong())
}

/// The elements of such a list, or the first invalid one.
pub(crate) fn parse_interfaces(text: &str) -> core::result::Result<Vec<String>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "auto"));
    words.map(|word| word.parse::<Selector>().map(|_| word.to_owned()).map_err(|error| error.0)).collect()
}

fn list<'a>(kind: Kind, path: &str, value: &'a Value) -> Result<&'a [Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(kind, path, value))
}

/// Parses a list of texts, or the [names](interfaces) of interfaces.
pub(super) fn words(kind: Kind, path: &str, value: &Value) -> Result<Vec<String>> {
    if kind == Kind::Interfaces {
        return interfaces(path, value);
    }
    let words = list(kind, path, value)?.iter().map(|word| word.as_str().map(str::to_owned));
    words.collect::<Option<_>>().ok_or_else(|| wrong(kind, path, value))
}

pub(super) fn networks(path: &str, value: &Value) -> Result<Vec<Interface>> {
    let network = |text: &Value| {
        let (address, prefix) = text.as_str()?.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most)?;
        Some(Interface { address, prefix })
    };
    let all = list(Kind::Networks, path, value)?.iter().map(network);
    all.collect::<Option<_>>().ok_or_else(|| wrong(Kind::Networks, path, value))
}

pub(super) fn users(path: &str, value: &Value) -> Result<Vec<u32>> {
    let user = |item: &Value| u32::try_from(item.as_u64()?).ok().filter(|user| *user != u32::MAX);
    let users = list(Kind::Users, path, value)?.iter().map(user);
    users.collect::<Option<_>>().ok_or_else(|| wrong(Kind::Users, path, value))
}

pub(super) fn role(text: &str) -> Option<WhatAmI> {
    match text {
        "router" => Some(WhatAmI::Router),
        "peer" => Some(WhatAmI::Peer),
        "client" => Some(WhatAmI::Client),
        _ => None,
    }
}

pub(super) fn roles(path: &str, value: &Value) -> Result<Roles> {
    let roles = list(Kind::Roles, path, value)?.iter().map(|item| item.as_str().and_then(role));
    roles.collect::<Option<_>>().ok_or_else(|| wrong(Kind::Roles, path, value))
}

pub(super) fn auto_connect(path: &str, value: &Value) -> Result<AutoConnect> {
    let rule = |value: &Value| match value.as_str() {
        Some("always") => Some(AutoConnectRule::Always),
        Some("greater-zid") => Some(AutoConnectRule::GreaterZid),
        _ => None,
    };
    let bad = |value| wrong(Kind::AutoConnect, path, value);
    let Some(map) = value.as_object() else {
        let both = rule(value).ok_or_else(|| bad(value))?;
        return Ok(AutoConnect { to_router: both, to_peer: both });
    };
    let mut strategy = AutoConnect::default();
    for (name, value) in map {
        let side = match name.as_str() {
            "to_router" => &mut strategy.to_router,
            "to_peer" => &mut strategy.to_peer,
            _ => return Err(unknown(path, name, &["to_router", "to_peer"])),
        };
        *side = rule(value).ok_or_else(|| bad(value))?;
    }
    Ok(strategy)
}

pub(super) fn key_expr(path: &str, value: &Value, plain: bool) -> Result<KeyExpr> {
    let expected = || if plain { Kind::Key.expected() } else { "a key expression".to_owned() };
    let text = value.as_str().ok_or_else(|| ConfigError::value(path, expected(), shown(value)))?;
    let key = KeyExpr::new(text).map_err(|source| ConfigError::KeyExpr {
        path: path.to_owned(),
        text: shorten(text, SHOWN),
        source,
    })?;
    if plain && key.is_wild() { Err(wrong(Kind::Key, path, value)) } else { Ok(key) }
}

pub(super) fn key_exprs(path: &str, value: &Value) -> Result<Vec<KeyExpr>> {
    let items = list(Kind::KeyExprs, path, value)?.iter().enumerate();
    items.map(|(i, item)| key_expr(&format!("{path}/{i}"), item, false)).collect()
}

/// Parses the groups of `connect/endpoints`; a plain string is a group of one.
pub(super) fn endpoints(
    groups: bool,
    path: &str,
    value: &Value,
) -> Result<Vec<(GroupStrategy, Vec<Endpoint>)>> {
    let kind = Kind::Endpoints { groups };
    let mut all = Vec::new();
    for (i, item) in list(kind, path, value)?.iter().enumerate() {
        let path = format!("{path}/{i}");
        match item {
            Value::String(text) => all.push((GroupStrategy::AllOf, vec![endpoint(&path, text)?])),
            Value::Object(map) if groups => all.push(endpoint_group(&path, item, map)?),
            other => return Err(wrong(kind, &path, other)),
        }
    }
    Ok(all)
}

fn endpoint_group(
    path: &str,
    item: &Value,
    map: &Map<String, Value>,
) -> Result<(GroupStrategy, Vec<Endpoint>)> {
    if let Some(name) = map.keys().find(|name| !matches!(name.as_str(), "strategy" | "locators")) {
        return Err(unknown(path, name, &["strategy", "locators"]));
    }
    const KIND: Kind = Kind::Choice(&["allOf", "oneOf"]);
    let missing = || wrong(Kind::Endpoints { groups: true }, path, item);
    let strategy = map.get("strategy").ok_or_else(missing)?;
    let strategy = match text(KIND, &format!("{path}/strategy"), strategy)? {
        "oneOf" => GroupStrategy::OneOf,
        _ => GroupStrategy::AllOf,
    };
    let locators = map.get("locators").ok_or_else(missing)?;
    let members = endpoints(false, &format!("{path}/locators"), locators)?;
    Ok((strategy, members.into_iter().flat_map(|(_, endpoints)| endpoints).collect()))
}

fn endpoint(path: &str, text: &str) -> Result<Endpoint> {
    Endpoint::new(text).map_err(|source| ConfigError::Endpoint { path: path.to_owned(), source })
}

/// The list with canonical endpoints, in the same shape as `given`.
fn endpoints_json(given: &Value, list: Vec<(GroupStrategy, Vec<Endpoint>)>) -> Value {
    let items = given.as_array().map_or(&[][..], Vec::as_slice);
    let element = |(item, (_, endpoints)): (&Value, (GroupStrategy, Vec<Endpoint>))| {
        let mut texts = endpoints.iter().map(|e| Value::from(e.as_str()));
        match item {
            Value::Object(map) => {
                let mut map = map.clone();
                map.insert("locators".to_owned(), texts.collect());
                Value::Object(map)
            }
            _ => texts.next().unwrap_or(Value::Null),
        }
    };
    items.iter().zip(list).map(element).collect()
}

pub(super) fn weights(path: &str, value: &Value) -> Result<BTreeMap<ZenohId, u16>> {
    let entry = |item: &Value| {
        let map = item.as_object()?;
        let id = map.get("dst_zid")?.as_str()?.parse().ok()?;
        let weight = u16::try_from(map.get("weight")?.as_u64()?).ok().filter(|weight| *weight > 0)?;
        (map.len() == 2).then_some((id, weight))
    };
    let items = list(Kind::Weights, path, value)?.iter();
    items.map(|item| entry(item).ok_or_else(|| wrong(Kind::Weights, path, item))).collect()
}

/// Accepts the default only: each neighbour belongs to the region of its role.
pub(super) fn south(path: &str, value: &Value) -> Result<()> {
    if value.as_str() == Some("auto") {
        return Ok(());
    }
    let expected = "\"auto\", because subregions of one's own are not supported";
    Err(ConfigError::value(path, expected, value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_connects_by_id() {
        let (low, high) = (ZenohId::new(1).unwrap(), ZenohId::new(2).unwrap());
        let rule = AutoConnect { to_peer: AutoConnectRule::GreaterZid, ..Default::default() };
        assert!(rule.allows(high, low, WhatAmI::Peer));
        assert!(!rule.allows(low, high, WhatAmI::Peer));
        assert!(rule.allows(low, high, WhatAmI::Router));
        assert!(!rule.allows(low, low, WhatAmI::Router), "never to oneself");
    }
}
