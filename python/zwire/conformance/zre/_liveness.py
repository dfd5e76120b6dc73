"""Rules of silence: PING, and the end of a peer that does not answer (``zre`` 11.7)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zre._book import BOOK, MUST, OBSERVED, SHOULD, ZYRE
from zwire.conformance.zre._wire import PING, PING_OK

if TYPE_CHECKING:
    from zwire.conformance.zre._target import Target

_LONGEST = 10.5
"""Seconds of silence after which every known implementation pings: pyre after ten."""


@BOOK.rule("zre-11.7/ping", SHOULD, "A node pings a peer that has been silent for some seconds.")
def _(target: Target) -> None:
    with target.peer() as peer:
        started = time.monotonic()
        peer.next(PING, _LONGEST + 2)
        expect(time.monotonic() - started > 0.5, "the PING came at once")


@BOOK.rule("zre-11.7/ping-again", SHOULD, "A node pings a silent peer again each second.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.answers_pings = False
        peer.next(PING, _LONGEST + 2)
        first = time.monotonic()
        peer.next(PING, 3)
        expect(0.5 < time.monotonic() - first < 2.5, f"{time.monotonic() - first:.1f} s between two PINGs")


@BOOK.rule(
    "zre-11.7/answered", MUST, "A peer that answers each PING and says nothing else keeps its session."
)
def _(target: Target) -> None:
    limit = _short(target)
    with target.peer() as peer:
        peer.wait(limit + 2)
        expect(not peer.links[0].is_closed and len(peer.links) == 1, "the node closed its connection")
        peer.barrier()


@BOOK.rule("zre-11.7/busy", SHOULD, "A node does not ping a peer that sends a message each half second.")
def _(target: Target) -> None:
    with target.peer() as peer:
        for _ in range(14):
            peer.send(PING_OK)
            try:
                peer.next(PING, 0.5)
            except Deviation:
                continue
            raise Deviation("a PING came")


@BOOK.rule(
    "zre-11.7/expired", SHOULD, "A node closes its connection to a peer that does not answer its PINGs."
)
def _(target: Target) -> None:
    limit = _short(target)
    with target.peer() as peer:
        peer.answers_pings = False
        started = time.monotonic()
        expect(peer.is_ended(peer.links[0], limit + 4), f"the connection is open after {limit + 4:g} s")
        seconds = time.monotonic() - started
        expect(seconds > limit / 2, f"the connection was closed after {seconds:.1f} s, {limit:g} s announced")


@BOOK.rule("zre-11.7/beacons", SHOULD, "A node does not ping a peer while its beacons arrive.")
def _(target: Target) -> None:
    target.needs_beacons()
    with target.peer() as peer:
        for _ in range(14):
            peer.beacon()
            try:
                peer.next(PING, 0.5)
            except Deviation:
                continue
            raise Deviation("a PING came")


@BOOK.rule(
    "zre-11.7/no-hello", OBSERVED, "A node gives up a peer of a beacon that never says HELLO.", seen=ZYRE
)
def _(target: Target) -> None:
    target.needs_beacons()
    limit = _short(target)
    with target.stranger() as peer:
        peer.answers_pings = False
        expect(peer.appear(), "the node did not connect")
        expect(peer.is_ended(peer.links[0], limit + 4), f"the connection is open after {limit + 4:g} s")


def _short(target: Target) -> float:
    if target.expired > 10:
        raise NotApplicable(f"the node removes a peer after {target.expired:g} s")
    return target.expired
