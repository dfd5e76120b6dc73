"""Rules of the handshake: INIT, OPEN, and what an acceptor refuses."""

from __future__ import annotations

import functools
import secrets
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Level, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import needs
from zwire.conformance.zenoh._probes import (
    ENCODING_3,
    INVALID,
    MANDATORY,
    MAX_LINKS,
    takes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Target

ACCEPT_TIMEOUT = 10.0
"""Seconds that a handshake may last, by default."""


# ---- The exchange ----


@BOOK.rule(
    "zenoh-behaviour-2.1/accept-timeout",
    SHOULD,
    "An acceptor closes a connection if its handshake does not end in the accept timeout, by default 10 s.",
)
def _(target: Target) -> None:
    with target.connection() as silent, target.connection() as halfway:
        halfway.init()
        begin = time.monotonic()
        for name, link in (("silent", silent), ("half open", halfway)):
            rest = begin + ACCEPT_TIMEOUT + 2 - time.monotonic()
            expect(link.closed(rest), f"the {name} connection is open after {ACCEPT_TIMEOUT + 2:g} s")


@BOOK.rule(
    "zenoh-wire-3.2/four-messages",
    MUST,
    "An acceptor answers INIT SYN by INIT ACK and OPEN SYN by OPEN ACK, and takes messages after that.",
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init()
        link.finish()
        takes(link, link.frame)


@BOOK.rule("zenoh-wire-3.3/ack-version", MUST, "An INIT ACK carries version 0x09.")
def _(target: Target) -> None:
    with target.link() as link:
        expect(link.init_ack.version == 9, f"version {link.init_ack.version}")


@BOOK.rule("zenoh-wire-1.11/ack-role", MUST, "An INIT ACK names its node a router, a peer or a client.")
def _(target: Target) -> None:
    with target.link() as link:
        expect(link.init_ack.role != 3, "whatami 3")


@BOOK.rule("zenoh-wire-1.7/init-ack-reserved", MUST, "An INIT ACK has 0 in the reserved bits of its flags.")
def _(target: Target) -> None:
    with target.link() as link:
        expect(not link.init_ack.raw[2] & 0x0C, f"flags {link.init_ack.raw[2]:#04x}")


@BOOK.rule(
    "zenoh-wire-3.1/handshake-alone", MUST, "An acceptor sends INIT ACK and OPEN ACK alone in their batches."
)
def _(target: Target) -> None:
    with target.connection() as link:
        for octets, name in ((wire.init(link.zid), "INIT ACK"), (None, "OPEN ACK")):
            link.send_batch(octets or wire.open_syn(link.init_ack.cookie))
            messages = wire.batch_of(link.batch() or b"")
            expect(len(messages) == 1, f"{len(messages)} messages in the batch of {name}")
            link.init_ack = messages[0]


@BOOK.rule(
    "zenoh-wire-1.4/stripped", MUST, "A node sends its ZenohID without the zero bytes of its upper end."
)
def _(target: Target) -> None:
    expect(target.zid[-1] != 0, f"ZenohID {target.zid.hex()}")


@BOOK.rule("zenoh-wire-1.4/one-byte", MUST, "An acceptor takes a ZenohID of one byte.")
def _(target: Target) -> None:
    with target.link(zid=bytes([1 + secrets.randbelow(255)])) as link:
        expect(link.lives(), "the node closed the link")


@BOOK.rule("zenoh-wire-1.4/sixteen-bytes", MUST, "An acceptor takes a ZenohID of sixteen bytes.")
def _(target: Target) -> None:
    with target.link(zid=secrets.token_bytes(15) + b"\xff") as link:
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-1.4/upper-zeros",
    OBSERVED,
    "An acceptor takes a ZenohID with zero bytes at its upper end for the same one without them.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    zid = secrets.token_bytes(9) + b"\x01"
    with target.link(zid=zid), target.connection(zid + b"\0\0") as second:
        second.init()
        second.send_batch(wire.open_syn(second.init_ack.cookie))
        reason = second.close_reason()
        expect(reason == MAX_LINKS, f"CLOSE {reason} for the second link")


@BOOK.rule(
    "zenoh-wire-3.3/reserved-ignored",
    MUST,
    "An acceptor ignores the reserved bits of the flags of an INIT SYN.",
)
def _(target: Target) -> None:
    with target.connection() as link:
        octets = bytearray(wire.init(link.zid))
        octets[2] |= 0x0C
        link.init(bytes(octets))
        link.finish()


@BOOK.rule(
    "zenoh-wire-3.1/handshake-trailing",
    OBSERVED,
    "An acceptor ignores bytes that follow INIT SYN or OPEN SYN in their batches.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init(wire.init(link.zid) + b"\xff\xff")
        link.finish(wire.open_syn(link.init_ack.cookie) + b"\xff\xff")


# ---- Messages that an acceptor refuses ----


def refuses_init(octets: Callable[[bytes], bytes], reason: int, target: Target) -> None:
    """Expect CLOSE with the reason for the first batch that the function makes of a ZenohID."""
    with target.connection() as link:
        link.send_batch(octets(link.zid))
        seen = link.close_reason()
        expect(seen == reason, "no CLOSE" if seen is None else f"CLOSE {seen}")


REFUSED_FIRST: tuple[tuple[str, Level, str, Callable[[bytes], bytes], int], ...] = (
    (
        "zenoh-wire-3.3/version-8",
        MUST,
        "An acceptor refuses an INIT SYN with version 8 by CLOSE INVALID.",
        lambda zid: wire.init(zid, version=8),
        INVALID,
    ),
    (
        "zenoh-wire-3.3/version-10",
        MUST,
        "An acceptor refuses an INIT SYN with version 10 by CLOSE INVALID.",
        lambda zid: wire.init(zid, version=10),
        INVALID,
    ),
    (
        "zenoh-wire-1.11/role-3",
        SHOULD,
        "An acceptor refuses an INIT SYN with whatami 3 by CLOSE INVALID.",
        lambda zid: wire.init(zid, role=3),
        INVALID,
    ),
    (
        "zenoh-wire-1.4/zero",
        SHOULD,
        "An acceptor refuses a ZenohID of zeros by CLOSE INVALID.",
        lambda _: wire.init(bytes(16)),
        INVALID,
    ),
    (
        "zenoh-behaviour-2.2/mandatory-in-init",
        MUST,
        "An acceptor refuses an INIT SYN with an unknown mandatory extension by CLOSE INVALID.",
        lambda zid: wire.init(zid, exts=(MANDATORY, wire.PATCH)),
        INVALID,
    ),
    (
        "zenoh-wire-9.1/encoding-3",
        SHOULD,
        "An acceptor refuses an INIT SYN with an extension of encoding 3 by CLOSE INVALID.",
        lambda zid: wire.init(zid, exts=(ENCODING_3,)),
        INVALID,
    ),
    (
        "zenoh-wire-9.1/truncated-init",
        SHOULD,
        "An acceptor refuses a truncated INIT SYN by CLOSE INVALID.",
        lambda zid: wire.init(zid, exts=())[:-1],
        INVALID,
    ),
    (
        "zenoh-wire-9.1/truncated-extension",
        SHOULD,
        "An acceptor refuses an INIT SYN without the value of its last extension by CLOSE INVALID.",
        lambda zid: wire.init(zid)[:-1],
        INVALID,
    ),
    (
        "zenoh-wire-9.1/open-first",
        SHOULD,
        "An acceptor refuses an OPEN SYN in place of an INIT SYN by CLOSE INVALID.",
        lambda _: wire.open_syn(b"cookie"),
        INVALID,
    ),
    (
        "zenoh-wire-9.1/frame-first",
        SHOULD,
        "An acceptor refuses a FRAME in place of an INIT SYN by CLOSE INVALID.",
        lambda _: wire.frame(0, wire.push("conformance/early", wire.put())),
        INVALID,
    ),
    (
        "zenoh-wire-9.1/unknown-first",
        SHOULD,
        "An acceptor refuses an unknown message in place of an INIT SYN by CLOSE INVALID.",
        lambda _: b"\x08\x09\x00",
        INVALID,
    ),
    (
        "zenoh-wire-3.1/handshake-empty",
        SHOULD,
        "An acceptor refuses an empty batch in place of an INIT SYN by CLOSE INVALID.",
        lambda _: b"",
        INVALID,
    ),
)
for _id, _level, _sentence, _octets, _reason in REFUSED_FIRST:
    BOOK.rule(_id, _level, _sentence)(functools.partial(refuses_init, _octets, _reason))


def refuses_open(octets: Callable[[bytes], bytes], reason: int, target: Target) -> None:
    """Expect CLOSE with the reason for the second batch that the function makes of the cookie."""
    with target.connection() as link:
        link.init()
        link.send_batch(octets(link.init_ack.cookie))
        seen = link.close_reason()
        expect(seen == reason, "no CLOSE" if seen is None else f"CLOSE {seen}")


REFUSED_SECOND: tuple[tuple[str, Level, str, Callable[[bytes], bytes], int], ...] = (
    (
        "zenoh-behaviour-2.2/mandatory-in-open",
        MUST,
        "An acceptor refuses an OPEN SYN with an unknown mandatory extension by CLOSE INVALID.",
        lambda cookie: wire.open_syn(cookie, exts=(MANDATORY,)),
        INVALID,
    ),
    (
        "zenoh-wire-9.1/truncated-open",
        SHOULD,
        "An acceptor refuses an OPEN SYN that ends within its cookie by CLOSE INVALID.",
        lambda cookie: wire.open_syn(cookie + b"?")[:-1],
        INVALID,
    ),
)
for _id, _level, _sentence, _octets, _reason in REFUSED_SECOND:
    BOOK.rule(_id, _level, _sentence)(functools.partial(refuses_open, _octets, _reason))


@BOOK.rule(
    "zenoh-wire-3.3/wrong-cookie",
    SHOULD,
    "An acceptor refuses an OPEN SYN with a cookie that is not its own by CLOSE INVALID.",
)
def _(target: Target) -> None:
    with target.connection() as link:
        cookie = bytearray(link.init().cookie)
        needs(cookie, "a cookie")
        cookie[len(cookie) // 2] ^= 0x55
        link.send_batch(wire.open_syn(bytes(cookie)))
        reason = link.close_reason()
        expect(reason == INVALID, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-wire-3.5/close-in-place-of-open",
    OBSERVED,
    "An acceptor answers a CLOSE in place of OPEN SYN by a CLOSE with the same reason.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init()
        link.send_batch(wire.close(5))
        reason = link.close_reason()
        expect(reason == 5, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-wire-3.4/first-number-outside",
    SHOULD,
    "An acceptor sends no OPEN ACK for a first sequence number outside the resolution, and drops the link.",
    alone=True,
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init()
        link.send_batch(wire.open_syn(link.init_ack.cookie, sn=link.mask << 1 | 1))
        seen = link.end(ACCEPT_TIMEOUT + 2)
        expect(seen is not None, f"the connection is open after {ACCEPT_TIMEOUT + 2:g} s")
        expect(all(message.kind == "CLOSE" for message in seen or ()), "the node sent OPEN ACK")


# ---- Out of reach ----

DIALS = "the suite dials the node, so it sees no handshake that the node begins"
for _id, _sentence in (
    (
        "zenoh-wire-3.5/opener-resolution",
        "An opener refuses an INIT ACK with a resolution above its own by CLOSE INVALID.",
    ),
    (
        "zenoh-wire-3.5/opener-patch",
        "An opener refuses an INIT ACK with a patch above its own by CLOSE GENERIC.",
    ),
    ("zenoh-wire-3.5/opener-client", "A client refuses an acceptor that is a client by CLOSE GENERIC."),
    (
        "zenoh-wire-3.5/opener-own-id",
        "An opener refuses an acceptor with its own ZenohID by CLOSE CONNECTION_TO_SELF.",
    ),
    ("zenoh-wire-3.3/opener-cookie", "An opener sends the cookie of the INIT ACK back byte for byte."),
    ("zenoh-wire-3.3/opener-empty-cookie", "An opener takes an INIT ACK with an empty cookie."),
    ("zenoh-wire-3.3/opener-no-sizes", "An opener takes an INIT ACK without sizes and without extensions."),
    (
        "zenoh-wire-3.5/opener-not-offered",
        "An opener ignores an extension of the INIT ACK that it did not offer.",
    ),
):
    BOOK.unreachable(_id, MUST, _sentence, DIALS)
BOOK.unreachable(
    "zenoh-behaviour-2.3/max-sessions",
    SHOULD,
    "An acceptor refuses a new ZenohID while it has 1000 transports.",
    "a thousand links to a node that others use would take away its places",
)
BOOK.unreachable(
    "zenoh-wire-3.6/usrpwd",
    SHOULD,
    "An acceptor with user names and passwords refuses a wrong one by CLOSE GENERIC.",
    "a node that asks for a password takes no link of this suite, which has none",
)
