"""Beacons, messages, ZRE/LOG and gossip: encoders and decoders, and connections of ZMTP 3.0."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from zwire.conformance._rules import Deviation
from zwire.conformance.zmtp import _wire as zmtp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SIGNATURE, LOG_SIGNATURE, GOSSIP_SIGNATURE = b"\xaa\xa1", b"\xaa\xa2", b"\xaa\xa0"
HELLO, WHISPER, SHOUT, JOIN, LEAVE, PING, PING_OK, ELECT, LEADER, GOODBYE = range(1, 11)
NAMES = {
    HELLO: "HELLO",
    WHISPER: "WHISPER",
    SHOUT: "SHOUT",
    JOIN: "JOIN",
    LEAVE: "LEAVE",
    PING: "PING",
    PING_OK: "PING-OK",
    ELECT: "ELECT",
    LEADER: "LEADER",
    GOODBYE: "GOODBYE",
}
VERSIONS = {"20": b"", "zyre1": b"", "36": b"\x02", "43": b"\x03"}
"""Version octet of each generation."""
LOG_LEVELS = {1: "ERROR", 2: "WARNING", 3: "INFO"}
LOG_EVENTS = {0: "", 1: "JOIN", 2: "LEAVE", 3: "ENTER", 4: "EXIT", 5: "SEND", 6: "RECV"}
TUPLE = 2
"""Number of the PUBLISH message of gossip."""


class Malformed(Deviation):
    """Octets that have not the layout of their generation."""


# ---- Fields ----


def string(text: bytes) -> bytes:
    """Encode a string behind a length of one octet."""
    return bytes([len(text)]) + text


def long_string(text: bytes) -> bytes:
    """Encode a string behind a length of four octets."""
    return struct.pack(">I", len(text)) + text


def strings(generation: str, texts: Iterable[bytes]) -> bytes:
    """Encode a list of strings."""
    texts = list(texts)
    if generation == "20":
        return bytes([len(texts)]) + b"".join(map(string, texts))
    return struct.pack(">I", len(texts)) + b"".join(map(long_string, texts))


def dictionary(generation: str, entries: Mapping[bytes, bytes]) -> bytes:
    """Encode headers."""
    if generation == "20":
        return strings(generation, (name + b"=" + value for name, value in entries.items()))
    pairs = (string(name) + long_string(value) for name, value in entries.items())
    return struct.pack(">I", len(entries)) + b"".join(pairs)


class Fields:
    """Octets that are read field by field."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next octets; raises :exc:`Malformed` at the end."""
        taken = self.octets[self.at : self.at + count]
        if len(taken) < count:
            raise Malformed(f"{self.octets.hex()} ends within a field at octet {self.at}")
        self.at += count
        return taken

    def number(self, size: int) -> int:
        """A number of so many octets in network order."""
        return int.from_bytes(self.take(size), "big")

    def string(self) -> bytes:
        """A string behind a length of one octet."""
        return self.take(self.number(1))

    def long_string(self) -> bytes:
        """A string behind a length of four octets."""
        return self.take(self.number(4))

    def strings(self, generation: str) -> list[bytes]:
        """A list of strings."""
        if generation == "20":
            return [self.string() for _ in range(self.number(1))]
        return [self.long_string() for _ in range(self.number(4))]

    def dictionary(self, generation: str) -> dict[bytes, bytes]:
        """Headers."""
        if generation != "20":
            return {self.string(): self.long_string() for _ in range(self.number(4))}
        entries = [self.string().partition(b"=") for _ in range(self.number(1))]
        if any(not equals for _, equals, _ in entries):
            raise Malformed(f"{self.octets.hex()} has a header without an equals sign")
        return {name: value for name, _, value in entries}

    def end(self) -> None:
        """Raise :exc:`Malformed` for octets behind the last field."""
        if self.at != len(self.octets):
            raise Malformed(
                f"{self.octets.hex()} has {len(self.octets) - self.at} octets behind its last field"
            )


# ---- Identities and beacons ----


def identity(generation: str, uuid: bytes) -> bytes:
    """Identity of the DEALER of a node."""
    return b"\x01" * bool(VERSIONS[generation]) + uuid


def beacon(uuid: bytes, port: int, *, header: bytes = b"ZRE\x01", key: bytes = b"") -> bytes:
    """Encode a beacon."""
    return header + uuid + struct.pack(">H", port) + key


# ---- Messages ----


@dataclass(frozen=True)
class ZreMessage:
    """Message of a node, in its fields."""

    id: int
    sequence: int
    raw: bytes
    """Header frame."""
    content: tuple[bytes, ...] = ()
    """Frames behind the header frame."""
    group: bytes = b""
    status: int = 0
    address: tuple[str, int] = ("", 0)
    """Host and port of the mailbox in a HELLO."""
    groups: tuple[bytes, ...] = ()
    name: bytes = b""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    candidate: bytes = b""
    """UUID in an ELECT or LEADER."""

    @property
    def kind(self) -> str:
        """Name of the message."""
        return NAMES.get(self.id, str(self.id))


def header(generation: str, id: int, sequence: int) -> bytes:
    """Encode the header of a message."""
    return SIGNATURE + bytes([id]) + VERSIONS[generation] + struct.pack(">H", sequence)


def address_field(generation: str, host: str, port: int) -> bytes:
    """Encode the address of a mailbox."""
    if VERSIONS[generation]:
        return string(f"tcp://{host}:{port}".encode())
    return string(host.encode()) + struct.pack(">H", port)


def hello(
    generation: str,
    host: str,
    port: int,
    *,
    sequence: int = 1,
    groups: Iterable[bytes] = (),
    status: int = 0,
    name: bytes = b"conformance",
    headers: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Encode a HELLO."""
    return (
        header(generation, HELLO, sequence)
        + address_field(generation, host, port)
        + strings(generation, groups)
        + bytes([status])
        + (string(name) if VERSIONS[generation] else b"")
        + dictionary(generation, headers or {})
    )


class HelloOptions(TypedDict, total=False):
    """Fields of a HELLO that differ from those of an ordinary one."""

    sequence: int
    groups: Iterable[bytes]
    status: int
    name: bytes
    headers: Mapping[bytes, bytes]


def split_endpoint(endpoint: bytes) -> tuple[str, int]:
    """Host and port of an endpoint ``tcp://host:port``."""
    host, _, port = endpoint.removeprefix(b"tcp://").rpartition(b":")
    if not endpoint.startswith(b"tcp://") or not host or not port.isdigit():
        raise Malformed(f"endpoint {endpoint!r} is not tcp://host:port")
    return host.decode(errors="replace"), int(port)


def decode(generation: str, frames: list[bytes]) -> ZreMessage:
    """Decode a message; raises :exc:`Malformed` for anything that is not as the generation has it."""
    fields = Fields(frames[0])
    if (signature := fields.take(2)) != SIGNATURE:
        raise Malformed(f"message {frames[0].hex()} begins with {signature.hex()}")
    id = fields.number(1)
    if (version := fields.take(len(VERSIONS[generation]))) != VERSIONS[generation]:
        raise Malformed(f"message {frames[0].hex()} has version {version.hex()}")
    base = ZreMessage(id, fields.number(2), frames[0], tuple(frames[1:]))
    more = _body(generation, id, fields)
    fields.end()
    if id not in (WHISPER, SHOUT) and base.content:
        raise Malformed(f"{base.kind} {frames[0].hex()} has {len(base.content)} frames behind it")
    return ZreMessage(**{**vars(base), **more})


def _body(generation: str, id: int, fields: Fields) -> dict[str, object]:
    if id == HELLO:
        return _hello_body(generation, fields)
    if id == SHOUT:
        return {"group": fields.string()}
    if id in (JOIN, LEAVE):
        return {"group": fields.string(), "status": fields.number(1)}
    if id in (ELECT, LEADER):
        return {"group": fields.string(), "candidate": fields.string()}
    if id not in NAMES:
        raise Malformed(f"message {fields.octets.hex()} has the unknown number {id}")
    return {}


def _hello_body(generation: str, fields: Fields) -> dict[str, object]:
    modern = bool(VERSIONS[generation])
    address = (
        split_endpoint(fields.string())
        if modern
        else (fields.string().decode(errors="replace"), fields.number(2))
    )
    return {
        "address": address,
        "groups": tuple(fields.strings(generation)),
        "status": fields.number(1),
        "name": fields.string() if modern else b"",
        "headers": fields.dictionary(generation),
    }


# ---- ZRE/LOG ----


@dataclass(frozen=True)
class LogMessage:
    """Message of ZRE/LOG, in its fields."""

    level: int
    event: int
    node: int
    peer: int
    time: int
    data: bytes

    @classmethod
    def decode(cls, octets: bytes) -> LogMessage:
        """Decode the one frame of a message."""
        fields = Fields(octets)
        if fields.take(3) != LOG_SIGNATURE + b"\x01":
            raise Malformed(f"log message {octets.hex()} does not begin with AA A2 01")
        message = cls(
            fields.number(1),
            fields.number(1),
            fields.number(2),
            fields.number(2),
            fields.number(8),
            fields.string(),
        )
        fields.end()
        return message


def log_hash(text: bytes) -> int:
    """Hash that stands for a node in ZRE/LOG."""
    value = 0
    for octet in text:
        value = (33 * value ^ octet) & 0xFFFF
    return value


# ---- Gossip ----


def gossip(id: int, body: bytes = b"") -> bytes:
    """Encode a message of gossip."""
    return GOSSIP_SIGNATURE + bytes([id, 1]) + body


def gossip_tuple(key: bytes, value: bytes) -> bytes:
    """Encode the PUBLISH of a tuple."""
    return gossip(TUPLE, string(key) + long_string(value) + bytes(4))


def decode_gossip(octets: bytes) -> tuple[int, bytes, bytes]:
    """Number, key and value of a message of gossip; key and value are empty except for PUBLISH."""
    fields = Fields(octets)
    if fields.take(2) != GOSSIP_SIGNATURE:
        raise Malformed(f"gossip message {octets.hex()} does not begin with AA A0")
    id, version = fields.number(1), fields.number(1)
    if version != 1:
        raise Malformed(f"gossip message {octets.hex()} has version {version}")
    key, value = (fields.string(), fields.long_string()) if id == TUPLE else (b"", b"")
    fields.take(4 * (id == TUPLE))
    fields.end()
    return id, key, value


# ---- Connections ----


class Connection:
    """Connection of ZMTP 3.0 with mechanism NULL."""

    def __init__(self, stream: socket.socket, kind: str, identity: bytes = b"") -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = stream
        self.kind = kind
        self.own = identity
        self.socket_type: bytes = b""
        self.identity: bytes = b""
        self.is_closed: bool = False
        self._octets = bytearray()
        self._frames: list[bytes] = []

    def fileno(self) -> int:
        """Descriptor, for ``select``."""
        return self.stream.fileno()

    def handshake(self, patience: float) -> None:
        """Greet, and exchange READY; raises ``OSError`` if the node does not in time."""
        deadline = time.monotonic() + patience
        self.stream.settimeout(patience)
        self.stream.sendall(zmtp.greeting(minor=0))
        properties = [(b"Socket-Type", self.kind.encode()), (b"Identity", self.own)]
        while len(self._octets) < zmtp.GREETING_SIZE:
            self._read(deadline)
        del self._octets[: zmtp.GREETING_SIZE]
        self.stream.sendall(zmtp.command(b"READY", zmtp.metadata(properties)))
        while (ready := zmtp.take_frame(self._octets)) is None:
            self._read(deadline)
        if ready.name != b"READY":
            raise ConnectionError(f"the node sent {ready!r} in place of READY")
        theirs = {name.lower(): value for name, value in zmtp.properties(ready.data)}
        self.socket_type, self.identity = theirs.get(b"socket-type", b""), theirs.get(b"identity", b"")

    def _read(self, deadline: float) -> None:
        self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
        octets = self.stream.recv(1 << 16)
        if not octets:
            raise ConnectionError("the node closed the connection in the handshake")
        self._octets += octets

    def messages(self, *, read: bool = True) -> list[list[bytes]]:
        """Messages that have arrived whole; commands are read over. Sets ``is_closed`` at the end."""
        if read:
            try:
                octets = self.stream.recv(1 << 20)
            except ConnectionResetError:
                octets = b""
            self.is_closed = not octets
            self._octets += octets
        whole = []
        while (frame := zmtp.take_frame(self._octets)) is not None:
            if frame.is_command:
                continue
            self._frames.append(frame.body)
            if not frame.more:
                whole.append(self._frames)
                self._frames = []
        return whole

    def send(self, *frames: bytes) -> None:
        """Send a message; a node that has closed the connection takes none, which is no error."""
        self.send_octets(zmtp.message(*frames))

    def send_octets(self, octets: bytes) -> None:
        """Send octets as they are, likewise."""
        try:
            self.stream.sendall(octets)
        except (BrokenPipeError, ConnectionResetError):
            self.is_closed = True

    def close(self) -> None:
        """Close it."""
        self.is_closed = True
        self.stream.close()
