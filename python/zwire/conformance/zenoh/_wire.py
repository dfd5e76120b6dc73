"""Messages of Zenoh as bytes, written and read without zwire's engine (``zenoh-wire`` 1 to 5).

Writers take any value, also forbidden ones: that is their purpose. Readers are strict.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from zwire.conformance._rules import Deviation

Ext = tuple[int, "int | bytes | None"]
"""Extension: its header byte without the more-bit, and its value: an integer, bytes, or None for a unit."""

ROUTER, PEER, CLIENT = 0, 1, 2
CONTROL, DATA = 0, 5
FINAL, CURRENT, FUTURE, CURRENT_FUTURE = 0, 1, 2, 3
KEYEXPRS, SUBSCRIBERS, QUERYABLES, TOKENS, AGGREGATE = 0x01, 0x02, 0x04, 0x08, 0x80

QOS_INIT: Ext = (0x01, None)
LOW_LATENCY: Ext = (0x05, None)
COMPRESSION: Ext = (0x06, None)
PATCH: Ext = (0x27, 1)
FIRST: Ext = (0x02, None)
DROP: Ext = (0x03, None)
DEFAULT_EXTENSIONS: tuple[Ext, ...] = (QOS_INIT, PATCH)


# ---- Primitives ----


def vle(number: int) -> bytes:
    """Write an integer below 2^64, in at most nine bytes."""
    octets = bytearray()
    while number > 0x7F and len(octets) < 8:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def sized(octets: bytes) -> bytes:
    """Write bytes behind their length."""
    return vle(len(octets)) + octets


def chain(exts: tuple[Ext, ...]) -> bytes:
    """Write a chain of extensions; each but the last says that another one follows."""
    octets = b""
    for at, (header, value) in enumerate(exts):
        octets += bytes([header | (0x80 if at + 1 < len(exts) else 0)])
        if isinstance(value, int):
            octets += vle(value)
        elif value is not None:
            octets += sized(value)
    return octets


def header(id: int, flags: int, exts: tuple[Ext, ...]) -> bytes:
    """Write the first byte of a message: id, flags, and whether extensions follow."""
    return bytes([id | flags | (0x80 if exts else 0)])


def zid_text(zid: bytes) -> str:
    """Text form of a ZenohID."""
    return f"{int.from_bytes(zid, 'little'):x}"


def timestamp(ntp64: int, owner: bytes) -> bytes:
    """Write a timestamp."""
    return vle(ntp64) + sized(owner)


def encoding(id: int, schema: bytes | None = None) -> bytes:
    """Write an encoding."""
    return vle(id << 1 | (schema is not None)) + (b"" if schema is None else sized(schema))


def source_info(zid: bytes, entity: int, sn: int) -> Ext:
    """Extension SourceInfo of PUT, DEL, QUERY and ERR."""
    return 0x41, bytes([(len(zid) - 1) << 4]) + zid + vle(entity) + vle(sn)


def qos(priority: int = DATA, *, block: bool = False, express: bool = False) -> Ext:
    """Extension QoS of a network message."""
    return 0x21, priority | block << 3 | express << 4


@dataclass(frozen=True)
class Key:
    """Key expression on the wire: an id, and a suffix of which the whole is made (``zenoh-wire`` 1.9)."""

    suffix: str | bytes | None
    scope: int = 0
    of_sender: bool = True
    """Whether the sender of the message has declared the id."""

    @property
    def flags(self) -> int:
        """Flags N and M of the message that carries it."""
        return (0x20 if self.suffix is not None else 0) | (0x40 if self.of_sender else 0)

    def __bytes__(self) -> bytes:
        suffix = self.suffix.encode() if isinstance(self.suffix, str) else self.suffix
        return vle(self.scope) + (b"" if suffix is None else sized(suffix))


def key_of(key: str | Key) -> Key:
    """A whole key behind the id 0, unless it is given as a :class:`Key`."""
    return Key(key) if isinstance(key, str) else key


# ---- Transport messages ----


def init(
    zid: bytes,
    *,
    role: int = CLIENT,
    version: int = 9,
    sizes: tuple[int, int] | None = (0x0A, 65535),
    exts: tuple[Ext, ...] = DEFAULT_EXTENSIONS,
    cookie: bytes | None = None,
) -> bytes:
    """INIT SYN, or INIT ACK with a cookie. ``sizes`` are resolution and batch size."""
    flags = (0x40 if sizes else 0) | (0x20 if cookie is not None else 0)
    octets = header(0x01, flags, exts) + bytes([version, (len(zid) - 1) << 4 | role]) + zid
    octets += struct.pack("<BH", *sizes) if sizes else b""
    return octets + (sized(cookie) if cookie is not None else b"") + chain(exts)


def open_syn(cookie: bytes, *, lease_ms: int = 10_000, sn: int = 0, exts: tuple[Ext, ...] = ()) -> bytes:
    """OPEN SYN with a lease in milliseconds."""
    return header(0x02, 0, exts) + vle(lease_ms) + vle(sn) + sized(cookie) + chain(exts)


def open_ack(*, lease_ms: int = 10_000, sn: int = 0, exts: tuple[Ext, ...] = ()) -> bytes:
    """OPEN ACK with a lease in milliseconds."""
    return header(0x02, 0x20, exts) + vle(lease_ms) + vle(sn) + chain(exts)


def close(reason: int = 0, *, session: bool = False, exts: tuple[Ext, ...] = ()) -> bytes:
    """CLOSE of a link, or of the whole session."""
    return header(0x03, 0x20 if session else 0, exts) + bytes([reason]) + chain(exts)


def keep_alive(exts: tuple[Ext, ...] = ()) -> bytes:
    """KEEP_ALIVE."""
    return header(0x04, 0, exts) + chain(exts)


def priority_of(priority: int) -> tuple[Ext, ...]:
    """Extension QoS of a FRAME or FRAGMENT, which is elided for the priority Data."""
    return () if priority == DATA else ((0x31, priority),)


def frame(
    sn: int,
    messages: bytes,
    *,
    reliable: bool = True,
    priority: int = DATA,
    exts: tuple[Ext, ...] | None = None,
) -> bytes:
    """FRAME; ``exts`` replaces the extension of the priority."""
    exts = priority_of(priority) if exts is None else exts
    return header(0x05, 0x20 if reliable else 0, exts) + vle(sn) + chain(exts) + messages


def fragment(
    sn: int,
    part: bytes,
    *,
    more: bool,
    first: bool = False,
    drop: bool = False,
    reliable: bool = True,
    priority: int = DATA,
) -> bytes:
    """FRAGMENT: a part of one network message."""
    exts = priority_of(priority) + ((FIRST,) if first else ()) + ((DROP,) if drop else ())
    flags = (0x40 if more else 0) | (0x20 if reliable else 0)
    return header(0x06, flags, exts) + vle(sn) + chain(exts) + part


# ---- Network messages ----


def push(key: str | Key, body: bytes, *exts: Ext) -> bytes:
    """PUSH."""
    at = key_of(key)
    return header(0x1D, at.flags, exts) + bytes(at) + chain(exts) + body


def request(id: int, key: str | Key, body: bytes, *exts: Ext) -> bytes:
    """REQUEST."""
    at = key_of(key)
    return header(0x1C, at.flags, exts) + vle(id) + bytes(at) + chain(exts) + body


def response(id: int, key: str | Key, body: bytes, *exts: Ext) -> bytes:
    """RESPONSE."""
    at = key_of(key)
    return header(0x1B, at.flags, exts) + vle(id) + bytes(at) + chain(exts) + body


def response_final(id: int, *exts: Ext) -> bytes:
    """RESPONSE_FINAL."""
    return header(0x1A, 0, exts) + vle(id) + chain(exts)


def declare(declaration: bytes, *exts: Ext, interest: int | None = None) -> bytes:
    """DECLARE; ``interest`` is the id of the interest that it answers."""
    answers = b"" if interest is None else vle(interest)
    return header(0x1E, 0 if interest is None else 0x20, exts) + answers + chain(exts) + declaration


def d_keyexpr(id: int, key: str | Key) -> bytes:
    """D_KEYEXPR."""
    at = key_of(key)
    return header(0x00, at.flags & 0x20, ()) + vle(id) + bytes(at)


def u_keyexpr(id: int) -> bytes:
    """U_KEYEXPR."""
    return header(0x01, 0, ()) + vle(id)


def d_entity(kind: int, id: int, key: str | Key, *exts: Ext) -> bytes:
    """Declaration of an entity; ``kind`` is 2 (subscriber), 4 (queryable) or 6 (token)."""
    at = key_of(key)
    return header(kind, at.flags, exts) + vle(id) + bytes(at) + chain(exts)


def d_subscriber(id: int, key: str | Key, *exts: Ext) -> bytes:
    """D_SUBSCRIBER."""
    return d_entity(0x02, id, key, *exts)


def d_queryable(id: int, key: str | Key, *exts: Ext) -> bytes:
    """D_QUERYABLE."""
    return d_entity(0x04, id, key, *exts)


def d_token(id: int, key: str | Key, *exts: Ext) -> bytes:
    """D_TOKEN."""
    return d_entity(0x06, id, key, *exts)


def undeclare(kind: int, id: int, *exts: Ext) -> bytes:
    """Undeclaration of an entity of the kind 2, 4 or 6."""
    return header(kind + 1, 0, exts) + vle(id) + chain(exts)


def d_final() -> bytes:
    """D_FINAL."""
    return b"\x1a"


def queryable_info(*, complete: bool, distance: int = 0) -> Ext:
    """Extension QueryableInfo of D_QUERYABLE."""
    return 0x21, int(complete) | distance << 8


def interest(id: int, mode: int, options: int = 0, key: str | Key | None = None, *exts: Ext) -> bytes:
    """INTEREST; options are the bits of kinds and the aggregate bit. FINAL has neither options nor key."""
    octets = header(0x19, mode << 5, exts) + vle(id)
    if mode == FINAL:
        return octets + chain(exts)
    if key is None:
        return octets + bytes([options]) + chain(exts)
    at = key_of(key)
    return octets + bytes([options | 0x10 | at.flags]) + bytes(at) + chain(exts)


def oam(id: int, body: bytes | None, *exts: Ext) -> bytes:
    """OAM of the network, with a body of bytes or none."""
    encoded = 0 if body is None else 0x40
    return header(0x1F, encoded, exts) + vle(id) + chain(exts) + (b"" if body is None else sized(body))


# ---- Data messages ----


def put(payload: bytes = b"", *exts: Ext, encoded: bytes | None = None, stamp: bytes | None = None) -> bytes:
    """PUT; ``encoded`` is an :func:`encoding`, ``stamp`` a :func:`timestamp`."""
    flags = (0x40 if encoded is not None else 0) | (0x20 if stamp is not None else 0)
    return header(0x01, flags, exts) + (stamp or b"") + (encoded or b"") + chain(exts) + sized(payload)


def delete(*exts: Ext, stamp: bytes | None = None) -> bytes:
    """DEL."""
    return header(0x02, 0x20 if stamp is not None else 0, exts) + (stamp or b"") + chain(exts)


def query(*exts: Ext, consolidation: int | None = None, parameters: str | bytes | None = None) -> bytes:
    """QUERY."""
    flags = (0x20 if consolidation is not None else 0) | (0x40 if parameters is not None else 0)
    given = parameters.encode() if isinstance(parameters, str) else parameters
    octets = header(0x03, flags, exts) + (b"" if consolidation is None else vle(consolidation))
    return octets + (b"" if given is None else sized(given)) + chain(exts)


def reply(body: bytes, *exts: Ext) -> bytes:
    """REPLY around a PUT or DEL."""
    return header(0x04, 0, exts) + chain(exts) + body


def err(payload: bytes = b"", *exts: Ext, encoded: bytes | None = None) -> bytes:
    """ERR."""
    flags = 0x40 if encoded is not None else 0
    return header(0x05, flags, exts) + (encoded or b"") + chain(exts) + sized(payload)


# ---- Scouting ----


def scout(what: int = 7, *, zid: bytes | None = None, version: int = 9, exts: tuple[Ext, ...] = ()) -> bytes:
    """SCOUT."""
    flags = what if zid is None else (len(zid) - 1) << 4 | 0x08 | what
    return header(0x01, 0, exts) + bytes([version, flags]) + (zid or b"") + chain(exts)


# ---- Reading ----


class Undecodable(Deviation, ValueError):  # noqa: N818 - as Deviation is
    """Bytes of the node that are no message; the text names the offset."""


@dataclass
class Message:
    """Message that was read, with the fields that its kind has."""

    kind: str
    flags: int = 0
    """Bits 7:5 of its first byte."""
    exts: list[Ext] = field(default_factory=list)
    id: int = 0
    """Id of a request, declaration, interest or OAM."""
    key: Key | None = None
    body: Message | None = None
    """PUT, DEL, QUERY, ERR, the message in a REPLY, or the declaration of a DECLARE."""
    interest: int | None = None
    """Id of the interest that a DECLARE answers."""
    payload: bytes = b""
    """Payload of PUT and ERR, part of a FRAGMENT, body of an OAM."""
    encoding: tuple[int, bytes | None] | None = None
    timestamp: tuple[int, bytes] | None = None
    parameters: bytes | None = None
    consolidation: int | None = None
    options: int | None = None
    sn: int = 0
    lease_ms: int = 0
    zid: bytes = b""
    role: int = 0
    version: int = 0
    resolution: int | None = None
    batch: int | None = None
    cookie: bytes = b""
    reason: int = 0
    locators: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """Network messages of a FRAME."""
    raw: bytes = b""
    """Bytes that it was read from."""

    def ext(self, header: int) -> int | bytes | None:
        """Value of the extension with a header byte; None if it is absent, True for a unit."""
        for found, value in self.exts:
            if found == header:
                return True if value is None else value
        return None

    @property
    def priority(self) -> int:
        """Priority of a FRAME or FRAGMENT by its extension 0x31, of a network message by 0x21."""
        value = self.ext(0x31 if self.kind in {"FRAME", "FRAGMENT"} else 0x21)
        return value & 7 if isinstance(value, int) and value is not True else DATA


NETWORK = {
    0x19: "INTEREST",
    0x1A: "RESPONSE_FINAL",
    0x1B: "RESPONSE",
    0x1C: "REQUEST",
    0x1D: "PUSH",
    0x1E: "DECLARE",
    0x1F: "OAM",
}
DECLARATIONS = {
    0x00: "D_KEYEXPR",
    0x01: "U_KEYEXPR",
    0x02: "D_SUBSCRIBER",
    0x03: "U_SUBSCRIBER",
    0x04: "D_QUERYABLE",
    0x05: "U_QUERYABLE",
    0x06: "D_TOKEN",
    0x07: "U_TOKEN",
    0x1A: "D_FINAL",
}


class Reader:
    """Bytes that are read from their beginning."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    @property
    def rest(self) -> bytes:
        """Bytes that are not read yet."""
        return self.octets[self.at :]

    def take(self, count: int) -> bytes:
        """Read that many bytes."""
        if self.at + count > len(self.octets):
            raise Undecodable(f"{count} bytes at offset {self.at} of {len(self.octets)}")
        self.at += count
        return self.octets[self.at - count : self.at]

    def octet(self) -> int:
        """Read a byte."""
        return self.take(1)[0]

    def number(self) -> int:
        """Read a VLE integer."""
        value = 0
        for shift in range(0, 56, 7):
            octet = self.octet()
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value
        return value | self.octet() << 56

    def sized(self) -> bytes:
        """Read bytes behind their length."""
        return self.take(self.number())

    def chain(self, present: int) -> list[Ext]:
        """Read a chain of extensions, if the flag Z is set."""
        exts: list[Ext] = []
        more = bool(present & 0x80)
        while more:
            head = self.octet()
            more = bool(head & 0x80)
            kind = head >> 5 & 3
            if kind == 3:
                raise Undecodable(f"extension {head:#04x} at offset {self.at - 1} with encoding 3")
            value = (None, self.number, self.sized)[kind]
            exts.append((head & 0x7F, None if value is None else value()))
        return exts

    def key(self, flags: int) -> Key:
        """Read a key expression by the flags N and M."""
        scope = self.number()
        suffix = self.sized().decode() if flags & 0x20 else None
        return Key(suffix, scope, bool(flags & 0x40))

    def timestamp(self) -> tuple[int, bytes]:
        """Read a timestamp."""
        return self.number(), self.sized()

    def encoding(self) -> tuple[int, bytes | None]:
        """Read an encoding."""
        word = self.number()
        return word >> 1, self.sized() if word & 1 else None


def batch_of(octets: bytes) -> list[Message]:
    """Read the transport messages of a batch."""
    reader, messages = Reader(octets), []
    while reader.rest:
        messages.append(transport_message(reader))
    return messages


def transport_message(reader: Reader) -> Message:
    """Read one transport message."""
    begin = reader.at
    head = reader.octet()
    id, flags = head & 0x1F, head & 0xE0
    readers = {1: _init, 2: _open, 3: _close, 4: _keep_alive, 5: _frame, 6: _fragment, 0: _oam}
    if id not in readers:
        raise Undecodable(f"transport id {id:#04x} at offset {begin}")
    message = readers[id](reader, flags)
    message.flags, message.raw = flags, reader.octets[begin : reader.at]
    return message


def _init(reader: Reader, flags: int) -> Message:
    message = Message("INIT", version=reader.octet())
    sizes = reader.octet()
    message.role, message.zid = sizes & 3, reader.take((sizes >> 4) + 1)
    if flags & 0x40:
        message.resolution, message.batch = struct.unpack("<BH", reader.take(3))
    if flags & 0x20:
        message.cookie = reader.sized()
    message.exts = reader.chain(flags)
    return message


def _open(reader: Reader, flags: int) -> Message:
    message = Message("OPEN", lease_ms=reader.number() * (1000 if flags & 0x40 else 1), sn=reader.number())
    if not flags & 0x20:
        message.cookie = reader.sized()
    message.exts = reader.chain(flags)
    return message


def _close(reader: Reader, flags: int) -> Message:
    return Message("CLOSE", reason=reader.octet(), exts=reader.chain(flags))


def _keep_alive(reader: Reader, flags: int) -> Message:
    return Message("KEEP_ALIVE", exts=reader.chain(flags))


def _frame(reader: Reader, flags: int) -> Message:
    message = Message("FRAME", sn=reader.number(), exts=reader.chain(flags))
    while reader.rest and reader.rest[0] & 0x1F in NETWORK:
        message.messages.append(network_message(reader))
    return message


def _fragment(reader: Reader, flags: int) -> Message:
    message = Message("FRAGMENT", sn=reader.number(), exts=reader.chain(flags))
    message.payload = reader.take(len(reader.rest))
    return message


def network_message(reader: Reader) -> Message:
    """Read one network message."""
    begin = reader.at
    head = reader.octet()
    id, flags = head & 0x1F, head & 0xE0
    if id not in NETWORK:
        raise Undecodable(f"network id {id:#04x} at offset {begin}")
    message = Message(NETWORK[id], flags)
    {
        "INTEREST": _interest,
        "RESPONSE_FINAL": _numbered,
        "RESPONSE": _carrier,
        "REQUEST": _carrier,
        "PUSH": _carrier,
        "DECLARE": _declare,
        "OAM": _network_oam,
    }[message.kind](reader, message)
    message.raw = reader.octets[begin : reader.at]
    return message


def _interest(reader: Reader, message: Message) -> None:
    message.id = reader.number()
    if message.flags & 0x60:
        message.options = reader.octet()
        if message.options & 0x10:
            message.key = reader.key(message.options)
    message.exts = reader.chain(message.flags)


def _numbered(reader: Reader, message: Message) -> None:
    message.id = reader.number()
    message.exts = reader.chain(message.flags)


def _carrier(reader: Reader, message: Message) -> None:
    if message.kind != "PUSH":
        message.id = reader.number()
    message.key = reader.key(message.flags)
    message.exts = reader.chain(message.flags)
    message.body = data_message(reader)


def _declare(reader: Reader, message: Message) -> None:
    message.interest = reader.number() if message.flags & 0x20 else None
    message.exts = reader.chain(message.flags)
    head = reader.octet()
    if head & 0x1F not in DECLARATIONS:
        raise Undecodable(f"declaration id {head & 0x1F:#04x} at offset {reader.at - 1}")
    body = message.body = Message(DECLARATIONS[head & 0x1F], head & 0xE0)
    if body.kind == "D_FINAL":
        body.exts = reader.chain(head)
        return
    body.id = reader.number()
    if body.kind.startswith("D_"):
        # D_KEYEXPR has no flag M.
        body.key = reader.key(head)
    body.exts = reader.chain(head)


def _network_oam(reader: Reader, message: Message) -> None:
    message.id = reader.number()
    message.exts = reader.chain(message.flags)
    message.payload = _oam_body(reader, message.flags)


def _oam(reader: Reader, flags: int) -> Message:
    message = Message("TRANSPORT_OAM", id=reader.number(), exts=reader.chain(flags))
    message.payload = _oam_body(reader, flags)
    return message


def _oam_body(reader: Reader, flags: int) -> bytes:
    kind = flags >> 5 & 3
    if kind == 3:
        raise Undecodable(f"OAM at offset {reader.at} with encoding 3")
    return b"" if kind == 0 else vle(reader.number()) if kind == 1 else reader.sized()


def data_message(reader: Reader) -> Message:
    """Read PUT, DEL, QUERY, REPLY or ERR."""
    begin = reader.at
    head = reader.octet()
    id, flags = head & 0x1F, head & 0xE0
    if id == 0x01:
        message = Message("PUT", flags)
        message.timestamp = reader.timestamp() if flags & 0x20 else None
        message.encoding = reader.encoding() if flags & 0x40 else None
        message.exts = reader.chain(flags)
        message.payload = reader.sized()
    elif id == 0x02:
        message = Message("DEL", flags)
        message.timestamp = reader.timestamp() if flags & 0x20 else None
        message.exts = reader.chain(flags)
    elif id == 0x03:
        message = Message("QUERY", flags)
        message.consolidation = reader.number() if flags & 0x20 else None
        message.parameters = reader.sized() if flags & 0x40 else None
        message.exts = reader.chain(flags)
    elif id == 0x04:
        message = Message("REPLY", flags)
        message.consolidation = reader.number() if flags & 0x20 else None
        message.exts = reader.chain(flags)
        message.body = data_message(reader)
    elif id == 0x05:
        message = Message("ERR", flags)
        message.encoding = reader.encoding() if flags & 0x40 else None
        message.exts = reader.chain(flags)
        message.payload = reader.sized()
    else:
        raise Undecodable(f"data id {id:#04x} at offset {begin}")
    message.raw = reader.octets[begin : reader.at]
    return message


def hello_of(octets: bytes) -> Message:
    """Read a HELLO."""
    reader = Reader(octets)
    head = reader.octet()
    if head & 0x1F != 0x02:
        raise Undecodable(f"scouting id {head & 0x1F:#04x}, not HELLO")
    message = Message("HELLO", head & 0xE0, version=reader.octet())
    sizes = reader.octet()
    message.role, message.zid = sizes & 3, reader.take((sizes >> 4) + 1)
    if head & 0x20:
        message.locators = [reader.sized().decode() for _ in range(reader.number())]
    message.exts = reader.chain(head)
    return message
