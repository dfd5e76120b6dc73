"""Rules of an open link: batches, CLOSE, KEEP_ALIVE, FRAME, priorities, and messages that are ignored."""

from __future__ import annotations

import functools
import struct
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import Level, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import needs
from zwire.conformance.zenoh._probes import (
    closes,
    closes_for,
    drops,
    flagged,
    next_transport,
    question,
    taken,
    takes,
)
from zwire.conformance.zenoh._wire import CONTROL, DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Link, Target

LEASE = 1.0
"""Seconds of the lease that checks of expiry announce."""
BEFORE, AFTER = 0.75, 2.0
"""Shares of a lease between which a node gives up a silent link."""
LONGEST_LEASE = 20.0
"""Longest lease, in seconds, of which checks wait for the keep-alives."""
NO_QOS = (wire.PATCH,)
"""Extensions of an INIT without priorities."""


# ---- Keep-alives and leases: they last longest, so they come first ----


@BOOK.rule(
    "zenoh-behaviour-2.6/keep-alive-sent",
    SHOULD,
    "A node sends KEEP_ALIVE on a link when it has sent nothing for a quarter of its lease.",
)
def _(target: Target) -> None:
    with target.link() as link:
        lease = link.open_ack.lease_ms / 1000
        needs(lease <= LONGEST_LEASE, f"a lease of {LONGEST_LEASE:g} s or less")
        begin = time.monotonic()
        message = next_transport(link, lease)
        expect(message.kind == "KEEP_ALIVE", f"{message.kind} {message.raw.hex()} came")
        waited = time.monotonic() - begin
        expect(waited < lease * 0.3, f"it came after {waited:.2f} s, with a lease of {lease:g} s")


@BOOK.rule(
    "zenoh-wire-3.8/sent-within-lease",
    MUST,
    "A node sends a batch on an idle link before its own lease ends.",
)
def _(target: Target) -> None:
    with target.link() as link:
        lease = link.open_ack.lease_ms / 1000
        needs(lease <= LONGEST_LEASE, f"a lease of {LONGEST_LEASE:g} s or less")
        next_transport(link, lease)


@BOOK.rule(
    "zenoh-wire-1.7/keep-alive-sent", MUST, "A KEEP_ALIVE of a node has 0 in the reserved bits of its header."
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.open_ack.lease_ms <= LONGEST_LEASE * 1000, f"a lease of {LONGEST_LEASE:g} s or less")
        message = next_transport(link, link.open_ack.lease_ms / 1000)
        expect(not message.flags & 0x60, f"{message.kind} {message.raw.hex()}")


@BOOK.rule(
    "zenoh-behaviour-2.6/expires",
    MUST,
    "A node closes a link on which nothing came for the lease that the other side announced.",
)
def _(target: Target) -> None:
    with target.link(lease_ms=int(LEASE * 1000)) as link:
        begin = time.monotonic()
        expect(link.closed(LEASE * AFTER), f"the link is open after {LEASE * AFTER:g} s")
        waited = time.monotonic() - begin
        expect(waited > LEASE * BEFORE, f"closed after {waited:.2f} s, with a lease of {LEASE:g} s")


@BOOK.rule(
    "zenoh-wire-3.8/expires-without-close",
    OBSERVED,
    "A node closes an expired link without a CLOSE.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link(lease_ms=int(LEASE * 1000)) as link:
        reason = link.close_reason(LEASE * AFTER)
        expect(reason is None, f"CLOSE {reason}")


def _refreshes(batch: Callable[[Link], bytes], target: Target) -> None:
    with target.link(lease_ms=int(LEASE * 1000)) as link:
        until = time.monotonic() + LEASE * 1.5
        while time.monotonic() < until:
            link.send_batch(batch(link))
            time.sleep(LEASE / 5)
        expect(link.lives(), "the node closed the link")


REFRESHING: tuple[tuple[str, Level, str, Callable[[Link], bytes]], ...] = (
    ("zenoh-wire-3.8/keep-alive-refreshes", MUST, "A KEEP_ALIVE", lambda _: wire.keep_alive()),
    ("zenoh-wire-3.8/frame-refreshes", MUST, "A FRAME", lambda link: link.frame()),
    ("zenoh-behaviour-2.6/empty-batch-refreshes", OBSERVED, "An empty batch", lambda _: b""),
)
for _id, _level, _name, _batch in REFRESHING:
    BOOK.rule(
        _id,
        _level,
        f"{_name} begins the lease of its sender anew.",
        seen=RELEASE if _level is OBSERVED else None,
    )(functools.partial(_refreshes, _batch))


# ---- Batches ----


@BOOK.rule("zenoh-behaviour-2.7/split-batch", MUST, "A receiver joins a batch that arrives in several reads.")
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target)
        body = link.frame(asked.octets)
        for octet in struct.pack("<H", len(body)) + body:
            link.send_bytes(bytes([octet]))
            time.sleep(0.001)
        expect(taken(link, asked) == [True], "the node did not take the message")


@BOOK.rule(
    "zenoh-behaviour-2.7/joined-batches",
    MUST,
    "A receiver takes several batches that arrive in one read.",
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = [question(target) for _ in range(20)]
        bodies = [link.frame(each.octets) for each in asked]
        link.send_bytes(b"".join(struct.pack("<H", len(body)) + body for body in bodies))
        expect(all(taken(link, *asked)), "the node did not take all messages")


@BOOK.rule(
    "zenoh-wire-3.1/mixed-batch",
    MUST,
    "A receiver takes a batch of FRAME, KEEP_ALIVE and FRAME, in which the KEEP_ALIVE ends the first FRAME.",
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target), question(target)
        link.send_batch(link.frame(asked[0].octets), wire.keep_alive(), link.frame(asked[1].octets))
        expect(all(taken(link, *asked)), "the node did not take both messages")


@BOOK.rule("zenoh-wire-3.1/empty-batch", SHOULD, "A receiver ignores an empty batch.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send_batch()
        takes(link, link.frame)


def _full(link: Link, beyond: int = 0) -> bytes:
    """FRAME that fills the agreed batch, or passes its end by some bytes."""
    frame = link.frame(wire.push(f"{link.target.unique_key()}/full", wire.put()))
    room = link.size - 2 - len(frame) + beyond
    payload = bytes(room - (len(wire.vle(room)) - 1))
    # The length of the payload replaces that of the empty one, at the end of the message.
    return frame[:-1] + wire.sized(payload)


def _takes_full(sizes: tuple[int, int], target: Target) -> None:
    with target.link(sizes=sizes) as link:
        octets = _full(link)
        expect(len(octets) == link.size - 2, f"the check made {len(octets)} bytes")
        link.send_batch(octets)
        expect(link.lives(), f"the node closed the link after {len(octets)} bytes of {link.size}")


for _id, _sizes, _title in (
    ("zenoh-behaviour-0/full-batch", (0x0A, 2000), "2000 bytes"),
    ("zenoh-wire-3.1/largest-batch", (0x0A, 65535), "the size that it answers to 65535"),
):
    BOOK.rule(
        _id, MUST, f"A receiver takes a batch that fills {_title} with its length of two bytes, if agreed."
    )(functools.partial(_takes_full, _sizes))


@BOOK.rule(
    "zenoh-behaviour-0/batch-beyond",
    SHOULD,
    "A receiver closes the link for a batch that is one byte longer than agreed.",
)
def _(target: Target) -> None:
    with target.link(sizes=(0x0A, 2000)) as link:
        closes(link, _full(link, 1))


# ---- CLOSE ----


for _name, _level, _sentence, _octets in (
    ("link", MUST, "A receiver of CLOSE closes the connection.", wire.close()),
    (
        "session",
        MUST,
        "A receiver of CLOSE for the whole session closes the connection.",
        wire.close(session=True),
    ),
    (
        "unknown-reason",
        MUST,
        "A receiver of CLOSE with an unknown reason closes the connection.",
        wire.close(200),
    ),
    ("reserved-bit", MUST, "A receiver of CLOSE ignores its reserved bit.", flagged(wire.close(), 0x40)),
):
    BOOK.rule(f"zenoh-wire-3.7/{_name}", _level, _sentence)(
        functools.partial(closes_for, _octets, in_frame=False)
    )


@BOOK.rule("zenoh-wire-3.7/no-echo", OBSERVED, "A receiver of CLOSE sends no CLOSE back.", seen=RELEASE)
def _(target: Target) -> None:
    with target.link() as link:
        link.send_batch(wire.close())
        reason = link.close_reason()
        expect(reason is None, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-behaviour-2.7/close-behind-frame",
    MUST,
    "A receiver takes the messages that stand before a CLOSE in its batch.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send_batch(
            flow.sender.frame(wire.push(f"{flow.key}/a", wire.put(b"last words"))), wire.close()
        )
        expect(flow.sender.closed(), "the node kept the link")
        message = flow.receiver.next("PUSH")
        expect(message.body is not None and message.body.payload == b"last words", message.raw.hex())


# ---- FRAME ----


@BOOK.rule("zenoh-wire-3.9/empty-frame", SHOULD, "A receiver takes a FRAME without messages.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send_batch(link.frame())
        takes(link, link.frame)


@BOOK.rule(
    "zenoh-wire-3.9/several-messages", MUST, "A receiver takes all messages of a FRAME in their order."
)
def _(target: Target) -> None:
    with target.flow() as flow:
        payloads = [b"%d" % at for at in range(50)]
        flow.sender.send(*(wire.push(f"{flow.key}/a", wire.put(payload)) for payload in payloads))
        seen = flow.payloads()
        expect(seen == payloads, f"payloads {seen}")


@BOOK.rule("zenoh-wire-3.9/best-effort", MUST, "A receiver takes a FRAME without the reliable flag.")
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: link.frame(octets, reliable=False))


@BOOK.rule(
    "zenoh-wire-3.9/explicit-data",
    MUST,
    "A receiver takes a FRAME that names the priority Data, where QoS was agreed.",
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        takes(link, lambda octets: wire.frame(link.number(), octets, exts=((0x31, DATA),)))


@BOOK.rule(
    "zenoh-wire-3.9/upper-bits",
    OBSERVED,
    "A receiver ignores the bits above 2:0 in the priority of a FRAME.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        takes(link, lambda octets: wire.frame(0, octets, exts=((0x31, 0xF8 | 3),)))
        drops(link, lambda octets: wire.frame(0, octets, priority=3))


@BOOK.rule("zenoh-wire-1.7/frame-reserved", MUST, "A receiver ignores the reserved bit of a FRAME.")
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: flagged(link.frame(octets), 0x40))


@BOOK.rule(
    "zenoh-wire-1.7/keep-alive-reserved", MUST, "A receiver ignores the reserved bits of a KEEP_ALIVE."
)
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: flagged(wire.keep_alive(), 0x60) + link.frame(octets))


@BOOK.rule("zenoh-wire-1.7/frame-sent", MUST, "A FRAME of a node has 0 in its reserved bit.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send(question(target).octets)
        frame = next_transport(link)
        expect(frame.kind == "FRAME" and not frame.flags & 0x40, f"{frame.kind} {frame.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-9.2/earlier-messages",
    OBSERVED,
    "A receiver delivers the messages of a FRAME that stand before an undecodable one, and closes the link.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.flow() as flow:
        closes(flow.sender, flow.sender.frame(wire.push(f"{flow.key}/a", wire.put(b"early")), b"\x18\x00"))
        message = flow.receiver.next("PUSH")
        expect(message.body is not None and message.body.payload == b"early", message.raw.hex())


@BOOK.rule(
    "zenoh-wire-9.2/no-close",
    OBSERVED,
    "A node sends no CLOSE before it closes a link for messages that it cannot decode.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send_batch(link.frame(b"\x18\x00"))
        reason = link.close_reason()
        expect(reason is None, f"CLOSE {reason}")


for _id, _title, _octets in (
    ("zenoh-wire-9.2/unknown-network-id", "an unknown message in a FRAME", b"\x18\x00"),
    ("zenoh-wire-9.2/junk", "junk in a FRAME", b"\xff"),
    ("zenoh-wire-9.2/truncated", "a network message that ends within its key", wire.push("k", b"")[:-1]),
    ("zenoh-wire-9.2/no-body", "a PUSH without a body", wire.push("k", b"")),
):
    BOOK.rule(_id, SHOULD, f"A receiver closes the link for {_title}.")(
        functools.partial(closes_for, _octets)
    )


for _name, _title, _octets in (
    ("unknown-transport-id", "an unknown transport message", b"\x08\x00"),
    ("empty-close", "a CLOSE without a reason", b"\x03"),
    ("frame-without-number", "a FRAME without a sequence number", b"\x25"),
):
    BOOK.rule(f"zenoh-wire-9.2/{_name}", SHOULD, f"A receiver closes the link for {_title}.")(
        functools.partial(closes_for, _octets, in_frame=False)
    )


# ---- Priorities ----


@BOOK.rule(
    "zenoh-behaviour-0/priority-without-qos",
    SHOULD,
    "A receiver closes the link for a FRAME with a priority other than Data when QoS was not agreed.",
)
def _(target: Target) -> None:
    with target.link(exts=NO_QOS) as link:
        closes(link, wire.frame(0, question(target).octets, priority=4))


@BOOK.rule(
    "zenoh-behaviour-0/message-qos-without-qos",
    MUST,
    "A receiver takes a network message with a priority of its own when QoS was not agreed.",
)
def _(target: Target) -> None:
    with target.flow(exts=NO_QOS) as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), wire.qos(2)))
        seen = flow.receiver.next("PUSH")
        expect(seen.priority == 2, f"priority {seen.priority}")


@BOOK.rule(
    "zenoh-wire-3.6/sends-data-without-qos",
    MUST,
    "A node sends no priority in its FRAMEs when QoS was not agreed.",
)
def _(target: Target) -> None:
    with target.link(exts=NO_QOS) as receiver, target.link() as sender:
        key = target.unique_key()
        receiver.subscribe(key)
        sender.send(wire.push(key, wire.put(b"x"), wire.qos(2)), priority=2 if sender.has_qos else DATA)
        frame = next_transport(receiver)
        expect(frame.kind == "FRAME" and frame.ext(0x31) is None, f"{frame.kind} {frame.raw.hex()}")


@BOOK.rule(
    "zenoh-behaviour-2.5/sends-priority",
    SHOULD,
    "A node sends a message in a FRAME of the priority that the message has, where QoS was agreed.",
)
def _(target: Target) -> None:
    with target.link() as receiver, target.link() as sender:
        needs(receiver.has_qos, "QoS")
        key = target.unique_key()
        receiver.subscribe(key)
        for priority in range(1, 8):
            sender.send(wire.push(key, wire.put(b"x"), wire.qos(priority)), priority=priority)
            frame = next_transport(receiver)
            expect(frame.priority == priority, f"FRAME of priority {frame.priority} for {priority}")


@BOOK.rule("zenoh-wire-3.9/data-elided", SHOULD, "A node leaves the priority Data out of its FRAMEs.")
def _(target: Target) -> None:
    with target.link() as link:
        link.send(question(target).octets)
        frame = next_transport(link)
        expect(frame.kind == "FRAME" and frame.ext(0x31) is None, f"{frame.kind} {frame.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-3.16/declarations-on-control",
    SHOULD,
    "A node sends declarations in reliable FRAMEs of the priority Control, where QoS was agreed.",
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        asked = wire.interest(7, wire.CURRENT, wire.TOKENS, target.unique_key())
        link.send(asked, priority=CONTROL)
        frame = next_transport(link)
        expect(frame.kind == "FRAME", f"{frame.kind} {frame.raw.hex()}")
        expect(frame.priority == CONTROL and frame.flags & 0x20, frame.raw.hex())


@BOOK.rule(
    "zenoh-behaviour-2.5/priority-of-answer",
    OBSERVED,
    "A node answers a request on the priority of the request.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        id = target.unique_id()
        link.send(wire.request(id, target.unique_key(), wire.query(), wire.qos(3, block=True)), priority=3)
        frame = next_transport(link)
        expect(frame.kind == "FRAME" and frame.priority == 3, f"{frame.kind} {frame.raw.hex()}")


# ---- Messages that an open link ignores ----


def _ignored(octets: Callable[[Link], bytes], target: Target) -> None:
    with target.link() as link:
        link.send_batch(octets(link))
        takes(link, link.frame)


def _join(link: Link) -> bytes:
    flags = (len(link.zid) - 1) << 4 | wire.CLIENT
    return b"\x07\x09" + bytes([flags]) + link.zid + wire.vle(10_000) + b"\x00\x00"


IGNORED: tuple[tuple[str, Level, str, Callable[[Link], bytes]], ...] = (
    ("zenoh-wire-3.5/init-later", SHOULD, "an INIT SYN", lambda link: wire.init(link.zid)),
    (
        "zenoh-behaviour-2.12/open-later",
        SHOULD,
        "an OPEN SYN",
        lambda link: wire.open_syn(link.init_ack.cookie),
    ),
    ("zenoh-wire-3.5/join-later", SHOULD, "a JOIN", _join),
    ("zenoh-wire-3.12/oam-unit", MUST, "a transport OAM without a body", lambda _: b"\x00\x63"),
    ("zenoh-wire-3.12/oam-number", MUST, "a transport OAM with a number", lambda _: b"\x20\x63\xac\x02"),
    ("zenoh-wire-3.12/oam-bytes", MUST, "a transport OAM with bytes", lambda _: b"\x40\x63\x03abc"),
    (
        "zenoh-wire-3.12/oam-priority",
        MUST,
        "a transport OAM with a priority",
        lambda link: b"\xc0\x63" + wire.chain(((0x31, 2),) if link.has_qos else ((0x21, 2),)) + b"\x03abc",
    ),
)
for _id, _level, _title, _batch in IGNORED:
    BOOK.rule(_id, _level, f"A receiver ignores {_title} on an open link.")(
        functools.partial(_ignored, _batch)
    )


@BOOK.rule(
    "zenoh-wire-3.12/encoding-3", SHOULD, "A receiver closes the link for a transport OAM of encoding 3."
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, b"\x60\x63")


# ---- Out of reach ----

DATAGRAMS = "the suite speaks TCP; JOIN is a message of multicast groups"
for _id, _level, _sentence in (
    ("zenoh-wire-3.15/period", MUST, "A node of a multicast group sends JOIN every 2500 ms."),
    (
        "zenoh-wire-3.15/equal",
        MUST,
        "A node takes a JOIN only with its own version, resolution and batch size.",
    ),
    ("zenoh-wire-3.15/unknown-source", MUST, "A node ignores FRAMEs of an address that has sent no JOIN."),
    ("zenoh-wire-3.15/numbers", MUST, "A node announces its next sequence numbers in each JOIN."),
    ("zenoh-wire-3.15/lease", MUST, "A node removes a member of the group after its lease."),
):
    BOOK.unreachable(_id, _level, _sentence, DATAGRAMS)
BOOK.unreachable(
    "zenoh-wire-3.16/unresponsive",
    SHOULD,
    "A node closes a link that takes no message for 5 s while messages wait that must not be dropped.",
    "buffers of the two systems take an unknown amount before the node sees that nothing is read",
)
