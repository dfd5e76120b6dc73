"""The settings of a node."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zwire._options import unknown_option

if TYPE_CHECKING:
    import uuid as uuids
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a :class:`~zwire.zre.Node`. Times are in seconds.

    Values are checked when a node is made of it; an invalid one raises :class:`~zwire.errors.ConfigError`
    with the name of the field as ``path``.

    ::

        local = zre.Config(
            name="camera", beacons=False, bind="127.0.0.1", mailbox=0, headers={"X-ROLE": "edge"}
        )
        with zre.Node(config=local) as node:
            print(node.name)  # camera
    """

    name: str | None = None
    """Name announced to peers; default: the first six digits of the UUID. Peers before 36/ZRE get no name."""

    uuid: str | uuids.UUID | None = None
    """UUID of the node: 32 hexadecimal digits, the first two not 00. By default each node gets a new one, as
    peers expect of a node that restarts."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers announced to peers in HELLO. By convention names begin with ``X-``."""

    generations: str | Sequence[str] = ("36",)
    """Protocol versions: ``20`` (20/ZRE), ``zyre1`` (zyre 1.0.0), ``36`` (36/ZRE: today's zyre, pyre) and
    ``43`` (message version 3 of 43/ZRE, which kills pyre). With several, each peer gets its own version."""

    interfaces: str | Sequence[str] | None = None
    """Interfaces: names (``eth0``), patterns (``en*``), addresses, networks (``10.0.0.0/8``); a leading
    ``!`` excludes one. By default every interface that is up and has broadcast, or else the
    loopback."""

    beacons: bool = True
    """Whether to send beacons, and to listen to those of others."""

    beacon_port: int = 5670
    """The UDP port of beacons; it must be the same for all nodes of a network."""

    interval: float = 1.0
    """Time between two beacons."""

    bind: str = "*"
    """The IPv4 address on which the mailbox listens; ``*`` for all."""

    mailbox: int | tuple[int, int] | None = None
    """The TCP port of the mailbox, or a range of which the first free one is taken; 0 leaves it to the
    system. By default the first free one from 49152 on."""

    advertise: str | None = None
    """``tcp://host:port`` announced to peers instead, for a node behind an address translation."""

    peers: str | Sequence[str] = ()
    """``tcp://host:port`` of peers to connect to without discovery, now and whenever they are lost.
    Under CURVE with the public key behind it: ``tcp://host:port|KEY``."""

    gossip_bind: str | Sequence[str] = ()
    """``tcp://host:port`` at which the node is a gossip hub."""

    gossip_connect: str | Sequence[str] = ()
    """``tcp://host:port`` of gossip hubs, of zwire or of zyre, through which to find peers."""

    evasive: float = 5.0
    """Silence after which a peer is pinged. EVASIVE is raised then, SILENT one ``ping_interval`` later."""

    expired: float = 30.0
    """Silence after which a peer is removed."""

    ping_interval: float = 1.0
    """Time between pings of an evasive peer, and between attempts to reconnect."""

    detection_wait: float = 0.3
    """Time that a node of several generations waits for the first message of a peer."""

    secret_key: str | None = field(default=None, repr=False)
    """Z85 of 40 characters, from :func:`~zwire.zre.keypair`. If set, everything is encrypted by CURVE
    (43/ZRE), and peers without keys are ignored."""

    public_key: str | None = None
    """The public key; it follows from ``secret_key`` and is only compared."""

    allow: Iterable[str] | Callable[[str], bool] | None = None
    """Keys of the peers allowed: Z85 texts, or a function that judges a key. By default every key."""

    contest: str | Sequence[str] = ()
    """Groups to join and to contest the leadership of."""

    collector: str | None = None
    """``tcp://host:port`` of a :class:`~zwire.zre.LogCollector`, announced to peers as ``X-ZRELOG``."""

    log_traffic: bool = False
    """Whether collectors of other nodes also get each message sent and received."""

    drafts: bool = False
    """Whether all peers from 36/ZRE on know ELECT, LEADER and GOODBYE, as zyre from 2.0.1 on does. By default
    a peer gets them after it has sent one: they end the session with pyre."""

    renew_after: int | None = None
    """Number of messages to a peer after which the session is renewed. 65000 helps pyre, which counts to
    65534."""

    high_water_mark: int = 3000
    """Most messages queued for one peer."""

    high_water_bytes: int = 64 << 20
    """Most bytes queued for one peer."""

    heartbeat: float | None = 5.0
    """Time between PINGs of ZMTP on a connection; ``None``: never. A dead connection is closed when its
    peer has expired."""

    max_message_size: int = 64 << 20
    """Largest message of a peer, in bytes; for a larger one the connection is closed."""

    max_peers: int = 10_000
    """Most peers."""

    max_unanswered: int = 4096
    """Most peers that beacon and never answer; a forged beacon is enough to add one."""

    queue: int = 65536
    """Most events queued for the program."""

    queue_bytes: int = 64 << 20
    """Most bytes of events queued for the program."""

    on_overflow: str = "block"
    """Policy when the program does not take its events: ``block`` stops reading from peers for up to 2 s and
    then drops the newest, ``drop_newest`` drops it at once, ``drop_oldest`` drops the oldest. Dropped events
    are counted."""

    shared_memory: bool = True
    """Whether peers of zwire on this host read large frames in the memory of this process, without a copy
    through a socket; also under CURVE. Linux only."""

    shared_memory_size: int = 64 << 20
    """Most bytes of shared memory for frames. Those that find no room cross the socket."""

    shared_memory_threshold: int = 16 << 10
    """Size in bytes of the smallest frame that is placed in shared memory."""

    shared_memory_users: Sequence[int] = ()
    """Ids of users of the system, beside that of this process: their nodes share memory with this one."""

    def settings(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def of(cls, config: Config | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Config:
        """Override fields of a configuration, or of a mapping of them, by single settings."""
        base = config if isinstance(config, Config) else cls()
        changes = dict(settings) if config is None or isinstance(config, Config) else {**config, **settings}
        known = {field.name for field in dataclasses.fields(cls)}
        for name in changes.keys() - known:
            raise unknown_option(name, known)
        return dataclasses.replace(base, **changes)
