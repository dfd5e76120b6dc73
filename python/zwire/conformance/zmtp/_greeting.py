"""Rules about the greeting and the negotiation of versions."""

from __future__ import annotations

from zwire.conformance._rules import expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, MUST, SHOULD
from zwire.conformance.zmtp._target import QUIET, Link, Target


def _greeted(target: Target) -> _wire.Greeting:
    with target.connect() as link:
        return link.greet()


def _served(target: Target, link: Link, greeting: bytes) -> None:
    """Make a handshake with a greeting, and see that the connection is served."""
    link.greet(greeting)
    link.login()
    link.announce(target.typed())
    link.ready()
    link.alive()


def _refuses(target: Target, greeting: bytes) -> None:
    """See that the target closes on a greeting, of which it has got enough to send its own whole."""
    with target.connect() as link:
        link.greet(greeting[:11])
        link.send(greeting[11:])
        seen = [frame for frame in link.ends() if frame.name != b"ERROR"]
        expect(not seen, f"it goes on with {seen}")


@BOOK.rule(
    "zmtp-2/greets-first",
    MUST,
    "A socket sends at least the ten octets of its signature before it has received any octet.",
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        signature = link.octets(10)
        expect(signature[0] == 0xFF and signature[9] & 1, f"it sent {signature.hex(' ')}")


@BOOK.rule(
    "zmtp-3.3/whole-after-eleven",
    MUST,
    "A socket that has received the first 11 octets of a greeting of version 3 sends the whole of its own.",
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.greet(_wire.greeting()[:11])


@BOOK.rule(
    "zmtp-3.3/version-after-ten",
    MUST,
    "A socket that has received the ten octets of a signature sends its major version.",
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.send(_wire.greeting()[:10])
        expect(link.octets(11)[10] >= 3, "its eleventh octet is below 3")


@BOOK.rule(
    "zmtp-3.1/signature-sent", MUST, "A greeting begins with the octet FF and has 7F as its tenth octet."
)
def _(target: Target) -> None:
    signature = _greeted(target).signature
    expect((signature[0], signature[9]) == (0xFF, 0x7F), f"the signature is {signature.hex(' ')}")


@BOOK.rule(
    "zmtp-3.1/padding-sent",
    SHOULD,
    "A sender fills octets 1 to 8 of its greeting with zeros, or with the length of its identity plus 1.",
)
def _(target: Target) -> None:
    padding = _greeted(target).signature[1:9]
    expect(int.from_bytes(padding, "big") <= 256, f"the padding is {padding.hex(' ')}")


@BOOK.rule("zmtp-3.1/major-sent", MUST, "A socket of ZMTP 3.x announces 3 as its major version.")
def _(target: Target) -> None:
    expect(_greeted(target).major == 3, f"the major version is {_greeted(target).major}")


@BOOK.rule("zmtp-3.1/minor-sent", MUST, "A socket of ZMTP 3.x announces 0 or 1 as its minor version.")
def _(target: Target) -> None:
    expect(_greeted(target).minor in (0, 1), f"the minor version is {_greeted(target).minor}")


@BOOK.rule(
    "zmtp-3.1/mechanism-sent",
    MUST,
    "A greeting has the mechanism in upper-case ASCII, padded with zero octets to 20 octets.",
)
def _(target: Target) -> None:
    mechanism = _greeted(target).mechanism
    name = mechanism.rstrip(b"\0")
    expect(name.isalnum() and name == name.upper(), f"the mechanism is {mechanism!r}")


@BOOK.rule(
    "zmtp-3.1/as-server-sent",
    SHOULD,
    "A PLAIN or CURVE server sends 1 as as-server.",
    roles=("PLAIN", "CURVE"),
)
def _(target: Target) -> None:
    expect(_greeted(target).as_server == 1, f"as-server is {_greeted(target).as_server}")


@BOOK.rule("zmtp-3.1/as-server-null", SHOULD, "A socket with NULL sends 0 as as-server.", roles=("NULL",))
def _(target: Target) -> None:
    expect(_greeted(target).as_server == 0, f"as-server is {_greeted(target).as_server}")


@BOOK.rule("zmtp-3.1/filler-sent", SHOULD, "A sender fills octets 33 to 63 of its greeting with zeros.")
def _(target: Target) -> None:
    filler = _greeted(target).filler
    expect(not any(filler), f"the filler is {filler.hex(' ')}")


@BOOK.rule("zmtp-3.1/padding-ignored", MUST, "A receiver ignores octets 1 to 8 of a greeting.")
def _(target: Target) -> None:
    with target.connect() as link:
        _served(target, link, _wire.greeting(target.mechanism, padding=b"\xff\1\2\3\xfe\5\6\x80"))


@BOOK.rule("zmtp-3.1/one-bit-of-octet-9", SHOULD, "A receiver looks at bit 0 alone of octet 9 of a greeting.")
def _(target: Target) -> None:
    with target.connect() as link:
        _served(target, link, _wire.greeting(target.mechanism, end=0x01))


@BOOK.rule(
    "zmtp-3.1/higher-major", MUST, "A receiver takes a peer with a major version above 3 for a peer of 3.x."
)
def _(target: Target) -> None:
    with target.connect() as link:
        _served(target, link, _wire.greeting(target.mechanism, major=4))


@BOOK.rule(
    "zmtp-3.1/higher-minor", MUST, "A receiver takes a peer with a minor version above 1 for a peer of 3.1."
)
def _(target: Target) -> None:
    with target.connect() as link:
        _served(target, link, _wire.greeting(target.mechanism, minor=9))


@BOOK.rule("zmtp-3.1/filler-ignored", MUST, "A receiver ignores octets 33 to 63 of a greeting.")
def _(target: Target) -> None:
    with target.connect() as link:
        _served(target, link, _wire.greeting(target.mechanism, filler=bytes(range(100, 131))))


@BOOK.rule("zmtp-3.1/as-server-ignored", MUST, "A receiver does not rely on as-server: it accepts 0 and 1.")
def _(target: Target) -> None:
    for value in (0, 1):
        with target.connect() as link:
            _served(target, link, _wire.greeting(target.mechanism, as_server=value))


@BOOK.rule(
    "zmtp-3.1/other-mechanism", MUST, "A socket closes the connection of a peer with another mechanism."
)
def _(target: Target) -> None:
    for other in {"NULL", "PLAIN", "CURVE"} - {target.mechanism}:
        _refuses(target, _wire.greeting(other))


@BOOK.rule(
    "zmtp-3.1/unknown-mechanism",
    MUST,
    "A socket closes the connection of a peer with a mechanism that it does not know.",
)
def _(target: Target) -> None:
    for unknown in ("GSSAPI2", "", "A" * 20):
        _refuses(target, _wire.greeting(unknown))


@BOOK.rule(
    "zmtp-3.1/mechanism-whole",
    MUST,
    "A receiver compares all 20 octets of the mechanism, so that other padding than zeros is a mismatch.",
)
def _(target: Target) -> None:
    for padding in (b"\0X", b" ", bytes(14) + b"\1"):
        _refuses(target, _wire.greeting(target.mechanism, mechanism_padding=padding))


@BOOK.rule(
    "zmtp-14/mechanism-case", MUST, "A socket closes the connection of a peer with a mechanism in lower case."
)
def _(target: Target) -> None:
    _refuses(target, _wire.greeting(target.mechanism.lower()))


@BOOK.rule(
    "zmtp-2/whole-greeting-on-mismatch",
    MUST,
    "A socket that has read a whole greeting sends its own, even if it closes on another mechanism.",
)
def _(target: Target) -> None:
    with target.connect() as link:
        greeting = link.greet(_wire.greeting("OTHER"))
        expect(greeting.mechanism_name == target.mechanism, f"its greeting is {greeting}")


@BOOK.rule(
    "zmtp-3.3/octet-by-octet", MUST, "A receiver accepts a greeting and a handshake in segments of any size."
)
def _(target: Target) -> None:
    greeting = _wire.greeting(target.mechanism)
    with target.connect() as link:
        link.send(*(greeting[at : at + 1] for at in range(63)))
        _served(target, link, greeting[63:])


@BOOK.rule(
    "zmtp-2/greeting-and-ready-at-once",
    MUST,
    "A receiver accepts a greeting and a READY in one segment.",
    roles=("NULL",),
)
def _(target: Target) -> None:
    with target.connect() as link:
        link.greet(_wire.greeting() + target.announcement(target.typed()))
        link.ready()
        link.alive()


@BOOK.rule(
    "zmtp-2/ready-without-waiting",
    MUST,
    "A socket with NULL sends READY as soon as it has the greeting, without waiting for the peer's READY.",
    roles=("NULL",),
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.greet()
        link.ready()


@BOOK.rule(
    "zmtp-2/no-early-traffic",
    MUST,
    "A socket sends neither messages nor commands behind its READY before it has received the peer's READY.",
    roles=("NULL",),
)
def _(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.greet()
        link.ready()
        early = link.frames(within=2 * QUIET)
        expect(not early, f"it sends {early}")


@BOOK.rule(
    "zmtp-2/message-behind-ready",
    MUST,
    "A receiver that has sent its READY accepts a message in the same segment as the peer's READY.",
    roles=("REP", "ROUTER", "DEALER"),
)
def _(target: Target) -> None:
    with target.greeted() as link:
        if target.mechanism == "NULL":
            link.ready()
        token = target.token()
        link.send(target.announcement(target.typed()) + target.enveloped(token))
        if target.mechanism != "NULL":
            link.ready()
        echo = target.opened(link.message())
        expect(echo == [token], f"the echo of {token!r} is {echo}")


@BOOK.rule(
    "zmtp-2/all-in-one-segment",
    SHOULD,
    "A receiver accepts a greeting, a READY and a message in one segment.",
    roles=("NULL",),
)
def _(target: Target) -> None:
    target.needs_commands()
    with target.connect() as link:
        link.greet(_wire.greeting() + target.announcement(target.typed()) + _wire.ping(b"at once"))
        link.ready()
        answers = [frame for frame in link.frames() if frame.body == b"\4PONGat once"]
        expect(answers, "a PING in the segment is not answered")


@BOOK.rule(
    "zmtp-3.2/no-commands-to-3-0",
    MUST,
    "A socket sends no command in traffic to a peer that announces 3.0.",
)
def _(target: Target) -> None:
    with target.link(minor=0) as link:
        commands = [frame for frame in link.frames(within=2 * QUIET) if frame.is_command]
        expect(not commands, f"it sends {commands}")


@BOOK.rule("zmtp-3.2/serves-3-0", MUST, "A socket serves a peer that announces 3.0.")
def _(target: Target) -> None:
    with target.link(minor=0) as link:
        if target.kind in ("REP", "ROUTER", "DEALER"):
            expect(link.roundtrip(b"by 3.0") == [b"by 3.0"], "the echo differs")
        elif target.kind in ("PUB", "XPUB"):
            link.send(_wire.subscribe(b"", as_message=True))
            link.message()
        elif target.kind in ("PUSH", "SUB", "XSUB"):
            link.message()
        else:
            link.frames()
