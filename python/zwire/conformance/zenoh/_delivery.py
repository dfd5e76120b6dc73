"""Rules of the content of PUSH on its way: quality of service, fields of samples, timestamps."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import PATIENCE, fresh_zid
from zwire.conformance.zenoh._scene import body_of, pushed

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Flow, Link, Target
    from zwire.conformance.zenoh._wire import Message

BLOCK, EXPRESS = 0x08, 0x10
DRIFT = 0.5
"""Seconds that a timestamp may be ahead of the clock of a node (``zenoh-behaviour`` 3.3)."""


def _pushed(flow: Flow, *messages: bytes) -> list[Message]:
    """PUSH messages that arrive for some that are sent."""
    for message in messages:
        flow.sender.send(message)
    return flow.received()


def _quality(message: Message) -> int:
    """Value of the extension QoS, which is 0x05 where it is absent."""
    value = message.ext(0x21)
    return value if isinstance(value, int) and value is not True else 0x05


def _frame_of_push(link: Link) -> Message:
    """The next FRAME with a PUSH."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(TimeoutError):
        while (octets := link.batch(max(deadline - time.monotonic(), 0.001))) is not None:
            for frame in wire.batch_of(octets):
                if "PUSH" in [message.kind for message in frame.messages]:
                    return frame
    raise Deviation("no PUSH came")


# ---- Quality of service ----


@BOOK.rule(
    "zenoh-behaviour-5.3/priority",
    MUST,
    "A node forwards a PUSH with the priority that it came with, of 1 to 7.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for priority in range(1, 8):
            message = wire.push(f"{flow.key}/a", wire.put(), wire.qos(priority))
            flow.sender.send(message, priority=priority if flow.sender.has_qos else wire.DATA)
            got = flow.receiver.next("PUSH")
            expect(got.priority == priority, f"priority {got.priority} for {priority}")


@BOOK.rule(
    "zenoh-behaviour-5.3/congestion-control",
    MUST,
    "A node forwards the congestion control of a PUSH, Block as well as Drop.",
)
def _(target: Target) -> None:
    seen = [_quality(pushed(target, wire.put(), wire.qos(block=block))) & BLOCK for block in (True, False)]
    expect(seen == [BLOCK, 0], f"bit D is {seen} for Block and Drop")


@BOOK.rule("zenoh-behaviour-5.3/express", MUST, "A node forwards the express bit of a PUSH.")
def _(target: Target) -> None:
    seen = [_quality(pushed(target, wire.put(), wire.qos(express=express))) for express in (True, False)]
    expect([value & EXPRESS for value in seen] == [EXPRESS, 0], f"QoS {seen}")


@BOOK.rule(
    "zenoh-wire-4.2/default-quality",
    MUST,
    "A node forwards a PUSH without the extension QoS as one of the value 0x05.",
)
def _(target: Target) -> None:
    value = _quality(pushed(target, wire.put()))
    expect(value == 0x05, f"QoS {value:#x}")


@BOOK.rule(
    "zenoh-behaviour-2.5/frame-of-priority",
    MUST,
    "A node sends a PUSH in a FRAME of the priority of the message, if priorities were agreed.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as sender, target.link() as receiver:
        if not (sender.has_qos and receiver.has_qos):
            raise NotApplicable("the node does not offer priorities")
        receiver.subscribe(key)
        sender.send(wire.push(key, wire.put(), wire.qos(2)), priority=2)
        priority = _frame_of_push(receiver).priority
        expect(priority == 2, f"FRAME of the priority {priority}")


@BOOK.rule(
    "zenoh-behaviour-2.5/best-effort",
    MUST,
    "A node forwards a PUSH that came in a FRAME of the best-effort channel.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"best effort")), reliable=False)
        seen = flow.payloads()
        expect(seen == [b"best effort"], f"payloads {seen}")


@BOOK.rule(
    "zenoh-behaviour-2.5/reliability",
    SHOULD,
    "A node forwards a PUSH in a FRAME of the reliability of that in which it came.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as sender, target.link() as receiver:
        receiver.subscribe(key)
        for reliable in (True, False):
            sender.send(wire.push(key, wire.put()), reliable=reliable)
            flag = _frame_of_push(receiver).flags & 0x20
            expect(bool(flag) == reliable, f"flag R is {flag:#x} for reliable={reliable}")


# ---- Fields of samples ----


@BOOK.rule(
    "zenoh-behaviour-3.4/encoding",
    MUST,
    "A node forwards the encoding of a PUT, with its schema.",
)
def _(target: Target) -> None:
    for encoding in ((4, None), (10, b"a schema"), (0, b""), (32767, None)):
        got = body_of(pushed(target, wire.put(b"x", encoded=wire.encoding(*encoding)))).encoding
        expect(got == encoding, f"encoding {got} for {encoding}")


@BOOK.rule("zenoh-behaviour-3.13/attachment-of-put", MUST, "A node forwards the attachment of a PUT.")
def _(target: Target) -> None:
    got = body_of(pushed(target, wire.put(b"x", (0x43, b"\x00attached\xff")))).ext(0x43)
    expect(got == b"\x00attached\xff", f"attachment {got!r}")


@BOOK.rule("zenoh-behaviour-3.13/attachment-of-del", MUST, "A node forwards the attachment of a DEL.")
def _(target: Target) -> None:
    got = body_of(pushed(target, wire.delete((0x42, b"\x00attached\xff")))).ext(0x42)
    expect(got == b"\x00attached\xff", f"attachment {got!r}")


@BOOK.rule(
    "zenoh-wire-5.1/empty-attachment",
    MUST,
    "A node forwards an empty attachment as an empty one, and no attachment as none.",
)
def _(target: Target) -> None:
    seen = [body_of(pushed(target, wire.put(b"x", *exts))).ext(0x43) for exts in (((0x43, b""),), ())]
    expect(seen == [b"", None], f"attachments {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.13/source-info",
    MUST,
    "A node forwards the source info of PUT and DEL untouched.",
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 300, 70_000)
    seen = [body_of(pushed(target, body)).ext(0x41) for body in (wire.put(b"x", info), wire.delete(info))]
    expect(seen == [info[1]] * 2, f"source info {seen} for {info[1]!r}")


@BOOK.rule(
    "zenoh-behaviour-3.2/delete",
    MUST,
    "A node forwards a DEL as a DEL, in the order among the PUTs of its key.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        bodies = wire.put(b"1"), wire.delete(), wire.put(b"2")
        seen = _pushed(flow, *(wire.push(f"{flow.key}/a", body) for body in bodies))
        kinds = [(m.body.kind, m.body.payload) for m in seen if m.body]
        expect(kinds == [("PUT", b"1"), ("DEL", b""), ("PUT", b"2")], f"got {kinds}")


@BOOK.rule("zenoh-behaviour-3.4/empty-payload", MUST, "A node forwards a PUT with an empty payload.")
def _(target: Target) -> None:
    body = body_of(pushed(target, wire.put(b"")))
    expect((body.kind, body.payload) == ("PUT", b""), f"{body.kind} {body.payload!r}")


@BOOK.rule(
    "zenoh-behaviour-3.4/large-payload",
    MUST,
    "A node forwards a payload of one mebibyte unchanged.",
)
def _(target: Target) -> None:
    payload = bytes(range(256)) * 4096
    with target.flow() as flow:
        flow.sender.send_fragments(wire.push(f"{flow.key}/a", wire.put(payload)), size=30_000)
        seen = flow.payloads()
        expect(seen == [payload], f"payloads of {[len(octets) for octets in seen]} bytes")


# ---- Timestamps ----


def _ntp64(ahead: float = 0.0) -> int:
    """The time in some seconds, as a timestamp has it."""
    return int((time.time() + ahead) * 2**32) & ~0xF


def _seconds(ntp64: int) -> float:
    return ntp64 / 2**32 - time.time()


@BOOK.rule(
    "zenoh-behaviour-3.3/put-is-stamped",
    OBSERVED,
    "A router with its default configuration adds a timestamp to a PUT without one.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    stamp = body_of(pushed(target, wire.put(b"x"))).timestamp
    expect(stamp is not None, "the PUT came without a timestamp")
    expect(
        stamp and abs(_seconds(stamp[0])) < 60, f"its time is {stamp and _seconds(stamp[0]):.0f} s from now"
    )


@BOOK.rule(
    "zenoh-behaviour-3.3/stamp-of-router",
    MUST,
    "The timestamp that a node adds has the node's ZenohID.",
)
def _(target: Target) -> None:
    stamp = body_of(pushed(target, wire.put(b"x"))).timestamp
    if stamp is None:
        raise NotApplicable("the node adds no timestamps")
    expect(stamp[1] == target.zid, f"owner {stamp[1].hex()} of a stamp by {target.zid.hex()}")


@BOOK.rule(
    "zenoh-behaviour-9.2/stamps-grow",
    MUST,
    "The timestamps that a node adds are unique, and each is greater than those before it.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        seen = _pushed(flow, *(wire.push(f"{flow.key}/a", wire.put()) for _ in range(100)))
        stamps = [m.body.timestamp for m in seen if m.body]
        times = [stamp[0] for stamp in stamps if stamp]
        if not times:
            raise NotApplicable("the node adds no timestamps")
        expect(
            times == sorted(set(times)) and len(times) == 100, f"{len(set(times))} different stamps of 100"
        )


@BOOK.rule(
    "zenoh-behaviour-3.3/peer-adds-none",
    OBSERVED,
    "A peer with its default configuration adds no timestamps.",
    seen=RELEASE,
    roles=("peer",),
)
def _(target: Target) -> None:
    stamp = body_of(pushed(target, wire.put(b"x"))).timestamp
    expect(stamp is None, f"timestamp {stamp}")


@BOOK.rule(
    "zenoh-behaviour-3.3/del-is-not-stamped",
    OBSERVED,
    "A node adds no timestamp to a DEL that it forwards.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    stamp = body_of(pushed(target, wire.delete())).timestamp
    expect(stamp is None, f"timestamp {stamp}")


@BOOK.rule(
    "zenoh-behaviour-3.3/past-stamp",
    MUST,
    "A node forwards the timestamps of PUT and DEL from the past as they are.",
)
def _(target: Target) -> None:
    stamp = _ntp64(-3600), fresh_zid()
    for body in (wire.put(b"x", stamp=wire.timestamp(*stamp)), wire.delete(stamp=wire.timestamp(*stamp))):
        got = body_of(pushed(target, body)).timestamp
        expect(got == stamp, f"timestamp {got} for {stamp}")


@BOOK.rule(
    "zenoh-behaviour-3.3/stamp-within-drift",
    MUST,
    "A node forwards a timestamp as it is that is ahead of its clock by less than 500 milliseconds.",
)
def _(target: Target) -> None:
    stamp = _ntp64(DRIFT / 2), fresh_zid()
    got = body_of(pushed(target, wire.put(b"x", stamp=wire.timestamp(*stamp)))).timestamp
    expect(got == stamp, f"timestamp {got} for {stamp}")


@BOOK.rule(
    "zenoh-behaviour-3.3/future-stamp",
    OBSERVED,
    "A router with its default configuration replaces a timestamp of an hour ahead by its own.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    got = body_of(pushed(target, wire.put(b"x", stamp=wire.timestamp(_ntp64(3600), fresh_zid())))).timestamp
    expect(got and abs(_seconds(got[0])) < 60, f"timestamp {got}")
    expect(got and got[1] == target.zid, f"owner {got and got[1].hex()}")


@BOOK.rule(
    "zenoh-behaviour-3.3/future-stamp-of-del",
    OBSERVED,
    "A router forwards a DEL with a timestamp of an hour ahead as it is.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    stamp = _ntp64(3600), fresh_zid()
    got = body_of(pushed(target, wire.delete(stamp=wire.timestamp(*stamp)))).timestamp
    expect(got == stamp, f"timestamp {got}")


@BOOK.rule(
    "zenoh-behaviour-3.3/future-stamp-does-no-harm",
    SHOULD,
    "A timestamp of an hour ahead does not carry the clock of a node into the future.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        far = wire.timestamp(_ntp64(3600), fresh_zid())
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x", stamp=far)))
        seen = _pushed(flow, wire.push(f"{flow.key}/b", wire.put(b"y")))
        stamps = [m.body.timestamp for m in seen if m.body and m.body.payload == b"y"]
        expect(len(stamps) == 1, f"{len(stamps)} PUSH messages came for one")
        if stamps[0] is None:
            raise NotApplicable("the node adds no timestamps")
        ahead = _seconds(stamps[0][0])
        expect(abs(ahead) < 60, f"the next stamp is {ahead:.0f} s from now")


BOOK.unreachable(
    "zenoh-behaviour-2.8/drop-under-congestion",
    MUST,
    "A node drops PUSH messages with Drop for a receiver that does not read, and keeps its link.",
    "the buffers between the node and a receiver that does not read have no known size",
)
