"""Rules about what socket types do with messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, MUST, SHOULD
from zwire.conformance.zmtp._target import QUIET, WAIT, Link, Target

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# REP.


def _replies(target: Target, *frames: bytes, kind: str = "DEALER") -> None:
    with target.link(kind=kind) as link:
        link.send(_wire.message(*frames))
        reply = link.message()
        expect(reply == list(frames), f"the reply to {list(frames)} is {reply}")


@BOOK.rule(
    "zmtp-12.2/reply",
    MUST,
    "A REP sends a reply with the empty delimiter of the request in front.",
    roles=("REP",),
)
def _(target: Target) -> None:
    token = target.token()
    for kind in ("REQ", "DEALER"):
        _replies(target, b"", token, kind=kind)


@BOOK.rule(
    "zmtp-12.2/envelope",
    MUST,
    "A REP saves the envelope up to the empty frame, and puts it back.",
    roles=("REP",),
)
def _(target: Target) -> None:
    token = target.token()
    _replies(target, b"hop 2", b"\0hop 1", b"", token)


@BOOK.rule(
    "zmtp-12.2/first-delimiter", MUST, "A REP ends the envelope at the first empty frame.", roles=("REP",)
)
def _(target: Target) -> None:
    token = target.token()
    _replies(target, b"hop", b"", token, b"", b"behind")


@BOOK.rule("zmtp-12.2/empty-request", MUST, "A REP takes a request with an empty body.", roles=("REP",))
def _(target: Target) -> None:
    _replies(target, b"", b"")


@BOOK.rule(
    "zmtp-12/requests-in-order",
    MUST,
    "A REP answers the requests of one peer in their order.",
    roles=("REP",),
)
def _(target: Target) -> None:
    with target.link() as link:
        bodies = [b"%d" % number for number in range(20)]
        link.send(b"".join(_wire.message(b"", body) for body in bodies))
        replies = [link.message()[-1] for _ in bodies]
        expect(replies == bodies, f"the replies are {replies}")


@BOOK.rule(
    "zmtp-12.2/reply-to-asker",
    MUST,
    "A REP sends each reply to the peer that has asked, and to no other.",
    roles=("REP",),
)
def _(target: Target) -> None:
    _answers_the_sender(target)


@BOOK.rule(
    "zmtp-12/asker-gone",
    MUST,
    "A REP serves other peers when one closes without waiting for its reply.",
    roles=("REP",),
)
def _(target: Target) -> None:
    for _ in range(5):
        with target.link() as link:
            link.send(_wire.message(b"", b"not awaited"))
    with target.link() as link:
        link.settle()


# ROUTER.


def _answers_the_sender(target: Target) -> None:
    with target.link() as one, target.link() as two, target.link() as three:
        links = (one, two, three)
        for turn in range(3):
            for number, link in enumerate(links):
                link.send(target.enveloped(b"%d.%d" % (turn, number)))
        for number, link in enumerate(links):
            got = [target.opened(link.message()) for _ in range(3)]
            expect(got == [[b"%d.%d" % (turn, number)] for turn in range(3)], f"peer {number} gets {got}")
            expect(not link.settle(), f"peer {number} gets more")


@BOOK.rule(
    "zmtp-12.1/reply-to-identity",
    MUST,
    "A ROUTER sends a message to the connection of the identity in its first frame, and removes that frame.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    _answers_the_sender(target)


@BOOK.rule(
    "zmtp-12.1/identities-by-octets",
    MUST,
    "A ROUTER tells identities apart by all of their octets.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    token = target.token()
    with _named(target, token) as one:
        for other in (token + b"\0", token + b"\0\0", token.upper(), token.ljust(255, b"\xff")):
            with _named(target, other) as two:
                for link in (one, two, one):
                    link.settle()


def _named(target: Target, identity: bytes) -> AbstractContextManager[Link]:
    return target.link(more=[(b"Identity", identity)])


def _is_served(target: Target, link: Link) -> bool:
    token = target.token()
    link.send(target.enveloped(token))
    return any(frame.body == token for frame in link.available_frames(within=2 * QUIET))


def _duplicate(target: Target, identity: bytes, first: Link, second: Link) -> tuple[bool, bool]:
    """Which of two connections with one identity a ROUTER serves."""
    second.greet()
    second.login()
    second.announce(target.typed((b"Identity", identity)))
    newcomer = _is_served(target, second)
    return _is_served(target, first), newcomer


@BOOK.rule(
    "zmtp-12.1/one-of-duplicates",
    MUST,
    "A ROUTER serves one of two connections with the same identity: the first, or with handover the second.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    identity = target.token()
    with _named(target, identity) as first, target.connect() as second:
        first.settle()
        served = _duplicate(target, identity, first, second)
        expect(sum(served) == 1, f"of first and second are served: {served}")


@BOOK.rule(
    "zmtp-12.1/no-delivery-of-duplicate",
    MUST,
    "A ROUTER without handover sends the first connection nothing that the second has caused.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    identity = target.token()
    with _named(target, identity) as first, target.connect() as second:
        first.settle()
        if _duplicate(target, identity, first, second)[1]:
            raise NotApplicable("the ROUTER hands the identity over")
        second.send(target.enveloped(b"of the second"))
        got = first.settle()
        expect(not got, f"the first gets {got}")


@BOOK.rule(
    "zmtp-12.1/loser-closed",
    SHOULD,
    "A ROUTER with handover closes the old connection when a newcomer takes the identity.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    identity = target.token()
    with _named(target, identity) as first, target.connect() as second:
        first.settle()
        if not _duplicate(target, identity, first, second)[1]:
            raise NotApplicable("the ROUTER hands no identity over")
        first.ends()


@BOOK.rule(
    "zmtp-12.1/identity-free-again",
    MUST,
    "A ROUTER takes a peer with the identity of a closed connection for a new peer.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    identity = target.token()
    with _named(target, identity) as link:
        link.settle()
    end = time.monotonic() + WAIT
    while True:
        # The ROUTER may not have seen the close yet.
        with target.connect() as link:
            link.greet()
            link.login()
            link.announce(target.typed((b"Identity", identity)))
            if _is_served(target, link):
                return
        expect(time.monotonic() < end, f"the identity is still taken {WAIT} s after the close")


@BOOK.rule(
    "zmtp-12.1/anonymous-among-named",
    MUST,
    "A ROUTER invents identities that no other connection has.",
    roles=("ROUTER",),
)
def _(target: Target) -> None:
    with _named(target, target.token()) as named, target.link() as one, target.link() as two:
        for link in (named, one, two, named):
            link.settle()


# DEALER.


@BOOK.rule(
    "zmtp-12/round-robin",
    MUST,
    "A DEALER sends its messages in turn to its connections with room, each message to one of them.",
    roles=("DEALER",),
)
def _(target: Target) -> None:
    with target.link() as one, target.link() as two:
        one.alive()
        two.alive()
        # Connections of checks before this one may still have a place in the turn.
        one.available_frames()
        sent = [target.token() for _ in range(20)]
        one.send(b"".join(_wire.message(token) for token in sent))
        got = [[frame.body for frame in link.available_frames()] for link in (one, two)]
        tokens = [[body for body in bodies if body in sent] for bodies in got]
        expect(sorted(tokens[0] + tokens[1]) == sorted(sent), f"of {sent} come {tokens}")
        expect(abs(len(tokens[0]) - len(tokens[1])) <= 2, f"they get {[len(part) for part in tokens]} of 20")


@BOOK.rule("zmtp-12/fair-queue", MUST, "A DEALER receives from each of its connections.", roles=("DEALER",))
def _(target: Target) -> None:
    with target.link() as one, target.link() as two:
        for sender in (one, two, one):
            token = target.token()
            sender.send(b"".join(_wire.message(token) for _ in range(4)))
            got = [frame.body for link in (one, two) for frame in link.available_frames()]
            expect(got.count(token) == 4, f"of 4 echoes come {got}")


# PUSH and PULL.


def _counters(link: Link, count: int) -> list[int]:
    messages = [link.message() for _ in range(count)]
    if not all(len(message) == 1 and message[0].isdigit() for message in messages):
        raise NotApplicable(f"the PUSH sends no counters, but {messages[:3]}")
    return [int(message[0]) for message in messages]


@BOOK.rule(
    "zmtp-12.2/push-in-order", MUST, "A PUSH sends its messages in order on each connection.", roles=("PUSH",)
)
def _(target: Target) -> None:
    with target.link() as link:
        counters = _counters(link, 10)
        expect(counters == sorted(set(counters)), f"the counters are {counters}")


@BOOK.rule("zmtp-12.2/push-once", MUST, "A PUSH sends each message to one connection alone.", roles=("PUSH",))
def _(target: Target) -> None:
    with target.link() as one, target.link() as two:
        both = _counters(one, 10), _counters(two, 10)
        expect(not set(both[0]) & set(both[1]), f"both get {set(both[0]) & set(both[1])}")


@BOOK.rule("zmtp-12.2/push-in-turn", MUST, "A PUSH sends to all of its connections in turn.", roles=("PUSH",))
def _(target: Target) -> None:
    with target.link() as one, target.link() as two, target.link() as three:
        for link in (one, two, three):
            _counters(link, 3)


@BOOK.rule("zmtp-12.2/pull-takes", MUST, "A PULL receives messages and sends none.", roles=("PULL",))
def _(target: Target) -> None:
    with target.link() as link:
        link.send(*(_wire.message(b"%d" % number, b"x" * 300) for number in range(20)))
        answers = [frame for frame in link.alive() if not frame.is_command]
        expect(not answers, f"it sends {answers}")


BOOK.unreachable(
    "zmtp-12/high-water-mark",
    MUST,
    "A socket applies its high-water mark to whole messages.",
    "The mark is an option of the application, which the target does not tell.",
)
BOOK.unreachable(
    "zmtp-12/linger",
    SHOULD,
    "A socket writes what is queued for the linger time when its application closes it.",
    "Closing is up to the application of the target.",
)
BOOK.unreachable(
    "zmtp-12.2/req-alternates",
    MUST,
    "A REQ alternates between a request and its reply.",
    "A REQ sends when its application asks, so that no peer can make it break the turn.",
)
