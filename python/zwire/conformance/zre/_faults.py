"""Rules of faulty messages: they cost at most the session of their peer (``zre`` 11.8, 12, 21.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import MODERN, MUST, OBSERVED, OLD, ZYRE, alone
from zwire.conformance.zre._target import GROUP, Peer, Target
from zwire.conformance.zre._wire import (
    ELECT,
    GOODBYE,
    JOIN,
    LEAVE,
    PING,
    SHOUT,
    WHISPER,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _costs_nothing(
    name: str, what: str, *, roles: tuple[str, ...] = ()
) -> Callable[[Callable[[Peer], None]], None]:
    """Add the rule that a fault of one peer is noticed by no other peer, and that the node lives."""

    def add(fault: Callable[[Peer], None]) -> None:
        def check(target: Target) -> None:
            with target.bystander(), target.peer() as peer:
                fault(peer)
                # What comes behind the fault often is what ends a node.
                peer.send(PING)
                peer.wait(0.1)

        alone(
            f"zre-21.1/{name}",
            MUST,
            f"A node that receives {what} goes on serving its other peers.",
            roles=roles,
        )(check)

    return add


def _raw(peer: Peer, id: int, body: bytes = b"") -> bytes:
    peer.sequence += 1
    return wire.header(peer.generation, id, peer.sequence) + body


@_costs_nothing("unknown-id", "a message with an unknown id")
def _(peer: Peer) -> None:
    peer.send(0x7F)


@_costs_nothing("id-0", "a message with the id 0")
def _(peer: Peer) -> None:
    peer.send(0)


@_costs_nothing("elect", "an ELECT, which it may not know")
def _(peer: Peer) -> None:
    peer.send(ELECT, wire.string(GROUP) + wire.string(peer.uuid.hex().upper().encode()))


@_costs_nothing("truncated-join", "a JOIN that is cut short")
def _(peer: Peer) -> None:
    peer.send_octets(_raw(peer, JOIN, b"\x0bcut"))


@_costs_nothing("truncated-leave", "a LEAVE without its status")
def _(peer: Peer) -> None:
    peer.send_octets(_raw(peer, LEAVE, wire.string(GROUP)))


@_costs_nothing("truncated-shout", "a SHOUT that is cut short")
def _(peer: Peer) -> None:
    peer.send_octets(_raw(peer, SHOUT, b"\xffcut"), b"content")


@_costs_nothing("truncated-header", "a message that ends within its number")
def _(peer: Peer) -> None:
    peer.send_octets(_raw(peer, PING)[:-1])


@_costs_nothing("empty-frame", "an empty frame")
def _(peer: Peer) -> None:
    peer.send_octets(b"")


@_costs_nothing("one-octet", "a frame of one octet")
def _(peer: Peer) -> None:
    peer.send_octets(b"\xaa")


@_costs_nothing("signature", "a message with another signature")
def _(peer: Peer) -> None:
    peer.send_octets(b"\xaa\xa0" + wire.header(peer.generation, PING, peer.sequence + 1)[2:])


@_costs_nothing("whisper-without-content", "a WHISPER without content")
def _(peer: Peer) -> None:
    peer.send(WHISPER)


@_costs_nothing("shout-without-content", "a SHOUT without content")
def _(peer: Peer) -> None:
    peer.send(SHOUT, wire.string(GROUP))


@_costs_nothing("status", "a JOIN with a wrong status")
def _(peer: Peer) -> None:
    peer.change(JOIN, b"group", 99)


@_costs_nothing("empty-group", "a JOIN of a group without a name")
def _(peer: Peer) -> None:
    peer.change(JOIN, b"", 1)


@_costs_nothing("zero-group", "a JOIN of a group with a zero octet in its name")
def _(peer: Peer) -> None:
    peer.change(JOIN, b"a\0b", 1)


@_costs_nothing("utf8-group", "a JOIN of a group with a name that is not UTF-8")
def _(peer: Peer) -> None:
    peer.change(JOIN, b"\xff\xfe", 1)


@_costs_nothing("second-hello", "a second HELLO")
def _(peer: Peer) -> None:
    peer.say_hello()


@_costs_nothing("version", "a PING with the version 9", roles=MODERN)
def _(peer: Peer) -> None:
    octets = bytearray(_raw(peer, PING))
    octets[3] = 9
    peer.send_octets(bytes(octets))


def _strange_hello(
    name: str, what: str, *, roles: tuple[str, ...] = ()
) -> Callable[[Callable[[Peer], None]], None]:
    """Add the rule that the HELLO of a stranger is noticed by no other peer, and that the node lives."""

    def add(greet: Callable[[Peer], None]) -> None:
        def check(target: Target) -> None:
            with target.bystander(), target.stranger() as peer:
                greet(peer)
                peer.wait(0.1)

        alone(
            f"zre-21.1/{name}",
            MUST,
            f"A node that receives {what} goes on serving its other peers.",
            roles=roles,
        )(check)

    return add


def _greet(peer: Peer, generation: str, identity: bytes | None = None) -> None:
    peer.connect(identity)
    peer.send_octets(wire.hello(generation, peer.host, peer.port))


@_strange_hello("truncated-hello", "a HELLO that is cut short")
def _(peer: Peer) -> None:
    peer.connect()
    peer.send_octets(wire.hello(peer.generation, peer.host, peer.port)[:-3])


@_strange_hello("hello-without-headers", "a HELLO without its headers")
def _(peer: Peer) -> None:
    peer.connect()
    size = 1 if peer.generation == "20" else 4
    peer.send_octets(wire.hello(peer.generation, peer.host, peer.port)[:-size])


@_strange_hello("hello-many-groups", "a HELLO that claims more groups than it has")
def _(peer: Peer) -> None:
    peer.connect()
    head = wire.header(peer.generation, wire.HELLO, 1) + wire.address_field(
        peer.generation, peer.host, peer.port
    )
    peer.send_octets(head + (b"\xff" if peer.generation == "20" else b"\xff\xff\xff\xff") + b"\0\0\0\1G")


@_strange_hello("hello-43", "a HELLO of 43/ZRE", roles=("36", *OLD))
def _(peer: Peer) -> None:
    _greet(peer, "43", b"\x01" + peer.uuid)


@_strange_hello("hello-36", "a HELLO of 36/ZRE", roles=("43", *OLD))
def _(peer: Peer) -> None:
    _greet(peer, "36", b"\x01" + peer.uuid)


@_strange_hello("hello-20", "a HELLO of 20/ZRE with an identity of 16 octets", roles=MODERN)
def _(peer: Peer) -> None:
    _greet(peer, "20", peer.uuid)


@_strange_hello("hello-20-as-36", "a HELLO of 20/ZRE with an identity of 17 octets", roles=MODERN)
def _(peer: Peer) -> None:
    _greet(peer, "20", b"\x01" + peer.uuid)


@_strange_hello("utf8-name", "a HELLO with a name, a group and a header that are not UTF-8")
def _(peer: Peer) -> None:
    peer.connect()
    peer.say_hello(name=b"\xff\xfe", groups=[b"\xff"], status=1, headers={b"X-\xff": b"\xff"})


@_strange_hello("endpoint", "a HELLO with an endpoint that is none", roles=MODERN)
def _(peer: Peer) -> None:
    peer.connect()
    head = wire.header(peer.generation, wire.HELLO, 1)
    peer.send_octets(head + wire.string(b"nothing") + bytes(4) + b"\0" + wire.string(b"name") + bytes(4))


# ---- Sessions behind a fault ----


@alone(
    "zre-21.1/signature-uncounted",
    MUST,
    "A node drops a message with another signature silently, and does not count it.",
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.barrier()
        peer.send_octets(b"\xaa\xa0" + wire.header(target.generation, PING, peer.sequence + 1)[2:])
        before = peer.barrier()
        expect(not before and len(peer.links) == 1, f"{[message.kind for message in before]} came")


@alone(
    "zre-11.8/goodbye",
    OBSERVED,
    "A node that beacons ignores a GOODBYE and counts it.",
    seen=ZYRE,
    roles=MODERN,
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer:
        peer.send(GOODBYE)
        before = peer.barrier()
        expect(not before and len(peer.links) == 1, f"{[message.kind for message in before]} came")


@alone(
    "zre-12/elect",
    OBSERVED,
    "A node answers the ELECT of a group's only other member by an ELECT with the same UUID.",
    seen=ZYRE,
    roles=MODERN,
)
def _(target: Target) -> None:
    target.needs_beacons()
    # Smaller than every UUID of a node.
    candidate = b"1".rjust(32, b"0")
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.send(ELECT, wire.string(GROUP) + wire.string(candidate))
        answer = peer.next(ELECT)
        expect(answer.candidate == candidate and answer.group == GROUP, f"ELECT {answer.raw.hex()}")
