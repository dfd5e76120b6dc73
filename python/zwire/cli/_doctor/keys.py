"""Key expressions that do not intersect although they look as if they should."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from zwire import zenoh
from zwire.cli._doctor.findings import Finding
from zwire.errors import KeyExprError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zwire.cli._admin import Declared

_PAIRS = {"publisher": "subscriber", "querier": "queryable"}
"""The kind of declaration that a kind needs on the other side."""

_MOST = 5
"""Keys that are reported; more have the same cause."""

_SIMILAR = 0.5
"""Least similarity (by difflib) of two keys of which one is proposed in place of the other."""


def check(declared: Sequence[Declared], ours: set[str]) -> Iterator[Finding]:
    """Report publishers without a subscriber, and queriers without a queryable.

    ``ours`` are ids of the sessions of this diagnosis, whose declarations do not count.
    """
    known = [each for each in declared if not set(each.nodes) <= ours and not each.key.startswith("@")]
    lonely = 0
    for sender in known:
        wanted = _PAIRS.get(sender.kind)
        if wanted is None:
            continue
        others = [each.key for each in known if each.kind == wanted]
        if any(_intersect(sender.key, other) for other in others):
            continue
        lonely += 1
        if lonely <= _MOST:
            yield _unmatched(sender.key, sender.kind, wanted, others)
    if known and not lonely:
        yield Finding("keys", "ok", f"each of {len(known)} declarations that need another side has one")


def check_one(key: str, declared: Sequence[Declared], ours: set[str]) -> Finding | None:
    """Report whether a subscriber exists for a key that is to be published."""
    others = [each.key for each in declared if each.kind == "subscriber" and not set(each.nodes) <= ours]
    if any(_intersect(key, other) for other in others):
        return Finding("keys", "ok", f"{key}: a subscriber of another node matches")
    return _unmatched(key, "publisher", "subscriber", others)


def _unmatched(key: str, kind: str, wanted: str, others: Sequence[str]) -> Finding:
    near = difflib.get_close_matches(key, others, n=1, cutoff=_SIMILAR)
    if not near:
        return Finding(
            "keys-unmatched",
            "note",
            f"{kind} {key}: no {wanted} matches",
            f"what it sends goes nowhere; no {wanted} has a key like it",
            f"start the {wanted}, and compare its key",
        )
    return Finding(
        "keys",
        "warning",
        f"{kind} {key}: no {wanted} matches; the nearest is {near[0]}",
        difference(key, near[0]),
        f"`zenoh.KeyExpr({key!r}).intersects({near[0]!r})` is False: change one of them",
    )


def _intersect(one: str, other: str) -> bool:
    try:
        return zenoh.KeyExpr(one).intersects(other)
    except KeyExprError:
        return False


def difference(one: str, other: str) -> str:
    """Return why two key expressions do not intersect, in a sentence."""
    chunks, theirs = one.split("/"), other.split("/")
    for key, parts in ((one, chunks), (other, theirs)):
        if {"+", "#"} & set(parts):
            return f"{key} has a wildcard of MQTT: in Zenoh one level is * (not +), any number ** (not #)"
    if _intersect(one.lower(), other.lower()):
        return "they differ in upper and lower case only"
    for long, short in ((chunks, theirs), (theirs, chunks)):
        if long[-len(short) :] == short and len(long) > len(short):
            prefix = "/".join(long[: -len(short)])
            return f"one begins with {prefix}/ and the other does not: a `namespace`, or a lost prefix"
    if "**" not in chunks and "**" not in theirs and len(chunks) != len(theirs):
        return (
            f"one has {len(chunks)} levels and the other {len(theirs)}; * is exactly one level, ** any number"
        )
    for index, (mine, yours) in enumerate(zip(chunks, theirs, strict=False)):
        if "**" in (mine, yours):
            break
        if not _intersect(mine, yours):
            return f"level {index + 1} differs: {mine} and {yours}"
    return "no key belongs to both of them"
