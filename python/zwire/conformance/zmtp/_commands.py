"""Rules about commands, and about heartbeats."""

from __future__ import annotations

import time

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, LIBZMQ, MUST, OBSERVED, SHOULD
from zwire.conformance.zmtp._target import ECHOING, QUIET, WAIT, Target


def _ignored(target: Target, octets: bytes) -> None:
    """See that octets of a peer have no effect: no answer, no delivery, no end."""
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(octets)
        own = (b"PING", b"SUBSCRIBE", b"CANCEL")
        answers = [frame for frame in link.alive() if frame.is_command and frame.name not in own]
        expect(not answers, f"it answers {answers}")
        if target.kind in ECHOING:
            got = link.settle()
            expect(not got, f"it delivers {got}")


def _dropped(target: Target, octets: bytes) -> None:
    """See that octets of a peer are not delivered; the target may close."""
    target.needs_commands()
    with target.link() as link:
        link.send(octets)
        got = link.settle(may_end=True)
        expect(not got, f"it delivers {got}")


def _fatal(target: Target, octets: bytes) -> None:
    """See that octets in the place of the metadata end the connection."""
    with target.greeted() as link:
        link.send(octets)
        link.ends()


@BOOK.rule(
    "zmtp-5/name-length", MUST, "The body of a command begins with the length of its name in one octet."
)
def _(target: Target) -> None:
    with target.greeted() as link:
        link.announce(target.typed())
        ready = link.ready()
        expect(ready.body.startswith(b"\5READY"), f"the body is {ready}")


@BOOK.rule("zmtp-5/flag-of-handshake", MUST, "A socket sends READY as a command frame.")
def _(target: Target) -> None:
    with target.greeted() as link:
        link.announce(target.typed())
        ready = link.frame()
        expect(ready.flags in (4, 6), f"it sends {ready}")


@BOOK.rule("zmtp-5/unknown-ignored", MUST, "A receiver ignores an unknown command in traffic.")
def _(target: Target) -> None:
    _ignored(target, _wire.command(b"X-CONFORMANCE", b"data") + _wire.command(b"z" * 255, b"y" * 1000))


@BOOK.rule(
    "zmtp-5/case-of-names", MUST, "A receiver takes a command name in another case for an unknown command."
)
def _(target: Target) -> None:
    _ignored(target, _wire.command(b"ping", b"\0\0lower") + _wire.command(b"Ping", b"\0\0mixed"))


@BOOK.rule(
    "zmtp-14/second-ready", SHOULD, "A receiver ignores a second READY after the handshake.", roles=("NULL",)
)
def _(target: Target) -> None:
    _ignored(target, target.announcement(target.typed()))


@BOOK.rule("zmtp-14/empty-command", SHOULD, "A receiver delivers no empty command.", roles=ECHOING)
def _(target: Target) -> None:
    _dropped(target, _wire.frame(b"", flags=_wire.COMMAND))


@BOOK.rule(
    "zmtp-14/name-beyond-body",
    SHOULD,
    "A receiver delivers no command that has a name length beyond its body.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    _dropped(target, _wire.frame(b"\xffshort", flags=_wire.COMMAND))


@BOOK.rule("zmtp-5/unknown-in-handshake", MUST, "A socket closes on an unknown command in the handshake.")
def _(target: Target) -> None:
    _fatal(target, _wire.command(b"X-CONFORMANCE", target.typed()))


@BOOK.rule("zmtp-14/ping-before-ready", MUST, "A socket closes on a PING before its sender's READY.")
def _(target: Target) -> None:
    _fatal(target, _wire.ping(b"early"))


@BOOK.rule("zmtp-14/message-before-ready", MUST, "A socket closes on a message before its sender's READY.")
def _(target: Target) -> None:
    _fatal(target, _wire.message(b"", b"early"))


@BOOK.rule(
    "zmtp-5/subscribe-in-handshake",
    MUST,
    "A publisher closes on a SUBSCRIBE in the handshake.",
    roles=("PUB", "XPUB"),
)
def _(target: Target) -> None:
    _fatal(target, _wire.subscribe(b""))


@BOOK.rule("zmtp-14/error-in-handshake", MUST, "A socket closes on an ERROR in the handshake.")
def _(target: Target) -> None:
    _fatal(target, _wire.command(b"ERROR", b"\3400"))


@BOOK.rule(
    "zmtp-14/truncated-error",
    MUST,
    "A socket closes on an ERROR in the handshake of which the reason is cut off.",
)
def _(target: Target) -> None:
    _fatal(target, _wire.command(b"ERROR", b"\x40400"))
    _fatal(target, _wire.command(b"ERROR"))


@BOOK.rule("zmtp-10/pong", MUST, "A receiver answers every PING with a PONG that has the same context.")
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        for context in (b"a", b"abcd", b"PING", bytes(5)):
            link.send(_wire.ping(context))
            link.until(b"\4PONG" + context)


@BOOK.rule(
    "zmtp-10/pong-without-context",
    MUST,
    "A receiver answers a PING without a context with a PONG without one.",
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.ping())
        link.until(b"\4PONG")


@BOOK.rule(
    "zmtp-10/longest-context", MUST, "A receiver answers a PING with a context of 16 octets with all of it."
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.ping(b"0123456789abcdef"))
        link.until(b"\4PONG0123456789abcdef")


@BOOK.rule(
    "zmtp-10/many-pings", MUST, "A receiver answers each of several PINGs in one segment, in their order."
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        contexts = [b"%d" % number for number in range(5)]
        link.send(b"".join(_wire.ping(context) for context in contexts))
        seen = link.until(b"\4PONG4")
        pongs = [frame.data for frame in seen if frame.name == b"PONG"]
        expect(pongs == contexts[:4], f"before the last PONG come those with {pongs}")


@BOOK.rule(
    "zmtp-10/context-too-long",
    OBSERVED,
    "A receiver truncates a context above 16 octets to 16 in the PONG.",
    seen=LIBZMQ,
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.ping(b"0123456789abcdefghij"))
        link.until(b"\4PONG0123456789abcdef")


@BOOK.rule(
    "zmtp-10/ping-without-ttl",
    SHOULD,
    "A receiver answers a PING without TTL with nothing that the sender has not sent.",
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.command(b"PING"))
        pongs = [frame for frame in link.available_frames() if frame.name == b"PONG" and frame.data]
        expect(not pongs, f"it answers {pongs}")


@BOOK.rule("zmtp-10/unsolicited-pong", MUST, "A receiver ignores a PONG that nothing has asked for.")
def _(target: Target) -> None:
    _ignored(target, _wire.command(b"PONG", b"unasked"))


@BOOK.rule(
    "zmtp-10/ttl-zero", MUST, "A receiver takes a TTL of 0 for none, and keeps the connection in silence."
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.frames(within=2 * QUIET)
        link.alive()


@BOOK.rule(
    "zmtp-10/ttl", SHOULD, "A receiver drops a peer of which nothing has arrived for the TTL of its PING."
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.ping(b"ttl", ttl=3))
        started = time.monotonic()
        link.ends(within=WAIT)
        passed = time.monotonic() - started
        expect(passed >= 0.25, f"it closes {passed:.2f} s after a PING with a TTL of 0.3 s")


@BOOK.rule(
    "zmtp-10/traffic-is-life",
    MUST,
    "A receiver takes any traffic for a sign of life, so that no TTL expires.",
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        # A second: on a busy machine a pause may take half of that.
        link.send(_wire.ping(b"ttl", ttl=10))
        for _ in range(8):
            link.frames(within=0.15)
            link.send(_wire.command(b"X-LIFE"))
        link.alive()


@BOOK.rule("zmtp-10/long-ttl", SHOULD, "A receiver counts a TTL above 65.5 s as long as it is.")
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.ping(b"ttl", ttl=656))
        link.frames(within=2 * QUIET)
        link.alive()


@BOOK.rule(
    "zmtp-5/join-and-leave",
    MUST,
    "A socket that is no RADIO ignores JOIN and LEAVE, as commands unknown to it.",
)
def _(target: Target) -> None:
    if target.kind in ("RADIO", "DISH"):
        raise NotApplicable(f"a {target.kind} knows these commands")
    _ignored(target, _wire.command(b"JOIN", b"group") + _wire.command(b"LEAVE", b"group"))
