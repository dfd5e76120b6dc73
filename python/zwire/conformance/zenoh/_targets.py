"""Rules of the target of a query: which of several queryables are asked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, SHOULD
from zwire.conformance.zenoh._scene import QUERYABLE, announce, clients, get, replies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.conformance.zenoh._link import Link, Target

BEST_MATCHING, ALL, ALL_COMPLETE = 0, 1, 2
COMPLETE, INCOMPLETE = (True, 0), (False, 0)


@contextlib.contextmanager
def _served(target: Target, *infos: tuple[bool, int], at: str = "**") -> Iterator[tuple[str, list[Link]]]:
    """A key, and links of which the first asks and each of the others has a queryable below the key."""
    key = target.unique_key()
    with clients(target, len(infos) + 1) as opened:
        for server, (complete, distance) in zip(opened[1:], infos, strict=True):
            info = wire.queryable_info(complete=complete, distance=distance)
            announce(server, QUERYABLE, f"{key}/{at}", 1, info)
        yield key, opened


def _asked(key: str, opened: list[Link], goal: int | None, name: str = "a") -> list[int]:
    """Numbers of the servers that a query reaches; each finishes it at once."""
    querier, *servers = opened
    exts = () if goal is None else ((0x34, goal),)
    id = get(querier, f"{key}/{name}", *exts)
    querier.waiting += querier.barrier()
    reached = []
    for number, server in enumerate(servers):
        for message in server.barrier():
            if message.kind == "REQUEST" and server.text(message) == f"{key}/{name}":
                reached.append(number)
                server.send(wire.response_final(message.id))
    replies(querier, id)
    return reached


def _expect_asked(target: Target, goal: int | None, infos: list[tuple[bool, int]], wanted: list[int]) -> None:
    with _served(target, *infos) as (key, opened):
        reached = _asked(key, opened, goal)
        expect(reached == wanted, f"asked {reached}, expected {wanted} of {len(infos)} queryables")


@BOOK.rule("zenoh-behaviour-3.6/target-all", MUST, "A query with the target All reaches every queryable.")
def _(target: Target) -> None:
    _expect_asked(target, ALL, [COMPLETE, INCOMPLETE, COMPLETE], [0, 1, 2])


@BOOK.rule(
    "zenoh-behaviour-3.6/target-all-complete",
    MUST,
    "A query with the target AllComplete reaches every complete queryable, and no other.",
)
def _(target: Target) -> None:
    _expect_asked(target, ALL_COMPLETE, [COMPLETE, INCOMPLETE, COMPLETE], [0, 2])


@BOOK.rule(
    "zenoh-behaviour-3.6/all-complete-of-none",
    MUST,
    "A query with the target AllComplete ends at once when no queryable is complete.",
)
def _(target: Target) -> None:
    _expect_asked(target, ALL_COMPLETE, [INCOMPLETE, INCOMPLETE], [])


@BOOK.rule(
    "zenoh-behaviour-3.6/best-matching-complete",
    MUST,
    "A query with the target BestMatching reaches one queryable, a complete one, if there is any.",
)
def _(target: Target) -> None:
    with _served(target, INCOMPLETE, COMPLETE, COMPLETE) as (key, opened):
        reached = _asked(key, opened, None)
        expect(reached in ([1], [2]), f"asked {reached} of an incomplete and two complete ones")


@BOOK.rule(
    "zenoh-behaviour-3.6/best-matching-incomplete",
    MUST,
    "A query with the target BestMatching reaches every queryable when none is complete.",
)
def _(target: Target) -> None:
    _expect_asked(target, BEST_MATCHING, [INCOMPLETE, INCOMPLETE, INCOMPLETE], [0, 1, 2])


@BOOK.rule(
    "zenoh-wire-4.4/default-target",
    MUST,
    "A query without the target extension has the target BestMatching.",
)
def _(target: Target) -> None:
    with _served(target, COMPLETE, COMPLETE) as (key, opened):
        reached = _asked(key, opened, None), _asked(key, opened, BEST_MATCHING)
        expect(len(reached[0]) == len(reached[1]) == 1, f"asked {reached}")


@BOOK.rule(
    "zenoh-behaviour-5.4/distance",
    SHOULD,
    "A query with the target BestMatching reaches the complete queryable of the least distance.",
)
def _(target: Target) -> None:
    for distances in ((9, 2, 5), (2, 5, 9), (9, 5, 2), (5, 2, 9)):
        nearest = distances.index(min(distances))
        _expect_asked(target, BEST_MATCHING, [(True, distance) for distance in distances], [nearest])


@BOOK.rule(
    "zenoh-behaviour-5.4/complete-includes",
    MUST,
    "A complete queryable counts as complete only for queries with a key that its own key includes.",
)
def _(target: Target) -> None:
    with _served(target, COMPLETE, at="a/*") as (key, opened):
        reached = [_asked(key, opened, ALL_COMPLETE, name) for name in ("a/b", "a/*", "a/**", "*/b")]
        expect(reached == [[0], [0], [], []], f"asked {reached} for a/b, a/*, a/** and */b")


@BOOK.rule(
    "zenoh-behaviour-5.4/best-matching-not-including",
    MUST,
    "A query with the target BestMatching reaches every queryable when no complete one includes its key.",
)
def _(target: Target) -> None:
    with _served(target, COMPLETE, COMPLETE, at="a/b") as (key, opened):
        reached = _asked(key, opened, BEST_MATCHING, "a/*")
        expect(reached == [0, 1], f"asked {reached}")


@BOOK.rule(
    "zenoh-behaviour-5.4/complete-on-one-link",
    MUST,
    "A link with a complete and an incomplete queryable counts as complete.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (querier, server):
        server.serve(f"{key}/*")
        server.serve(f"{key}/**", 2, complete=True)
        reached = _asked(key, [querier, server], ALL_COMPLETE)
        expect(reached == [0], f"asked {reached}")


@BOOK.rule(
    "zenoh-behaviour-5.4/next-after-cut",
    MUST,
    "A query with the target BestMatching reaches another queryable after the end of the first one's link.",
)
def _(target: Target) -> None:
    with _served(target, COMPLETE, COMPLETE) as (key, opened):
        querier, *servers = opened
        id = get(querier, f"{key}/a")
        querier.waiting += querier.barrier()
        asked = [server for server in servers if "REQUEST" in [m.kind for m in server.barrier()]]
        expect(len(asked) == 1, f"asked {len(asked)} queryables")
        asked[0].stream.close()
        replies(querier, id)
        left = [server for server in servers if server is not asked[0]]
        reached = _asked(key, [querier, *left], BEST_MATCHING)
        expect(reached == [0], f"asked {reached} of the one that is left")
