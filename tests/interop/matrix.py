"""The cells of the interop matrix: two nodes, one link between them, and what they have to do over it.

A cell is (link, our role, their role, the listening side). Its two nodes do the same at the same time:
publish, ask, watch tokens, follow the matching status. So each cell covers both directions.
"""

import contextlib
import dataclasses
import socket
import threading

from interop.harness import ECLIPSE, QUIET, ZWIRE, Peer, PeerError, eventually, free_port
from network.relay import Relay

ROLES = ("client", "peer", "router")

# Larger than one batch on every link, so it travels in fragments.
LARGE = 150_000
# Low latency has no fragments: a message larger than a batch is not sent.
WHOLE = 40_000


@dataclasses.dataclass(frozen=True)
class Link:
    """A column of the matrix.

    Args:
        name: of the column.
        endpoint: of the listener, with ``{port}`` and ``{folder}`` to fill in.
        settings: both sides need them.
        transport: of the port, where there is one.
        tls: whether certificates are used: ``""``, ``"server"`` or ``"both"``.
        fragments: whether a message may be larger than a batch.
        reliable: whether all messages arrive.
    """

    name: str
    endpoint: str
    settings: dict = dataclasses.field(default_factory=dict)
    transport: socket.SocketKind = socket.SOCK_STREAM
    tls: str = ""
    fragments: bool = True
    reliable: bool = True

    @property
    def large(self):
        return LARGE if self.fragments else WHOLE


LOW_LATENCY = {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
COMPRESSION = {"transport/unicast/compression/enabled": True}

LINKS = {
    link.name: link
    for link in (
        Link("tcp", "tcp/127.0.0.1:{port}"),
        Link("udp", "udp/127.0.0.1:{port}", transport=socket.SOCK_DGRAM, reliable=False),
        Link("tls", "tls/localhost:{port}", tls="server"),
        Link("mtls", "tls/localhost:{port}", tls="both"),
        Link("ws", "ws/127.0.0.1:{port}"),
        Link("quic", "quic/localhost:{port}", transport=socket.SOCK_DGRAM, tls="server"),
        Link("unix", "unixsock-stream/{folder}/{port}.sock"),
        Link("lowlatency", "tcp/127.0.0.1:{port}", LOW_LATENCY, fragments=False),
        Link("compression", "tcp/127.0.0.1:{port}", COMPRESSION),
    )
}

# Shapes of links, each with one pair of each kind; the first release does not support them.
SHAPES = {
    link.name: link
    for link in (
        Link("quic-one", "quic/localhost:{port}?multistream=0", transport=socket.SOCK_DGRAM, tls="server"),
        Link("quic-ms", "quic/localhost:{port}?multistream=1", transport=socket.SOCK_DGRAM, tls="server"),
        Link("quic-mr", "quic/localhost:{port}?mixed_rel=1", transport=socket.SOCK_DGRAM, tls="server"),
        Link(
            "quic-mr-one",
            "quic/localhost:{port}?mixed_rel=1;multistream=0",
            transport=socket.SOCK_DGRAM,
            tls="server",
        ),
        Link(
            "quic-rel0",
            "quic/localhost:{port}?rel=0",
            transport=socket.SOCK_DGRAM,
            tls="server",
            reliable=False,
        ),
        Link("udp-rel1", "udp/127.0.0.1:{port}?rel=1", transport=socket.SOCK_DGRAM),
        Link(
            "udp-rel1-mr", "udp/127.0.0.1:{port}?rel=1;mixed_rel=1;multistream=0", transport=socket.SOCK_DGRAM
        ),
    )
}

# A group of multicast has no opener and no listener. It needs a network: loopback has no multicast.
GROUP = "udp/224.0.0.229:{port}#iface=eth0"
# Interval of JOIN messages (ms); the default is 2.5 s.
JOINS = {"transport/multicast/join_interval": 200}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A test of the matrix."""

    link: str
    ours: str
    theirs: str
    # Which of the two listens.
    listener: str
    foreign: str = ECLIPSE

    def __str__(self):
        ours, theirs = f"zwire_{self.ours}", f"{self.foreign}_{self.theirs}"
        near, far = (theirs, ours) if self.listener == ZWIRE else (ours, theirs)
        return f"{self.link}-{near}-to-{far}"


def listeners(ours, theirs):
    """The sides that can listen: a client never does, and two clients cannot connect to each other."""
    return [side for side, role in ((ZWIRE, ours), ("foreign", theirs)) if role != "client"]


def cells(links, foreign=ECLIPSE, roles=None):
    """All cells of these columns."""
    return [
        Cell(link, ours, theirs, listener, foreign)
        for link in links
        for ours in ROLES
        for theirs in ROLES
        for listener in listeners(ours, theirs)
        if roles is None or (ours, theirs) in roles
    ]


class Pool:
    """Processes used by one test after the other; after a failed test they are not used again.

    Args:
        folder: for sockets.
        authority: of the certificates.
        host: of a network of our own on which the processes run; ``None`` is this machine.
    """

    def __init__(self, folder, authority=None, host=None):
        self.folder = folder
        self.authority = authority
        self.host = host
        self.idle = {}
        self.lock = threading.Lock()

    @contextlib.contextmanager
    def peers(self, *implementations):
        """Idle processes, one for each implementation named, without sessions."""
        taken = [self._take(name) for name in implementations]
        try:
            yield taken
        except BaseException:
            for peer in taken:
                self._drop(peer)
            raise
        for peer in taken:
            peer.send("reset")
        problems = []
        for peer in taken:
            try:
                peer.answer()
            except PeerError as error:
                self._drop(peer)
                # Sometimes a session of eclipse-zenoh over UDP does not end; ours must.
                if peer.implementation == ZWIRE:
                    problems.append(error)
                continue
            with self.lock:
                self.idle.setdefault(peer.implementation, []).append(peer)
        if problems:
            raise problems[0]

    @staticmethod
    def _drop(peer):
        peer.kill()
        peer.end()

    def _take(self, name):
        with self.lock:
            if self.idle.get(name):
                return self.idle[name].pop()
        return Peer(name, self.host)

    def end(self):
        for peers in self.idle.values():
            for peer in peers:
                peer.end()

    def endpoint(self, link, port=None):
        """An endpoint of this kind; without a port, one with an unused port."""
        return link.endpoint.format(port=port or free_port(link.transport), folder=self.folder)

    @contextlib.contextmanager
    def relayed(self, cell, **options):
        """A relay to the future listener of this cell."""
        with Relay(free_port((LINKS | SHAPES)[cell.link].transport), **options) as relay:
            yield relay

    def settings(self, link, mode, listen=(), connect=()):
        """The configuration of a node of this mode."""
        settings = {
            **QUIET,
            **link.settings,
            "mode": mode,
            "listen/endpoints": list(listen),
            "connect/endpoints": list(connect),
        }
        if mode == "router":
            # A router waits that long before `open` returns, which no test needs.
            settings["scouting/delay"] = 0
        if link.tls:
            settings.update(self.authority.settings(both=link.tls == "both"))
        return settings

    def member(self, peer, mode, group, listen=(), connect=()):
        """Open a session in a multicast group, and at other endpoints."""
        listen = [group, *listen]
        settings = self.settings(LINKS["tcp"], mode, listen=listen, connect=connect)
        peer.opened = peer.open(settings={**settings, **JOINS})
        peer.role = mode


class Meeting:
    """The two nodes of a cell, connected; through a relay if there is one."""

    def __init__(self, pool, cell, ours, theirs, relay=None):
        self.cell = cell
        self.link = (LINKS | SHAPES)[cell.link]
        self.nodes = (ours, theirs)
        ours.role, theirs.role = cell.ours, cell.theirs
        ours.word, theirs.word = "ours", "theirs"
        ours.other, theirs.other = theirs, ours
        far, near = (ours, theirs) if cell.listener == ZWIRE else (theirs, ours)
        endpoint = pool.endpoint(self.link, relay.target if relay else None)
        far.opened = far.open(settings=pool.settings(self.link, far.role, listen=[endpoint]))
        if relay:
            endpoint = pool.endpoint(self.link, relay.port)
        near.opened = near.open(settings=pool.settings(self.link, near.role, connect=[endpoint]))
        eventually("both know each other", lambda: self.known(ours) and self.known(theirs))

    def known(self, node):
        """Whether each node is a neighbour of the other, in its role."""
        other = node.other
        info = node.info()
        return info["routers"] if other.role == "router" else info["peers"] if other.role == "peer" else True

    def each(self, op, **fields):
        """Send the same command to both at once; a callable field is called for each node."""
        return each(self.nodes, op, **fields)


def each(nodes, op, **fields):
    """Send the same command to all at once; a callable field is called for each node."""
    for node in nodes:
        node.send(op, **{k: v(node) if callable(v) else v for k, v in fields.items()})
    return [node.answer() for node in nodes]
