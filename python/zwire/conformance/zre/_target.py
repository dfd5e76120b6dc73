"""Node that is judged, and the peers of the suite that visit it."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import select
import socket
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._wire import HELLO, PING, PING_OK, SHOUT, WHISPER, Connection, ZreMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self, Unpack

    from zwire.conformance.zre._wire import HelloOptions

PATIENCE = 5.0
"""Seconds within which a node answers, on a busy machine."""
QUIET = 0.3
"""Seconds without a message after which none is expected."""
_PARTING = 1.0
"""Seconds within which a node closes its connections after a goodbye."""
FIRST_BEACON = 2.5
"""Seconds within which a node that beacons each second is heard."""
GROUP = b"conformance"
"""Group that the node has joined."""
HEADER = {b"X-CONFORMANCE": b"1"}
"""Header that the node announces."""
_ADDRESS, _NETMASK = 0x8915, 0x891B  # SIOCGIFADDR and SIOCGIFNETMASK of Linux
_PKTINFO = 8  # IP_PKTINFO of Linux, which the socket module does not name


def fresh_uuid() -> bytes:
    """A UUID that no other peer has; its first octet is not 0 (``zre`` 4)."""
    return bytes([secrets.randbelow(255) + 1]) + secrets.token_bytes(15)


class HeardBeacon(NamedTuple):
    """Datagram on the port of beacons."""

    time: float
    octets: bytes
    source: str
    destination: str


class Peer:
    """Peer of the suite: a mailbox, and a DEALER to the mailbox of the node after :meth:`connect`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.generation: str = target.generation
        self.uuid: bytes = fresh_uuid()
        self.listener: socket.socket = target.listen()
        self.host: str
        self.port: int
        self.host, self.port = self.listener.getsockname()
        self.dealer: Connection | None = None
        self.dealers: list[Connection] = []
        """All connections that this peer opened; the last one is :attr:`dealer`."""
        self.links: list[Connection] = []
        """Connections that the node opened to the mailbox, in their order; also those that it closed."""
        self.inbox: list[tuple[Connection, list[bytes]]] = []
        self.strays: list[list[bytes]] = []
        """Messages that came back on the DEALER."""
        self.sequence: int = 0
        self.answers_pings = True
        self.hello: ZreMessage = ZreMessage(0, 0, b"")
        """HELLO of the node, after :meth:`enter`."""

    # ---- Sending ----

    def listen_below(self, limit: int) -> None:
        """Move the mailbox to a port below a limit."""
        for port in secrets.SystemRandom().sample(range(20_000, min(limit, 32_000)), 50):
            with contextlib.suppress(OSError):
                listener = self.target.listen(port)
                self.listener.close()
                self.listener, self.port = listener, port
                return
        raise OSError(f"no free port below {limit} at {self.host}")

    def connect(self, identity: bytes | None = None) -> Connection:
        """Open a DEALER to the node's mailbox; an earlier one stays open."""
        self.dealer = self.target.connection(
            "DEALER", wire.identity(self.generation, self.uuid) if identity is None else identity
        )
        self.dealers.append(self.dealer)
        return self.dealer

    def send_octets(self, *frames: bytes) -> None:
        """Send a message as it is, without counting it."""
        if self.dealer is not None:
            self.dealer.send(*frames)

    def send(self, id: int, body: bytes = b"", *content: bytes) -> None:
        """Send a message with the next number."""
        self.sequence = self.sequence + 1 & 0xFFFF
        self.send_octets(wire.header(self.generation, id, self.sequence) + body, *content)

    def say_hello(self, address: tuple[str, int] | None = None, **options: Unpack[HelloOptions]) -> None:
        """Send HELLO, which begins a session; ``address`` is announced in place of that of the mailbox."""
        self.sequence = options.get("sequence", 1)
        host, port = address or (self.host, self.port)
        self.send_octets(wire.hello(self.generation, host, port, **options))

    def whisper(self, *content: bytes) -> None:
        """Send a WHISPER."""
        self.send(WHISPER, b"", *content)

    def shout(self, group: bytes, *content: bytes) -> None:
        """Send a SHOUT to a group."""
        self.send(SHOUT, wire.string(group), *content)

    def change(self, id: int, group: bytes, status: int) -> None:
        """Send a JOIN or LEAVE."""
        self.send(id, wire.string(group) + bytes([status & 0xFF]))

    def beacon(self, port: int | None = None) -> None:
        """Send a beacon; port 0 is a goodbye."""
        self.target.send_beacon(wire.beacon(self.uuid, self.port if port is None else port))

    def appear(self) -> bool:
        """Beacon each second until the node connects; tell whether it does in time."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.beacon()
            if self.is_met(1.0):
                return True
        return False

    # ---- Receiving ----

    def _pull(self, timeout: float) -> None:
        streams = [stream for stream in (*self.links, *self.dealers) if not stream.is_closed]
        watched: list[socket.socket | Connection] = [self.listener, *streams]
        ready, _, _ = select.select(watched, [], [], max(timeout, 0.0))
        for stream in streams:
            if stream in ready:
                messages = stream.messages()
                if stream in self.dealers:
                    self.strays += messages
                else:
                    self._file(stream, messages)
        if self.listener in ready:
            self._accept()

    def _accept(self) -> None:
        stream, _ = self.listener.accept()
        link = Connection(stream, "ROUTER")
        try:
            link.handshake(PATIENCE)
        except OSError:
            # The node gave the connection up, as at the end of a session.
            link.close()
            return
        stream.settimeout(PATIENCE)
        self.links.append(link)
        self._file(link, link.messages(read=False))

    def _file(self, link: Connection, messages: list[list[bytes]]) -> None:
        for frames in messages:
            self.inbox.append((link, frames))
            if frames[0][:3] == wire.SIGNATURE + bytes([PING]) and self.answers_pings:
                self.send(PING_OK)

    def until(self, found: Callable[[ZreMessage], object], timeout: float = PATIENCE) -> list[ZreMessage]:
        """Messages up to the first one that is found; PINGs that are not asked for are left out.

        Raises :exc:`Deviation` if none comes in time.
        """
        deadline = time.monotonic() + timeout
        seen: list[ZreMessage] = []
        while True:
            while not self.inbox:
                left = deadline - time.monotonic()
                if left <= 0:
                    kinds = ", ".join(message.kind for message in seen) or "nothing"
                    raise Deviation(f"the expected message did not come within {timeout:g} s; {kinds} came")
                self._pull(left)
            message = wire.decode(self.generation, self.inbox.pop(0)[1])
            if found(message):
                return [*seen, message]
            if message.id != PING:
                seen.append(message)

    def next(self, id: int, timeout: float = PATIENCE) -> ZreMessage:
        """The next message of a kind; others are read over."""
        try:
            return self.until(lambda message: message.id == id, timeout)[-1]
        except wire.Malformed:
            raise
        except Deviation as deviation:
            raise Deviation(f"{wire.NAMES[id]}: {deviation}") from None

    def wait(self, seconds: float) -> None:
        """Take connections and messages for some seconds, and answer PINGs."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._pull(left)

    def quiet(self, seconds: float = QUIET) -> list[ZreMessage]:
        """Messages within some seconds, where only time can tell that none comes; without PINGs."""
        self.wait(seconds)
        seen = [wire.decode(self.generation, frames) for _, frames in self.inbox]
        self.inbox.clear()
        return [message for message in seen if message.id != PING]

    def barrier(self) -> list[ZreMessage]:
        """Wait until the node has handled all that was sent, and return the messages before its PING-OK."""
        self.send(PING)
        return self.until(lambda message: message.id == PING_OK)[:-1]

    def echo(self, *content: bytes) -> list[ZreMessage]:
        """Whisper, and return the messages up to the WHISPER of the same content, by default a unique one."""
        self.target.needs_echo()
        content = content or (self.target.unique(),)
        self.whisper(*content)
        return self.until(lambda message: message.id == WHISPER and message.content == content)

    def shouted(self, group: bytes, *content: bytes) -> ZreMessage:
        """Shout, and return the SHOUT by which the node answers."""
        self.target.needs_echo()
        content = content or (self.target.unique(),)
        self.shout(group, *content)
        return self.until(lambda message: message.id == SHOUT and message.content == content)[-1]

    def hears_group(self, group: bytes) -> bool:
        """Whether the node counts this peer among the members of a group: its answer to a SHOUT arrives."""
        content = self.target.unique()
        self.shout(group, content)
        return any(message.content == (content,) for message in self.echo())

    def is_ended(self, link: Connection, timeout: float = PATIENCE) -> bool:
        """Whether the node closes a connection in time."""
        deadline = time.monotonic() + timeout
        while not link.is_closed and (left := deadline - time.monotonic()) > 0:
            self._pull(left)
        return link.is_closed

    def is_met(self, timeout: float = PATIENCE) -> bool:
        """Whether the node opens a connection to the mailbox in time."""
        deadline = time.monotonic() + timeout
        while not self.links and (left := deadline - time.monotonic()) > 0:
            self._pull(left)
        return bool(self.links)

    # ---- Life ----

    def enter(self, **options: Unpack[HelloOptions]) -> None:
        """Connect, say HELLO, and wait for the HELLO of the node."""
        self.connect()
        self.say_hello(**options)
        self.hello = self.next(HELLO)

    def renew(self, **options: Unpack[HelloOptions]) -> None:
        """Say HELLO once more on the same DEALER, and wait for that of the node."""
        self.say_hello(**options)
        self.hello = self.next(HELLO)

    def leave(self) -> None:
        """Say goodbye by a beacon; everything is closed once the node has had time to close its connections.

        Some nodes take a connection that breaks before the goodbye arrives for a failure.
        """
        if self.target.beacons:
            self.beacon(0)
            self.target.bury(self)
        else:
            self.close()

    def close(self) -> None:
        """Close the mailbox and all connections."""
        self.listener.close()
        for connection in (*self.links, *self.dealers):
            connection.close()


class Target:
    """ZRE node that is judged.

    ``endpoint`` is that of its mailbox, ``tcp/host:port``; None: the first node heard to beacon on the
    interface. ``generation`` is ``20``, ``zyre1`` (zyre 1.0.0), ``36`` or ``43``. ``gossip`` is the endpoint
    at which the node is a gossip hub, if it is one. ``expired`` is the silence in seconds after which the
    node removes a peer; the rules of that wait at most ten seconds. IPv4 and Linux only.

    To be judged by all rules the node joins the group ``conformance``, announces the header
    ``X-CONFORMANCE: 1``, and answers each WHISPER and each SHOUT by the same with the same content, a SHOUT
    to the same group. Some rules need a hand at the node: ``join``, ``leave`` (each takes the name of a
    group), ``stop`` (ends the node with a goodbye), and ``restart``, which starts a node that has ended
    again and returns its endpoint, or None if it beacons. ``make_socket`` makes sockets elsewhere, such as
    in another network namespace.

    ::

        def judge(node: str) -> conformance.Report:
            # The options are those of the target.
            return conformance.run(node, protocol="zre", generation=43, interface="eth0", expired=10.0)
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        interface: str = "lo",
        generation: int | str = 36,
        beacon_port: int = 5670,
        gossip: str | None = None,
        expired: float = 30.0,
        join: Callable[[str], object] | None = None,
        leave: Callable[[str], object] | None = None,
        stop: Callable[[], object] | None = None,
        restart: Callable[[], str | None] | None = None,
        make_socket: Callable[[int], socket.socket] | None = None,
    ) -> None:
        self.generation: str = str(generation)
        if self.generation not in wire.VERSIONS:
            raise ValueError(f"generation {generation!r}: expected one of {', '.join(wire.VERSIONS)}")
        self.roles: frozenset[str] = frozenset({self.generation})
        self.endpoint = endpoint
        self.address: tuple[str, int] = ("", 0) if endpoint is None else split(endpoint)
        self.gossip: tuple[str, int] | None = split(gossip) if gossip else None
        self.interface = interface
        self.beacon_port = beacon_port
        self.expired = expired
        self.join: Callable[[str], object] | None = join
        self.leave: Callable[[str], object] | None = leave
        self.stop: Callable[[], object] | None = stop
        self._restart = restart
        self._make = make_socket or (lambda kind: socket.socket(socket.AF_INET, kind))
        self._numbers = itertools.count(1)
        self._token = secrets.token_hex(4)
        self._closing = contextlib.ExitStack()
        self._news = threading.Condition()
        self._heard: list[HeardBeacon] = []
        self._sender: socket.socket | None = None
        self._foreign: bool | None = None
        self._parting: list[tuple[float, Peer]] = []
        self._has_ended = False
        self.local: str = ""
        """Address of the suite's mailboxes."""
        self.broadcast: str = ""
        """Broadcast address of the interface."""
        self.uuid: bytes = b""
        self.echoes: bool = True
        self.name: str = endpoint or f"beacon on {interface}"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            try:
                stack.callback(self._listen_for_beacons())
            except OSError:
                # Without the interface or its port there are no beacons, and the endpoint has to do.
                if self.endpoint is None:
                    raise
            self._find()
            self._closing = stack.pop_all()
        self.name = f"tcp/{self.address[0]}:{self.address[1]} (generation {self.generation})"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_parted(all_of_them=True)
        self._closing.close()

    # ---- Beacons ----

    def _listen_for_beacons(self) -> Callable[[], None]:
        receiver = self._make(socket.SOCK_DGRAM)
        try:
            self.broadcast = broadcast_of(receiver, self.interface)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            receiver.setsockopt(socket.IPPROTO_IP, _PKTINFO, 1)
            receiver.bind(("", self.beacon_port))
            receiver.settimeout(0.2)
        except OSError:
            receiver.close()
            raise
        ending = threading.Event()
        thread = threading.Thread(target=self._hear, args=(receiver, ending), daemon=True)
        thread.start()

        def end() -> None:
            ending.set()
            thread.join()
            receiver.close()
            if self._sender is not None:
                self._sender.close()

        return end

    def _hear(self, receiver: socket.socket, ending: threading.Event) -> None:
        while not ending.is_set():
            try:
                octets, info, _, (source, _) = receiver.recvmsg(2048, 128)
            except TimeoutError:
                continue
            destination = next(
                (socket.inet_ntoa(data[8:12]) for _, kind, data in info if kind == _PKTINFO), ""
            )
            with self._news:
                self._heard.append(HeardBeacon(time.monotonic(), octets, source, destination))
                self._news.notify_all()

    def heard(
        self, found: Callable[[HeardBeacon], object], count: int = 1, timeout: float = FIRST_BEACON
    ) -> list[HeardBeacon]:
        """The datagrams that are found; waits until there are so many, and returns fewer after the time."""

        def enough() -> bool:
            return sum(bool(found(beacon)) for beacon in self._heard) >= count

        with self._news:
            self._news.wait_for(enough, timeout)
            return [beacon for beacon in self._heard if found(beacon)]

    def own_beacons(self, count: int = 1, timeout: float = FIRST_BEACON) -> list[HeardBeacon]:
        """Beacons of the node since the suite began."""
        self.needs_beacons()
        return self.heard(self._is_own, count, timeout)

    def _is_own(self, beacon: HeardBeacon) -> bool:
        return self.uuid in beacon.octets and beacon.octets[20:22] != b"\0\0"

    @property
    def beacons(self) -> bool:
        """Whether the node beacons on the interface, and hears the beacons of the suite."""
        return self._sender is not None

    def needs_beacons(self) -> None:
        """Raise :exc:`NotApplicable` unless the node beacons on the interface."""
        if not self.beacons:
            raise NotApplicable(f"no beacon of the node was heard on {self.interface}")

    def send_beacon(self, octets: bytes) -> None:
        """Broadcast a datagram, if the node beacons."""
        if self._sender is not None:
            self._sender.sendto(octets, (self.broadcast, self.beacon_port))

    # ---- Finding the node ----

    def _find(self) -> None:
        if self.endpoint is None:
            self.address = self._find_by_beacon()
        with contextlib.closing(self._make(socket.SOCK_DGRAM)) as probe:
            probe.connect(self.address)
            self.local = probe.getsockname()[0]
        try:
            with self.peer() as peer:
                self.uuid = peer.links[-1].identity[-16:]
                self.echoes = self._does_echo(peer)
        except Deviation as deviation:
            raise ConnectionError(f"{self.name} does not answer a HELLO: {deviation}") from None
        if self._sender is None and self.broadcast and self.heard(self._is_own):
            self._sender = self._make(socket.SOCK_DGRAM)
            self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            self._sender.bind((self.local, 0))

    def _find_by_beacon(self) -> tuple[str, int]:
        found = self.heard(
            lambda beacon: len(beacon.octets) == 22 and beacon.octets[20:] != b"\0\0", timeout=PATIENCE
        )
        if not found:
            raise ConnectionError(f"no beacon on {self.interface}, port {self.beacon_port}")
        return found[-1].source, int.from_bytes(found[-1].octets[20:], "big")

    @staticmethod
    def _does_echo(peer: Peer) -> bool:
        peer.whisper(b"echo")
        try:
            peer.next(WHISPER, 2.0)
        except wire.Malformed:
            raise
        except Deviation:
            return False
        return True

    def needs_echo(self) -> None:
        """Raise :exc:`NotApplicable` unless the node answers a WHISPER with one."""
        if not self.echoes:
            raise NotApplicable("the node does not answer a WHISPER with the same")

    def needs_foreign_groups(self) -> None:
        """Raise :exc:`NotApplicable` unless the node answers a SHOUT to a group that it is not in."""
        if self._foreign is None:
            group = self.unique()
            with self.peer(groups=[group], status=1) as peer:
                self._foreign = peer.hears_group(group)
        if not self._foreign:
            raise NotApplicable("the node does not answer a SHOUT to a group that it is not in")

    def revive(self) -> None:
        """Start the node again if it has ended; raise :exc:`NotApplicable` where there is no way."""
        if not self._has_ended:
            try:
                with self.peer() as peer:
                    peer.barrier()
            except Deviation:
                self._has_ended = True
            else:
                return
        if self._restart is None:
            raise NotApplicable("the node has ended")
        self._heard.clear()
        self.endpoint = self._restart()
        if self.endpoint is not None:
            self.address = split(self.endpoint)
        self._find()
        self._has_ended = False

    def end(self) -> None:
        """Let the node end with a goodbye; raise :exc:`NotApplicable` where there is no way."""
        if self.stop is None:
            raise NotApplicable("the target has no way to stop the node")
        self._has_ended = True
        self.stop()

    # ---- Peers ----

    def unique(self) -> bytes:
        """A text that no other check uses, for a group or a content."""
        return f"{self._token}-{next(self._numbers)}".encode()

    def listen(self, port: int = 0) -> socket.socket:
        """A listening socket at the address of the suite; raises ``OSError`` for a port in use."""
        listener = self._make(socket.SOCK_STREAM)
        try:
            listener.bind((self.local, port))
            listener.listen(16)
        except OSError:
            listener.close()
            raise
        return listener

    def connection(
        self, kind: str, identity: bytes = b"", address: tuple[str, int] | None = None
    ) -> Connection:
        """A connection to the mailbox, or to another address, after its handshake."""
        stream = self._make(socket.SOCK_STREAM)
        try:
            stream.settimeout(PATIENCE)
            stream.connect(address or self.address)
            connection = Connection(stream, kind, identity)
            connection.handshake(PATIENCE)
        except OSError as error:
            stream.close()
            raise Deviation(f"the node takes no connection of a {kind}: {error!r}") from None
        stream.settimeout(PATIENCE)
        return connection

    def bury(self, peer: Peer) -> None:
        """Close a peer that has said goodbye, after a while."""
        with self._news:
            self._parting.append((time.monotonic() + _PARTING, peer))

    def _close_parted(self, *, all_of_them: bool = False) -> None:
        now = time.monotonic()
        with self._news:
            due = [entry for entry in self._parting if all_of_them or entry[0] <= now]
            self._parting = [entry for entry in self._parting if entry not in due]
        for _, peer in due:
            peer.close()

    @contextlib.contextmanager
    def stranger(self) -> Iterator[Peer]:
        """A peer of which the node knows nothing yet."""
        self._close_parted()
        peer = Peer(self)
        try:
            yield peer
        finally:
            peer.leave()

    @contextlib.contextmanager
    def peer(self, **options: Unpack[HelloOptions]) -> Iterator[Peer]:
        """A peer that has entered."""
        with self.stranger() as peer:
            peer.enter(**options)
            yield peer

    @contextlib.contextmanager
    def bystander(self) -> Iterator[None]:
        """A peer that notices nothing of what happens meanwhile, and afterwards one more that can enter."""
        with self.peer() as other:
            other.barrier()
            yield
            try:
                before = other.barrier()
            except Deviation as deviation:
                raise Deviation(f"a peer beside it gets no answer any more: {deviation}") from None
            ended = len(other.links) != 1 or other.links[0].is_closed
            expect(not before and not ended, f"a peer beside it lost its session: {[m.kind for m in before]}")
            with self.peer() as third:
                third.barrier()


def split(endpoint: str) -> tuple[str, int]:
    """Host and port of ``tcp/host:port``; raises ``ValueError`` for anything else."""
    host, _, port = endpoint.removeprefix("tcp/").rpartition(":")
    if not endpoint.startswith("tcp/") or not host or not port.isdecimal():
        raise ValueError(f"endpoint {endpoint!r}: expected tcp/HOST:PORT")
    return host, int(port)


def broadcast_of(stream: socket.socket, interface: str) -> str:
    """Broadcast address of the first IPv4 address of an interface."""
    if not sys.platform.startswith("linux"):
        raise NotApplicable("the addresses of an interface are read on Linux only")
    import fcntl

    def ask(request: int) -> int:
        answer = fcntl.ioctl(stream.fileno(), request, struct.pack("256s", interface.encode()[:15]))
        return int.from_bytes(answer[20:24], "big")

    return socket.inet_ntoa(((ask(_ADDRESS) | ~ask(_NETMASK)) & 0xFFFFFFFF).to_bytes(4, "big"))
