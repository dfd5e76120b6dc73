//! What the configuration says about links, and which link it means.

use crate::zenoh::{CongestionControl, KeyExpr, Priority, Reliability, ZenohId};
use core::{ops::RangeInclusive, time::Duration};

/// What rules tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MessageKind {
    /// PUSH with PUT.
    Put,
    /// PUSH with DEL.
    Delete,
    /// REQUEST.
    Query,
    /// RESPONSE, also with ERR.
    Reply,
    /// D_SUBSCRIBER and U_SUBSCRIBER.
    DeclareSubscriber,
    /// D_QUERYABLE and U_QUERYABLE.
    DeclareQueryable,
    /// D_TOKEN and U_TOKEN.
    LivelinessToken,
    /// INTEREST in the tokens that are there.
    LivelinessQuery,
    /// INTEREST in the tokens that come and go.
    DeclareLivelinessSubscriber,
}

impl MessageKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Put,
        Self::Delete,
        Self::Query,
        Self::Reply,
        Self::DeclareSubscriber,
        Self::DeclareQueryable,
        Self::LivelinessToken,
        Self::LivelinessQuery,
        Self::DeclareLivelinessSubscriber,
    ];

    /// The word of the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Query => "query",
            Self::Reply => "reply",
            Self::DeclareSubscriber => "declare_subscriber",
            Self::DeclareQueryable => "declare_queryable",
            Self::LivelinessToken => "liveliness_token",
            Self::LivelinessQuery => "liveliness_query",
            Self::DeclareLivelinessSubscriber => "declare_liveliness_subscriber",
        }
    }
}

/// Some kinds of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageKinds(u16);

impl MessageKinds {
    /// Whether it is one of them.
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

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// What comes.
    Ingress,
    /// What goes.
    Egress,
}

/// Directions that something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    /// What comes.
    pub ingress: bool,
    /// What goes.
    pub egress: bool,
}

impl Default for Flows {
    fn default() -> Self {
        Self { ingress: true, egress: true }
    }
}

impl Flows {
    pub(super) const fn contains(self, flow: Flow) -> bool {
        match flow {
            Flow::Ingress => self.ingress,
            Flow::Egress => self.egress,
        }
    }
}

/// What is known of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts<'a> {
    /// The node at the other end; `None`: the members of a multicast group.
    pub zid: Option<ZenohId>,
    /// The names of the interfaces that have our address.
    pub interfaces: &'a [String],
    /// `tcp`, `tls`, ….
    pub protocol: &'a str,
    /// That of the certificate of the other end, if it had to show one.
    pub common_name: Option<&'a str>,
    /// By which the other end has proved itself.
    pub username: Option<&'a str>,
}

/// Which links something is about: those that have one of each. `None`: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Nodes at the other end.
    pub zids: Option<Vec<ZenohId>>,
    /// Names of our interfaces.
    pub interfaces: Option<Vec<String>>,
    /// Kinds of links.
    pub protocols: Option<Vec<String>>,
    /// Names in certificates.
    pub common_names: Option<Vec<String>>,
    /// Names of users.
    pub usernames: Option<Vec<String>>,
}

impl Links {
    /// Whether a link is one of them.
    #[must_use]
    pub fn contain(&self, link: &LinkFacts<'_>) -> bool {
        let named = |wanted: &Option<Vec<String>>, name: Option<&str>| {
            wanted.as_ref().is_none_or(|all| all.iter().any(|one| Some(one.as_str()) == name))
        };
        let interface = |all: &Vec<String>| all.iter().any(|one| link.interfaces.contains(one));
        self.zids.as_ref().is_none_or(|all| all.iter().any(|one| Some(*one) == link.zid))
            && self.interfaces.as_ref().is_none_or(interface)
            && named(&self.protocols, Some(link.protocol))
            && named(&self.common_names, link.common_name)
            && named(&self.usernames, link.username)
    }
}

/// `access_control`, where it is enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessControl {
    /// What happens to a message that no rule is about.
    pub default_allow: bool,
    /// The rules.
    pub rules: Vec<AccessRule>,
    /// Which rules are for which links.
    pub policies: Vec<AccessPolicy>,
}

/// One rule of `access_control/rules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// Allows, or denies.
    pub allow: bool,
    /// Directions.
    pub flows: Flows,
    /// Kinds of messages.
    pub messages: MessageKinds,
    /// It is about keys that one of these includes.
    pub keys: Vec<KeyExpr>,
}

/// One entry of `access_control/policies`, its names resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Numbers of rules.
    pub rules: Vec<usize>,
    /// Any of them.
    pub subjects: Vec<Links>,
}

/// What the limits and the changes have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Which links.
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

/// One entry of `downsampling`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downsampling {
    /// What it is about.
    pub filter: Filter,
    /// The first one whose key intersects that of a message counts.
    pub rates: Vec<Rate>,
}

/// At most one message in this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// On keys that intersect it.
    pub key: KeyExpr,
    /// `None`: no message at all.
    pub period: Option<Duration>,
}

/// One entry of `low_pass_filter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowPass {
    /// What it is about.
    pub filter: Filter,
    /// On keys that one of these includes.
    pub keys: Vec<KeyExpr>,
    /// Most bytes of payload and attachment together.
    pub size_limit: usize,
}

/// One entry of `qos/network`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosNetwork {
    /// What it is about.
    pub filter: Filter,
    /// On keys that one of these includes; `None`: on any.
    pub keys: Option<Vec<KeyExpr>>,
    /// Bytes of payload and attachment together.
    pub payload_size: RangeInclusive<usize>,
    /// Only messages with this QoS.
    pub only: Overwrite,
    /// Only messages of this channel.
    pub reliability: Option<Reliability>,
    /// What becomes of it.
    pub overwrite: Overwrite,
}

/// Parts of a QoS; `None`: as it is, or any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwrite {
    /// Priority.
    pub priority: Option<Priority>,
    /// Congestion control.
    pub congestion: Option<CongestionControl>,
    /// Express.
    pub express: Option<bool>,
}

/// All of it.
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
    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.downsampling.is_empty()
            && self.access_control.is_none()
            && self.qos.is_empty()
            && self.low_pass.is_empty()
    }
}
