"""Links of raw bytes to the node that is judged."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import struct
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._wire import CLIENT, CONTROL, DATA, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

PATIENCE = 5.0
"""Seconds within which a node answers, on a busy machine."""
QUIET = 0.3
"""Seconds without a message after which none is expected."""
ROLES = {0: "router", 1: "peer", 2: "client"}


class Closed(Deviation):
    """End of the link by the node, in a check that needs it open."""


def fresh_zid() -> bytes:
    """A ZenohID that no other link has."""
    return secrets.token_bytes(15) + b"\x01"


class Link:
    """Connection to the node, from its first byte on; :meth:`open` does the handshake."""

    def __init__(self, target: Target, zid: bytes | None = None) -> None:
        self.target = target
        self.zid: bytes = fresh_zid() if zid is None else zid
        self.stream: socket.socket = socket.create_connection(target.address, timeout=PATIENCE)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received: bytes = b""
        self.numbers: dict[tuple[int, bool], int] = {}
        self.first: int = 0
        self.waiting: list[Message] = []
        """Network messages that were read and not yet asked for."""
        self.parts: dict[tuple[int, bool], bytes] = {}
        self.names: dict[int, str] = {}
        """Keys for which the node has declared ids on this link."""
        self.own_names: dict[int, str] = {}
        """Keys for which :meth:`name` has declared ids on this link."""
        self.init_ack: Message = Message("INIT")
        self.open_ack: Message = Message("OPEN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    # ---- Batches ----

    def send_bytes(self, octets: bytes) -> None:
        """Send bytes as they are; a node that has closed the connection takes none, which is no error."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.stream.sendall(octets)

    def send_batch(self, *messages: bytes) -> None:
        """Send transport messages in one batch, behind its length."""
        body = b"".join(messages)
        self.send_bytes(struct.pack("<H", len(body)) + body)

    def batch(self, timeout: float = PATIENCE) -> bytes | None:
        """The next batch; None if the node has closed the connection. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        if (head := self._take(2, deadline)) is None:
            return None
        return self._take(struct.unpack("<H", head)[0], deadline)

    def _take(self, count: int, deadline: float) -> bytes | None:
        while len(self.received) < count:
            self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                part = self.stream.recv(65536)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self.received += part
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def transport(self, timeout: float = PATIENCE) -> Message | None:
        """The first message of the next batch that is not empty; None after the end. Raises TimeoutError."""
        octets = self.batch(timeout)
        while octets == b"":
            octets = self.batch(timeout)
        return None if octets is None else wire.batch_of(octets)[0]

    def closed(self, timeout: float = PATIENCE) -> bool:
        """Whether the node closes the connection in time; what it still sends is read over."""
        return self.end(timeout) is not None

    def end(self, timeout: float = PATIENCE) -> list[Message] | None:
        """Transport messages until the node closes the connection; None if it does not in time."""
        deadline = time.monotonic() + timeout
        seen: list[Message] = []
        with contextlib.suppress(TimeoutError):
            while (octets := self.batch(max(deadline - time.monotonic(), 0.001))) is not None:
                seen += wire.batch_of(octets)
            return seen
        return None

    def close_reason(self, timeout: float = PATIENCE) -> int | None:
        """Reason of the CLOSE with which the node ends the connection; None if it ends it without one.

        Raises :exc:`Deviation` if the node does not end the connection.
        """
        seen = self.end(timeout)
        if seen is None:
            raise Deviation(f"the node did not close the connection within {timeout:g} s")
        return next((message.reason for message in seen if message.kind == "CLOSE"), None)

    # ---- Opening ----

    def init(self, octets: bytes | None = None) -> Message:
        """Send an INIT SYN and return the INIT ACK; raises :exc:`Deviation` for anything else."""
        self.send_batch(wire.init(self.zid) if octets is None else octets)
        self.init_ack = self._answer("INIT", 0x20)
        return self.init_ack

    def open(
        self,
        *,
        role: int = CLIENT,
        sizes: tuple[int, int] | None = (0x0A, 65535),
        exts: tuple[wire.Ext, ...] = wire.DEFAULT_EXTENSIONS,
        lease_ms: int = 60_000,
        first: int = 0,
    ) -> Self:
        """Do the handshake; the first sequence number of each channel is ``first``."""
        self.init(wire.init(self.zid, role=role, sizes=sizes, exts=exts))
        self.first = first
        self.finish(wire.open_syn(self.init_ack.cookie, lease_ms=lease_ms, sn=first))
        return self

    def finish(self, octets: bytes | None = None) -> Message:
        """Send an OPEN SYN and return the OPEN ACK; raises :exc:`Deviation` for anything else."""
        self.send_batch(wire.open_syn(self.init_ack.cookie) if octets is None else octets)
        self.open_ack = self._answer("OPEN", 0x20)
        return self.open_ack

    def _answer(self, kind: str, flag: int) -> Message:
        try:
            message = self.transport()
        except TimeoutError:
            raise Deviation(f"no {kind} ACK within {PATIENCE:g} s") from None
        if message is None:
            raise Closed(f"the node closed the connection in place of {kind} ACK")
        if message.kind != kind or not message.flags & flag:
            raise Deviation(f"{message.kind} {message.raw.hex()} in place of {kind} ACK")
        return message

    @property
    def has_qos(self) -> bool:
        """Whether priorities were agreed on."""
        return self.init_ack.ext(0x01) is not None

    @property
    def size(self) -> int:
        """Agreed size of a batch, its length included."""
        return self.init_ack.batch or 65535

    @property
    def mask(self) -> int:
        """Largest sequence number of the agreed resolution."""
        resolution = 0x0A if self.init_ack.resolution is None else self.init_ack.resolution
        return (0x7F, 0x3FFF, 0x0FFFFFFF, 0xFFFFFFFF)[resolution & 3]

    # ---- Messages ----

    def number(self, priority: int = DATA, *, reliable: bool = True) -> int:
        """The next sequence number of a channel."""
        channel = (priority, reliable)
        number = self.numbers.get(channel, self.first)
        self.numbers[channel] = number + 1 & self.mask
        return number

    def frame(self, *messages: bytes, priority: int = DATA, reliable: bool = True) -> bytes:
        """FRAME with the next number of a channel."""
        number = self.number(priority, reliable=reliable)
        return wire.frame(number, b"".join(messages), reliable=reliable, priority=priority)

    def send(self, *messages: bytes, priority: int = DATA, reliable: bool = True) -> None:
        """Send network messages in a FRAME."""
        self.send_batch(self.frame(*messages, priority=priority, reliable=reliable))

    def declare(self, *declarations: bytes, interest: int | None = None) -> None:
        """Send declarations, on the priority of control where it was agreed."""
        priority = CONTROL if self.has_qos else DATA
        block = wire.qos(CONTROL, block=True)
        self.send(*(wire.declare(body, block, interest=interest) for body in declarations), priority=priority)

    def send_fragments(
        self, message: bytes, *, size: int = 1000, priority: int = DATA, reliable: bool = True
    ) -> None:
        """Send a network message in FRAGMENTs of that many bytes."""
        parts = [message[at : at + size] for at in range(0, len(message), size)]
        for at, part in enumerate(parts):
            self.send_batch(
                wire.fragment(
                    self.number(priority, reliable=reliable),
                    part,
                    more=at + 1 < len(parts),
                    first=at == 0 and self.init_ack.ext(0x27) is not None,
                    reliable=reliable,
                    priority=priority,
                )
            )

    def network(self, timeout: float = PATIENCE) -> Message:
        """The next network message, also one in FRAGMENTs. Raises TimeoutError, and Closed after the end."""
        deadline = time.monotonic() + timeout
        while not self.waiting:
            octets = self.batch(max(deadline - time.monotonic(), 0.001))
            if octets is None:
                raise Closed("the node closed the connection")
            for message in wire.batch_of(octets):
                self._collect(message)
        return self.waiting.pop(0)

    def _collect(self, message: Message) -> None:
        if message.kind == "CLOSE":
            raise Closed(f"the node sent CLOSE {message.reason}")
        if message.kind == "FRAME":
            self._take_in(message.messages)
        elif message.kind == "FRAGMENT":
            channel = (message.priority, bool(message.flags & 0x20))
            collected = self.parts.get(channel, b"") + message.payload
            if message.flags & 0x40:
                self.parts[channel] = collected
            else:
                self.parts.pop(channel, None)
                self._take_in([wire.network_message(wire.Reader(collected))])

    def _take_in(self, messages: list[Message]) -> None:
        self.waiting += messages
        for message in messages:
            if message.body is not None and message.body.kind == "D_KEYEXPR":
                self.names[message.body.id] = self.text(message.body)

    def name(self, id: int, key: str) -> None:
        """Declare an id for a key, so that :meth:`text` knows it in what the node sends."""
        self.own_names[id] = key
        self.declare(wire.d_keyexpr(id, key))

    def text(self, message: Message) -> str:
        """The whole key of a message of the node; raises :exc:`Deviation` for an id that has no key."""
        key = message.key or wire.Key(None)
        suffix = key.suffix.decode() if isinstance(key.suffix, bytes) else key.suffix or ""
        if not key.scope:
            return suffix
        named = (self.names if key.of_sender else self.own_names).get(key.scope)
        if named is None:
            raise Deviation(f"id {key.scope} of {message.kind} {message.raw.hex()} was not declared")
        return named + suffix

    def until(self, found: Callable[[Message], object], timeout: float = PATIENCE) -> list[Message]:
        """Network messages up to the first one that is found; raises :exc:`Deviation` if none comes."""
        deadline = time.monotonic() + timeout
        seen: list[Message] = []
        while not seen or not found(seen[-1]):
            try:
                seen.append(self.network(max(deadline - time.monotonic(), 0.001)))
            except TimeoutError:
                kinds = ", ".join(message.kind for message in seen) or "nothing"
                raise Deviation(
                    f"the expected message did not come within {timeout:g} s; {kinds} came"
                ) from None
        return seen

    def next(self, kind: str, timeout: float = PATIENCE) -> Message:
        """The next network message of a kind, which for DECLARE is also that of its declaration."""

        def found(message: Message) -> bool:
            return message.kind == kind or (
                message.kind == "DECLARE" and message.body is not None and message.body.kind == kind
            )

        return self.until(found, timeout)[-1]

    def quiet(self, seconds: float = QUIET) -> list[Message]:
        """Network messages within some seconds, where only time can tell that none comes."""
        deadline = time.monotonic() + seconds
        seen: list[Message] = []
        with contextlib.suppress(TimeoutError):
            while True:
                seen.append(self.network(max(deadline - time.monotonic(), 0.001)))
        return seen

    def barrier(self) -> list[Message]:
        """Wait until the node has taken all that was sent on this link; returns what came meanwhile.

        A query that matches no queryable is answered at once by RESPONSE_FINAL (``zenoh-wire`` 4.6).
        """
        id = self.target.unique_id()
        self.send(wire.request(id, f"{self.target.unique_key()}/barrier", wire.query()))
        return self.until(lambda message: message.kind == "RESPONSE_FINAL" and message.id == id)[:-1]

    def lives(self) -> bool:
        """Whether the node keeps the link after all that was sent on it."""
        try:
            self.barrier()
        except Closed:
            return False
        return True

    def subscribe(self, key: str, id: int = 1) -> None:
        """Declare a subscriber, and wait until the node knows it."""
        self.declare(wire.d_subscriber(id, key))
        self.waiting += self.barrier()

    def serve(self, key: str, id: int = 1, *, complete: bool = False) -> None:
        """Declare a queryable, and wait until the node knows it."""
        exts = (wire.queryable_info(complete=True),) if complete else ()
        self.declare(wire.d_queryable(id, key, *exts))
        self.waiting += self.barrier()


class Target:
    """Zenoh node that listens on TCP and is judged.

    ``endpoint`` is ``tcp/host:port``. Best is a router without other links, with access control that allows
    everything, and without scouting. A peer is judged by the rules for peers.

    ``scouting`` is the multicast group in which the node answers SCOUT, such as ``224.0.0.224:7446``, and
    ``interface`` the address of the interface that reaches it. Without a group, the rules of scouting do not
    apply.

    ::

        from zwire.conformance.zenoh import Target

        with Target(session.listening()[0]) as target:
            print(target.name)
    """

    def __init__(self, endpoint: str, *, scouting: str | None = None, interface: str = "127.0.0.1") -> None:
        host, _, port = endpoint.removeprefix("tcp/").rpartition(":")
        if not endpoint.startswith("tcp/") or not host or not port.isdecimal():
            raise ValueError(f"endpoint {endpoint!r}: expected tcp/HOST:PORT")
        self.endpoint = endpoint
        self.address: tuple[str, int] = host.strip("[]"), int(port)
        self.group: tuple[str, int] | None = None if scouting is None else _group(scouting)
        self.interface = interface
        self._numbers = itertools.count(1)
        self._keys = f"conformance/{os.getpid()}-{secrets.token_hex(4)}"
        self.name: str = endpoint
        self.roles: frozenset[str] = frozenset()
        self.zid: bytes = b""

    def __enter__(self) -> Self:
        with Link(self) as link:
            try:
                ack = link.open().init_ack
            except Deviation as deviation:
                raise ConnectionError(
                    f"{self.endpoint} does not open a session of Zenoh: {deviation}"
                ) from None
        self.zid = ack.zid
        role = ROLES.get(ack.role, str(ack.role))
        self.roles = frozenset({role})
        self.name = f"{self.endpoint} ({role} {wire.zid_text(ack.zid)})"
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def unique_key(self) -> str:
        """A key that no other check uses."""
        return f"{self._keys}/{next(self._numbers)}"

    def unique_id(self) -> int:
        """An id that no other check uses for requests."""
        return 1_000_000 + next(self._numbers)

    def connection(self, zid: bytes | None = None) -> Link:
        """A connection without handshake."""
        return Link(self, zid)

    def link(
        self,
        *,
        zid: bytes | None = None,
        role: int = CLIENT,
        sizes: tuple[int, int] | None = (0x0A, 65535),
        exts: tuple[wire.Ext, ...] = wire.DEFAULT_EXTENSIONS,
        lease_ms: int = 60_000,
        first: int = 0,
    ) -> Link:
        """A link after its handshake."""
        link = Link(self, zid)
        try:
            return link.open(role=role, sizes=sizes, exts=exts, lease_ms=lease_ms, first=first)
        except BaseException:
            link.stream.close()
            raise

    @contextlib.contextmanager
    def flow(self, key: str | None = None, **options: object) -> Iterator[Flow]:
        """A publishing link with ``options`` of :meth:`link`, and another one that subscribes to the key."""
        key = self.unique_key() if key is None else key
        with self.link(**options) as sender, self.link() as receiver:  # type: ignore[arg-type]
            receiver.subscribe(f"{key}/**")
            yield Flow(sender, receiver, key)


class Flow:
    """Two links to the node: what the first one publishes below a key, the second one receives."""

    def __init__(self, sender: Link, receiver: Link, key: str) -> None:
        self.sender = sender
        self.receiver = receiver
        self.key = key

    def received(self) -> list[Message]:
        """PUSH messages that arrive before one that is published now, of all that was sent before."""
        self.sender.send(wire.push(f"{self.key}/last", wire.put(b"last")))
        seen = self.receiver.until(
            lambda message: (
                message.kind == "PUSH" and message.body is not None and message.body.payload == b"last"
            )
        )
        return [message for message in seen[:-1] if message.kind == "PUSH"]

    def payloads(self) -> list[bytes]:
        """Payloads of :meth:`received`."""
        return [message.body.payload for message in self.received() if message.body is not None]


def _group(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not address or not port.isdecimal():
        raise ValueError(f"scouting {text!r}: expected ADDRESS:PORT of a multicast group")
    return address, int(port)


def needs(condition: object, feature: str) -> None:
    """Raise :exc:`NotApplicable` for a feature that the node does not offer."""
    if not condition:
        raise NotApplicable(f"the node does not offer {feature}")
