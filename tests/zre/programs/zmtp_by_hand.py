"""ZMTP 3.0 and 2.0 over asyncio streams, octet by octet from the published texts; NULL only.

It judges what the other side sends: whatever 23/ZMTP or 15/ZMTP forbids is a :class:`Broken`. It announces
3.0 (or 2.0), so the other side may send no command in traffic.
"""

import asyncio

SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
MORE, LONG, COMMAND = 1, 2, 4
# 15/ZMTP numbers the socket types.
TYPES_2 = {"PUB": 1, "SUB": 2, "DEALER": 5, "ROUTER": 6}
PAIRS = {"DEALER": "ROUTER", "ROUTER": "DEALER", "PUB": "SUB", "SUB": "PUB"}
# No test sends more; a peer that claims more is to be found out.
LARGEST = 64 << 20
HANDSHAKE = 10.0


class Broken(Exception):  # noqa: N818 - it is what the connection is
    """The other side broke a rule; the text names it."""


class Refused(Exception):  # noqa: N818 - the same
    """The other side ended the connection before it stood; that breaks no rule."""


def frame(body, flags=0):
    """A frame with its header; 0 to 255 octets go with a short size."""
    if len(body) > 255:
        return bytes([flags | LONG]) + len(body).to_bytes(8, "big") + body
    return bytes([flags, len(body)]) + body


def message(frames):
    return b"".join(frame(f, MORE if i + 1 < len(frames) else 0) for i, f in enumerate(frames))


def ready(kind, identity):
    properties = {b"Socket-Type": kind.encode(), b"Identity": identity}
    return b"\x05READY" + b"".join(
        bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
        for name, value in properties.items()
    )


def metadata(body):
    properties = {}
    at = 0
    while at < len(body):
        size = body[at]
        name = body[at + 1 : at + 1 + size]
        at += 1 + size
        if not size or len(name) < size or len(body) < at + 4:
            raise Broken(f"READY ends in the middle of a property: {body.hex()}")
        size = int.from_bytes(body[at : at + 4], "big")
        value = body[at + 4 : at + 4 + size]
        at += 4 + size
        if len(value) < size:
            raise Broken(f"READY ends in the middle of {name!r}")
        if name in properties:
            raise Broken(f"READY says {name!r} twice")
        properties[name] = value
    return properties


class Connection:
    """A TCP connection that speaks ZMTP.

    Args:
        reader, writer: the streams.
        kind: our socket type.
        identity: our identity.
        version: ``"3.0"`` or ``"2.0"``: what we announce.
    """

    def __init__(self, reader, writer, kind, identity=b"", version="3.0"):
        self.reader = reader
        self.writer = writer
        self.kind = kind
        self.own = identity
        self.version = version
        self.identity = b""
        self.theirs = ""

    async def handshake(self):
        try:
            await asyncio.wait_for(self._handshake(), HANDSHAKE)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as e:
            raise Refused(f"no handshake: {type(e).__name__}") from None

    async def _handshake(self):
        if self.version == "2.0":
            await self._handshake_2()
            return
        self.writer.write(SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        start = await self.reader.readexactly(11)
        if start[0] != 0xFF or not start[9] & 1:
            raise Broken(f"no ZMTP signature: {start.hex()}")
        if start[10] < 3:
            raise Broken(f"a peer of 3.0 got version {start[10]}")
        rest = await self.reader.readexactly(53)
        self.theirs = f"{start[10]}.{rest[0]}"
        if rest[1:21] != b"NULL".ljust(20, b"\0"):
            raise Broken(f"mechanism {rest[1:21]!r}, not NULL")
        if any(rest[22:]):
            raise Broken("the filler of the greeting is not zero")
        self.writer.write(frame(ready(self.kind, self.own), COMMAND))
        flags, body = await self._frame()
        if flags != COMMAND or body[:6] != b"\x05READY":
            raise Broken(f"{body!r} with flags {flags} in place of READY")
        properties = metadata(body[6:])
        if properties.get(b"Socket-Type") != PAIRS[self.kind].encode():
            raise Broken(f"Socket-Type {properties.get(b'Socket-Type')!r} for our {self.kind}")
        self.identity = properties.get(b"Identity", b"")

    async def _handshake_2(self):
        self.writer.write(SIGNATURE + b"\x01" + bytes([TYPES_2[self.kind], 0, len(self.own)]) + self.own)
        start = await self.reader.readexactly(11)
        if start[0] != 0xFF or not start[9] & 1 or not start[10]:
            raise Broken(f"no versioned greeting: {start.hex()}")
        self.theirs = "2.0"
        kind, flags, size = await self.reader.readexactly(3)
        if kind != TYPES_2[PAIRS[self.kind]] or flags:
            raise Broken(f"socket type {kind}, flags {flags} for our {self.kind}")
        self.identity = await self.reader.readexactly(size)

    async def _frame(self):
        flags = (await self.reader.readexactly(1))[0]
        if flags & ~(MORE | LONG | COMMAND):
            raise Broken(f"reserved flags: {flags:#04x}")
        size = int.from_bytes(await self.reader.readexactly(8 if flags & LONG else 1), "big")
        if size > LARGEST:
            raise Broken(f"a frame of {size} octets")
        if flags & LONG and size <= 255:
            raise Broken(f"a long size for {size} octets")
        return flags & ~LONG, await self.reader.readexactly(size)

    async def receive(self):
        """The frames of the next message, or ``None`` at the end of the connection."""
        frames = []
        try:
            while True:
                flags, body = await self._frame()
                if flags & COMMAND:
                    raise Broken(
                        f"a command in the traffic of a peer that announced {self.version}: {body!r}"
                    )
                frames.append(body)
                if not flags & MORE:
                    return frames
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return None

    def send(self, frames):
        self.writer.write(message(frames))

    def send_octets(self, octets):
        """As they are: to be rude."""
        self.writer.write(octets)

    def close(self):
        self.writer.close()


async def connect(address, port, kind, identity=b"", version="3.0", source=None):
    """Connects and shakes hands; :class:`Refused` without a listener."""
    try:
        reader, writer = await asyncio.open_connection(
            address, port, local_addr=(source, 0) if source else None
        )
    except OSError as e:
        raise Refused(f"{address}:{port}: {e}") from None
    connection = Connection(reader, writer, kind, identity, version)
    try:
        await connection.handshake()
    except BaseException:
        writer.close()
        raise
    return connection
