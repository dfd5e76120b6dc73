//! Endpoints and locators: `<protocol>/<address>[?<metadata>][#<config>]` (`zenoh-behaviour` 1.1).

use core::{fmt, ops::Deref, str::FromStr};

use thiserror::Error;

/// Longest endpoint in bytes: some messages carry locators behind a one-byte length.
pub const MAX_ENDPOINT_LEN: usize = 255;

/// Protocols of endpoints that this build supports, for error texts.
pub(crate) const PROTOCOLS: &[&str] = &[
    "tcp",
    "udp",
    #[cfg(feature = "tls")]
    "tls",
    #[cfg(feature = "ws")]
    "ws",
    #[cfg(feature = "quic")]
    "quic",
    #[cfg(unix)]
    "unixsock-stream",
];

/// Name of reliable UDP in error texts: QUIC without encryption.
pub(super) const RELIABLE_UDP: &str = "udp?rel=1";

/// Clause of an error text for a protocol that this build could have; empty for all others.
pub(crate) fn missing_feature(protocol: &str) -> &'static str {
    match protocol {
        "tls" => ", which has no TLS (feature `tls`)",
        "ws" => ", which has no WebSocket (feature `ws`)",
        "quic" | RELIABLE_UDP => ", which has no QUIC (feature `quic`)",
        _ => "",
    }
}

/// Part of an endpoint, for error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the first slash.
    Protocol,
    /// Between the slash and `?` or `#`.
    Address,
    /// Behind `?`: travels with the locator.
    Metadata,
    /// Behind `#`: stays on this node.
    Config,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protocol => "protocol",
            Self::Address => "address",
            Self::Metadata => "metadata",
            Self::Config => "config",
        })
    }
}

/// Reason why a text is not an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// There is no slash between protocol and address.
    #[error("expected <protocol>/<address>[?<metadata>][#<config>]")]
    NoSlash,
    /// A part is empty that must not be.
    #[error("empty {0}")]
    Empty(Part),
    /// A character that the part does not allow: the first such.
    #[error("{0:?} in the {1}")]
    Character(char, Part),
    /// A parameter without a key.
    #[error("a parameter without a key in the {0}")]
    NoKey(Part),
    /// Metadata behind the config, where it would be read as part of it.
    #[error("the metadata (?) must stand before the config (#)")]
    Order,
    /// A locator with a config part, which must not travel.
    #[error("a locator has no config (#)")]
    ConfigInLocator,
}

impl Malformed {
    fn of(self, text: &str) -> EndpointError {
        EndpointError::Malformed { text: redacted(text), problem: self }
    }
}

/// Reason why a text is not an endpoint, or the endpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// The text is not an endpoint.
    #[error("`{text}`: {problem}")]
    Malformed {
        /// The text, without the values of its secrets.
        text: String,
        /// The violated rule.
        problem: Malformed,
    },
    /// The text is longer than an endpoint may be.
    #[error("an endpoint of {len} bytes, at most {MAX_ENDPOINT_LEN}")]
    TooLong {
        /// Length in bytes.
        len: usize,
    },
    /// A parameter with an invalid value.
    #[error("{part} parameter `{key}={value}`: expected {expected}")]
    Parameter {
        /// The part.
        part: Part,
        /// The parameter.
        key: &'static str,
        /// Value of the parameter.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// A protocol that this build does not support.
    #[error("the protocol `{protocol}` is not supported by this build{}; it speaks {supported}", missing_feature(.protocol))]
    Protocol {
        /// The protocol.
        protocol: String,
        /// The protocols that it supports.
        supported: String,
    },
    /// A parameter that does not exist for the protocol.
    #[error("config parameter `{key}` is unknown to {protocol}, did you mean `{nearest}`? It knows {known}")]
    UnknownParameter {
        /// The protocol.
        protocol: String,
        /// The parameter.
        key: String,
        /// The most similar known parameter.
        nearest: &'static str,
        /// All known parameters.
        known: String,
    },
    /// Two parameters that exclude each other.
    #[error("config parameters `{first}` and `{second}` exclude each other")]
    Conflict {
        /// The first parameter.
        first: &'static str,
        /// The other parameter.
        second: &'static str,
    },
}

/// Address that a node listens on or connects to, with the options of this node for that link.
///
/// Parameters are kept sorted by key, so that equal endpoints are equal texts. [`Display`](fmt::Display) and
/// [`Debug`](fmt::Debug) show `***` in place of secrets: messages use them, and not [`Endpoint::as_str`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    text: String,
    protocol_end: usize,
    address_end: usize,
    locator_end: usize,
}

impl Endpoint {
    /// Parses and canonicalises.
    ///
    /// # Errors
    /// The first part that is invalid.
    pub fn new(text: &str) -> Result<Self, EndpointError> {
        if text.len() > MAX_ENDPOINT_LEN {
            return Err(EndpointError::TooLong { len: text.len() });
        }
        let (locator, config) = split_at(text, '#');
        let (head, metadata) = split_at(locator, '?');
        if metadata.is_none() && config.is_some_and(|config| config.contains('?')) {
            return Err(Malformed::Order.of(text));
        }
        let (protocol, address) = head.split_once('/').ok_or_else(|| Malformed::NoSlash.of(text))?;
        for (part, value) in [(Part::Protocol, protocol), (Part::Address, address)] {
            if value.is_empty() {
                return Err(Malformed::Empty(part).of(text));
            }
        }
        let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.'));
        if let Some(character) = protocol.chars().find(odd) {
            return Err(Malformed::Character(character, Part::Protocol).of(text));
        }
        if let Some(character) = text.chars().find(|c| c.is_control()) {
            let part = match character {
                c if head.contains(c) => Part::Address,
                c if locator.contains(c) => Part::Metadata,
                _ => Part::Config,
            };
            return Err(Malformed::Character(character, part).of(text));
        }

        let mut canonical = format!("{protocol}/{address}");
        let address_end = canonical.len();
        if let Some(metadata) = metadata {
            canonical.push('?');
            push_sorted(&mut canonical, metadata, Part::Metadata, text)?;
        }
        let locator_end = canonical.len();
        if let Some(config) = config {
            canonical.push('#');
            push_sorted(&mut canonical, config, Part::Config, text)?;
        }
        Ok(Self { text: canonical, protocol_end: protocol.len(), address_end, locator_end })
    }

    /// The canonical text, secrets included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The protocol: `tcp`, `udp`, …
    #[must_use]
    pub fn protocol(&self) -> &str {
        &self.text[..self.protocol_end]
    }

    /// The address, for example `127.0.0.1:7447` or a path: its grammar depends on the protocol.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.text[self.protocol_end + 1..self.address_end]
    }

    /// The metadata parameters in the order of their keys.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.text[self.address_end..self.locator_end].strip_prefix('?'))
    }

    /// The config parameters in the order of their keys.
    pub fn config(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.text[self.locator_end..].strip_prefix('#'))
    }

    /// The value of a metadata parameter; a parameter without `=` has the value "".
    #[must_use]
    pub fn metadata_value(&self, key: &str) -> Option<&str> {
        self.metadata().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The value of a config parameter; a parameter without `=` has the value "".
    #[must_use]
    pub fn config_value(&self, key: &str) -> Option<&str> {
        self.config().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The part that is visible to other nodes.
    #[must_use]
    pub fn locator(&self) -> Locator {
        Locator(Self { text: self.text[..self.locator_end].to_owned(), ..self.clone() })
    }

    /// The same endpoint with another address: a listener on port 0 learns its port only later.
    ///
    /// # Errors
    /// The address is invalid, or the result is too long.
    pub fn with_address(&self, address: &str) -> Result<Self, EndpointError> {
        Self::new(&format!("{}/{address}{}", self.protocol(), &self.text[self.address_end..]))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::new(text)
    }
}
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.text))
    }
}
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redacted(&self.text), f)
    }
}

/// An endpoint without config part, as in HELLO and link state.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Locator(Endpoint);

impl Locator {
    /// Parses and canonicalises.
    ///
    /// # Errors
    /// The first part that is invalid; a config part is invalid as well.
    pub fn new(text: &str) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::new(text)?;
        if endpoint.locator_end < endpoint.text.len() {
            return Err(Malformed::ConfigInLocator.of(&endpoint.text));
        }
        Ok(Self(endpoint))
    }

    /// The locator as an endpoint without options.
    #[must_use]
    pub fn into_endpoint(self) -> Endpoint {
        self.0
    }
}

impl Deref for Locator {
    type Target = Endpoint;
    fn deref(&self) -> &Endpoint {
        &self.0
    }
}
impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What messages show in place of a secret.
pub(super) const HIDDEN: &str = "***";

/// A text with endpoints, of which the values of secret parameters are replaced by [`HIDDEN`]. It may be
/// malformed, or JSON.
pub(super) fn redacted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(['#', ';', '?', '"']) {
        let pair = part.trim_end_matches(['#', ';', '?', '"']);
        match pair.split_once('=') {
            Some((key, _)) if is_secret(key) => {
                shown.extend([key, "=", HIDDEN]);
            }
            _ => shown.push_str(pair),
        }
        shown.push_str(&part[pair.len()..]);
    }
    shown
}

/// Whether the value of a parameter is a secret, judged by its name, which may be misspelt.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["key", "password", "secret"].iter().any(|word| key.contains(word)) && !key.ends_with("_file")
}

fn split_at(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    }
}

fn pairs(parameters: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    parameters
        .into_iter()
        .flat_map(|text| text.split(';'))
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn push_sorted(out: &mut String, parameters: &str, part: Part, text: &str) -> Result<(), EndpointError> {
    let mut list: Vec<&str> = parameters.split(';').filter(|pair| !pair.is_empty()).collect();
    if list.is_empty() {
        return Err(Malformed::Empty(part).of(text));
    }
    if list.iter().any(|pair| pair.starts_with('=')) {
        return Err(Malformed::NoKey(part).of(text));
    }
    // A stable sort, so that of two equal keys the first one given remains the effective one.
    list.sort_by_key(|pair| pair.split_once('=').map_or(*pair, |(key, _)| key));
    for (i, pair) in list.into_iter().enumerate() {
        if i > 0 {
            out.push(';');
        }
        // `key=` and `key` are equivalent; the short form is the canonical one.
        out.push_str(match pair.split_once('=') {
            Some((key, "")) => key,
            _ => pair,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Endpoint::new(text).expect(text).to_string()
    }

    #[test]
    fn parts_are_found() {
        let e = Endpoint::new("tcp/[::1]:7447?rel=1;prio=2-4#so_sndbuf=9;iface=lo").unwrap();
        assert_eq!(e.protocol(), "tcp");
        assert_eq!(e.address(), "[::1]:7447");
        assert_eq!(e.metadata().collect::<Vec<_>>(), [("prio", "2-4"), ("rel", "1")]);
        assert_eq!(e.config().collect::<Vec<_>>(), [("iface", "lo"), ("so_sndbuf", "9")]);
        assert_eq!(e.metadata_value("rel"), Some("1"));
        assert_eq!(e.config_value("iface"), Some("lo"));
        assert_eq!(e.config_value("rel"), None);
        assert_eq!(e.locator().as_str(), "tcp/[::1]:7447?prio=2-4;rel=1");
        assert_eq!(e.locator().address(), "[::1]:7447");
        assert_eq!(e.to_string(), "tcp/[::1]:7447?prio=2-4;rel=1#iface=lo;so_sndbuf=9");
    }

    /// Inputs and outputs of `Config.insert_json5("connect/endpoints", …)` of eclipse-zenoh 1.10.2.
    #[test]
    fn canonical_form_is_that_of_the_reference() {
        for (text, expected) in [
            ("tcp/1", "tcp/1"),
            ("tcp//x", "tcp//x"),
            ("tcp/a?b", "tcp/a?b"),
            ("tcp/a?b=", "tcp/a?b"),
            ("tcp/a?b=1;a=2", "tcp/a?a=2;b=1"),
            ("tcp/a?b=1;b=2", "tcp/a?b=1;b=2"),
            ("tcp/a#b=1;a=2", "tcp/a#a=2;b=1"),
            ("tcp/a?x=1#y=2#z=3", "tcp/a?x=1#y=2#z=3"),
            ("tcp/a?x=1?y=2", "tcp/a?x=1?y=2"),
            ("TCP/a", "TCP/a"),
            ("tcp/a?b=1;", "tcp/a?b=1"),
            ("tcp/a?;b=1", "tcp/a?b=1"),
            ("tcp/a?b=1;;c=2", "tcp/a?b=1;c=2"),
            ("tcp/a?b=1=2", "tcp/a?b=1=2"),
            ("tcp/a?z=1|2;a=|", "tcp/a?a=|;z=1|2"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
            assert_eq!(canonical(expected), expected, "not a fixed point");
        }
    }

    #[test]
    fn errors_name_the_part() {
        let part = |text: &str| match Endpoint::new(text).expect_err(text) {
            EndpointError::Malformed {
                problem: Malformed::Empty(part) | Malformed::NoKey(part) | Malformed::Character(_, part),
                ..
            } => part,
            other => panic!("{text}: {other}"),
        };
        assert_eq!(part("/x"), Part::Protocol);
        assert_eq!(part("t p/x"), Part::Protocol);
        assert_eq!(part("tcp/"), Part::Address);
        assert_eq!(part("tcp/?a=1"), Part::Address);
        assert_eq!(part("tcp/a\n"), Part::Address);
        assert_eq!(part("tcp/a?"), Part::Metadata);
        assert_eq!(part("tcp/a?;"), Part::Metadata);
        assert_eq!(part("tcp/a?=c"), Part::Metadata);
        assert_eq!(part("tcp/a?b=\0"), Part::Metadata);
        assert_eq!(part("tcp/a?#x=1"), Part::Metadata);
        assert_eq!(part("tcp/a#"), Part::Config);
        assert_eq!(part("tcp/a?x=1#"), Part::Config);
        for text in ["", "tcp", "a?b/c", "a#b/c"] {
            assert_eq!(Endpoint::new(text), Err(Malformed::NoSlash.of(text)));
        }
        assert_eq!(Endpoint::new("tcp/a#x=1?y=2"), Err(Malformed::Order.of("tcp/a#x=1?y=2")));
    }

    #[test]
    fn secrets_are_not_shown() {
        let given = "tls/h:1?rel=1#connect_private_key_base64=TUlH==;connect_private_key_raw=-----BEGIN;\
                     listen_private_key_file=/k;root_ca_certificate_base64=Q0E=";
        let shown = "tls/h:1?rel=1#connect_private_key_base64=***;connect_private_key_raw=***;\
                     listen_private_key_file=/k;root_ca_certificate_base64=Q0E=";
        let e = Endpoint::new(given).unwrap();
        assert_eq!(e.as_str(), given);
        assert_eq!((e.to_string(), format!("{e:?}")), (shown.to_owned(), format!("{shown:?}")));
        for text in
            ["tls#private_key=TUlH", "tls/h#PrivateKey_raw=TUlH\n", "tls/h#a=1;listen_secret=TUlH?a=1"]
        {
            let error = Endpoint::new(text).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("TUlH"), "{error}");
        }
    }

    #[test]
    fn at_most_255_bytes() {
        let longest = format!("tcp/{}", "a".repeat(251));
        assert_eq!(Endpoint::new(&longest).unwrap().address().len(), 251);
        let too_long = format!("{longest}a");
        assert_eq!(Endpoint::new(&too_long), Err(EndpointError::TooLong { len: 256 }));
    }

    #[test]
    fn a_locator_has_no_config() {
        assert_eq!(Locator::new("tcp/a?rel=1").unwrap().to_string(), "tcp/a?rel=1");
        let e = Locator::new("tcp/a#iface=lo");
        assert_eq!(e, Err(Malformed::ConfigInLocator.of("tcp/a#iface=lo")));
    }

    #[test]
    fn another_address_keeps_the_rest() {
        let e = Endpoint::new("tcp/[::]:0?rel=1#iface=lo").unwrap();
        assert_eq!(e.with_address("[::]:4711").unwrap().as_str(), "tcp/[::]:4711?rel=1#iface=lo");
        assert!(e.with_address("").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,300}|[a-z/?#;=|\\[\\]:0-9\u{0}é]{0,40}") {
            if let Ok(e) = Endpoint::new(&text) {
                // The canonical text parses to itself, and the parts add up to the whole.
                proptest::prop_assert_eq!(&Endpoint::new(e.as_str()).unwrap(), &e);
                let (m, c) = (e.metadata().count(), e.config().count());
                proptest::prop_assert!(m + c <= text.len());
                proptest::prop_assert!(e.as_str().starts_with(e.locator().as_str()));
            }
        }
    }
}
