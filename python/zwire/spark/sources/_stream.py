"""Spools as streams: the reader in the process that plans a query, and in the processes of its tasks."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from zwire.errors import SpoolError
from zwire.spark.sources._embed import EMBED, Embedded, check_embedded
from zwire.spark.sources._follow import Follower
from zwire.spark.sources._logs import TABLES, Logs, Part, columns_of
from zwire.spark.sources._offsets import Position
from zwire.spark.sources._options import Option, Options, named
from zwire.spark.sources._spool import BATCH, READ, check, check_batch, columns, open_all, reading, remote

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

STREAM = (*READ, *named("maxRowsPerTrigger|maxOffsetsPerTrigger maxBytesPerTrigger consumer"))

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
    options.integer("maxRowsPerTrigger", least=1)
    options.size("maxBytesPerTrigger", None)
    name = options.text("consumer")
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", name):
        raise options.error("consumer", f"must be 1 to 100 letters, digits, '-', '_' or '.', not {name!r}")


def schema(given: Mapping[str, str], source: str, table: str) -> StructType:
    """Check the options of a batch or a stream, and return the columns that they ask for."""
    # Whether it will be a batch or a stream is not known here.
    options = Options(source, given, (*BATCH, *known(table)))
    check_stream(options, table)
    if table == "samples" and "keyexprs" in options:
        # A spool may not exist yet; a later one has all columns.
        return columns(options, table, columns_of(TABLES[table])).spark()
    logs = open_all(options, table)
    check_batch(options, logs)
    return columns(options, table, logs.columns(), several=len(logs.by_id) > 1).spark()


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
        return Options(self.source, self.given, known(self.table))

    def _live(self) -> Follower:
        if self._follower is None:
            options = self._options()
            check_stream(options, self.table)
            if self._embedded is None and "keyexprs" in options:
                self._embedded = Embedded(options)
            if self._embedded is None:
                logs = open_all(options, self.table)
            else:
                logs = Logs([self._embedded.folder], self.table)
            tasks = reading(options, self.table, self.schema)
            check(options, logs, tasks.columns)
            self._follower = Follower(options, tasks, logs, named=ADMISSION)
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
