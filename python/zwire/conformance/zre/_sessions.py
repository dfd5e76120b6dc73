"""Rules of sessions: identities, HELLO, connections (``zre`` 3, 4, 11.1, 11.2)."""

from __future__ import annotations

import contextlib

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OBSERVED, SHOULD, ZYRE, alone
from zwire.conformance.zre._target import GROUP, QUIET, Target
from zwire.conformance.zre._wire import HELLO, JOIN, PING, PING_OK, WHISPER


def _expect_ignored(target: Target, identity: bytes) -> None:
    """Say HELLO on a connection of some identity: the node does not connect."""
    with target.stranger() as peer:
        peer.connect(identity)
        peer.say_hello()
        with target.peer() as other:
            other.barrier()
        expect(not peer.is_met(QUIET), f"the node connected to a peer with identity {identity.hex()}")


@alone("zre-4/anonymous", MUST, "A node ignores a HELLO on a connection without identity.")
def _(target: Target) -> None:
    _expect_ignored(target, b"")


@alone(
    "zre-4/size",
    MUST,
    "A node of 36/ZRE ignores a HELLO on a connection with an identity that is no UUID.",
    roles=MODERN,
)
def _(target: Target) -> None:
    for size in (15, 18, 40):
        _expect_ignored(target, b"\x01" + bytes([0x5A]) * (size - 1))


@alone("zre-4/own", SHOULD, "A HELLO with the UUID of the node itself makes no peer.")
def _(target: Target) -> None:
    with target.bystander():
        _expect_ignored(target, wire.identity(target.generation, target.uuid))


@alone("zre-11.2/before-hello", MUST, "A node ignores what a peer sends before HELLO, and does not count it.")
def _(target: Target) -> None:
    with target.stranger() as peer:
        peer.connect()
        peer.send(PING)
        peer.whisper(b"early")
        peer.change(JOIN, GROUP, 1)
        peer.say_hello()
        peer.next(HELLO)
        before = peer.barrier()
        seen = [message.kind for message in before if message.id in (PING_OK, WHISPER)]
        expect(not seen, f"the node answered what came before HELLO: {seen}")
        expect(not peer.hears_group(GROUP), "a JOIN before HELLO counts")


@alone("zre-11.2/no-hello", MUST, "A message of an unknown peer that is no HELLO makes no peer.")
def _(target: Target) -> None:
    with target.stranger() as peer:
        peer.connect()
        peer.send(PING)
        with target.peer() as other:
            other.barrier()
        expect(not peer.is_met(QUIET), "the node connected")


@alone(
    "zre-11.2/hello-number",
    OBSERVED,
    "A HELLO with a number other than 1 begins no session.",
    seen=ZYRE,
    roles=MODERN,
)
def _(target: Target) -> None:
    target.needs_echo()
    with target.stranger() as peer:
        peer.connect()
        peer.say_hello(sequence=2)
        content = target.unique()
        peer.whisper(content)
        with target.peer() as other:
            other.barrier()
        seen = [message.content for message in peer.quiet() if message.id == WHISPER]
        expect((content,) not in seen, "the session goes on")


@alone(
    "zre-11.2/second-hello",
    MUST,
    "A second HELLO of a peer begins a new session: the node connects anew and sends HELLO.",
    roles=(*MODERN, "zyre1"),
)
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.barrier()
        peer.renew()
        expect(peer.hello.sequence == 1, f"HELLO with number {peer.hello.sequence}")
        expect(len(peer.links) == 2, f"{len(peer.links)} connections")
        expect(not peer.hears_group(GROUP), "the groups of the old session are still there")


@BOOK.rule(
    "zre-11.2/reconnect",
    MUST,
    "After its connection broke, a peer goes on with the next number on a new connection, without HELLO.",
)
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.barrier()
        peer.dealers[0].close()
        peer.connect()
        before = peer.barrier()
        expect(HELLO not in [message.id for message in before], "the node began a new session")
        expect(peer.hears_group(GROUP), "the peer is no member of its group any more")


@alone(
    "zre-3/handover",
    MUST,
    "A connection takes the place of an open one with the same identity.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.barrier()
        peer.connect()
        peer.barrier()
        peer.dealers[0].close()
        peer.barrier()


@alone(
    "zre-11.2/own-endpoint",
    SHOULD,
    "A HELLO with the endpoint of the node itself costs no other peer its session.",
)
def _(target: Target) -> None:
    with target.bystander(), target.stranger() as peer:
        peer.connect()
        peer.say_hello(address=target.address)
        peer.send(PING)


@alone("zre-3/unreachable", MUST, "A peer with a mailbox out of reach costs no other peer its session.")
def _(target: Target) -> None:
    with target.bystander(), target.stranger() as peer:
        closed = peer.target.listen()
        address = closed.getsockname()
        closed.close()
        peer.connect()
        peer.say_hello(address=address)
        peer.send(PING)


@alone(
    "zre-11.2/broken",
    MUST,
    "A peer that ends its connection within a message costs no other peer its session.",
)
def _(target: Target) -> None:
    with target.bystander(), target.peer() as peer:
        peer.dealers[0].send_octets(b"\x01\x06\xaa\xa1")
        peer.dealers[0].close()


@alone("zre-11.1/many", SHOULD, "A node has sessions with fifty peers at once.")
def _(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(target.peer()) for _ in range(50)]
        for peer in peers:
            peer.barrier()
