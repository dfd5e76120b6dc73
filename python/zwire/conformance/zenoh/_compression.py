"""Rules of links with compression or low latency."""

from __future__ import annotations

import random
import struct
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, SHOULD
from zwire.conformance.zenoh._link import PATIENCE, Closed, Link, needs
from zwire.conformance.zenoh._probes import closes, question, taken
from zwire.conformance.zenoh._wire import DATA, Message

if TYPE_CHECKING:
    from typing import Self

    from zwire.conformance.zenoh._link import Target

RAW, LZ4 = 0, 1
"""Headers of batches."""


def lz4(block: bytes) -> bytes:
    """Decode an LZ4 block; raises :exc:`zwire.conformance.zenoh._wire.Undecodable`."""
    reader, decoded = wire.Reader(block), bytearray()
    while reader.rest:
        token = reader.octet()
        decoded += reader.take(_length(reader, token >> 4))
        if not reader.rest:
            break
        distance = int.from_bytes(reader.take(2), "little")
        if not 0 < distance <= len(decoded):
            raise wire.Undecodable(f"LZ4 match {distance} bytes back at {len(decoded)} of {block[:40].hex()}")
        for _ in range(_length(reader, token & 15) + 4):
            decoded.append(decoded[-distance])
    return bytes(decoded)


def _length(reader: wire.Reader, nibble: int) -> int:
    length = nibble
    octet = 255 if nibble == 15 else 0
    while octet == 255:
        octet = reader.octet()
        length += octet
    return length


def _extended(length: int) -> bytes:
    """Bytes of a length beyond the nibble of its token."""
    rest = length - 15
    return b"" if rest < 0 else b"\xff" * (rest // 255) + bytes([rest % 255])


def lz4_literals(octets: bytes) -> bytes:
    """LZ4 block without matches."""
    return bytes([min(len(octets), 15) << 4]) + _extended(len(octets)) + octets


def lz4_run(before: bytes, octet: int, count: int, behind: bytes) -> bytes:
    """LZ4 block of some bytes, a run of one byte as a match, and at least five bytes behind it."""
    literals, match = before + bytes([octet]), count - 1 - 4
    token = min(len(literals), 15) << 4 | min(match, 15)
    head = bytes([token]) + _extended(len(literals)) + literals + b"\x01\x00" + _extended(match)
    return head + lz4_literals(behind)


class CompressedLink(Link):
    """Link with compression; batches have a header after the handshake."""

    begun = False
    headers: list[int]
    lengths: list[int]

    @classmethod
    def of(cls, target: Target, sizes: tuple[int, int] = (0x0A, 65535)) -> Self:
        """Open a link; raises NotApplicable for a node that does not agree on compression."""
        link = cls(target)
        link.headers, link.lengths = [], []
        try:
            link.open(sizes=sizes, exts=(*wire.DEFAULT_EXTENSIONS[:1], wire.COMPRESSION, wire.PATCH))
            needs(link.init_ack.ext(0x06), "compression")
        except BaseException:
            link.stream.close()
            raise
        link.begun = True
        return link

    def send_batch(self, *messages: bytes, header: int = RAW) -> None:
        """Send messages, or an LZ4 block, behind the header."""
        super().send_batch(*((bytes([header]),) if self.begun else ()), *messages)

    def batch(self, timeout: float = PATIENCE) -> bytes | None:
        """The next batch, decompressed."""
        octets = super().batch(timeout)
        if not self.begun or octets is None:
            return octets
        if not octets:
            raise Deviation("a batch without its header came")
        self.headers.append(octets[0])
        self.lengths.append(len(octets))
        return lz4(octets[1:]) if octets[0] & LZ4 else octets[1:]


@BOOK.rule(
    "zenoh-wire-3.13/raw-taken",
    MUST,
    "A receiver takes a raw batch behind the header 0 on a compressed link.",
)
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-3.13/header-sent",
    MUST,
    "A node sends each batch of a compressed link behind a header with 0 in its upper seven bits.",
)
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        link.barrier()
        expect(set(link.headers) <= {RAW, LZ4}, f"headers {link.headers}")


@BOOK.rule(
    "zenoh-wire-3.13/open-ack-plain", MUST, "A node sends the OPEN ACK without header, also with compression."
)
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        expect(link.open_ack.raw[0] & 0x1F == 0x02, link.open_ack.raw.hex())


@BOOK.rule("zenoh-wire-3.13/literals-taken", MUST, "A receiver takes an LZ4 block without matches.")
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        asked = question(target, 200)
        link.send_batch(lz4_literals(link.frame(asked.octets)), header=LZ4)
        expect(taken(link, asked) == [True], "the node did not take the message")


def _run(link: Link, key: str, count: int) -> bytes:
    """LZ4 block of a FRAME with a payload of a run of zeros, and ``end of run``."""
    behind = b"end of run"
    frame = link.frame(wire.push(key, b"\x01" + wire.vle(count + len(behind))))
    return lz4_run(frame, 0, count, behind)


@BOOK.rule("zenoh-wire-3.13/match-taken", MUST, "A receiver takes an LZ4 block with a match.")
def _(target: Target) -> None:
    key = target.unique_key()
    with CompressedLink.of(target) as link, target.link() as receiver:
        receiver.subscribe(key)
        link.send_batch(_run(link, key, 4000), header=LZ4)
        message = receiver.next("PUSH")
        expect(
            message.body is not None and message.body.payload == bytes(4000) + b"end of run",
            "other bytes came",
        )


@BOOK.rule(
    "zenoh-wire-3.13/beyond-batch",
    SHOULD,
    "A receiver closes the link for an LZ4 block that is longer than the agreed batch when decompressed.",
)
def _(target: Target) -> None:
    with CompressedLink.of(target, (0x0A, 2000)) as link:
        link.send_batch(_run(link, target.unique_key(), 4000), header=LZ4)
        expect(link.closed(), f"the node kept the link for {PATIENCE:g} s")


@BOOK.rule(
    "zenoh-wire-3.13/undecodable", SHOULD, "A receiver closes the link for bytes that are no LZ4 block."
)
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        link.send_batch(b"\x10a\xff\xff\x00", header=LZ4)
        expect(link.closed(), f"the node kept the link for {PATIENCE:g} s")


@BOOK.rule(
    "zenoh-behaviour-0/full-compressed-batch",
    MUST,
    "A receiver takes a batch that fills the agreed size with its length and the header of compression.",
)
def _(target: Target) -> None:
    with CompressedLink.of(target, (0x0A, 2000)) as link:
        frame = link.frame(wire.push(f"{target.unique_key()}/full", wire.put()))
        room = link.size - 3 - len(frame)
        link.send_batch(frame[:-1] + wire.sized(bytes(room - 1)))
        expect(link.lives(), "the node closed the link")


def _sent(target: Target, octets: bytes, sizes: tuple[int, int] = (0x0A, 65535)) -> CompressedLink:
    """Link to which the node has sent a publication with those bytes; the last batch held its end."""
    key = target.unique_key()
    with CompressedLink.of(target, sizes) as link, target.link() as sender:
        link.subscribe(key)
        link.lengths.clear()
        link.headers.clear()
        sender.send(wire.push(key, wire.put(octets), wire.qos(DATA, block=True)))
        message = link.next("PUSH")
        expect(message.body is not None and message.body.payload == octets, "other bytes came")
        return link


@BOOK.rule(
    "zenoh-wire-3.13/sends", MUST, "A node sends batches of a compressed link that decompress to the message."
)
def _(target: Target) -> None:
    _sent(target, bytes(20_000))


@BOOK.rule("zenoh-wire-3.13/sends-lz4", SHOULD, "A node compresses a batch that becomes smaller by that.")
def _(target: Target) -> None:
    link = _sent(target, bytes(20_000))
    expect(sum(link.lengths) < 10_000, f"{sum(link.lengths)} bytes for a payload of 20000 zeros")


@BOOK.rule(
    "zenoh-wire-3.13/sends-raw",
    SHOULD,
    "A node sends a batch raw that does not become smaller by compression.",
)
def _(target: Target) -> None:
    link = _sent(target, random.Random(7).randbytes(20_000))
    expect(set(link.headers) == {RAW}, f"headers {link.headers}")


@BOOK.rule(
    "zenoh-wire-3.13/sends-within-batch",
    MUST,
    "A node sends batches of a compressed link that are, with length and header, at most as long as agreed.",
)
def _(target: Target) -> None:
    link = _sent(target, random.Random(8).randbytes(5000), (0x0A, 300))
    expect(max(link.lengths) + 2 <= link.size, f"a batch of {max(link.lengths) + 2} bytes of {link.size}")


@BOOK.rule(
    "zenoh-wire-3.13/keep-alive", MUST, "A node sends KEEP_ALIVE on a compressed link behind the header."
)
def _(target: Target) -> None:
    with CompressedLink.of(target) as link:
        needs(link.open_ack.lease_ms <= 20_000, "a lease of 20 s or less")
        octets = link.batch(link.open_ack.lease_ms / 1000)
        expect(octets == b"\x04", f"batch {None if octets is None else octets.hex()} behind the header")


# ---- Low latency ----


class BareLink(Link):
    """Link of low latency: a batch is a network message, KEEP_ALIVE or CLOSE, behind four bytes of length."""

    begun = False

    @classmethod
    def of(cls, target: Target, role: int = wire.CLIENT) -> Self:
        """Open a link; raises NotApplicable for a node that does not agree on low latency."""
        link = cls(target)
        try:
            link.open(role=role, exts=(wire.LOW_LATENCY, wire.PATCH))
            needs(link.init_ack.ext(0x05), "low latency")
        except BaseException:
            link.stream.close()
            raise
        link.begun = True
        return link

    def send_batch(self, *messages: bytes) -> None:
        """Send a batch behind its length."""
        if not self.begun:
            super().send_batch(*messages)
            return
        body = b"".join(messages)
        self.send_bytes(struct.pack("<I", len(body)) + body)

    def send(self, *messages: bytes, priority: int = DATA, reliable: bool = True) -> None:
        """Send network messages, each in a batch; priority and reliability have no form here."""
        del priority, reliable
        for message in messages:
            self.send_batch(message)

    def batch(self, timeout: float = PATIENCE) -> bytes | None:
        """The next batch."""
        if not self.begun:
            return super().batch(timeout)
        deadline = time.monotonic() + timeout
        head = self._take(4, deadline)
        return None if head is None else self._take(struct.unpack("<I", head)[0], deadline)

    def network(self, timeout: float = PATIENCE) -> Message:
        """The next network message. Raises TimeoutError, and Closed after the end."""
        deadline = time.monotonic() + timeout
        while not self.waiting:
            octets = self.batch(max(deadline - time.monotonic(), 0.001))
            if octets is None or octets[:1] == b"\x03":
                raise Closed("the node closed the connection")
            if octets[:1] != b"\x04":
                reader = wire.Reader(octets)
                self.waiting.append(wire.network_message(reader))
                expect(not reader.rest, f"{len(reader.rest)} bytes behind the message {octets.hex()}")
        return self.waiting.pop(0)


@BOOK.rule(
    "zenoh-wire-3.14/bare-messages",
    MUST,
    "A node takes and sends a network message without FRAME behind four bytes of length, with low latency.",
)
def _(target: Target) -> None:
    with BareLink.of(target) as link:
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-3.14/carries",
    MUST,
    "A node forwards publications from and to links of low latency.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with BareLink.of(target) as bare, target.link() as usual:
        for sender, receiver in ((bare, usual), (usual, bare)):
            receiver.subscribe(key)
            sender.send(wire.push(key, wire.put(b"x" * 1000), wire.qos(DATA, block=True)))
            message = receiver.next("PUSH")
            expect(message.body is not None and message.body.payload == b"x" * 1000, message.raw.hex())


@BOOK.rule(
    "zenoh-wire-3.14/keep-alive",
    MUST,
    "A node sends KEEP_ALIVE as a batch of its own on a link of low latency.",
)
def _(target: Target) -> None:
    with BareLink.of(target) as link:
        needs(link.open_ack.lease_ms <= 20_000, "a lease of 20 s or less")
        octets = link.batch(link.open_ack.lease_ms / 1000)
        expect(octets == b"\x04", f"batch {None if octets is None else octets.hex()}")


@BOOK.rule(
    "zenoh-wire-3.14/close", MUST, "A receiver of CLOSE closes the connection on a link of low latency."
)
def _(target: Target) -> None:
    with BareLink.of(target) as link:
        closes(link, wire.close())


@BOOK.rule(
    "zenoh-wire-3.14/keep-alive-taken",
    MUST,
    "A receiver takes KEEP_ALIVE as a batch of its own on a link of low latency.",
)
def _(target: Target) -> None:
    with BareLink.of(target) as link:
        link.send_batch(wire.keep_alive())
        expect(link.lives(), "the node closed the link")
