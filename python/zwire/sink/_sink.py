"""The loop from a spool to a table."""

from __future__ import annotations

import logging
import re
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from zwire._lazy import library, pa
from zwire.errors import ConfigError, OffsetOutOfRange, SpoolCorrupt
from zwire.spool import Spool
from zwire.spool import open as open_spool
from zwire.spool._scan import Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike

    from zwire.sink._table import Table
    from zwire.spool._scan import Edge

_log = logging.getLogger("zwire.sink")

_LOOK = 0.1
"""Seconds between two looks at the ends of a spool that has no full batch."""

GAPS = -1
"""Shard number that stands for the log of gaps."""


class SinkOptions(TypedDict, total=False):
    """Options of :class:`Sink` by keyword.

    ::

        with spool.Appender("spool") as appender:
            for robot in range(3):
                appender.append(key=f"robot/{robot}/pose", payload="x")
        one: sink.SinkOptions = {"keys": ["robot/1/**"], "columns": ["key", "payload"], "max_rows": 1000}
        print(sink.run("spool", sink.parquet("lake"), **one)["filtered"])  # 2
    """

    name: str
    columns: Sequence[str] | None
    keys: Iterable[str]
    start: Edge
    gaps: bool
    max_rows: int
    max_bytes: int
    interval: float
    losses: str
    consumer: str | None


class SinkStats(TypedDict):
    """The counts of a sink since it was made."""

    rows: int
    """Rows appended."""
    filtered: int
    """Rows that the key filter has left out."""
    commits: int
    """Transactions."""
    lost: int
    """Rows that were deleted or damaged before the sink read them."""
    lag_rows: int
    """Rows in the spool that the table does not have yet."""
    lag_ms: int
    """Time between the arrival of the first such row and of the newest row."""
    gaps: int
    """Rows of the log of gaps of the spool: losses before it."""


class Batch(NamedTuple):
    """A committed batch.

    ::

        with spool.Appender("spool") as appender:
            appender.append(key="demo/a", payload="x")

        def report(batch: sink.Batch) -> None:
            print(batch.rows, batch.lost, batch.offsets)  # 1 0 {0: 1}

        sink.Sink("spool", sink.parquet("lake")).run(once=True, report=report)
    """

    rows: int
    filtered: int
    lost: int
    offsets: dict[int, int]
    """The next offsets, by shard."""
    seconds: float


class Sink:
    """Appends the rows of a spool to a table, each once, also if it is killed at any moment.

    The next offset of each shard is stored in the table, in the transaction that appends the rows. A sink
    that starts reads them there and continues. It also commits them to the spool, so that its retention
    keeps rows for the sink.

    Args:
        spool: The spool, or its path or address.
        table: The table; :func:`zwire.sink.delta`, :func:`zwire.sink.iceberg` or :func:`zwire.sink.parquet`.
        **options: ``name``: name of the sink in the table, ``zwire`` by default; two sinks that write rows
            of one spool into one table need two names. ``columns``: columns to write; by default those of the
            table, of a new one all of the spool. ``keys``: key expressions: only rows with keys that
            intersect one of them. ``start``: where a sink begins that the table does not know, as in
            :meth:`zwire.spool.Spool.to_arrow`. ``gaps``: write the log of gaps instead of the rows.
            ``max_rows`` (1,000,000) and ``max_bytes`` (128 MiB, as stored in the spool): limits of a batch,
            of which the formats keep at least a part in memory; segments that have none of ``keys`` do not
            count, and are not read. ``interval`` (10): seconds after which fewer
            rows are a batch. ``losses``: ``raise`` ends with an error at rows that were deleted or damaged;
            ``skip`` logs and counts them. ``consumer``: name of the consumer of the spool, made of the name
            and the table by default; ``none``: the spool keeps no rows for this sink.

    Raises:
        SpoolError: The spool cannot be opened.
        ConfigError: An option is wrong.
        ImportError: pyarrow is missing.
    """

    def __init__(
        self, spool: Spool | str | PathLike[str], table: Table, **options: Unpack[SinkOptions]
    ) -> None:
        unknown = options.keys() - SinkOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"Sink has no option {', '.join(sorted(unknown))}")
        library("pyarrow", "arrow")
        self.spool: Spool = spool if isinstance(spool, Spool) else open_spool(spool)
        self.table: Table = table
        self.name: str = options.get("name", "zwire")
        self._keys = list(options.get("keys", ()))
        self._gaps = options.get("gaps", False)
        self._max_rows = _positive("max_rows", options.get("max_rows", 1_000_000))
        self._max_bytes = _positive("max_bytes", options.get("max_bytes", 128 << 20))
        self._interval = float(options.get("interval", 10.0))
        self._skip = _choice("losses", options.get("losses", "raise"), ("raise", "skip")) == "skip"
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,60}", self.name):
            problem = f"name: expected up to 61 letters, digits, '-', '_' and '.', not {self.name!r}"
            raise ConfigError(problem, path="name")
        made = f"{self.name}-{zlib.crc32(f'{table.FORMAT} {table.address}'.encode()):08x}"
        self.consumer: str = options.get("consumer") or made
        columns = options.get("columns")
        if columns is None and (there := table.schema()) is not None:
            columns = [name for name in self._scan(None).all.names if name in there.names]
        # Names and keys are checked now, not in the middle of the work.
        try:
            self._scan_of = self._scan(columns)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error), path="columns") from None
        self._columns = self._scan_of.table.names
        self._start = options.get("start")
        self._at: dict[int, int] | None = None
        # Offsets that the table has.
        self._stored: dict[int, int] = {}
        # No Event: a signal handler that interrupts its `wait` would wait for the lock that its thread holds.
        self._stopped = False
        self._rows = self._filtered = self._commits = self._lost = 0

    def __repr__(self) -> str:
        return f"<Sink {self.name!r} from {self.spool.path!r} to {self.table!r}>"

    def _scan(self, columns: Sequence[str] | None) -> Scan:
        return Scan(self.spool, columns=columns, keys=self._keys, gaps=self._gaps)

    def stats(self) -> SinkStats:
        """Return the counts; reads the ends of the spool."""
        end, at = self._end(), self._at
        marks = {} if self._gaps else self.spool.marks()
        newest = max((mark["last_recv_ts"] for mark in marks.values()), default=0)
        behind = 0 if at is None else _rows(at, end)
        oldest = newest
        if at is not None and behind and not self._gaps:
            for shard, offset in at.items():
                if offset < end[shard]:
                    oldest = min(oldest, self._received(shard, offset) or newest)
        return {
            "rows": self._rows,
            "filtered": self._filtered,
            "commits": self._commits,
            "lost": self._lost,
            "lag_rows": behind,
            "lag_ms": max(0, newest - oldest) // 1000,
            "gaps": self.spool.gaps_end() - self.spool.gaps_start(),
        }

    def _received(self, shard: int, offset: int) -> int | None:
        try:
            return self.spool.received(shard, offset)
        except (OffsetOutOfRange, SpoolCorrupt):
            return None  # reading the row will tell

    def stop(self) -> None:
        """Let :meth:`run` return behind the batch in progress; from any thread or signal handler."""
        self._stopped = True

    def offsets(self) -> dict[int, int]:
        """Return the next offsets to write, by shard; at first those that the table has."""
        if self._at is None:
            self._at = self._found()
        return dict(self._at)

    def run(self, *, once: bool = False, report: Callable[[Batch], object] | None = None) -> SinkStats:
        """Append batches until :meth:`stop` is called, or the rows present now are in the table.

        Args:
            once: End when the table has all rows that are in the spool at the beginning.
            report: Function that is called for each committed batch.

        Raises:
            SinkConflict: Another sink uses the same name.
            SinkError: The table cannot be read or written.
            OffsetOutOfRange: Rows were deleted before the sink read them.
            SpoolCorrupt: Rows are damaged. What was before them is in the table.
        """
        self.offsets()
        self._remember()
        target = self._end() if once else None
        since = time.monotonic()
        while not self._stopped:
            batch = self._next(target, full=time.monotonic() - since < self._interval and not once)
            if batch is not None:
                if report is not None:
                    report(batch)
                since = time.monotonic()
            elif once:
                break
            else:
                if _rows(self.offsets(), self._end()) == 0:
                    since = time.monotonic()
                time.sleep(_LOOK)
        return self.stats()

    def step(self) -> Batch | None:
        """Append one batch of the rows present now; ``None`` if the table has them all.

        Raises:
            SinkConflict: As with :meth:`run`, like the other errors.
        """
        return self._next(None, full=False)

    def _next(self, target: dict[int, int] | None, *, full: bool) -> Batch | None:
        """Append a batch up to a target; ``full``: only one that reaches a limit."""
        began = time.monotonic()
        start, end = self.offsets(), self._end() if target is None else target
        # Shards that the spool has got since: their rows come behind those of the others.
        start |= {shard: at for shard, at in self._first().items() if shard in end and shard not in start}
        start, lost = self._available(start, end)
        if _rows(start, end) == 0 and not lost:
            return None
        stop = self._walk(start, end)
        if full and stop == end:
            return None
        reading = _Reading(self._scan_of, start, stop, self._columns, skip=self._skip)
        marks = {self._mark(shard): offset for shard, offset in stop.items()}
        expected = {self._mark(shard): offset for shard, offset in self._stored.items()}
        try:
            self.table.commit(reading.reader, self._scan_of.schema, marks, expected)
        except BaseException:
            # The commit may have succeeded: the table is asked again.
            self._at = None
            raise
        self._at = self._stored = stop
        self._remember()
        lost += reading.lost
        self._rows += reading.rows
        self._filtered += reading.filtered
        self._lost += lost
        self._commits += 1
        return Batch(reading.rows, reading.filtered, lost, dict(stop), time.monotonic() - began)

    def _found(self) -> dict[int, int]:
        """Return the offsets at which the table is."""
        shards = [GAPS] if self._gaps else self.spool.shards
        known = self.table.marks(self._mark(shard) for shard in shards)
        self._stored = {shard: known[self._mark(shard)] for shard in shards if self._mark(shard) in known}
        if self._gaps:
            return {GAPS: self._stored.get(GAPS, self.spool.gaps_start())}
        first = {shard: bounds[0] for shard, bounds in Scan(self.spool, start=self._start).ranges.items()}
        return {shard: self._stored.get(shard, first[shard]) for shard in shards}

    def _mark(self, shard: int) -> str:
        return f"{self.name}/{self.spool.id}/{'gaps' if shard == GAPS else shard}"

    def _remember(self) -> None:
        """Tell the spool which rows it need not keep for this sink."""
        if self.consumer != "none" and not self._gaps:
            self.spool.commit(self.consumer, self.offsets())

    def _first(self) -> dict[int, int]:
        return {GAPS: self.spool.gaps_start()} if self._gaps else self.spool.earliest()

    def _end(self) -> dict[int, int]:
        return {GAPS: self.spool.gaps_end()} if self._gaps else self.spool.end()

    def _walk(self, start: dict[int, int], end: dict[int, int]) -> dict[int, int]:
        if self._gaps:
            return {GAPS: min(end[GAPS], start[GAPS] + self._max_rows)}
        keys = self._keys or None
        return self.spool.walk(start, end, max_rows=self._max_rows, max_bytes=self._max_bytes, keys=keys)

    def _available(self, start: dict[int, int], end: dict[int, int]) -> tuple[dict[int, int], int]:
        """Return the first offsets from ``start`` on that are still there, and how many are not."""
        first = self._first()
        lost = 0
        for shard, offset in start.items():
            if shard in self._stored and offset > end[shard]:
                raise OffsetOutOfRange(
                    f"shard {shard}: the table {self.table.address} has rows up to offset {offset} of spool "
                    f"{self.spool.id}, which ends at {end[shard]}: the spool was restored to an older state",
                    shard=shard,
                    offset=offset,
                )
            if offset < first[shard]:
                problem = (
                    f"shard {shard}, offset {offset}: the spool begins at {first[shard]}: its retention has "
                    f"deleted {first[shard] - offset} rows that the table does not have"
                )
                if not self._skip:
                    raise OffsetOutOfRange(
                        f"{problem}; losses='skip' goes on with the others", shard=shard, offset=offset
                    )
                _log.warning("%s; they are left out", problem)
                lost += first[shard] - offset
        return {shard: max(offset, first[shard]) for shard, offset in start.items()}, lost


class _Reading:
    """The rows of a batch, which attempts to commit read anew; counts those of the last attempt."""

    def __init__(
        self,
        scan: Scan,
        start: dict[int, int],
        stop: dict[int, int],
        columns: Sequence[str],
        *,
        skip: bool,
    ) -> None:
        self._scan, self._start, self._stop, self._columns, self._skip = scan, start, stop, columns, skip
        self.rows = self.filtered = self.lost = 0

    def reader(self) -> pa.RecordBatchReader:
        self.rows = self.filtered = self.lost = 0
        return pa.RecordBatchReader.from_batches(self._scan.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        total = _rows(self._start, self._stop)
        for shard, start in self._start.items():
            at, stop = start, self._stop[shard]
            while at < stop:
                try:
                    for batch in self._scan.batches(self._columns, ranges={shard: (at, stop)}):
                        self.rows += batch.num_rows
                        yield batch
                    at = stop
                except SpoolCorrupt as error:
                    # All rows before the error have been returned.
                    if not self._skip or error.resumes is None or error.offset is None:
                        raise
                    _log.warning("%s; what cannot be read is left out", error)
                    at = min(max(error.resumes, error.offset + 1), stop)
                    self.lost += at - error.offset
        self.filtered = total - self.rows - self.lost


def _rows(start: dict[int, int], end: dict[int, int]) -> int:
    return sum(max(0, offset - start.get(shard, 0)) for shard, offset in end.items())


def _positive(name: str, value: Any) -> int:  # noqa: ANN401 - of a program
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}: expected a whole number of at least 1, not {value!r}", path=name)
    return value


def _choice(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise ConfigError(f"{name}: expected {' or '.join(known)}, not {value!r}", path=name)
    return value


def run(
    spool: Spool | str | PathLike[str], table: Table, *, once: bool = True, **options: Unpack[SinkOptions]
) -> SinkStats:
    """Append the rows of a spool to a table, each once: :meth:`Sink.run` of a new :class:`Sink`.

    Args:
        spool: The spool, or its path or address.
        table: The table.
        once: End when the table has all rows that are in the spool at the beginning; without it, never.
        **options: Those of :class:`Sink`.
    """
    return Sink(spool, table, **options).run(once=once)
