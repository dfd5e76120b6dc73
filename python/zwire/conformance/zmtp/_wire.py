"""Greeting, frames, commands and metadata of ZMTP: encoders and decoders."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "COMMAND",
    "GREETING_SIZE",
    "LONG",
    "MORE",
    "TYPES",
    "Frame",
    "Greeting",
    "Property",
    "cancel",
    "command",
    "fits",
    "frame",
    "greeting",
    "hello",
    "message",
    "metadata",
    "ping",
    "properties",
    "subscribe",
    "take_frame",
]

Property = tuple[bytes, bytes]
"""Name and value."""

MORE, LONG, COMMAND = 1, 2, 4
GREETING_SIZE = 64

TYPES: dict[str, tuple[str, ...]] = {
    "REQ": ("ROUTER", "REP"),
    "REP": ("DEALER", "REQ"),
    "DEALER": ("DEALER", "ROUTER", "REP"),
    "ROUTER": ("DEALER", "ROUTER", "REQ"),
    "PUB": ("SUB", "XSUB"),
    "XPUB": ("SUB", "XSUB"),
    "SUB": ("PUB", "XPUB"),
    "XSUB": ("PUB", "XPUB"),
    "PUSH": ("PULL",),
    "PULL": ("PUSH",),
    "PAIR": ("PAIR",),
    "CLIENT": ("SERVER",),
    "SERVER": ("CLIENT",),
    "RADIO": ("DISH",),
    "DISH": ("RADIO",),
    "SCATTER": ("GATHER",),
    "GATHER": ("SCATTER",),
    "PEER": ("PEER",),
    "CHANNEL": ("CHANNEL",),
}
"""Socket types and the types that each accepts; the first is the one that checks use."""


def fits(kind: str) -> str:
    """Socket type by which checks talk to a socket of a type."""
    return TYPES[kind][0]


class Greeting(NamedTuple):
    """Greeting of 64 octets, in its fields."""

    signature: bytes
    major: int
    minor: int
    mechanism: bytes
    as_server: int
    filler: bytes

    @classmethod
    def decode(cls, octets: bytes) -> Greeting:
        """Split a greeting."""
        return cls(octets[:10], octets[10], octets[11], octets[12:32], octets[32], octets[33:])

    @property
    def mechanism_name(self) -> str:
        """Mechanism without its padding."""
        return self.mechanism.rstrip(b"\0").decode("latin-1")


class Frame(NamedTuple):
    """Frame as it was received."""

    flags: int
    body: bytes

    @property
    def is_command(self) -> bool:
        """Whether the body is a command."""
        return bool(self.flags & COMMAND)

    @property
    def more(self) -> bool:
        """Whether further frames of the message follow."""
        return bool(self.flags & MORE)

    @property
    def name(self) -> bytes:
        """Name of the command; empty for a message and for a command without one."""
        return self.body[1 : 1 + self.body[0]] if self.is_command and self.body else b""

    @property
    def data(self) -> bytes:
        """Data behind the name of the command."""
        return self.body[1 + self.body[0] :] if self.body else b""

    def __repr__(self) -> str:
        """Flags and the first octets, as reports of deviations show them."""
        rest = f"... ({len(self.body)} octets)" if len(self.body) > 40 else ""
        return f"<frame {self.flags:02X} {self.body[:40]!r}{rest}>"


def take_frame(octets: bytearray) -> Frame | None:
    """Remove the frame at the beginning of what was received; None while it is not whole."""
    start = 9 if octets and octets[0] & LONG else 2
    if len(octets) < start:
        return None
    end = start + int.from_bytes(octets[1:start], "big")
    if len(octets) < end:
        return None
    taken = Frame(octets[0], bytes(octets[start:end]))
    del octets[:end]
    return taken


def greeting(
    mechanism: str = "NULL",
    *,
    minor: int = 1,
    major: int = 3,
    as_server: int = 0,
    padding: bytes = bytes(8),
    end: int = 0x7F,
    filler: bytes = bytes(31),
    mechanism_padding: bytes = b"",
) -> bytes:
    """Encode a greeting; the defaults are those of a well-behaved peer."""
    name = (mechanism.encode() + mechanism_padding).ljust(20, b"\0")
    return b"\xff" + padding + bytes([end, major, minor]) + name + bytes([as_server]) + filler


def frame(body: bytes, *, flags: int = 0, long: bool | None = None) -> bytes:
    """Encode a frame: in the short form up to 255 octets, unless ``long`` says otherwise."""
    if len(body) > 255 if long is None else long:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


def message(*frames: bytes) -> bytes:
    """Encode a message of one or more frames."""
    return b"".join(frame(body, flags=MORE) for body in frames[:-1]) + frame(frames[-1])


def command(name: bytes, data: bytes = b"", *, flags: int = COMMAND, long: bool | None = None) -> bytes:
    """Encode a command."""
    return frame(bytes([len(name)]) + name + data, flags=flags, long=long)


def ping(context: bytes = b"", *, ttl: int = 0) -> bytes:
    """Encode a PING with a TTL in tenths of a second."""
    return command(b"PING", struct.pack(">H", ttl) + context)


def subscribe(prefix: bytes, *, as_message: bool = False) -> bytes:
    """Encode a subscription, as the command of 3.1 or the message of 3.0."""
    return message(b"\1" + prefix) if as_message else command(b"SUBSCRIBE", prefix)


def cancel(prefix: bytes, *, as_message: bool = False) -> bytes:
    """Encode the end of a subscription."""
    return message(b"\0" + prefix) if as_message else command(b"CANCEL", prefix)


def hello(username: bytes, password: bytes) -> bytes:
    """Encode the HELLO of PLAIN."""
    return command(b"HELLO", b"".join(bytes([len(text)]) + text for text in (username, password)))


def metadata(given: Iterable[Property]) -> bytes:
    """Encode properties."""
    return b"".join(
        bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in given
    )


def properties(octets: bytes) -> list[Property]:
    """Decode properties; raises ``ValueError`` for metadata that is cut off."""
    found, at = [], 0
    while at < len(octets):
        start = at + 1 + octets[at]
        name, size = octets[at + 1 : start], octets[start : start + 4]
        at = start + 4 + int.from_bytes(size, "big")
        if len(size) < 4 or at > len(octets):
            raise ValueError(f"metadata {octets!r} ends within a property")
        found.append((name, octets[start + 4 : at]))
    return found
