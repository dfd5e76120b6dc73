"""Rules of the beacons and endpoints that a node receives (``zre`` 5.3, 7)."""

from __future__ import annotations

import socket

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OBSERVED, SHOULD, ZYRE, alone
from zwire.conformance.zre._target import QUIET, Peer, Target
from zwire.conformance.zre._wire import HELLO


def _expect_dropped(target: Target, *datagrams: bytes, peer: Peer) -> None:
    """Send datagrams, then a beacon of another peer: only that peer is met."""
    for octets in datagrams:
        target.send_beacon(octets)
    with target.stranger() as other:
        expect(other.appear(), "the node did not connect to a peer that sent a good beacon afterwards")
    expect(not peer.is_met(QUIET), f"the node connected because of {datagrams[0].hex()}")


@BOOK.rule(
    "zre-5.3/new-peer",
    MUST,
    "A node connects to the port in a beacon of an unknown UUID, at the sender's address, and sends HELLO.",
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        peer.appear()
        peer.next(HELLO)


@BOOK.rule(
    "zre-5.3/known", MUST, "A beacon of a known peer with the same port does not begin another session."
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer:
        peer.beacon()
        peer.beacon()
        peer.barrier()
        expect(not peer.quiet() and len(peer.links) == 1, f"{len(peer.links)} connections")
        expect(not peer.links[0].is_closed, "the node closed its connection")


@BOOK.rule(
    "zre-11.2/not-ready",
    MUST,
    "A node that has greeted a peer after its beacon does not greet it again when the peer's HELLO arrives.",
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        peer.appear()
        peer.next(HELLO)
        peer.connect()
        peer.say_hello()
        before = peer.barrier()
        expect(HELLO not in [message.id for message in before], "a second HELLO came")
        expect(len(peer.links) == 1, f"{len(peer.links)} connections")


@BOOK.rule(
    "zre-5.3/goodbye", MUST, "A node closes its connection to a known peer that sends a beacon with port 0."
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer:
        peer.beacon(0)
        expect(peer.is_ended(peer.links[0]), "the connection stays open")


@BOOK.rule("zre-5.3/return", MUST, "A peer that has said goodbye enters again by a HELLO with number 1.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer:
        peer.beacon(0)
        expect(peer.is_ended(peer.links[0]), "the connection stays open after the goodbye")
        peer.renew()
        peer.barrier()


@BOOK.rule("zre-5.3/unknown-goodbye", MUST, "A beacon with port 0 and an unknown UUID makes no peer.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        _expect_dropped(target, wire.beacon(peer.uuid, 0), peer=peer)
        peer.enter()
        expect(peer.hello.sequence == 1, f"HELLO with number {peer.hello.sequence} afterwards")


@BOOK.rule("zre-5.3/signature", MUST, "A node drops a datagram that does not begin with ZRE.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        _expect_dropped(target, wire.beacon(peer.uuid, peer.port, header=b"ZRX\x01"), peer=peer)


@BOOK.rule("zre-5.3/version", MUST, "A node drops a datagram of 22 octets with a version other than 1.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        datagrams = [
            wire.beacon(peer.uuid, peer.port, header=header)
            for header in (b"ZRE\x02", b"ZRE\x00", b"ZRE\x03")
        ]
        _expect_dropped(target, *datagrams, peer=peer)


@alone("zre-5.3/length", MUST, "A node drops a beacon of version 1 that has not 22 octets, and lives.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.bystander(), target.stranger() as peer:
        whole = wire.beacon(peer.uuid, peer.port)
        _expect_dropped(target, whole + b"\0", whole + bytes(8), whole[:21], whole[:4], peer=peer)


@alone(
    "zre-5.3/long-version-1", SHOULD, "A node drops a beacon of version 1 with the 54 octets of version 3."
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        _expect_dropped(target, wire.beacon(peer.uuid, peer.port, key=b"\x20" * 32), peer=peer)


@alone("zre-14/version-3", SHOULD, "A node without keys ignores a beacon of version 3, and lives.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.bystander(), target.stranger() as peer:
        octets = wire.beacon(peer.uuid, peer.port, header=b"ZRE\x03", key=b"\x20" * 32)
        _expect_dropped(target, octets, peer=peer)


@alone("zre-5.3/own-uuid", SHOULD, "A node drops a beacon with its own UUID and another port.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer:
        _expect_dropped(target, wire.beacon(target.uuid, peer.port), peer=peer)


@alone("zre-5.3/own-goodbye", MUST, "A beacon with the node's own UUID and port 0 ends none of its sessions.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.bystander():
        target.send_beacon(wire.beacon(target.uuid, 0))
        with target.stranger() as other:
            expect(other.appear(), "the node did not connect to a peer that sent a good beacon afterwards")


@BOOK.rule(
    "zre-5.3/purge",
    OBSERVED,
    "A node disconnects a peer when a beacon with a new UUID names the address and port of that peer.",
    seen=ZYRE,
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as old, target.stranger() as new:
        old.appear()
        old.next(HELLO)
        new.beacon(old.port)
        expect(old.is_ended(old.links[0]), "the connection of the old peer stays open")


@BOOK.rule(
    "zre-16/live-session",
    SHOULD,
    "A beacon of a known peer with another port does not end the live session of that peer.",
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer, target.stranger() as other:
        peer.beacon(other.port)
        peer.barrier()
        expect(not other.is_met(QUIET), "the node connected to the other port")
        peer.barrier()
        expect(len(peer.links) == 1 and not peer.links[0].is_closed, "the node closed its connection")


@BOOK.rule(
    "zre-7/hello",
    MUST,
    "A node connects to the address in the HELLO of an unknown peer, and sends its own HELLO.",
)
def _(target: Target) -> None:
    # The peer says goodbye before its mailbox closes.
    with target.stranger() as mailbox, target.stranger() as peer:
        peer.connect()
        peer.say_hello(address=(mailbox.host, mailbox.port))
        mailbox.next(HELLO)


@BOOK.rule(
    "zre-7/beacon-address",
    OBSERVED,
    "A node that knows a peer from its beacon stays at that address when the peer's HELLO names another.",
    seen=ZYRE,
)
def _(target: Target) -> None:
    target.needs_beacons()
    with target.stranger() as peer, target.stranger() as other:
        peer.appear()
        peer.next(HELLO)
        peer.connect()
        peer.say_hello(address=(other.host, other.port))
        peer.barrier()
        expect(not other.is_met(QUIET), "the node connected to the address of the HELLO")


@BOOK.rule("zre-3/any-port", MUST, "A node accepts a peer with a mailbox at a port below 49152.")
def _(target: Target) -> None:
    # The peer says goodbye before its mailbox closes.
    with target.stranger() as mailbox, target.stranger() as peer:
        mailbox.listen_below(49152)
        peer.connect()
        peer.say_hello(address=(mailbox.host, mailbox.port))
        mailbox.next(HELLO)


@BOOK.rule(
    "zre-9.2/endpoint-reachable",
    MUST,
    "The address in the HELLO of a node is one at which its mailbox listens.",
)
def _(target: Target) -> None:
    with target.peer() as peer:
        host, port = peer.hello.address
        numeric = socket.gethostbyname(host)
        target.connection("DEALER", address=(numeric, port)).close()


@BOOK.rule(
    "zre-9.2/endpoint-scheme",
    MUST,
    "The endpoint in a HELLO is tcp:// with the address and the port of the mailbox.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.address[1] == target.address[1], f"endpoint {peer.hello.address}")
