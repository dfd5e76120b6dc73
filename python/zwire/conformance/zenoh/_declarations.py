"""Rules of declarations: the ids of entities, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    DECLARES,
    NULL_KEY,
    OPTION,
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    WITHDRAWS,
    announce,
    ask,
    bodies,
    clients,
    get,
    keys,
    replies,
    reply_payloads,
    respond,
    watch,
    withdraw,
    withdrawn_key,
)
from zwire.conformance.zenoh._wire import CURRENT_FUTURE, SUBSCRIBERS, Key

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target

KINDS = (SUBSCRIBER, QUERYABLE, TOKEN)


@BOOK.rule(
    "zenoh-behaviour-4.6/nothing-for-clients",
    SHOULD,
    "A node sends a client no declarations for which the client has no interest.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=kind)
        for kind in KINDS:
            withdraw(owner, kind, id=kind)
        seen = [m.kind if m.body is None else m.body.kind for m in asker.barrier() if m.kind == "DECLARE"]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-4.2/two-ids",
    MUST,
    "A key that one link declares under two ids is withdrawn when the last of them is undeclared.",
)
def _(target: Target) -> None:
    with target.flow() as flow, target.link() as twice:
        for id in (1, 2):
            announce(twice, SUBSCRIBER, f"{flow.key}/a", id=id)
        withdraw(twice, SUBSCRIBER, 1)
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"one id left")))
        twice.next("PUSH")
        withdraw(twice, SUBSCRIBER, 2)
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"no id left")))
        flow.payloads()
        seen = [m.body.payload for m in twice.barrier() if m.kind == "PUSH" and m.body]
        expect(not seen, f"got {seen} after the last undeclaration")


@BOOK.rule(
    "zenoh-behaviour-4.2/repeated-declaration",
    MUST,
    "A subscriber that is declared twice under one id is one subscriber, which one U_SUBSCRIBER ends.",
)
def _(target: Target) -> None:
    with target.flow() as flow, target.link() as twice:
        for _ in range(2):
            announce(twice, SUBSCRIBER, f"{flow.key}/a")
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"before")))
        flow.payloads()
        before = [m.body.payload for m in twice.barrier() if m.kind == "PUSH" and m.body]
        withdraw(twice, SUBSCRIBER)
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"after")))
        flow.payloads()
        after = [m.body.payload for m in twice.barrier() if m.kind == "PUSH" and m.body]
        expect((before, after) == ([b"before"], []), f"got {before} before and {after} after U_SUBSCRIBER")


@BOOK.rule(
    "zenoh-wire-4.7/id-of-two-keys",
    OBSERVED,
    "A subscriber's id that is declared again for another key leaves both keys subscribed.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        for name in "ab":
            announce(subscriber, SUBSCRIBER, f"{key}/{name}")
        for name in "ab":
            publisher.send(wire.push(f"{key}/{name}", wire.put()))
        publisher.barrier()
        seen = [subscriber.text(message) for message in subscriber.barrier() if message.kind == "PUSH"]
        expect(seen == [f"{key}/a", f"{key}/b"], f"got keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.2/kinds-apart",
    MUST,
    "A receiver keeps the ids of subscribers, queryables and tokens apart.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=5)
        withdraw(owner, SUBSCRIBER, 5)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/**"))
        expect(seen == [f"{key}/{QUERYABLE}", f"{key}/{TOKEN}"], f"keys {seen} are left")


@BOOK.rule(
    "zenoh-behaviour-4.2/distinct-ids",
    MUST,
    "A node announces two keys of a kind to a client under two ids.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for id, name in enumerate("abc", 1):
            owner.subscribe(f"{key}/{name}", id)
        found = bodies(ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/*"), "D_SUBSCRIBER")
        ids = {body.id for body in found}
        expect(len(found) == len(ids) == 3, f"{len(found)} declarations with {len(ids)} ids")


@BOOK.rule(
    "zenoh-wire-4.7/undeclare-unknown",
    MUST,
    "A receiver ignores U_SUBSCRIBER, U_QUERYABLE and U_TOKEN of unknown ids, and keeps the others.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=1)
            withdraw(owner, kind, id=4711)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/**"))
        expect(len(seen) == 3, f"only {seen} are left")


@BOOK.rule(
    "zenoh-wire-4.7/undeclare-with-null-key",
    MUST,
    "A receiver takes the id from an undeclaration with a null WireExpr extension.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}")
            withdraw(owner, kind, 1, NULL_KEY)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/**"))
        expect(not seen, f"{seen} are left")


@BOOK.rule(
    "zenoh-wire-4.7/withdrawal-has-null-key",
    OBSERVED,
    "A node's U_QUERYABLE and U_TOKEN for a client carry the null WireExpr extension 5f 02 00 00.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in (QUERYABLE, TOKEN):
            announce(owner, kind, f"{key}/{kind}")
            ask(asker, CURRENT_FUTURE, OPTION[kind], f"{key}/{kind}", id=kind)
            withdraw(owner, kind)
            found = asker.next(WITHDRAWS[kind]).body
            expect(found and found.exts == [NULL_KEY], f"{WITHDRAWS[kind]} came with {found and found.exts}")


@BOOK.rule(
    "zenoh-wire-4.7/final-without-interest",
    MUST,
    "A receiver ignores a D_FINAL without the id of an interest.",
)
def _(target: Target) -> None:
    with target.link() as link:
        link.declare(wire.d_final())
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-2.12/final-not-pending",
    MUST,
    "A receiver ignores the D_FINAL of an interest that is not pending.",
)
def _(target: Target) -> None:
    with target.link() as link:
        link.declare(wire.d_final(), interest=4711)
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-4.7/declaration-without-qos",
    MUST,
    "A receiver takes a DECLARE without QoS extension in a FRAME of the priority Data.",
)
def _(target: Target) -> None:
    with target.flow() as flow, target.link() as plain:
        plain.send(wire.declare(wire.d_subscriber(1, f"{flow.key}/a")))
        plain.barrier()
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put()))
        plain.next("PUSH")


@BOOK.rule(
    "zenoh-behaviour-4.7/qos-of-declarations",
    OBSERVED,
    "A node's DECLARE messages carry the QoS value 0x08: priority Control, Block.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.subscribe(f"{key}/a")
        for message in ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/a"):
            expect(message.ext(0x21) == 0x08, f"QoS {message.ext(0x21)!r} in {message.raw.hex()}")


@BOOK.rule(
    "zenoh-behaviour-4.2/queryable-update",
    MUST,
    "A D_QUERYABLE with an id in use, the same key and another info changes the info of that queryable.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(key, complete=True)
        owner.serve(key, complete=False)
        id = get(asker, key, (0x34, 2))
        seen = [message.kind for message in owner.barrier()]
        expect(not replies(asker, id) and "REQUEST" not in seen, "the queryable still counts as complete")
        owner.serve(key, complete=True)
        id = get(asker, key, (0x34, 2))
        respond(owner, owner.next("REQUEST"), b"complete again")
        expect(reply_payloads(asker, id) == [b"complete again"], "the reply did not come")


@BOOK.rule(
    "zenoh-behaviour-4.2/queryable-update-announced",
    MUST,
    "A node announces the changed info of a queryable to those with an interest, under the id of its "
    "announcement.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(key)
        found = bodies(ask(asker, CURRENT_FUTURE, wire.QUERYABLES, key), "D_QUERYABLE")
        expect(len(found) == 1, f"{len(found)} declarations")
        owner.serve(key, complete=True)
        second = asker.next("D_QUERYABLE").body
        expect(second and second.ext(0x21) == 1, f"announced {second}")
        expect(second and second.id == found[0].id, f"id {second and second.id} after {found[0].id}")


def _ends(target: Target, kind: int, *, orderly: bool) -> None:
    """Check that the end of a link withdraws what it has declared."""
    key = target.unique_key()
    with clients(target) as (owner, asker):
        watch(asker, OPTION[kind], f"{key}/**")
        announce(owner, kind, f"{key}/a")
        announced = asker.next(DECLARES[kind]).body
        known = {announced.id: asker.text(announced)} if announced else {}
        if orderly:
            owner.send_batch(wire.close(0))
        owner.stream.close()
        found = asker.next(WITHDRAWS[kind]).body
        seen = found and withdrawn_key(asker, found, known)
        expect(seen == f"{key}/a", f"{WITHDRAWS[kind]} names {seen}")


@BOOK.rule("zenoh-wire-4.7/cut-ends-subscriber", MUST, "A node withdraws the subscribers of a cut link.")
def _(target: Target) -> None:
    _ends(target, SUBSCRIBER, orderly=False)


@BOOK.rule("zenoh-wire-4.7/cut-ends-queryable", MUST, "A node withdraws the queryables of a cut link.")
def _(target: Target) -> None:
    _ends(target, QUERYABLE, orderly=False)


@BOOK.rule(
    "zenoh-wire-4.7/close-ends-subscriber",
    MUST,
    "A node withdraws the subscribers of a link that CLOSE has ended.",
)
def _(target: Target) -> None:
    _ends(target, SUBSCRIBER, orderly=True)


@BOOK.rule(
    "zenoh-wire-4.7/close-ends-queryable",
    MUST,
    "A node withdraws the queryables of a link that CLOSE has ended.",
)
def _(target: Target) -> None:
    _ends(target, QUERYABLE, orderly=True)


@BOOK.rule(
    "zenoh-behaviour-2.11/ids-end-with-link",
    MUST,
    "A node drops the ids of keys with the link: a new link of the same ZenohID starts without any.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        with target.link() as old:
            old.name(7, f"{flow.key}/old")
            old.barrier()
            old.send_batch(wire.close(0))
            old.closed()
        with target.link(zid=old.zid) as new:
            new.send(wire.push(Key("/x", 7), wire.put(b"by the old id")))
            new.name(7, f"{flow.key}/new")
            new.send(wire.push(Key("/x", 7), wire.put(b"by the new id")))
            new.barrier()
            seen = flow.payloads()
        expect(seen == [b"by the new id"], f"payloads {seen}")


BOOK.unreachable(
    "zenoh-behaviour-2.11/declares-again",
    MUST,
    "A node that dials declares all that it has again after the loss of its link.",
    "the suite dials the node; nodes that dial the suite are not judged",
)
