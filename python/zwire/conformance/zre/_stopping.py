"""Rules of the end of a node (``zre`` 5.2, 11.8); their checks are the last ones, and end it."""

from __future__ import annotations

import time

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import MUST, SHOULD, alone
from zwire.conformance.zre._target import FIRST_BEACON, Target


@alone("zre-5.2/goodbye", MUST, "A node that stops sends its beacon with port 0.")
def _(target: Target) -> None:
    target.needs_beacons()
    uuid, started = target.uuid, time.monotonic()
    target.end()
    goodbye = wire.beacon(uuid, 0)
    seen = target.heard(lambda beacon: beacon.time > started and beacon.octets == goodbye)
    expect(seen, f"no beacon with port 0 within {FIRST_BEACON:g} s")


@alone("zre-11.8/closes", SHOULD, "A node that stops closes its connections to its peers.")
def _(target: Target) -> None:
    with target.peer() as peer:
        target.end()
        expect(peer.is_ended(peer.links[0]), "the connection stays open")
