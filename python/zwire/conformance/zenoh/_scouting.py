"""Rules of scouting: SCOUT and HELLO in a multicast group."""

from __future__ import annotations

import functools
import socket
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import PATIENCE, QUIET, fresh_zid
from zwire.conformance.zenoh._probes import MANDATORY, UNKNOWN, flagged

if TYPE_CHECKING:
    from typing import Self

    from zwire.conformance.zenoh._link import Target

ALL = 7
"""Mask of routers, peers and clients."""


class Scout:
    """Socket that sends SCOUT to the group of a target and takes the HELLO of that target."""

    def __init__(self, target: Target) -> None:
        if target.group is None:
            raise NotApplicable("no multicast group was given; the option `scouting` names it")
        self.target: Target = target
        self.group: tuple[str, int] = target.group
        self.stream: socket.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.stream.bind((target.interface, 0))
        at = socket.inet_aton(target.interface)
        self.stream.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def send(self, octets: bytes) -> None:
        """Send a datagram to the group."""
        self.stream.sendto(octets, self.group)

    def hello(self, timeout: float = PATIENCE) -> tuple[wire.Message, tuple[str, int]]:
        """The next HELLO of the target, and where it came from; those of other nodes are read over.

        Raises Deviation if none comes.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                octets, source = self.stream.recvfrom(65536)
            except TimeoutError:
                raise Deviation(f"no HELLO within {timeout:g} s") from None
            message = wire.hello_of(octets)
            if message.zid == self.target.zid:
                return message, source

    def answered(self, octets: bytes) -> wire.Message:
        """Send a datagram, and return the HELLO that answers it."""
        self.send(octets)
        return self.hello()[0]

    @property
    def role(self) -> int:
        """Bit of the target's role in a mask."""
        return {"router": 1, "peer": 2, "client": 4}[next(iter(self.target.roles))]


def _answered(octets: bytes, target: Target) -> None:
    with Scout(target) as scout:
        scout.answered(octets)


for _name, _level, _sentence, _octets in (
    ("all", MUST, "A node answers a SCOUT for all roles by HELLO.", wire.scout(ALL)),
    (
        "with-id",
        MUST,
        "A node answers a SCOUT that names the ZenohID of its sender.",
        wire.scout(ALL, zid=fresh_zid()),
    ),
    ("version", OBSERVED, "A node answers a SCOUT of version 8.", wire.scout(ALL, version=8)),
    ("trailing", OBSERVED, "A node ignores bytes behind a SCOUT.", wire.scout(ALL) + b"\xff\xff"),
    ("reserved", MUST, "A node ignores the reserved bits of a SCOUT.", flagged(wire.scout(ALL), 0x60)),
    ("optional", MUST, "A node skips unknown extensions of a SCOUT.", wire.scout(ALL, exts=UNKNOWN)),
    (
        "mandatory",
        OBSERVED,
        "A node skips unknown extensions of a SCOUT, also mandatory ones.",
        wire.scout(ALL, exts=(MANDATORY,)),
    ),
):
    BOOK.rule(f"zenoh-wire-2.3/{_name}", _level, _sentence, seen=RELEASE if _level is OBSERVED else None)(
        functools.partial(_answered, _octets)
    )


@BOOK.rule("zenoh-wire-2.3/own-role", MUST, "A node answers a SCOUT for its role alone.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        scout.answered(wire.scout(scout.role))


def _silent(scout: Scout, octets: bytes) -> None:
    """Expect no HELLO for a datagram: only the one that asks for more answers within the time."""
    scout.send(octets)
    try:
        scout.hello(QUIET)
    except Deviation:
        scout.answered(wire.scout(ALL))
        return
    raise Deviation(f"HELLO for {octets.hex()}")


@BOOK.rule("zenoh-wire-2.3/other-roles", MUST, "A node does not answer a SCOUT for other roles than its own.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        _silent(scout, wire.scout(ALL & ~scout.role))


@BOOK.rule("zenoh-wire-2.3/no-role", MUST, "A node does not answer a SCOUT for no role.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        _silent(scout, wire.scout(0))


@BOOK.rule("zenoh-wire-2.1/truncated", SHOULD, "A node ignores a SCOUT that ends within its header.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        _silent(scout, wire.scout(ALL)[:2])


@BOOK.rule("zenoh-wire-2.1/unknown-message", SHOULD, "A node ignores an unknown message of scouting.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        _silent(scout, b"\x1f\x09\x07")


@BOOK.rule(
    "zenoh-wire-2.3/unicast",
    MUST,
    "A node sends HELLO to the address of the SCOUT, from another port than the group's.",
)
def _(target: Target) -> None:
    with Scout(target) as scout:
        scout.send(wire.scout(ALL))
        _, source = scout.hello()
        expect(source[1] != scout.group[1], f"HELLO from port {source[1]}")


@BOOK.rule("zenoh-wire-2.2/version", MUST, "A HELLO carries version 0x09.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        version = scout.answered(wire.scout(ALL)).version
        expect(version == 9, f"version {version}")


@BOOK.rule("zenoh-wire-2.2/role", MUST, "A HELLO names the role that the INIT ACK of its node names.")
def _(target: Target) -> None:
    with Scout(target) as scout, target.link() as link:
        role = scout.answered(wire.scout(ALL)).role
        expect(role == link.init_ack.role, f"role {role}, in INIT ACK {link.init_ack.role}")


@BOOK.rule("zenoh-wire-2.2/reserved", MUST, "A HELLO has 0 in its reserved bits.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        hello = scout.answered(wire.scout(ALL))
        expect(not hello.flags & 0x40, f"flags {hello.flags:#04x}")


@BOOK.rule("zenoh-wire-2.3/locators", MUST, "A HELLO has locators.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        hello = scout.answered(wire.scout(ALL))
        expect(hello.locators, "a HELLO without locators")


@BOOK.rule("zenoh-wire-1.10/locator", MUST, "A HELLO has locators of the form protocol/address, without `#`.")
def _(target: Target) -> None:
    with Scout(target) as scout:
        found = scout.answered(wire.scout(ALL)).locators
        wrong = [each for each in found if "#" in each or "/" not in each or len(each) > 255]
        expect(not wrong, f"locators {wrong}")


@BOOK.rule(
    "zenoh-behaviour-1.6/locator-of-link",
    MUST,
    "A HELLO to the host of its node names the port at which it listens.",
)
def _(target: Target) -> None:
    with Scout(target) as scout:
        found = scout.answered(wire.scout(ALL)).locators
        expect(any(each.endswith(f":{target.address[1]}") for each in found), f"locators {found}")


for _name, _sentence in (
    (
        "scout-period",
        "A node that looks for others sends SCOUT after 1, 2, 4 and 8 seconds, and then every 8 seconds.",
    ),
    ("no-locators", "A node that looks for others ignores a HELLO without locators."),
):
    BOOK.unreachable(
        f"zenoh-wire-2.3/{_name}",
        SHOULD,
        _sentence,
        "the suite cannot make a node look for others",
    )
