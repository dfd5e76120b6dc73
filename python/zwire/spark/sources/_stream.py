"""Spools as streams: the position of a query, its reader where batches are planned, and in tasks."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader

from zwire.errors import SpoolError, SpoolMismatch
from zwire.spark._settings import fetch
from zwire.spark.sources import _spool
from zwire.spark.sources._embed import EMBED, Embedded, check_embedded
from zwire.spark.sources._logs import TABLES, Logs, Part, columns_of
from zwire.spark.sources._offsets import Position
from zwire.spark.sources._options import Option, Options
from zwire.spark.sources._spool import BATCH, ENDING, READ, TRIGGER, open_all, reading, remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import StructType

    from zwire.errors import OffsetOutOfRange
    from zwire.spark.sources._logs import Reading
    from zwire.spark.sources._offsets import Marks, Offsets, Places

    ADMISSION = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        ADMISSION = True
    except ImportError:  # before Spark 4.2, which passes neither the start of a batch nor its limit
        ADMISSION = False

        class SupportsTriggerAvailableNow:
            """Stand-in for the missing class."""


_log = logging.getLogger("zwire.spark")

NOBODY = "none"
"""The reserved consumer name that prevents no deletion."""

STREAM = (*READ, *TRIGGER)

_DELAY = 15 * 60.0
"""Seconds of ``maxTriggerDelay``, as with Kafka."""

_TABLES = "tables, and this is a stream"

_PATIENCE = 30.0
"""Seconds for which a folder may be unreachable; an error would end the query."""


def known(table: str) -> tuple[Option, ...]:
    """Return the options of streams of a table."""
    return (*STREAM, *EMBED) if table == "samples" else STREAM


def check_stream(options: Options, table: str) -> None:
    """Refuse wrong options of streams."""
    if table == "samples" and "keyexprs" in options:
        check_embedded(options)
    elif remote(options):
        options.session()
    else:
        also = " or 'keyexprs'" if table == "samples" else ""
        options.no_session(f"spools behind a range server ('zwire:<id>'){also}")
    most = options.integer("maxRowsPerTrigger", None, least=1)
    options.size("maxBytesPerTrigger", None)
    least = options.integer("minRowsPerTrigger", None, least=1)
    options.seconds("maxTriggerDelay", _DELAY)
    if "maxTriggerDelay" in options and least is None:
        raise options.error("maxTriggerDelay", "needs minRowsPerTrigger")
    if least is not None and most is not None and least > most:
        raise options.error("minRowsPerTrigger", f"is {least}, and maxRowsPerTrigger is {most}")
    name = options.text("consumer")
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", name):
        raise options.error("consumer", f"must be 1 to 100 letters, digits, '-', '_' or '.', not {name!r}")
    if options.secret("consumerSecret") is not None and not remote(options):
        raise options.error("consumerSecret", "is for spools behind a range server ('zwire:<id>')")


def secrets(options: Options) -> dict[str, str]:
    """Return the secrets of consumers, by the ids of their spools; a single one also by the empty id."""
    reference = options.secret("consumerSecret")
    if reference is None:
        return {}
    listed = re.split(r"[\s,]+", fetch("consumerSecret", reference).strip())
    found = {text.partition(":")[0]: text for text in listed}
    return found | ({"": listed[0]} if len(listed) == 1 else {})


def schema(given: Mapping[str, str], source: str, table: str) -> StructType:
    """Check the options of a batch or a stream, and return the columns that they ask for."""
    # Whether it will be a batch or a stream is not known here.
    options = Options(source, given, (*BATCH, *known(table)))
    check_stream(options, table)
    if table == "samples" and "keyexprs" in options:
        _spool.check_selection(options, table)
        # A spool may not exist yet; a later one has all columns.
        return _spool.columns(options, table, columns_of(TABLES[table])).spark()
    logs = open_all(options, table)
    _spool.check_batch(options, logs, table)
    return _spool.columns(options, table, logs.columns(), several=len(logs.by_id) > 1).spark()


class Follower:
    """Follows spools for one query, in the process that plans its batches.

    A query that is ``named`` gets a name of its own, that is kept with its offsets. That needs a Spark which
    always passes the beginning of a batch.
    """

    def __init__(
        self, options: Options, reading: Reading, logs: Logs, *, named: bool, consumer: str | None = None
    ) -> None:
        self.options, self.reading, self.logs, self.named = options, reading, logs, named
        self.consumer = options.text("consumer") or consumer
        self.tasks = _spool.tasks(options)
        self.min_rows = options.integer("minRowsPerTrigger", None)
        self.delay = options.seconds("maxTriggerDelay", _DELAY)
        self.target: Places | None = None
        self.first: Position | None = None
        self.last: Position | None = None
        self._done: Places | None = None
        self._batch_at: float | None = None
        self._said: set[str] = set()

    def initial(self) -> Position:
        """Return the first position of a new query; the same for the life of this object."""
        if self.first is None:
            marks = self.logs.marks()
            places = _spool.edges(self.options, "starting", self.logs, marks, "latest")
            for name, shards in marks.items():
                places[name] = self._bounded(name, places[name], shards)
            made = f"spark-{uuid4().hex}" if self.named and self.consumer is None else None
            self.first = Position(places, made)
            # An old Spark has asked for the end of the first batch already: what follows begins there.
            self.last = self.last or self.first
            # From here on, rows that the query has not read are not deleted.
            self._end_batch(self.first)
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
            # An old Spark, in the first batch of a run: the position of the query is unknown, so no limit can
            # be applied.
            self.last, self._batch_at = Position(ends), time.monotonic()
            return self.last
        begin = self._begin(start, marks)
        self._end_batch(start)
        ends = {
            name: {shard: max(offset, begin[name][shard]) for shard, offset in ends[name].items()}
            for name in begin
        }
        if self._is_early(begin, ends):
            self.last = start
            return start
        if begin != ends:
            ends = self.logs.walk(begin, ends, max_rows, max_bytes, self.reading.keys)
        self.last = start if ends == start.places else Position(ends, start.consumer)
        return self.last

    def _is_early(self, begin: Places, ends: Places) -> bool:
        """Whether more rows are waited for: ``minRowsPerTrigger``, and ``maxTriggerDelay`` since a batch.

        The first batch of a run waits for none, nor does the rest of ``Trigger.AvailableNow``.
        """
        rows = sum(sum(ends[name].values()) - sum(begin[name].values()) for name in begin)
        now = time.monotonic()
        if (
            self.min_rows is not None
            and self.target is None
            and self._batch_at is not None
            and rows < self.min_rows
            and now - self._batch_at < self.delay
        ):
            return True
        if rows:
            self._batch_at = now
        return False

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
        return self.logs.plan(begin, stop, self.tasks, self.reading.keys)

    def report(self) -> dict[str, Any] | None:
        """Return the present ends, and the backlog of the query."""
        if self.last is None:
            return None
        marks = self.logs.marks()
        found = Position(_ends(marks)).to_json()
        behind, lags = 0, []
        for name, shards in marks.items():
            for shard, mark in shards.items():
                at = max(self.last.places.get(name, {}).get(shard, mark["earliest"]), mark["earliest"])
                lags.append(max(0, mark["end"] - at))
                if lags[-1]:
                    received = self.logs.by_id[name].received(shard, at)
                    if received is not None:
                        behind = max(behind, mark["last_recv_ts"] - received)
        found["lag_rows"] = sum(lags)
        found["lag_ms"] = behind // 1000
        # The metrics of Kafka's source by their names there. Of a source in Python Spark asks no `metrics()`.
        found["avgOffsetsBehindLatest"] = round(sum(lags) / len(lags), 3)
        found["maxOffsetsBehindLatest"], found["minOffsetsBehindLatest"] = max(lags), min(lags)
        found["dropped"] = sum(mark["dropped"] for shards in marks.values() for mark in shards.values())
        found["gaps"] = sum(log.view.gaps_end() for log in self.logs.by_id.values())
        consumer = self._name(self.last)
        if consumer is not None:
            # For the listener of `register`, which has no options of the query.
            found["consumer"] = consumer
            found["folders"] = {each: log.folder for each, log in self.logs.by_id.items() if log.is_local()}
        return found

    def _end_batch(self, end: Position) -> None:
        """Commit the end of a batch, once, although Spark asks for the next one again and again.

        Spark asks for it when it has committed the batch before, also at the end of ``Trigger.AvailableNow``.
        It calls ``commit`` for that batch only when there is a next one.
        """
        if end.places != self._done:
            self._done = end.places
            self.commit(end)

    def commit(self, end: Position) -> None:
        """Commit the position of the query to the spools."""
        name = self._name(end)
        if name is None:
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

    def _name(self, position: Position) -> str | None:
        """Return the name of the consumer; ``None`` if rows are kept for none."""
        name = self.consumer or position.consumer
        return None if name == NOBODY else name

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
        return _spool.bounded(self.logs.by_id[name], offsets, shards, self._lost)

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


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches over spools, and reads them. Opens nothing before Spark calls it.

    There are three kinds of instances: one lives with the query beside the driver and plans; one is only
    pickled; copies of that read in the tasks.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, source: str, table: str) -> None:
        self.given, self.schema, self.source, self.table = dict(given), schema, source, table
        self._embedded: Embedded | None = None
        self._follower: Follower | None = None
        self._reached = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the state of the planning process."""
        return type(self), (self.given, self.schema, self.source, self.table)

    def _options(self) -> Options:
        return Options(self.source, self.given, known(self.table), elsewhere=ENDING, of=_TABLES)

    def _live(self) -> Follower:
        if self._follower is None:
            options = self._options()
            check_stream(options, self.table)
            if self._embedded is None and "keyexprs" in options:
                self._embedded = Embedded(options)
            held = secrets(options)
            if self._embedded is None:
                logs = open_all(options, self.table, held)
            else:
                logs = Logs([self._embedded.folder], self.table)
            tasks = reading(options, self.table, self.schema)
            _spool.check(options, logs, tasks.columns)
            # A secret is for one consumer, or for all of them: then the query chooses its name.
            names = {text.split(":")[1] for text in held.values() if text.count(":") == 2} - {"*"}
            consumer = names.pop() if len(names) == 1 else None
            self._follower = Follower(options, tasks, logs, named=ADMISSION, consumer=consumer)
        return self._follower

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Return the first position of a new query."""
        return self._live().initial().to_json()

    def latestOffset(  # noqa: N802 - the name is Spark's
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch; Spark before 4.2 passes neither start nor limit."""
        live = self._live()
        options = live.options
        rows, size = options.integer("maxRowsPerTrigger", None), options.size("maxBytesPerTrigger", None)
        if ADMISSION:
            if isinstance(limit, ReadAllAvailable):
                rows = size = None
            elif isinstance(limit, ReadMaxRows):
                rows = limit.max_rows
            elif isinstance(limit, ReadMaxBytes):
                size = limit.max_bytes
        begin = None if start is None else Position.from_json(start)
        try:
            found = live.latest(begin, rows, size)
        except SpoolError as error:
            # Losses and damage have types of their own; this error is a file system that does not answer.
            if start is None or type(error) is not SpoolError or not self._is_patient():
                raise
            _log.warning("%s: %s", self.source, error)
            return start
        self._reached = 0.0
        # Return the same text, so that Spark sees that there is nothing new.
        return start if start is not None and found is begin else found.to_json()

    def _is_patient(self) -> bool:
        now = time.monotonic()
        self._reached = self._reached or now
        if now - self._reached >= _PATIENCE:
            return False
        time.sleep(0.1)
        return True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Return the limit of a batch; Spark takes one only, so ``latestOffset`` applies the other."""
        options = self._live().options
        rows, size = options.integer("maxRowsPerTrigger", None), options.size("maxBytesPerTrigger", None)
        if rows is not None:
            return ReadMaxRows(rows)
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Set the present ends as the limit of the query."""
        self._live().stop_at_what_is_there()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Return the present ends, and the backlog: for ``lastProgress``."""
        return self._live().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Spread a batch over tasks; none for an empty one."""
        return [*self._live().plan(Position.from_json(start), Position.from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part of a batch, the same rows each time."""
        assert isinstance(partition, Part)  # noqa: S101 - they are ours
        yield from reading(self._options(), self.table, self.schema).read(partition.spans)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the position to the spools: earlier rows need not be kept for this query."""
        self._live().commit(Position.from_json(end))

    def stop(self) -> None:
        """Close everything; repeated calls have no effect."""
        self._follower = None
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            embedded.close()
