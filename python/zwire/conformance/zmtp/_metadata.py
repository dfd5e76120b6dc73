"""Rules about the metadata of a connection, socket types and identities."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, LIBZMQ, MUST, OBSERVED, SHOULD
from zwire.conformance.zmtp._wire import TYPES

if TYPE_CHECKING:
    from zwire.conformance.zmtp._target import Target


def _accepts(target: Target, metadata: bytes) -> None:
    with target.greeted() as link:
        link.announce(metadata)
        link.ready()
        link.alive()


def _refuses(target: Target, metadata: bytes) -> None:
    with target.greeted() as link:
        link.announce(metadata)
        link.ends()


def _announced(target: Target) -> list[_wire.Property]:
    """Properties of the target."""
    with target.link() as link:
        return link.peer


def _kind(name: str) -> bytes:
    return _wire.metadata([(b"Socket-Type", name.encode())])


def _collide(target: Target, first: list[_wire.Property], second: list[_wire.Property]) -> bool:
    """Whether a ROUTER takes two connections for the same peer: then it serves one of them at most."""
    with target.link(more=first) as one:
        one.settle()
        with target.connect() as other:
            other.greet()
            other.login()
            other.announce(target.typed(*second))
            # A ROUTER may refuse the second, ignore it, or give up the first for it.
            other.send(target.enveloped(b"second"))
            one.send(target.enveloped(b"first"))
            answers = [link.available_frames() for link in (one, other)]
            served = [any(frame.body in (b"first", b"second") for frame in frames) for frames in answers]
            expect(any(served), "neither connection is served")
            return not all(served)


@BOOK.rule("zmtp-8.1/socket-type-sent", MUST, "A socket announces its type in upper case as Socket-Type.")
def _(target: Target) -> None:
    kinds = [value.decode("latin-1") for name, value in _announced(target) if name == b"Socket-Type"]
    expect(len(kinds) == 1 and kinds[0] in TYPES, f"Socket-Type is {kinds}")


@BOOK.rule(
    "zmtp-8.1/spelling", MUST, "A sender spells the names of its properties exactly Socket-Type and Identity."
)
def _(target: Target) -> None:
    names = [name for name, _ in _announced(target)]
    wrong = [name for name in names if name.lower() in (b"socket-type", b"identity")]
    expect(set(wrong) <= {b"Socket-Type", b"Identity"}, f"its properties are {names}")


@BOOK.rule(
    "zmtp-8.1/names-sent",
    MUST,
    "Names of properties consist of letters, digits and the characters - _ . and +.",
)
def _(target: Target) -> None:
    names = [name for name, _ in _announced(target)]
    wrong = [name for name in names if not re.fullmatch(rb"[A-Za-z0-9_.+-]{1,255}", name)]
    expect(not wrong, f"it sends properties with the names {wrong}")


@BOOK.rule(
    "zmtp-8.1/identity-sent",
    OBSERVED,
    "REQ, DEALER and ROUTER send Identity always, with length 0 if it is unset.",
    seen=LIBZMQ,
    roles=("REQ", "DEALER", "ROUTER"),
)
def _(target: Target) -> None:
    peer = _announced(target)
    expect(b"Identity" in dict(peer), f"its properties are {peer}")


@BOOK.rule("zmtp-8.3/identity-length-sent", MUST, "A socket sends an identity of at most 255 octets.")
def _(target: Target) -> None:
    identity = dict(_announced(target)).get(b"Identity", b"")
    expect(len(identity) <= 255, f"its identity has {len(identity)} octets")


@BOOK.rule("zmtp-8.1/unknown-property", MUST, "A receiver accepts properties that it does not know.")
def _(target: Target) -> None:
    _accepts(
        target, target.typed((b"X-Colour", b"blue"), (b"Resource", b"r"), (b"a.b+c_d", bytes(range(256))))
    )


@BOOK.rule("zmtp-8.1/any-order", MUST, "A receiver accepts properties before Socket-Type.")
def _(target: Target) -> None:
    _accepts(target, _wire.metadata([(b"X-First", b"1"), (b"Identity", b"")]) + target.typed())


@BOOK.rule("zmtp-8.1/empty-value", MUST, "A receiver accepts a property with a value of length 0.")
def _(target: Target) -> None:
    _accepts(target, target.typed((b"X-Empty", b"")))


@BOOK.rule("zmtp-8.1/longest-name", MUST, "A receiver accepts a property with a name of 255 octets.")
def _(target: Target) -> None:
    _accepts(target, target.typed((b"X" * 255, b"value")))


@BOOK.rule("zmtp-8.1/large-value", SHOULD, "A receiver accepts a property with a value above 255 octets.")
def _(target: Target) -> None:
    _accepts(target, target.typed((b"X-Large", b"v" * 1000)))


@BOOK.rule("zmtp-14/no-metadata", SHOULD, "A receiver accepts a handshake without metadata.")
def _(target: Target) -> None:
    _accepts(target, b"")


@BOOK.rule("zmtp-14/no-socket-type", SHOULD, "A receiver accepts metadata without Socket-Type.")
def _(target: Target) -> None:
    _accepts(target, _wire.metadata([(b"Identity", b""), (b"X-Type", b"none")]))


@BOOK.rule(
    "zmtp-8.1/case-of-socket-type",
    SHOULD,
    "A receiver checks the socket type in a property socket-type, in whatever case the name is.",
)
def _(target: Target) -> None:
    _accepts(target, _wire.metadata([(b"SOCKET-type", target.fitting.encode())]))
    _refuses(target, _wire.metadata([(b"SOCKET-type", b"NONSENSE")]))


@BOOK.rule(
    "zmtp-8.1/case-of-identity",
    SHOULD,
    "A ROUTER takes the identity from a property identity in any case.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    identity = target.token()
    expect(
        _collide(target, [(b"Identity", identity)], [(b"identity", identity)]),
        "identity in lower case is not taken",
    )


@BOOK.rule(
    "zmtp-14/repeated-identity",
    SHOULD,
    "A ROUTER takes the last of several Identity properties.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    for taken, whether in ((1, True), (0, False)):
        identities = target.token(), target.token()
        twice = [(b"Identity", identity) for identity in identities]
        collides = _collide(target, twice, [(b"Identity", identities[taken])])
        expect(collides is whether, f"identity {taken + 1} of 2 is {'taken' if collides else 'not taken'}")


@BOOK.rule(
    "zmtp-8.1/routing-id", MUST, "A ROUTER takes no identity from a property Routing-Id.", roles=("ROUTER",)
)
def _(target: Target) -> None:
    same = [(b"Routing-Id", target.token())]
    expect(not _collide(target, same, same), "Routing-Id is taken for an identity")


@BOOK.rule("zmtp-8.1/truncated-name", MUST, "A receiver closes on a property of which the name is cut off.")
def _(target: Target) -> None:
    _refuses(target, target.typed() + b"\x20X-Short")


@BOOK.rule(
    "zmtp-8.1/truncated-length", MUST, "A receiver closes on a property of which the length is cut off."
)
def _(target: Target) -> None:
    _refuses(target, target.typed() + b"\7X-Short\0\0")


@BOOK.rule("zmtp-8.1/truncated-value", MUST, "A receiver closes on a property of which the value is cut off.")
def _(target: Target) -> None:
    _refuses(target, target.typed((b"X-Short", b"value"))[:-1])


@BOOK.rule(
    "zmtp-8.1/absurd-length", MUST, "A receiver closes on a property with a length far beyond the command."
)
def _(target: Target) -> None:
    for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        _refuses(target, target.typed() + b"\6X-Long" + length + b"value")


@BOOK.rule(
    "zmtp-8.1/one-octet-left", MUST, "A receiver closes on metadata with one octet behind its properties."
)
def _(target: Target) -> None:
    _refuses(target, target.typed() + b"\5")


@BOOK.rule(
    "zmtp-8.2/legal-pairs",
    MUST,
    "A socket accepts each type that the table of legal pairs allows for its own.",
)
def _(target: Target) -> None:
    for kind in TYPES[target.kind or target.fitting]:
        _accepts(target, _kind(kind))


@BOOK.rule(
    "zmtp-8.2/illegal-pairs", MUST, "A socket closes the connection of a type that the table does not allow."
)
def _(target: Target) -> None:
    legal = TYPES[target.kind or target.fitting]
    for kind in ("REQ", "REP", "DEALER", "ROUTER", "PUB", "SUB", "XPUB", "XSUB", "PUSH", "PULL", "PAIR"):
        if kind not in legal:
            _refuses(target, _kind(kind))


@BOOK.rule(
    "zmtp-8.2/draft-pairs",
    MUST,
    "A socket closes the connection of a draft type that is not its own counterpart.",
)
def _(target: Target) -> None:
    legal = TYPES[target.kind or target.fitting]
    for kind in ("CLIENT", "SERVER", "RADIO", "DISH", "SCATTER", "GATHER", "PEER", "CHANNEL"):
        if kind not in legal:
            _refuses(target, _kind(kind))


@BOOK.rule(
    "zmtp-8.2/unknown-type", MUST, "A socket closes the connection of a type that the table does not have."
)
def _(target: Target) -> None:
    for kind in ("WALRUS", "", target.fitting + "X", target.fitting + "\0"):
        _refuses(target, _kind(kind))


@BOOK.rule(
    "zmtp-8.1/case-of-type",
    MUST,
    "A receiver compares the value of Socket-Type exactly: it refuses lower case.",
)
def _(target: Target) -> None:
    _refuses(target, _kind(target.fitting.lower()))


@BOOK.rule(
    "zmtp-8.2/error-on-mismatch",
    SHOULD,
    "A socket sends ERROR to a peer of a type that does not fit, and closes.",
)
def _(target: Target) -> None:
    with target.greeted() as link:
        link.announce(_kind("WALRUS"))
        seen = link.ends()
        expect(any(frame.name == b"ERROR" for frame in seen), f"it closes after {seen}")


@BOOK.rule(
    "zmtp-11/error-format",
    MUST,
    "The data of an ERROR is the length of a printable reason in one octet, and the reason.",
)
def _(target: Target) -> None:
    with target.greeted() as link:
        link.announce(_kind("WALRUS"))
        errors = [frame for frame in link.available_frames() if frame.name == b"ERROR"]
        if not errors:
            raise NotApplicable("the socket sends no ERROR to a peer of another type")
        for error in errors:
            reason = error.data[1:]
            printable = all(0x20 <= octet < 0x7F for octet in reason)
            expect(error.data[:1] == bytes([len(reason)]) and printable, f"it sends {error}")


@BOOK.rule("zmtp-8.3/longest-identity", MUST, "A receiver accepts an identity of 255 octets.")
def _(target: Target) -> None:
    _accepts(target, target.typed((b"Identity", target.token().ljust(255, b"."))))


@BOOK.rule("zmtp-8.3/identity-too-long", SHOULD, "A receiver rejects an identity of more than 255 octets.")
def _(target: Target) -> None:
    _refuses(target, target.typed((b"Identity", target.token().ljust(256, b"."))))


@BOOK.rule("zmtp-8.3/leading-zero", SHOULD, "A receiver tolerates an identity with a leading zero octet.")
def _(target: Target) -> None:
    _accepts(target, target.typed((b"Identity", b"\0" + target.token())))


@BOOK.rule(
    "zmtp-8.3/anonymous",
    MUST,
    "A ROUTER invents an identity for each peer without one, or with an empty one, and serves all of them.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    with target.link() as one, target.link(more=[(b"Identity", b"")]) as two, target.link() as three:
        for link in (one, two, three, one):
            link.settle()
