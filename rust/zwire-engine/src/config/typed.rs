//! Typed configuration for the engine, after every check.

use core::{fmt, time::Duration};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use zwire_proto::{
    zenoh::{KeyExpr, Priority, WhatAmI, ZenohId, discovery::Binding, intercept::Policy},
    zre::node::Interface,
};

use super::{
    AutoConnect, Endpoint, GroupStrategy, LinkOptions, PublicationQos, Roles, TlsSettings, reader::sections,
};

sections! {
    /// The configuration of one node, after every check.
    ///
    /// Values that differ between modes are those for [`NodeConfig::mode`].
    #[derive(Clone, Debug, PartialEq)]
    pub struct NodeConfig {
        /// Role of the node (`mode`).
        pub mode: WhatAmI,
        /// Fixed id of the node (`id`); `None` asks for a random one.
        pub zid: Option<ZenohId> = "id",
        /// Free description of the node (`metadata`).
        pub metadata: serde_json::Value,
        /// Endpoints to connect to (`connect/*`).
        pub connect: Connect,
        /// Endpoints to listen on (`listen/*`).
        pub listen: Listen,
        /// Conditions that `open` waits for (`open/return_conditions/*`).
        pub open: ReturnConditions = "open/return_conditions",
        /// Discovery of other nodes (`scouting/*`).
        pub scouting: Scouting,
        /// Time stamps of publications (`timestamping/*`).
        pub timestamping: Timestamping,
        /// Default timeout of queries (`queries_default_timeout`).
        pub queries_default_timeout: Duration,
        /// Longest time that a forwarded interest may stay unanswered (`routing/interests/timeout`).
        pub interests_timeout: Duration = "routing/interests/timeout",
        /// Weights of links to other routers (`routing/router/linkstate/transport_weights`).
        pub transport_weights: BTreeMap<ZenohId, u16> = "routing/router/linkstate/transport_weights",
        /// Prefix of every key of the session (`namespace`), without wildcards.
        pub namespace: Option<KeyExpr>,
        /// Key expressions that replace the declarations they include (`aggregation/*`).
        pub aggregation: Aggregation,
        /// Overrides by key (`qos/publication`); the first entry that includes the key counts.
        pub publication_qos: Vec<PublicationQos> = "qos/publication",
        /// Policies for messages on links (`downsampling`, `access_control`, `qos/network`, `low_pass_filter`).
        pub intercept: Policy,
        /// Unicast sessions (`transport/unicast/*`).
        pub unicast: Unicast = "transport/unicast",
        /// Multicast groups (`transport/multicast/*`).
        pub multicast: Multicast = "transport/multicast",
        /// Links and batches (`transport/link/*`).
        pub link: LinkConfig = "transport/link",
        /// Payloads in shared memory (`transport/shared_memory/*`).
        pub shared_memory: SharedMemory = "transport/shared_memory",
        /// User and password (`transport/auth/usrpwd/*`).
        pub usrpwd: UserPassword = "transport/auth/usrpwd",
        /// The admin space (`adminspace/*`).
        pub adminspace: AdminSpace,
        /// Options that eclipse-zenoh does not have (`zwire/*`).
        pub zwire: Local,
    }

    /// Rules for retries, and the effect of final failure.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ConnectRules {
        /// Time budget of the attempts (`timeout_ms`).
        pub budget: Budget = "timeout_ms",
        /// Whether `open` fails when the budget is used up; else the session continues without the endpoint.
        pub exit_on_failure: bool,
        /// Pauses between attempts (`retry/*`).
        pub retry: Retry,
    }

    /// Pauses between attempts: the first, multiplied by the factor each time up to the longest.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Retry {
        /// The first pause; not zero.
        pub init: Duration = "period_init_ms",
        /// The longest pause; not shorter than the first.
        pub max: Duration = "period_max_ms",
        /// Factor, 1 to 100.
        pub factor: f64 = "period_increase_factor",
    }

    /// `open/return_conditions/*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReturnConditions {
        /// Wait for connections to nodes found by scouting.
        pub connect_scouted: bool,
        /// Wait for the declarations of the connected nodes.
        pub declares: bool,
    }

    /// `scouting/*`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Scouting {
        /// Time limit of scouting for a client without endpoints.
        pub timeout: Duration,
        /// Time that a peer or router waits for other nodes at start.
        pub delay: Duration,
        /// `scouting/multicast/*`.
        pub multicast: MulticastScouting,
        /// `scouting/gossip/*`.
        pub gossip: GossipScouting,
    }

    /// `scouting/multicast/*`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MulticastScouting {
        /// Whether multicast scouting is used.
        pub enabled: bool,
        /// Group and port; the address is a multicast address.
        pub address: SocketAddr,
        /// Names or addresses of interfaces; empty means automatic.
        pub interfaces: Vec<String> = "interface",
        /// TTL of datagrams: the number of routers that they may pass, plus one.
        pub ttl: u8,
        /// Roles of found nodes to connect to.
        pub autoconnect: Roles,
        /// Which of two nodes connects.
        pub strategy: AutoConnect = "autoconnect_strategy",
        /// Whether SCOUT is answered.
        pub listen: bool,
    }

    /// `scouting/gossip/*`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GossipScouting {
        /// Whether locators of other nodes are passed on.
        pub enabled: bool,
        /// Whether they are passed on over more than one hop.
        pub multihop: bool,
        /// Roles of the neighbours that receive them.
        pub target: Roles,
        /// Roles of announced nodes to connect to.
        pub autoconnect: Roles,
        /// Which of two nodes connects.
        pub strategy: AutoConnect = "autoconnect_strategy",
        /// Networks with announced nodes to connect to; empty: those of the kind of the link.
        pub networks: Vec<Interface> = "/zwire/gossip/networks",
    }

    /// `timestamping/*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timestamping {
        /// Whether publications without a time stamp get one.
        pub enabled: bool,
        /// Whether a publication from too far in the future is dropped; otherwise its time stamp is replaced.
        pub drop_future: bool = "drop_future_timestamp",
        /// Largest lead over the own clock that a time stamp may have (`zwire/timestamping/max_drift_ms`).
        pub max_drift: Duration = "/zwire/timestamping/max_drift_ms",
    }

    /// `aggregation/*`.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Aggregation {
        /// Key expressions for subscribers.
        pub subscribers: Vec<KeyExpr>,
        /// Key expressions for publishers.
        pub publishers: Vec<KeyExpr>,
    }

    /// Multicast groups.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Multicast {
        /// Interval of JOIN messages.
        pub join_interval: Duration,
        /// Most members of a group that are received from.
        pub max_sessions: usize,
        /// Whether priorities are channels of their own.
        pub qos: bool = "qos/enabled",
    }

    /// `transport/unicast/*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unicast {
        /// Time limit of each step of an outgoing handshake.
        pub open_timeout: Duration,
        /// Time limit of an incoming handshake.
        pub accept_timeout: Duration,
        /// Most incoming handshakes at once.
        pub accept_pending: usize,
        /// Most sessions at once.
        pub max_sessions: usize,
        /// Most links per session.
        pub max_links: usize,
        /// The low-latency mode without batches; excludes `qos`.
        pub lowlatency: bool,
        /// Whether priorities are offered.
        pub qos: bool = "qos/enabled",
        /// Whether LZ4 is offered.
        pub compression: bool = "compression/enabled",
    }

    /// `transport/link/*`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LinkConfig {
        /// Protocols that may be used; `None` allows all supported ones.
        pub protocols: Option<Vec<String>>,
        /// Offered resolution of sequence numbers.
        pub sn_resolution: SnResolution = "tx/sequence_number_resolution",
        /// Lease: silence after which the other side closes the link.
        pub lease: Duration = "tx/lease",
        /// Keep-alives per lease.
        pub keep_alive: u32 = "tx/keep_alive",
        /// Offered batch size in bytes.
        pub batch_size: u16 = "tx/batch_size",
        /// Batches per priority, by [`Priority`].
        pub queue_size: [usize; Priority::COUNT] = "tx/queue/size",
        /// Longest wait of a droppable message for room.
        pub wait_before_drop: Duration = "tx/queue/congestion_control/drop/wait_before_drop",
        /// Longest total wait of the fragments of one message.
        pub max_wait_before_drop_fragments: Duration = "tx/queue/congestion_control/drop/max_wait_before_drop_fragments",
        /// Longest wait of a blocking message before the link counts as stuck.
        pub wait_before_close: Duration = "tx/queue/congestion_control/block/wait_before_close",
        /// Whether messages share batches.
        pub batching: bool = "tx/queue/batching/enabled",
        /// Longest time that a batch stays open for more messages.
        pub batching_time_limit: Duration = "tx/queue/batching/time_limit",
        /// Bytes of one read.
        pub rx_buffer_size: usize = "rx/buffer_size",
        /// Largest reassembled message in bytes.
        pub max_message_size: usize = "rx/max_message_size",
        /// `SO_SNDBUF` of TCP links, unless their endpoint has its own.
        pub so_sndbuf: Option<u32> = "tcp/so_sndbuf",
        /// `SO_RCVBUF` of TCP links, unless their endpoint has its own.
        pub so_rcvbuf: Option<u32> = "tcp/so_rcvbuf",
        /// `transport/link/tls/*`; endpoints may have their own.
        pub tls: TlsSettings,
        /// Origins of web pages that may connect to WebSocket listeners; `*` allows all.
        pub ws_origins: Vec<String> = "/zwire/ws/origins",
    }

    /// `transport/shared_memory/*`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SharedMemory {
        /// Whether neighbours on the same host read payloads in the memory of their sender.
        pub enabled: bool,
        /// Whether payloads of other memory are copied there.
        pub implicit: bool = "transport_optimization/enabled",
        /// Bound of the memory for payloads, in bytes.
        pub pool_size: usize = "transport_optimization/pool_size",
        /// Size of the smallest payload that stays there, in bytes.
        pub threshold: usize = "transport_optimization/message_size_threshold",
        /// Messages with payloads that are copied there.
        pub messages: Vec<SharedMessage> = "transport_optimization/messages",
        /// Ids of users of the system, beside that of this process: their nodes share memory with this one.
        pub users: Vec<u32> = "/zwire/shared_memory/users",
        /// Whether payloads of Eclipse Zenoh are delivered in the memory of their sender, which may take them back.
        pub borrow: bool = "/zwire/shared_memory/borrow",
    }

    /// `adminspace/*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AdminSpace {
        /// Whether the admin space is served.
        pub enabled: bool,
        /// Whether it may be read.
        pub read: bool = "permissions/read",
        /// Whether it may be written.
        pub write: bool = "permissions/write",
    }

    /// `zwire/*`: options that eclipse-zenoh does not have.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Local {
        /// Capture file for all bytes on the wire.
        pub tap: Option<PathBuf>,
        /// Level of the log of a router that a command runs.
        pub log_level: Option<String> = "log/level",
        /// Memory that bounds are derived from, in bytes; 0: what the system allows the process.
        pub memory_limit: usize = "memory/limit",
        /// Ids and roles that need a proof.
        pub bindings: Vec<Binding> = "auth/bindings",
        /// Bound of the queue of each link, per priority, in bytes.
        pub queue_bytes_per_priority: usize = "queue/bytes_per_priority",
        /// Default bounds of handlers.
        pub handler: HandlerDefaults,
        /// Threads of the runtime; set by the first session of a process.
        pub threads: usize,
        /// Idle time after which a pooled session closes; `None` means never.
        pub idle_close: Option<Duration> = "idle_close_ms",
    }

    /// `zwire/handler/*`: the queue between the receive loop and the user.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HandlerDefaults {
        /// Messages that the queue holds.
        pub capacity_messages: usize,
        /// Payload and attachment bytes that the queue holds; one message always fits.
        pub capacity_bytes: usize,
        /// Longest time that a full queue may block the receive loop before messages are dropped.
        pub block_deadline: Duration = "block_deadline_ms",
        /// Content of the error reply when the callback of a queryable raises an exception.
        pub error_reply: ErrorReply,
    }
}

impl Default for SharedMemory {
    /// The values of an empty configuration.
    fn default() -> Self {
        Self {
            enabled: true,
            implicit: true,
            pool_size: 64 << 20,
            threshold: 16 << 10,
            messages: vec![SharedMessage::Put, SharedMessage::Query, SharedMessage::Reply],
            users: Vec::new(),
            borrow: false,
        }
    }
}

/// Part of an exception of a queryable's callback that the asker gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorReply {
    /// Nothing: there is no error reply.
    Nothing,
    /// Its type and message.
    Message,
    /// The traceback as well.
    Traceback,
}

/// Messages with payloads that may be copied to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMessage {
    /// Publications.
    Put,
    /// Queries with a payload.
    Query,
    /// Replies.
    Reply,
}

/// `connect/*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connect {
    /// Groups in the order of the configuration.
    pub groups: Vec<TargetGroup>,
    /// Budget, back-off and effect of failure; each target has its own copy.
    pub rules: ConnectRules,
}

impl Connect {
    /// All targets, without their grouping.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.groups.iter().flat_map(|group| &group.targets)
    }
}

/// `listen/*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listen {
    /// Targets in the order of the configuration.
    pub targets: Vec<Target>,
    /// Budget, back-off and effect of failure; each target has its own copy.
    pub rules: ConnectRules,
}

/// Endpoints of `connect/endpoints` that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetGroup {
    /// Number of targets that have to be connected to.
    pub strategy: GroupStrategy,
    /// Targets of the group; a plain string is a group of one.
    pub targets: Vec<Target>,
}

/// An endpoint with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Options of the link from the parameters of the endpoint.
    pub options: LinkOptions,
    /// The rules of the section, overridden by the parameters of the endpoint.
    pub rules: ConnectRules,
}

impl Default for ConnectRules {
    /// A single attempt; its failure makes `open` fail: the rules of a listener and of a client.
    fn default() -> Self {
        Self { budget: Budget::Once, exit_on_failure: true, retry: Retry::default() }
    }
}

/// Time budget of the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A single attempt per endpoint (0).
    Once,
    /// Unlimited attempts (-1).
    Forever,
    /// Attempts within this time.
    Within(Duration),
}

impl Default for Retry {
    fn default() -> Self {
        Self { init: Duration::from_secs(1), max: Duration::from_secs(4), factor: 2.0 }
    }
}

impl Retry {
    /// The pause before attempt `attempt + 2`: `delay(0)` follows the first failure.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        // Both sides stay finite or +inf, which `min` handles; never NaN, since init > 0 and factor >= 1.
        let seconds = self.init.as_secs_f64() * self.factor.powi(exponent);
        Duration::from_secs_f64(seconds.min(self.max.as_secs_f64()))
    }
}

impl LinkConfig {
    /// TLS settings of an endpoint with these options.
    #[must_use]
    pub fn tls_at(&self, options: &LinkOptions) -> TlsSettings {
        options.tls.or(&self.tls)
    }

    /// The pause between keep-alives.
    #[must_use]
    pub fn keep_alive_interval(&self) -> Duration {
        self.lease / self.keep_alive
    }
}

/// Size of sequence numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SnResolution {
    /// A single byte.
    Bits8 = 0,
    /// Two bytes.
    Bits16 = 1,
    /// Four bytes.
    Bits32 = 2,
    /// Eight bytes.
    Bits64 = 3,
}

/// `transport/auth/usrpwd/*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserPassword {
    /// User and password that this node presents when it connects.
    pub own: Option<(String, Secret)>,
    /// Users that may connect, read from `dictionary_file`; `None` requires no user.
    pub dictionary: Option<BTreeMap<String, Secret>>,
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text so that it is not printed.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The plain text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_grows_to_its_bound() {
        let delays: Vec<u64> = (0..5).map(|n| Retry::default().delay(n).as_millis() as u64).collect();
        assert_eq!(delays, [1000, 2000, 4000, 4000, 4000]);
        assert_eq!(Retry::default().delay(u32::MAX), Duration::from_secs(4));
        let flat = Retry { factor: 1.0, ..Retry::default() };
        assert_eq!(flat.delay(u32::MAX), Duration::from_secs(1));
    }

    #[test]
    fn secrets_do_not_print() {
        let own = Some(("user".to_owned(), Secret::new("hunter2".to_owned())));
        let text = format!("{:?}", UserPassword { own, dictionary: None });
        assert!(text.contains("user") && !text.contains("hunter2"), "{text}");
    }
}
