"""Questions that show whether a node has taken a message, and bytes that no writer makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zwire.conformance._rules import Deviation, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._link import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Link, Target
    from zwire.conformance.zenoh._wire import Message

INVALID, MAX_LINKS, TO_SELF = 2, 4, 7
"""Reasons of CLOSE."""
UNKNOWN_UNIT: wire.Ext = (0x0E, None)
UNKNOWN_NUMBER: wire.Ext = (0x2E, 300)
UNKNOWN_BYTES: wire.Ext = (0x4E, b"unknown")
UNKNOWN = (UNKNOWN_UNIT, UNKNOWN_NUMBER, UNKNOWN_BYTES)
"""Extensions that no message has, one of each encoding."""
MANDATORY: wire.Ext = (0x1E, None)
"""Extension that no message has, with the mandatory bit."""
ENCODING_3: wire.Ext = (0x6E, None)
"""Header of an extension with the reserved encoding."""


class Question(NamedTuple):
    """REQUEST that no queryable answers: a node that takes it answers by RESPONSE_FINAL."""

    id: int
    octets: bytes


def question(target: Target, size: int = 0) -> Question:
    """A question, with parameters of that many bytes."""
    id = target.unique_id()
    body = wire.query(parameters="a" * size) if size else wire.query()
    return Question(id, wire.request(id, f"{target.unique_key()}/question", body))


def taken(link: Link, *questions: Question) -> list[bool]:
    """Whether the node has taken each of the questions; raises Deviation after the end of the link."""
    answered = {message.id for message in link.barrier() if message.kind == "RESPONSE_FINAL"}
    return [asked.id in answered for asked in questions]


def takes(link: Link, batch: Callable[..., bytes], **options: object) -> None:
    """Expect that the node takes a question within the batch that the function makes of it."""
    asked = question(link.target)
    link.send_batch(batch(asked.octets, **options))
    expect(taken(link, asked) == [True], "the node did not take the message, and kept the link")


def drops(link: Link, batch: Callable[..., bytes], **options: object) -> None:
    """Expect that the node drops a question within the batch of the function, and keeps the link."""
    asked = question(link.target)
    link.send_batch(batch(asked.octets, **options))
    expect(taken(link, asked) == [False], "the node took the message")


def closes(link: Link, *messages: bytes) -> None:
    """Expect that the node closes the link because of a batch."""
    link.send_batch(*messages)
    expect(link.closed(), f"the node kept the link for {PATIENCE:g} s")


def closes_for(octets: bytes, target: Target, *, in_frame: bool = True) -> None:
    """Expect that the node closes a link because of a network message, or because of a transport message."""
    with target.link() as link:
        closes(link, link.frame(octets) if in_frame else octets)


def next_transport(link: Link, timeout: float = PATIENCE) -> Message:
    """The next transport message; raises Deviation at the end of the link, or if none comes."""
    try:
        message = link.transport(timeout)
    except TimeoutError:
        raise Deviation(f"nothing came within {timeout:g} s") from None
    if message is None:
        raise Deviation("the node closed the connection")
    return message


def flagged(octets: bytes, bits: int) -> bytes:
    """A message with further bits in its first byte."""
    return bytes([octets[0] | bits]) + octets[1:]


def extended(octets: bytes, *exts: wire.Ext) -> bytes:
    """A message that ends behind its extensions and has none, with extensions."""
    return flagged(octets, 0x80) + wire.chain(exts)
