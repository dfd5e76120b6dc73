"""Rules about peers of ZMTP 2.0 and 1.0, which a socket need not support."""

from __future__ import annotations

import struct

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, LIBZMQ, MUST, OBSERVED, SHOULD
from zwire.conformance.zmtp._target import ECHOING, PUBLISHING, TOPIC, Link, Target

# Codes of socket types in the greeting of 2.0.
CODES = {
    "PAIR": 0,
    "PUB": 1,
    "SUB": 2,
    "REQ": 3,
    "REP": 4,
    "DEALER": 5,
    "ROUTER": 6,
    "PULL": 7,
    "PUSH": 8,
    "XPUB": 9,
    "XSUB": 10,
}
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"


def _greet_2_0(target: Target, link: Link, *, identity: bytes = b"") -> tuple[int, int]:
    """Greet as a peer of 2.0; revision and socket type of the target."""
    if target.mechanism != "NULL":
        raise NotApplicable(f"ZMTP 2.0 has no {target.mechanism}")
    link.send(SIGNATURE + bytes([1, CODES[target.fitting]]) + _wire.frame(identity))
    try:
        revision, kind = link.octets(12)[10:]
        link.frame()
    except Deviation:
        raise NotApplicable("the socket does not support ZMTP 2.0") from None
    if revision == 0:
        raise NotApplicable("the socket answers as ZMTP 1.0")
    return revision, kind


def _greet_1_0(target: Target, link: Link, *, identity: bytes = b"") -> None:
    """Greet as a peer of 1.0."""
    if target.mechanism != "NULL":
        raise NotApplicable(f"ZMTP 1.0 has no {target.mechanism}")
    link.send(_old_frame(identity))
    try:
        signature = link.octets(10)
        link.octets(max(0, int.from_bytes(signature[1:9], "big") - 1))
    except Deviation:
        raise NotApplicable("the socket does not support ZMTP 1.0") from None
    if link.is_closed(within=0.1):
        raise NotApplicable("the socket does not support ZMTP 1.0")


def _old_frame(body: bytes, *, more: bool = False) -> bytes:
    size = len(body) + 1
    head = bytes([size]) if size < 255 else struct.pack(">BQ", 255, size)
    return head + bytes([more]) + body


@BOOK.rule(
    "zmtp-13/none-beside-security",
    MUST,
    "A socket with PLAIN or CURVE closes the connections of ZMTP 2.0 and 1.0 peers.",
    roles=("PLAIN", "CURVE"),
)
def _(target: Target) -> None:
    for greeting in (SIGNATURE + b"\1\5\0\0", SIGNATURE + b"\0\0\0", b"\1\0"):
        with target.connect(beside_others=True) as link:
            link.send(greeting + _wire.message(b"", b"no login"))
            expect(link.is_closed(), f"it is open after {greeting.hex(' ')}")


@BOOK.rule(
    "zmtp-13.1/answer",
    OBSERVED,
    "A socket answers revision 1 with its revision, the code of its type, and its identity as a frame.",
    seen=LIBZMQ,
)
def _(target: Target) -> None:
    with target.connect() as link:
        _, kind = _greet_2_0(target, link)
        expect(kind == CODES[target.kind], f"its socket type is {kind}")


@BOOK.rule(
    "zmtp-13.1/messages",
    MUST,
    "A socket that supports ZMTP 2.0 exchanges messages in the frames of 3.x without commands.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_2_0(target, link)
        link.send(target.enveloped(b"by 2.0", b"x" * 300))
        echo = target.opened(link.message())
        expect(echo == [b"by 2.0", b"x" * 300], f"the echo is {echo}")


@BOOK.rule(
    "zmtp-13.1/subscriptions",
    MUST,
    "A publisher that supports ZMTP 2.0 accepts its subscriptions in message form.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_2_0(target, link)
        link.send(_wire.subscribe(TOPIC, as_message=True))
        message = link.message()
        expect(message[0] == TOPIC, f"it sends {message}")


@BOOK.rule(
    "zmtp-13.1/sub-sends-message",
    MUST,
    "A subscriber that supports ZMTP 2.0 sends its subscriptions in message form.",
    roles=("SUB", "XSUB"),
)
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_2_0(target, link)
        message = link.message()
        expect(message == [b"\1" + TOPIC], f"it sends {message}")


@BOOK.rule("zmtp-10/no-heartbeats-to-2-0", MUST, "A socket sends no heartbeats to a ZMTP 2.0 peer.")
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_2_0(target, link)
        commands = [frame for frame in link.frames() if frame.is_command]
        expect(not commands, f"it sends {commands}")


@BOOK.rule(
    "zmtp-13.2/messages",
    SHOULD,
    "A socket that supports ZMTP 1.0 exchanges messages in its frames.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_1_0(target, link)
        envelope = _old_frame(b"", more=True) if target.kind == "REP" else b""
        message = envelope + _old_frame(b"by 1.0", more=True) + _old_frame(b"x" * 300)
        link.send(message)
        echo = link.octets(len(message))
        expect(echo == message, f"the echo begins with {echo[:30].hex(' ')}")


@BOOK.rule(
    "zmtp-13.2/everything-to-1-0",
    OBSERVED,
    "A publisher treats a ZMTP 1.0 subscriber as if it had subscribed to everything.",
    seen=LIBZMQ,
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    with target.connect() as link:
        _greet_1_0(target, link)
        for _ in range(100):
            length, _ = link.octets(2)
            if link.octets(length - 1) == TOPIC:
                return
        expect(False, "100 frames are none of the publications")
