"""Spools as tables: the rows present when a job begins, or a range given by options."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from zwire._lazy import pa
from zwire.errors import OffsetOutOfRange
from zwire.spark._read import local_path
from zwire.spark.sources._filters import Filters, column_of, split
from zwire.spark.sources._logs import REMOTE, SPOOL, TABLES, Logs, Part, Reading, columns_of
from zwire.spark.sources._offsets import EARLIEST, GAPS, LATEST, asked
from zwire.spark.sources._options import EPOCH, SESSION, Options, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from zwire.spark.schema import RowSchema
    from zwire.spark.sources._logs import Log
    from zwire.spark.sources._offsets import Marks, Offsets, Places

READ = (
    *named("spool|spools|path startingOffsets startingTimestamp failOnDataLoss columns maxPartitions"),
    *SESSION,
)
"""Options of both batches and streams."""

BATCH = (*READ, *named("endingOffsets endingTimestamp pushdown"))

DEFAULT = ["key", "payload", "kind", "encoding", "timestamp", "attachment", "recv_ts", "shard", "offset"]
"""Default columns of samples, which have many."""

_EDGES: dict[str | int, str] = dict.fromkeys(("earliest", EARLIEST), "earliest")
_EDGES |= dict.fromkeys(("latest", LATEST), "end")


def folders(options: Options) -> list[str]:
    """Return folders as absolute paths, and ``zwire:<id>`` for spools behind range servers.

    ``zwire:`` alone is the only one that is served.
    """
    found = []
    for name in options.listed("spool"):
        if name.startswith(REMOTE):
            identity = name.removeprefix(REMOTE).lower()
            if not re.fullmatch("([0-9a-f]{32})?", identity):
                raise options.error("spool", f"{name!r}: the id of a spool has 32 hexadecimal digits")
            found.append(REMOTE + identity)
            continue
        try:
            found.append(os.path.abspath(local_path(name)))  # noqa: PTH100 - it has to stay a text
        except OSError as error:
            raise options.error("spool", f"{name!r}: {error}") from None
    if not found:
        raise options.error("spool", "is missing: give the folder of a spool")
    return found


def remote(options: Options) -> bool:
    """Whether some spools are behind range servers, so that a session is needed."""
    return any(name.startswith(REMOTE) for name in options.listed("spool"))


def settings(options: Options) -> str | None:
    """Return the configuration of the session to range servers; ``None`` if there are none."""
    return options.session() if remote(options) else None


def open_all(options: Options, table: str, secrets: Mapping[str, str] | None = None) -> Logs:
    """Open all spools; ``secrets`` are those of their consumers, by the ids of the spools."""
    return Logs(folders(options), table, settings(options), secrets)


def columns(options: Options, table: str, there: RowSchema, *, several: bool = False) -> RowSchema:
    """Return the columns that options ask for."""
    default = [name for name in (DEFAULT if table == "samples" else there.names[:-1]) if name in there.names]
    # Offsets identify rows within one spool only.
    return options.columns(there, default=[*default, SPOOL] if several else default)


def reading(options: Options, table: str, schema: StructType) -> Reading:
    """Return the parameters of reading, for the columns that Spark asks for. Opens no spool."""
    wanted = options.chosen(columns_of(TABLES[table]), schema)
    return Reading(table, wanted, options.flag("failOnDataLoss", default=True), settings(options))


def max_partitions(options: Options) -> int:
    """Return the largest number of tasks."""
    # The driver does not know the executors here; its own machine is a guess that suits local sessions.
    return options.integer("maxPartitions", 2 * (os.cpu_count() or 1), least=1)


def edges(options: Options, which: str, logs: Logs, marks: Marks, default: str) -> Places:
    """Return the offsets given by ``<which>Offsets`` or ``<which>Timestamp``, available or not."""
    wanted = asked(options, which, marks) or default
    time = options.instant(f"{which}Timestamp")
    if time is not None:
        return {spool: log.at(time) for spool, log in logs.by_id.items()}

    def place(spool: str, shard: int) -> int:
        offset = wanted if isinstance(wanted, str) else wanted[spool][shard]
        edge = _EDGES.get(offset)
        return int(offset) if edge is None else marks[spool][shard][edge]

    return {spool: {shard: place(spool, shard) for shard in shards} for spool, shards in marks.items()}


def bounded(
    log: Log,
    offsets: Offsets,
    marks: Mapping[int, Mapping[str, int]],
    lost: Callable[[OffsetOutOfRange], None],
) -> Offsets:
    """Return the nearest available offsets; ``lost`` is called for those that are not available."""
    found = {}
    for shard, mark in marks.items():
        offset = offsets[shard]
        found[shard] = min(max(offset, mark["earliest"]), mark["end"])
        if found[shard] != offset:
            lost(out_of_range(log, shard, offset, mark))
    return found


def check(options: Options, logs: Logs, wanted: RowSchema) -> None:
    """Refuse columns that a spool does not keep."""
    there = logs.columns().names
    for name in wanted.names:
        if name not in there:
            problem = f"has {name!r}, which is not kept there: there are {', '.join(there)}"
            raise options.error("columns", problem)


def check_batch(options: Options, logs: Logs) -> None:
    """Refuse wrong options of batches, and common ones of streams."""
    marks = logs.marks()
    for which in ("starting", "ending"):
        options.instant(f"{which}Timestamp")
        asked(options, which, marks)
    options.flag("failOnDataLoss", default=True)
    options.pushdown()
    max_partitions(options)


def reader(given: Mapping[str, str], schema: StructType, source: str, table: str) -> SpoolReader:
    """Return the reader of rows of spools."""
    options = Options(source, given, BATCH)
    kind = PushingSpoolReader if options.pushdown() else SpoolReader
    return kind(options, reading(options, table, schema))


class SpoolReader(DataSourceReader):
    """Reads ranges of offsets, a few ranges in each partition."""

    def __init__(self, options: Options, reading: Reading) -> None:
        self.options, self.reading = options, reading
        self.filters = Filters()

    def partitions(self) -> list[InputPartition]:
        """Plan partitions over the rows present now."""
        logs = open_all(self.options, self.reading.table)
        check(self.options, logs, self.reading.columns)
        # Read the marks once: a later deletion is missed by the tasks that read the rows, not by this check.
        marks = logs.marks()
        start = edges(self.options, "starting", logs, marks, "earliest")
        end = edges(self.options, "ending", logs, marks, "latest")
        for place in (start, end):
            for name, shards in marks.items():
                place[name] = bounded(logs.by_id[name], place[name], shards, self._lost)
        self._narrow(logs, start, end)
        return [*logs.plan(start, end, max_partitions(self.options))]

    def _lost(self, error: OffsetOutOfRange) -> None:
        if self.reading.fail:
            raise error

    def _narrow(self, logs: Logs, start: Places, end: Places) -> None:
        """Leave out ranges that the filters exclude."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows; Spark makes a partition of its own where there is none."""
        spans = partition.spans if isinstance(partition, Part) else []
        yield from self.reading.read(spans, self.filters)


class PushingSpoolReader(SpoolReader):
    """The same reader, with the filters that it can apply itself; some of them leave parts of a spool unread.

    It has the problem of all pushed-down filters, see ``zwire.pcap``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Take the filters that can be applied exactly, and return the others."""
        self.filters.filters, left = split(filters, columns_of(TABLES[self.reading.table]))
        return left

    def _narrow(self, logs: Logs, start: Places, end: Places) -> None:
        if self.reading.table == "gaps":
            return  # in a log of gaps, shards and offsets are those of the missing rows
        about = Filters(each for each in self.filters.filters if column_of(each) in (SPOOL, "shard"))
        shards = [(name, shard) for name in end for shard in end[name]]
        names = {
            SPOOL: pa.array([name for name, _ in shards]),
            "shard": pa.array([number for _, number in shards]),
        }
        kept = about.apply(pa.RecordBatch.from_pydict(names)).to_pylist()
        for name, shard in shards:
            if {SPOOL: name, "shard": shard} not in kept:
                end[name][shard] = start[name][shard]
        for each in self.filters.filters:
            self._cut(each, logs, start, end)

    def _cut(self, each: Filter, logs: Logs, start: Places, end: Places) -> None:
        """Use a filter on offsets or times. Clocks may be set back, so a time is no upper bound."""
        kind, column = type(each).__name__, column_of(each)
        low = kind in ("EqualTo", "EqualNullSafe", "In", "GreaterThan", "GreaterThanOrEqual")
        high = kind in ("EqualTo", "EqualNullSafe", "In", "LessThan", "LessThanOrEqual")
        if column not in ("offset", "recv_ts") or not (low or high):
            return
        given: Any = each
        values = list(given.value) if kind == "In" else [given.value]
        if not values or None in values:
            return
        for name, log in logs.by_id.items():
            begin: Offsets = {}
            if low and column == "recv_ts":
                begin = log.at((min(values) - EPOCH) // timedelta(microseconds=1))
            for shard, to in end[name].items():
                at = start[name][shard]
                if low:
                    at = max(at, begin[shard] if begin else min(values) + (kind == "GreaterThan"))
                if high and column == "offset":
                    end[name][shard] = min(to, max(values) + (kind != "LessThan"))
                start[name][shard] = min(at, end[name][shard])


def out_of_range(log: Log, shard: int, offset: int, mark: Mapping[str, int]) -> OffsetOutOfRange:
    """Make the error for unavailable offsets."""
    name = "the log of gaps" if shard == GAPS else f"shard {shard}"
    return OffsetOutOfRange(
        f"{name}, offset {offset}: spool {log.id} in {log.folder} holds offsets {mark['earliest']} to"
        f" {mark['end']} (exclusive). What is below was deleted by its retention, what is above was lost or"
        " never there; failOnDataLoss=false goes on with what there is",
        shard=shard,
        offset=offset,
    )
