"""Rules of the beacons that a node sends (``zre`` 5.1, 5.2)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zre._book import BOOK, MUST, SHOULD

if TYPE_CHECKING:
    from zwire.conformance.zre._target import HeardBeacon, Target


def _first(target: Target) -> HeardBeacon:
    return target.own_beacons()[0]


@BOOK.rule("zre-5.1/size", MUST, "A beacon without a key has 22 octets.")
def _(target: Target) -> None:
    octets = _first(target).octets
    expect(len(octets) == 22, f"{len(octets)} octets: {octets.hex()}")


@BOOK.rule("zre-5.1/header", MUST, "A beacon without a key begins with the letters ZRE and the version 1.")
def _(target: Target) -> None:
    octets = _first(target).octets
    expect(octets[:4] == b"ZRE\x01", f"beacon {octets.hex()}")


@BOOK.rule("zre-5.1/uuid", MUST, "Octets 4 to 19 of a beacon are the UUID that identifies the node's DEALER.")
def _(target: Target) -> None:
    octets = _first(target).octets
    expect(octets[4:20] == target.uuid, f"beacon {octets.hex()}, DEALER of {target.uuid.hex()}")


@BOOK.rule("zre-5.1/port", MUST, "Octets 20 and 21 of a beacon are the port of the mailbox in network order.")
def _(target: Target) -> None:
    beacon = _first(target)
    port = int.from_bytes(beacon.octets[20:22], "big")
    target.connection("DEALER", address=(beacon.source, port)).close()
    expect(port == target.address[1], f"port {port} in the beacon, mailbox at {target.address[1]}")


@BOOK.rule("zre-5.2/interval", SHOULD, "A node sends a beacon each second.")
def _(target: Target) -> None:
    times = [beacon.time for beacon in target.own_beacons(4, 6.0)]
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    expect(len(gaps) > 2 and 0.7 < gaps[len(gaps) // 2] < 1.3, f"seconds between beacons: {gaps}")


@BOOK.rule("zre-5.1/same", MUST, "A node sends the same UUID and port in all its beacons.")
def _(target: Target) -> None:
    seen = {beacon.octets for beacon in target.own_beacons(3, 6.0)}
    expect(len(seen) == 1, f"beacons {sorted(octets.hex() for octets in seen)}")


@BOOK.rule("zre-5.2/source", MUST, "A node sends its beacons from the address at which its mailbox listens.")
def _(target: Target) -> None:
    source = _first(target).source
    with target.peer() as peer:
        expect(peer.hello.address[0] == source, f"beacons from {source}, HELLO with {peer.hello.address}")


@BOOK.rule(
    "zre-5.2/broadcast",
    SHOULD,
    "A node sends its beacons to the broadcast address of the interface's subnet.",
)
def _(target: Target) -> None:
    destinations = {beacon.destination for beacon in target.own_beacons(3, 6.0)}
    expect(target.broadcast in destinations, f"beacons to {sorted(destinations)}, not {target.broadcast}")


BOOK.unreachable(
    "zre-5.1/keyed",
    MUST,
    "A node with CURVE keys sends beacons of version 3 with its public key in 54 octets.",
    "CURVE needs Curve25519, which the standard library does not have",
)
BOOK.unreachable(
    "zre-14/header",
    MUST,
    "A node with CURVE keys announces its public key in the header X-PUBLICKEY.",
    "CURVE needs Curve25519, which the standard library does not have",
)
BOOK.unreachable(
    "zre-14/plain-ignored",
    MUST,
    "A node with CURVE keys ignores a HELLO without X-PUBLICKEY.",
    "CURVE needs Curve25519, which the standard library does not have",
)
