"""Rules about the mechanisms NULL, PLAIN and CURVE."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, LIBZMQ, MUST, OBSERVED, SHOULD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.conformance.zmtp._target import Link, Target
    from zwire.conformance.zmtp._wire import Frame

# Public key, and parts of a HELLO to the owner of it, from the worked example of zmtp-15.9.
EXAMPLE_KEY = "hgP.#hDUHSUiE^h?&P6wi8P5^Qk?rT(1ek&+[:+/"
_CLIENT_KEY = bytes.fromhex("675dd574ed7789310b3d2e7681f3790b466c773b1521fecf36577958371ea52f")
_HELLO_BOX = bytes.fromhex(
    "349faf1b63e95ac97f34a31fd8866889ebca099a3dc9e177e15e62d1a6fd7069e630ab6028a4f03f"
    "3369b21613493d5b631aa3d8611f98d0b581a2f8533f0d071577e388be00364c68a2e8e6d36be714"
)
_SHORT_NONCE = bytes(7) + b"\1"


def _curve_hello(*, version: bytes = b"\1\0", box: bytes = _HELLO_BOX) -> bytes:
    return _wire.command(b"HELLO", version + bytes(72) + _CLIENT_KEY + _SHORT_NONCE + box)


@contextmanager
def _greeted(target: Target) -> Iterator[Link]:
    """Open a connection on which the greetings alone were exchanged."""
    with target.connect() as link:
        link.greet()
        yield link


def _refused(target: Target, octets: bytes) -> list[Frame]:
    """See that octets in the place of HELLO end the connection; frames that came before the end."""
    with _greeted(target) as link:
        link.send(octets)
        seen = link.ends()
        wrong = [frame for frame in seen if frame.name in (b"WELCOME", b"READY") or not frame.is_command]
        expect(not wrong, f"it answers {wrong}")
        return seen


def _not_let_in(target: Target, octets: bytes) -> list[Frame]:
    """See that octets are answered by neither WELCOME nor READY; the server need not close."""
    with _greeted(target) as link:
        link.send(octets)
        seen = link.available_frames(within=1)
        wrong = [frame for frame in seen if frame.name in (b"WELCOME", b"READY")]
        expect(not wrong, f"it answers {wrong}")
        return seen


# PLAIN.


@BOOK.rule("zmtp-6.2/client-begins", MUST, "A PLAIN server sends no command before HELLO.", roles=("PLAIN",))
def _client_begins(target: Target) -> None:
    with target.connect(beside_others=True) as link:
        link.greet()
        early = link.frames()
        expect(not early, f"it sends {early}")


@BOOK.rule(
    "zmtp-6.2/welcome",
    MUST,
    "A PLAIN server answers HELLO with WELCOME, of exactly 8 octets.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    if not any(target.credentials):
        raise NotApplicable("no username and no password were given")
    with _greeted(target) as link:
        link.send(_wire.hello(*target.credentials))
        answer = link.frame()
        expect(answer.is_command and answer.body == b"\7WELCOME", f"it answers {answer}")


@BOOK.rule(
    "zmtp-6.2/ready", MUST, "A PLAIN server answers INITIATE with READY and its metadata.", roles=("PLAIN",)
)
def _(target: Target) -> None:
    with target.link() as link:
        expect(b"Socket-Type" in dict(link.peer), f"its properties are {link.peer}")


@BOOK.rule(
    "zmtp-6.2/ready-waits",
    MUST,
    "A PLAIN server sends nothing between WELCOME and INITIATE.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    with target.greeted() as link:
        early = link.frames()
        expect(not early, f"it sends {early}")


@BOOK.rule(
    "zmtp-6.2/wrong-password",
    MUST,
    "A PLAIN server lets in no client with a wrong password.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    username, password = target.credentials
    for wrong in (password + b"x", password[:-1], b"", password.swapcase() + b"\0"):
        _not_let_in(target, _wire.hello(username, wrong))


@BOOK.rule(
    "zmtp-6.2/wrong-user", MUST, "A PLAIN server lets in no client with a wrong username.", roles=("PLAIN",)
)
def _(target: Target) -> None:
    username, password = target.credentials
    for wrong in (username + b"x", b""):
        _not_let_in(target, _wire.hello(wrong, password))


@BOOK.rule(
    "zmtp-6.2/error-on-refusal",
    SHOULD,
    "A PLAIN server answers a HELLO that it refuses with ERROR.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    seen = _not_let_in(target, _wire.hello(b"stranger", b"guess"))
    expect(any(frame.body[:6] in (b"\5ERROR", b"\x5eRROR\3") for frame in seen), f"it answers {seen}")


@BOOK.rule(
    "zmtp-6.2/error-spelling",
    MUST,
    "A PLAIN server sends ERROR as the length 05, the name ERROR, and a length with the reason.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    seen = _not_let_in(target, _wire.hello(b"stranger", b"guess"))
    if not seen:
        raise NotApplicable("the server refuses without an ERROR")
    for frame in seen:
        right = frame.name == b"ERROR" and frame.data[:1] == bytes([len(frame.data) - 1 & 0xFF])
        expect(frame.is_command and right, f"it answers {frame}")


@BOOK.rule(
    "zmtp-6.2/hello-and-more",
    MUST,
    "A PLAIN server closes on a HELLO with octets behind the password.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    lengths_and_texts = _wire.hello(*target.credentials)[8:]
    _refused(target, _wire.command(b"HELLO", lengths_and_texts + b"\0"))


@BOOK.rule(
    "zmtp-6.2/hello-cut-off",
    MUST,
    "A PLAIN server closes on a HELLO that ends within its fields.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    lengths_and_texts = _wire.hello(*target.credentials)[8:]
    for short in (b"", lengths_and_texts[:1], lengths_and_texts[:-1], b"\xffuser\4pass"):
        _refused(target, _wire.command(b"HELLO", short))


@BOOK.rule(
    "zmtp-6.2/initiate-first", MUST, "A PLAIN server closes on an INITIATE before HELLO.", roles=("PLAIN",)
)
def _(target: Target) -> None:
    _refused(target, target.announcement(target.typed()))


@BOOK.rule(
    "zmtp-6.2/ready-of-client",
    MUST,
    "A PLAIN server closes on a READY in the place of HELLO.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    _refused(target, _wire.command(b"READY", target.typed()))


@BOOK.rule(
    "zmtp-6.2/message-first", MUST, "A PLAIN server closes on a message before HELLO.", roles=("PLAIN",)
)
def _(target: Target) -> None:
    _refused(target, _wire.message(b"", b"no login"))


@BOOK.rule(
    "zmtp-6.2/hello-twice",
    MUST,
    "A PLAIN server closes on a HELLO in the place of INITIATE.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    with target.greeted() as link:
        link.send(_wire.hello(*target.credentials))
        link.ends()


@BOOK.rule(
    "zmtp-6.2/ready-for-initiate",
    MUST,
    "A PLAIN server closes on a READY in the place of INITIATE.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    with target.greeted() as link:
        link.send(_wire.command(b"READY", target.typed()))
        link.ends()


@BOOK.rule(
    "zmtp-6.2/plain-traffic",
    MUST,
    "A PLAIN server serves unencrypted traffic after the handshake.",
    roles=("PLAIN",),
)
def _(target: Target) -> None:
    with target.link() as link:
        link.alive()


# CURVE.


def _needs_example_key(target: Target) -> None:
    if target.server_key != EXAMPLE_KEY:
        raise NotApplicable("the target does not have the key of zmtp-15.9, to which the suite has a HELLO")


@contextmanager
def _welcomed(target: Target) -> Iterator[tuple[Link, Frame]]:
    _needs_example_key(target)
    with _greeted(target) as link:
        link.send(_curve_hello())
        yield link, link.frame()


BOOK.rule("zmtp-6.3/client-begins", MUST, "A CURVE server sends no command before HELLO.", roles=("CURVE",))(
    _client_begins
)


@BOOK.rule(
    "zmtp-6.3/welcome", MUST, "A CURVE server answers HELLO with a WELCOME of 168 octets.", roles=("CURVE",)
)
def _(target: Target) -> None:
    with _welcomed(target) as (_, answer):
        expect(answer.is_command and answer.name == b"WELCOME", f"it answers {answer}")
        expect(len(answer.body) == 168, f"the WELCOME has {len(answer.body)} octets")


@BOOK.rule(
    "zmtp-6.3/welcome-fresh",
    MUST,
    "A CURVE server makes each WELCOME with random octets of its own, and a transient key of one connection.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    answers = []
    for _ in range(3):
        with _welcomed(target) as (_, answer):
            answers.append(answer.data)
    expect(len({answer[:16] for answer in answers}) == 3, "two of three WELCOMEs have the same random octets")
    expect(len({answer[16:] for answer in answers}) == 3, "two of three WELCOMEs have the same box")


@BOOK.rule(
    "zmtp-6.3/hello-size", MUST, "A CURVE server closes on a HELLO that has not 200 octets.", roles=("CURVE",)
)
def _(target: Target) -> None:
    for box in (_HELLO_BOX[:-1], _HELLO_BOX + b"\0", b""):
        _refused(target, _curve_hello(box=box))


@BOOK.rule(
    "zmtp-6.3/hello-version",
    MUST,
    "A CURVE server closes on a HELLO of another version than 01 00.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    _needs_example_key(target)
    for version in (b"\2\0", b"\1\1", b"\0\0"):
        _refused(target, _curve_hello(version=version))


@BOOK.rule(
    "zmtp-6.3/hello-box",
    MUST,
    "A CURVE server closes on a HELLO with a box that does not open.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    for at in (0, 15, 16, 79):
        box = bytearray(_HELLO_BOX)
        box[at] ^= 1
        _refused(target, _curve_hello(box=bytes(box)))


@BOOK.rule(
    "zmtp-6.3/no-error-for-wrong-key",
    OBSERVED,
    "A CURVE server answers a HELLO to another key by a close, without any ERROR.",
    seen=LIBZMQ,
    roles=("CURVE",),
)
def _(target: Target) -> None:
    seen = _refused(target, _curve_hello(box=bytes(80)))
    expect(not seen, f"it answers {seen}")


@BOOK.rule(
    "zmtp-6.3/initiate-first", MUST, "A CURVE server closes on an INITIATE before HELLO.", roles=("CURVE",)
)
def _(target: Target) -> None:
    _refused(target, _wire.command(b"INITIATE", bytes(96) + _SHORT_NONCE + bytes(144)))


@BOOK.rule("zmtp-6.3/clear-ready", MUST, "A CURVE server closes on a READY in clear text.", roles=("CURVE",))
def _(target: Target) -> None:
    _refused(target, _wire.command(b"READY", _wire.metadata([(b"Socket-Type", b"DEALER")])))


@BOOK.rule(
    "zmtp-6.3/clear-message",
    MUST,
    "A CURVE server closes on a message in clear text before the handshake.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    _refused(target, _wire.message(b"", b"in the clear"))


@BOOK.rule("zmtp-6.3/plain-hello", MUST, "A CURVE server closes on the HELLO of PLAIN.", roles=("CURVE",))
def _(target: Target) -> None:
    _refused(target, _wire.hello(b"user", b"password"))


@BOOK.rule(
    "zmtp-6.3/forged-initiate",
    MUST,
    "A CURVE server closes on an INITIATE with a cookie that does not open.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    with _welcomed(target) as (link, _):
        link.send(_wire.command(b"INITIATE", bytes(96) + bytes(7) + b"\2" + bytes(144)))
        seen = link.ends()
        expect(not any(frame.name == b"READY" for frame in seen), f"it answers {seen}")


@BOOK.rule(
    "zmtp-6.3/initiate-size", MUST, "A CURVE server closes on an INITIATE below 257 octets.", roles=("CURVE",)
)
def _(target: Target) -> None:
    with _welcomed(target) as (link, _):
        link.send(_wire.command(b"INITIATE", bytes(96) + bytes(7) + b"\2" + bytes(143)))
        link.ends()


@BOOK.rule(
    "zmtp-6.3/hello-twice",
    MUST,
    "A CURVE server closes on a HELLO in the place of INITIATE.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    with _welcomed(target) as (link, _):
        link.send(_curve_hello())
        link.ends()


@BOOK.rule(
    "zmtp-14/clear-ping",
    MUST,
    "A CURVE server closes on a PING in clear text during the handshake.",
    roles=("CURVE",),
)
def _(target: Target) -> None:
    _refused(target, _wire.ping(b"clear"))


_NO_ENCRYPTION = (
    "The suite has no encryption: the standard library has neither Curve25519 nor XSalsa20-Poly1305."
)

for _name, _sentence in (
    ("cookie-returned", "A CURVE server accepts an INITIATE with its cookie verbatim, and no other."),
    ("vouch", "A CURVE server checks that the vouch opens and holds the transient key of the client."),
    ("ready-box", "A CURVE server puts its metadata into the box of READY."),
    ("message-framing", "A CURVE socket sends MESSAGE as a message frame, without the flag COMMAND."),
    ("payload-flags", "A CURVE socket sends commands within MESSAGE with the payload flag 02."),
    ("nonce-rises", "A CURVE socket raises the nonce of each direction with every box."),
    ("nonce-reused", "A CURVE socket closes on a nonce that is not greater than the last."),
    ("box-that-fails", "A CURVE socket closes on a MESSAGE with a box that does not open."),
    ("clear-after-handshake", "A CURVE socket closes on a command in clear text after the handshake."),
):
    BOOK.unreachable(f"zmtp-6.3/{_name}", MUST, _sentence, _NO_ENCRYPTION)
