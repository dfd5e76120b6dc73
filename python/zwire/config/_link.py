"""The settings of links."""

# ruff: noqa: RUF009 - `key` only adds metadata, and a frozen default may be shared.

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - the types of fields can be asked for at run time
from dataclasses import dataclass
from typing import Literal

from zwire.config._keys import freeze, key


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSizes:
    """Sizes of the queues of batches on a link, by priority.

    ::

        # Four batches of data wait on a link, and one of background data.
        queues = config.QueueSizes(data=4, background=1)
        hub = config.SessionConfig(mode="router", link=config.Link(queue_sizes=queues))
    """

    control: int = key("control", 2)
    """Priority control. 1 to 16 batches; default 2. A batch is up to ``Limits.batch_size`` bytes of
    memory."""

    real_time: int = key("real_time", 2)
    """Priority real_time. 1 to 16 batches; default 2."""

    interactive_high: int = key("interactive_high", 2)
    """Priority interactive_high. 1 to 16 batches; default 2."""

    interactive_low: int = key("interactive_low", 2)
    """Priority interactive_low. 1 to 16 batches; default 2."""

    data_high: int = key("data_high", 2)
    """Priority data_high. 1 to 16 batches; default 2."""

    data: int = key("data", 2)
    """Priority data, the default of publications. 1 to 16 batches; default 2."""

    data_low: int = key("data_low", 2)
    """Priority data_low. 1 to 16 batches; default 2."""

    background: int = key("background", 2)
    """Priority background. 1 to 16 batches; default 2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Congestion:
    """Times that messages wait for room in a full queue.

    ::

        # A message that may be dropped waits for 5 ms first.
        waiting = config.Link(congestion=config.Congestion(wait_before_drop_us=5000))
        session_config = config.SessionConfig(link=waiting)
    """

    wait_before_drop_us: int = key("drop/wait_before_drop", 1000)
    """Wait of a droppable message before it is dropped. Microseconds, 0 to 3600000000; default 1000. Each
    wait holds up the publisher."""

    max_wait_before_drop_fragments_us: int = key("drop/max_wait_before_drop_fragments", 50000)
    """Wait of all fragments of a droppable message together. Microseconds, 0 to 3600000000; default 50000. A
    low value loses large messages first."""

    wait_before_close_us: int = key("block/wait_before_close", 5000000)
    """Wait of a blocking message before the link counts as stuck. Microseconds, 0 to 3600000000; default
    5000000. A low value ends links to readers that only pause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """Batching of messages.

    ::

        # Each message leaves at once.
        fast = config.SessionConfig(link=config.Link(batching=config.Batching(enabled=False)))
        print(fast.link.batching.enabled)  # False
    """

    enabled: bool = key("enabled", default=True)
    """Whether messages are batched. Default true. Without it, each small message costs a system call."""

    time_limit_ms: int = key("time_limit", 1)
    """How long a batch may stay open under back-pressure. Milliseconds, 0 to 60000; default 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tls:
    """Certificates and keys of links over TLS and QUIC, as PEM.

    An endpoint may have its own: ``tls/robot.local:7447#root_ca_certificate_file=/etc/fleet/ca.pem``.

    ::

        hub = config.Tls(listen_certificate="/etc/zwire/hub.pem", listen_private_key="/etc/zwire/hub.key")
        robot = config.Tls(root_ca_certificate="/etc/zwire/ca.pem")
        router = config.SessionConfig(mode="router", listen="tls/[::]:7447", link=config.Link(tls=hub))
        client = config.SessionConfig(
            mode="client", connect="tls/hub.local:7447", link=config.Link(tls=robot)
        )
    """

    root_ca_certificate: str | None = key("root_ca_certificate", None)
    """File with the trusted authorities; no others are trusted. Default ``None``. Required for outgoing
    links, and for listeners with ``enable_mtls``."""

    root_ca_certificate_base64: str | None = key("root_ca_certificate_base64", None)
    """The same as base64 instead of a file. Default ``None``."""

    listen_certificate: str | None = key("listen_certificate", None)
    """File with the certificate of a listener and its chain. Default ``None``. Read once, at the start."""

    listen_certificate_base64: str | None = key("listen_certificate_base64", None)
    """The same as base64 instead of a file. Default ``None``."""

    listen_private_key: str | None = key("listen_private_key", None)
    """File with the key of a listener. Default ``None``."""

    listen_private_key_base64: str | None = key("listen_private_key_base64", None, shown=False)
    """The same as base64 instead of a file. Default ``None``. Never shown."""

    enable_mtls: bool = key("enable_mtls", default=False)
    """Whether connecting nodes must show a certificate, too. Default false. Needs TLS 1.3."""

    connect_certificate: str | None = key("connect_certificate", None)
    """File with the certificate that an outgoing link shows with ``enable_mtls``. Default ``None``."""

    connect_certificate_base64: str | None = key("connect_certificate_base64", None)
    """The same as base64 instead of a file. Default ``None``."""

    connect_private_key: str | None = key("connect_private_key", None)
    """File with the key of ``connect_certificate``. Default ``None``."""

    connect_private_key_base64: str | None = key("connect_private_key_base64", None, shown=False)
    """The same as base64 instead of a file. Default ``None``. Never shown."""

    verify_name_on_connect: bool = key("verify_name_on_connect", default=True)
    """Whether the name in a listener's certificate must be the host of the endpoint. Default true. If false,
    any holder of a certificate of the same authority can impersonate the listener."""

    close_link_on_expiration: bool = key("close_link_on_expiration", default=False)
    """Whether a link ends when the certificate of the other side expires. Default false."""

    so_sndbuf: int | None = key("so_sndbuf", None)
    """``SO_SNDBUF`` of TLS links without one in the endpoint. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system."""

    so_rcvbuf: int | None = key("so_rcvbuf", None)
    """``SO_RCVBUF`` of TLS links without one in the endpoint. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedMemory:
    """Payloads that nodes of zwire on one host read in the memory of their sender.

    ::

        cameras = config.SharedMemory(pool_size=256 << 20, threshold=64 << 10)
        robot = config.SessionConfig(shared_memory=cameras)
        none = config.SessionConfig(shared_memory=config.SharedMemory(enabled=False))
    """

    enabled: bool = key("enabled", default=True)
    """Whether it is offered to nodes on this host. Default true. Both sides need it."""

    implicit: bool = key("transport_optimization/enabled", default=True)
    """Whether large payloads are copied there. Default true. Those of ``loan`` are there in any case."""

    pool_size: int = key("transport_optimization/pool_size", 67108864)
    """Bound of the memory of a session. Bytes, 1 to 1099511627776; default 67108864. A payload that finds
    no room crosses the link."""

    threshold: int = key("transport_optimization/message_size_threshold", 16384)
    """Size of the smallest payload there. Bytes, 1 to 1099511627776; default 16384."""

    messages: Sequence[Literal["put", "query", "reply"]] = key(
        "transport_optimization/messages", ("put", "query", "reply")
    )
    """Messages whose payloads are copied there. Default all three."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Multicast:
    """Groups of nodes that send by UDP multicast. All members of a group need the same settings.

    ::

        group = config.Link(multicast=config.Multicast(join_interval_ms=500, max_sessions=50))
        peer = config.SessionConfig(link=group, listen="udp/224.0.0.225:7447")
    """

    join_interval_ms: int = key("join_interval", 2500)
    """Pause between JOIN messages, which announce a member. Milliseconds, 1 to 4294967295; default 2500. A
    low value finds members early, and costs all of them traffic."""

    max_sessions: int = key("max_sessions", 1000)
    """Most members of a group. Sessions, 1 to 1048576; default 1000. Further ones are ignored."""

    qos: bool = key("qos/enabled", default=False)
    """Whether priorities are used. Default false. zenoh-pico does not know them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """The settings of links.

    ::

        metered = config.Link(compression=True, protocols=["tls", "quic"])
        robot = config.SessionConfig(mode="client", connect="tls/hub.local:7447", link=metered)
        print(robot.to_json()["transport"]["unicast"]["compression"])  # {'enabled': True}
    """

    qos: bool = key("unicast/qos/enabled", default=True)
    """Whether priorities are offered. Default true. Without them a bulk transfer delays all messages behind
    it."""

    compression: bool = key("unicast/compression/enabled", default=False)
    """Whether LZ4 is offered. Default false. Trades processor time for less traffic."""

    low_latency: bool = key("unicast/lowlatency", default=False)
    """Whether the mode without batches, priorities and fragments is offered. Default false. It excludes
    ``qos``; a message that is larger than a batch is dropped and counted."""

    sequence_number_resolution: Literal["8bit", "16bit", "32bit", "64bit"] = key(
        "link/tx/sequence_number_resolution", "32bit"
    )
    """Offered size of sequence numbers. Default 32bit. The smaller of both sides applies; a small one limits
    the number of messages under way."""

    protocols: Sequence[str] | None = key("link/protocols", None)
    """Protocols that endpoints may have. Default ``None``: all supported ones. An endpoint with another one
    is an error."""

    so_sndbuf: int | None = key("link/tcp/so_sndbuf", None)
    """``SO_SNDBUF`` of TCP links without one in the endpoint. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system, which adapts it."""

    so_rcvbuf: int | None = key("link/tcp/so_rcvbuf", None)
    """``SO_RCVBUF`` of TCP links without one in the endpoint. Bytes, 1 to 2147483647; default ``None`` leaves
    it to the system, which adapts it."""

    queue_sizes: QueueSizes = key("link/tx/queue/size", QueueSizes())
    """Sizes of the queues of batches, by priority."""

    congestion: Congestion = key("link/tx/queue/congestion_control", Congestion())
    """Times that messages wait for room in a full queue."""

    batching: Batching = key("link/tx/queue/batching", Batching())
    """Batching of messages."""

    tls: Tls = key("link/tls", Tls())
    """Certificates and keys."""

    multicast: Multicast = key("multicast", Multicast())
    """Multicast groups."""

    def __post_init__(self) -> None:
        freeze(self, "protocols")
