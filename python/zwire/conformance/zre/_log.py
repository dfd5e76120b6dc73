"""Rules of ZRE/LOG (``zre`` 13.1)."""

from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MUST, OLD, SHOULD, alone
from zwire.conformance.zre._target import PATIENCE, Peer, Target
from zwire.conformance.zre._wire import Connection, LogMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUBSCRIBE_ALL = b"\x01"
_SECONDS = 100_000_000_000
"""Times below are seconds, larger ones milliseconds."""
JOIN, LEAVE, ENTER, EXIT = 1, 2, 3, 4
INFO = 3


class Collector:
    """Collector of ZRE/LOG that a node was told of and is connected to."""

    def __init__(self, link: Connection) -> None:
        self.link = link
        self.waiting: list[list[bytes]] = []

    def next(self, event: int, data: bytes) -> LogMessage:
        """The message about an event; others are read over."""
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0 and not self.link.is_closed:
            for frames in self.waiting:
                expect(len(frames) == 1, f"a log message of {len(frames)} frames")
                message = LogMessage.decode(frames[0])
                if (message.event, message.data) == (event, data):
                    return message
            ready, _, _ = select.select([self.link], [], [], left)
            self.waiting = self.link.messages() if ready else []
        raise Deviation(f"no log message of {wire.LOG_EVENTS[event]} with data {data!r}")


@contextlib.contextmanager
def _collector(target: Target) -> Iterator[Collector]:
    with contextlib.closing(target.listen()) as listener:
        host, port = listener.getsockname()
        with target.peer(headers={b"X-ZRELOG": f"tcp://{host}:{port}".encode()}):
            if not select.select([listener], [], [], PATIENCE)[0]:
                raise Deviation(f"the node did not connect to the collector within {PATIENCE:g} s")
            stream, _ = listener.accept()
            with contextlib.closing(Connection(stream, "SUB")) as link:
                link.handshake(PATIENCE)
                expect(link.socket_type in (b"PUB", b"XPUB"), f"Socket-Type {link.socket_type!r}")
                stream.settimeout(PATIENCE)
                link.send(_SUBSCRIBE_ALL)
                # A node drops messages until the subscription has arrived; nothing tells when it has.
                time.sleep(0.2)
                yield Collector(link)


def _endpoint(peer: Peer) -> bytes:
    return f"tcp://{peer.host}:{peer.port}".encode()


def _enter(target: Target) -> LogMessage:
    """The log message about a peer that enters."""
    with _collector(target) as collector, target.peer() as peer:
        return collector.next(ENTER, _endpoint(peer))


@BOOK.rule(
    "zre-13.1/connects",
    MUST,
    "A node connects a PUB socket to the endpoint in the header X-ZRELOG of a peer.",
    roles=OLD,
)
def _(target: Target) -> None:
    with _collector(target):
        pass


@BOOK.rule("zre-13.1/enter", MUST, "A node logs ENTER with the endpoint of a peer that enters.", roles=OLD)
def _(target: Target) -> None:
    _enter(target)


@BOOK.rule("zre-13.1/exit", MUST, "A node logs EXIT with the endpoint of a peer that leaves.", roles=OLD)
def _(target: Target) -> None:
    target.needs_beacons()
    with _collector(target) as collector, target.peer() as peer:
        peer.beacon(0)
        collector.next(EXIT, _endpoint(peer))


@BOOK.rule("zre-13.1/level", SHOULD, "A node logs the ENTER of a peer at the level INFO.", roles=OLD)
def _(target: Target) -> None:
    level = _enter(target).level
    expect(level == INFO, f"level {level}")


@BOOK.rule(
    "zre-13.1/node",
    MUST,
    "The node of a log message is the hash of the address and port of the node's mailbox.",
    roles=OLD,
)
def _(target: Target) -> None:
    with _collector(target) as collector, target.peer() as peer:
        node = collector.next(ENTER, _endpoint(peer)).node
        host, port = peer.hello.address
        expected = wire.log_hash(f"{host}:{port}".encode())
        expect(node == expected, f"node {node:04X}, the hash of {host}:{port} is {expected:04X}")


@BOOK.rule(
    "zre-13.1/peer",
    SHOULD,
    "The peer of an ENTER is the hash of the peer's endpoint, with or without its scheme.",
    roles=OLD,
)
def _(target: Target) -> None:
    message = _enter(target)
    hashes = [wire.log_hash(text) for text in (message.data, message.data.removeprefix(b"tcp://"))]
    expect(message.peer in hashes, f"peer {message.peer:04X} for {message.data!r}")


@BOOK.rule(
    "zre-13.1/time",
    MUST,
    "The time of a log message is that of the event, in seconds or milliseconds since 1970.",
    roles=OLD,
)
def _(target: Target) -> None:
    told = _enter(target).time
    seconds = told if told < _SECONDS else told / 1000
    expect(abs(seconds - time.time()) < 60, f"time {told}")


@alone(
    "zre-13.1/join",
    MUST,
    "A node logs JOIN and LEAVE of its own groups, with the name of the group and peer 0.",
    roles=OLD,
)
def _(target: Target) -> None:
    if target.join is None or target.leave is None:
        raise NotApplicable("the target has no way to let the node join and leave groups")
    group = target.unique()
    with _collector(target) as collector:
        target.join(group.decode())
        target.leave(group.decode())
        for event in (JOIN, LEAVE):
            peer = collector.next(event, group).peer
            expect(peer == 0, f"peer {peer:04X} in {wire.LOG_EVENTS[event]}")
