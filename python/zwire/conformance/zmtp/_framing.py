"""Rules about frames."""

from __future__ import annotations

import struct

from zwire.conformance._rules import expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, MUST, SHOULD
from zwire.conformance.zmtp._target import ECHOING, TOPIC, Link, Target


def _echoes(target: Target, *frames: bytes) -> None:
    with target.link() as link:
        echo = link.roundtrip(*frames)
        expect(echo == list(frames), f"the echo of {_short(frames)} is {_short(echo)}")


def _short(frames: list[bytes] | tuple[bytes, ...]) -> str:
    return f"{len(frames)} frames of {[len(frame) for frame in frames[:5]]} octets from {frames[0][:20]!r}"


def _echo_as_it_is(target: Target, link: Link, body: bytes) -> bytes:
    """Octets of the frame with which the target echoes a body."""
    link.settle()
    link.send(target.enveloped(body))
    if target.kind == "REP":
        link.frame()
    head = link.octets(9)
    size = int.from_bytes(head[1:], "big") if head[0] & _wire.LONG else head[1] - 7
    return head + link.octets(size)


@BOOK.rule("zmtp-4/short-form", SHOULD, "A sender gives a frame of 255 octets the short form.", roles=ECHOING)
def _(target: Target) -> None:
    with target.link() as link:
        octets = _echo_as_it_is(target, link, b"s" * 255)
        expect(octets == b"\0\xff" + b"s" * 255, f"the frame begins with {octets[:12].hex(' ')}")


@BOOK.rule(
    "zmtp-4/long-form",
    MUST,
    "A sender gives a frame of 256 octets the long form: the flag LONG and a size of eight octets.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.link() as link:
        octets = _echo_as_it_is(target, link, b"l" * 256)
        head = b"\2\0\0\0\0\0\0\1\0"
        expect(octets == head + b"l" * 256, f"the frame begins with {octets[:12].hex(' ')}")


@BOOK.rule(
    "zmtp-4/long-form-of-short",
    MUST,
    "A receiver accepts the long form of a message for any size.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.link() as link:
        for body in (b"", b"short", b"x" * 255):
            envelope = target.enveloped(body)[: -len(_wire.frame(body))]
            link.send(envelope + _wire.frame(body, long=True))
            echo = target.opened(link.message())
            expect(echo == [body], f"the echo of {body[:10]!r} in the long form is {echo}")


@BOOK.rule("zmtp-4/long-form-of-command", MUST, "A receiver accepts the long form of a command for any size.")
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        link.send(_wire.command(b"PING", b"\0\0long", long=True))
        link.until(b"\4PONGlong")


@BOOK.rule("zmtp-4/long-form-of-ready", MUST, "A receiver accepts the long form of the handshake's commands.")
def _(target: Target) -> None:
    with target.greeted() as link:
        link.send(target.announcement(target.typed(), long=True))
        link.ready()
        link.alive()


@BOOK.rule(
    "zmtp-4/empty-frame",
    MUST,
    "A receiver delivers a message of one empty frame.",
    roles=("ROUTER", "DEALER", "REP"),
)
def _(target: Target) -> None:
    _echoes(target, b"")


@BOOK.rule(
    "zmtp-4/empty-frames-anywhere", MUST, "A receiver keeps empty frames within a message.", roles=ECHOING
)
def _(target: Target) -> None:
    _echoes(target, b"", b"a", b"", b"", b"b", b"")


@BOOK.rule("zmtp-4/all-octets", MUST, "A receiver delivers the octets of a frame unchanged.", roles=ECHOING)
def _(target: Target) -> None:
    _echoes(target, bytes(range(256)), bytes(reversed(range(255))))


@BOOK.rule(
    "zmtp-4/many-frames", MUST, "A message keeps the number and the order of its frames.", roles=ECHOING
)
def _(target: Target) -> None:
    _echoes(target, *(b"%d" % number for number in range(500)))


@BOOK.rule("zmtp-4/large-frame", MUST, "A receiver delivers a frame of a mebibyte.", roles=ECHOING)
def _(target: Target) -> None:
    _echoes(target, struct.pack(">262144I", *range(262144)))


@BOOK.rule(
    "zmtp-4/frame-by-octets", MUST, "A receiver accepts frames in segments of any size.", roles=ECHOING
)
def _(target: Target) -> None:
    with target.link() as link:
        token = target.token()
        octets = target.enveloped(token, b"x" * 300)
        link.send(*(octets[at : at + 1] for at in range(30)), octets[30:])
        echo = target.opened(link.message())
        expect(echo == [token, b"x" * 300], f"the echo is {_short(echo)}")


@BOOK.rule(
    "zmtp-4/many-in-one-segment",
    MUST,
    "A receiver takes all messages of one segment, in their order.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.settle()
        sent = [b"number %d" % number for number in range(100)]
        link.send(b"".join(target.enveloped(body) for body in sent))
        got = [target.opened(link.message())[0] for _ in sent]
        expect(got == sent, f"the echoes are {got[:5]}, and {len(got)} in all")


@BOOK.rule(
    "zmtp-4/flags-sent",
    MUST,
    "A sender uses the flags 00, 01, 02 and 03 for messages, and 04 and 06 for commands.",
)
def _(target: Target) -> None:
    with target.connect() as link:
        link.greet()
        link.login()
        link.announce(target.typed())
        seen = [link.ready()]
        if target.kind in ECHOING:
            link.send(target.enveloped(b"1", b"2" * 300, b"3"))
        if target.kind in ("PUB", "XPUB"):
            link.send(_wire.subscribe(TOPIC, as_message=target.minor == 0))
        seen += link.frames()
        if target.minor:
            seen += link.alive()
        wrong = [frame for frame in seen if frame.flags & 0xF8 or (frame.is_command and frame.more)]
        expect(not wrong, f"it sends {wrong}")


@BOOK.rule(
    "zmtp-4/delivered-whole",
    MUST,
    "A receiver delivers a message when its last frame is there, and nothing of it before.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.settle()
        octets = target.enveloped(b"first", b"last")
        link.send(octets[:-6])
        early = link.frames()
        expect(not early, f"half a message is echoed: {early}")
        link.send(octets[-6:])
        echo = target.opened(link.message())
        expect(echo == [b"first", b"last"], f"the echo is {echo}")


@BOOK.rule(
    "zmtp-4/broken-message-dropped",
    MUST,
    "A receiver drops the frames of a message of which the last has not come when the connection breaks.",
    roles=("DEALER",),
)
def _(target: Target) -> None:
    with target.link() as other:
        with target.link() as broken:
            broken.send(_wire.frame(b"left over", flags=_wire.MORE))
            broken.alive()
        messages = [message for _ in range(4) for message in other.settle()]
        expect(not messages, f"{messages} is delivered")


@BOOK.rule(
    "zmtp-4/command-between-frames",
    SHOULD,
    "A receiver accepts a PING between two frames of a message, and delivers the message intact.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.alive()
        octets = target.enveloped(b"first", b"last")
        link.send(octets[:-6] + _wire.ping(b"between") + octets[-6:])
        got = [frame.body for frame in link.until(b"\4PONGbetween") if not frame.is_command]
        got += link.message() if not got else []
        expect(target.opened(got) == [b"first", b"last"], f"the echo is {got}")


def _closes_on_size(target: Target, size: int) -> None:
    with target.link() as link:
        link.send(struct.pack(">BQ", _wire.LONG, size) + b"the begin of it")
        link.ends()


@BOOK.rule("zmtp-4/size-all-ones", MUST, "A receiver closes the connection on a frame of 2^64-1 octets.")
def _(target: Target) -> None:
    _closes_on_size(target, (1 << 64) - 1)


@BOOK.rule("zmtp-4/size-above-63-bits", MUST, "A receiver closes the connection on a frame of 2^63 octets.")
def _(target: Target) -> None:
    _closes_on_size(target, 1 << 63)


@BOOK.rule("zmtp-4/size-terabyte", SHOULD, "A receiver closes the connection on a frame of 2^40 octets.")
def _(target: Target) -> None:
    _closes_on_size(target, 1 << 40)


@BOOK.rule(
    "zmtp-14/reserved-flags",
    SHOULD,
    "A receiver delivers a frame with reserved flag bits intact, or closes the connection.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    for flag in (0x08, 0x40, 0x80):
        with target.link() as link:
            token = target.token()
            envelope = target.enveloped(token)[: -len(_wire.frame(token))]
            link.send(envelope + _wire.frame(token, flags=flag))
            got = link.settle(may_end=True)
            expect(got in ([], [[token]]), f"a frame with the flags {flag:02X} is delivered as {got}")


@BOOK.rule(
    "zmtp-14/command-with-more",
    SHOULD,
    "A receiver delivers no command that has the flag MORE.",
    roles=ECHOING,
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.link() as link:
        link.send(_wire.command(b"STRANGE", b"x", flags=_wire.COMMAND | _wire.MORE))
        got = link.settle(may_end=True)
        expect(not got, f"it is delivered as {got}")
