//! Table of all configuration keys (`zenoh-behaviour` 8): the only place with names and defaults.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use zwire_proto::zenoh::WhatAmI;

/// Entry of the table: one configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Path, for example `a/b/c`.
    pub path: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Whether an object `{router: …, peer: …, client: …}` may give one value per mode.
    pub per_mode: bool,
    /// Whether a new tree shows the default; otherwise it shows `null`, as eclipse-zenoh does for
    /// defaults that depend on the mode or are unset.
    pub shown: bool,
    /// The default as JSON for router, peer and client.
    pub default: [&'static str; 3],
    /// Unit of a number, or "".
    pub unit: &'static str,
    /// Purpose, and the effect of a wrong value.
    pub meaning: &'static str,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in a range, both ends included.
    Int(i64, i64),
    /// A number in a range, both ends included.
    Float(f64, f64),
    /// A text of at most this many bytes.
    Text(usize),
    /// A text that error messages must not repeat.
    Secret,
    /// A choice of several words.
    Choice(&'static [&'static str]),
    /// A node id: 1 to 32 lower-case hexadecimal digits, the first not 0.
    Zid,
    /// `<address>:<port>` of a multicast group.
    Group,
    /// Interfaces: names, patterns, IPv4 addresses and networks, or `auto`.
    Interfaces,
    /// A list of endpoints; if `groups` is set, also of objects `{strategy, locators}`.
    Endpoints {
        /// Whether an element may be a group.
        groups: bool,
    },
    /// A list of `router`, `peer`, `client`.
    Roles,
    /// `always`, `greater-zid`, or both by role: `{to_router: …, to_peer: …}`.
    AutoConnect,
    /// A key expression without wildcards.
    Key,
    /// A list of key expressions.
    KeyExprs,
    /// Weights of links to other routers.
    Weights,
    /// A list of texts.
    Words,
    /// A list of networks, each an address with the length of its prefix.
    Networks,
    /// A list of numbers of users of the system.
    Users,
    /// A list of objects with policies for messages on links.
    Entries(Entries),
    /// A list of anything.
    List,
    /// Anything; keys below it are not checked.
    Any,
}

/// Type of the objects in a [list](Kind::Entries).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Entries of `downsampling`.
    Downsampling,
    /// Entries of `low_pass_filter`.
    LowPass,
    /// Entries of `qos/network`.
    QosNetwork,
    /// Entries of `qos/publication`.
    QosPublication,
    /// Entries of `access_control/rules`.
    AccessRules,
    /// Entries of `access_control/subjects`.
    AccessSubjects,
    /// Entries of `access_control/policies`.
    AccessPolicies,
    /// Entries of `zwire/auth/bindings`.
    Bindings,
}

impl Entries {
    const fn form(self) -> &'static str {
        match self {
            Self::Downsampling => "{messages: [...], rules: [{key_expr: KEY, freq: HERTZ}]}",
            Self::LowPass => "{messages: [...], key_exprs: [...], size_limit: BYTES}",
            Self::QosNetwork => "{messages: [...], key_exprs: [...], overwrite: {...}}",
            Self::QosPublication => "{key_exprs: [...], config: {...}}",
            Self::AccessRules => {
                "{id: ID, permission: \"allow\" | \"deny\", messages: [...], key_exprs: [...]}"
            }
            Self::AccessSubjects => "{id: ID, ...}",
            Self::AccessPolicies => "{rules: [ID, ...], subjects: [ID, ...]}",
            Self::Bindings => "{zids: [ID, ...], roles: [...], usernames: [...], cert_common_names: [...]}",
        }
    }
}

const fn set(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Key {
    Key { path, kind, per_mode: false, shown: true, default: [default; 3], unit, meaning }
}

impl Key {
    const fn hidden(mut self) -> Self {
        self.shown = false;
        self
    }
    const fn per_mode(mut self) -> Self {
        self.per_mode = true;
        self
    }
    const fn modes(mut self, router: &'static str, peer: &'static str, client: &'static str) -> Self {
        self.per_mode = true;
        self.default = [router, peer, client];
        self
    }

    /// The default for a mode.
    ///
    /// # Panics
    /// Never: a test reads every default of the table.
    #[must_use]
    pub fn default_for(&self, mode: WhatAmI) -> Value {
        let text = self.default[usize::from(mode.to_bits())];
        serde_json::from_str(text).expect("the defaults of the table are JSON")
    }

    /// The value in a new tree.
    #[must_use]
    pub fn initial(&self) -> Value {
        if !self.shown {
            Value::Null
        } else if self.default[0] == self.default[1] && self.default[1] == self.default[2] {
            self.default_for(WhatAmI::Router)
        } else {
            self.by_mode()
        }
    }

    fn by_mode(&self) -> Value {
        let entry = |mode: WhatAmI| (mode.to_string(), self.default_for(mode));
        Value::Object([WhatAmI::Router, WhatAmI::Peer, WhatAmI::Client].map(entry).into_iter().collect())
    }

    /// Whether the engine uses the value; see [`NOT_ACTED_ON`].
    #[must_use]
    pub fn acted_on(&self) -> bool {
        !NOT_ACTED_ON.iter().any(|prefix| below(prefix, self.path).is_some())
    }
}

/// The rest of `path` below `prefix`: "" if they are equal, `None` if it is not below.
pub(super) fn below<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    if prefix.is_empty() || rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

impl Kind {
    /// Description of the type, for error texts and documents.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Int(min, max) => format!("an integer {min} to {max}"),
            Self::Float(min, max) => format!("a number {min} to {max}"),
            Self::Text(usize::MAX) | Self::Secret => "a string".to_owned(),
            Self::Text(max) => format!("a string of at most {max} bytes"),
            Self::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::Zid => "1 to 32 lower-case hexadecimal digits, the first not 0".to_owned(),
            Self::Group => "\"<multicast address>:<port>\"".to_owned(),
            Self::Interfaces => {
                "\"auto\" or names, patterns, IPv4 addresses or networks of interfaces".to_owned()
            }
            Self::Endpoints { groups: false } => "a list of endpoints".to_owned(),
            Self::Endpoints { groups: true } => {
                "a list of endpoints or {strategy: \"allOf\" | \"oneOf\", locators: [...]}".to_owned()
            }
            Self::Roles => "a list of \"router\", \"peer\", \"client\"".to_owned(),
            Self::AutoConnect => "\"always\", \"greater-zid\" or {to_router: ..., to_peer: ...}".to_owned(),
            Self::Key => "a key expression without wildcards".to_owned(),
            Self::KeyExprs => "a list of key expressions".to_owned(),
            Self::Weights => "a list of {dst_zid: ID, weight: 1 to 65535}".to_owned(),
            Self::Words => "a list of strings".to_owned(),
            Self::Networks => "a list of networks such as \"10.0.0.0/8\" or \"fd00::/8\"".to_owned(),
            Self::Users => "a list of numbers of users, each 0 to 4294967294".to_owned(),
            Self::Entries(entries) => format!("a list of {}", entries.form()),
            Self::List => "a list".to_owned(),
            Self::Any => "anything".to_owned(),
        }
    }
}

/// Longest time in milliseconds: 49 days; no sum of two overflows.
const MAX_MS: i64 = u32::MAX as i64;
/// Longest time in microseconds: an hour.
const MAX_US: i64 = 3_600_000_000;
/// Most sessions, links and handshakes: more than a process has file descriptors.
const MAX_COUNT: i64 = 1 << 20;
/// Largest size in bytes: a terabyte.
const MAX_BYTES: i64 = 1 << 40;
/// Largest socket buffer: the option is a C int.
const MAX_SOCKET_BUFFER: i64 = i32::MAX as i64;

const TEXT: Kind = Kind::Text(usize::MAX);
const QUEUE: Kind = Kind::Int(1, 16);
const NO_ROLE: &str = "[]";
const ALL_ROLES: &str = r#"["router","peer","client"]"#;

use Kind::{
    Any, AutoConnect, Bool, Choice, Endpoints, Float, Group, Int, Interfaces, KeyExprs, List, Networks,
    Roles, Secret, Users, Weights, Words, Zid,
};

/// Every key, in the order in which a tree shows them.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    set("id", Zid, "null", "",
        "Id of the node. Two nodes with one id drop each other; unset asks for a random one.").hidden(),
    set("mode", Choice(&["router", "peer", "client"]), "\"peer\"", "",
        "Role of the node: a router forwards for others, a client has one router that does everything for it.").hidden(),
    set("metadata", Any, "null", "",
        "Free description of the node, shown in the admin space.").hidden(),
    set("region_name", Kind::Text(32), "null", "",
        "Name of the region that the node belongs to.").hidden(),

    set("connect/timeout_ms", Int(-1, MAX_MS), "", "ms",
        "How long to try to connect: 0 tries each endpoint once, or for a second while it still has the last session of this id; -1 tries for ever.").modes("-1", "-1", "0").hidden(),
    set("connect/endpoints", Endpoints { groups: true }, "[]", "",
        "Where to connect to. A client uses the first that answers, others connect to all. A mode that a per-mode value leaves out has none.").per_mode(),
    set("connect/exit_on_failure", Bool, "", "",
        "Whether opening fails when the timeout has passed; otherwise the session goes on unconnected.").modes("false", "false", "true").hidden(),
    set("connect/retry/period_init_ms", Int(1, MAX_MS), "1000", "ms",
        "First pause between attempts to connect.").per_mode().hidden(),
    set("connect/retry/period_max_ms", Int(1, MAX_MS), "4000", "ms",
        "Longest pause between attempts to connect; traffic resumes that much later after an outage.").per_mode().hidden(),
    set("connect/retry/period_increase_factor", Float(1.0, 100.0), "2", "",
        "Each pause is this many times the one before.").per_mode().hidden(),

    set("listen/timeout_ms", Int(-1, MAX_MS), "0", "ms",
        "How long to try to bind a listener: 0 tries once, -1 tries for ever.").per_mode().hidden(),
    set("listen/endpoints", Endpoints { groups: false }, "", "",
        "Where to listen. A mode that a per-mode value leaves out listens nowhere.")
        .modes(r#"["tcp/[::]:7447"]"#, r#"["tcp/[::]:0"]"#, "[]"),
    set("listen/exit_on_failure", Bool, "true", "",
        "Whether opening fails when a listener cannot be bound.").per_mode().hidden(),
    set("listen/retry/period_init_ms", Int(1, MAX_MS), "1000", "ms",
        "First pause between attempts to bind.").per_mode().hidden(),
    set("listen/retry/period_max_ms", Int(1, MAX_MS), "4000", "ms",
        "Longest pause between attempts to bind.").per_mode().hidden(),
    set("listen/retry/period_increase_factor", Float(1.0, 100.0), "2", "",
        "Each pause is this many times the one before.").per_mode().hidden(),

    set("open/return_conditions/connect_scouted", Bool, "true", "",
        "Whether opening waits for connections to nodes that scouting finds.").hidden(),
    set("open/return_conditions/declares", Bool, "true", "",
        "Whether opening waits for the declarations of the connected nodes.").hidden(),

    set("scouting/timeout", Int(0, MAX_MS), "3000", "ms",
        "How long a client without endpoints looks for a node before opening fails.").hidden(),
    set("scouting/delay", Int(0, MAX_MS), "500", "ms",
        "How long a peer or router waits at start for the nodes that it finds.").hidden(),
    set("scouting/multicast/enabled", Bool, "true", "",
        "Whether nodes are looked for, and answered, by multicast.").hidden(),
    set("scouting/multicast/address", Group, "\"224.0.0.224:7446\"", "",
        "Group and port of scouting; nodes with another group do not see each other.").hidden(),
    set("scouting/multicast/interface", Interfaces, "\"auto\"", "",
        "Names, patterns (`eth*`), addresses or networks of interfaces, with `!` to leave one out, separated by commas; `auto` takes every one that suits.").hidden(),
    set("scouting/multicast/ttl", Int(1, 255), "1", "hops",
        "How many networks a scouting message crosses; 1 stays in the local one.").hidden(),
    set("scouting/multicast/autoconnect", Roles, "", "",
        "Which found roles are connected to.").modes(NO_ROLE, ALL_ROLES, ALL_ROLES).hidden(),
    set("scouting/multicast/autoconnect_strategy", AutoConnect, "\"always\"", "",
        "Which of two nodes that find each other connects.").per_mode().hidden(),
    set("scouting/multicast/listen", Bool, "true", "",
        "Whether the node answers scouting messages.").per_mode().hidden(),
    set("scouting/gossip/enabled", Bool, "true", "",
        "Whether the node tells its neighbours about each other.").hidden(),
    set("scouting/gossip/multihop", Bool, "false", "",
        "Whether such news travels further than one hop; costs traffic with every change.").hidden(),
    set("scouting/gossip/target", Roles, r#"["router","peer"]"#, "",
        "Which roles are told.").per_mode().hidden(),
    set("scouting/gossip/autoconnect", Roles, "", "",
        "Which roles are connected to when heard of.").modes(NO_ROLE, ALL_ROLES, ALL_ROLES).hidden(),
    set("scouting/gossip/autoconnect_strategy", AutoConnect, "\"always\"", "",
        "Which of two nodes that hear of each other connects.").per_mode().hidden(),

    set("timestamping/enabled", Bool, "", "",
        "Whether publications without a time stamp get one.").modes("true", "false", "false").hidden(),
    set("timestamping/drop_future_timestamp", Bool, "false", "",
        "Whether a publication from too far in the future is dropped; otherwise its time stamp is replaced.").hidden(),
    set("queries_default_timeout", Int(1, MAX_MS), "10000", "ms",
        "Timeout of a query that gives none.").hidden(),

    set("routing/router/linkstate/transport_weights", Weights, "[]", "",
        "Weights of links to other routers; 100 where neither end has one, of two the greater."),
    set("routing/interests/timeout", Int(1, MAX_MS), "10000", "ms",
        "How long a forwarded interest may stay unanswered before the asker is answered without.").hidden(),
    set("gateway/south", Any, "\"auto\"", "",
        "Which neighbours form subregions of this node. Only `auto`, by their roles, is supported.").hidden(),
    set("aggregation/subscribers", KeyExprs, "[]", "",
        "A subscriber included in one of these is announced as that one."),
    set("aggregation/publishers", KeyExprs, "[]", "",
        "A publisher included in one of these shares the interest of that one."),
    set("qos/publication", Kind::Entries(Entries::QosPublication), "[]", "",
        "Overrides the quality of service of publications; the first entry that includes the key counts."),
    set("qos/network", Kind::Entries(Entries::QosNetwork), "[]", "",
        "Overrides the quality of service of messages on the wire."),
    set("namespace", Kind::Key, "null", "",
        "Prefix that all keys of the session get on the wire; what arrives without it is not seen.").hidden(),

    set("transport/unicast/open_timeout", Int(1, MAX_MS), "10000", "ms",
        "How long each step of an outgoing handshake may take."),
    set("transport/unicast/accept_timeout", Int(1, MAX_MS), "10000", "ms",
        "How long an incoming handshake may take."),
    set("transport/unicast/accept_pending", Int(1, MAX_COUNT), "100", "handshakes",
        "Incoming handshakes at once; further connections wait in the backlog of the listener."),
    set("transport/unicast/max_sessions", Int(1, MAX_COUNT), "1000", "sessions",
        "Sessions at once; further ones are refused."),
    set("transport/unicast/max_links", Int(1, 255), "1", "links",
        "Links per session; further ones are refused."),
    set("transport/unicast/lowlatency", Bool, "false", "",
        "The mode without batches and priorities; excludes transport/unicast/qos/enabled."),
    set("transport/unicast/qos/enabled", Bool, "true", "",
        "Whether priorities are offered; without them a bulk transfer delays everything behind it."),
    set("transport/unicast/compression/enabled", Bool, "false", "",
        "Whether LZ4 is offered: less traffic for more processor time."),
    set("transport/multicast/join_interval", Int(1, MAX_MS), "2500", "ms",
        "Pause between JOIN messages."),
    set("transport/multicast/max_sessions", Int(1, MAX_COUNT), "1000", "sessions",
        "Members of a multicast group that are listened to."),
    set("transport/multicast/qos/enabled", Bool, "false", "",
        "Whether priorities are used in the group."),
    set("transport/multicast/compression/enabled", Bool, "false", "",
        "Whether LZ4 is used in the group."),

    set("transport/link/protocols", Words, "null", "",
        "Protocols that endpoints may have; unset allows all that exist.").hidden(),
    set("transport/link/tx/sequence_number_resolution", Choice(&["8bit", "16bit", "32bit", "64bit"]), "\"32bit\"", "",
        "Offered size of sequence numbers; the smaller of both sides counts."),
    set("transport/link/tx/lease", Int(10, MAX_MS), "10000", "ms",
        "Silence after which the other side gives the link up. Short finds dead links early, and kills slow ones."),
    set("transport/link/tx/keep_alive", Int(1, 1000), "4", "per lease",
        "Signs of life per lease. With 1 a single delay ends the link."),
    set("transport/link/tx/batch_size", Int(64, 65535), "65535", "bytes",
        "Largest batch; the smaller of both sides counts. Small batches cost throughput."),
    set("transport/link/tx/queue/size/control", QUEUE, "2", "batches",
        "Batches that wait at priority control."),
    set("transport/link/tx/queue/size/real_time", QUEUE, "2", "batches",
        "Batches that wait at priority real_time."),
    set("transport/link/tx/queue/size/interactive_high", QUEUE, "2", "batches",
        "Batches that wait at priority interactive_high."),
    set("transport/link/tx/queue/size/interactive_low", QUEUE, "2", "batches",
        "Batches that wait at priority interactive_low."),
    set("transport/link/tx/queue/size/data_high", QUEUE, "2", "batches",
        "Batches that wait at priority data_high."),
    set("transport/link/tx/queue/size/data", QUEUE, "2", "batches",
        "Batches that wait at priority data."),
    set("transport/link/tx/queue/size/data_low", QUEUE, "2", "batches",
        "Batches that wait at priority data_low."),
    set("transport/link/tx/queue/size/background", QUEUE, "2", "batches",
        "Batches that wait at priority background."),
    set("transport/link/tx/queue/congestion_control/drop/wait_before_drop", Int(0, MAX_US), "1000", "us",
        "How long a droppable message waits for room before it is dropped."),
    set("transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments", Int(0, MAX_US), "50000", "us",
        "The most that all fragments of a droppable message wait together."),
    set("transport/link/tx/queue/congestion_control/block/wait_before_close", Int(0, MAX_US), "5000000", "us",
        "How long a blocking message waits before the link counts as stuck."),
    set("transport/link/tx/queue/batching/enabled", Bool, "true", "",
        "Whether messages share batches; without it small messages cost a system call each."),
    set("transport/link/tx/queue/batching/time_limit", Int(0, 60_000), "1", "ms",
        "How long a batch may stay open for more messages under back-pressure."),
    set("transport/link/tx/queue/allocation/mode", Choice(&["lazy", "init"]), "\"lazy\"", "",
        "When the memory of batches is taken."),
    set("transport/link/tx/threads", Int(1, 256), "null", "threads",
        "Threads that send; zwire/threads sets those of this implementation.").hidden(),
    set("transport/link/rx/buffer_size", Int(64, 1 << 30), "65535", "bytes",
        "Bytes that are read at once from each link."),
    set("transport/link/rx/max_message_size", Int(1, MAX_BYTES), "1073741824", "bytes",
        "Largest message that is put together from fragments; a larger one is dropped."),
    set("transport/link/tls/root_ca_certificate", TEXT, "null", "", "File with the certificates that are trusted.").hidden(),
    set("transport/link/tls/root_ca_certificate_base64", TEXT, "null", "", "The same as base64.").hidden(),
    set("transport/link/tls/listen_private_key", TEXT, "null", "", "File with the key of a listener.").hidden(),
    set("transport/link/tls/listen_private_key_base64", Secret, "null", "", "The same as base64.").hidden(),
    set("transport/link/tls/listen_certificate", TEXT, "null", "", "File with the certificate of a listener.").hidden(),
    set("transport/link/tls/listen_certificate_base64", TEXT, "null", "", "The same as base64.").hidden(),
    set("transport/link/tls/enable_mtls", Bool, "false", "", "Whether both sides show certificates.").hidden(),
    set("transport/link/tls/connect_private_key", TEXT, "null", "", "File with the key of an outgoing link.").hidden(),
    set("transport/link/tls/connect_private_key_base64", Secret, "null", "", "The same as base64.").hidden(),
    set("transport/link/tls/connect_certificate", TEXT, "null", "", "File with the certificate of an outgoing link.").hidden(),
    set("transport/link/tls/connect_certificate_base64", TEXT, "null", "", "The same as base64.").hidden(),
    set("transport/link/tls/verify_name_on_connect", Bool, "true", "", "Whether the name in the certificate must be that of the endpoint.").hidden(),
    set("transport/link/tls/close_link_on_expiration", Bool, "false", "", "Whether a link ends with its certificate.").hidden(),
    set("transport/link/tls/so_sndbuf", Int(1, MAX_SOCKET_BUFFER), "null", "bytes", "SO_SNDBUF of TLS links.").hidden(),
    set("transport/link/tls/so_rcvbuf", Int(1, MAX_SOCKET_BUFFER), "null", "bytes", "SO_RCVBUF of TLS links.").hidden(),
    set("transport/link/tcp/so_sndbuf", Int(1, MAX_SOCKET_BUFFER), "null", "bytes",
        "SO_SNDBUF of TCP links, unless their endpoint gives one; unset leaves it to the system.").hidden(),
    set("transport/link/tcp/so_rcvbuf", Int(1, MAX_SOCKET_BUFFER), "null", "bytes",
        "SO_RCVBUF of TCP links, unless their endpoint gives one; unset leaves it to the system.").hidden(),
    set("transport/link/unixpipe/file_access_mask", Int(0, 0o777), "null", "", "Mode of named pipes.").hidden(),
    set("transport/shared_memory/enabled", Bool, "true", "",
        "Whether nodes on the same host read payloads in the memory of their sender."),
    set("transport/shared_memory/mode", Choice(&["lazy", "init"]), "\"lazy\"", "",
        "When memory is taken; here always with the first payload."),
    set("transport/shared_memory/transport_optimization/enabled", Bool, "true", "",
        "Whether large payloads are copied to shared memory."),
    set("transport/shared_memory/transport_optimization/pool_size", Int(1, MAX_BYTES), "67108864", "bytes",
        "Bound of the shared memory of a session. A payload that finds no room goes over the link."),
    set("transport/shared_memory/transport_optimization/message_size_threshold", Int(1, MAX_BYTES), "16384", "bytes",
        "Size of the smallest payload in shared memory."),
    set("transport/shared_memory/transport_optimization/messages", Words, r#"["put","query","reply"]"#, "",
        "Messages whose payloads are copied to shared memory."),
    set("transport/auth/usrpwd/user", TEXT, "null", "",
        "User name that this node gives when it connects. It then connects only to nodes that ask for one.").hidden(),
    set("transport/auth/usrpwd/password", Secret, "null", "",
        "Password that belongs to the user; it never crosses the wire.").hidden(),
    set("transport/auth/usrpwd/dictionary_file", TEXT, "null", "",
        "File with lines `user:password`; a connecting node must present one of them.").hidden(),
    set("transport/auth/pubkey/public_key_pem", TEXT, "null", "", "Own RSA key.").hidden(),
    set("transport/auth/pubkey/private_key_pem", Secret, "null", "", "Own RSA key.").hidden(),
    set("transport/auth/pubkey/public_key_file", TEXT, "null", "", "File with it.").hidden(),
    set("transport/auth/pubkey/private_key_file", TEXT, "null", "", "File with it.").hidden(),
    set("transport/auth/pubkey/key_size", Int(512, 16384), "null", "bits", "Size of a fresh key.").hidden(),
    set("transport/auth/pubkey/known_keys_file", TEXT, "null", "", "File with the keys that may connect.").hidden(),

    set("adminspace/enabled", Bool, "false", "", "Whether the node answers questions about itself."),
    set("adminspace/permissions/read", Bool, "true", "", "Whether it may be asked."),
    set("adminspace/permissions/write", Bool, "false", "", "Whether it may be changed: by puts and deletes on `@/<id>/<role>/config/**`."),
    set("downsampling", Kind::Entries(Entries::Downsampling), "[]", "", "How many messages a second pass a link."),
    set("access_control/enabled", Bool, "false", "", "Whether rules decide which messages may pass."),
    set("access_control/default_permission", Choice(&["allow", "deny"]), "\"deny\"", "", "What happens without a rule."),
    set("access_control/rules", Kind::Entries(Entries::AccessRules), "null", "", "The rules.").hidden(),
    set("access_control/subjects", Kind::Entries(Entries::AccessSubjects), "null", "", "Nodes and links that the rules can apply to.").hidden(),
    set("access_control/policies", Kind::Entries(Entries::AccessPolicies), "null", "", "Assignment of rules to subjects.").hidden(),
    set("low_pass_filter", Kind::Entries(Entries::LowPass), "[]", "", "How large messages may be that pass a link."),
    set("stats/filters", List, "[]", "", "Keys that get statistics of their own."),
    set("plugins_loading/enabled", Bool, "false", "", "Plugins of the reference router."),
    set("plugins_loading/search_dirs", List, "[]", "", "Where they are."),
    set("plugins", Any, "{}", "", "Their configuration, unchecked."),

    set("zwire/tap", TEXT, "null", "",
        "Capture file (pcap) that gets everything that crosses the wire; an existing file is replaced.").hidden(),
    set("zwire/log/level", Choice(&["off", "error", "warn", "info", "debug", "trace"]), "null", "",
        "Level of the log of `zwire router`, unless an option of the command sets it. May change while it runs.").hidden(),
    set("zwire/ws/origins", Words, "[]", "",
        "Origins of web pages that may connect to WebSocket listeners, such as `https://dash.example`; `*` allows all."),
    set("zwire/auth/bindings", Kind::Entries(Entries::Bindings), "[]", "",
        "Ids and roles that only nodes with certain users or certificates may claim.").hidden(),
    set("zwire/gossip/networks", Networks, "[]", "",
        "Networks with the nodes to connect to when a neighbour tells of them, such as `10.0.0.0/8`. Empty: those of the kind of its link (loopback, private, public).").hidden(),
    set("zwire/shared_memory/users", Users, "[]", "",
        "Users of the system, by number, whose nodes of this implementation share memory with this one, beside its own user.").hidden(),
    set("zwire/shared_memory/borrow", Bool, "false", "",
        "Whether samples, queries and replies of eclipse-zenoh are delivered in the memory of their sender, without a copy. It may take them back; see `is_valid`.").hidden(),
    set("zwire/memory/limit", Int(0, MAX_BYTES), "0", "bytes",
        "Memory from which the bounds of declarations (an eighth) and of incomplete messages (a quarter) are derived. 0: what the system allows the process: control groups, `ulimit -v`, the memory of the machine.").hidden(),
    set("zwire/queue/bytes_per_priority", Int(1024, MAX_BYTES), "4194304", "bytes",
        "Bound of the queue towards each destination, for each priority. Large hides a slow destination longer."),
    set("zwire/handler/capacity_messages", Int(1, 1 << 32), "65536", "messages",
        "Messages that a handler without its own capacity holds."),
    set("zwire/handler/capacity_bytes", Int(1, MAX_BYTES), "67108864", "bytes",
        "Bytes of payload that such a handler holds; one message always fits."),
    set("zwire/handler/block_deadline_ms", Int(0, MAX_MS), "1000", "ms",
        "How long a full handler may hold up the receiving of its session before messages for it are dropped."),
    set("zwire/handler/error_reply", Choice(&["none", "message", "traceback"]), "\"message\"", "",
        "Content of the error reply when the callback of a queryable raises an exception: none, its type and message, or its traceback as well."),
    set("zwire/threads", Int(1, 256), "2", "threads",
        "Threads of the runtime; the first session of a process decides."),
    set("zwire/timestamping/max_drift_ms", Int(0, MAX_MS), "500", "ms",
        "How far ahead of the own clock a time stamp may lie. Beyond it is from too far in the future."),
    set("zwire/idle_close_ms", Int(0, MAX_MS), "30000", "ms",
        "When a session that Spark tasks share closes for want of use; 0 means never."),
];

/// Keys, or branches of keys, that are stored without effect; setting one to another value causes a warning.
pub const NOT_ACTED_ON: &[&str] = &[
    "region_name",
    "aggregation",
    "transport/unicast/max_links",
    "transport/multicast/compression",
    "transport/link/tx/queue/allocation/mode",
    "transport/link/tx/threads",
    "transport/link/unixpipe",
    "transport/shared_memory/mode",
    "transport/auth/pubkey",
    "stats",
    "plugins_loading",
    "plugins",
];

/// Sections of `plugins` that have an effect here. Others are kept without effect; a router that requires one fails.
pub const BUILT_IN: &[&str] = &["storage_manager"];

/// Sections of `plugins` that the command `zwire router` acts on, and no session by itself.
pub(super) const OF_COMMAND: &[&str] = &["rest", "remote_api"];

/// Result of looking up a path.
pub(super) enum Place<'a> {
    /// A key, or a path inside a key of free form with the rest of the path.
    Leaf(&'static Key, &'a str),
    /// A branch with keys below it.
    Branch,
    /// An unknown path.
    Unknown,
}

/// Looks up a path without leading, trailing or double slashes.
pub(super) fn find(path: &str) -> Place<'_> {
    if path.is_empty() {
        return Place::Branch;
    }
    let mut branch = false;
    for key in KEYS {
        match below(key.path, path) {
            Some("") => return Place::Leaf(key, ""),
            Some(rest) if key.kind == Kind::Any => return Place::Leaf(key, rest),
            _ => branch |= below(path, key.path).is_some(),
        }
    }
    if branch { Place::Branch } else { Place::Unknown }
}

/// All keys and branches, for suggestions.
pub(super) fn known_paths() -> impl Iterator<Item = &'static str> {
    static PATHS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let mut paths = Vec::new();
        for key in KEYS {
            for (end, _) in key.path.match_indices('/') {
                if !paths.contains(&&key.path[..end]) {
                    paths.push(&key.path[..end]);
                }
            }
            paths.push(key.path);
        }
        paths
    });
    PATHS.iter().copied()
}

/// The table as JSON: for the documentation, and for other languages to compare with.
///
/// `{"<path>": {"expected", "per_mode", "default": {"router", "peer", "client"}, "unit",
/// "meaning", "acted_on"}}`.
#[must_use]
pub fn defaults_json() -> String {
    let entry = |key: &Key| {
        let value = json!({
            "expected": key.kind.expected(),
            "per_mode": key.per_mode,
            "default": key.by_mode(),
            "unit": key.unit,
            "meaning": key.meaning,
            "acted_on": key.acted_on(),
        });
        (key.path.to_owned(), value)
    };
    Value::Object(KEYS.iter().map(entry).collect::<Map<_, _>>()).to_string()
}
