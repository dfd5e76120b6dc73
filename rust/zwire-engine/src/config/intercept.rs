//! Policies for messages: `downsampling`, `access_control`, `qos/network`, `qos/publication`, `low_pass_filter`.

use super::{
    ConfigError, Destination, Kind, PublicationQos,
    error::Result,
    keys::Entries,
    values::{PRIORITIES, boolean, key_expr, key_exprs, role, shown, unknown, zid},
};
use core::{ops::RangeInclusive, time::Duration};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Reliability,
    discovery::Binding,
    intercept::{
        AccessControl, AccessPolicy, AccessRule, Downsampling, Filter, Flows, Links, LowPass, MessageKind,
        MessageKinds, Overwrite, QosNetwork, Rate, RuleMatch,
    },
};

/// Names of protocols that an entry may select: those of eclipse-zenoh, some of which this build lacks.
const PROTOCOLS: [&str; 9] =
    ["tcp", "udp", "tls", "quic", "quic_datagram", "ws", "unixsock-stream", "unixpipe", "vsock"];

/// JSON object of the configuration, with its path.
struct InterceptEntry<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> InterceptEntry<'a> {
    /// Checks that a value is an object without other names than these.
    fn new(path: &str, value: &'a Value, names: &[&str]) -> Result<Self> {
        let Some(map) = value.as_object() else { return Err(wrong(path, "an object", value)) };
        match map.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(unknown(path, name, names)),
            None => Ok(Self { path: path.to_owned(), map }),
        }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Reads a member; `None` if it is absent or null.
    fn get<T>(&self, name: &str, read: impl FnOnce(&str, &'a Value) -> Result<T>) -> Result<Option<T>> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&self.at(name), value).map(Some),
        }
    }

    fn need<T>(&self, name: &str, read: impl FnOnce(&str, &'a Value) -> Result<T>) -> Result<T> {
        self.get(name, read)?.ok_or_else(|| wrong(&self.at(name), "a value", &Value::Null))
    }

    fn links(&self) -> Result<Links> {
        let words = |name| self.get(name, |path, value| all(path, value, text));
        Ok(Links {
            zids: self.get("zids", |path, value| all(path, value, zid))?,
            interfaces: words("interfaces")?,
            protocols: self.get("link_protocols", |path, value| {
                all(path, value, |path, value| {
                    word(path, value, &PROTOCOLS).map(|at| PROTOCOLS[at].to_owned())
                })
            })?,
            common_names: words("cert_common_names")?,
            usernames: words("usernames")?,
        })
    }

    fn flows(&self) -> Result<Flows> {
        const FLOWS: [&str; 2] = ["ingress", "egress"];
        let Some(flows) = self.get("flows", |path, value| some(path, value, |p, v| word(p, v, &FLOWS)))?
        else {
            return Ok(Flows::default());
        };
        Ok(Flows { ingress: flows.contains(&0), egress: flows.contains(&1) })
    }

    /// Reads message kinds out of `of`; all of them if the member is absent and `optional`.
    fn messages(&self, of: &[MessageKind], optional: bool) -> Result<MessageKinds> {
        let mut names: Vec<&str> = of.iter().map(|kind| kind.name()).collect();
        if of == DATA {
            // Older name that stands for both kinds of publication.
            names.push("push");
        }
        let read = |path: &str, value: &'a Value| some(path, value, |p, v| word(p, v, &names));
        let Some(found) = self.get("messages", read)? else {
            return match optional {
                true => Ok(of.iter().copied().collect()),
                false => Err(wrong(&self.at("messages"), "a list", &Value::Null)),
            };
        };
        let kinds = found.into_iter().flat_map(|at| match of.get(at) {
            Some(kind) => vec![*kind],
            None => vec![MessageKind::Put, MessageKind::Delete],
        });
        Ok(kinds.collect())
    }

    fn qos(&self) -> Result<Overwrite> {
        const CONGESTION: [CongestionControl; 3] = CongestionControl::ALL;
        Ok(Overwrite {
            // Without Control, the first priority, which applications must not use.
            priority: self.get("priority", |p, v| Ok(Priority::ALL[word(p, v, &PRIORITIES[1..])? + 1]))?,
            congestion: self.get("congestion_control", |p, v| {
                Ok(CONGESTION[word(p, v, &CONGESTION.map(CongestionControl::name))?])
            })?,
            express: self.get("express", boolean)?,
        })
    }

    fn reliability(&self) -> Result<Option<Reliability>> {
        use Reliability::{BestEffort, Reliable};
        self.get("reliability", |p, v| Ok([BestEffort, Reliable][word(p, v, &["best_effort", "reliable"])?]))
    }

    fn filter(&self, of: &[MessageKind], optional: bool) -> Result<Filter> {
        Ok(Filter { links: self.links()?, flows: self.flows()?, messages: self.messages(of, optional)? })
    }
}

/// Message kinds that limits and QoS changes apply to.
const DATA: &[MessageKind] = &[MessageKind::Put, MessageKind::Delete, MessageKind::Query, MessageKind::Reply];

fn wrong(path: &str, expected: &str, value: &Value) -> ConfigError {
    ConfigError::value(path, expected, shown(value))
}

fn text(path: &str, value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(path, "a string", value))
}

/// Index of a word in a list.
fn word(path: &str, value: &Value, words: &[&str]) -> Result<usize> {
    let found = value.as_str().and_then(|text| words.iter().position(|word| *word == text));
    found.ok_or_else(|| wrong(path, &format!("one of \"{}\"", words.join("\", \"")), value))
}

fn all<'a, T>(path: &str, value: &'a Value, read: impl Fn(&str, &'a Value) -> Result<T>) -> Result<Vec<T>> {
    let items = value.as_array().ok_or_else(|| wrong(path, "a list", value))?;
    items.iter().enumerate().map(|(i, item)| read(&format!("{path}/{i}"), item)).collect()
}

/// Reads a list of objects without other names than these.
fn entries<'a, T>(
    path: &str,
    value: &'a Value,
    names: &[&str],
    read: impl Fn(&InterceptEntry<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    all(path, value, |path, value| read(&InterceptEntry::new(path, value, names)?))
}

/// As [`all`], but requires a list that is not empty.
fn some<'a, T>(path: &str, value: &'a Value, read: impl Fn(&str, &'a Value) -> Result<T>) -> Result<Vec<T>> {
    let found = all(path, value, read)?;
    if found.is_empty() { Err(wrong(path, "a list that is not empty", value)) } else { Ok(found) }
}

fn size(path: &str, value: &Value) -> Result<usize> {
    let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| wrong(path, "a number of bytes", value))
}

pub(super) fn downsampling(path: &str, value: &Value) -> Result<Vec<Downsampling>> {
    const NAMES: [&str; 6] = ["id", "interfaces", "link_protocols", "flows", "messages", "rules"];
    entries(path, value, &NAMES, |entry| {
        Ok(Downsampling {
            filter: entry.filter(DATA, true)?,
            rates: entry.need("rules", |path, value| some(path, value, rate))?,
        })
    })
}

fn rate(path: &str, value: &Value) -> Result<Rate> {
    let entry = InterceptEntry::new(path, value, &["key_expr", "freq"])?;
    let freq = entry.need("freq", |path, value| {
        let freq = value.as_f64().filter(|freq| *freq >= 0.0 && freq.is_finite());
        freq.ok_or_else(|| wrong(path, "messages a second", value))
    })?;
    // A period beyond the range of `Duration` means never again.
    let period = || Duration::try_from_secs_f64(freq.recip()).unwrap_or(Duration::MAX);
    Ok(Rate {
        key: entry.need("key_expr", |path, value| key_expr(path, value, false))?,
        period: (freq > 0.0).then(period),
    })
}

pub(super) fn low_pass(path: &str, value: &Value) -> Result<Vec<LowPass>> {
    const NAMES: [&str; 7] =
        ["id", "interfaces", "link_protocols", "flows", "messages", "key_exprs", "size_limit"];
    entries(path, value, &NAMES, |entry| {
        Ok(LowPass {
            filter: entry.filter(DATA, true)?,
            keys: entry.need("key_exprs", key_exprs)?,
            size_limit: entry.need("size_limit", size)?,
        })
    })
}

pub(super) fn qos_network(path: &str, value: &Value) -> Result<Vec<QosNetwork>> {
    const NAMES: [&str; 10] = [
        "id",
        "zids",
        "interfaces",
        "link_protocols",
        "flows",
        "messages",
        "qos",
        "payload_size",
        "key_exprs",
        "overwrite",
    ];
    const QOS: [&str; 4] = ["priority", "congestion_control", "express", "reliability"];
    entries(path, value, &NAMES, |entry| {
        let qos = entry.get("qos", |path, value| {
            let entry = InterceptEntry::new(path, value, &QOS)?;
            Ok((entry.qos()?, entry.reliability()?))
        })?;
        let (only, reliability) = qos.unwrap_or_default();
        Ok(QosNetwork {
            filter: entry.filter(DATA, false)?,
            keys: entry.get("key_exprs", key_exprs)?,
            payload_size: entry.get("payload_size", range)?.unwrap_or(0..=usize::MAX),
            only,
            reliability,
            overwrite: entry
                .need("overwrite", |path, value| InterceptEntry::new(path, value, &QOS[..3])?.qos())?,
        })
    })
}

pub(super) fn publication_qos(path: &str, value: &Value) -> Result<Vec<PublicationQos>> {
    const NAMES: [&str; 5] =
        ["congestion_control", "priority", "express", "reliability", "allowed_destination"];
    all(path, value, |path, value| {
        let bad = || wrong(path, &Kind::Entries(Entries::QosPublication).expected(), value);
        let map = value.as_object().ok_or_else(bad)?;
        let entry = InterceptEntry::new(path, value, &["key_exprs", "config"])?;
        let key_exprs = key_exprs(&entry.at("key_exprs"), map.get("key_exprs").ok_or_else(bad)?)?;
        let config = map.get("config").filter(|config| config.is_object()).ok_or_else(bad)?;
        let config = InterceptEntry::new(&entry.at("config"), config, &NAMES)?;
        let Overwrite { priority, congestion, express } = config.qos()?;
        Ok(PublicationQos {
            key_exprs,
            congestion_control: congestion,
            priority,
            express,
            reliability: config.reliability()?,
            allowed_destination: config.get("allowed_destination", |path, value| {
                use Destination::{Any, Remote, SessionLocal};
                Ok([Any, SessionLocal, Remote][word(path, value, &["any", "session_local", "remote"])?])
            })?,
        })
    })
}

/// Parses `a..b`, both included, either absent.
fn range(path: &str, value: &Value) -> Result<RangeInclusive<usize>> {
    let bad = || wrong(path, "bytes as \"FROM..TO\", either of which may be left out", value);
    let (from, to) = value.as_str().and_then(|text| text.split_once("..")).ok_or_else(bad)?;
    let end = |text: &str, open| if text.is_empty() { Ok(open) } else { text.parse().map_err(|_| bad()) };
    Ok(end(from.trim(), 0)?..=end(to.trim(), usize::MAX)?)
}

/// Reads the rules with their names.
fn rules(path: &str, value: &Value) -> Result<Vec<(String, AccessRule)>> {
    const NAMES: [&str; 6] = ["id", "permission", "flows", "messages", "key_exprs", "match"];
    const RELATIONS: [&str; 2] = [RuleMatch::Inclusion.name(), RuleMatch::Intersection.name()];
    entries(path, value, &NAMES, |entry| {
        let allow = entry.need("permission", |path, value| word(path, value, &["deny", "allow"]))? == 1;
        // An allowed key must be included: a key that only touches others would reach them all.
        let relations = if allow { &RELATIONS[..1] } else { &RELATIONS[..] };
        let relation = entry.get("match", |path, value| word(path, value, relations))?;
        let rule = AccessRule {
            allow,
            relation: relation.map_or_else(RuleMatch::default, |at| RuleMatch::ALL[at]),
            flows: entry.flows()?,
            messages: entry.messages(&MessageKind::ALL, false)?,
            keys: entry.need("key_exprs", |path, value| some(path, value, |p, v| key_expr(p, v, false)))?,
        };
        Ok((entry.need("id", text)?, rule))
    })
}

fn subjects(path: &str, value: &Value) -> Result<Vec<(String, Links)>> {
    const NAMES: [&str; 6] = ["id", "zids", "interfaces", "link_protocols", "cert_common_names", "usernames"];
    entries(path, value, &NAMES, |entry| Ok((entry.need("id", text)?, entry.links()?)))
}

pub(super) fn bindings(path: &str, value: &Value) -> Result<Vec<Binding>> {
    const NAMES: [&str; 4] = ["zids", "roles", "usernames", "cert_common_names"];
    let role_of = |path: &str, value: &Value| {
        value.as_str().and_then(role).ok_or_else(|| wrong(path, "router, peer or client", value))
    };
    entries(path, value, &NAMES, |entry| {
        let words = |name| entry.get(name, |path, value| some(path, value, text));
        let roles = entry.get("roles", |path, value| some(path, value, role_of))?;
        let binding = Binding {
            zids: entry.get("zids", |path, value| some(path, value, zid))?,
            roles: roles.map(|roles| roles.into_iter().collect()),
            usernames: words("usernames")?.unwrap_or_default(),
            common_names: words("cert_common_names")?.unwrap_or_default(),
        };
        if binding.usernames.is_empty() && binding.common_names.is_empty() {
            return Err(wrong(&entry.path, "usernames or cert_common_names", &Value::Null));
        }
        Ok(binding)
    })
}

fn policies(path: &str, value: &Value) -> Result<Vec<(Vec<String>, Vec<String>)>> {
    entries(path, value, &["id", "rules", "subjects"], |entry| {
        let names = |name| entry.need(name, |path, value| some(path, value, text));
        Ok((names("rules")?, names("subjects")?))
    })
}

/// Maps each name to its index, and fails on duplicates.
fn places<T>(path: &str, named: Vec<(String, T)>) -> Result<(BTreeMap<String, usize>, Vec<T>)> {
    let mut places = BTreeMap::new();
    let mut things = Vec::with_capacity(named.len());
    for (place, (name, thing)) in named.into_iter().enumerate() {
        if places.contains_key(&name) {
            let path = format!("{path}/{place}/id");
            return Err(wrong(&path, "an id that no other has", &Value::from(name)));
        }
        places.insert(name, place);
        things.push(thing);
    }
    Ok((places, things))
}

/// Warns of rules whose denied keys can still be reached by wider ones.
pub(super) fn warn_of_wider_keys(default_allow: bool, value: &Value) -> Result<()> {
    for (id, rule) in rules("access_control/rules", value)? {
        if default_allow && !rule.allow && rule.relation == RuleMatch::Inclusion {
            let keys: Vec<_> = rule.keys.iter().map(KeyExpr::as_str).collect();
            tracing::warn!(
                rule = id,
                keys = keys.join(", "),
                "a rule of access_control denies only keys that it includes, and the default allows others: a \
                 message on a wider key, such as **, passes and reaches these; set default_permission to \"deny\", \
                 or match: \"intersection\" in the rule"
            );
        }
    }
    Ok(())
}

/// Reads `access_control` when it is enabled.
pub(super) fn access_control(
    default_allow: bool,
    of: impl Fn(&'static str) -> Value,
) -> Result<AccessControl> {
    const RULES: &str = "access_control/rules";
    const SUBJECTS: &str = "access_control/subjects";
    const POLICIES: &str = "access_control/policies";
    let (rule_names, rules) = places(RULES, rules(RULES, &of(RULES))?)?;
    let (subject_names, subjects) = places(SUBJECTS, subjects(SUBJECTS, &of(SUBJECTS))?)?;
    let mut all = Vec::new();
    for (i, (rules, links)) in policies(POLICIES, &of(POLICIES))?.into_iter().enumerate() {
        let place = |of: &str, places: &BTreeMap<String, usize>, (at, name): (usize, &String)| {
            let path = format!("{POLICIES}/{i}/{of}/{at}");
            let unknown =
                || wrong(&path, &format!("an id of access_control/{of}"), &Value::from(name.as_str()));
            places.get(name).copied().ok_or_else(unknown)
        };
        let number = |named| place("rules", &rule_names, named);
        let subject = |named| place("subjects", &subject_names, named).map(|at| subjects[at].clone());
        all.push(AccessPolicy {
            rules: rules.iter().enumerate().map(number).collect::<Result<_>>()?,
            subjects: links.iter().enumerate().map(subject).collect::<Result<_>>()?,
        });
    }
    Ok(AccessControl { default_allow, asks: false, rules, policies: all })
}

/// Checks one list.
pub(super) fn check(entries: Entries, path: &str, value: &Value) -> Result<()> {
    match entries {
        Entries::Downsampling => downsampling(path, value).map(drop),
        Entries::LowPass => low_pass(path, value).map(drop),
        Entries::QosNetwork => qos_network(path, value).map(drop),
        Entries::QosPublication => publication_qos(path, value).map(drop),
        Entries::AccessRules => places(path, rules(path, value)?).map(drop),
        Entries::AccessSubjects => places(path, subjects(path, value)?).map(drop),
        Entries::AccessPolicies => policies(path, value).map(drop),
        Entries::Bindings => bindings(path, value).map(drop),
    }
    .map_err(|error| match error {
        // The value is not a list: describe the expected list.
        ConfigError::Value { path: at, got, .. } if at == path => {
            ConfigError::value(path, Kind::Entries(entries).expected(), got)
        }
        other => other,
    })
}
