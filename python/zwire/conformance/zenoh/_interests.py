"""Rules of interests: which declarations answer them, and when they end."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    ALL_KINDS,
    DECLARES,
    OPTION,
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    WITHDRAWS,
    announce,
    ask,
    bodies,
    clients,
    is_final,
    keys,
    send_interest,
    watch,
    withdraw,
    withdrawn_key,
)
from zwire.conformance.zenoh._wire import (
    CURRENT,
    CURRENT_FUTURE,
    FINAL,
    FUTURE,
    KEYEXPRS,
    QUERYABLES,
    SUBSCRIBERS,
    TOKENS,
    Key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.conformance.zenoh._link import Target

NAMES = {SUBSCRIBER: "subscriber", QUERYABLE: "queryable", TOKEN: "token"}


def _for_each_kind(name: str, sentence: str, check: Callable[..., None]) -> None:
    """Add a rule for subscribers, one for queryables and one for tokens."""
    for kind, entity in NAMES.items():
        BOOK.rule(f"zenoh-behaviour-4.3/{entity}-{name}", MUST, sentence.format(f"{entity}s"))(
            functools.partial(check, kind=kind)
        )


# ---- Current ----


def _current(target: Target, kind: int) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, kind, f"{key}/in")
        announce(owner, kind, f"{key}-out", id=2)
        found = ask(asker, CURRENT_FUTURE, OPTION[kind], f"{key}/**", id=77)
        expect(keys(asker, found) == [f"{key}/in"], f"keys {keys(asker, found)}")


_for_each_kind(
    "current",
    "A node answers an interest in current and future {0} by those that intersect its key, with the id of "
    "the interest, and then D_FINAL.",
    _current,
)


@BOOK.rule(
    "zenoh-behaviour-4.3/final-without-match",
    MUST,
    "A node answers a CurrentFuture interest that nothing matches by D_FINAL alone.",
)
def _(target: Target) -> None:
    with target.link() as asker:
        found = ask(asker, CURRENT_FUTURE, ALL_KINDS, target.unique_key())
        expect(not found, f"{len(found)} declarations came")


@BOOK.rule(
    "zenoh-behaviour-4.3/current-tokens",
    MUST,
    "A node answers a Current interest in tokens by those that live, and then D_FINAL.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        seen = keys(asker, ask(asker, CURRENT, TOKENS, f"{key}/*"))
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/final-is-last",
    MUST,
    "The D_FINAL of an interest comes once, behind all declarations that answer it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for id in range(1, 31):
            owner.declare(wire.d_subscriber(id, f"{key}/{id}"), wire.d_queryable(id, f"{key}/{id}"))
        owner.barrier()
        found = ask(asker, CURRENT_FUTURE, ALL_KINDS, f"{key}/*", id=9)
        late = [message for message in asker.barrier() if message.interest == 9]
        expect((len(found), len(late)) == (60, 0), f"{len(found)} before D_FINAL, {len(late)} behind it")


@BOOK.rule(
    "zenoh-behaviour-4.3/kinds-of-options",
    MUST,
    "A node answers an interest by the kinds of entities that its options name, and no others.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in NAMES:
            announce(owner, kind, f"{key}/a", id=kind)
        for options in (SUBSCRIBERS, QUERYABLES, TOKENS, SUBSCRIBERS | TOKENS, ALL_KINDS):
            found = ask(asker, CURRENT_FUTURE, options, f"{key}/*", id=options)
            seen = {body.kind for body in bodies(found)}
            asked = {DECLARES[kind] for kind in NAMES if OPTION[kind] & options}
            expect(seen == asked, f"options {options:#04x}: got {sorted(seen)}")


@BOOK.rule(
    "zenoh-behaviour-4.3/wildcard-interest",
    MUST,
    "A node matches the key of an interest with those of entities by intersection, wildcards on either side.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for id, name in enumerate(("a/b", "a/**", "*/c", "x"), 1):
            owner.subscribe(f"{key}/{name}", id)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/a/*"))
        expect(seen == [f"{key}/*/c", f"{key}/a/**", f"{key}/a/b"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/unrestricted",
    MUST,
    "A node answers an interest without a key by all entities of the kinds that the options name.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for kind in NAMES:
            announce(owner, kind, f"{key}/{kind}", id=kind)
        found = keys(asker, ask(asker, CURRENT_FUTURE, ALL_KINDS))
        missing = {f"{key}/{kind}" for kind in NAMES}.difference(found)
        expect(not missing, f"{sorted(missing)} did not come, but {len(found)} others")


@BOOK.rule(
    "zenoh-behaviour-4.3/own-entities",
    SHOULD,
    "A node's answers leave out the subscribers and queryables of the link that asks.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as asker:
        announce(asker, SUBSCRIBER, f"{key}/a")
        announce(asker, QUERYABLE, f"{key}/b")
        found = ask(asker, CURRENT_FUTURE, SUBSCRIBERS | QUERYABLES, f"{key}/**")
        announce(asker, SUBSCRIBER, f"{key}/c", id=5)
        later = bodies(asker.barrier())
        expect(not found and not later, f"{keys(asker, found)} came, and later {len(later)} declarations")


@BOOK.rule(
    "zenoh-behaviour-4.3/once-per-key",
    MUST,
    "A node announces a key that several links have declared once.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        for kind in NAMES:
            announce(one, kind, f"{key}/{kind}", id=kind)
            announce(two, kind, f"{key}/{kind}", id=kind)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, ALL_KINDS, f"{key}/*"))
        expect(seen == [f"{key}/{kind}" for kind in NAMES], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/current-has-id-0",
    OBSERVED,
    "A node answers a Current interest by tokens of the id 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, key)
        ids = [body.id for body in bodies(ask(asker, CURRENT, TOKENS, key))]
        expect(ids == [0], f"ids {ids}")


@BOOK.rule(
    "zenoh-behaviour-4.3/current-of-subscribers",
    OBSERVED,
    "A node ignores a Current interest in subscribers or queryables, without D_FINAL.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as asker:
        for options in (SUBSCRIBERS, QUERYABLES, KEYEXPRS | SUBSCRIBERS | TOKENS):
            send_interest(asker, wire.interest(options, CURRENT, options, key))
            seen = [message for message in asker.barrier() if is_final(message, options)]
            expect(not seen, f"D_FINAL came for the options {options:#04x}")


@BOOK.rule(
    "zenoh-behaviour-4.3/current-only",
    MUST,
    "A node announces nothing more for a Current interest after its D_FINAL.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        ask(asker, CURRENT, TOKENS, f"{key}/*")
        announce(owner, TOKEN, f"{key}/b", id=2)
        withdraw(owner, TOKEN)
        seen = [body.kind for body in bodies(asker.barrier())]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-wire-4.8/key-without-option-k",
    OBSERVED,
    "A node answers an interest without the option K by whole keys behind the scope 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.name(1, key)
        announce(owner, SUBSCRIBER, Key("/a", 1))
        for body in bodies(ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/*")):
            expect(body.key == Key(f"{key}/a"), f"key {body.key}")


@BOOK.rule(
    "zenoh-behaviour-4.3/keyexprs-have-no-interest",
    OBSERVED,
    "A node declares the ids of keys for an interest with the option K before their use, without the id of "
    "the interest.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, SUBSCRIBER, f"{key}/a")
        send_interest(asker, wire.interest(4, CURRENT_FUTURE, KEYEXPRS | SUBSCRIBERS, f"{key}/a"))
        seen = asker.until(lambda message: is_final(message, 4))
        kinds = [(m.body.kind, m.interest) for m in seen if m.body]
        expect(kinds == [("D_KEYEXPR", None), ("D_SUBSCRIBER", 4), ("D_FINAL", 4)], f"got {kinds}")


# ---- Future ----


def _future(target: Target, kind: int) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        watch(asker, OPTION[kind], f"{key}/*")
        announce(owner, kind, f"{key}/a")
        message = asker.next(DECLARES[kind])
        seen = message.body and asker.text(message.body)
        expect((seen, message.interest) == (f"{key}/a", None), f"key {seen}, interest {message.interest}")


_for_each_kind(
    "future",
    "A node announces new {0} to a link with a matching Future interest, without the id of the interest.",
    _future,
)


def _removal(target: Target, kind: int) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, kind, f"{key}/a")
        announce(owner, kind, f"{key}/b", id=2)
        found = bodies(ask(asker, CURRENT_FUTURE, OPTION[kind], f"{key}/*"), DECLARES[kind])
        known = {body.id: asker.text(body) for body in found}
        withdraw(owner, kind, 2)
        gone = asker.next(WITHDRAWS[kind]).body
        seen = gone and withdrawn_key(asker, gone, known)
        expect(seen == f"{key}/b", f"{WITHDRAWS[kind]} names {seen}")


_for_each_kind(
    "removal",
    "A node announces the removal of {0} by the id of their announcement, or by their key.",
    _removal,
)


def _last_source(target: Target, kind: int) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        announce(one, kind, key)
        announce(two, kind, key)
        ask(asker, CURRENT_FUTURE, OPTION[kind], key)
        withdraw(one, kind)
        early = bodies(asker.barrier(), WITHDRAWS[kind])
        expect(not early, "the removal came while one link still declares the key")
        withdraw(two, kind)
        asker.next(WITHDRAWS[kind])


_for_each_kind(
    "last-source",
    "A node announces the removal of a key of {0} when the last link that declares it withdraws it.",
    _last_source,
)


@BOOK.rule(
    "zenoh-behaviour-4.3/future-is-finished",
    OBSERVED,
    "A router answers a Future interest by D_FINAL at once.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    with target.link() as asker:
        ask(asker, FUTURE, TOKENS, target.unique_key())


@BOOK.rule(
    "zenoh-behaviour-4.3/future-only",
    MUST,
    "A node does not announce for a Future interest what is declared already.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        send_interest(asker, wire.interest(1, FUTURE, TOKENS, f"{key}/*"))
        seen = keys(asker, asker.barrier())
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-4.3/future-restricted",
    MUST,
    "A node announces for a Future interest no entities that do not intersect its key, and no other kinds.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        watch(asker, SUBSCRIBERS, f"{key}/*")
        announce(owner, SUBSCRIBER, f"{key}/a/b")
        announce(owner, QUERYABLE, f"{key}/a")
        announce(owner, TOKEN, f"{key}/a")
        seen = [body.kind for body in bodies(asker.barrier())]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-4.3/announced-once",
    MUST,
    "A node announces a key once for a CurrentFuture interest, also when another link declares it later.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        for kind in (SUBSCRIBER, TOKEN):
            announce(one, kind, key)
        ask(asker, CURRENT_FUTURE, SUBSCRIBERS | TOKENS, key)
        for kind in (SUBSCRIBER, TOKEN):
            announce(two, kind, key)
        seen = [body.kind for body in bodies(asker.barrier())]
        expect(not seen, f"{seen} came again")


@BOOK.rule(
    "zenoh-behaviour-4.3/final-ends",
    MUST,
    "A node announces no new entities for an interest that INTEREST Final has ended.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        ask(asker, CURRENT_FUTURE, ALL_KINDS, f"{key}/*", id=3)
        send_interest(asker, wire.interest(3, FINAL))
        asker.barrier()
        for kind in NAMES:
            announce(owner, kind, f"{key}/b", id=2)
        seen = [body.kind for body in bodies(asker.barrier())]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-4.3/final-unknown",
    MUST,
    "A node ignores an INTEREST Final of an unknown id.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        watch(asker, SUBSCRIBERS, key, id=3)
        send_interest(asker, wire.interest(4711, FINAL))
        announce(owner, SUBSCRIBER, key)
        asker.next("D_SUBSCRIBER")


@BOOK.rule(
    "zenoh-behaviour-4.3/several-interests",
    MUST,
    "A node answers each of several interests in one key, and the end of one leaves the others.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, SUBSCRIBER, f"{key}/a")
        for id in (1, 2, 3):
            seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/*", id=id))
            expect(seen == [f"{key}/a"], f"interest {id}: keys {seen}")
        send_interest(asker, wire.interest(2, FINAL))
        asker.barrier()
        announce(owner, SUBSCRIBER, f"{key}/b", id=2)
        body = asker.next("D_SUBSCRIBER").body
        expect(body and asker.text(body) == f"{key}/b", "another key came")


@BOOK.rule(
    "zenoh-behaviour-4.3/same-id-of-entity",
    OBSERVED,
    "A node answers a second interest by the ids under which it has announced the entities before.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, SUBSCRIBER, f"{key}/a")
        ids = [
            [body.id for body in bodies(ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/{last}", id=id))]
            for id, last in enumerate(("*", "a"), 1)
        ]
        expect(ids[0] == ids[1], f"ids {ids}")


@BOOK.rule(
    "zenoh-behaviour-4.3/same-id-twice",
    OBSERVED,
    "A node answers an interest again when its id is sent again.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, SUBSCRIBER, f"{key}/a")
        for _ in range(2):
            seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS, f"{key}/*"))
            expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/ids-of-link",
    MUST,
    "A node keeps the ids of interests of each link apart.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (owner, one, two):
        for asker in (one, two):
            watch(asker, SUBSCRIBERS, f"{key}/*", id=8)
        send_interest(one, wire.interest(8, FINAL))
        one.barrier()
        announce(owner, SUBSCRIBER, f"{key}/a")
        two.next("D_SUBSCRIBER")


@BOOK.rule(
    "zenoh-behaviour-4.7/interest-without-qos",
    MUST,
    "A node takes an INTEREST without QoS extension in a FRAME of the priority Data.",
)
def _(target: Target) -> None:
    with target.link() as asker:
        asker.send(wire.interest(6, CURRENT_FUTURE, SUBSCRIBERS, target.unique_key()))
        asker.until(lambda message: is_final(message, 6))


BOOK.unreachable(
    "zenoh-behaviour-4.4/interest-time-out",
    SHOULD,
    "A node that waits for the D_FINAL of its router for 10 seconds sends D_FINAL itself.",
    "the suite dials the node; it is not the node's router",
)
