"""Rules of the layout of data messages: timestamps, encodings, PUT, DEL, QUERY, REPLY and ERR."""

from __future__ import annotations

import functools
import itertools
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import fresh_zid
from zwire.conformance.zenoh._scene import (
    body_of,
    clients,
    pushed,
    replies,
    requested,
    responded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Target
    from zwire.conformance.zenoh._wire import Message

KNOWN_ENCODINGS = range(53)
"""Ids of the table of encodings, without that of custom ones."""
CUSTOM = 65_535
OPAQUE = bytes(range(256))
"""Bytes that no text has."""
DEFAULT_ENCODING = (None, (0, None))
"""Both forms of the default: no encoding, and the id 0 without schema."""


def _value(target: Target, body: bytes) -> Message:
    """A PUT or DEL as it arrives in a PUSH."""
    return body_of(pushed(target, body))


def _query(target: Target, body: bytes) -> Message:
    return body_of(requested(target, body))


def _error(target: Target, body: bytes) -> Message:
    return body_of(responded(target, body))


def _past() -> int:
    """A time of a minute ago, as a timestamp has it."""
    return int((time.time() - 60) * 2**32)


# ---- Timestamps ----


@BOOK.rule("zenoh-wire-1.5/id-lengths", MUST, "A node forwards timestamps with ids of 1 to 16 bytes.")
def _(target: Target) -> None:
    for length in (1, 2, 4, 8, 15, 16):
        stamp = _past(), fresh_zid()[-length:]
        got = _value(target, wire.put(b"x", stamp=wire.timestamp(*stamp))).timestamp
        expect(got == stamp, f"timestamp {got} for {stamp}")


@BOOK.rule("zenoh-wire-1.5/all-bits", MUST, "A node forwards all 64 bits of the time of a timestamp.")
def _(target: Target) -> None:
    for low in (0xF, 0x0, 0x9):
        stamp = _past() & ~0xF | low, fresh_zid()
        got = _value(target, wire.put(b"x", stamp=wire.timestamp(*stamp))).timestamp
        expect(got == stamp, f"timestamp {got} for {stamp}")


@BOOK.rule("zenoh-wire-1.5/begin-of-time", MUST, "A node forwards timestamps of 1970, 0 included.")
def _(target: Target) -> None:
    for ntp64 in (0, 1, 2**32):
        stamp = ntp64, fresh_zid()
        for body in (wire.put(b"x", stamp=wire.timestamp(*stamp)), wire.delete(stamp=wire.timestamp(*stamp))):
            got = _value(target, body).timestamp
            expect(got == stamp, f"timestamp {got} for {stamp}")


@BOOK.rule(
    "zenoh-wire-1.5/two-seconds-ahead",
    OBSERVED,
    "A router with its default configuration replaces a timestamp of two seconds ahead by its own.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    ahead = int((time.time() + 2) * 2**32)
    got = _value(target, wire.put(b"x", stamp=wire.timestamp(ahead, fresh_zid()))).timestamp
    expect(got and got[1] == target.zid and got[0] < ahead, f"timestamp {got}")


@BOOK.rule(
    "zenoh-wire-1.5/clock-follows",
    SHOULD,
    "A timestamp that a node adds is greater than each one within the drift that it has received before.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        ahead = int((time.time() + 0.3) * 2**32)
        flow.sender.send(
            wire.push(f"{flow.key}/a", wire.put(b"1", stamp=wire.timestamp(ahead, fresh_zid()))),
            wire.push(f"{flow.key}/a", wire.put(b"2")),
        )
        stamps = [message.body.timestamp for message in flow.received() if message.body]
        expect(len(stamps) == 2, f"{len(stamps)} PUSH messages came for two")
        if stamps[-1] is None:
            raise NotApplicable("the node adds no timestamps")
        expect(stamps[-1][0] > ahead, f"{(ahead - stamps[-1][0]) / 2**32:.3f} s before the received one")


# ---- Encodings ----


def _encoded(target: Target, id: int, schema: bytes | None = None) -> tuple[int, bytes | None] | None:
    """Encoding of a PUT as it arrives."""
    return _value(target, wire.put(b"x", encoded=wire.encoding(id, schema))).encoding


@BOOK.rule(
    "zenoh-wire-1.6/table",
    MUST,
    "A node forwards each encoding of the table, without and with a schema.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        sent = [*KNOWN_ENCODINGS, CUSTOM]
        for id in sent:
            for schema in (None, b"s"):
                put = wire.put(b"x", encoded=wire.encoding(id, schema))
                flow.sender.send(wire.push(f"{flow.key}/a", put, wire.qos(block=True)))
        seen = [message.body.encoding or (0, None) for message in flow.received() if message.body]
        expect(seen == [(id, schema) for id in sent for schema in (None, b"s")], f"encodings {seen}")


@BOOK.rule(
    "zenoh-wire-1.6/absent",
    MUST,
    "A node forwards a PUT without an encoding as one with the id 0 and no schema, or without one.",
)
def _(target: Target) -> None:
    got = _value(target, wire.put(b"x")).encoding
    expect(got in DEFAULT_ENCODING, f"encoding {got}")


@BOOK.rule(
    "zenoh-wire-5.7/explicit-encoding",
    MUST,
    "A node takes the default encoding also where it stands in a PUT or an ERR.",
)
def _(target: Target) -> None:
    default = wire.encoding(0)
    for got in (
        _value(target, wire.put(b"x", encoded=default)),
        _error(target, wire.err(b"x", encoded=default)),
    ):
        expect((got.payload, got.encoding in DEFAULT_ENCODING) == (b"x", True), f"{got.kind} {got.raw.hex()}")


@BOOK.rule("zenoh-wire-5.7/elides-encoding", SHOULD, "A node omits the default encoding of a PUT.")
def _(target: Target) -> None:
    got = _encoded(target, 0)
    expect(got is None, f"encoding {got}")


@BOOK.rule("zenoh-wire-1.6/unknown-id", MUST, "A node forwards encodings with an id that is in no table.")
def _(target: Target) -> None:
    for id in (53, 1023, 1024, 65_534):
        got = _encoded(target, id, b"s")
        expect(got == (id, b"s"), f"encoding {got} for the id {id}")


@BOOK.rule("zenoh-wire-1.6/longest-schema", MUST, "A node forwards a schema of 255 bytes.")
def _(target: Target) -> None:
    got = _encoded(target, 10, b"s" * 255)
    expect(got == (10, b"s" * 255), f"encoding {got}")


@BOOK.rule("zenoh-wire-9.3/schema-of-any-bytes", MUST, "A node forwards a schema that is not UTF-8.")
def _(target: Target) -> None:
    got = _encoded(target, 10, b"\xff\x00\xfe")
    expect(got == (10, b"\xff\x00\xfe"), f"encoding {got}")


@BOOK.rule(
    "zenoh-wire-9.3/encoding-above-16-bits",
    OBSERVED,
    "A node takes the lower 16 bits of an encoding's id that has more.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    got = _encoded(target, 70_000)
    expect(got == (4_464, None), f"encoding {got} for the id 70000")


@BOOK.rule("zenoh-wire-1.6/in-err", MUST, "A node forwards the schema of the encoding of an ERR.")
def _(target: Target) -> None:
    got = _error(target, wire.err(b"x", encoded=wire.encoding(CUSTOM, b"my/custom"))).encoding
    expect(got == (CUSTOM, b"my/custom"), f"encoding {got}")


# ---- PUT and DEL ----


@BOOK.rule(
    "zenoh-wire-5.1/flags",
    MUST,
    "A node takes a PUT with each combination of timestamp, encoding and extensions.",
)
def _(target: Target) -> None:
    for stamped, encoded, extended in itertools.product((True, False), repeat=3):
        stamp = _past(), fresh_zid()
        body = wire.put(
            OPAQUE,
            *(((0x43, b"attached"),) if extended else ()),
            encoded=wire.encoding(4) if encoded else None,
            stamp=wire.timestamp(*stamp) if stamped else None,
        )
        got = _value(target, body)
        seen = got.payload, got.encoding, got.ext(0x43), got.timestamp if stamped else None
        wanted = (
            OPAQUE,
            (4, None) if encoded else None,
            b"attached" if extended else None,
            stamp if stamped else None,
        )
        expect(seen == wanted, f"PUT {got.raw.hex()} for {body.hex()}")


@BOOK.rule(
    "zenoh-wire-5.2/flags", MUST, "A node takes a DEL with each combination of timestamp and extensions."
)
def _(target: Target) -> None:
    for stamped, extended in itertools.product((True, False), repeat=2):
        stamp = _past(), fresh_zid()
        exts = ((0x42, b"attached"),) if extended else ()
        got = _value(target, wire.delete(*exts, stamp=wire.timestamp(*stamp) if stamped else None))
        seen = got.kind, got.ext(0x42), got.timestamp
        wanted = "DEL", b"attached" if extended else None, stamp if stamped else None
        expect(seen == wanted, f"DEL {got.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-5.2/ends-behind-extensions",
    MUST,
    "A receiver takes the next message of a FRAME directly behind the extensions of a DEL.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        bodies = wire.delete(), wire.put(b"1"), wire.delete((0x42, b"a")), wire.put(b"2")
        flow.sender.send(*(wire.push(f"{flow.key}/a", body) for body in bodies))
        seen = [(message.body.kind, message.body.payload) for message in flow.received() if message.body]
        expect(seen == [("DEL", b""), ("PUT", b"1"), ("DEL", b""), ("PUT", b"2")], f"got {seen}")


@BOOK.rule(
    "zenoh-wire-1.8/order-in-put",
    MUST,
    "A node takes the extensions of a PUT in any order.",
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 1, 2)
    got = _value(target, wire.put(b"x", (0x4E, b"unknown"), (0x43, b"attached"), info))
    seen = got.payload, got.ext(0x41), got.ext(0x43)
    expect(seen == (b"x", info[1], b"attached"), f"PUT {got.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-5.1/order",
    OBSERVED,
    "A node sends the extensions of a PUT in the order SourceInfo, Attachment, unknown ones.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 1, 2)
    got = _value(target, wire.put(b"x", (0x4E, b"unknown"), (0x43, b"attached"), info))
    seen = [header for header, _ in got.exts]
    expect(seen == [0x41, 0x43, 0x4E], f"extensions {[hex(header) for header in seen]}")


@BOOK.rule("zenoh-wire-5.1/large-attachment", MUST, "A node forwards an attachment of 100 000 bytes.")
def _(target: Target) -> None:
    attached = OPAQUE * 400
    with target.flow() as flow:
        put = wire.put(b"x", (0x43, attached))
        flow.sender.send_fragments(wire.push(f"{flow.key}/a", put, wire.qos(block=True)), size=30_000)
        seen = [message.body.ext(0x43) for message in flow.received() if message.body]
        expect(seen == [attached], f"{len(seen)} attachments, or other bytes")


@BOOK.rule(
    "zenoh-wire-9.3/duplicate-attachment",
    OBSERVED,
    "A receiver takes the last one of several attachments of a PUT.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    got = _value(target, wire.put(b"x", (0x43, b"first"), (0x43, b"last")))
    seen = [value for header, value in got.exts if header == 0x43]
    expect(seen == [b"last"], f"attachments {seen}")


@BOOK.rule(
    "zenoh-wire-9.3/attachment-as-number",
    SHOULD,
    "A receiver takes an attachment of a PUT that comes as a number for an unknown extension.",
)
def _(target: Target) -> None:
    got = _value(target, wire.put(b"x", (0x23, 5)))
    expect((got.payload, got.ext(0x43)) == (b"x", None), f"PUT {got.raw.hex()}")


# ---- QUERY ----


@BOOK.rule(
    "zenoh-wire-5.3/flags",
    MUST,
    "A node takes a QUERY with each combination of consolidation, parameters and extensions.",
)
def _(target: Target) -> None:
    for consolidated, selected, extended in itertools.product((True, False), repeat=3):
        body = wire.query(
            *(((0x45, b"attached"),) if extended else ()),
            consolidation=3 if consolidated else None,
            parameters="a=1" if selected else None,
        )
        got = _query(target, body)
        seen = got.consolidation or None, got.parameters or None, got.ext(0x45)
        wanted = 3 if consolidated else None, b"a=1" if selected else None, b"attached" if extended else None
        expect(seen == wanted, f"QUERY {got.raw.hex()} for {body.hex()}")


@BOOK.rule(
    "zenoh-wire-5.3/empty-parameters",
    MUST,
    "A node takes a QUERY with empty parameters for one without parameters.",
)
def _(target: Target) -> None:
    for parameters in ("", None):
        got = _query(target, wire.query(parameters=parameters)).parameters
        expect(not got, f"parameters {got!r}")


@BOOK.rule("zenoh-wire-5.3/long-parameters", MUST, "A node forwards parameters of more than 65535 bytes.")
def _(target: Target) -> None:
    key = target.unique_key()
    given = "a=" + "v" * 70_000
    with clients(target) as (server, querier):
        server.serve(key)
        body = wire.query(parameters=given)
        id = target.unique_id()
        querier.send_fragments(wire.request(id, key, body, wire.qos(block=True)), size=30_000)
        asked = server.next("REQUEST")
        server.send(wire.response_final(asked.id))
        replies(querier, id)
        got = body_of(asked).parameters or b""
        expect(got == given.encode(), f"parameters of {len(got)} bytes, or other bytes")


@BOOK.rule(
    "zenoh-wire-5.3/value",
    MUST,
    "A node forwards the value of a QUERY: encoding, schema and payload, which is the rest of the extension.",
)
def _(target: Target) -> None:
    for value in (
        wire.encoding(0) + b"x",
        wire.encoding(10, b"schema") + OPAQUE,
        wire.encoding(0),
        wire.encoding(4) + b"\x03abc",
    ):
        got = _query(target, wire.query((0x43, value))).ext(0x43)
        expect(got == value, f"value {got!r} for {value!r}")


@BOOK.rule(
    "zenoh-wire-5.3/no-value",
    MUST,
    "A node forwards a QUERY without a value or attachment as one without, and empty ones as empty.",
)
def _(target: Target) -> None:
    for value, attached in ((None, None), (b"\x00", None), (None, b""), (b"\x00", b"")):
        exts = [
            (header, octets) for header, octets in ((0x43, value), (0x45, attached)) if octets is not None
        ]
        got = _query(target, wire.query(*exts))
        seen = got.ext(0x43), got.ext(0x45)
        expect(seen == (value, attached), f"value and attachment {seen} for {(value, attached)}")


@BOOK.rule(
    "zenoh-wire-5.3/order-of-pico",
    MUST,
    "A node takes the extensions of a QUERY in the order of zenoh-pico: QueryBody, SourceInfo, Attachment.",
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 1, 2)
    got = _query(target, wire.query((0x43, b"\x08value"), info, (0x45, b"attached")))
    seen = got.ext(0x43), got.ext(0x41), got.ext(0x45)
    expect(seen == (b"\x08value", info[1], b"attached"), f"QUERY {got.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-5.3/order",
    OBSERVED,
    "A node sends the extensions of a QUERY in the order SourceInfo, QueryBody, Attachment.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 1, 2)
    got = _query(target, wire.query((0x45, b"attached"), (0x43, b"\x08value"), info))
    seen = [header for header, _ in got.exts]
    expect(seen == [0x41, 0x43, 0x45], f"extensions {[hex(header) for header in seen]}")


@BOOK.rule(
    "zenoh-wire-9.3/consolidation-above-3",
    MUST,
    "A receiver takes a consolidation above 3 for Auto.",
)
def _(target: Target) -> None:
    for given in (4, 300):
        got = _query(target, wire.query(consolidation=given, parameters="a=1"))
        seen = got.consolidation, got.parameters
        expect(seen in ((None, b"a=1"), (0, b"a=1")), f"QUERY {got.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-5.7/explicit-consolidation",
    MUST,
    "A node takes the default consolidation Auto also where it stands in a QUERY.",
)
def _(target: Target) -> None:
    got = _query(target, wire.query(consolidation=0, parameters="a=1"))
    expect((got.consolidation or 0, got.parameters) == (0, b"a=1"), f"QUERY {got.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-9.3/duplicate-value",
    OBSERVED,
    "A receiver takes the last one of several values of a QUERY.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    got = _query(target, wire.query((0x43, b"\x08first"), (0x43, b"\x0alast")))
    seen = [value for header, value in got.exts if header == 0x43]
    expect(seen == [b"\x0alast"], f"values {seen}")


# ---- REPLY and ERR ----


@BOOK.rule(
    "zenoh-wire-5.4/nothing-added",
    MUST,
    "A node forwards a REPLY without consolidation and extensions as one without.",
)
def _(target: Target) -> None:
    for body in (wire.put(b"x"), wire.delete()):
        reply = responded(target, wire.reply(body)).body
        expect(reply and not reply.flags & 0xA0, f"REPLY {reply and reply.raw.hex()}")


@BOOK.rule(
    "zenoh-wire-5.4/consolidation",
    SHOULD,
    "A node takes a REPLY with the flag C and a consolidation.",
)
def _(target: Target) -> None:
    got = body_of(responded(target, b"\x24\x02" + wire.put(b"x"))).payload
    expect(got == b"x", f"payload {got!r}")


@BOOK.rule(
    "zenoh-wire-5.4/fields",
    MUST,
    "A node takes a REPLY with a PUT that has a timestamp, an encoding and extensions, or none of them.",
)
def _(target: Target) -> None:
    for body in (
        wire.put(OPAQUE, stamp=wire.timestamp(_past(), fresh_zid())),
        wire.put(OPAQUE, encoded=wire.encoding(10, b"s")),
        wire.put(OPAQUE, (0x43, b"")),
        wire.put(b""),
    ):
        got = body_of(responded(target, wire.reply(body)))
        expect(got.raw == body, f"PUT {got.raw.hex()} for {body.hex()}")


@BOOK.rule(
    "zenoh-wire-5.5/fields",
    MUST,
    "A node forwards an ERR with and without an encoding, also with an empty payload.",
)
def _(target: Target) -> None:
    for encoding, payload in itertools.product((None, (10, b"s")), (b"", OPAQUE)):
        body = wire.err(payload, encoded=None if encoding is None else wire.encoding(*encoding))
        got = _error(target, body)
        expect((got.kind, got.encoding, got.payload) == ("ERR", encoding, payload), f"ERR {got.raw.hex()}")


# ---- SourceInfo ----


def _sources(carry: Callable[[Target, wire.Ext], Message], target: Target) -> None:
    for zid, entity, sn in ((b"\x01", 0, 0), (fresh_zid(), 2**32 - 1, 2**32 - 1), (b"\x07" * 4, 128, 16_384)):
        info = wire.source_info(zid, entity, sn)
        got = carry(target, info).ext(0x41)
        expect(got == info[1], f"source info {got!r} for {info[1]!r}")


def _reply(target: Target, info: wire.Ext) -> Message:
    return _error(target, wire.reply(wire.put(b"x", info)))


for _id, _title, _carry in (
    ("put", "a PUT", lambda target, info: _value(target, wire.put(b"x", info))),
    ("del", "a DEL", lambda target, info: _value(target, wire.delete(info))),
    ("query", "a QUERY", lambda target, info: _query(target, wire.query(info))),
    ("reply", "a PUT in a REPLY", _reply),
    ("err", "an ERR", lambda target, info: _error(target, wire.err(b"x", info))),
):
    BOOK.rule(
        f"zenoh-wire-5.6/in-{_id}",
        MUST,
        f"A node forwards the source info of {_title}, with ids of 1 to 16 bytes and numbers of 32 bits.",
    )(functools.partial(_sources, _carry))


@BOOK.rule(
    "zenoh-wire-1.8/padded-source-info",
    SHOULD,
    "A node delivers a PUT that has a byte too many in its source info with its own payload, or not at all.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        header, octets = wire.source_info(fresh_zid(), 1, 2)
        padded = header, bytes(octets) + b"\x00" if isinstance(octets, bytes) else octets
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"payload", padded)))
        flow.sender.lives()
        with target.link() as other:
            other.send(wire.push(f"{flow.key}/a", wire.put(b"end")))
            seen = flow.receiver.until(lambda m: m.kind == "PUSH" and m.body and m.body.payload == b"end")
        payloads = [m.body.payload for m in seen[:-1] if m.kind == "PUSH" and m.body]
        expect(payloads in ([], [b"payload"]), f"payloads {payloads}")


# ---- Unreachable ----

BOOK.unreachable(
    "zenoh-wire-5.3/session-resolves-auto",
    MUST,
    "A querying session sends what Auto stands for: Latest, or None with the parameter _time.",
    "a query of the node's own application is needed, which no message causes",
)
BOOK.unreachable(
    "zenoh-wire-1.6/string-form",
    MUST,
    "An application reads an encoding as its name in the table, a semicolon and the schema.",
    "no message shows the text that the node gives its own application",
)
BOOK.unreachable(
    "zenoh-wire-6.1/canonisation",
    MUST,
    "A session brings the key expressions of its application into canonical form before it sends them.",
    "a key of the node's own application is needed, which no message causes",
)
