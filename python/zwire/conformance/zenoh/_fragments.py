"""Rules of FRAGMENT: messages that are longer than a batch."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import PATIENCE, needs
from zwire.conformance.zenoh._probes import Question, closes, question, taken
from zwire.conformance.zenoh._wire import DATA, Message

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target

NO_PATCH = (wire.QOS_INIT,)
"""Extensions of an INIT without the markers First and Drop."""
SMALL = (0x0A, 300)
"""Sizes of a link to which the node has to send fragments."""
LARGE = 1 << 20
"""Bytes of a message that needs fragments on every link."""


def payload(size: int) -> bytes:
    """Bytes in which a part that is missing, doubled or moved shows."""
    return b"".join(at.to_bytes(4, "big") for at in range(size // 4 + 1))[:size]


def _parts(octets: bytes, count: int = 3) -> list[bytes]:
    size = -(-len(octets) // count)
    return [octets[at : at + size] for at in range(0, len(octets), size)]


def _fragment(
    link: Link,
    part: bytes,
    *,
    more: bool = True,
    first: bool | None = False,
    drop: bool = False,
    priority: int = DATA,
    reliable: bool = True,
) -> bytes:
    number = link.number(priority, reliable=reliable)
    marked = link.init_ack.ext(0x27) is not None if first is None else first
    return wire.fragment(
        number, part, more=more, first=marked, drop=drop, reliable=reliable, priority=priority
    )


def _whole(link: Link, asked: Question, *, priority: int = DATA, reliable: bool = True) -> list[bytes]:
    """FRAGMENTs of a question, without their numbers being sent."""
    parts = _parts(asked.octets)
    return [
        _fragment(
            link,
            part,
            more=at + 1 < len(parts),
            first=None if at == 0 else False,
            priority=priority,
            reliable=reliable,
        )
        for at, part in enumerate(parts)
    ]


def _needs_patch(link: Link) -> None:
    needs(link.init_ack.ext(0x27), "patch 1")


# ---- Reassembly ----


def _reassembles(size: int, cut: int, target: Target) -> None:
    with target.flow() as flow:
        sent = payload(size)
        message = wire.push(f"{flow.key}/a", wire.put(sent), wire.qos(DATA, block=True))
        flow.sender.send_fragments(message, size=cut)
        seen = flow.payloads()
        expect(seen == [sent], f"payloads of {[len(each) for each in seen]} bytes, or other bytes")


for _id, _sentence, _size, _cut in (
    (
        "zenoh-wire-3.10/reassembles",
        "A receiver makes one message of its FRAGMENTs, in the order of their numbers.",
        3000,
        1000,
    ),
    ("zenoh-wire-3.10/small-parts", "A receiver takes FRAGMENTs of a few bytes.", 500, 7),
    ("zenoh-wire-3.10/single", "A receiver takes a message of a single FRAGMENT.", 100, 1000),
    ("zenoh-wire-3.10/large", "A receiver takes a message of 1 MiB in FRAGMENTs.", LARGE, 40_000),
):
    BOOK.rule(_id, MUST, _sentence)(functools.partial(_reassembles, _size, _cut))


@BOOK.rule(
    "zenoh-wire-3.10/best-effort",
    MUST,
    "A receiver makes one message of FRAGMENTs without the reliable flag.",
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target, 300)
        for octets in _whole(link, asked, reliable=False):
            link.send_batch(octets)
        expect(taken(link, asked) == [True], "the node did not take the message")


@BOOK.rule("zenoh-wire-3.10/behind-frame", MUST, "A receiver takes a FRAGMENT behind a FRAME in a batch.")
def _(target: Target) -> None:
    with target.link() as link:
        before, asked = question(target), question(target, 300)
        frame = link.frame(before.octets)
        first, *others = _whole(link, asked)
        link.send_batch(frame, first)
        for octets in others:
            link.send_batch(octets)
        expect(taken(link, before, asked) == [True, True], "the node did not take both messages")


@BOOK.rule(
    "zenoh-wire-3.11/one-counter", MUST, "A receiver counts FRAMEs and FRAGMENTs of a channel together."
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target, 300)
        for octets in _whole(link, asked):
            link.send_batch(octets)
        again = question(target)
        link.send_batch(wire.frame(link.numbers[DATA, True] - 1, again.octets))
        expect(
            taken(link, asked, again) == [True, False], "the node took a FRAME with the number of a FRAGMENT"
        )


@BOOK.rule("zenoh-wire-3.10/twice", MUST, "A receiver takes one message in FRAGMENTs after another.")
def _(target: Target) -> None:
    with target.link() as link:
        asked = [question(target, 300) for _ in range(3)]
        for each in asked:
            for octets in _whole(link, each):
                link.send_batch(octets)
        expect(taken(link, *asked) == [True] * 3, "the node did not take all messages")


@BOOK.rule(
    "zenoh-behaviour-2.9/between-channels",
    MUST,
    "A receiver takes FRAMEs of other channels between the FRAGMENTs of a message.",
)
def _(target: Target) -> None:
    with target.link() as link:
        asked, others = question(target, 300), [question(target), question(target)]
        first, second, third = _whole(link, asked)
        urgent = 1 if link.has_qos else DATA
        link.send_batch(first)
        link.send_batch(link.frame(others[0].octets, reliable=False))
        link.send_batch(second)
        link.send_batch(link.frame(others[1].octets, priority=urgent, reliable=link.has_qos))
        link.send_batch(third)
        expect(all(taken(link, asked, *others)), "the node did not take all messages")


@BOOK.rule(
    "zenoh-behaviour-2.5/sixteen-messages",
    MUST,
    "A receiver collects the FRAGMENTs of each priority, reliable and best effort, apart.",
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        channels = list(itertools.product(range(8), (True, False)))
        asked = [question(target, 300) for _ in channels]
        fragments = [
            _whole(link, each, priority=priority, reliable=reliable)
            for each, (priority, reliable) in zip(asked, channels, strict=True)
        ]
        for turn in zip(*fragments, strict=True):
            for octets in turn:
                link.send_batch(octets)
        seen = taken(link, *asked)
        missing = [channel for channel, took in zip(channels, seen, strict=True) if not took]
        expect(not missing, f"the node did not take the messages of {missing}")


# ---- Markers ----


@BOOK.rule(
    "zenoh-behaviour-2.9/without-first",
    MUST,
    "A receiver drops a message without First in its first FRAGMENT, where patch 1 was agreed.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _needs_patch(link)
        asked = question(target, 300)
        for at, part in enumerate(_parts(asked.octets)):
            link.send_batch(_fragment(link, part, more=at < 2))
        expect(taken(link, asked) == [False], "the node took the message")


@BOOK.rule(
    "zenoh-wire-3.10/first-restarts",
    MUST,
    "A receiver begins a message anew at a FRAGMENT with First, where patch 1 was agreed.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _needs_patch(link)
        given_up, asked = question(target, 300), question(target, 300)
        link.send_batch(_whole(link, given_up)[0])
        link.numbers[DATA, True] -= 2
        for octets in _whole(link, asked):
            link.send_batch(octets)
        expect(
            taken(link, given_up, asked) == [False, True], "the node did not take the second message alone"
        )


@BOOK.rule(
    "zenoh-wire-3.10/drop",
    MUST,
    "A receiver discards what it has collected at a FRAGMENT with Drop, where patch 1 was agreed.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _needs_patch(link)
        given_up, asked = question(target, 300), question(target, 300)
        parts = _parts(given_up.octets)
        link.send_batch(_fragment(link, parts[0], first=True))
        link.send_batch(_fragment(link, b"", drop=True))
        link.send_batch(_fragment(link, parts[1]))
        link.send_batch(_fragment(link, parts[2], more=False))
        for octets in _whole(link, asked):
            link.send_batch(octets)
        expect(
            taken(link, given_up, asked) == [False, True], "the node did not take the second message alone"
        )


@BOOK.rule(
    "zenoh-behaviour-2.9/no-patch",
    MUST,
    "A receiver takes FRAGMENTs without First, where no patch was agreed.",
)
def _(target: Target) -> None:
    with target.link(exts=NO_PATCH) as link:
        asked = question(target, 300)
        for at, part in enumerate(_parts(asked.octets)):
            link.send_batch(_fragment(link, part, more=at < 2))
        expect(taken(link, asked) == [True], "the node did not take the message")


@BOOK.rule(
    "zenoh-wire-3.10/first-without-patch",
    SHOULD,
    "A receiver takes a FRAGMENT with First, where no patch was agreed.",
)
def _(target: Target) -> None:
    with target.link(exts=NO_PATCH) as link:
        asked = question(target, 300)
        for at, part in enumerate(_parts(asked.octets)):
            link.send_batch(_fragment(link, part, more=at < 2, first=at == 0))
        expect(taken(link, asked) == [True], "the node did not take the message")


@BOOK.rule(
    "zenoh-wire-1.8/order-in-fragment", MUST, "A receiver takes the extensions of a FRAGMENT in any order."
)
def _(target: Target) -> None:
    with target.link() as link:
        _needs_patch(link)
        needs(link.has_qos, "QoS")
        asked = question(target, 300)
        first, *others = _whole(link, asked, priority=3)
        swapped = wire.header(0x06, 0x60, (wire.FIRST,)) + b"\x00" + wire.chain((wire.FIRST, (0x31, 3)))
        usual = wire.header(0x06, 0x60, (wire.FIRST,)) + b"\x00" + wire.chain(((0x31, 3), wire.FIRST))
        link.send_batch(swapped + first.removeprefix(usual))
        for octets in others:
            link.send_batch(octets)
        expect(taken(link, asked) == [True], "the node did not take the message")


# ---- Messages that are lost ----


def _loses(numbers: tuple[int, ...], target: Target) -> None:
    """Send four FRAGMENTs of a message in that order, some of them never."""
    with target.link() as link:
        if 3 not in numbers:
            # Without First, the next message cannot be told from the rest of this one.
            _needs_patch(link)
        lost, asked = question(target, 300), question(target, 300)
        parts = _parts(lost.octets, 4)
        fragments = [
            _fragment(link, part, more=at < 3, first=None if at == 0 else False)
            for at, part in enumerate(parts)
        ]
        for at in numbers:
            link.send_batch(fragments[at])
        for octets in _whole(link, asked):
            link.send_batch(octets)
        expect(taken(link, lost, asked) == [False, True], "the node did not take the second message alone")


for _name, _title, _order in (
    ("missing-inner", "without its second FRAGMENT", (0, 2, 3)),
    ("missing-last", "without its last FRAGMENT", (0, 1, 2)),
    ("missing-first", "without its first FRAGMENT", (1, 2, 3)),
    ("out-of-order", "with FRAGMENTs out of order", (0, 2, 1, 3)),
):
    BOOK.rule(
        f"zenoh-wire-3.10/{_name}",
        MUST,
        f"A receiver drops a message {_title}, keeps the link and takes the next one.",
    )(functools.partial(_loses, _order))


@BOOK.rule(
    "zenoh-behaviour-2.9/frame-between",
    SHOULD,
    "A receiver drops a message with a FRAME of its channel between the FRAGMENTs, and takes the FRAME.",
)
def _(target: Target) -> None:
    with target.link() as link:
        lost, asked = question(target, 300), question(target)
        parts = _parts(lost.octets)
        link.send_batch(_fragment(link, parts[0], first=None))
        link.send_batch(link.frame(asked.octets))
        link.send_batch(_fragment(link, parts[1]))
        link.send_batch(_fragment(link, parts[2], more=False))
        expect(taken(link, lost, asked) == [False, True], "the node did not take the FRAME alone")


@BOOK.rule(
    "zenoh-behaviour-2.9/undecodable",
    OBSERVED,
    "A receiver drops FRAGMENTs of bytes that are no message, and keeps the link.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target)
        link.send_fragments(b"\x18" + bytes(50), size=20)
        link.send_batch(link.frame(asked.octets))
        expect(taken(link, asked) == [True], "the node did not take the next message")


@BOOK.rule(
    "zenoh-wire-3.10/trailing",
    OBSERVED,
    "A receiver ignores bytes behind the message that FRAGMENTs make.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        asked, behind = question(target), question(target)
        link.send_fragments(asked.octets + behind.octets, size=20)
        expect(taken(link, asked, behind) == [True, False], "the node did not take the first message alone")


@BOOK.rule(
    "zenoh-wire-9.2/fragment-number-outside",
    SHOULD,
    "A receiver closes the link for a FRAGMENT with a number outside the resolution.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, wire.fragment(link.mask + 2, question(target).octets, more=False, first=True))


# ---- Fragments that the node sends ----


def _sent(
    target: Target,
    octets: bytes,
    sizes: tuple[int, int] = SMALL,
    exts: tuple[wire.Ext, ...] = wire.DEFAULT_EXTENSIONS,
) -> tuple[Link, list[bytes], list[Message]]:
    """Batches, and their messages, by which the node sends a payload to a link with those sizes."""
    key = target.unique_key()
    with target.link(sizes=sizes, exts=exts) as receiver, target.link() as sender:
        receiver.subscribe(key)
        sender.send_fragments(wire.push(key, wire.put(octets), wire.qos(DATA, block=True)), size=20_000)
        batches: list[bytes] = []
        messages: list[Message] = []
        while not _ends(messages):
            try:
                batch = receiver.batch(PATIENCE)
            except TimeoutError:
                raise Deviation(f"{len(batches)} batches came, and no whole message") from None
            if batch is None:
                raise Deviation("the node closed the connection")
            batches.append(batch)
            messages += wire.batch_of(batch)
        return receiver, batches, messages


def _ends(messages: list[Message]) -> bool:
    """Whether the last message is the end of a publication."""
    if not messages:
        return False
    last = messages[-1]
    if last.kind == "FRAME":
        return any(message.kind == "PUSH" for message in last.messages)
    return last.kind == "FRAGMENT" and not last.flags & 0x40


def _only_fragments(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.kind == "FRAGMENT"]


@BOOK.rule(
    "zenoh-wire-3.10/sends", MUST, "A node sends a message that is longer than the agreed batch in FRAGMENTs."
)
def _(target: Target) -> None:
    sent = payload(5000)
    _, _, messages = _sent(target, sent)
    fragments = _only_fragments(messages)
    whole = wire.network_message(wire.Reader(b"".join(each.payload for each in fragments)))
    expect(
        whole.body is not None and whole.body.payload == sent, f"{len(fragments)} FRAGMENTs with other bytes"
    )


@BOOK.rule(
    "zenoh-wire-3.1/sends-within-batch",
    MUST,
    "A node sends batches that are, with their length, at most as long as agreed.",
)
def _(target: Target) -> None:
    receiver, batches, _ = _sent(target, payload(5000))
    longest = max(map(len, batches)) + 2
    expect(longest <= receiver.size, f"a batch of {longest} bytes, where {receiver.size} were agreed")


@BOOK.rule(
    "zenoh-wire-3.1/batch-of-64", SHOULD, "A node sends a message over a link with batches of 64 bytes."
)
def _(target: Target) -> None:
    receiver, batches, _ = _sent(target, payload(1000), (0x0A, 64))
    longest = max(map(len, batches)) + 2
    expect(longest <= receiver.size, f"a batch of {longest} bytes, where {receiver.size} were agreed")


@BOOK.rule(
    "zenoh-wire-3.10/sends-consecutive", MUST, "A node numbers the FRAGMENTs of a message one after another."
)
def _(target: Target) -> None:
    receiver, _, messages = _sent(target, payload(5000))
    numbers = [each.sn for each in _only_fragments(messages)]
    expected = [numbers[0] + at & receiver.mask for at in range(len(numbers))]
    expect(len(numbers) > 1 and numbers == expected, f"numbers {numbers}")


@BOOK.rule(
    "zenoh-wire-3.10/sends-more", MUST, "A node sets M in each FRAGMENT of a message but the last one."
)
def _(target: Target) -> None:
    _, _, messages = _sent(target, payload(5000))
    fragments = _only_fragments(messages)
    more = [bool(each.flags & 0x40) for each in fragments]
    expect(len(more) >= 5000 // SMALL[1], f"only {len(more)} FRAGMENTs came before the last")


@BOOK.rule(
    "zenoh-wire-3.10/sends-first",
    MUST,
    "A node marks the first FRAGMENT of a message by First, and no other, where patch 1 was agreed.",
)
def _(target: Target) -> None:
    receiver, _, messages = _sent(target, payload(5000))
    _needs_patch(receiver)
    marks = [each.ext(0x02) is not None for each in _only_fragments(messages)]
    expect(marks[0] and not any(marks[1:]), f"First at {[at for at, mark in enumerate(marks) if mark]}")


@BOOK.rule(
    "zenoh-wire-3.10/sends-no-marker",
    SHOULD,
    "A node sends FRAGMENTs without First and Drop, where no patch was agreed.",
)
def _(target: Target) -> None:
    _, _, messages = _sent(target, payload(5000), exts=NO_PATCH)
    marked = [each for each in _only_fragments(messages) if each.ext(0x02) or each.ext(0x03)]
    expect(
        not marked,
        f"{len(marked)} FRAGMENTs with markers, the first one {marked[0].raw[:12].hex()}" if marked else "",
    )


@BOOK.rule(
    "zenoh-wire-3.10/sends-when-needed",
    SHOULD,
    "A node sends a message in a FRAME when it fits into an empty batch.",
)
def _(target: Target) -> None:
    _, _, messages = _sent(target, payload(100))
    kinds = {each.kind for each in messages} - {"KEEP_ALIVE"}
    expect(kinds == {"FRAME"}, f"{sorted(kinds)} came")


@BOOK.rule("zenoh-wire-3.10/sends-large", MUST, "A node sends a message of 1 MiB in FRAGMENTs.")
def _(target: Target) -> None:
    sent = payload(LARGE)
    _, _, messages = _sent(target, sent, (0x0A, 65535))
    octets = b"".join(each.payload for each in _only_fragments(messages))
    expect(octets.endswith(sent), f"{len(octets)} bytes came, with other bytes at their end")


BOOK.unreachable(
    "zenoh-wire-3.10/longest",
    SHOULD,
    "A receiver gives up a message that is longer than its largest one, by default 1 GiB.",
    "a message of 1 GiB takes longer than a check may",
)
