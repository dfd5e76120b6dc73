"""Position of a query in its spools: first offsets, limits of a batch, and reports of progress."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from zwire.errors import SpoolError, SpoolMismatch
from zwire.spark.sources._offsets import Position
from zwire.spark.sources._spool import bounded, edges, max_partitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zwire.errors import OffsetOutOfRange
    from zwire.spark.sources._logs import Logs, Part, Reading
    from zwire.spark.sources._offsets import Marks, Offsets, Places
    from zwire.spark.sources._options import Options

_log = logging.getLogger("zwire.spark")

NOBODY = "none"
"""The reserved consumer name that prevents no deletion."""


class Follower:
    """Follows spools for one query, in the process that plans its batches.

    A query that is ``named`` gets a name of its own, that is kept with its offsets. That needs a Spark which
    always passes the beginning of a batch.
    """

    def __init__(self, options: Options, reading: Reading, logs: Logs, *, named: bool) -> None:
        self.options, self.reading, self.logs, self.named = options, reading, logs, named
        self.max_partitions = max_partitions(options)
        self.target: Places | None = None
        self.first: Position | None = None
        self.last: Position | None = None
        self._said: set[str] = set()

    def initial(self) -> Position:
        """Return the first position of a new query; the same for the life of this object."""
        if self.first is None:
            marks = self.logs.marks()
            places = edges(self.options, "starting", self.logs, marks, "latest")
            for name, shards in marks.items():
                places[name] = self._bounded(name, places[name], shards)
            consumer = self.options.text("consumer")
            made = f"spark-{uuid4().hex}" if self.named and consumer is None else None
            self.first = self.last = Position(places, made)
            # From here on, rows that the query has not read are not deleted.
            self.commit(self.first)
        return self.first

    def stop_at_what_is_there(self) -> None:
        """Set the present ends as the limit of the query: ``Trigger.AvailableNow``."""
        self.target = _ends(self.logs.marks())

    def latest(self, start: Position | None, max_rows: int | None, max_bytes: int | None) -> Position:
        """Return the end of the next batch; ``start`` itself if there is nothing new.

        Without a ``start`` the batch begins at the end returned last.
        """
        start = self.last if start is None else start
        marks = self.logs.marks()
        ends = _ends(marks) if self.target is None else self.target
        if start is None:
            # An old Spark after a restart: the position of the query is unknown, so no limit can be applied.
            self.last = Position(ends)
            return self.last
        begin = self._begin(start, marks)
        ends = {
            name: {shard: max(offset, begin[name][shard]) for shard, offset in ends[name].items()}
            for name in begin
        }
        if begin != ends and (max_rows is not None or max_bytes is not None):
            ends = self.logs.walk(begin, ends, max_rows, max_bytes)
        self.last = start if ends == start.places else Position(ends, start.consumer)
        return self.last

    def plan(self, start: Position, end: Position) -> list[Part]:
        """Spread a batch over tasks."""
        marks = self.logs.marks()
        begin = self._begin(start, marks)
        self._look_for_strangers(end, marks)
        stop = {}
        for name, shards in begin.items():
            wanted = end.places.get(name, shards)
            stop[name] = {shard: max(at, wanted.get(shard, at)) for shard, at in shards.items()}
            stop[name] = self._bounded(name, stop[name], marks[name])
        if self.last is None:
            self.last = end
        return self.logs.plan(begin, stop, self.max_partitions)

    def report(self) -> dict[str, Any] | None:
        """Return the present ends, and the backlog of the query."""
        if self.last is None:
            return None
        marks = self.logs.marks()
        found = Position(_ends(marks)).to_json()
        rows, behind = 0, 0
        for name, shards in marks.items():
            for shard, mark in shards.items():
                at = max(self.last.places.get(name, {}).get(shard, mark["earliest"]), mark["earliest"])
                if at < mark["end"]:
                    rows += mark["end"] - at
                    received = self.logs.by_id[name].received(shard, at)
                    if received is not None:
                        behind = max(behind, mark["last_recv_ts"] - received)
        found["lag_rows"] = rows
        found["lag_ms"] = behind // 1000
        found["dropped"] = sum(mark["dropped"] for shards in marks.values() for mark in shards.values())
        found["gaps"] = sum(log.view.gaps_end() for log in self.logs.by_id.values())
        return found

    def commit(self, end: Position) -> None:
        """Commit the position of the query to the spools."""
        name = self.options.text("consumer") or end.consumer
        if name is None or name == NOBODY:
            return
        for spool, offsets in end.places.items():
            log = self.logs.by_id.get(spool)
            if log is None or log.gaps:
                continue
            try:
                log.view.commit(name, offsets)
            except SpoolError as error:
                # The rows are kept longer than needed, or not for the full time. Reading goes on.
                self._say(f"commit of consumer {name!r} failed: {error}")

    def _begin(self, start: Position, marks: Marks) -> Places:
        """Return the offsets at which reading continues, all of them available.

        Shards and spools that a position does not know are read from their beginning.
        """
        self._look_for_strangers(start, marks)
        begin = {}
        for name, shards in marks.items():
            known = start.places.get(name, {})
            offsets = {shard: known.get(shard, mark["earliest"]) for shard, mark in shards.items()}
            begin[name] = self._bounded(name, offsets, shards)
        return begin

    def _look_for_strangers(self, position: Position, marks: Marks) -> None:
        lost = sorted(set(position.places) - set(marks))
        if not lost:
            return
        there = ", ".join(f"{log.folder} holds {name}" for name, log in self.logs.by_id.items())
        problem = f"the query has read spool {', '.join(lost)} until now, and {there}"
        if self.reading.fail:
            raise SpoolMismatch(
                f"{problem}. With another checkpoint it is a new query; failOnDataLoss=false goes on with"
                " what there is, from its beginning"
            )
        self._say(problem)

    def _bounded(self, name: str, offsets: Offsets, shards: Mapping[int, Mapping[str, int]]) -> Offsets:
        return bounded(self.logs.by_id[name], offsets, shards, self._lost)

    def _lost(self, error: OffsetOutOfRange) -> None:
        if self.reading.fail:
            raise error
        self._say(str(error))

    def _say(self, problem: str) -> None:
        """Log a problem; once, since Spark asks a hundred times a second."""
        if problem not in self._said:
            self._said.add(problem)
            _log.warning("%s: %s", self.options.source, problem)


def _ends(marks: Marks) -> Places:
    return {name: {shard: mark["end"] for shard, mark in shards.items()} for name, shards in marks.items()}
