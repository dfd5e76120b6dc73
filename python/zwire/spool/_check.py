"""Metadata of a spool, and a check that all of it can be read."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire.errors import OffsetOutOfRange, SpoolCorrupt, SpoolDenied, SpoolError, SpoolUnreachable
from zwire.spool._view import Spool

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator


class Problem(NamedTuple):
    """A place of a spool that cannot be read; shard -1 is the log of gaps, ``message`` names the file.

    ::

        with spool.Appender("spool") as appender:
            appender.append(key="demo/a", payload="x")
        for problem in spool.verify("spool"):  # none: the spool is whole
            print(problem.shard, problem.offset, problem.message)
    """

    shard: int
    offset: int
    message: str


def stat(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return metadata of a spool: ids, columns, a dict for each shard, the number of gaps, and consumers.

    ``consumers`` has the committed offsets of each consumer by shard, ``committed`` the time of its last
    commit in microseconds since 1970: one that has not committed for as long as :class:`Retention` says
    expires. ``tier`` is ``None`` without one: ``place`` is its address, ``bytes`` are in it, ``behind`` rows
    are not yet, and ``problem`` is why it cannot be read, or ``None``; ``segments`` of the shards, ``bytes``
    and ``behind`` are ``None`` then. ``lease`` is ``None`` unless several spoolers share the spool:
    ``holder`` is the host of the one that writes, ``epoch`` the number of its lease. If they share it by
    shards, ``lease`` has ``shards`` instead: for each that has a spooler, a dict with the two. ``spread`` is
    ``None`` unless the number of shards has changed (:func:`reshard`): ``shards`` is the present number,
    ``changes`` that of the changes.

    Raises:
        SpoolError: The folder has no spool, or its log of gaps cannot be read.
        SpoolUnreachable: ``path`` is the address of a store that does not answer.
    """
    view = Spool(path)
    marks = view.marks()
    tier = None if view.tier is None else _tier(view, view.tier, marks)
    there = tier is None or tier["problem"] is None
    segments = {shard: len(_bases(view, shard)) if there else None for shard in marks}
    # Read once: a consumer may expire meanwhile.
    known = view.commits()
    return {
        "path": view.path,
        "spool": view.id,
        "tier": tier,
        "lease": _lease(view) if tier is not None and there else None,
        "spread": _spread(view) if tier is not None and there else None,
        "table": view.table,
        "columns": view.columns,
        "shard_keys": view.shard_keys,
        "rows": sum(mark["end"] - mark["earliest"] for mark in marks.values()),
        "bytes": sum(mark["bytes"] for mark in marks.values()),
        "shards": {shard: {**mark, "segments": segments[shard]} for shard, mark in marks.items()},
        "gaps": view.gaps_end(),
        "consumers": {name: offsets for name, (offsets, _) in known.items()},
        "committed": {name: at for name, (_, at) in known.items()},
    }


def _lease(view: Spool) -> dict[str, Any] | None:
    spread = view._view.holders()  # noqa: SLF001 - no other caller needs it
    if spread is not None:
        shards = {shard: {"epoch": epoch, "holder": host} for shard, (epoch, host) in spread.items()}
        return {"shards": shards}
    held = view._view.holder()  # noqa: SLF001 - no other caller needs it
    return None if held is None else {"epoch": held[0], "holder": held[1]}


def _spread(view: Spool) -> dict[str, int] | None:
    found = view._view.spread()  # noqa: SLF001 - no other caller needs it
    return None if found is None else {"shards": found[0], "changes": found[1]}


def _tier(view: Spool, place: str, marks: dict[int, dict[str, int]]) -> dict[str, Any]:
    try:
        ends = view._view.tier_ends() or []  # noqa: SLF001 - no other caller needs them
    except (SpoolUnreachable, SpoolDenied) as error:
        # The folder can be read, and its state is wanted all the more.
        return {"place": place, "bytes": None, "behind": None, "problem": str(error)}
    behind = sum(max(0, mark["end"] - end) for mark, (end, _) in zip(marks.values(), ends, strict=False))
    return {"place": place, "bytes": sum(size for _, size in ends), "behind": behind, "problem": None}


def verify(
    path: str | os.PathLike[str], progress: Callable[[int, int], object] | None = None
) -> list[Problem]:
    """Read everything, and return the places that cannot be read; empty if all is well.

    Behind an unreadable place it goes on where the error says, or with the next segment. ``progress`` is
    called with the number of offsets done and the total.

    Raises:
        SpoolError: The folder has no spool.
    """
    view = Spool(path)
    start, end = view.earliest(), view.end()
    total = sum(end.values()) - sum(start.values()) + view.gaps_end()
    done = 0
    problems = []
    for shard in [*view.shards, -1]:
        for read in _all(view, shard, start.get(shard, 0), end.get(shard, 0)):
            if isinstance(read, Problem):
                problems.append(read)
            else:
                done += read
                if progress is not None:
                    progress(done, total)
    return problems


def _all(view: Spool, shard: int, at: int, end: int) -> Iterator[int | Problem]:
    """Read a shard, segment by segment; yield numbers of offsets done, and places that cannot be read."""
    if shard == -1:
        at, end = view.gaps_start(), view.gaps_end()
    bases = _bases(view, shard)
    while at < end:
        behind = bisect_right(bases, at)
        stop = min(bases[behind], end) if behind < len(bases) else end
        try:
            batches = view.gaps(at, stop) if shard == -1 else view.read(shard, at, stop, columns=["offset"])
            for batch in batches:
                at += len(batch)
                yield len(batch)
            # Offsets without a row.
            yield stop - at
        except OffsetOutOfRange:
            # Deleted while it was read: that is no problem.
            earliest = view.gaps_start() if shard == -1 else view.earliest()[shard]
            if earliest <= at:
                raise
            at = earliest
        except SpoolError as error:
            offset = at if error.offset is None else max(error.offset, at)
            yield Problem(shard, offset, str(error))
            resumes = error.resumes if isinstance(error, SpoolCorrupt) else None
            at = stop if resumes is None else min(max(resumes, offset + 1), end)
        else:
            at = stop


def _bases(view: Spool, shard: int) -> list[int]:
    """Return the first offsets of the segments of a shard."""
    return view._view.segments(None if shard == -1 else shard)  # noqa: SLF001 - no other caller needs them
