"""Rules of malformed network and data messages: which of them end the link, and which are dropped.

The last rule comes behind all others, as a router of eclipse-zenoh 1.0.0 or 1.10.2 serves no link any more
after it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._keys import CHUNKS_ALONE, REFUSED, refused
from zwire.conformance.zenoh._probes import ENCODING_3, closes_for
from zwire.conformance.zenoh._scene import (
    clients,
    get,
    reply_payloads,
    respond,
)

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target

NONE = "conformance/none"
"""Key of messages that no node takes."""
NOT_UTF_8 = b"conformance/\xff\xfe"
SHARED_MEMORY: wire.Ext = (0x12, None)
"""Marker of a payload in shared memory, which no check agrees on."""


def _put_of(rest: bytes, flags: int = 0) -> bytes:
    """PUSH with a PUT of flags and the bytes behind them."""
    return wire.push(NONE, bytes([0x01 | flags]) + rest)


def _with_timestamp_id(octets: bytes) -> bytes:
    return wire.push(NONE, wire.put(b"x", stamp=wire.timestamp(1 << 60, octets)))


# ---- A body or declaration that does not fit ----

for _id, _title, _octets in (
    ("query-in-push", "a QUERY in a PUSH", wire.push(NONE, wire.query())),
    ("reply-in-push", "a REPLY in a PUSH", wire.push(NONE, wire.reply(wire.put()))),
    ("err-in-push", "an ERR in a PUSH", wire.push(NONE, wire.err())),
    ("unknown-in-push", "an unknown body in a PUSH", wire.push(NONE, b"\x1e")),
    ("put-in-request", "a PUT in a REQUEST", wire.request(1, NONE, wire.put())),
    ("del-in-request", "a DEL in a REQUEST", wire.request(1, NONE, wire.delete())),
    ("put-in-response", "a PUT in a RESPONSE without a REPLY", wire.response(1, NONE, wire.put())),
    ("query-in-response", "a QUERY in a RESPONSE", wire.response(1, NONE, wire.query())),
    ("err-in-reply", "an ERR in a REPLY", wire.response(1, NONE, wire.reply(wire.err()))),
    ("reply-in-reply", "a REPLY in a REPLY", wire.response(1, NONE, wire.reply(wire.reply(wire.put())))),
    ("unknown-declaration", "a DECLARE of an unknown kind", wire.declare(b"\x0f\x01")),
    ("subscriber-as-message", "a D_SUBSCRIBER that is no DECLARE", wire.d_subscriber(1, NONE)),
):
    BOOK.rule(f"zenoh-wire-9.2/{_id}", SHOULD, f"A receiver closes the link for {_title}.")(
        functools.partial(closes_for, _octets)
    )

# ---- Messages that end too early ----

for _id, _title, _octets in (
    ("request", "a REQUEST without a body", wire.request(1, NONE, b"")),
    ("response", "a RESPONSE without a body", wire.response(1, NONE, b"")),
    ("response-final", "a RESPONSE_FINAL without an id", b"\x1a"),
    ("reply", "a REPLY without a body", wire.response(1, NONE, b"\x04")),
    ("err", "an ERR without a payload", wire.response(1, NONE, b"\x05")),
    ("put", "a PUT without a payload", _put_of(b"")),
    ("timestamp", "a timestamp that ends within its id", _put_of(b"\x00\x10abc", 0x20)),
    ("encoding", "an encoding that ends within its schema", _put_of(b"\x09\x7ftext", 0x40)),
    ("consolidation", "a QUERY without the consolidation that it announces", wire.request(1, NONE, b"\x23")),
    ("parameters", "parameters that are longer than their batch", wire.request(1, NONE, b"\x43\x7fa=1")),
    ("declare", "a DECLARE without a declaration", wire.declare(b"")),
    ("declaration", "a D_SUBSCRIBER without a key", wire.declare(b"\x62\x01")),
    ("interest", "an INTEREST without options", b"\x59\x01"),
    ("interest-key", "an INTEREST that ends within its key", b"\x59\x01\x72\x00\x7fconformance"),
    ("oam", "an OAM that ends within its body", b"\x5f\x63\x7fabc"),
    ("number", "a number that ends within its bytes", wire.response_final(1)[:1] + b"\xff\xff"),
    (
        "source-info",
        "a source info that ends within its id",
        wire.push(NONE, wire.put(b"", (0x41, b"\xf0abc"))),
    ),
):
    BOOK.rule(f"zenoh-wire-9.2/truncated-{_id}", SHOULD, f"A receiver closes the link for {_title}.")(
        functools.partial(closes_for, _octets)
    )

# ---- Values that no message has ----

for _id, _level, _title, _octets in (
    ("timestamp-id-0", SHOULD, "a timestamp with an id of 0 bytes", _with_timestamp_id(b"")),
    ("timestamp-id-17", SHOULD, "a timestamp with an id of 17 bytes", _with_timestamp_id(b"\x01" * 17)),
    (
        "encoding-bound",
        OBSERVED,
        "an encoding of more than 32 bits",
        _put_of(wire.vle(2**32) + b"\x00", 0x40),
    ),
    (
        "schema-bound",
        OBSERVED,
        "a schema of 256 bytes",
        wire.push(NONE, wire.put(b"x", encoded=wire.encoding(10, b"s" * 256))),
    ),
    (
        "empty-value",
        SHOULD,
        "a QUERY with a QueryBody of 0 bytes",
        wire.request(1, NONE, wire.query((0x43, b""))),
    ),
    (
        "shared-memory-put",
        SHOULD,
        "a PUT in shared memory that was not agreed on",
        wire.push(NONE, wire.put(b"x", SHARED_MEMORY)),
    ),
    (
        "shared-memory-err",
        SHOULD,
        "an ERR in shared memory that was not agreed on",
        wire.response(1, NONE, wire.err(b"x", SHARED_MEMORY)),
    ),
    (
        "err-bound",
        OBSERVED,
        "an ERR that claims 2^32 bytes",
        wire.response(1, NONE, b"\x05" + wire.vle(2**32) + b"x"),
    ),
    (
        "response-bound",
        OBSERVED,
        "a RESPONSE with an id above 2^32 - 1",
        wire.response(2**32, NONE, wire.reply(wire.put())),
    ),
    ("final-bound", OBSERVED, "a RESPONSE_FINAL with an id above 2^32 - 1", wire.response_final(2**32)),
    (
        "parameters-not-utf-8",
        SHOULD,
        "parameters that are not UTF-8",
        wire.request(1, NONE, wire.query(parameters=b"\xff")),
    ),
    (
        "declared-not-utf-8",
        SHOULD,
        "a D_KEYEXPR that is not UTF-8",
        wire.declare(wire.d_keyexpr(1, wire.Key(NOT_UTF_8))),
    ),
    (
        "subscriber-not-utf-8",
        SHOULD,
        "a D_SUBSCRIBER that is not UTF-8",
        wire.declare(wire.d_subscriber(1, wire.Key(NOT_UTF_8))),
    ),
    (
        "request-not-utf-8",
        SHOULD,
        "a REQUEST with a key that is not UTF-8",
        wire.request(1, wire.Key(NOT_UTF_8), wire.query()),
    ),
    (
        "declared-scope-bound",
        OBSERVED,
        "a D_SUBSCRIBER with a scope above 65535",
        wire.declare(wire.d_subscriber(1, wire.Key("a", 65_536))),
    ),
    (
        "request-encoding-3",
        SHOULD,
        "a REQUEST with an extension of encoding 3",
        wire.request(1, NONE, wire.query(), ENCODING_3),
    ),
    (
        "query-encoding-3",
        SHOULD,
        "a QUERY with an extension of encoding 3",
        wire.request(1, NONE, wire.query(ENCODING_3)),
    ),
    ("oam-encoding-3", SHOULD, "an OAM with a body of the encoding 3", b"\x7f\x63\x00"),
    (
        "target-as-bytes",
        OBSERVED,
        "a target as mandatory bytes",
        wire.request(1, NONE, wire.query(), (0x54, b"\x01")),
    ),
):
    BOOK.rule(
        f"zenoh-wire-9.2/{_id}",
        _level,
        f"A receiver closes the link for {_title}.",
        seen=RELEASE if _level is OBSERVED else None,
    )(functools.partial(closes_for, _octets))


# ---- After malformed messages ----


@BOOK.rule(
    "zenoh-wire-9.2/others-live",
    MUST,
    "A node that closes a link for what it cannot decode keeps its other links, and what they have declared.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for octets in (b"\xff", wire.push(NONE, wire.query()), _with_timestamp_id(b"")):
            closes_for(octets, target)
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"x")))
        seen = flow.payloads()
        expect(seen == [b"x"], f"payloads {seen}")


@BOOK.rule(
    "zenoh-wire-9.2/undecodable-reply",
    MUST,
    "A node ends a query by RESPONSE_FINAL when the queryable sends bytes that it cannot decode.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, (0x26, 60_000))
        asked = server.next("REQUEST")
        server.send(
            wire.response(asked.id, key, wire.reply(wire.put(b"1"))), wire.response(asked.id, key, b"\x1e")
        )
        seen = reply_payloads(querier, id)
        expect(seen == [b"1"], f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-9.3/dropped-messages",
    MUST,
    "A node forwards the messages of a FRAME that stand behind ones that it drops.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(
            wire.push(f"{flow.key}/a//b", wire.put(b"refused")),
            wire.push(wire.Key("a", 4711), wire.put(b"unknown")),
            wire.response_final(4711),
            wire.push(f"{flow.key}/a", wire.put(b"good")),
        )
        seen = flow.payloads()
        expect(seen == [b"good"], f"payloads {seen}")


@BOOK.rule(
    "zenoh-wire-9.3/reply-outside",
    OBSERVED,
    "A router forwards a reply outside the key of the query, which the querying session drops.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        respond(server, server.next("REQUEST"), b"x", key=f"{key}-other")
        seen = reply_payloads(querier, id)
        expect(seen == [b"x"], f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-9.3/declared-junk",
    MUST,
    "A node serves its links after a declared key with a forbidden chunk, and a PUSH with wildcards.",
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    junk = refused(key, *(name for name in REFUSED if name not in CHUNKS_ALONE))
    with clients(target, 3) as (owner, subscriber, publisher):
        for id, each in enumerate(junk, 2):
            owner.declare(wire.d_subscriber(id, each))
        # The node may close this link, but no other one.
        owner.lives()
        subscriber.subscribe(f"{key}/last")
        publisher.send(wire.push(f"{key}/**", wire.put(b"x")))
        got = subscriber.next("PUSH").body
        expect(got and got.payload == b"x", f"got {got and got.raw.hex()}")
