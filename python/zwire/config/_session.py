"""The settings of a session."""

# ruff: noqa: RUF009 - `key` only adds metadata, and a frozen default may be shared.

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - the types of fields can be asked for at run time
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zwire.config._entries import (  # noqa: TC001 - as above
    AccessPolicy,
    AccessRule,
    AccessSubject,
    AuthBinding,
    Downsampling,
    LinkWeight,
    LowPass,
    NetworkQos,
    PublicationQos,
)
from zwire.config._keys import Json, freeze, key, shown, tree
from zwire.config._link import Link, SharedMemory

Role: TypeAlias = Literal["router", "peer", "client"]

Strategy: TypeAlias = Literal["always", "greater-zid"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Pauses between attempts: the first one, then each times the factor, up to the longest.

    ::

        retry = config.Retry(period_init_ms=100, period_max_ms=10_000, period_increase_factor=3)
        robot = config.SessionConfig(
            mode="client", connect="tcp/hub.local:7447", connecting=config.Attempts(retry=retry)
        )  # attempts after 0.1, 0.3, 0.9, 2.7, 8.1, 10, 10, ... seconds
    """

    period_init_ms: int = key("period_init_ms", 1000)
    """First pause. Milliseconds, 1 to 4294967295; default 1000. A low value finds a returned hub early, with
    more attempts."""

    period_max_ms: int = key("period_max_ms", 4000)
    """Longest pause. Milliseconds, 1 to 4294967295, not below the first; default 4000. Traffic resumes up to
    that much later than the hub."""

    period_increase_factor: float = key("period_increase_factor", 2)
    """Each pause is this many times the one before. 1 to 100; default 2. With 1 the pauses stay equal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """Limits on attempts to connect, or to bind a listener.

    ::

        patient = config.Attempts(timeout_ms=60_000, exit_on_failure=False)
        robot = config.SessionConfig(mode="client", connect="tcp/hub.local:7447", connecting=patient)
    """

    timeout_ms: int | None = key("timeout_ms", None)
    """How long to try. Milliseconds, -1 to 4294967295; 0 tries each endpoint once, or for a second where the
    last session of the same id is still known; -1 tries for ever. Default ``None``: 0 for listeners and for a
    client that connects, -1 for a peer or router that connects."""

    exit_on_failure: bool | None = key("exit_on_failure", None)
    """Whether opening fails when the time is over; otherwise the session goes on without. Default ``None``:
    true for listeners and for a client that connects, false for a peer or router that connects."""

    retry: Retry = key("retry", Retry())
    """Pauses between attempts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Time limits of operations.

    ::

        # The other end is given up after 3 s of silence.
        times = config.Timeouts(query_ms=2000, lease_ms=3000)
        robot = config.SessionConfig(mode="client", connect="tcp/hub.local:7447", timeouts=times)
    """

    query_ms: int = key("queries_default_timeout", 10000)
    """Timeout of a query without one of its own. Milliseconds, 1 to 4294967295; default 10000. A queryable
    that never answers holds its querier that long."""

    interest_ms: int = key("routing/interests/timeout", 10000)
    """How long a forwarded interest may stay unanswered. Milliseconds, 1 to 4294967295; default 10000. After
    that the sender is answered without it."""

    open_ms: int = key("transport/unicast/open_timeout", 10000)
    """How long each step of an outgoing handshake may take. Milliseconds, 1 to 4294967295; default 10000.
    A low value fails on slow networks."""

    accept_ms: int = key("transport/unicast/accept_timeout", 10000)
    """How long an incoming handshake may take. Milliseconds, 1 to 4294967295; default 10000. A silent
    connection occupies one of ``Limits.accept_pending`` that long."""

    lease_ms: int = key("transport/link/tx/lease", 10000)
    """Silence after which the other side gives the link up. Milliseconds, 10 to 4294967295; default 10000.
    A low value finds dead links early, and ends slow ones."""

    keep_alive: int = key("transport/link/tx/keep_alive", 4)
    """Keep-alive messages per lease. 1 to 1000; default 4. With 1 a single delay ends the link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Resource limits of a session.

    ::

        gateway = config.Limits(max_sessions=20, max_message_size=1 << 20)  # messages of 1 MiB at most
        router = config.SessionConfig(mode="router", listen="tcp/127.0.0.1:0", limits=gateway)
    """

    batch_size: int = key("transport/link/tx/batch_size", 65535)
    """Largest batch on a link. Bytes, 64 to 65535; default 65535. The smaller of both sides counts; small
    batches cost throughput."""

    max_message_size: int = key("transport/link/rx/max_message_size", 1073741824)
    """Largest message put together from fragments. Bytes, 1 to 1099511627776; default 1073741824. A larger
    one is dropped; a peer can make the session hold that much memory."""

    rx_buffer_size: int = key("transport/link/rx/buffer_size", 65535)
    """Bytes read at once from each link. Bytes, 64 to 1073741824; default 65535. Never less than
    262144 are asked for; more costs memory per link."""

    max_sessions: int = key("transport/unicast/max_sessions", 1000)
    """Most connected nodes. Sessions, 1 to 1048576; default 1000. Further ones are refused."""

    accept_pending: int = key("transport/unicast/accept_pending", 100)
    """Most incoming handshakes at once. 1 to 1048576 handshakes; default 100. Further connections wait in the
    backlog of the listener."""

    queue_bytes_per_priority: int = key("zwire/queue/bytes_per_priority", 4194304)
    """Bound of the queue towards each destination, for each priority. Bytes, 1024 to 1099511627776; default
    4194304. A large one hides a slow destination longer, and costs that much memory for it."""

    threads: int = key("zwire/threads", 2)
    """Threads of the runtime. 1 to 256 threads; default 2. The first session of a process sets it for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Handler:
    """The queue between a session and a subscriber without a handler of its own.

    ::

        small = config.SessionConfig(handler=config.Handler(capacity_messages=100, error_reply="traceback"))
        peer = zenoh.open(small)
    """

    capacity_messages: int = key("zwire/handler/capacity_messages", 65536)
    """Most messages in the queue. 1 to 4294967296 messages; default 65536. A full queue holds up the whole
    session for ``block_deadline_ms``."""

    capacity_bytes: int = key("zwire/handler/capacity_bytes", 67108864)
    """Most bytes of payload in it. Bytes, 1 to 1099511627776; default 67108864. One message always fits."""

    block_deadline_ms: int = key("zwire/handler/block_deadline_ms", 1000)
    """How long a full handler may hold up the receiving of its session. Milliseconds, 0 to 4294967295;
    default 1000. After it messages for this handler are dropped and counted."""

    error_reply: Literal["none", "message", "traceback"] = key("zwire/handler/error_reply", "message")
    """Content of the error reply when the callback of a queryable raises an exception. Default ``message``:
    its type and message. ``traceback`` adds the traceback, which shows parts of the program; with ``none``
    there is no error reply, and the asker cannot tell the exception from a queryable without an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminSpace:
    """Answers about the node itself, on keys below ``@/<id>/<role>``.

    ::

        private = config.SessionConfig(mode="router", admin_space=config.AdminSpace(enabled=True, read=False))
        print(private.to_json()["adminspace"])  # {'enabled': True, 'permissions': {'read': False}}
    """

    enabled: bool = key("enabled", default=False)
    """Whether the node answers queries about itself. Default false."""

    read: bool = key("permissions/read", default=True)
    """Whether such queries are allowed. Default true."""

    write: bool = key("permissions/write", default=False)
    """Whether the configuration may be changed by puts and deletes below ``config``. Default false."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timestamping:
    """Time stamps of publications.

    ::

        stamping = config.SessionConfig(timestamping=config.Timestamping(enabled=True))
        with zenoh.open(stamping) as peer:
            subscriber = peer.declare_subscriber("demo/a")
            peer.put("demo/a", "x")
            print(subscriber.recv(timeout=5).timestamp is not None)  # True
    """

    enabled: bool | None = key("enabled", None)
    """Whether publications without a time stamp get one. Default ``None``: true for a router, false for
    others."""

    drop_future_timestamp: bool = key("drop_future_timestamp", default=False)
    """Whether a publication from too far in the future is dropped. Default false: its time stamp is
    replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scouting:
    """Discovery of other nodes: by multicast, and by gossip, in which neighbours announce nodes they know.

    ::

        wired = config.Scouting(interface="eth0", autoconnect=["router"], gossip=False)
        peer = config.SessionConfig(scouting=wired)
        print(peer.to_json()["scouting"]["multicast"]["interface"])  # eth0
    """

    timeout_ms: int = key("timeout", 3000)
    """How long a client without endpoints searches for a node before opening fails. Milliseconds, 0 to
    4294967295; default 3000."""

    delay_ms: int = key("delay", 500)
    """Longest wait of opening a peer for the nodes that it finds. Milliseconds, 0 to 4294967295; default
    500. It ends as soon as the nodes found have sent their declarations."""

    multicast: bool = key("multicast/enabled", default=True)
    """Whether to search for nodes, and answer searches, by multicast. Default true. A client with endpoints
    does not search."""

    address: str = key("multicast/address", "224.0.0.224:7446")
    """Group and port. Default 224.0.0.224:7446. Nodes with another group do not see each other."""

    interface: str = key("multicast/interface", "auto")
    """Names, patterns (``eth*``), IPv4 addresses or networks of interfaces, with ``!`` to leave one out,
    separated by commas. Default ``auto``: every interface that has multicast, or the loopback if there is no
    other; the environment variable ``ZWIRE_SCOUTING_INTERFACE`` takes its place, where ``none`` is possible,
    too."""

    ttl: int = key("multicast/ttl", 1)
    """Time to live of scouting messages. 1 to 255; default 1, which stays in the local network."""

    listen: bool = key("multicast/listen", default=True)
    """Whether to answer scouting nodes. Default true."""

    autoconnect: Sequence[Role] | None = key("multicast/autoconnect", None)
    """Roles of found nodes to connect to. Default ``None``: none for a router, all for others."""

    autoconnect_strategy: Strategy = key("multicast/autoconnect_strategy", "always")
    """Which of two nodes that find each other connects: ``always`` both, of which one link remains, or
    ``greater-zid`` the one with the greater id. Default ``always``."""

    gossip: bool = key("gossip/enabled", default=True)
    """Whether to announce neighbours to each other. Default true."""

    gossip_multihop: bool = key("gossip/multihop", default=False)
    """Whether such announcements travel further than one hop. Default false. Each change costs traffic."""

    gossip_target: Sequence[Role] = key("gossip/target", ("router", "peer"))
    """Roles of the neighbours that get announcements. Default routers and peers."""

    gossip_autoconnect: Sequence[Role] | None = key("gossip/autoconnect", None)
    """Roles of announced nodes to connect to. Default ``None``: none for a router, all for others."""

    gossip_autoconnect_strategy: Strategy = key("gossip/autoconnect_strategy", "always")
    """As ``autoconnect_strategy``, for announced nodes. Default ``always``."""

    def __post_init__(self) -> None:
        for name in ("autoconnect", "gossip_target", "gossip_autoconnect"):
            freeze(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """Conditions for the end of opening a peer or router, within ``Scouting.delay_ms``.

    ::

        # `zenoh.open` does not wait for other nodes and their declarations.
        quick = config.SessionConfig(opening=config.Opening(connect_scouted=False, declares=False))
        print(quick.to_json()["open"]["return_conditions"])  # {'connect_scouted': False, 'declares': False}
    """

    connect_scouted: bool = key("connect_scouted", default=True)
    """Connections to nodes that were found. Default true. Those to configured endpoints are always waited
    for."""

    declares: bool = key("declares", default=True)
    """Declarations of the connected nodes. Default true. Otherwise the connection is enough."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """User and password, of this node and of the nodes that connect to it.

    ::

        robot = config.SessionConfig(
            mode="client", credentials=config.Credentials(user="robot-7", password="secret")
        )
        hub = config.SessionConfig(
            mode="router", credentials=config.Credentials(dictionary_file="/etc/zwire/users")
        )
    """

    user: str | None = key("user", None)
    """Name that this node gives when it connects. Default ``None``. If set, it connects only to nodes that
    ask for one."""

    password: str | None = key("password", None, shown=False)
    """Password of ``user``. Default ``None``. It never crosses the wire; it does get pickled."""

    dictionary_file: str | None = key("dictionary_file", None)
    """File with lines ``user:password``. Default ``None``. If set, a connecting node must be listed in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessControl:
    """Permissions for messages by link; if enabled, none of rules, subjects and policies may be missing.

    ::

        dashboards = config.AccessSubject(id="dashboards", usernames=["dashboard"])
        read = config.AccessRule(
            id="read", permission="allow", messages=["declare_subscriber", "query"], key_exprs=["fleet/**"]
        )
        rules = config.AccessControl(
            enabled=True,
            rules=[read],
            subjects=[dashboards],
            policies=[config.AccessPolicy(rules=["read"], subjects=["dashboards"])],
        )
        router = config.SessionConfig(mode="router", access_control=rules)
        print(router.to_json()["access_control"]["enabled"])  # True
    """

    enabled: bool = key("enabled", default=False)
    """Whether access control is enabled. Default false."""

    default_permission: Literal["allow", "deny"] = key("default_permission", "deny")
    """The decision on messages without a matching rule. Default deny."""

    rules: Sequence[AccessRule] | None = key("rules", None)
    """Permissions and denials. Default ``None``."""

    subjects: Sequence[AccessSubject] | None = key("subjects", None)
    """Sets of links, by the node at the other end. Default ``None``."""

    policies: Sequence[AccessPolicy] | None = key("policies", None)
    """Assignments of rules to subjects. Default ``None``."""

    def __post_init__(self) -> None:
        for name in ("rules", "subjects", "policies"):
            freeze(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionConfig:
    """The settings of a session.

    ::

        settings = config.SessionConfig(
            mode="client", connect=session.listening(), timeouts=config.Timeouts(query_ms=2000)
        )
        with zenoh.open(settings) as client:
            client.put("demo/a", "x")
    """

    mode: Literal["router", "peer", "client"] = key("mode", "peer")
    """Role of the node. Default peer. A client relies on one router for everything; a router forwards."""

    id: str | None = key("id", None)
    """Id of the node, 1 to 32 lower-case hexadecimal digits, the first not 0. Default ``None``: a random one.
    Two nodes with one id drop each other: leave it unset in a configuration shared by several workers."""

    connect: Sequence[str] | str = key("connect/endpoints", ())
    """Endpoints to connect to, such as ``tcp/127.0.0.1:7447``. Default none. A client uses the first that
    answers, others connect to all."""

    listen: Sequence[str] | str | None = key("listen/endpoints", None)
    """Endpoints to listen on. Default ``None``: ``tcp/[::]:7447`` for a router, any free port for a peer,
    none for a client."""

    connecting: Attempts = key("connect", Attempts())
    """Limits on attempts to connect."""

    listening: Attempts = key("listen", Attempts())
    """Limits on attempts to listen."""

    namespace: str | None = key("namespace", None)
    """Prefix that all keys get on the wire. Default ``None``. Messages without it are ignored."""

    timeouts: Timeouts = key("", Timeouts())
    """Time limits of operations."""

    limits: Limits = key("", Limits())
    """Resource limits of the session."""

    handler: Handler = key("", Handler())
    """The queue of a subscriber without a handler of its own."""

    link: Link = key("transport", Link())
    """The settings of links."""

    shared_memory: SharedMemory = key("transport/shared_memory", SharedMemory())
    """Payloads in shared memory."""

    timestamping: Timestamping = key("timestamping", Timestamping())
    """Time stamps of publications."""

    opening: Opening = key("open/return_conditions", Opening())
    """Conditions for the end of opening."""

    admin_space: AdminSpace = key("adminspace", AdminSpace())
    """Answers about the node itself."""

    metadata: str | None = key("metadata", None)
    """Free description of the node, shown in the admin space. Default ``None``."""

    scouting: Scouting = key("scouting", Scouting())
    """Discovery of other nodes."""

    credentials: Credentials = key("transport/auth/usrpwd", Credentials())
    """User and password."""

    publication_qos: Sequence[PublicationQos] = key("qos/publication", ())
    """Overrides by key; the first entry that includes the key applies. Default none."""

    access_control: AccessControl = key("access_control", AccessControl())
    """Permissions for messages by link."""

    downsampling: Sequence[Downsampling] = key("downsampling", ())
    """Limits on messages per second on a link. Default: none."""

    network_qos: Sequence[NetworkQos] = key("qos/network", ())
    """Other QoS for messages that pass a link. Default none."""

    low_pass_filter: Sequence[LowPass] = key("low_pass_filter", ())
    """Limits on the size of messages that pass a link. Default: none."""

    transport_weights: Sequence[LinkWeight] = key("routing/router/linkstate/transport_weights", ())
    """Costs of links to other routers. Default none: each costs 100."""

    gateway_south: Literal["auto"] = key("gateway/south", "auto")
    """Neighbours that form subregions of this node. Default ``auto``, by their roles; no other value is
    supported."""

    tap: str | None = key("zwire/tap", None)
    """Capture file (pcap) for all traffic of the session. Default ``None``. An existing file is
    replaced; two sessions must not share one."""

    log_level: str | None = key("zwire/log/level", None)
    """Level of the log of the command ``zwire router``: ``off``, ``error``, ``warn``, ``info``, ``debug`` or
    ``trace``. Default ``None``: that of its options."""

    ws_origins: Sequence[str] = key("zwire/ws/origins", ())
    """Origins of web pages that may connect to WebSocket listeners, such as ``https://dash.example``; ``*``
    allows all. Default none: requests of browsers are refused, those of programs have no origin."""

    auth_bindings: Sequence[AuthBinding] = key("zwire/auth/bindings", ())
    """Ids and roles that only nodes with certain users or certificates may claim. Default none."""

    shared_memory_users: Sequence[int] = key("zwire/shared_memory/users", ())
    """Ids of users of the system (``id -u``) whose nodes of zwire on this host share memory with this one,
    beside its own user; both sides have to allow the other. Each 0 to 4294967294. Default none. Processes of
    eclipse-zenoh share memory with their own user alone."""

    shared_memory_borrow: bool = key("zwire/shared_memory/borrow", False)
    """Whether samples, queries and replies of eclipse-zenoh are delivered in the memory of their sender,
    without a copy. Default ``False``. The sender takes the memory back when this process is stopped:
    ``payload.is_valid()`` tells, and copies of what was taken back raise ``StalePayload``."""

    memory_limit: int = key("zwire/memory/limit", 0)
    """Memory from which the bounds of declarations (an eighth) and of incomplete messages (a quarter) are
    derived. Bytes, 0 to 1099511627776; default 0: what the system allows the process (control groups,
    ``ulimit -v``, the memory of the machine)."""

    gossip_networks: Sequence[str] = key("zwire/gossip/networks", ())
    """Networks with the nodes to connect to when a neighbour tells of them, such as ``10.0.0.0/8``. Default
    none: those of the kind of its link (loopback, private, public)."""

    max_drift_ms: int = key("zwire/timestamping/max_drift_ms", 500)
    """How far ahead of the own clock a time stamp may lie. Milliseconds, 0 to 4294967295; default 500.
    Anything beyond is too far in the future, see :class:`Timestamping`."""

    idle_close_ms: int = key("zwire/idle_close_ms", 30000)
    """Time after which an unused session shared by Spark tasks closes. Milliseconds, 0 to 4294967295; default
    30000, 0 means never. Spark ends an idle worker after 60 s without notice."""

    def __post_init__(self) -> None:
        lists = ("publication_qos", "downsampling", "network_qos", "low_pass_filter", "transport_weights")
        for name in ("connect", "listen", "auth_bindings", *lists):
            freeze(self, name)

    def __repr__(self) -> str:
        """Show all settings but secrets."""
        return shown(self)

    def to_json(self) -> dict[str, Json]:
        """Return the tree of keys for ``zwire.zenoh.Config``; values equal to their default are left out."""
        return tree(self)
