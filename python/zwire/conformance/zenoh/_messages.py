"""Rules of the layout of network messages: flags and extensions of PUSH, REQUEST, RESPONSE and the others."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import fresh_zid
from zwire.conformance.zenoh._probes import MANDATORY, UNKNOWN, closes, closes_for, flagged
from zwire.conformance.zenoh._scene import (
    SUBSCRIBER,
    TOKEN,
    announce,
    ask,
    bodies,
    body_of,
    clients,
    get,
    keys,
    pushed,
    replies,
    reply_payloads,
    requested,
    respond,
    responded,
    withdraw,
)
from zwire.conformance.zenoh._wire import CURRENT_FUTURE, DATA, SUBSCRIBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Target

BLOCK_FIRST = 0x20
STAMP: wire.Ext = (0x42, wire.timestamp(1 << 60, b"\x05"))
"""Extension Timestamp of network messages."""
NODE_ID: wire.Ext = (0x33, 0)
TS_STACK: wire.Ext = (0x47, b"\x02\x00")
"""Extension TsStack that asks routers for their entries and has none."""


def goal(target: int) -> wire.Ext:
    """Extension Target of REQUEST."""
    return 0x34, target


# ---- Quality of service ----


@BOOK.rule(
    "zenoh-wire-4.2/qos-upper-bits",
    MUST,
    "A node takes a QoS above 255, of which the lowest byte alone counts.",
)
def _(target: Target) -> None:
    message = pushed(target, wire.put(b"x"), (0x21, 0xFF00 | 0x0A))
    value = message.ext(0x21)
    expect(isinstance(value, int) and value & 0x3F == 0x0A, f"QoS {value!r} for 0xff0a")


@BOOK.rule(
    "zenoh-wire-4.2/qos-reserved-bits",
    OBSERVED,
    "A node forwards the reserved bits 7:6 of a QoS.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    value = pushed(target, wire.put(b"x"), (0x21, 0xC2)).ext(0x21)
    expect(value == 0xC2, f"QoS {value!r} for 0xc2")


@BOOK.rule(
    "zenoh-wire-4.2/block-first",
    OBSERVED,
    "A node forwards the bit F of a QoS, BlockFirst.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    value = pushed(target, wire.put(b"x"), (0x21, BLOCK_FIRST | DATA)).ext(0x21)
    expect(value == BLOCK_FIRST | DATA, f"QoS {value!r} for 0x25")


@BOOK.rule(
    "zenoh-wire-5.7/explicit-qos",
    MUST,
    "A node takes the default QoS 0x05 also where it stands in a PUSH, a REQUEST or a RESPONSE.",
)
def _(target: Target) -> None:
    default = wire.qos()
    for message in (
        pushed(target, wire.put(b"x"), default),
        requested(target, wire.query(), default),
        responded(target, wire.reply(wire.put(b"x")), default),
    ):
        expect(message.ext(0x21) in (None, 0x05), f"{message.kind} with the QoS {message.ext(0x21)!r}")


@BOOK.rule("zenoh-wire-5.7/elides-qos", SHOULD, "A node omits the default QoS 0x05 of a PUSH.")
def _(target: Target) -> None:
    for exts in ((), (wire.qos(),)):
        value = pushed(target, wire.put(b"x"), *exts).ext(0x21)
        expect(value is None, f"QoS {value!r}")


# ---- Extensions that any of several messages may have ----


def _with_push(target: Target, *exts: wire.Ext) -> None:
    got = body_of(pushed(target, wire.put(b"x"), *exts)).payload
    expect(got == b"x", f"payload {got!r}")


def _with_request(target: Target, *exts: wire.Ext) -> None:
    got = body_of(requested(target, wire.query(parameters="a=1"), *exts)).parameters
    expect(got == b"a=1", f"parameters {got!r}")


def _with_response(target: Target, *exts: wire.Ext) -> None:
    got = body_of(responded(target, wire.reply(wire.put(b"x")), *exts)).payload
    expect(got == b"x", f"payload {got!r}")


def _with_final(target: Target, *exts: wire.Ext) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        server.send(wire.response_final(server.next("REQUEST").id, *exts))
        expect(server.lives(), "the node closed the link")
        replies(querier, id)


def _with_declaration(target: Target, *exts: wire.Ext) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.send(wire.declare(wire.d_subscriber(1, key), *exts))
        owner.barrier()
        seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, key))
        expect(seen == [key], f"keys {seen}")


def _with_interest(target: Target, *exts: wire.Ext) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, SUBSCRIBER, key)
        asker.send(wire.interest(1, CURRENT_FUTURE, SUBSCRIBERS, key, *exts))
        seen = keys(asker, asker.barrier())
        expect(seen == [key], f"keys {seen}")


PUSH = ("push", "a PUSH", _with_push)
REQUEST = ("request", "a REQUEST", _with_request)
RESPONSE = ("response", "a RESPONSE", _with_response)
FINAL = ("response-final", "a RESPONSE_FINAL", _with_final)
DECLARE = ("declare", "a DECLARE", _with_declaration)
INTEREST = ("interest", "an INTEREST", _with_interest)


def _takes(carry: Callable[..., None], exts: tuple[wire.Ext, ...], target: Target) -> None:
    carry(target, *exts)


for _name, _level, _title, _ext, _carriers in (
    ("timestamp", MUST, "Timestamp", STAMP, (PUSH, REQUEST, RESPONSE, FINAL, DECLARE, INTEREST)),
    ("node-id", MUST, "NodeId 0", NODE_ID, (PUSH, REQUEST, DECLARE, INTEREST)),
    ("ts-stack", MUST, "TsStack", TS_STACK, (PUSH, REQUEST, RESPONSE)),
):
    for _id, _carrier, _carry in _carriers:
        BOOK.rule(
            f"zenoh-wire-4.2/{_name}-in-{_id}",
            _level,
            f"A node takes {_carrier} with the extension {_title}.",
        )(functools.partial(_takes, _carry, (_ext,)))

for _id, _carrier, _carry in (RESPONSE, FINAL):
    BOOK.rule(
        f"zenoh-wire-1.8/optional-in-{_id}",
        MUST,
        f"A node skips unknown extensions of {_carrier} without the mandatory bit.",
    )(functools.partial(_takes, _carry, UNKNOWN))


@BOOK.rule(
    "zenoh-wire-4.2/timestamp-is-none-of-put",
    MUST,
    "A node does not take the extension Timestamp of a PUSH for the timestamp of the PUT in it.",
)
def _(target: Target) -> None:
    stamp = body_of(pushed(target, wire.put(b"x"), STAMP)).timestamp
    expect(stamp is None or stamp[1] == target.zid, f"timestamp {stamp}")


@BOOK.rule("zenoh-wire-4.2/no-node-id", SHOULD, "A node sends a client no NodeId.")
def _(target: Target) -> None:
    for message in (pushed(target, wire.put(b"x"), NODE_ID), requested(target, wire.query(), NODE_ID)):
        value = message.ext(0x33)
        expect(value is None, f"{message.kind} with the NodeId {value!r}")


@BOOK.rule(
    "zenoh-wire-1.8/node-id-optional",
    SHOULD,
    "A receiver skips a NodeId without the mandatory bit.",
)
def _(target: Target) -> None:
    _with_push(target, (0x23, 7))


@BOOK.rule(
    "zenoh-wire-9.2/ts-stack-without-flags",
    OBSERVED,
    "A receiver closes the link for a TsStack with the flags 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, link.frame(wire.push("conformance/none", wire.put(), (0x47, b"\x00\x00"))))


# ---- REQUEST ----


@BOOK.rule(
    "zenoh-wire-1.8/order-in-request",
    MUST,
    "A node takes the extensions of a REQUEST in any order.",
)
def _(target: Target) -> None:
    exts = (0x26, 4321), NODE_ID, (0x25, 7), goal(1), wire.qos(3, block=True)
    message = requested(target, wire.query(), *exts)
    seen = [message.ext(header) for header in (0x21, 0x34, 0x25, 0x26)]
    expect(seen[0] == 0x0B and seen[1] == 1 and seen[3] == 4321, f"QoS, Target, Budget, Timeout {seen}")


@BOOK.rule(
    "zenoh-wire-4.2/order-of-request",
    OBSERVED,
    "A node sends the extensions of a REQUEST in the order QoS, Target, Budget, Timeout.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    exts = (0x26, 4321), (0x25, 7), goal(1), wire.qos(3, block=True)
    seen = [header for header, _ in requested(target, wire.query(), *exts).exts]
    expect(seen == [0x21, 0x34, 0x25, 0x26], f"extensions {[hex(header) for header in seen]}")


@BOOK.rule("zenoh-wire-5.7/elides-target", SHOULD, "A node omits the target BestMatching of a REQUEST.")
def _(target: Target) -> None:
    value = requested(target, wire.query(), goal(0)).ext(0x34)
    expect(value is None, f"Target {value!r}")


@BOOK.rule(
    "zenoh-wire-4.4/budget-0",
    OBSERVED,
    "A node forwards a REQUEST with the budget 0 as one without a budget.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    value = requested(target, wire.query(), (0x25, 0)).ext(0x25)
    expect(value is None, f"Budget {value!r}")


@BOOK.rule("zenoh-wire-5.7/no-time-out", MUST, "A node takes a REQUEST without a time-out.")
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        respond(server, server.next("REQUEST"), b"x")
        seen = reply_payloads(querier, id)
        expect(seen == [b"x"], f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-9.2/target-above-2",
    SHOULD,
    "A receiver closes the link for a REQUEST with a target above 2.",
)
def _(target: Target) -> None:
    with target.link() as link:
        closes(link, link.frame(wire.request(1, "conformance/none", wire.query(), goal(3))))


@BOOK.rule(
    "zenoh-wire-9.3/target-without-mandatory-bit",
    SHOULD,
    "A receiver skips a target without the mandatory bit, and takes the default BestMatching.",
)
def _(target: Target) -> None:
    message = requested(target, wire.query(), (0x24, 2))
    expect(message.ext(0x34) in (None, 0), f"Target {message.ext(0x34)!r}")


@BOOK.rule(
    "zenoh-wire-9.3/time-out-as-bytes",
    SHOULD,
    "A receiver skips a time-out that comes as bytes, and takes the REQUEST.",
)
def _(target: Target) -> None:
    _with_request(target, (0x46, b"\x01"))


@BOOK.rule(
    "zenoh-wire-9.3/duplicate-time-out",
    OBSERVED,
    "A receiver takes the last one of several time-outs of a REQUEST.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    value = requested(target, wire.query(), (0x26, 1234), (0x26, 5678)).ext(0x26)
    expect(value == 5678, f"time-out {value!r}")


@BOOK.rule(
    "zenoh-wire-4.4/id-of-direction",
    MUST,
    "The id of a request counts for its direction: a link may send one under the id of one that it serves.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (one, two):
        one.serve(f"{key}/one")
        two.serve(f"{key}/two")
        id = get(two, f"{key}/one")
        asked = one.next("REQUEST")
        get(one, f"{key}/two", id=asked.id)
        respond(two, two.next("REQUEST"), b"two")
        seen = reply_payloads(one, asked.id)
        expect(seen == [b"two"], f"replies {seen} under the id of the served request")
        respond(one, asked, b"one")
        seen = reply_payloads(two, id)
        expect(seen == [b"one"], f"replies {seen} to the served request")


# ---- RESPONSE and RESPONSE_FINAL ----


@BOOK.rule(
    "zenoh-wire-1.8/order-in-response",
    MUST,
    "A node takes the extensions of a RESPONSE in any order.",
)
def _(target: Target) -> None:
    responder = bytes([0xF0]) + fresh_zid() + wire.vle(1)
    message = responded(target, wire.reply(wire.put(b"x")), (0x43, responder), STAMP, wire.qos())
    expect(message.ext(0x43) == responder, f"responder id {message.ext(0x43)!r}")


@BOOK.rule(
    "zenoh-wire-4.6/separate-frames",
    MUST,
    "A node takes RESPONSE and RESPONSE_FINAL in one FRAME as well as in several.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for joined in (True, False):
            id = get(querier, key)
            asked = server.next("REQUEST")
            parts = wire.response(asked.id, key, wire.reply(wire.put(b"x"))), wire.response_final(asked.id)
            for frame in [parts] if joined else [(part,) for part in parts]:
                server.send(*frame)
            seen = reply_payloads(querier, id)
            expect(seen == [b"x"], f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-4.2/final-without-qos",
    MUST,
    "A node takes a RESPONSE_FINAL without QoS to a REQUEST with one.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, wire.qos(3, block=True))
        server.send(wire.response_final(server.next("REQUEST").id))
        replies(querier, id)


# ---- Reserved flags ----


def _final_flags(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        server.send(flagged(wire.response_final(server.next("REQUEST").id), 0x60))
        replies(querier, id)


def _reply_flags(target: Target) -> None:
    got = body_of(responded(target, flagged(wire.reply(wire.put(b"x")), 0x40))).payload
    expect(got == b"x", f"payload {got!r}")


def _error_flags(target: Target) -> None:
    got = body_of(responded(target, flagged(wire.err(b"x"), 0x20))).payload
    expect(got == b"x", f"payload {got!r}")


def _delete_flags(target: Target) -> None:
    got = body_of(pushed(target, flagged(wire.delete(), 0x40))).kind
    expect(got == "DEL", f"got {got}")


def _declare_flags(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.send(flagged(wire.declare(flagged(wire.d_keyexpr(7, key), 0x40)), 0x40))
        owner.send(flagged(wire.declare(wire.d_subscriber(1, wire.Key("/a", 7))), 0x40))
        owner.send(wire.declare(wire.d_subscriber(2, f"{key}/b")))
        owner.send(wire.declare(flagged(wire.undeclare(SUBSCRIBER, 2), 0x60)))
        owner.barrier()
        seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/*"))
        expect(seen == [f"{key}/a"], f"keys {seen}")


for _id, _title, _check in (
    ("response-final", "a RESPONSE_FINAL", _final_flags),
    ("reply", "a REPLY", _reply_flags),
    ("err", "an ERR", _error_flags),
    ("del", "a DEL", _delete_flags),
    ("declare", "a DECLARE, a D_KEYEXPR and a U_SUBSCRIBER", _declare_flags),
):
    BOOK.rule(f"zenoh-wire-1.7/{_id}-reserved", MUST, f"A receiver ignores the reserved flags of {_title}.")(
        _check
    )


@BOOK.rule(
    "zenoh-wire-1.7/network-sent",
    MUST,
    "A node sends RESPONSE_FINAL, REPLY, DEL and declarations with 0 in the reserved flags.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        respond(server, server.next("REQUEST"), b"x")
        seen = querier.until(lambda message: message.kind == "RESPONSE_FINAL" and message.id == id)
        masks = {"RESPONSE_FINAL": 0x60, "REPLY": 0x40, "DEL": 0x40, "DECLARE": 0x40, "U_TOKEN": 0x60}
        sent = [*seen, *(message.body for message in seen if message.body)]
        sent.append(body_of(pushed(target, wire.delete())))
        ask(querier, CURRENT_FUTURE, wire.TOKENS, key)
        announce(server, TOKEN, key, 9)
        withdraw(server, TOKEN, 9)
        declared = querier.barrier()
        sent += [*declared, *bodies(declared)]
        wrong = [f"{m.kind} {m.flags:#x}" for m in sent if m.flags & masks.get(m.kind, 0)]
        kinds = {message.kind for message in sent}
        expect(not wrong, f"reserved flags in {wrong}")
        expect(masks.keys() <= kinds, f"of {sorted(masks)} came {sorted(kinds)}")


# ---- Mandatory extensions ----


for _id, _title, _octets in (
    ("del", "a DEL", wire.push("conformance/none", wire.delete(MANDATORY))),
    ("response", "a RESPONSE", wire.response(1, "conformance/none", wire.reply(wire.put()), MANDATORY)),
    ("response-final", "a RESPONSE_FINAL", wire.response_final(1, MANDATORY)),
    ("reply", "a REPLY", wire.response(1, "conformance/none", wire.reply(wire.put(), MANDATORY))),
    ("err", "an ERR", wire.response(1, "conformance/none", wire.err(b"", MANDATORY))),
    ("queryable", "a D_QUERYABLE", wire.declare(wire.d_queryable(9, "conformance/none", MANDATORY))),
    ("token", "a D_TOKEN", wire.declare(wire.d_token(9, "conformance/none", MANDATORY))),
    ("undeclaration", "a U_SUBSCRIBER", wire.declare(wire.undeclare(SUBSCRIBER, 9, MANDATORY))),
):
    BOOK.rule(
        f"zenoh-wire-1.8/mandatory-in-{_id}",
        MUST,
        f"A receiver closes the link for {_title} with an unknown mandatory extension.",
    )(functools.partial(closes_for, _octets))


def _takes_declaration(kind: int, target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, kind, f"{key}/a", 1, *UNKNOWN)
        announce(owner, kind, f"{key}/b", 2)
        withdraw(owner, kind, 2, *UNKNOWN)
        options = SUBSCRIBERS | wire.QUERYABLES | wire.TOKENS
        seen = keys(asker, ask(asker, CURRENT_FUTURE, options, f"{key}/*"))
        expect(seen == [f"{key}/a"], f"keys {seen}")


for _kind, _title in ((4, "queryable"), (6, "token")):
    BOOK.rule(
        f"zenoh-wire-1.8/optional-in-{_title}",
        MUST,
        f"A receiver skips unknown extensions of a {_title}'s declaration and undeclaration.",
    )(functools.partial(_takes_declaration, _kind))
