"""Configuration as frozen Python values.

:class:`SessionConfig` says what a session is to do, in the words of Python; :meth:`SessionConfig.to_json`
turns it into the tree of keys that ``zwire.zenoh.Config`` takes. Values are checked there, once, by the
compiled module, which also holds the only table of keys and defaults; a test compares the defaults below with
it.

Configurations are what gets pickled and compared: a session is rebuilt from one, never sent.

A field that is ``None`` leaves its key alone, so that the default of the mode applies.
"""

# ruff: noqa: RUF009 - `_key` only adds metadata, and a frozen default may be shared.

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from zwire._entries import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    Downsampling,
    Entry,
    Json,
    LinkWeight,
    LowPass,
    NetworkQos,
    PublicationQos,
    Qos,
    Rate,
    freeze,
)

__all__ = [
    "AccessControl",
    "AccessPolicy",
    "AccessRule",
    "AccessSubject",
    "AdminSpace",
    "Attempts",
    "Batching",
    "Congestion",
    "Credentials",
    "Downsampling",
    "Handler",
    "Limits",
    "Link",
    "LinkWeight",
    "LowPass",
    "Multicast",
    "NetworkQos",
    "Opening",
    "PublicationQos",
    "Qos",
    "QueueSizes",
    "Rate",
    "Retry",
    "Scouting",
    "SessionConfig",
    "Timeouts",
    "Timestamping",
    "Tls",
]

Role: TypeAlias = Literal["router", "peer", "client"]

Strategy: TypeAlias = Literal["always", "greater-zid"]

_PATH = "path"
"""Metadata of a field: its path below that of the dataclass it is in; "" adds nothing."""


def _key(path: str, default: Any, *, shown: bool = True) -> Any:  # noqa: ANN401 - the type is that of the field
    return field(default=default, repr=shown, metadata={_PATH: path})


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Pauses between attempts: the first, then each times the factor, up to the longest."""

    period_init_ms: int = _key("period_init_ms", 1000)
    """First pause. Milliseconds, 1 to 4294967295; default 1000. Short finds a returned hub early and knocks
    often."""

    period_max_ms: int = _key("period_max_ms", 4000)
    """Longest pause. Milliseconds, 1 to 4294967295, not below the first; default 4000. Traffic resumes up to
    that much later than the hub."""

    period_increase_factor: float = _key("period_increase_factor", 2)
    """Each pause is this many times the one before. 1 to 100; default 2. With 1 the pauses stay equal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """How hard to try to connect, or to bind a listener."""

    timeout_ms: int | None = _key("timeout_ms", None)
    """How long to try. Milliseconds, -1 to 4294967295; 0 tries each endpoint once, -1 tries for ever. Default
    ``None``: 0 for listeners and for a client that connects, -1 for a peer or router that connects."""

    exit_on_failure: bool | None = _key("exit_on_failure", None)
    """Whether opening fails when the time is over; otherwise the session goes on without. Default ``None``:
    true for listeners and for a client that connects, false for a peer or router that connects."""

    retry: Retry = _key("retry", Retry())
    """Pauses between attempts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long things may take."""

    query_ms: int = _key("queries_default_timeout", 10000)
    """Timeout of a query that gives none. Milliseconds, 1 to 4294967295; default 10000. A queryable that
    never answers holds its asker that long."""

    interest_ms: int = _key("routing/interests/timeout", 10000)
    """How long a forwarded interest may stay unanswered. Milliseconds, 1 to 4294967295; default 10000. After
    it the asker is answered without."""

    open_ms: int = _key("transport/unicast/open_timeout", 10000)
    """How long each step of an outgoing handshake may take. Milliseconds, 1 to 4294967295; default 10000.
    Short gives up on slow networks."""

    accept_ms: int = _key("transport/unicast/accept_timeout", 10000)
    """How long an incoming handshake may take. Milliseconds, 1 to 4294967295; default 10000. A silent
    connection occupies one of ``Limits.accept_pending`` that long."""

    lease_ms: int = _key("transport/link/tx/lease", 10000)
    """Silence after which the other side gives the link up. Milliseconds, 10 to 4294967295; default 10000.
    Short finds dead links early, and kills slow ones."""

    keep_alive: int = _key("transport/link/tx/keep_alive", 4)
    """Signs of life per lease. 1 to 1000; default 4. With 1 a single delay ends the link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a session may use."""

    batch_size: int = _key("transport/link/tx/batch_size", 65535)
    """Largest batch on a link. Bytes, 64 to 65535; default 65535. The smaller of both sides counts; small
    batches cost throughput."""

    max_message_size: int = _key("transport/link/rx/max_message_size", 1073741824)
    """Largest message that is put together from fragments. Bytes, 1 to 1099511627776; default 1073741824. A
    larger one is dropped; a peer can make the session hold that much."""

    rx_buffer_size: int = _key("transport/link/rx/buffer_size", 65535)
    """Bytes that are read at once from each link. Bytes, 64 to 1073741824; default 65535. Never less than
    262144 are asked for; more costs memory per link."""

    max_sessions: int = _key("transport/unicast/max_sessions", 1000)
    """Other nodes at once. Sessions, 1 to 1048576; default 1000. Further ones are refused."""

    accept_pending: int = _key("transport/unicast/accept_pending", 100)
    """Incoming handshakes at once. 1 to 1048576 handshakes; default 100. Further connections wait in the
    backlog of the listener."""

    queue_bytes_per_priority: int = _key("zwire/queue/bytes_per_priority", 4194304)
    """Bound of the queue towards each destination, for each priority. Bytes, 1024 to 1099511627776; default
    4194304. Large hides a slow destination longer, and costs that memory for it."""

    threads: int = _key("zwire/threads", 2)
    """Threads of the runtime. 1 to 256 threads; default 2. The first session of a process decides for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Handler:
    """The queue between a session and a subscriber that brings no handler of its own."""

    capacity_messages: int = _key("zwire/handler/capacity_messages", 65536)
    """Messages that it holds. 1 to 4294967296 messages; default 65536. A full one holds up the whole session
    for ``block_deadline_ms``."""

    capacity_bytes: int = _key("zwire/handler/capacity_bytes", 67108864)
    """Payload that it holds. Bytes, 1 to 1099511627776; default 67108864. One message always fits."""

    block_deadline_ms: int = _key("zwire/handler/block_deadline_ms", 1000)
    """How long a full handler may hold up the receiving of its session. Milliseconds, 0 to 4294967295;
    default 1000. After it messages for this handler are dropped and counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSizes:
    """Batches that wait for a link, by priority."""

    control: int = _key("control", 2)
    """Priority control. 1 to 16 batches; default 2. A batch is up to ``Limits.batch_size`` bytes of
    memory."""

    real_time: int = _key("real_time", 2)
    """Priority real_time. 1 to 16 batches; default 2."""

    interactive_high: int = _key("interactive_high", 2)
    """Priority interactive_high. 1 to 16 batches; default 2."""

    interactive_low: int = _key("interactive_low", 2)
    """Priority interactive_low. 1 to 16 batches; default 2."""

    data_high: int = _key("data_high", 2)
    """Priority data_high. 1 to 16 batches; default 2."""

    data: int = _key("data", 2)
    """Priority data, where publications go that name none. 1 to 16 batches; default 2."""

    data_low: int = _key("data_low", 2)
    """Priority data_low. 1 to 16 batches; default 2."""

    background: int = _key("background", 2)
    """Priority background. 1 to 16 batches; default 2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Congestion:
    """How long messages wait for room."""

    wait_before_drop_us: int = _key("drop/wait_before_drop", 1000)
    """A droppable message, before it is dropped. Microseconds, 0 to 3600000000; default 1000. Each wait holds
    up the publisher."""

    max_wait_before_drop_fragments_us: int = _key("drop/max_wait_before_drop_fragments", 50000)
    """All fragments of a droppable message together. Microseconds, 0 to 3600000000; default 50000. Short
    loses large messages first."""

    wait_before_close_us: int = _key("block/wait_before_close", 5000000)
    """A blocking message, before the link counts as stuck. Microseconds, 0 to 3600000000; default 5000000.
    Short ends links whose reader only pauses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """How messages share batches."""

    enabled: bool = _key("enabled", default=True)
    """Whether they do. Default true. Without it small messages cost a system call each."""

    time_limit_ms: int = _key("time_limit", 1)
    """How long a batch may stay open for more under back-pressure. Milliseconds, 0 to 60000; default 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tls:
    """Certificates and keys of links over TLS and QUIC, as PEM.

    An endpoint may have its own: ``tls/robot.local:7447#root_ca_certificate_file=/etc/fleet/ca.pem``.
    """

    root_ca_certificate: str | None = _key("root_ca_certificate", None)
    """File with the authorities that are trusted; no others are. Default ``None``. Whoever connects needs
    it, and who listens with ``enable_mtls``."""

    root_ca_certificate_base64: str | None = _key("root_ca_certificate_base64", None)
    """The same without a file, as base64. Default ``None``."""

    listen_certificate: str | None = _key("listen_certificate", None)
    """File with the certificate of a listener and its chain. Default ``None``. Read once, at the start."""

    listen_certificate_base64: str | None = _key("listen_certificate_base64", None)
    """The same without a file, as base64. Default ``None``."""

    listen_private_key: str | None = _key("listen_private_key", None)
    """File with the key of a listener. Default ``None``."""

    listen_private_key_base64: str | None = _key("listen_private_key_base64", None, shown=False)
    """The same without a file, as base64. Default ``None``. It is not shown."""

    enable_mtls: bool = _key("enable_mtls", default=False)
    """Whether those who connect show a certificate, too. Default false. It takes TLS 1.3."""

    connect_certificate: str | None = _key("connect_certificate", None)
    """File with the certificate that an outgoing link shows with ``enable_mtls``. Default ``None``."""

    connect_certificate_base64: str | None = _key("connect_certificate_base64", None)
    """The same without a file, as base64. Default ``None``."""

    connect_private_key: str | None = _key("connect_private_key", None)
    """File with the key of it. Default ``None``."""

    connect_private_key_base64: str | None = _key("connect_private_key_base64", None, shown=False)
    """The same without a file, as base64. Default ``None``. It is not shown."""

    verify_name_on_connect: bool = _key("verify_name_on_connect", default=True)
    """Whether the name in a listener's certificate must be the host of the endpoint. Default true. Without
    it, whoever has a certificate of the same authority can stand in for the listener."""

    close_link_on_expiration: bool = _key("close_link_on_expiration", default=False)
    """Whether a link ends when the certificate of the other side does. Default false."""

    so_sndbuf: int | None = _key("so_sndbuf", None)
    """``SO_SNDBUF`` of TLS links whose endpoint gives none. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system."""

    so_rcvbuf: int | None = _key("so_rcvbuf", None)
    """``SO_RCVBUF`` of TLS links whose endpoint gives none. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Multicast:
    """Groups of nodes that send by UDP multicast. All members of a group need the same."""

    join_interval_ms: int = _key("join_interval", 2500)
    """Pause between the messages that say who is there. Milliseconds, 1 to 4294967295; default 2500. Short
    finds members early, and costs all of them traffic."""

    max_sessions: int = _key("max_sessions", 1000)
    """Members that are listened to. Sessions, 1 to 1048576; default 1000. Further ones are not heard."""

    qos: bool = _key("qos/enabled", default=False)
    """Whether priorities are used. Default false. zenoh-pico does not know them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What is offered on links."""

    qos: bool = _key("unicast/qos/enabled", default=True)
    """Whether priorities are offered. Default true. Without them a bulk transfer delays everything behind
    it."""

    compression: bool = _key("unicast/compression/enabled", default=False)
    """Whether LZ4 is offered. Default false. Less traffic for more processor time."""

    low_latency: bool = _key("unicast/lowlatency", default=False)
    """Whether the mode without batches, priorities and fragments is offered. Default false. It excludes
    ``qos``; a message that is larger than a batch is dropped and counted."""

    sequence_number_resolution: Literal["8bit", "16bit", "32bit", "64bit"] = _key(
        "link/tx/sequence_number_resolution", "32bit"
    )
    """Offered size of sequence numbers. Default 32bit. The smaller of both sides counts; a small one limits
    how many messages may be under way."""

    protocols: Sequence[str] | None = _key("link/protocols", None)
    """Protocols that endpoints may have. Default ``None``: all that exist. An endpoint of another is an
    error."""

    so_sndbuf: int | None = _key("link/tcp/so_sndbuf", None)
    """``SO_SNDBUF`` of TCP links whose endpoint gives none. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system, which adapts it."""

    so_rcvbuf: int | None = _key("link/tcp/so_rcvbuf", None)
    """``SO_RCVBUF`` of TCP links whose endpoint gives none. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system, which adapts it."""

    queue_sizes: QueueSizes = _key("link/tx/queue/size", QueueSizes())
    """Batches that wait, by priority."""

    congestion: Congestion = _key("link/tx/queue/congestion_control", Congestion())
    """How long messages wait for room."""

    batching: Batching = _key("link/tx/queue/batching", Batching())
    """How messages share batches."""

    tls: Tls = _key("link/tls", Tls())
    """Certificates and keys."""

    multicast: Multicast = _key("multicast", Multicast())
    """Multicast groups."""

    def __post_init__(self) -> None:
        freeze(self, "protocols")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminSpace:
    """Answers about the node itself, on keys below ``@/<id>/<role>``."""

    enabled: bool = _key("enabled", default=False)
    """Whether the node answers questions about itself. Default false."""

    read: bool = _key("permissions/read", default=True)
    """Whether it may be asked. Default true."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timestamping:
    """Time stamps of publications."""

    enabled: bool | None = _key("enabled", None)
    """Whether publications without a time stamp get one. Default ``None``: true for a router, false for
    others."""

    drop_future_timestamp: bool = _key("drop_future_timestamp", default=False)
    """Whether a publication from too far in the future is dropped. Default false: its time stamp is
    replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scouting:
    """How other nodes are found: by multicast, and by gossip, which is what neighbours tell."""

    timeout_ms: int = _key("timeout", 3000)
    """How long a client without endpoints looks for a node before opening fails. Milliseconds, 0 to
    4294967295; default 3000."""

    delay_ms: int = _key("delay", 500)
    """How long opening a peer waits at most for the nodes that it finds. Milliseconds, 0 to 4294967295;
    default 500. It goes on as soon as those that it has found have told what they declare."""

    multicast: bool = _key("multicast/enabled", default=True)
    """Whether nodes are looked for, and answered, by multicast. Default true. A client with endpoints does
    not look."""

    address: str = _key("multicast/address", "224.0.0.224:7446")
    """Group and port. Default 224.0.0.224:7446. Nodes with another group do not see each other."""

    interface: str = _key("multicast/interface", "auto")
    """Names, patterns (``eth*``), IPv4 addresses or networks of interfaces, with ``!`` to leave one out,
    separated by commas. Default ``auto``: every interface that has multicast, or the loopback if there is no
    other; the environment variable ``ZWIRE_SCOUTING_INTERFACE`` takes its place, where ``none`` is possible,
    too."""

    ttl: int = _key("multicast/ttl", 1)
    """How many networks a question crosses. 1 to 255; default 1, which stays in the local one."""

    listen: bool = _key("multicast/listen", default=True)
    """Whether those who look for nodes are answered. Default true."""

    autoconnect: Sequence[Role] | None = _key("multicast/autoconnect", None)
    """Roles that are connected to when found. Default ``None``: none for a router, all for others."""

    autoconnect_strategy: Strategy = _key("multicast/autoconnect_strategy", "always")
    """Which of two nodes that find each other connects: ``always`` both, of which one link remains, or
    ``greater-zid`` the one with the greater id. Default ``always``."""

    gossip: bool = _key("gossip/enabled", default=True)
    """Whether neighbours are told of each other. Default true."""

    gossip_multihop: bool = _key("gossip/multihop", default=False)
    """Whether such news travels further than one hop. Default false. It costs traffic with every change."""

    gossip_target: Sequence[Role] = _key("gossip/target", ("router", "peer"))
    """Roles that are told. Default routers and peers."""

    gossip_autoconnect: Sequence[Role] | None = _key("gossip/autoconnect", None)
    """Roles that are connected to when heard of. Default ``None``: none for a router, all for others."""

    gossip_autoconnect_strategy: Strategy = _key("gossip/autoconnect_strategy", "always")
    """As ``autoconnect_strategy``, for nodes heard of. Default ``always``."""

    def __post_init__(self) -> None:
        for name in ("autoconnect", "gossip_target", "gossip_autoconnect"):
            freeze(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """What opening a peer or router waits for, within ``Scouting.delay_ms``."""

    connect_scouted: bool = _key("connect_scouted", default=True)
    """Connections to nodes that were found. Default true. Those to configured endpoints are always waited
    for."""

    declares: bool = _key("declares", default=True)
    """What the nodes that are connected declare. Default true. Otherwise the connection is enough."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """User and password, of this node and of those who connect to it."""

    user: str | None = _key("user", None)
    """Name that this node gives when it connects. Default ``None``. With one it connects only to nodes that
    ask."""

    password: str | None = _key("password", None, shown=False)
    """Password of ``user``. Default ``None``. It never crosses the wire; it does get pickled."""

    dictionary_file: str | None = _key("dictionary_file", None)
    """File with lines ``user:password``. Default ``None``. With one, who connects must be in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessControl:
    """Who may say what; of rules, subjects and policies none may be missing where it is enabled."""

    enabled: bool = _key("enabled", default=False)
    """Whether the rules count. Default false."""

    default_permission: Literal["allow", "deny"] = _key("default_permission", "deny")
    """What happens to messages that no rule is about. Default deny."""

    rules: Sequence[AccessRule] | None = _key("rules", None)
    """What is allowed or denied. Default ``None``."""

    subjects: Sequence[AccessSubject] | None = _key("subjects", None)
    """Links, by who is at their other end. Default ``None``."""

    policies: Sequence[AccessPolicy] | None = _key("policies", None)
    """Which rules count for which subjects. Default ``None``."""

    def __post_init__(self) -> None:
        for name in ("rules", "subjects", "policies"):
            freeze(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionConfig:
    """Everything that a session is told."""

    mode: Literal["router", "peer", "client"] = _key("mode", "peer")
    """Role of the node. Default peer. A client has one router that does everything for it; a router
    forwards."""

    id: str | None = _key("id", None)
    """Id of the node, 1 to 32 lower-case hexadecimal digits, the first not 0. Default ``None``: a random one.
    Two nodes with one id drop each other, so a configuration that many workers use leaves it alone."""

    connect: Sequence[str] | str = _key("connect/endpoints", ())
    """Where to connect to, such as ``tcp/127.0.0.1:7447``. Default nowhere. A client uses the first that
    answers, others connect to all."""

    listen: Sequence[str] | str | None = _key("listen/endpoints", None)
    """Where to listen. Default ``None``: ``tcp/[::]:7447`` for a router, any free port for a peer, nowhere
    for a client."""

    connecting: Attempts = _key("connect", Attempts())
    """How hard to try to connect."""

    listening: Attempts = _key("listen", Attempts())
    """How hard to try to listen."""

    namespace: str | None = _key("namespace", None)
    """Prefix that all keys get on the wire. Default ``None``. What arrives without it is not seen."""

    timeouts: Timeouts = _key("", Timeouts())
    """How long things may take."""

    limits: Limits = _key("", Limits())
    """What the session may use."""

    handler: Handler = _key("", Handler())
    """The queue of a subscriber that brings none."""

    link: Link = _key("transport", Link())
    """What is offered on links."""

    timestamping: Timestamping = _key("timestamping", Timestamping())
    """Time stamps of publications."""

    opening: Opening = _key("open/return_conditions", Opening())
    """What opening waits for."""

    admin_space: AdminSpace = _key("adminspace", AdminSpace())
    """Answers about the node itself."""

    metadata: str | None = _key("metadata", None)
    """Free description of the node, shown in the admin space. Default ``None``."""

    scouting: Scouting = _key("scouting", Scouting())
    """How other nodes are found."""

    credentials: Credentials = _key("transport/auth/usrpwd", Credentials())
    """User and password."""

    publication_qos: Sequence[PublicationQos] = _key("qos/publication", ())
    """Overrides by key; the first entry that includes the key counts. Default none."""

    access_control: AccessControl = _key("access_control", AccessControl())
    """Who may say what on a link."""

    downsampling: Sequence[Downsampling] = _key("downsampling", ())
    """How many messages a second pass a link. Default: as many as come."""

    network_qos: Sequence[NetworkQos] = _key("qos/network", ())
    """Other QoS for messages that pass a link. Default none."""

    low_pass_filter: Sequence[LowPass] = _key("low_pass_filter", ())
    """How large messages may be that pass a link. Default: as large as any."""

    transport_weights: Sequence[LinkWeight] = _key("routing/router/linkstate/transport_weights", ())
    """Costs of links to other routers. Default none: each costs 100."""

    gateway_south: Literal["auto"] = _key("gateway/south", "auto")
    """Which neighbours form subregions of this node. Default ``auto``, by their roles; nothing else is
    supported."""

    tap: str | None = _key("zwire/tap", None)
    """Capture file (pcap) that gets everything that crosses the wire. Default ``None``. An existing file is
    replaced; two sessions must not share one."""

    max_drift_ms: int = _key("zwire/timestamping/max_drift_ms", 500)
    """How far ahead of the own clock a time stamp may lie. Milliseconds, 0 to 4294967295; default 500.
    Beyond it is from too far in the future, see :class:`Timestamping`."""

    idle_close_ms: int = _key("zwire/idle_close_ms", 30000)
    """When a session that Spark tasks share closes for want of use. Milliseconds, 0 to 4294967295; default
    30000, 0 means never. Spark ends an idle worker after 60 s without a word to anybody."""

    def __post_init__(self) -> None:
        lists = ("publication_qos", "downsampling", "network_qos", "low_pass_filter", "transport_weights")
        for name in ("connect", "listen", *lists):
            freeze(self, name)

    def to_json(self) -> dict[str, Json]:
        """Give the tree of keys for ``zwire.zenoh.Config``; what has its default is left out."""
        tree: dict[str, Json] = {}
        for path, value, default in _walk(self, ""):
            if value is not None and value != default:
                *branches, last = path.split("/")
                here = tree
                for name in branches:
                    below = here.setdefault(name, {})
                    assert isinstance(below, dict), path  # noqa: S101 - two fields would have one path
                    here = below
                here[last] = _plain(value)
        return tree


def _walk(config: object, path: str) -> list[tuple[str, Any, Any]]:
    """List path, value and default of every key below a dataclass, in order."""
    found = []
    for f in dataclasses.fields(config):  # type: ignore[arg-type]  # every caller passes a dataclass
        value = getattr(config, f.name)
        here = "/".join(part for part in (path, f.metadata[_PATH]) if part)
        if dataclasses.is_dataclass(f.default):
            found += _walk(value, here)
        else:
            found.append((here, value, f.default))
    return found


def _plain(value: Any) -> Json:  # noqa: ANN401 - whatever a field holds
    """Bring a value into the types of JSON."""
    if isinstance(value, Entry):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    plain: Json = value
    return plain
