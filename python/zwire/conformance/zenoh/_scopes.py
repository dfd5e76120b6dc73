"""Rules of key expressions on the wire: scope, suffix, and the flags N and M."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    announce,
    ask,
    body_of,
    clients,
    get,
    keys,
    replies,
    reply_payloads,
    respond,
    responded,
)
from zwire.conformance.zenoh._wire import CURRENT_FUTURE, SUBSCRIBERS, Key

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Flow, Target

UNKNOWN = 4711
"""Scope that no link declares."""
EMPTY = {"suffix": Key(""), "key": Key(None)}
"""Both forms of the empty key: an empty suffix, and none."""


def _arrived(flow: Flow) -> list[str]:
    return [flow.receiver.text(message).removeprefix(f"{flow.key}/") for message in flow.received()]


# ---- Scope 0 ----


@BOOK.rule(
    "zenoh-wire-1.9/scope-0-in-push",
    MUST,
    "A receiver ignores the flag M of a PUSH with the scope 0.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for of_sender in (True, False):
            flow.sender.send(wire.push(Key(f"{flow.key}/a", of_sender=of_sender), wire.put()))
        seen = _arrived(flow)
        expect(seen == ["a", "a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-1.9/scope-0-in-query",
    MUST,
    "A receiver ignores the flag M of REQUEST and RESPONSE with the scope 0.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for of_sender in (True, False):
            at = Key(key, of_sender=of_sender)
            id = get(querier, at)
            asked = server.next("REQUEST")
            server.send(
                wire.response(asked.id, at, wire.reply(wire.put(b"x"))), wire.response_final(asked.id)
            )
            seen = reply_payloads(querier, id)
            expect(seen == [b"x"], f"replies {seen} with M = {int(of_sender)}")


@BOOK.rule(
    "zenoh-wire-1.9/scope-0-in-declaration",
    MUST,
    "A receiver ignores the flag M of declarations and interests with the scope 0.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in (SUBSCRIBER, QUERYABLE, TOKEN):
            announce(owner, kind, Key(f"{key}/{kind}", of_sender=False), kind)
        options = SUBSCRIBERS | wire.QUERYABLES | wire.TOKENS
        seen = keys(asker, ask(asker, CURRENT_FUTURE, options, Key(f"{key}/*", of_sender=False)))
        expect(seen == [f"{key}/2", f"{key}/4", f"{key}/6"], f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-1.9/sends-m-with-scope-0",
    OBSERVED,
    "A node sets the flag M of messages with the scope 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put()))
        seen = [message.flags & 0x60 for message in flow.received() if message.key and not message.key.scope]
        if not seen:
            raise NotApplicable("the node sends ids of keys")
        expect(seen == [0x60], f"flags {seen}")


@BOOK.rule(
    "zenoh-wire-4.7/id-0",
    MUST,
    "A D_KEYEXPR of the id 0 does not change that the scope 0 stands for no prefix.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.declare(wire.d_keyexpr(0, "conformance/zero"))
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put()))
        seen = _arrived(flow)
        expect(seen == ["a"], f"keys {seen}")


# ---- Prefix and suffix ----


@BOOK.rule("zenoh-wire-1.9/empty-suffix", MUST, "An id with an empty suffix stands for the key of the id.")
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/a")
        flow.sender.send(wire.push(Key("", 7), wire.put()))
        seen = _arrived(flow)
        expect(seen == ["a"], f"keys {seen}")


@BOOK.rule("zenoh-wire-4.7/id-65535", MUST, "A receiver takes ids of keys up to 65535.")
def _(target: Target) -> None:
    with target.flow() as flow:
        for id in (1, 127, 128, 16_384, 65_535):
            flow.sender.name(id, f"{flow.key}/{id}")
            flow.sender.send(wire.push(Key("/a", id), wire.put()))
        seen = _arrived(flow)
        expect(seen == ["1/a", "127/a", "128/a", "16384/a", "65535/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-4.7/wildcard-in-suffix",
    MUST,
    "A receiver takes a subscriber with an id of a prefix without wildcards, and a suffix with one.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.name(2, key)
        announce(subscriber, SUBSCRIBER, Key("/*", 2))
        publisher.send(wire.push(f"{key}/a", wire.put()))
        expect(subscriber.text(subscriber.next("PUSH")) == f"{key}/a", "another key came")


@BOOK.rule(
    "zenoh-wire-1.9/joined-key",
    SHOULD,
    "A node drops a PUSH with a prefix and a suffix that are no canonical key together, and keeps the link.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/a")
        for suffix in ("/", "//b", "*", "/a#b"):
            flow.sender.send(wire.push(Key(suffix, 7), wire.put()))
            expect(flow.sender.lives(), f"the node closed the link for the suffix {suffix}")
        flow.sender.send(wire.push(Key("/b", 7), wire.put()))
        seen = _arrived(flow)
        expect(seen == ["a/b"], f"keys {seen}")


# ---- Unknown ids ----


@BOOK.rule(
    "zenoh-wire-1.9/unknown-scope-in-push",
    SHOULD,
    "A receiver drops a PUSH with an unknown id, of the sender or of the receiver, and keeps the link.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for of_sender in (True, False):
            flow.sender.send(wire.push(Key(f"{flow.key}/a", UNKNOWN, of_sender), wire.put()))
            flow.sender.send(wire.push(Key(None, UNKNOWN, of_sender), wire.put()))
        expect(flow.sender.lives(), "the node closed the link")
        seen = _arrived(flow)
        expect(not seen, f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-1.9/unknown-scope-in-response",
    SHOULD,
    "A receiver drops a RESPONSE with an unknown id of a key, and keeps the link and the query.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        server.send(wire.response(asked.id, Key("/a", UNKNOWN), wire.reply(wire.put(b"unknown"))))
        expect(server.lives(), "the node closed the link")
        respond(server, asked, b"known")
        seen = reply_payloads(querier, id)
        expect(seen == [b"known"], f"replies {seen}")


@BOOK.rule(
    "zenoh-wire-1.9/unknown-scope-in-interest",
    SHOULD,
    "A receiver keeps the link for an INTEREST with an unknown id of a key.",
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(wire.interest(1, CURRENT_FUTURE, SUBSCRIBERS, Key("/a", UNKNOWN)))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-wire-1.9/unknown-prefix-of-id",
    SHOULD,
    "A receiver ignores a D_KEYEXPR with an unknown id in its key, and keeps the link.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.declare(wire.d_keyexpr(7, Key(f"{flow.key}/a", UNKNOWN)))
        flow.sender.send(wire.push(Key(None, 7), wire.put()))
        expect(flow.sender.lives(), "the node closed the link")
        seen = _arrived(flow)
        expect(not seen, f"keys {seen}")


# ---- The empty key ----


def _drops_push(at: Key, target: Target) -> None:
    with target.flow() as flow:
        flow.sender.send(wire.push(at, wire.put()))
        expect(flow.sender.lives(), "the node closed the link")
        seen = flow.received()
        expect(not seen, f"{len(seen)} PUSH messages came")


def _survives_request(at: Key, target: Target) -> None:
    with target.link() as link:
        get(link, at)
        expect(link.lives(), "the node closed the link")


def _drops_declaration(at: Key, target: Target) -> None:
    with clients(target) as (owner, asker):
        for kind in (SUBSCRIBER, QUERYABLE, TOKEN):
            announce(owner, kind, at, kind)
        expect(owner.lives(), "the node closed the link")
        options = SUBSCRIBERS | wire.QUERYABLES | wire.TOKENS
        seen = keys(asker, ask(asker, CURRENT_FUTURE, options))
        expect("" not in seen, "declarations of the empty key came")


def _drops_response(at: Key, target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        server.send(wire.response(asked.id, at, wire.reply(wire.put(b"empty"))))
        expect(server.lives(), "the node closed the link")
        respond(server, asked, b"last")
        seen = reply_payloads(querier, id)
        expect(seen == [b"last"], f"replies {seen}")


def _forwards_error(at: Key, target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key)
        asked = server.next("REQUEST")
        server.send(wire.response(asked.id, at, wire.err(b"oops")), wire.response_final(asked.id))
        seen = [(querier.text(message), body_of(message).payload) for message in replies(querier, id)]
        expect(seen == [("", b"oops")], f"errors {seen}")


for _name, _at in EMPTY.items():
    _form = "an empty suffix" if _at.suffix == "" else "no suffix"
    for _id, _level, _sentence, _check in (
        ("push", SHOULD, "A node drops a PUSH with the scope 0 and {}, and keeps the link.", _drops_push),
        (
            "request",
            SHOULD,
            "A node keeps the link for a REQUEST with the scope 0 and {}.",
            _survives_request,
        ),
        (
            "declaration",
            SHOULD,
            "A node takes no declaration with the scope 0 and {}, and keeps the link.",
            _drops_declaration,
        ),
        (
            "response",
            SHOULD,
            "A node drops a REPLY with the scope 0 and {}, and keeps the query.",
            _drops_response,
        ),
        (
            "error",
            MUST,
            "A node forwards an ERR with the scope 0 and {}, as one with the empty key.",
            _forwards_error,
        ),
    ):
        BOOK.rule(f"zenoh-wire-1.9/empty-{_name}-of-{_id}", _level, _sentence.format(_form))(
            functools.partial(_check, _at)
        )


@BOOK.rule(
    "zenoh-wire-4.5/responder-optional",
    MUST,
    "A node forwards a RESPONSE without a responder id.",
)
def _(target: Target) -> None:
    got = body_of(responded(target, wire.reply(wire.put(b"x")))).payload
    expect(got == b"x", f"payload {got!r}")
