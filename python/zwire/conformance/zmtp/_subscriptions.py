"""Rules about subscriptions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._book import BOOK, MUST, SHOULD
from zwire.conformance.zmtp._target import PUBLISHING, TOPIC, Link, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBSCRIBING = ("SUB", "XSUB")


@contextmanager
def _witness(target: Target) -> Iterator[Link]:
    """Open a connection that gets each publication, as a clock for others that should get none."""
    with target.link() as link:
        link.send(_wire.subscribe(TOPIC, as_message=target.minor == 0))
        link.message()
        yield link


def _publications(link: Link) -> list[list[bytes]]:
    """Whole messages that arrive during a time."""
    found: list[list[bytes]] = [[]]
    for frame in link.frames():
        if not frame.is_command:
            found[-1].append(frame.body)
            found += [] if frame.more else [[]]
    return found[:-1]


def _gets(target: Target, *octets: bytes, minor: int = 1) -> None:
    with target.link(minor=minor) as link:
        link.send(*octets)
        # An XPUB publishes events besides.
        messages = [link.message()]
        while messages[-1][0] == b"events" and len(messages) < 100:
            messages.append(link.message())
        last = messages[-1]
        expect(len(last) == 2 and last[0] == TOPIC and last[1].isdigit(), f"it sends {last}")


def _gets_nothing(target: Target, *octets: bytes) -> None:
    """See that a peer that has sent octets gets nothing, while another gets publications."""
    with target.link() as link:
        link.send(*octets)
        if target.minor:
            link.alive()
        with _witness(target) as witness:
            for _ in range(3):
                witness.message()
            got = _publications(link)
            expect(not got, f"it sends {got[:3]}")
            witness.message()


def _ends_with(target: Target, subscribing: list[bytes], cancelling: list[bytes]) -> None:
    """See that publications come with the first octets, and end with the second."""
    with target.link() as link, _witness(target) as witness:
        link.send(*subscribing)
        link.message()
        link.send(*cancelling)
        # Those on the way when the subscription ended may still come.
        for _ in range(3):
            witness.message()
        _publications(link)
        later = _publications(link)
        expect(not later, f"publications go on with {later[:3]}")
        witness.message()


@BOOK.rule(
    "zmtp-9/subscribe-command",
    MUST,
    "A publisher accepts the command SUBSCRIBE of a 3.1 peer.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    target.needs_commands()
    _gets(target, _wire.subscribe(TOPIC))


@BOOK.rule(
    "zmtp-9/subscribe-message",
    MUST,
    "A publisher accepts a subscription in message form of a 3.0 peer.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets(target, _wire.subscribe(TOPIC, as_message=True), minor=0)


@BOOK.rule(
    "zmtp-9/message-of-3-1",
    MUST,
    "A publisher accepts a subscription in message form of a 3.1 peer.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets(target, _wire.subscribe(TOPIC, as_message=True))


@BOOK.rule(
    "zmtp-9/command-of-3-0",
    SHOULD,
    "A publisher accepts the command SUBSCRIBE of a 3.0 peer.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    target.needs_commands()
    _gets(target, _wire.subscribe(TOPIC), minor=0)


@BOOK.rule(
    "zmtp-9/nothing-unsubscribed",
    MUST,
    "A publisher sends nothing to a peer without a subscription.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets_nothing(target)


@BOOK.rule(
    "zmtp-9/prefix",
    MUST,
    "A publisher sends each message with a subscribed prefix at the begin of its first frame.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    for length in (1, 4, len(TOPIC)):
        _gets(target, _wire.subscribe(TOPIC[:length], as_message=target.minor == 0))


@BOOK.rule(
    "zmtp-9/empty-prefix",
    MUST,
    "A publisher takes the empty prefix for a match of everything.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets(target, _wire.subscribe(b"", as_message=target.minor == 0))


@BOOK.rule(
    "zmtp-9/no-match",
    MUST,
    "A publisher sends no message with a first frame that begins with none of the prefixes.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    others = (b"Conformance", TOPIC + b"\0", TOPIC + b"s", b"onformance", b"\xff", b"d")
    _gets_nothing(target, *(_wire.subscribe(other, as_message=target.minor == 0) for other in others))


@BOOK.rule(
    "zmtp-9/first-frame-alone",
    MUST,
    "A publisher matches prefixes with the first frame alone.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    digits = (b"%d" % digit for digit in range(10))
    _gets_nothing(target, *(_wire.subscribe(digit, as_message=target.minor == 0) for digit in digits))


@BOOK.rule(
    "zmtp-9/sent-once",
    MUST,
    "A publisher sends a message once, however many prefixes match.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    with target.link() as link:
        prefixes = (b"", b"c", b"conf", TOPIC)
        link.send(b"".join(_wire.subscribe(prefix, as_message=target.minor == 0) for prefix in prefixes))
        counters = [counter for _ in range(5) for topic, counter in [link.message()] if topic == TOPIC]
        expect(len(set(counters)) == len(counters), f"it sends the counters {counters}")


@BOOK.rule(
    "zmtp-9/sent-whole",
    MUST,
    "A publisher sends a matching message whole, with all frames in order.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(_wire.subscribe(TOPIC, as_message=target.minor == 0))
        messages = [link.message() for _ in range(4)]
        counters = [int(message[1]) for message in messages if len(message) == 2 and message[0] == TOPIC]
        expected = list(range(counters[0], counters[0] + 4)) if counters else []
        expect(counters and counters == expected, f"it sends {messages}")


@BOOK.rule(
    "zmtp-9/long-prefix", MUST, "A publisher accepts a subscription in the long form.", roles=PUBLISHING
)
def _(target: Target) -> None:
    as_message = target.minor == 0
    _gets(
        target,
        _wire.subscribe(b"p" * 255, as_message=as_message),
        _wire.message(b"\1" + TOPIC) if as_message else _wire.command(b"SUBSCRIBE", TOPIC, long=True),
    )


@BOOK.rule(
    "zmtp-9/cancel-command",
    MUST,
    "A publisher ends a subscription with the command CANCEL.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    target.needs_commands()
    _ends_with(target, [_wire.subscribe(TOPIC)], [_wire.cancel(TOPIC)])


@BOOK.rule(
    "zmtp-9/cancel-message",
    MUST,
    "A publisher ends a subscription with the message form of cancel.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _ends_with(target, [_wire.subscribe(TOPIC, as_message=True)], [_wire.cancel(TOPIC, as_message=True)])


@BOOK.rule(
    "zmtp-9/forms-mixed",
    SHOULD,
    "A publisher ends a subscription in either form, whichever form it was made in.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    target.needs_commands()
    _ends_with(target, [_wire.subscribe(TOPIC, as_message=True)], [_wire.cancel(TOPIC)])
    _ends_with(target, [_wire.subscribe(TOPIC)], [_wire.cancel(TOPIC, as_message=True)])


@BOOK.rule(
    "zmtp-9/set-of-prefixes",
    SHOULD,
    "A publisher keeps a set of prefixes for each connection: one CANCEL ends a prefix subscribed twice.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    as_message = target.minor == 0
    twice = [_wire.subscribe(TOPIC, as_message=as_message)] * 2
    _ends_with(target, twice, [_wire.cancel(TOPIC, as_message=as_message)])


@BOOK.rule(
    "zmtp-9/other-prefix-stays",
    MUST,
    "A publisher goes on with a message that another prefix matches when one prefix is cancelled.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    as_message = target.minor == 0
    prefixes = [_wire.subscribe(prefix, as_message=as_message) for prefix in (b"con", b"conf")]
    with target.link() as link, _witness(target) as witness:
        link.send(*prefixes, _wire.cancel(b"con", as_message=as_message))
        for _ in range(3):
            witness.message()
        _publications(link)
        expect(_publications(link), "publications end")


@BOOK.rule(
    "zmtp-9/cancel-of-nothing",
    SHOULD,
    "A publisher drops a cancel of a prefix that is not subscribed.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    as_message = target.minor == 0
    _gets(
        target,
        _wire.cancel(TOPIC, as_message=as_message),
        _wire.cancel(b"", as_message=as_message),
        _wire.subscribe(TOPIC, as_message=as_message),
    )


@BOOK.rule(
    "zmtp-9/forgotten-on-close",
    MUST,
    "An accepting publisher forgets the subscriptions of a closed connection.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    identity = (b"Identity", target.token())
    with target.link(more=[identity]) as link:
        link.send(_wire.subscribe(TOPIC, as_message=target.minor == 0))
        link.message()
    with target.link(more=[identity]) as link, _witness(target) as witness:
        for _ in range(3):
            witness.message()
        got = _publications(link)
        expect(not got, f"it sends {got[:3]}")


@BOOK.rule(
    "zmtp-9/garbage-dropped",
    MUST,
    "A publisher keeps the connection of a peer that sends other messages than subscriptions.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets(
        target,
        _wire.message(b""),
        _wire.message(b"\2" + TOPIC),
        _wire.message(b"upstream"),
        _wire.message(b"a", b"b", b"c"),
        _wire.subscribe(TOPIC, as_message=target.minor == 0),
    )


@BOOK.rule(
    "zmtp-9/garbage-is-no-subscription",
    MUST,
    "A publisher takes a message that begins with another octet than 01 for no subscription.",
    roles=PUBLISHING,
)
def _(target: Target) -> None:
    _gets_nothing(
        target, *(_wire.message(start + TOPIC) for start in (b"", b"\2", b"\xff")), _wire.message(b"")
    )


# Subscriber.


def _subscription(target: Target, minor: int) -> tuple[int, bytes]:
    with target.link(minor=minor) as link:
        return link.frame()


@BOOK.rule(
    "zmtp-9/sub-sends-command", MUST, "A subscriber of 3.1 sends SUBSCRIBE to a 3.1 peer.", roles=SUBSCRIBING
)
def _(target: Target) -> None:
    target.needs_commands()
    sent = _subscription(target, 1)
    expect(sent == (4, b"\x09SUBSCRIBE" + TOPIC), f"it sends {sent}")


@BOOK.rule(
    "zmtp-9/sub-sends-message", MUST, "A subscriber sends the message form to a 3.0 peer.", roles=SUBSCRIBING
)
def _(target: Target) -> None:
    sent = _subscription(target, 0)
    expect(sent == (0, b"\1" + TOPIC), f"it sends {sent}")


@BOOK.rule(
    "zmtp-9/sub-subscribes-first",
    MUST,
    "A subscriber sends its subscriptions on each connection, as the first traffic.",
    roles=SUBSCRIBING,
)
def _(target: Target) -> None:
    for _ in range(2):
        with target.link() as link:
            sent = link.frame()
            expect(sent.body in (b"\x09SUBSCRIBE" + TOPIC, b"\1" + TOPIC), f"the first frame is {sent}")


@BOOK.rule(
    "zmtp-9/sub-takes-anything",
    MUST,
    "A subscriber tolerates messages that match none of its prefixes, and messages before its SUBSCRIBE.",
    roles=SUBSCRIBING,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(_wire.message(TOPIC, b"early"), _wire.message(b"other", b"topic"), _wire.message(b""))
        link.alive()


BOOK.unreachable(
    "zmtp-9/sub-filters",
    MUST,
    "A subscriber discards messages that match none of its prefixes.",
    "The application alone sees which messages a subscriber delivers.",
)

# XPUB.


def _event(target: Target, make: list[bytes], event: bytes) -> None:
    """See that the application of an XPUB gets an event, which the target publishes."""
    with target.link() as listener, target.link() as link:
        listener.send(_wire.subscribe(b"events", as_message=target.minor == 0))
        if target.minor:
            listener.alive()
        with _witness(target):
            link.send(*make)
        for _ in range(50):
            if listener.message() == [b"events", event]:
                return
        expect(False, f"no event {event!r} among 50")


@BOOK.rule(
    "zmtp-12.2/event-of-command",
    MUST,
    "An XPUB delivers the command SUBSCRIBE to the application as a message of 01 and the prefix.",
    roles=("XPUB",),
)
def _(target: Target) -> None:
    target.needs_commands()
    prefix = target.token()
    _event(target, [_wire.subscribe(prefix)], b"\1" + prefix)


@BOOK.rule(
    "zmtp-12.2/event-of-message",
    MUST,
    "An XPUB delivers a subscription in message form to the application as a message of 01 and the prefix.",
    roles=("XPUB",),
)
def _(target: Target) -> None:
    prefix = target.token()
    _event(target, [_wire.subscribe(prefix, as_message=True)], b"\1" + prefix)


@BOOK.rule(
    "zmtp-12.2/event-of-cancel",
    MUST,
    "An XPUB delivers the end of a subscription to the application as a message of 00 and the prefix.",
    roles=("XPUB",),
)
def _(target: Target) -> None:
    target.needs_commands()
    prefix = target.token()
    _event(target, [_wire.subscribe(prefix), _wire.cancel(prefix)], b"\0" + prefix)


@BOOK.rule(
    "zmtp-9/xpub-hands-up",
    MUST,
    "An XPUB hands messages other than subscriptions to the application.",
    roles=("XPUB",),
)
def _(target: Target) -> None:
    token = target.token()
    _event(target, [_wire.message(token)], token)
