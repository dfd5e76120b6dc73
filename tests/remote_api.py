"""A client of the remote API for tests, written from the description of its messages and RFC 6455."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import socket
import struct
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
DEFAULT_QOS = 0xA5


def uleb(number: int) -> bytes:
    """Encode a length."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(value: str | bytes) -> bytes:
    """Encode a text or octets."""
    octets = value.encode() if isinstance(value, str) else value
    return uleb(len(octets)) + octets


def u32(*numbers: int) -> bytes:
    """Encode numbers."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


class Message:
    """Reads the fields of a message from the server."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        first = self.u8()
        self.id = first & 0x7F
        self.sequence = self.u32() if first & 0x80 else None

    def take(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.raw), "a field ends behind the message"
        return self.raw[self.at - count : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def octets(self) -> bytes:
        size = shift = 0
        while True:
            octet = self.u8()
            size |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return self.take(size)

    def text(self) -> str:
        return self.octets().decode()

    def option(self, read: Callable[[], Any]) -> Any:
        return read() if self.u8() else None

    def zid(self) -> str:
        octets = self.octets()
        assert len(octets) == 16
        return octets[::-1].hex().lstrip("0")

    def sample(self) -> dict[str, Any]:
        return {
            "key": self.text(),
            "payload": self.octets(),
            "kind": self.u8(),
            "encoding": (self.u16(), self.text()),
            "attachment": self.option(self.octets),
            "timestamp": self.option(lambda: (self.u64(), self.zid())),
            "qos": self.u8(),
        }

    def done(self) -> None:
        assert self.at == len(self.raw), self.raw[self.at :].hex()


class RemoteClient:
    """Connection with the remote API; a context manager."""

    def __init__(self, port: int, *, path: str = "/", host: str = "x", headers: str = "") -> None:
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=20)
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n".encode()
        )
        self.head = b""
        while b"\r\n\r\n" not in self.head:
            part = self.stream.recv(1)
            assert part, self.head
            self.head += part
        self.status = int(self.head.split()[1])
        if self.status == 101:
            accept = base64.b64encode(hashlib.sha1((key + MAGIC).encode()).digest())
            assert accept in self.head
        self.sequence = 0
        self.events: list[Message] = []
        self.closed: tuple[int, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stream.close()

    @property
    def address(self) -> str:
        """Address by which the server knows it."""
        host, port = self.stream.getsockname()
        return f"{host}:{port}"

    def frame(self, opcode: int, payload: bytes, *, fin: bool = True) -> None:
        """Send a frame, masked as a client has to."""
        mask = os.urandom(4)
        length = len(payload)
        if length < 126:
            size = bytes([length | 0x80])
        elif length < 1 << 16:
            size = b"\xfe" + struct.pack(">H", length)
        else:
            size = b"\xff" + struct.pack(">Q", length)
        masked = bytes(octet ^ mask[at % 4] for at, octet in enumerate(payload))
        self.stream.sendall(bytes([(0x80 if fin else 0) | opcode]) + size + mask + masked)

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            part = self.stream.recv(count - len(got))
            if not part:
                raise ConnectionError("the server has closed the connection")
            got += part
        return got

    def message(self) -> Message | None:
        """Return the next message; None when the connection is closed."""
        while True:
            first, size = self._exactly(2)
            assert size < 0x80, "a server does not mask"
            if size == 126:
                size = struct.unpack(">H", self._exactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._exactly(8))[0]
            payload = self._exactly(size)
            if first == 0x80 | CLOSE:
                self.closed = (int.from_bytes(payload[:2], "big"), payload[2:].decode())
                return None
            if first == 0x80 | PING:
                self.frame(PONG, payload)
                continue
            assert first == 0x80 | BINARY, first
            return Message(payload)

    def until_closed(self) -> None:
        """Read until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            while self.message() is not None:
                pass

    def send(self, id: int, *fields: bytes) -> None:
        """Send a message without a question."""
        self.frame(BINARY, bytes([id]) + b"".join(fields))

    def ask(self, id: int, *fields: bytes) -> Message:
        """Send a question, and return its answer; events before it are kept."""
        sequence, self.sequence = self.sequence, self.sequence + 1
        self.frame(BINARY, bytes([id | 0x80]) + u32(sequence) + b"".join(fields))
        while True:
            message = self.message()
            assert message is not None, self.closed
            if message.sequence is None:
                self.events.append(message)
                continue
            assert message.sequence == sequence
            return message

    def declare(self, id: int, *fields: bytes) -> None:
        """Ask, and expect success."""
        answer = self.ask(id, *fields)
        assert answer.id == 1, answer.text()
        assert answer.u8() == id
        answer.done()

    def event(self) -> Message:
        """Return the next event."""
        if self.events:
            return self.events.pop(0)
        message = self.message()
        assert message is not None, self.closed
        assert message.sequence is None
        return message
