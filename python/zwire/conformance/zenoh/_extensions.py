"""Rules of numbers, strings and extensions in the messages of an open link."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import needs
from zwire.conformance.zenoh._probes import (
    ENCODING_3,
    MANDATORY,
    UNKNOWN,
    closes,
    closes_for,
    extended,
    question,
    taken,
    takes,
)
from zwire.conformance.zenoh._scene import body_of, requested, responded
from zwire.conformance.zenoh._wire import DATA, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Link, Target

LARGEST = 2**64 - 1
EDGES = (0, 1, 127, 128, 16_383, 16_384, 2**32 - 1, 2**56 - 1, 2**56, 2**63 - 1, 2**63, LARGEST)
"""Numbers at which the length of their form changes, or its last byte."""


# ---- Numbers ----


@BOOK.rule(
    "zenoh-wire-1.2/long-form", MUST, "A receiver takes numbers that are longer than their shortest form."
)
def _(target: Target) -> None:
    with target.link() as link:
        for at, number in enumerate((b"\x80\x00", b"\x82" + b"\x80" * 7 + b"\x00")):
            link.numbers[DATA, True] = 2 * at + 1
            takes(link, (b"\x25" + number).__add__)


@BOOK.rule(
    "zenoh-wire-1.2/nine-bytes",
    MUST,
    "A receiver takes eight bits of the ninth byte of a number, which is its last one.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        exts: tuple[wire.Ext, ...] = ((0x2E, LARGEST), (0x2D, 2**63))
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), *exts))
        seen = flow.payloads()
        expect(seen == [b"x"], f"payloads {seen}")


@BOOK.rule(
    "zenoh-wire-1.2/lengths",
    MUST,
    "A node takes and sends payloads of 0, 127, 128, 16383 and 16384 bytes.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        sent = [bytes([size % 251]) * size for size in (0, 127, 128, 16_383, 16_384)]
        for each in sent:
            flow.sender.send(wire.push(f"{flow.key}/a", wire.put(each), wire.qos(DATA, block=True)))
        seen = flow.payloads()
        expect(seen == sent, f"payloads of {[len(each) for each in seen]} bytes, or other bytes")


@BOOK.rule("zenoh-wire-1.2/shortest-form", SHOULD, "A node sends a length in its shortest form.")
def _(target: Target) -> None:
    with target.flow() as flow:
        long_form = b"\x01\x83\x80\x00abc"
        flow.sender.send(wire.push(f"{flow.key}/a", long_form))
        (message,) = flow.received()
        raw = message.body.raw if message.body else b""
        expect(raw.endswith(b"\x03abc"), f"PUT {raw.hex()} for the payload 616263")


@BOOK.rule(
    "zenoh-wire-1.2/numbers-forwarded",
    SHOULD,
    "A router forwards numbers of unknown extensions of a PUT with the same value, up to 2^64 - 1.",
    roles=("router",),
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for number in EDGES:
            flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x", (0x2E, number))))
        seen = [message.body.ext(0x2E) for message in flow.received() if message.body]
        expect(seen == list(EDGES), f"values {seen}")


for _id, _level, _title, _octets in (
    (
        "zenoh-wire-1.2/scope-bound",
        OBSERVED,
        "an id of a key above 65535",
        wire.push(Key("a", 65_536), wire.put()),
    ),
    (
        "zenoh-wire-1.2/request-bound",
        OBSERVED,
        "an id of a request above 2^32 - 1",
        wire.request(2**32, "conformance/none", wire.query()),
    ),
    (
        "zenoh-wire-1.2/payload-bound",
        OBSERVED,
        "a payload that claims 2^32 bytes",
        wire.push("conformance/none", b"\x01" + wire.vle(2**32) + b"abc"),
    ),
    (
        "zenoh-wire-1.3/length-past-end",
        SHOULD,
        "a payload that is longer than its batch",
        wire.push("conformance/none", b"\x01\x04abc"),
    ),
    (
        "zenoh-wire-1.3/key-past-end",
        SHOULD,
        "a key that is longer than its batch",
        b"\x7d\x00\x7fconformance",
    ),
    (
        "zenoh-wire-1.3/not-utf-8",
        SHOULD,
        "a key that is not UTF-8",
        wire.push(Key(b"conformance/\xff\xfe"), wire.put()),
    ),
):
    BOOK.rule(
        _id,
        _level,
        f"A receiver closes the link for {_title}.",
        seen=RELEASE if _level is OBSERVED else None,
    )(functools.partial(closes_for, _octets))


@BOOK.rule("zenoh-wire-1.3/utf-8", MUST, "A node takes and sends keys with characters beyond ASCII.")
def _(target: Target) -> None:
    with target.flow() as flow:
        key = f"{flow.key}/žluťoučký/鍵/🔑"
        flow.sender.send(wire.push(key, wire.put(b"x")))
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [key], f"keys {seen}")


# ---- Unknown extensions ----


def _push(target: Target, *exts: wire.Ext) -> bytes:
    return wire.push(f"{target.unique_key()}/none", wire.put(), *exts)


def _put(target: Target, *exts: wire.Ext) -> bytes:
    return wire.push(f"{target.unique_key()}/none", wire.put(b"", *exts))


Carrier = tuple[str, str, "Callable[[Link, tuple[wire.Ext, ...]], bytes]"]
CARRIERS: tuple[Carrier, ...] = (
    ("keep-alive", "a KEEP_ALIVE", lambda _, exts: wire.keep_alive(exts)),
    ("frame", "a FRAME", lambda link, exts: wire.frame(link.number(), b"", exts=exts)),
    ("push", "a PUSH", lambda link, exts: link.frame(_push(link.target, *exts))),
    ("put", "a PUT", lambda link, exts: link.frame(_put(link.target, *exts))),
    (
        "request",
        "a REQUEST",
        lambda link, exts: link.frame(
            wire.request(link.target.unique_id(), f"{link.target.unique_key()}/none", wire.query(), *exts)
        ),
    ),
    (
        "query",
        "a QUERY",
        lambda link, exts: link.frame(
            wire.request(link.target.unique_id(), f"{link.target.unique_key()}/none", wire.query(*exts))
        ),
    ),
    (
        "declare",
        "a DECLARE",
        lambda link, exts: link.frame(wire.declare(wire.d_keyexpr(99, link.target.unique_key()), *exts)),
    ),
    (
        "subscriber",
        "a D_SUBSCRIBER",
        lambda link, exts: link.frame(wire.declare(wire.d_subscriber(99, link.target.unique_key(), *exts))),
    ),
    (
        "interest",
        "an INTEREST",
        lambda link, exts: link.frame(
            wire.interest(99, wire.CURRENT, wire.TOKENS, link.target.unique_key(), *exts)
        ),
    ),
    ("oam", "an OAM", lambda link, exts: link.frame(wire.oam(99, b"abc", *exts))),
)


def _skips(octets: Callable[[Link, tuple[wire.Ext, ...]], bytes], target: Target) -> None:
    with target.link() as link:
        link.send_batch(octets(link, UNKNOWN))
        takes(link, link.frame)


def _refuses(octets: Callable[[Link, tuple[wire.Ext, ...]], bytes], ext: wire.Ext, target: Target) -> None:
    with target.link() as link:
        closes(link, octets(link, (ext,)))


for _name, _title, _carrier in CARRIERS:
    BOOK.rule(
        f"zenoh-wire-1.8/optional-in-{_name}",
        MUST,
        f"A receiver skips unknown extensions of {_title} without the mandatory bit, of each encoding.",
    )(functools.partial(_skips, _carrier))
    BOOK.rule(
        f"zenoh-wire-1.8/mandatory-in-{_name}",
        MUST,
        f"A receiver closes the link for {_title} with an unknown mandatory extension.",
    )(functools.partial(_refuses, _carrier, MANDATORY))
for _name, _title, _carrier in CARRIERS[:4]:
    BOOK.rule(
        f"zenoh-wire-1.8/encoding-3-in-{_name}",
        SHOULD,
        f"A receiver closes the link for {_title} with an extension of encoding 3.",
    )(functools.partial(_refuses, _carrier, ENCODING_3))


@BOOK.rule(
    "zenoh-wire-1.8/optional-in-close",
    MUST,
    "A receiver skips unknown extensions of a CLOSE without the mandatory bit.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, wire.close(exts=UNKNOWN))


@BOOK.rule(
    "zenoh-wire-1.8/optional-in-fragment",
    MUST,
    "A receiver skips unknown extensions of a FRAGMENT without the mandatory bit.",
)
def _(target: Target) -> None:
    with target.link() as link:
        asked = question(target)
        exts = (*UNKNOWN, wire.FIRST)
        octets = wire.header(0x06, 0x20, exts) + wire.vle(link.number()) + wire.chain(exts) + asked.octets
        link.send_batch(octets)
        expect(taken(link, asked) == [True], "the node did not take the message")


@BOOK.rule(
    "zenoh-wire-1.8/chain-runs-out",
    SHOULD,
    "A receiver closes the link for a chain of extensions that ends where another one should follow.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, extended(wire.keep_alive(), (0x8E, None)))


@BOOK.rule(
    "zenoh-wire-1.8/length-of-extension",
    SHOULD,
    "A receiver closes the link for an extension of bytes that is longer than its batch.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, wire.header(0x04, 0, (UNKNOWN[2],)) + b"\x4e\x20abc")


# ---- Known extensions in another form ----


@BOOK.rule(
    "zenoh-wire-1.8/qos-mandatory",
    SHOULD,
    "A receiver closes the link for a PUSH with the mandatory bit at its QoS, as for an unknown extension.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, link.frame(_push(target, (0x31, DATA))))


@BOOK.rule(
    "zenoh-wire-1.8/qos-as-bytes",
    SHOULD,
    "A receiver skips the QoS of a PUSH that comes as bytes.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), (0x41, b"\x01")))
        seen = [message.priority for message in flow.received()]
        expect(seen == [DATA], f"priorities {seen}")


@BOOK.rule(
    "zenoh-wire-1.8/frame-qos-optional",
    SHOULD,
    "A receiver skips the priority of a FRAME that comes without the mandatory bit.",
)
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: wire.frame(link.number(), octets, exts=((0x21, 3),)))
        again = question(target)
        link.send_batch(wire.frame(0, again.octets))
        expect(taken(link, again) == [False], "the node took the number of another channel")


@BOOK.rule(
    "zenoh-wire-1.8/duplicate-in-frame",
    OBSERVED,
    "A receiver takes the last one of several priorities of a FRAME.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
        takes(link, lambda octets: wire.frame(0, octets, exts=((0x31, 2), (0x31, 3))))
        third, second = question(target), question(target)
        link.send_batch(wire.frame(0, third.octets, priority=3))
        link.send_batch(wire.frame(0, second.octets, priority=2))
        expect(taken(link, third, second) == [False, True], "the node counted the FRAME on another channel")


@BOOK.rule(
    "zenoh-wire-1.8/duplicate-in-push",
    OBSERVED,
    "A receiver takes the last one of several QoS of a PUSH.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), wire.qos(2), wire.qos(6)))
        seen = flow.receiver.next("PUSH").priority
        expect(seen == 6, f"priority {seen}")


@BOOK.rule("zenoh-wire-1.8/order-in-push", MUST, "A receiver takes known extensions behind unknown ones.")
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), *UNKNOWN, wire.qos(6)))
        seen = flow.receiver.next("PUSH").priority
        expect(seen == 6, f"priority {seen}")


# ---- Forwarding ----


@BOOK.rule(
    "zenoh-wire-1.8/forwarded-with-put",
    SHOULD,
    "A router forwards unknown extensions of a PUT.",
    roles=("router",),
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x", *UNKNOWN)))
        seen = [message.body.exts for message in flow.received() if message.body]
        expect(len(seen) == 1 and set(UNKNOWN) <= set(seen[0]), f"extensions {seen}")


@BOOK.rule(
    "zenoh-wire-1.8/forwarded-with-del",
    SHOULD,
    "A router forwards unknown extensions of a DEL.",
    roles=("router",),
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.delete(*UNKNOWN)))
        seen = [message.body.exts for message in flow.received() if message.body]
        expect(len(seen) == 1 and set(UNKNOWN) <= set(seen[0]), f"extensions {seen}")


@BOOK.rule(
    "zenoh-wire-1.8/forwarded-with-query",
    SHOULD,
    "A router forwards unknown extensions of a QUERY.",
    roles=("router",),
)
def _(target: Target) -> None:
    seen = body_of(requested(target, wire.query(*UNKNOWN))).exts
    expect(set(UNKNOWN) <= set(seen), f"extensions {seen}")


def _forwards_answer(body: bytes, kind: str, target: Target) -> None:
    got = responded(target, body).body
    expect(got and got.kind == kind, f"{got and got.kind} came")
    expect(got and set(UNKNOWN) <= set(got.exts), f"extensions {got and got.exts}")


for _kind, _body in (
    ("REPLY", wire.reply(wire.put(b"x"), *UNKNOWN)),
    ("ERR", wire.err(b"x", *UNKNOWN)),
):
    BOOK.rule(
        f"zenoh-wire-1.8/forwarded-with-{_kind.lower()}",
        SHOULD,
        f"A router forwards unknown extensions of {'an ERR' if _kind == 'ERR' else 'a REPLY'}.",
        roles=("router",),
    )(functools.partial(_forwards_answer, _body, _kind))


@BOOK.rule(
    "zenoh-wire-1.8/not-forwarded-with-push",
    OBSERVED,
    "A router does not forward unknown extensions of a PUSH.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x"), *UNKNOWN))
        seen = [message.exts for message in flow.received()]
        expect(len(seen) == 1 and not set(UNKNOWN) & set(seen[0]), f"extensions {seen}")


@BOOK.rule(
    "zenoh-wire-9.3/message-in-frame",
    OBSERVED,
    "A receiver takes the byte 04 behind a network message of a FRAME for a KEEP_ALIVE.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        takes(link, lambda octets: link.frame(octets) + struct.pack("B", 0x04))
