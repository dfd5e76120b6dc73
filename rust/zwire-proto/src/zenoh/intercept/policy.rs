//! Configuration of link policies, and the selection of links.

use crate::{
    named::named,
    zenoh::{CongestionControl, KeyExpr, Priority, Reliability, ZenohId},
};
use core::{ops::RangeInclusive, time::Duration};

named! {
    /// Message kinds that rules distinguish.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum MessageKind {
        /// PUSH with PUT.
        Put = "put",
        /// PUSH with DEL.
        Delete = "delete",
        /// REQUEST.
        Query = "query",
        /// RESPONSE, also with ERR.
        Reply = "reply",
        /// D_SUBSCRIBER and U_SUBSCRIBER.
        DeclareSubscriber = "declare_subscriber",
        /// D_QUERYABLE and U_QUERYABLE.
        DeclareQueryable = "declare_queryable",
        /// D_TOKEN and U_TOKEN.
        LivelinessToken = "liveliness_token",
        /// INTEREST in existing tokens.
        LivelinessQuery = "liveliness_query",
        /// INTEREST in future tokens.
        DeclareLivelinessSubscriber = "declare_liveliness_subscriber",
    }
}

/// Set of message kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageKinds(u16);

impl MessageKinds {
    /// Whether the set contains the kind.
    #[must_use]
    pub const fn contains(self, kind: MessageKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

impl FromIterator<MessageKind> for MessageKinds {
    fn from_iter<I: IntoIterator<Item = MessageKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |all, kind| all | 1 << kind as u8))
    }
}

/// Direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Incoming messages.
    Ingress,
    /// Outgoing messages.
    Egress,
}

/// Set of directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    /// Incoming messages.
    pub ingress: bool,
    /// Outgoing messages.
    pub egress: bool,
}

impl Default for Flows {
    fn default() -> Self {
        Self { ingress: true, egress: true }
    }
}

impl Flows {
    /// Whether the set contains the direction.
    #[must_use]
    pub const fn contains(self, flow: Flow) -> bool {
        match flow {
            Flow::Ingress => self.ingress,
            Flow::Egress => self.egress,
        }
    }
}

/// Properties of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts<'a> {
    /// The node at the other end; `None`: the members of a multicast group.
    pub zid: Option<ZenohId>,
    /// The names of the interfaces with the local address.
    pub interfaces: &'a [String],
    /// `tcp`, `tls`, ….
    pub protocol: &'a str,
    /// Common name of the other end's certificate, if it had to present one.
    pub common_name: Option<&'a str>,
    /// User name that the other end has authenticated with.
    pub username: Option<&'a str>,
}

/// Selection of links: those that match each condition. `None`: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Nodes at the other end.
    pub zids: Option<Vec<ZenohId>>,
    /// Names of local interfaces.
    pub interfaces: Option<Vec<String>>,
    /// Kinds of links.
    pub protocols: Option<Vec<String>>,
    /// Names in certificates, with `*` for any characters.
    pub common_names: Option<Vec<String>>,
    /// Names of users, with `*` for any characters.
    pub usernames: Option<Vec<String>>,
}

impl Links {
    /// Whether a link is selected.
    #[must_use]
    pub fn contain(&self, link: &LinkFacts<'_>) -> bool {
        let named = |wanted: &Option<Vec<String>>, name: Option<&str>| {
            wanted.as_ref().is_none_or(|all| all.iter().any(|one| Some(one.as_str()) == name))
        };
        let interface = |all: &Vec<String>| all.iter().any(|one| link.interfaces.contains(one));
        self.zids.as_ref().is_none_or(|all| all.iter().any(|one| Some(*one) == link.zid))
            && self.interfaces.as_ref().is_none_or(interface)
            && named(&self.protocols, Some(link.protocol))
            && matching(&self.common_names, link.common_name)
            && matching(&self.usernames, link.username)
    }
}

/// Whether a name has the form of one of these patterns.
fn matching(patterns: &Option<Vec<String>>, name: Option<&str>) -> bool {
    let matches = |pattern: &String| name.is_some_and(|name| has_form(name, pattern));
    patterns.as_ref().is_none_or(|all| all.iter().any(matches))
}

/// Whether a name has the form of a pattern, in which `*` stands for any characters, also none.
fn has_form(name: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(begin) else { return false };
    let mut parts = rest.split('*');
    let end = parts.next_back().unwrap_or_default();
    // Each part at its first place: a later one leaves less for those behind it.
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

/// Access control, if it is enabled (`access_control`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessControl {
    /// Decision for a message without a matching rule.
    pub default_allow: bool,
    /// Whether an authority is asked about a message without a matching rule, in place of that decision.
    pub asks: bool,
    /// The rules.
    pub rules: Vec<AccessRule>,
    /// Assignment of rules to links.
    pub policies: Vec<AccessPolicy>,
}

/// Rule of `access_control/rules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// Whether the rule allows or denies.
    pub allow: bool,
    /// Directions of the messages.
    pub flows: Flows,
    /// Kinds of messages.
    pub messages: MessageKinds,
    /// Keys that the rule is about.
    pub keys: Vec<KeyExpr>,
    /// Relation of a message's key to one of these with which the rule applies.
    pub relation: RuleMatch,
}

named! {
    /// Relation of the key of a message to a key of a rule.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum RuleMatch {
        /// The rule's key includes the message's, as in Eclipse Zenoh: a wider key, such as `**`, is not matched.
        #[default]
        Inclusion = "inclusion",
        /// Both keys have a key in common.
        Intersection = "intersection",
    }
}

impl AccessRule {
    /// Whether the rule applies to a message. A message without a key is about all keys, and no rule includes
    /// all of them, so that a rule that denies some applies.
    #[must_use]
    pub fn applies(&self, kind: MessageKind, key: Option<&KeyExpr>) -> bool {
        let related = |own: &KeyExpr, key: &KeyExpr| match self.relation {
            RuleMatch::Inclusion => own.includes(key),
            RuleMatch::Intersection => own.intersects(key),
        };
        self.messages.contains(kind)
            && match key {
                Some(key) => self.keys.iter().any(|own| related(own, key)),
                None => !self.allow || self.keys.iter().any(|own| own.as_str() == "**"),
            }
    }
}

/// Entry of `access_control/policies`, its names resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Indices of rules.
    pub rules: Vec<usize>,
    /// Links: any of these.
    pub subjects: Vec<Links>,
}

/// Conditions common to limits and changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Links.
    pub links: Links,
    /// Directions.
    pub flows: Flows,
    /// Kinds of messages.
    pub messages: MessageKinds,
}

impl Filter {
    pub(super) fn concerns(&self, link: &LinkFacts<'_>, flow: Flow) -> bool {
        self.flows.contains(flow) && self.links.contain(link)
    }
}

/// Entry of `downsampling`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downsampling {
    /// Conditions.
    pub filter: Filter,
    /// Rates: the first one with a key that intersects the message's counts.
    pub rates: Vec<Rate>,
}

/// Rate limit: at most one message in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Key expression: applies to keys that intersect it.
    pub key: KeyExpr,
    /// `None`: no message at all.
    pub period: Option<Duration>,
}

/// Entry of `low_pass_filter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowPass {
    /// Conditions.
    pub filter: Filter,
    /// Keys: applies to keys that one of these includes.
    pub keys: Vec<KeyExpr>,
    /// Most bytes of payload and attachment together.
    pub size_limit: usize,
}

/// Entry of `qos/network`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosNetwork {
    /// Conditions.
    pub filter: Filter,
    /// Keys: applies to keys that one of these includes; `None`: to any.
    pub keys: Option<Vec<KeyExpr>>,
    /// Size of payload and attachment together, in bytes.
    pub payload_size: RangeInclusive<usize>,
    /// Condition on the QoS of the message.
    pub only: Overwrite,
    /// Condition on the channel of the message.
    pub reliability: Option<Reliability>,
    /// QoS to set.
    pub overwrite: Overwrite,
}

/// Parts of a QoS; `None`: unchanged, or any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwrite {
    /// Priority.
    pub priority: Option<Priority>,
    /// Congestion control.
    pub congestion: Option<CongestionControl>,
    /// Express.
    pub express: Option<bool>,
}

/// Policy of all links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `downsampling`.
    pub downsampling: Vec<Downsampling>,
    /// `access_control`; `None`: not enabled.
    pub access_control: Option<AccessControl>,
    /// `qos/network`.
    pub qos: Vec<QosNetwork>,
    /// `low_pass_filter`.
    pub low_pass: Vec<LowPass>,
}

impl Policy {
    /// Whether the policy has no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.downsampling.is_empty()
            && self.access_control.is_none()
            && self.qos.is_empty()
            && self.low_pass.is_empty()
    }
}
