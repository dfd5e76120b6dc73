"""Rules about errors of peers, silence and the end of connections."""

from __future__ import annotations

import struct
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, LIBZMQ, MUST, OBSERVED, SHOULD
from zwire.conformance.zmtp._target import QUIET, Link, Target

if TYPE_CHECKING:
    from collections.abc import Callable

LATE = 2.0
"""Seconds by which a timer of the target may be late."""


def _given_up(target: Target, link: Link, begun: float) -> None:
    """See that the target closes in time; its timer runs from ``begun``, the time before the connection."""
    started = time.monotonic()
    closed = link.is_closed(within=target.handshake_timeout + LATE)
    passed = time.monotonic() - started
    expect(closed, f"it is open after {passed:.2f} s, its timer is {target.handshake_timeout} s")
    early = target.handshake_timeout * 0.8 - 0.1
    passed = time.monotonic() - begun
    expect(passed >= early, f"it closes after {passed:.2f} s, its timer is {target.handshake_timeout} s")


def _costs_one_connection(target: Target, misbehave: Callable[[Link], None]) -> None:
    """See that others are served while and after peers misbehave, in the middle of their messages."""
    with target.link() as healthy:
        for _ in range(3):
            half = target.enveloped(b"first", b"last") if target.kind in ("REP", "ROUTER") else b""
            healthy.send(half[:-6])
            with target.connect(beside_others=True) as rude:
                misbehave(rude)
            healthy.send(half[-6:])
            if half:
                echo = target.opened(healthy.message())
                expect(echo == [b"first", b"last"], f"another peer gets the echo {echo}")
            healthy.alive()
    with target.link() as newcomer:
        newcomer.alive()


@BOOK.rule(
    "zmtp-2/silent", SHOULD, "A socket closes a connection without any input after its handshake timer."
)
def _(target: Target) -> None:
    begun = time.monotonic()
    with target.connect(beside_others=True) as link:
        link.octets(10)
        _given_up(target, link, begun)


@BOOK.rule(
    "zmtp-2/silent-after-greeting",
    SHOULD,
    "A socket closes a connection without metadata after its handshake timer.",
)
def _(target: Target) -> None:
    begun = time.monotonic()
    with target.connect(beside_others=True) as link:
        link.greet()
        _given_up(target, link, begun)


@BOOK.rule(
    "zmtp-2/slow-handshake",
    SHOULD,
    "A socket measures the handshake from its begin, also when its peer sends an octet now and then.",
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.greet()
        started = time.monotonic()
        link.send(struct.pack(">BQ", _wire.COMMAND | _wire.LONG, 1000))
        while time.monotonic() < started + target.handshake_timeout + LATE:
            link.send(b"\5")
            if link.is_closed(within=target.handshake_timeout / 10):
                return
        expect(False, f"it is open {LATE} s after its timer of {target.handshake_timeout} s")


@BOOK.rule(
    "zmtp-11/no-timer-after",
    MUST,
    "A socket keeps a silent connection after the handshake, beyond its handshake timer.",
)
def _(target: Target) -> None:
    if target.handshake_timeout > 3:
        raise NotApplicable("the timer of the target is above 3 s")
    if target.kind == "DEALER":
        raise NotApplicable("a DEALER would send echoes of other checks to the silent connection")
    with target.link() as link:
        link.frames(within=target.handshake_timeout + 2 * QUIET)
        link.alive()


@BOOK.rule("zmtp-11/end-of-peer", MUST, "A socket closes a connection that its peer has closed.")
def _(target: Target) -> None:
    with target.link() as link:
        link.finish()
        link.ends()


@BOOK.rule(
    "zmtp-11/end-within-greeting",
    MUST,
    "A socket closes a connection that its peer closes within the greeting.",
)
def _(target: Target) -> None:
    for part in (0, 5, 10, 12, 63):
        with target.connect() as link:
            link.send(_wire.greeting(target.mechanism)[:part])
            link.finish()
            expect(link.is_closed(), f"it is open after {part} octets and a FIN")


@BOOK.rule(
    "zmtp-14/size-costs-one", MUST, "A peer that sends an impossible size costs its own connection alone."
)
def _(target: Target) -> None:
    def misbehave(rude: Link) -> None:
        rude.greet()
        rude.login()
        rude.announce(target.typed())
        rude.send(b"\2" + b"\xff" * 8)
        rude.ends()

    _costs_one_connection(target, misbehave)


@BOOK.rule(
    "zmtp-14/metadata-costs-one", MUST, "A peer that sends malformed metadata costs its own connection alone."
)
def _(target: Target) -> None:
    def misbehave(rude: Link) -> None:
        rude.greet()
        rude.login()
        rude.announce(target.typed()[:-1])
        rude.ends()

    _costs_one_connection(target, misbehave)


@BOOK.rule(
    "zmtp-14/mechanism-costs-one", MUST, "A peer with another mechanism costs its own connection alone."
)
def _(target: Target) -> None:
    def misbehave(rude: Link) -> None:
        rude.send(_wire.greeting("OTHER"))
        expect(rude.is_closed(), "the connection is still open")

    _costs_one_connection(target, misbehave)


@BOOK.rule(
    "zmtp-14/text-costs-one",
    MUST,
    "A peer that sends an HTTP request or other text costs its own connection alone.",
)
def _(target: Target) -> None:
    def misbehave(rude: Link) -> None:
        rude.send(b"GET / HTTP/1.1\r\nHost: conformance\r\n\r\n" * 4)
        rude.is_closed(within=QUIET / 3)

    _costs_one_connection(target, misbehave)


@BOOK.rule("zmtp-14/zeros-cost-one", MUST, "A peer that sends zeros costs its own connection alone.")
def _(target: Target) -> None:
    def misbehave(rude: Link) -> None:
        rude.send(bytes(10_000))
        rude.is_closed(within=QUIET / 3)

    _costs_one_connection(target, misbehave)


@BOOK.rule(
    "zmtp-11/reset-costs-one",
    MUST,
    "A peer that resets its connection at any point costs its own connection alone.",
)
def _(target: Target) -> None:
    points = iter((0, 1, 2))

    def misbehave(rude: Link) -> None:
        point = next(points)
        if point:
            rude.greet()
        if point == 2:
            rude.login()
            rude.announce(target.typed())
            rude.ready()
            rude.send(_wire.frame(b"half", flags=_wire.MORE))
        rude.reset()

    _costs_one_connection(target, misbehave)


@BOOK.rule(
    "zmtp-14/silence-costs-one",
    MUST,
    "Peers that connect and send nothing keep no other peer from being served.",
)
def _(target: Target) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(target.connect(beside_others=True))
        with target.link() as link:
            link.alive()


@BOOK.rule(
    "zmtp-13.2/length-zero",
    OBSERVED,
    "A socket closes on a first octet of zero: the length of a ZMTP 1.0 frame counts its flags.",
    seen=LIBZMQ,
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.send(bytes(96))
        expect(link.is_closed(), "it is open after 96 zeros")


BOOK.unreachable(
    "zmtp-11/reconnect",
    MUST,
    "A connecting socket connects again after its peer has closed.",
    "The suite judges sockets that listen.",
)
BOOK.unreachable(
    "zmtp-11/no-retry-after-error",
    SHOULD,
    "A connecting socket does not retry with the same credentials after an ERROR.",
    "The suite judges sockets that listen.",
)
BOOK.unreachable(
    "zmtp-7/zap-request",
    SHOULD,
    "A socket asks its authenticator with the fields of ZAP.",
    "ZAP runs within the process of the target.",
)
