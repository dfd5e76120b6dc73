"""Rules of OAM and link state from clients and peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    LINK_STATE,
    Record,
    link_state,
    records_of,
)
from zwire.conformance.zenoh._wire import (
    PEER,
)

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target
    from zwire.conformance.zenoh._wire import Message

ROUTER = ("router",)


@BOOK.rule("zenoh-wire-4.9/unknown-oam", MUST, "A receiver ignores an OAM of an unknown id.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send(wire.oam(4711, b"unknown", wire.qos(wire.CONTROL, block=True)))
        link.send(wire.oam(4711, None))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-4.9/link-state-of-client", MUST, "A node keeps the link of a client that sends link state."
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(link_state(Record(0, 1, link.zid, 4)))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-4.9/link-state-of-peer",
    MUST,
    "A router takes link state of a peer: an empty list, its own record, those of others and repeated ones.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    with target.link(role=PEER) as peer:
        own = Record(0, 1, peer.zid, 2, ["tcp/127.0.0.1:9"], [1])
        other = Record(1, 1, bytes(15) + b"\x07", 2)
        for records in ((), (own,), (own, other), (own,), (Record(0, 2, links=[1]),)):
            peer.send(link_state(*records))
        expect(peer.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-1.7/gossip",
    SHOULD,
    "A router tells a peer the ZenohID and the locators of another peer that has sent them in link state.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    locator = "tcp/127.0.0.1:9"
    with target.link(role=PEER) as one, target.link(role=PEER) as two:
        two.send(link_state(Record(0, 1, two.zid, 2, [locator])), priority=wire.CONTROL)

        def told(message: Message) -> bool:
            found = records_of(message.payload) if (message.kind, message.id) == ("OAM", LINK_STATE) else []
            return any(record.zid == two.zid and locator in record.locators for record in found)

        one.until(told)


BOOK.unreachable(
    "zenoh-behaviour-1.7/gossip-connects",
    SHOULD,
    "A peer connects to a node that gossip tells of.",
    "the suite dials the node; it does not listen for nodes",
)


# The last two: a router of eclipse-zenoh 1.0.0 serves no link any more after them.


@BOOK.rule(
    "zenoh-wire-4.9/malformed-link-state-of-client",
    MUST,
    "A node ignores malformed link state of a client.",
    alone=True,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(wire.oam(LINK_STATE, b"\xff\xff"))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-2.12/malformed-link-state",
    OBSERVED,
    "A router closes the link of a peer that sends malformed link state.",
    seen=RELEASE,
    roles=ROUTER,
    alone=True,
)
def _(target: Target) -> None:
    with target.link(role=PEER) as link:
        link.send(wire.oam(LINK_STATE, b"\x01\x03\x00"))
        expect(link.closed(), "the node did not close the link")
