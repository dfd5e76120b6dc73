"""Rules of the routing of queries: requests, their finals, and their time-outs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE
from zwire.conformance.zenoh._link import fresh_zid
from zwire.conformance.zenoh._scene import (
    QUERYABLE,
    SUBSCRIBER,
    announce,
    clients,
    finals,
    get,
    replies,
    reply_payloads,
    requested,
    respond,
    withdraw,
)

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target
    from zwire.conformance.zenoh._wire import Message

TIMEOUT_MS = 600
"""Time-out of queries that are meant to reach it."""


def timeout(milliseconds: int) -> wire.Ext:
    """Extension Timeout of REQUEST."""
    return 0x26, milliseconds


def _requests(link: Link) -> list[Message]:
    """REQUEST messages that the node has sent on a link up to now."""
    return [message for message in link.barrier() if message.kind == "REQUEST"]


# ---- Requests ----


@BOOK.rule(
    "zenoh-behaviour-5.4/no-queryable",
    MUST,
    "A node answers a REQUEST that no queryable matches by one RESPONSE_FINAL at once, and no reply.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(f"{key}/a")
        announce(server, SUBSCRIBER, f"{key}/b", id=2)
        id = get(querier, f"{key}/b", timeout(60_000))
        seen = replies(querier, id)
        expect(not seen, f"{len(seen)} replies")
        expect(not finals(querier.barrier(), id), "a second RESPONSE_FINAL came")


@BOOK.rule(
    "zenoh-behaviour-5.4/round-trip",
    MUST,
    "A node forwards a REQUEST to the queryable that matches, and its replies under the id of the querier.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(f"{key}/*")
        id = get(querier, f"{key}/a")
        asked = server.next("REQUEST")
        expect(server.text(asked) == f"{key}/a", f"key {server.text(asked)}")
        respond(server, asked, b"1", b"2")
        seen = reply_payloads(querier, id)
        expect(seen == [b"1", b"2"], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.4/wild-request",
    MUST,
    "A REQUEST with wildcards in its key reaches each queryable that it intersects, with that key.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 4) as (one, two, other, querier):
        one.serve(f"{key}/a/b")
        two.serve(f"{key}/a/**")
        other.serve(f"{key}/b/*")
        get(querier, f"{key}/a/*")
        seen = [link.text(link.next("REQUEST")) for link in (one, two)]
        expect(seen == [f"{key}/a/*"] * 2, f"keys {seen}")
        expect(not _requests(other), "a queryable that does not match was asked")


@BOOK.rule(
    "zenoh-behaviour-3.8/once-per-link",
    MUST,
    "A link with several queryables that match a REQUEST receives it once.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        for id, name in enumerate(("a", "*", "**"), 1):
            server.serve(f"{key}/{name}", id)
        id = get(querier, f"{key}/a")
        querier.waiting += querier.barrier()
        asked = server.next("REQUEST")
        more = _requests(server)
        respond(server, asked, b"x")
        expect(not more and reply_payloads(querier, id) == [b"x"], f"{len(more)} more REQUEST messages came")


@BOOK.rule(
    "zenoh-behaviour-5.4/not-back",
    MUST,
    "A node does not send a REQUEST back on the link that it came from.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as link:
        link.serve(key, complete=True)
        id = get(link, key)
        seen = link.until(lambda message: message.kind == "RESPONSE_FINAL" and message.id == id)
        expect("REQUEST" not in [message.kind for message in seen], "the REQUEST came back")


@BOOK.rule(
    "zenoh-wire-4.4/id-of-each-link",
    MUST,
    "A node gives forwarded requests ids of its own: two queriers with one id get their own replies.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (server, one, two):
        server.serve(f"{key}/*")
        asked = []
        for querier, name in ((one, "one"), (two, "two")):
            get(querier, f"{key}/{name}", id=5)
            asked.append(server.next("REQUEST"))
        expect(asked[0].id != asked[1].id, f"both requests came under the id {asked[0].id}")
        for request in reversed(asked):
            respond(server, request, server.text(request).encode())
        seen = reply_payloads(one, 5), reply_payloads(two, 5)
        expect(seen == ([f"{key}/one".encode()], [f"{key}/two".encode()]), f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-4.4/id-of-32-bits",
    MUST,
    "A node takes a REQUEST with any id of 32 bits, 0 and 4294967295 included.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for id in (0, 0xFFFFFFFF):
            querier.send(wire.request(id, key, wire.query()))
            respond(server, server.next("REQUEST"), b"x")
            seen = reply_payloads(querier, id)
            expect(seen == [b"x"], f"id {id}: replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.4/id-again",
    MUST,
    "A node takes the id of a finished request for a new one.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for payload in (b"1", b"2", b"3"):
            get(querier, key, id=9)
            respond(server, server.next("REQUEST"), payload)
            seen = reply_payloads(querier, 9)
            expect(seen == [payload], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.4/query-content",
    MUST,
    "A node forwards parameters, value, attachment and source info of a QUERY unchanged.",
)
def _(target: Target) -> None:
    info = wire.source_info(fresh_zid(), 3, 4)
    exts = (info, (0x43, wire.encoding(4) + b"a value"), (0x45, b"attached"))
    body = requested(target, wire.query(*exts, parameters="a=1;b=2|3;_anyke")).body
    expect(body and body.parameters == b"a=1;b=2|3;_anyke", f"parameters {body and body.parameters!r}")
    for header, value in exts:
        got = body and body.ext(header)
        expect(got == value, f"extension {header:#x} {got!r}")


@BOOK.rule(
    "zenoh-behaviour-3.6/consolidation-passes",
    MUST,
    "A node forwards the consolidation of a QUERY.",
)
def _(target: Target) -> None:
    for consolidation in (1, 2, 3):
        body = requested(target, wire.query(consolidation=consolidation)).body
        got = body and body.consolidation
        expect(got == consolidation, f"consolidation {got} for {consolidation}")


@BOOK.rule("zenoh-behaviour-5.4/target-passes", MUST, "A node forwards the target of a REQUEST.")
def _(target: Target) -> None:
    got = requested(target, wire.query(), (0x34, 1)).ext(0x34)
    expect(got == 1, f"target {got!r}")


@BOOK.rule("zenoh-behaviour-5.4/time-out-passes", MUST, "A node forwards the time-out of a REQUEST.")
def _(target: Target) -> None:
    got = requested(target, wire.query(), timeout(4321)).ext(0x26)
    expect(got == 4321, f"time-out {got!r}")


@BOOK.rule("zenoh-wire-4.4/budget-passes", OBSERVED, "A node forwards the budget of a REQUEST.", seen=RELEASE)
def _(target: Target) -> None:
    got = requested(target, wire.query(), (0x25, 7)).ext(0x25)
    expect(got == 7, f"budget {got!r}")


@BOOK.rule(
    "zenoh-wire-4.4/budget-without-effect",
    OBSERVED,
    "A node forwards more replies than the budget of their REQUEST.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, (0x25, 1))
        respond(server, server.next("REQUEST"), b"1", b"2", b"3")
        seen = reply_payloads(querier, id)
        expect(seen == [b"1", b"2", b"3"], f"replies {seen}")


@BOOK.rule("zenoh-behaviour-5.4/quality-passes", MUST, "A node forwards the QoS of a REQUEST.")
def _(target: Target) -> None:
    got = requested(target, wire.query(), wire.qos(3, block=True, express=True)).ext(0x21)
    expect(got == 0x1B, f"QoS {got!r}")


# ---- Ends ----


@BOOK.rule(
    "zenoh-wire-4.6/one-final",
    MUST,
    "A node sends one RESPONSE_FINAL to the querier, when the last of several queryables has finished.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 4) as (*servers, querier):
        for server in servers:
            server.serve(key)
        id = get(querier, key, (0x34, 1))
        asked = [server.next("REQUEST") for server in servers]
        for server, request in list(zip(servers, asked, strict=True))[:-1]:
            respond(server, request, b"x")
            server.barrier()
        early = querier.barrier()
        expect(not finals(early, id), "RESPONSE_FINAL came before the last queryable finished")
        respond(servers[-1], asked[-1], b"last")
        seen = reply_payloads(querier, id)
        count = sum(message.kind == "RESPONSE" for message in early) + len(seen)
        expect(count == 3 and not finals(querier.barrier(), id), f"{count} replies of 3")


@BOOK.rule(
    "zenoh-behaviour-5.4/fan-out",
    MUST,
    "A query that queryables on 20 links match gets the replies of all, and one RESPONSE_FINAL.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 21) as (querier, *servers):
        for server in servers:
            server.serve(f"{key}/*")
        id = get(querier, f"{key}/a", (0x34, 1))
        for number, server in enumerate(servers):
            respond(server, server.next("REQUEST"), b"%d" % number)
        seen = sorted(reply_payloads(querier, id))
        expect(seen == sorted(b"%d" % number for number in range(20)), f"{len(seen)} replies")
        expect(not finals(querier.barrier(), id), "a second RESPONSE_FINAL came")


@BOOK.rule(
    "zenoh-behaviour-5.4/many-at-once",
    MUST,
    "A node keeps 100 pending queries of one link apart, also when they end in another order.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(f"{key}/*")
        for number in range(1, 101):
            get(querier, f"{key}/{number}", id=number)
        asked = [server.next("REQUEST") for _ in range(100)]
        for request in reversed(asked):
            respond(server, request, server.text(request).removeprefix(f"{key}/").encode())
        server.barrier()
        seen = querier.barrier()
        got = [(m.id, m.body.body.payload) for m in seen if m.body and m.body.body]
        wrong = [pair for pair in got if pair[1] != b"%d" % pair[0]]
        ended = sum(finals(seen, number) for number in range(1, 101))
        expect((len(got), wrong, ended) == (100, [], 100), f"{len(got)} replies, {wrong[:3]}, {ended} finals")


@BOOK.rule(
    "zenoh-behaviour-3.8/quality-of-final",
    OBSERVED,
    "A node's RESPONSE_FINAL has the QoS of the REQUEST.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, wire.qos(3, block=True))
        asked = server.next("REQUEST")
        server.send(wire.response_final(asked.id, wire.qos(3, block=True)))
        final = querier.next("RESPONSE_FINAL")
        expect((final.id, final.ext(0x21)) == (id, 0x0B), f"QoS {final.ext(0x21)!r}")


@BOOK.rule(
    "zenoh-wire-4.5/unknown-request",
    MUST,
    "A node ignores RESPONSE and RESPONSE_FINAL of a request that is not pending on the link.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (server, stranger, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        for link, unknown in ((stranger, asked.id), (server, asked.id + 4711)):
            link.send(wire.response(unknown, key, wire.reply(wire.put(b"forged"))))
            link.send(wire.response_final(unknown))
            expect(link.lives(), "the node closed the link")
        respond(server, asked, b"true")
        seen = reply_payloads(querier, id)
        expect(seen == [b"true"], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-9.2/reply-after-final",
    MUST,
    "A node ignores replies and a second RESPONSE_FINAL after the RESPONSE_FINAL of their queryable.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        respond(server, asked, b"in time")
        respond(server, asked, b"late")
        expect(server.lives(), "the node closed the link")
        seen = reply_payloads(querier, id)
        late = [message for message in querier.barrier() if message.id == id]
        expect(seen == [b"in time"] and not late, f"replies {seen}, {len(late)} messages behind the final")


@BOOK.rule(
    "zenoh-behaviour-5.4/queryable-cut",
    MUST,
    "The end of a queryable's link counts as its RESPONSE_FINAL.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (gone, stays, querier):
        for server in (gone, stays):
            server.serve(key)
        id = get(querier, key, (0x34, 1), timeout(60_000))
        asked = [server.next("REQUEST") for server in (gone, stays)]
        respond(stays, asked[1], b"stays")
        gone.send(wire.response(asked[0].id, key, wire.reply(wire.put(b"gone"))))
        gone.barrier()
        gone.stream.close()
        seen = replies(querier, id)
        payloads = sorted(m.body.body.payload for m in seen if m.body and m.body.body)
        expect(payloads == [b"gone", b"stays"], f"replies {payloads}")


@BOOK.rule(
    "zenoh-behaviour-3.9/cut-without-error",
    OBSERVED,
    "A node ends a query by RESPONSE_FINAL without ERR when the link of its queryable ends.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, timeout(60_000))
        server.next("REQUEST")
        server.stream.close()
        seen = [message.body.kind for message in replies(querier, id) if message.body]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-2.11/querier-cut",
    MUST,
    "The end of a querier's link disturbs neither the queryable's link nor other queries to it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (server, gone, querier):
        server.serve(key)
        get(gone, key)
        asked = server.next("REQUEST")
        gone.stream.close()
        server.barrier()
        respond(server, asked, b"too late")
        id = get(querier, key)
        respond(server, server.next("REQUEST"), b"x")
        seen = reply_payloads(querier, id)
        expect(seen == [b"x"], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.8/after-undeclaration",
    MUST,
    "A node sends no REQUEST for a queryable after its U_QUERYABLE.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        withdraw(server, QUERYABLE)
        id = get(querier, key)
        seen = replies(querier, id)
        expect(not seen and not _requests(server), "the queryable was asked after its end")


# ---- Time-out ----


def _timed_out(target: Target) -> tuple[float, list[Message], list[Message]]:
    """Seconds until the final of an unanswered query, its replies, and what comes for a late answer."""
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        started = time.monotonic()
        id = get(querier, key, timeout(TIMEOUT_MS))
        asked = server.next("REQUEST")
        seen = replies(querier, id)
        took = time.monotonic() - started
        respond(server, asked, b"late")
        server.barrier()
        return took, seen, [message for message in querier.barrier() if message.id == id]


@BOOK.rule(
    "zenoh-wire-4.6/time-out",
    MUST,
    "A node that has forwarded a REQUEST ends it by RESPONSE_FINAL when its time-out is over.",
)
def _(target: Target) -> None:
    took, _, late = _timed_out(target)
    wanted = TIMEOUT_MS / 1000
    expect(wanted * 0.8 < took < wanted + 2, f"RESPONSE_FINAL came after {took:.2f} s")
    expect(not late, f"{len(late)} messages came for the answer after it")


@BOOK.rule(
    "zenoh-behaviour-3.9/time-out-error",
    OBSERVED,
    "A node sends an ERR with the payload Timeout before the RESPONSE_FINAL of a time-out.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    _, seen, _ = _timed_out(target)
    errors = [(m.body.kind, m.body.payload) for m in seen if m.body]
    expect(errors == [("ERR", b"Timeout")], f"got {errors}")


@BOOK.rule(
    "zenoh-wire-4.4/time-out-0",
    OBSERVED,
    "A node forwards a REQUEST with the time-out 0, and ends it by one RESPONSE_FINAL.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, timeout(0))
        asked = server.next("REQUEST")
        respond(server, asked, b"x")
        server.barrier()
        expect(finals([*querier.barrier()], id) == 1, "no RESPONSE_FINAL came")
