"""Rules of replies on their way to the querier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE
from zwire.conformance.zenoh._link import fresh_zid
from zwire.conformance.zenoh._scene import clients, get, reply_payloads, respond, responded

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target


@BOOK.rule("zenoh-behaviour-5.4/put-in-reply", MUST, "A node forwards all fields of the PUT in a REPLY.")
def _(target: Target) -> None:
    stamp = int((time.time() - 60) * 2**32), fresh_zid()
    info = wire.source_info(fresh_zid(), 1, 2)
    put = wire.put(
        b"value", info, (0x43, b"attached"), encoded=wire.encoding(5, b"s"), stamp=wire.timestamp(*stamp)
    )
    reply = responded(target, wire.reply(put)).body
    got = reply and reply.body
    expect(got and got.raw == put, f"PUT {got and got.raw.hex()} for {put.hex()}")


@BOOK.rule("zenoh-behaviour-3.8/del-in-reply", MUST, "A node forwards a REPLY with a DEL.")
def _(target: Target) -> None:
    reply = responded(target, wire.reply(wire.delete((0x42, b"attached")))).body
    got = reply and reply.body
    expect(got and (got.kind, got.ext(0x42)) == ("DEL", b"attached"), f"got {got}")


@BOOK.rule(
    "zenoh-behaviour-3.8/error-reply",
    MUST,
    "A node forwards an ERR with its encoding and payload.",
)
def _(target: Target) -> None:
    got = responded(target, wire.err(b"oops", encoded=wire.encoding(5))).body
    expect(
        got and (got.kind, got.payload, got.encoding) == ("ERR", b"oops", (5, None)),
        f"got {got and got.raw.hex()}",
    )


@BOOK.rule(
    "zenoh-behaviour-3.3/replies-are-not-stamped",
    OBSERVED,
    "A node adds no timestamp to the PUT in a REPLY.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    reply = responded(target, wire.reply(wire.put(b"x"))).body
    got = reply and reply.body
    expect(got and got.timestamp is None, f"timestamp {got and got.timestamp}")


@BOOK.rule(
    "zenoh-behaviour-5.4/responder-passes",
    MUST,
    "A node forwards the responder id of a RESPONSE.",
)
def _(target: Target) -> None:
    responder = bytes([0xF0]) + fresh_zid() + wire.vle(300)
    got = responded(target, wire.reply(wire.put(b"x")), (0x43, responder)).ext(0x43)
    expect(got == responder, f"responder id {got!r}")


def _reply_quality(target: Target, *exts: wire.Ext) -> int | bytes | None:
    """QoS of a RESPONSE as it arrives at the querier, for a REQUEST with the QoS 0x0b."""
    asking = (wire.qos(3, block=True),)
    return responded(target, wire.reply(wire.put()), *exts, asking=asking).ext(0x21)


@BOOK.rule(
    "zenoh-behaviour-2.5/reply-quality",
    MUST,
    "A node forwards a RESPONSE that has the QoS of the REQUEST with that QoS.",
)
def _(target: Target) -> None:
    got = _reply_quality(target, wire.qos(3, block=True))
    expect(got == 0x0B, f"QoS {got!r}")


@BOOK.rule(
    "zenoh-behaviour-2.5/express-of-reply",
    OBSERVED,
    "A node forwards a RESPONSE with the QoS of the REQUEST: the express bit of the RESPONSE is lost.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    got = _reply_quality(target, wire.qos(3, block=True, express=True))
    expect(got == 0x0B, f"QoS {got!r}")


@BOOK.rule(
    "zenoh-wire-4.5/whole-key",
    OBSERVED,
    "A node forwards the key of a RESPONSE as a whole, behind the scope 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    got = responded(target, wire.reply(wire.put(b"x"))).key
    expect(got and got.scope == 0, f"key {got}")


@BOOK.rule(
    "zenoh-behaviour-3.6/any-key",
    MUST,
    "A node forwards a REPLY with a key that the query does not intersect, for a query with _anyke.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, body=wire.query(parameters="_anyke"))
        respond(server, server.next("REQUEST"), b"x", key=f"{key}-other")
        seen = reply_payloads(querier, id)
        expect(seen == [b"x"], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.7/nodes-do-not-consolidate",
    MUST,
    "A node forwards each of several replies on one key, whatever the consolidation of the QUERY.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for consolidation in (None, 1, 2, 3):
            id = get(querier, key, body=wire.query(consolidation=consolidation))
            respond(server, server.next("REQUEST"), b"1", b"2", b"1")
            seen = reply_payloads(querier, id)
            expect(seen == [b"1", b"2", b"1"], f"consolidation {consolidation}: replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.4/order-of-replies",
    MUST,
    "The replies of one queryable arrive in their order, and RESPONSE_FINAL behind them.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        sent = [b"%d" % number for number in range(300)]
        respond(server, server.next("REQUEST"), *sent)
        seen = reply_payloads(querier, id)
        late = [message for message in querier.barrier() if message.id == id]
        expect(
            seen == sent and not late, f"{len(seen)} replies before the final, {len(late)} messages behind"
        )


@BOOK.rule("zenoh-behaviour-5.4/large-reply", MUST, "A node forwards a reply of 300 000 bytes unchanged.")
def _(target: Target) -> None:
    key = target.unique_key()
    payload = bytes(range(250)) * 1200
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        server.send_fragments(wire.response(asked.id, key, wire.reply(wire.put(payload))), size=40_000)
        server.send(wire.response_final(asked.id))
        seen = reply_payloads(querier, id)
        expect(seen == [payload], f"payloads of {[len(octets) for octets in seen]} bytes")


BOOK.unreachable(
    "zenoh-behaviour-3.7/latest",
    MUST,
    "A querying session with the consolidation Latest delivers the newest reply of each key.",
    "no message shows what the node delivers to its own application",
)
