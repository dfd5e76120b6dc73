"""Rules of aggregate interests, and of the merged info of queryables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    announce,
    ask,
    bodies,
    clients,
    keys,
    withdraw,
)
from zwire.conformance.zenoh._wire import (
    AGGREGATE,
    CURRENT,
    CURRENT_FUTURE,
    QUERYABLES,
    SUBSCRIBERS,
    TOKENS,
)

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-key",
    MUST,
    "A node answers an aggregate interest in subscribers by one declaration with exactly the key of the "
    "interest.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.subscribe(f"{key}/**")
        owner.subscribe(f"{key}/a/*", 2)
        seen = keys(asker, ask(asker, CURRENT_FUTURE, SUBSCRIBERS | AGGREGATE, f"{key}/a/b"))
        expect(seen == [f"{key}/a/b"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-nothing",
    MUST,
    "A node answers an aggregate interest that nothing matches by D_FINAL alone.",
)
def _(target: Target) -> None:
    with target.link() as asker:
        options = SUBSCRIBERS | QUERYABLES | AGGREGATE
        found = ask(asker, CURRENT_FUTURE, options, f"{target.unique_key()}/a")
        expect(not found, f"{len(found)} declarations came")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-first",
    MUST,
    "A node announces the key of an aggregate interest when the first entity appears that intersects it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        ask(asker, CURRENT_FUTURE, SUBSCRIBERS | AGGREGATE, f"{key}/a/b")
        owner.subscribe(f"{key}/a/**")
        body = asker.next("D_SUBSCRIBER").body
        expect(body and asker.text(body) == f"{key}/a/b", f"key {body and asker.text(body)}")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-last",
    MUST,
    "A node withdraws the key of an aggregate interest when the last entity ends that intersects it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        one.subscribe(f"{key}/**")
        two.subscribe(f"{key}/*")
        ask(asker, CURRENT_FUTURE, SUBSCRIBERS | AGGREGATE, f"{key}/a")
        withdraw(one, SUBSCRIBER)
        early = bodies(asker.barrier())
        expect(not early, f"{[body.kind for body in early]} came while a subscriber is left")
        withdraw(two, SUBSCRIBER)
        asker.next("U_SUBSCRIBER")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-of-tokens",
    OBSERVED,
    "A node ignores the option aggregate of an interest in tokens.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for id, name in enumerate("ab", 1):
            announce(owner, TOKEN, f"{key}/{name}", id=id)
        seen = keys(asker, ask(asker, CURRENT, TOKENS | AGGREGATE, f"{key}/*"))
        expect(seen == [f"{key}/a", f"{key}/b"], f"keys {seen}")


def _info(asker: Link, key: str) -> int:
    """Info of the one queryable that answers an aggregate interest in a key."""
    found = bodies(ask(asker, CURRENT_FUTURE, QUERYABLES | AGGREGATE, key), "D_QUERYABLE")
    seen = [asker.text(body) for body in found]
    expect(seen == [key], f"keys {seen}")
    info = found[0].ext(0x21)
    return info if isinstance(info, int) else 0


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-complete",
    SHOULD,
    "A node calls an aggregate of queryables complete when a complete one includes the key of the interest.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(f"{key}/*")
        owner.serve(f"{key}/**", 2, complete=True)
        info = _info(asker, f"{key}/*")
        expect(info & 1, f"info {info:#x}")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-incomplete",
    MUST,
    "A node does not call an aggregate of queryables complete when no complete one includes the key of the "
    "interest.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        owner.serve(f"{key}/**")
        owner.serve(f"{key}/a", 2, complete=True)
        info = _info(asker, f"{key}/*")
        expect(not info & 1, f"info {info:#x}")


# ---- Info of queryables ----


def _merged(target: Target, *infos: tuple[bool, int]) -> int:
    """Info under which queryables of one key, each of its own link, are announced."""
    key = target.unique_key()
    with clients(target, len(infos) + 1) as (asker, *owners):
        for owner, (complete, distance) in zip(owners, infos, strict=True):
            announce(owner, QUERYABLE, key, 1, wire.queryable_info(complete=complete, distance=distance))
        found = bodies(ask(asker, CURRENT_FUTURE, QUERYABLES, key), "D_QUERYABLE")
        expect(len(found) == 1, f"{len(found)} declarations")
        info = found[0].ext(0x21)
        return info if isinstance(info, int) else 0


@BOOK.rule(
    "zenoh-behaviour-5.4/info-unchanged",
    MUST,
    "A node announces a queryable with the completeness and distance with which it was declared.",
)
def _(target: Target) -> None:
    info = _merged(target, (True, 7))
    expect(info == 0x701, f"info {info:#x}")


@BOOK.rule(
    "zenoh-behaviour-5.4/merged-complete",
    MUST,
    "A node announces a key of several queryables as complete when one of them is.",
)
def _(target: Target) -> None:
    info = _merged(target, (False, 0), (True, 3), (False, 0))
    expect(info & 1, f"info {info:#x}")


@BOOK.rule(
    "zenoh-behaviour-5.4/merged-distance",
    SHOULD,
    "A node announces a key of several queryables with the least distance of the complete ones, if any.",
)
def _(target: Target) -> None:
    info = _merged(target, (False, 1), (True, 9), (True, 4))
    expect(info == 0x401, f"info {info:#x}")
