"""Rules of sequence numbers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, SHOULD
from zwire.conformance.zenoh._link import needs
from zwire.conformance.zenoh._probes import closes, drops, next_transport, question, takes

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target

WIDTHS = ((0, 8, 0x7F), (1, 16, 0x3FFF), (2, 32, 0x0FFF_FFFF))
"""Resolution, its name in bits, and its largest number."""


def _sized(target: Target, resolution: int, mask: int, first: int = 0) -> Link:
    link = target.link(sizes=(0x08 | resolution, 65535), first=first)
    if link.mask != mask:
        link.stream.close()
        needs(False, f"numbers up to {mask:#x}")
    return link


@BOOK.rule(
    "zenoh-wire-3.11/old-number", MUST, "A receiver drops a FRAME with a sequence number that is not new."
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"first")))
        flow.sender.send_batch(wire.frame(0, wire.push(f"{flow.key}/a", wire.put(b"again"))))
        seen = flow.payloads()
        expect(seen == [b"first"], f"payloads {seen}")


@BOOK.rule(
    "zenoh-wire-3.11/older-number", MUST, "A receiver drops a FRAME with a number before the last one."
)
def _(target: Target) -> None:
    with target.link(first=100) as link:
        link.send_batch(link.frame())
        drops(link, lambda octets: wire.frame(95, octets))


@BOOK.rule("zenoh-wire-3.11/gap", MUST, "A receiver takes a FRAME with a number that leaves out others.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send_batch(link.frame())
        link.numbers[wire.DATA, True] = 1001
        takes(link, link.frame)


@BOOK.rule(
    "zenoh-wire-3.11/after-dropped",
    MUST,
    "A FRAME that was dropped for its number leaves the number that is expected next as it was.",
)
def _(target: Target) -> None:
    with target.link(first=100) as link:
        link.send_batch(link.frame())
        drops(link, lambda octets: wire.frame(90, octets))
        takes(link, link.frame)


@BOOK.rule(
    "zenoh-wire-3.11/best-effort-alike",
    MUST,
    "A receiver drops a best-effort FRAME with a sequence number that is not new.",
)
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: wire.frame(0, octets, reliable=False))
        drops(link, lambda octets: wire.frame(0, octets, reliable=False))


@BOOK.rule(
    "zenoh-wire-3.11/reliability-apart",
    MUST,
    "A receiver counts the numbers of reliable and of best-effort FRAMEs apart.",
)
def _(target: Target) -> None:
    with target.link() as link:
        link.numbers[wire.DATA, True] = 500
        takes(link, link.frame)
        takes(link, lambda octets: link.frame(octets, reliable=False))


@BOOK.rule("zenoh-wire-3.11/priorities-apart", MUST, "A receiver counts the numbers of each priority apart.")
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        for priority in range(8):
            link.numbers[priority, True] = 100 * (8 - priority)
            takes(link, link.frame, priority=priority)


def _wraps(resolution: int, mask: int, target: Target) -> None:
    with _sized(target, resolution, mask, mask) as link:
        takes(link, link.frame)
        takes(link, link.frame)
        drops(link, lambda octets: wire.frame(mask, octets))


def _farthest(resolution: int, mask: int, target: Target) -> None:
    with _sized(target, resolution, mask) as link:
        link.send_batch(link.frame())
        link.numbers[wire.DATA, True] = mask >> 1
        takes(link, link.frame)


def _too_far(resolution: int, mask: int, target: Target) -> None:
    with _sized(target, resolution, mask) as link:
        link.send_batch(link.frame())
        drops(link, lambda octets: wire.frame((mask >> 1) + 1, octets))


def _outside(resolution: int, mask: int, target: Target) -> None:
    with _sized(target, resolution, mask) as link:
        link.send_batch(link.frame())
        closes(link, wire.frame(mask + 2, question(target).octets))


for _resolution, _bits, _mask in WIDTHS:
    for _name, _level, _sentence, _check in (
        ("wraps", MUST, f"A receiver takes 0 after {_mask:#x} at a resolution of {_bits} bits.", _wraps),
        (
            "farthest",
            MUST,
            f"A receiver takes a number {_mask >> 1:#x} after the last one, with {_bits} bits.",
            _farthest,
        ),
        (
            "too-far",
            MUST,
            f"A receiver drops a number {(_mask >> 1) + 1:#x} after the last one, with {_bits} bits.",
            _too_far,
        ),
        (
            "outside",
            SHOULD,
            f"A receiver closes the link for a number above {_mask:#x} at a resolution of {_bits} bits.",
            _outside,
        ),
    ):
        BOOK.rule(f"zenoh-wire-3.11/{_name}-{_bits}-bit", _level, _sentence)(
            functools.partial(_check, _resolution, _mask)
        )


@BOOK.rule(
    "zenoh-wire-3.11/sends-in-order", MUST, "A node numbers its FRAMEs on a channel one after another."
)
def _(target: Target) -> None:
    with target.link() as link:
        numbers = _numbers(link, 10)
        expect(numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"numbers {numbers}")


@BOOK.rule(
    "zenoh-wire-3.11/sends-wrapped",
    MUST,
    "A node counts its own numbers modulo the agreed resolution.",
)
def _(target: Target) -> None:
    with _sized(target, 0, 0x7F) as link:
        numbers = _numbers(link, 140)
        expected = [(numbers[0] + at) & 0x7F for at in range(len(numbers))]
        expect(numbers == expected, f"numbers {numbers}")


def _numbers(link: Link, count: int) -> list[int]:
    """Numbers of the FRAMEs that answer questions, which are asked one by one."""
    numbers = []
    for _ in range(count):
        link.send(question(link.target).octets)
        frame = next_transport(link)
        while frame.kind != "FRAME":
            frame = next_transport(link)
        numbers.append(frame.sn)
    return numbers
