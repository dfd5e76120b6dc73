"""Rules of the ids that stand for keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE
from zwire.conformance.zenoh._scene import (
    OPTION,
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    announce,
    ask,
    clients,
    get,
    keys,
    replies,
    respond,
)
from zwire.conformance.zenoh._wire import CURRENT_FUTURE, KEYEXPRS, SUBSCRIBERS, Key

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target

KINDS = (SUBSCRIBER, QUERYABLE, TOKEN)


@BOOK.rule(
    "zenoh-behaviour-4.1/id-of-sender",
    MUST,
    "A receiver expands an id with M = 1 to the key that the sender of the message has declared for it.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/named")
        flow.sender.send(wire.push(Key(None, 7), wire.put(b"whole")))
        flow.sender.send(wire.push(Key("/below", 7), wire.put(b"below")))
        seen = [(flow.receiver.text(m), m.body.payload) for m in flow.received() if m.body]
        expect(
            seen == [(f"{flow.key}/named", b"whole"), (f"{flow.key}/named/below", b"below")], f"got {seen}"
        )


@BOOK.rule(
    "zenoh-behaviour-4.1/suffix-without-slash",
    MUST,
    "A receiver appends the suffix to the key of the id as it is, without adding a slash.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/na")
        flow.sender.send(wire.push(Key("med", 7), wire.put()))
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [f"{flow.key}/named"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/id-of-receiver",
    MUST,
    "A receiver expands an id with M = 0 to the key that it has declared for it itself.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(f"{key}/a")
        ask(publisher, CURRENT_FUTURE, KEYEXPRS | SUBSCRIBERS, f"{key}/a")
        if not publisher.names:
            raise NotApplicable("the node declares no ids of keys")
        id, named = next(iter(publisher.names.items()))
        suffix = f"{key}/a".removeprefix(named)
        publisher.send(wire.push(Key(suffix, id, of_sender=False), wire.put(b"by id")))
        publisher.send(wire.push(f"{key}/a", wire.put(b"last")))
        got = subscriber.next("PUSH")
        expect(got.body and got.body.payload == b"by id", f"got {got.raw.hex()}")


@BOOK.rule(
    "zenoh-behaviour-4.1/ids-of-entities",
    MUST,
    "A receiver expands ids in declarations of subscribers, queryables and tokens.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.name(300, key)
        for kind in KINDS:
            announce(owner, kind, Key(f"/{kind}", 300), id=kind)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/**"))
        expect(seen == [f"{key}/{kind}" for kind in KINDS], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/id-in-interest",
    MUST,
    "A node expands an id in the key of an INTEREST.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.subscribe(f"{key}/a")
        asker.name(3, key)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, Key("/**", 3)))
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule("zenoh-behaviour-4.1/id-in-request", MUST, "A node expands an id in the key of a REQUEST.")
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(f"{key}/a")
        asker.name(3, key)
        id = get(asker, Key("/a", 3))
        asked = owner.next("REQUEST")
        expect(owner.text(asked) == f"{key}/a", f"key {owner.text(asked)}")
        respond(owner, asked)
        replies(asker, id)


@BOOK.rule(
    "zenoh-behaviour-4.1/id-in-response",
    MUST,
    "A node expands an id in the key of a RESPONSE that it forwards.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(f"{key}/a")
        owner.name(9, key)
        id = get(asker, f"{key}/a")
        asked = owner.next("REQUEST")
        owner.send(wire.response(asked.id, Key("/a", 9), wire.reply(wire.put(b"x"))))
        owner.send(wire.response_final(asked.id))
        seen = [asker.text(message) for message in replies(asker, id)]
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/scope-of-own-name",
    MUST,
    "A node that shortens the key of a PUSH by an id uses one that was declared on that link, by itself with "
    "M = 1 or by the receiver with M = 0.",
)
def _(target: Target) -> None:
    with clients(target) as (subscriber, publisher):
        key = target.unique_key()
        publisher.name(5, f"{key}/of-publisher")
        subscriber.name(5, f"{key}/of-subscriber")
        subscriber.subscribe(f"{key}/**")
        publisher.send(wire.push(Key("/x", 5), wire.put()))
        publisher.send(wire.push(f"{key}/of-subscriber/y", wire.put()))
        seen = [subscriber.text(subscriber.next("PUSH")) for _ in range(2)]
        expect(seen == [f"{key}/of-publisher/x", f"{key}/of-subscriber/y"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/no-id-without-interest",
    OBSERVED,
    "A node uses no ids of its own towards a client that has no interest with the option K.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.subscribe(f"{key}/a")
        asker.subscribe(f"{key}/**")
        ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/a")
        owner.send(wire.push(f"{key}/a", wire.put()))
        asker.next("PUSH")
        expect(not asker.names, f"ids {asker.names}")


@BOOK.rule(
    "zenoh-behaviour-4.1/same-id-same-key",
    MUST,
    "A receiver takes a repeated D_KEYEXPR of an id with the same key without effect.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        for _ in range(2):
            flow.sender.name(7, f"{flow.key}/named")
            flow.sender.send(wire.push(Key("/x", 7), wire.put()))
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [f"{flow.key}/named/x"] * 2, f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-4.7/id-keeps-its-key",
    MUST,
    "A receiver ignores a D_KEYEXPR that gives another key to an id in use.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/old")
        flow.sender.send(wire.push(Key("/x", 7), wire.put()))
        flow.sender.name(7, f"{flow.key}/new")
        flow.sender.send(wire.push(Key("/x", 7), wire.put()))
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [f"{flow.key}/old/x"] * 2, f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-4.7/id-free-after-undeclaration",
    MUST,
    "A receiver takes an id for another key after U_KEYEXPR.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        flow.sender.name(7, f"{flow.key}/old")
        flow.sender.send(wire.push(Key("/x", 7), wire.put()))
        flow.sender.declare(wire.u_keyexpr(7))
        flow.sender.name(7, f"{flow.key}/new")
        flow.sender.send(wire.push(Key("/x", 7), wire.put()))
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [f"{flow.key}/old/x", f"{flow.key}/new/x"], f"keys {seen}")


@BOOK.rule("zenoh-wire-4.7/u-keyexpr-unknown", MUST, "A receiver ignores a U_KEYEXPR of an unknown id.")
def _(target: Target) -> None:
    with target.link() as link:
        link.declare(wire.u_keyexpr(4711))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-4.1/ids-of-link",
    MUST,
    "A receiver keeps the ids of keys of each link apart.",
)
def _(target: Target) -> None:
    with target.flow() as flow, target.link() as other:
        other.name(7, f"{flow.key}/other")
        other.barrier()
        flow.sender.send(wire.push(Key("/x", 7), wire.put(b"unknown")))
        flow.sender.name(7, f"{flow.key}/own")
        flow.sender.send(wire.push(Key("/x", 7), wire.put(b"known")))
        seen = [(flow.receiver.text(m), m.body.payload) for m in flow.received() if m.body]
        expect(seen == [(f"{flow.key}/own/x", b"known")], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/wild-id",
    MUST,
    "A receiver takes a D_KEYEXPR of a key with wildcards.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.name(2, f"{key}/**")
        announce(subscriber, SUBSCRIBER, Key(None, 2))
        publisher.send(wire.push(f"{key}/a/b", wire.put()))
        expect(subscriber.text(subscriber.next("PUSH")) == f"{key}/a/b", "another key came")


@BOOK.rule(
    "zenoh-behaviour-4.1/unknown-scope-in-declaration",
    MUST,
    "A receiver ignores a declaration with an unknown id of a key, and keeps the link and the others.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(f"{key}/a")
        for kind in KINDS:
            announce(subscriber, kind, Key("/x", 4711), id=20 + kind)
        publisher.send(wire.push(f"{key}/a", wire.put(b"kept")))
        got = subscriber.next("PUSH")
        expect(got.body and got.body.payload == b"kept", f"got {got.raw.hex()}")


@BOOK.rule(
    "zenoh-behaviour-4.1/unknown-scope-in-request",
    MUST,
    "A node answers a REQUEST with an unknown id of a key by RESPONSE_FINAL at once.",
)
def _(target: Target) -> None:
    with target.link() as link:
        id = get(link, Key("/x", 4711))
        seen = replies(link, id)
        expect(not seen, f"{len(seen)} replies came")
