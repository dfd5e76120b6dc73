//! Options of a bridge, as JSON of the program that starts it.

use crate::{
    error::{Error, Result},
    packet::{Version, Will},
    topic::{check_filter, filter_of_key, matches},
};
use core::time::Duration;
use serde::Deserialize;
use std::path::PathBuf;
use zwire_engine::config::{Pem, TlsSettings};

/// Way of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the broker into Zenoh.
    In,
    /// From Zenoh to the broker.
    Out,
    /// Both ways.
    #[default]
    Both,
}

/// Topics that pass the bridge, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Filter of MQTT; empty where `key_expr` is given.
    #[serde(default)]
    pub topic: String,
    /// Key expression that stands for the filter, without the prefix of the bridge.
    #[serde(default)]
    key_expr: Option<String>,
    /// Way of the messages.
    #[serde(default)]
    pub direction: Direction,
    /// Quality of service: of the subscription, and of messages to the broker.
    #[serde(default = "one")]
    pub qos: u8,
    /// Whether the broker retains what comes from Zenoh.
    #[serde(default)]
    pub retain: bool,
}

impl Rule {
    pub(crate) const fn comes_in(&self) -> bool {
        !matches!(self.direction, Direction::Out)
    }

    pub(crate) const fn goes_out(&self) -> bool {
        !matches!(self.direction, Direction::In)
    }

    /// Filter that topics of messages match: of a shared subscription, that behind the name of the group.
    pub(crate) fn filter(&self) -> &str {
        match self.topic.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
            Some((_, filter)) => filter,
            None => &self.topic,
        }
    }
}

const fn one() -> u8 {
    1
}

/// Condition for messages in the spool to count as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The operating system has them: they survive the end of the process.
    #[default]
    Os,
    /// They are on the disk: they survive the end of the machine.
    Disk,
}

/// Options of a bridge. Unknown keys are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Address of the broker: `mqtt://HOST:PORT`, or `mqtts://HOST:PORT` for TLS.
    pub broker: String,
    /// Client identifier: the name of the session at the broker, and of the bridge in loop marks.
    pub client_id: String,
    /// Topics that pass, the first rule that matches decides.
    pub rules: Vec<Rule>,
    /// Prefix of all keys.
    #[serde(default)]
    pub prefix: String,
    /// Version of the protocol.
    #[serde(default)]
    pub version: Version,
    /// Folder of the spool: messages with QoS 1 and 2 to the broker, and the state of the session.
    pub spool: PathBuf,
    /// Most octets of the spool; the oldest messages are dropped beyond.
    #[serde(default = "spool_bytes")]
    pub spool_bytes: u64,
    /// Condition for messages to count as stored.
    #[serde(default)]
    pub durability: Durability,
    /// User at the broker.
    #[serde(default)]
    pub user: Option<String>,
    /// Password of that user.
    #[serde(default)]
    pub password: Option<String>,
    /// File of the authorities that certify the broker, in PEM.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// File of the bridge's certificate, in PEM.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// File of its private key, in PEM.
    #[serde(default)]
    pub private_key: Option<PathBuf>,
    /// Whether the broker's certificate has to have its name.
    #[serde(default = "yes")]
    pub verify_name: bool,
    /// Seconds without a packet after which one side asks whether the other is there.
    #[serde(default = "keep_alive")]
    pub keep_alive: u16,
    /// Seconds for which the broker keeps the session while the bridge is away (MQTT 5).
    #[serde(default = "day")]
    pub session_expiry: u32,
    /// Messages that may wait for an acknowledgement, in each direction.
    #[serde(default = "window")]
    pub window: u16,
    /// Octets of the largest packet, in each direction.
    #[serde(default = "max_packet")]
    pub max_packet_bytes: u32,
    /// Last message, which the broker publishes when the connection breaks.
    #[serde(default)]
    pub will: Option<Will>,
    /// Key of a liveliness token that exists while the broker is connected.
    #[serde(default)]
    pub status_key: Option<String>,
}

const fn yes() -> bool {
    true
}

const fn keep_alive() -> u16 {
    30
}

const fn day() -> u32 {
    86_400
}

/// Enough that a round trip of a millisecond is no bound at 20,000 messages in a second, with a reserve.
const fn window() -> u16 {
    1000
}

/// The bound of request bodies of the HTTP server as well.
const fn max_packet() -> u32 {
    16 << 20
}

const fn spool_bytes() -> u64 {
    1 << 30
}

/// Largest window: identifiers above it are for subscriptions.
pub(crate) const MAX_WINDOW: u16 = 32_000;
/// Most rules: each is a subscription, and is compared with each message.
const MAX_RULES: usize = 256;

/// Address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

impl Address {
    fn new(text: &str) -> Option<Self> {
        let (tls, rest) = match text.strip_prefix("mqtts://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("mqtt://").unwrap_or(text)),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let default = if tls { 8883 } else { 1883 };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
            _ => (rest, default),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let legal = !bare.is_empty() && !bare.contains(['/', '@', '?', '#', ' ']) && !bare.contains("://");
        legal.then(|| Self { host: bare.to_owned(), port, tls })
    }
}

impl Options {
    /// Reads options.
    ///
    /// # Errors
    /// [`Error::Usage`] names the option.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut options: Self = serde_json::from_str(text)
            .map_err(|error| Error::Usage(format!("options of the bridge: {error}")))?;
        options.check().map_err(Error::Usage)?;
        Ok(options)
    }

    fn check(&mut self) -> core::result::Result<(), String> {
        if Address::new(&self.broker).is_none() {
            if self.broker.contains('@') {
                // The text may have a password.
                return Err(
                    "broker: the address has no user; the options user and password are for it".to_owned()
                );
            }
            return Err(format!(
                "broker {:?}: it has the form mqtt://HOST:PORT or mqtts://HOST:PORT",
                self.broker
            ));
        }
        let name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.client_id.is_empty() || self.client_id.len() > 64 || !self.client_id.chars().all(name) {
            return Err(format!(
                "client_id {:?}: it is 1 to 64 letters, digits, '-', '_' or '.'",
                self.client_id
            ));
        }
        if self.rules.is_empty() || self.rules.len() > MAX_RULES {
            return Err(format!("rules: there are 1 to {MAX_RULES}; a bridge without rules passes nothing"));
        }
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let wrong = |problem: &dyn core::fmt::Display| Err(format!("rules[{index}]: {problem}"));
            if rule.qos > 2 {
                return wrong(&format!("qos {}: it is 0, 1 or 2", rule.qos));
            }
            if let Some(key) = &rule.key_expr {
                if !rule.topic.is_empty() {
                    return wrong(&"topic and key_expr: only one of them can be set");
                }
                match filter_of_key("", key) {
                    Ok(filter) => rule.topic = filter,
                    Err(problem) => return wrong(&format!("key_expr {key:?}: {problem}")),
                }
            }
            if let Err(problem) = check_filter(rule.filter()) {
                return wrong(&format!("topic {:?}: {problem}", rule.topic));
            }
            if rule.filter() != rule.topic && (rule.goes_out() || self.version == Version::V3) {
                return wrong(&"a shared subscription needs direction \"in\" and MQTT 5");
            }
        }
        let prefix = zwire_proto::zenoh::KeyExpr::new(self.prefix.clone());
        if !self.prefix.is_empty() && !prefix.is_ok_and(|prefix| !prefix.is_wild()) {
            return Err(format!("prefix {:?}: it is a key without wildcards", self.prefix));
        }
        if !(1..=MAX_WINDOW).contains(&self.window) {
            return Err(format!("window {}: it is 1 to {MAX_WINDOW}", self.window));
        }
        if self.max_packet_bytes < 1024 || self.max_packet_bytes > 1 << 28 {
            return Err("max_packet_bytes: it is 1024 to 268435456, the largest packet of MQTT".to_owned());
        }
        if self.spool_bytes < 1 << 20 {
            return Err("spool_bytes: it is at least 1048576".to_owned());
        }
        if self.password.is_some() && self.user.is_none() {
            return Err("password: it needs a user".to_owned());
        }
        if self.certificate.is_some() != self.private_key.is_some() {
            return Err("certificate and private_key: one needs the other".to_owned());
        }
        if let Some(key) = &self.status_key
            && let Err(problem) = zwire_proto::zenoh::KeyExpr::new(key.clone())
        {
            return Err(format!("status_key {key:?}: {problem}"));
        }
        match (self.address().tls, &self.ca) {
            (true, None) => {
                return Err("ca: an address with mqtts:// needs the file of its authorities".to_owned());
            }
            (false, Some(_)) => return Err("ca: TLS needs an address with mqtts://".to_owned()),
            _ => {}
        }
        match &self.will {
            Some(will) if will.qos > 2 => Err(format!("will: qos {}: it is 0, 1 or 2", will.qos)),
            Some(will) if crate::topic::key_of_topic("", &will.topic).is_err() => {
                Err(format!("will: {:?} is no topic", will.topic))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn address(&self) -> Address {
        // It was checked.
        Address::new(&self.broker).unwrap_or_else(|| Address { host: String::new(), port: 0, tls: false })
    }

    pub(crate) fn tls(&self) -> Option<TlsSettings> {
        let file = |path: &Option<PathBuf>| path.clone().map(Pem::File);
        self.address().tls.then(|| TlsSettings {
            root_ca_certificate: file(&self.ca),
            connect_certificate: file(&self.certificate),
            connect_private_key: file(&self.private_key),
            enable_mtls: Some(self.certificate.is_some()),
            verify_name_on_connect: Some(self.verify_name),
            ..TlsSettings::default()
        })
    }

    pub(crate) const fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive as u64)
    }

    /// First rule for messages from the broker on a topic.
    pub(crate) fn rule_in(&self, topic: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.comes_in() && matches(rule.filter(), topic))
    }

    /// First rule for messages to the broker on a topic.
    pub(crate) fn rule_out(&self, topic: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.goes_out() && matches(rule.filter(), topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &str) -> Result<Options> {
        Options::from_json(&format!(
            r##"{{"broker": "mqtt://h", "client_id": "c", "spool": "/s", "rules": [{{"topic": "a/#"}}]{more}}}"##
        ))
    }

    #[test]
    fn options_have_defaults() {
        let options = read("").unwrap();
        assert_eq!((options.version, options.window, options.rules[0].qos), (Version::V5, 1000, 1));
        assert!(options.rule_in("a/b").is_some() && options.rule_out("b").is_none());
        let rule = r#"{"key_expr": "x/*/**", "direction": "out", "qos": 2}"#;
        let options =
            read(&format!(r#", "prefix": "p", "version": "3.1.1", "durability": "disk", "rules": [{rule}]"#));
        // serde refuses a field that is given twice.
        assert!(options.is_err());
    }

    #[test]
    fn addresses_are_read() {
        for (text, host, port, tls) in [
            ("mqtt://h", "h", 1883, false),
            ("mqtts://h", "h", 8883, true),
            ("h:1", "h", 1, false),
            ("mqtt://[::1]:7/", "::1", 7, false),
            ("mqtt://[::1]", "::1", 1883, false),
        ] {
            assert_eq!(Address::new(text), Some(Address { host: host.to_owned(), port, tls }), "{text}");
        }
        for text in ["", "mqtt://", "ws://h", "mqtt://h:x", "mqtt://h:70000", "mqtt://u@h", "mqtt://h/p"] {
            assert_eq!(Address::new(text), None, "{text}");
        }
    }

    #[test]
    fn no_error_has_a_password() {
        let text =
            r#"{"broker": "mqtt://u:secret@h", "client_id": "c", "spool": "/s", "rules": [{"topic": "a"}]}"#;
        let error = Options::from_json(text).unwrap_err().to_string();
        assert!(error.contains("broker") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (more, name) in [
            (r#", "windows": 1"#, "windows"),
            (r#", "window": 0"#, "window 0"),
            (r#", "prefix": "a/*""#, "prefix"),
            (r#", "max_packet_bytes": 5"#, "max_packet_bytes"),
            (r#", "spool_bytes": 5"#, "spool_bytes"),
            (r#", "password": "x""#, "password"),
            (r#", "certificate": "x""#, "certificate"),
            (r#", "ca": "x""#, "ca"),
            (r#", "status_key": "a//b""#, "status_key"),
            (r#", "version": "4""#, "version"),
            (r##", "will": {"topic": "#", "payload": ""}"##, "will"),
        ] {
            let error = read(more).unwrap_err().to_string();
            assert!(error.contains(name) || error.contains("unknown variant"), "{more}: {error}");
        }
        for (rules, name) in [
            ("[]", "rules"),
            (r##"[{"topic": "a#"}]"##, "rules[0]: topic"),
            (r#"[{"topic": "a", "qos": 3}]"#, "rules[0]: qos 3"),
            (r#"[{"topic": "a", "key_expr": "a"}]"#, "only one"),
            (r#"[{"key_expr": "a/**/b"}]"#, "key_expr"),
            (r#"[{"topic": "$share/g/a"}]"#, "shared"),
        ] {
            let text = format!(r#"{{"broker": "h", "client_id": "c", "spool": "/s", "rules": {rules}}}"#);
            let error = Options::from_json(&text).unwrap_err().to_string();
            assert!(error.contains(name), "{rules}: {error}");
        }
    }
}
