"""Metadata of a spool, and a check that all of it can be read."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire.errors import OffsetOutOfRange, SpoolCorrupt, SpoolError
from zwire.spool._view import Spool

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator


class Problem(NamedTuple):
    """A place of a spool that cannot be read; shard -1 is the log of gaps, ``message`` names the file."""

    shard: int
    offset: int
    message: str


def stat(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return metadata of a spool: ids, columns, a dict for each shard, the number of gaps, and consumers.

    ``consumers`` has the committed offsets of each consumer by shard, ``committed`` the time of its last
    commit in microseconds since 1970: one that has not committed for as long as :class:`Retention` says
    expires.

    Raises:
        SpoolError: The folder has no spool, or its log of gaps cannot be read.
    """
    view = Spool(path)
    marks = view.marks()
    # Read once: a consumer may expire meanwhile.
    known = view.commits()
    return {
        "path": view.path,
        "spool": view.id,
        "table": view.table,
        "columns": view.columns,
        "shard_keys": view.shard_keys,
        "rows": sum(mark["end"] - mark["earliest"] for mark in marks.values()),
        "bytes": sum(mark["bytes"] for mark in marks.values()),
        "shards": {shard: {**mark, "segments": len(_bases(view, shard))} for shard, mark in marks.items()},
        "gaps": view.gaps_end(),
        "consumers": {name: offsets for name, (offsets, _) in known.items()},
        "committed": {name: at for name, (_, at) in known.items()},
    }


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
    folder = Path(view.path) / ("gaps" if shard == -1 else str(shard))
    return sorted(int(file.stem) for file in folder.glob("*.arrow") if file.stem.isdigit())
