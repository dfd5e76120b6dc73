"""Spools as tables: the rows present when a job begins, or a range given by options."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from zwire.errors import OffsetOutOfRange
from zwire.spark._read import local_path
from zwire.spark.sources._logs import (
    REMOTE,
    SPOOL,
    TABLES,
    Logs,
    Part,
    Reading,
    Tasks,
    columns_of,
    is_store,
)
from zwire.spark.sources._offsets import EARLIEST, GAPS, LATEST, asked, times
from zwire.spark.sources._options import SESSION, Options, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from zwire.spark.schema import RowSchema
    from zwire.spark.sources._logs import Log
    from zwire.spark.sources._offsets import Marks, Offsets, Places

READ = (
    *named("spool|spools|path startingOffsets startingTimestamp startingOffsetsByTimestamp"),
    *named("startingOffsetsByTimestampStrategy failOnDataLoss columns keyFilter pushdown"),
    *named("maxPartitions minPartitions maxRecordsPerPartition"),
    *SESSION,
)
"""Options of both batches and streams."""

ENDING = named("endingOffsets endingTimestamp endingOffsetsByTimestamp")

BATCH = (*READ, *ENDING)

TRIGGER = named("maxRowsPerTrigger|maxOffsetsPerTrigger maxBytesPerTrigger") + named(
    "minRowsPerTrigger|minOffsetsPerTrigger maxTriggerDelay consumer|groupId consumerSecret"
)
"""Options of streams alone."""

_STRATEGY = "startingOffsetsByTimestampStrategy"

DEFAULT = ["key", "payload", "kind", "encoding", "timestamp", "attachment", "recv_ts", "shard", "offset"]
"""Default columns of samples, which have many."""

_TASKS = 100_000
"""The largest ``minPartitions``: more tasks than Spark schedules in a minute."""

_EDGES: dict[str | int, str] = dict.fromkeys(("earliest", EARLIEST), "earliest")
_EDGES |= dict.fromkeys(("latest", LATEST), "end")


def folders(options: Options) -> list[str]:
    """Return folders as absolute paths, addresses of stores, and ``zwire:<id>`` for range servers.

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
        if is_store(name):
            found.append(name)
            continue
        try:
            found.append(os.path.abspath(local_path(name)))  # noqa: PTH100 - it has to stay a text
        except OSError as error:
            raise options.error("spool", f"{name!r}: {error}") from None
    if not found:
        raise options.error("spool", "is missing: give the folder or the store of a spool")
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
    check_selection(options, table)
    wanted = options.chosen(columns_of(TABLES[table]), schema)
    fail = options.flag("failOnDataLoss", default=True)
    return Reading(table, wanted, fail, settings(options), tuple(options.keyexprs("keyFilter")))


def tasks(options: Options) -> Tasks:
    """Return the bounds of the tasks of a batch."""
    least = options.integer("minPartitions", None, least=1, most=_TASKS)
    most = options.integer("maxPartitions", None, least=1)
    rows = options.integer("maxRecordsPerPartition", None, least=1)
    if least is not None and most is not None and least > most:
        raise options.error("minPartitions", f"is {least}, and maxPartitions is {most}")
    if rows is not None and most is not None:
        raise options.error("maxRecordsPerPartition", "and maxPartitions exclude each other")
    # The driver does not know the executors here; its own machine is a guess that suits local sessions.
    return Tasks(most or 2 * (os.cpu_count() or 1), least or 1, rows)


def edges(options: Options, which: str, logs: Logs, marks: Marks, default: str) -> Places:
    """Return the offsets given by the options ``<which>...``, available or not."""
    wanted = asked(options, which, marks) or default
    at = times(options, which, marks)
    strict = which == "starting" and _is_strict(options, timed=at is not None)
    if at is not None:
        found = {spool: _at(log, at[spool]) for spool, log in logs.by_id.items()}
        if strict:
            _check_found(options, found, marks)
        return found

    def place(spool: str, shard: int) -> int:
        offset = wanted if isinstance(wanted, str) else wanted[spool][shard]
        edge = _EDGES.get(offset)
        return int(offset) if edge is None else marks[spool][shard][edge]

    return {spool: {shard: place(spool, shard) for shard in shards} for spool, shards in marks.items()}


def _at(log: Log, times: Mapping[int, int]) -> Offsets:
    """Return the first offset of each shard received at its time or later."""
    at = {time: log.at(time) for time in set(times.values())}
    return {shard: at[time][shard] for shard, time in times.items()}


def _is_strict(options: Options, *, timed: bool) -> bool:
    """Whether a shard without a row at the starting time or later is an error."""
    if _STRATEGY in options and not timed:
        raise options.error(_STRATEGY, "needs startingTimestamp or startingOffsetsByTimestamp")
    return options.choice(_STRATEGY, ("error", "latest"), "latest") == "error"


def _check_found(options: Options, found: Places, marks: Marks) -> None:
    name = "startingTimestamp" if "startingTimestamp" in options else "startingOffsetsByTimestamp"
    for spool, shards in marks.items():
        for shard, mark in shards.items():
            if found[spool][shard] >= mark["end"]:
                problem = f"is later than every row of shard {shard} of spool {spool}"
                raise options.error(name, f"{problem}; {_STRATEGY}=latest begins at its end")


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


def check_batch(options: Options, logs: Logs, table: str) -> None:
    """Refuse wrong options of batches, and common ones of streams."""
    check_selection(options, table)
    marks = logs.marks()
    for which in ("starting", "ending"):
        asked(options, which, marks)
        at = times(options, which, marks)
        if which == "starting":
            _is_strict(options, timed=at is not None)
    options.flag("failOnDataLoss", default=True)
    tasks(options)


def check_selection(options: Options, table: str) -> None:
    """Refuse a filter on keys that is none, or where rows have no key; and filters of Spark."""
    times = "startingTimestamp, endingTimestamp, startingOffsets, endingOffsets"
    options.no_pushdown(f"keyFilter, {times}" if table == "samples" else times)
    if options.keyexprs("keyFilter") and table != "samples":
        raise options.error("keyFilter", f"is for samples, and the rows of {options.source} have no key")


def reader(given: Mapping[str, str], schema: StructType, source: str, table: str) -> SpoolReader:
    """Return the reader of rows of spools."""
    streams = "streams, and this is a table"
    options = Options(source, given, BATCH, elsewhere=TRIGGER, of=streams)
    return SpoolReader(options, reading(options, table, schema))


class SpoolReader(DataSourceReader):
    """Reads ranges of offsets, a few ranges in each partition."""

    def __init__(self, options: Options, reading: Reading) -> None:
        self.options, self.reading = options, reading

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
        return [*logs.plan(start, end, tasks(self.options), self.reading.keys)]

    def _lost(self, error: OffsetOutOfRange) -> None:
        if self.reading.fail:
            raise error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows; Spark makes a partition of its own where there is none."""
        spans = partition.spans if isinstance(partition, Part) else []
        yield from self.reading.read(spans)


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
