"""Rules of discovery by gossip, for a node that is a hub (``zre`` 6)."""

from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OBSERVED, SHOULD, ZYRE
from zwire.conformance.zre._target import PATIENCE, QUIET, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.conformance.zre._wire import Connection

HELLO, PUBLISH, PING, PONG, INVALID = range(1, 6)
Tuple = tuple[int, bytes, bytes]
"""Number of a message, and the key and the value of a PUBLISH."""


class Leaf:
    """Client of the hub."""

    def __init__(self, target: Target) -> None:
        if target.gossip is None:
            raise NotApplicable("the target names no gossip endpoint")
        self.link: Connection = target.connection("DEALER", address=target.gossip)
        self.waiting: list[Tuple] = []

    def send(self, octets: bytes) -> None:
        """Send a message."""
        self.link.send(octets)

    def next(self, timeout: float = PATIENCE) -> Tuple | None:
        """The next message; None if none comes in time."""
        deadline = time.monotonic() + timeout
        while not self.waiting:
            left = deadline - time.monotonic()
            if left <= 0 or self.link.is_closed or not select.select([self.link], [], [], left)[0]:
                return None
            self.waiting = [wire.decode_gossip(frames[0]) for frames in self.link.messages()]
        return self.waiting.pop(0)

    def until(self, *found: Tuple) -> list[Tuple]:
        """Messages up to the first one that is among the given; raises :exc:`Deviation` if none comes."""
        seen: list[Tuple] = []
        while not seen or seen[-1] not in found:
            message = self.next()
            if message is None:
                raise Deviation(f"{found[0]} did not come within {PATIENCE:g} s; {seen} came")
            seen.append(message)
        return seen

    def barrier(self) -> list[Tuple]:
        """Wait for the PONG to a PING, and return what came before."""
        self.send(wire.gossip(PING))
        return self.until((PONG, b"", b""))[:-1]


@contextlib.contextmanager
def _leaf(target: Target, *, greets: bool = True) -> Iterator[Leaf]:
    leaf = Leaf(target)
    with contextlib.closing(leaf.link):
        if greets:
            leaf.send(wire.gossip(HELLO))
        yield leaf


def _key(target: Target) -> bytes:
    return b"key-" + target.unique()


@BOOK.rule(
    "zre-6/tuple",
    MUST,
    "A hub answers HELLO with its tuples, one of them its UUID in hexadecimal capitals and its endpoint.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with _leaf(target) as leaf, target.peer() as peer:
        host, port = peer.hello.address
        leaf.until((PUBLISH, target.uuid.hex().upper().encode(), f"tcp://{host}:{port}".encode()))


@BOOK.rule("zre-6/ping", MUST, "A hub answers PING with PONG.", roles=MODERN)
def _(target: Target) -> None:
    with _leaf(target) as leaf:
        leaf.barrier()


@BOOK.rule("zre-6/before-hello", MUST, "A hub sends a client nothing before its HELLO.", roles=MODERN)
def _(target: Target) -> None:
    with _leaf(target, greets=False) as leaf, _leaf(target) as other:
        key = _key(target)
        other.send(wire.gossip_tuple(key, b"1"))
        other.until((PUBLISH, key, b"1"))
        seen = leaf.next(QUIET)
        expect(seen is None, f"{seen} came")


@BOOK.rule("zre-6/forward", MUST, "A hub forwards a new tuple to all its clients.", roles=MODERN)
def _(target: Target) -> None:
    with _leaf(target) as one, _leaf(target) as two:
        two.barrier()
        key = _key(target)
        one.send(wire.gossip_tuple(key, b"1"))
        two.until((PUBLISH, key, b"1"))


@BOOK.rule(
    "zre-6/echo", OBSERVED, "A hub forwards a tuple also to the client that sent it.", seen=ZYRE, roles=MODERN
)
def _(target: Target) -> None:
    with _leaf(target) as leaf:
        key = _key(target)
        leaf.send(wire.gossip_tuple(key, b"1"))
        leaf.until((PUBLISH, key, b"1"))


@BOOK.rule("zre-6/same", MUST, "A hub does not forward a tuple that it holds already.", roles=MODERN)
def _(target: Target) -> None:
    with _leaf(target) as one, _leaf(target) as two:
        key = _key(target)
        two.barrier()
        one.send(wire.gossip_tuple(key, b"1"))
        two.until((PUBLISH, key, b"1"))
        one.send(wire.gossip_tuple(key, b"1"))
        one.barrier()
        seen = two.barrier()
        expect((PUBLISH, key, b"1") not in seen, "the tuple came twice")


@BOOK.rule(
    "zre-6/replace", MUST, "A tuple with a known key and another value replaces the old one.", roles=MODERN
)
def _(target: Target) -> None:
    with _leaf(target) as leaf:
        key = _key(target)
        leaf.send(wire.gossip_tuple(key, b"1"))
        # A hub may refuse to change a value often; a PING keeps the client from expiring meanwhile.
        for _ in range(3):
            time.sleep(0.5)
            leaf.barrier()
        leaf.send(wire.gossip_tuple(key, b"2"))
        leaf.barrier()
        with _leaf(target) as later:
            seen = [value for _, name, value in later.barrier() if name == key]
            expect(seen == [b"2"], f"values {seen}")


@BOOK.rule(
    "zre-6/greets", MUST, "A node that hears a tuple connects to its endpoint and sends HELLO.", roles=MODERN
)
def _(target: Target) -> None:
    with _leaf(target) as leaf, target.stranger() as peer:
        value = f"tcp://{peer.host}:{peer.port}".encode()
        leaf.send(wire.gossip_tuple(peer.uuid.hex().upper().encode(), value))
        peer.next(wire.HELLO)


@BOOK.rule(
    "zre-6/wrong-signature", MUST, "A hub drops a message with another signature or version.", roles=MODERN
)
def _(target: Target) -> None:
    with _leaf(target) as leaf:
        key = _key(target)
        whole = wire.gossip_tuple(key, b"1")
        leaf.send(b"\xaa\xa1" + whole[2:])
        leaf.send(whole[:3] + b"\x09" + whole[4:])
        seen = leaf.barrier()
        expect((PUBLISH, key, b"1") not in seen, "the tuple came back")


@BOOK.rule(
    "zre-6/expiry",
    SHOULD,
    "A hub answers the PUBLISH of a client that was silent for 1.5 seconds with INVALID.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with _leaf(target) as leaf:
        leaf.barrier()
        time.sleep(1.6)
        leaf.send(wire.gossip_tuple(_key(target), b"1"))
        leaf.until((INVALID, b"", b""))
