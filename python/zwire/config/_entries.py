"""The entries of lists in a configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence  # noqa: TC003 - the types of fields can be asked for at run time
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zwire.config._keys import Entry, Json

Flow: TypeAlias = Literal["ingress", "egress"]

Congestion: TypeAlias = Literal["drop", "block", "block_first"]

Priority: TypeAlias = Literal[
    "real_time", "interactive_high", "interactive_low", "data_high", "data", "data_low", "background"
]

Data: TypeAlias = Literal["put", "delete", "query", "reply"]

Message: TypeAlias = (
    Data
    | Literal[
        "declare_subscriber",
        "declare_queryable",
        "liveliness_token",
        "liveliness_query",
        "declare_liveliness_subscriber",
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicationQos(Entry):
    """QoS of publications on some keys, overriding their publisher; ``None`` keeps the publisher's value.

    ::

        # Whatever a program declares, poses leave at once and are not queued.
        poses = config.PublicationQos(key_exprs=["fleet/*/pose"], priority="real_time", express=True)
        robot = config.SessionConfig(publication_qos=[poses])
    """

    key_exprs: Sequence[str]
    """Key expressions; the entry applies to keys that one of them includes."""

    congestion_control: Congestion | None = None
    """The behaviour when a queue is full. Default ``None``."""

    priority: Priority | None = None
    """The priority in queues. Default ``None``."""

    express: bool | None = None
    """Whether to send without batching. Default ``None``."""

    reliability: Literal["best_effort", "reliable"] | None = None
    """The channel, reliable or best effort. Default ``None``."""

    allowed_destination: Literal["any", "session_local", "remote"] | None = None
    """The destinations allowed. Default ``None``."""

    def to_json(self) -> dict[str, Json]:
        """Return the entry in the form of ``qos/publication``."""
        config = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "key_exprs"}
        return {
            "key_exprs": list(self.key_exprs),
            "config": {name: value for name, value in config.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkWeight(Entry):
    """The cost of the link to another router; of the values of the two ends the greater counts.

    ::

        # A slow link, which traffic takes if there is no other way.
        slow = config.LinkWeight(dst_zid="a1b2", weight=500)
        router = config.SessionConfig(mode="router", transport_weights=[slow])
    """

    dst_zid: str
    """Id of the other router."""

    weight: int
    """1 to 65535; a link to a router without an entry costs 100."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRule(Entry):
    """A permission or denial on some keys.

    ::

        secrets = config.AccessRule(
            id="secrets",
            permission="deny",
            messages=["put", "query"],
            key_exprs=["fleet/*/secret/**"],
            flows=["ingress"],
        )
        print(secrets.to_json()["flows"])  # ['ingress']
    """

    id: str
    """Name by which policies refer to the rule."""

    permission: Literal["allow", "deny"]
    """A rule that denies comes before one that allows."""

    messages: Sequence[Message]
    """Kinds of messages to which the rule applies."""

    key_exprs: Sequence[str]
    """Key expressions; the rule applies to keys that one of them includes."""

    match: Literal["inclusion", "intersection"] | None = None
    """``"intersection"``: the rule denies each key that has a key in common with one of them, such as ``**``.
    Only for rules that deny. Default ``None``: inclusion, as in eclipse-zenoh.
    """

    flows: Sequence[Flow] | None = None
    """Directions, seen from this node. Default ``None``: both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessSubject(Entry):
    """Links that match every field; ``None`` matches any link.

    ::

        robots = config.AccessSubject(
            id="robots", cert_common_names=["robot-7"], link_protocols=["tls", "quic"]
        )
        every = config.AccessSubject(id="all")  # no field: each link
    """

    id: str
    """Name by which policies refer to the subject."""

    zids: Sequence[str] | None = None
    """Ids of nodes at the other end. Default ``None``."""

    interfaces: Sequence[str] | None = None
    """Names of interfaces of this host. Default ``None``."""

    link_protocols: Sequence[str] | None = None
    """Kinds of links, such as ``tls``. Default ``None``."""

    cert_common_names: Sequence[str] | None = None
    """Names in the certificates of the other end, with mutual TLS. Default ``None``."""

    usernames: Sequence[str] | None = None
    """Names by which the other end has proved itself. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessPolicy(Entry):
    """Assignment of rules to subjects.

    ::

        policy = config.AccessPolicy(rules=["read", "write"], subjects=["operators"])
        print(policy.to_json())  # {'rules': ['read', 'write'], 'subjects': ['operators']}
    """

    rules: Sequence[str]
    """Ids of rules."""

    subjects: Sequence[str]
    """Ids of subjects, any of them."""

    id: str | None = None
    """A descriptive name. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthBinding(Entry):
    """Ids, or roles, that only nodes with certain users or certificates may claim; one of both is required.

    A node that proves its id takes the place of an older session under it.

    ::

        routers = config.AuthBinding(roles=["router"], cert_common_names=["hub-1", "hub-2"])
        node = config.SessionConfig(mode="router", auth_bindings=[routers])
    """

    zids: Sequence[str] | None = None
    """Ids that are bound. Default ``None``: the roles are bound."""

    roles: Sequence[Literal["router", "peer", "client"]] | None = None
    """Roles that are bound, or, with ids, that these may have. Default ``None``: all."""

    usernames: Sequence[str] | None = None
    """Users that may claim them. Default ``None``."""

    cert_common_names: Sequence[str] | None = None
    """Names in certificates that may claim them, with mutual TLS. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate(Entry):
    """A limit on the rate of messages.

    ::

        twice = config.Rate(key_expr="fleet/*/pose", freq=2)  # messages per second
        print(twice.to_json())  # {'key_expr': 'fleet/*/pose', 'freq': 2}
    """

    key_expr: str
    """The limit applies to keys that intersect it."""

    freq: float
    """Most messages a second; 0: none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Downsampling(Entry):
    """Limits on messages per second.

    ::

        # One image per second leaves over the mobile link.
        images = config.Downsampling(
            rules=[config.Rate(key_expr="*/camera", freq=1)],
            messages=["put"],
            flows=["egress"],
            interfaces=["wwan0"],
        )
        robot = config.SessionConfig(downsampling=[images])
    """

    rules: Sequence[Rate]
    """Rates by key. The first rule that intersects a message's key applies; all its keys share one clock."""

    messages: Sequence[Data] | None = None
    """Kinds of messages. Default ``None``: all four."""

    flows: Sequence[Flow] | None = None
    """Directions, seen from this node. Default ``None``: both."""

    interfaces: Sequence[str] | None = None
    """Names of interfaces of this host. Default ``None``: any."""

    link_protocols: Sequence[str] | None = None
    """Kinds of links. Default ``None``: any."""

    id: str | None = None
    """A descriptive name. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LowPass(Entry):
    """A limit on the size of messages.

    ::

        small = config.LowPass(key_exprs=["fleet/**"], size_limit=64 << 10, flows=["ingress"])
        router = config.SessionConfig(mode="router", low_pass_filter=[small])
    """

    key_exprs: Sequence[str]
    """Key expressions; the entry applies to keys that one of them includes."""

    size_limit: int
    """Payload and attachment together, in bytes."""

    messages: Sequence[Data] | None = None
    """Kinds of messages. Default ``None``: all four."""

    flows: Sequence[Flow] | None = None
    """Directions, seen from this node. Default ``None``: both."""

    interfaces: Sequence[str] | None = None
    """Names of interfaces of this host. Default ``None``: any."""

    link_protocols: Sequence[str] | None = None
    """Kinds of links. Default ``None``: any."""

    id: str | None = None
    """A descriptive name. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Qos(Entry):
    """A quality of service, or changes to one.

    ::

        reliable = config.Qos(reliability="reliable", congestion_control="block")
        print(reliable.to_json())  # {'congestion_control': 'block', 'reliability': 'reliable'}
    """

    priority: Priority | None = None
    """The priority in queues. Default ``None``."""

    congestion_control: Congestion | None = None
    """The behaviour when a queue is full. Default ``None``."""

    express: bool | None = None
    """Whether to send without batching. Default ``None``."""

    reliability: Literal["best_effort", "reliable"] | None = None
    """The channel, reliable or best effort; a condition only. Default ``None``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkQos(Entry):
    """Another QoS for messages that pass a link.

    ::

        # Logs of robots pass a router with the lowest priority.
        logs = config.NetworkQos(
            messages=["put"], key_exprs=["fleet/*/log/**"], overwrite=config.Qos(priority="background")
        )
        router = config.SessionConfig(mode="router", network_qos=[logs])
    """

    messages: Sequence[Data]
    """Kinds of messages."""

    overwrite: Qos
    """The values that replace those of the message."""

    key_exprs: Sequence[str] | None = None
    """The entry applies to keys that one of them includes. Default ``None``: any."""

    qos: Qos | None = None
    """The entry applies to messages with this QoS. Default ``None``: any."""

    payload_size: str | None = None
    """Bytes of payload and attachment, as ``FROM..TO``. Default ``None``: any."""

    flows: Sequence[Flow] | None = None
    """Directions, seen from this node. Default ``None``: both."""

    zids: Sequence[str] | None = None
    """Ids of nodes at the other end. Default ``None``: any."""

    interfaces: Sequence[str] | None = None
    """Names of interfaces of this host. Default ``None``: any."""

    link_protocols: Sequence[str] | None = None
    """Kinds of links. Default ``None``: any."""

    id: str | None = None
    """A descriptive name. Default ``None``."""
