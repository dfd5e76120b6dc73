"""Readers of spools: the rows of their shards, or of their logs of gaps.

Only names of folders, of stores, and of spools behind range servers, are pickled. A folder is opened where it
is used, so it has to exist under the same path: on the driver, and where the tasks run. There a store is
opened with the credentials of the process. A range server is queried in the session that the process has
for a configuration.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import InputPartition

from zwire import spool
from zwire._lazy import pa
from zwire.errors import OffsetOutOfRange, SpoolCorrupt, SpoolError, SpoolMismatch
from zwire.spark import schema as rows
from zwire.spark._worker import task
from zwire.spark.sources._offsets import GAPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zwire.spark.schema import RowSchema
    from zwire.spark.sources._offsets import Offsets, Places

_log = logging.getLogger("zwire.spark")

REMOTE = "zwire:"
"""Prefix of the ids of spools behind a range server."""

SPOOL = "spool"
"""The column with the id of the spool; all others are in the spool itself."""

TABLES = {"samples": rows.SAMPLE, "zre": rows.ZRE, "zre.log": rows.ZRE_LOG, "gaps": rows.GAP}


def is_store(place: str) -> bool:
    """Whether a name is the address of a store, and not a folder: a ``file`` address may be of either."""
    return "://" in place and not place.startswith("file:")


def columns_of(table: RowSchema) -> RowSchema:
    """Return the columns with which rows of a table are read."""
    return table.extended(**{SPOOL: ("string", "id of the spool")})


_WORTH = 4 << 20
"""Bytes read and handed over in the time that one more task costs."""

_GAP = 256
"""Approximate bytes of a row in the log of gaps."""

_MARKS = ("earliest", "end", "last_recv_ts", "dropped")


def _view(place: str, config: str | None, secret: str | None) -> spool.Spool:
    """Open a folder, or connect to a range server."""
    if not place.startswith(REMOTE):
        return spool.open(place)
    from zwire.spark._sessions import session

    opened = session(config or "{}")
    return spool.connect(place.removeprefix(REMOTE) or None, session=opened, secret=secret)


class Log:
    """A spool, with the log that is read of it."""

    def __init__(self, folder: str, table: str, config: str | None = None, secret: str | None = None) -> None:
        self.view = _view(folder, config, secret)
        self.folder, self.id = self.view.path, self.view.id
        self.gaps = table == "gaps"
        if not self.gaps and self.view.table != table:
            problem = f"{self.folder}: this spool holds {self.view.table}, not {table}: read it with"
            raise SpoolMismatch(f"{problem} format({FORMATS[self.view.table]!r})")

    def is_local(self) -> bool:
        """Whether it holds the rows of a spool in a folder."""
        return not self.gaps and not self.folder.startswith(REMOTE)

    def columns(self) -> RowSchema:
        """Return the columns of its rows."""
        table = TABLES["gaps" if self.gaps else self.view.table]
        kept = table.names if self.gaps else self.view.columns
        return columns_of(table.select(kept))

    def marks(self) -> Mapping[int, Mapping[str, int]]:
        """Return the present marks, by shard; reads one small file."""
        if self.gaps:
            return {GAPS: dict.fromkeys(_MARKS, 0) | {"end": self.view.gaps_end()}}
        return self.view.marks()

    def at(self, micros: int) -> Offsets:
        """Return the first offsets received at a time or later."""
        if not self.gaps:
            return self.view.at(micros / 1e6)
        end, passed = self.view.gaps_end(), 0
        for batch in self.read(Span(self.folder, self.id, GAPS, 0, end), ["recv_ts"]):
            for received in batch.column(0).cast("int64").to_pylist():
                if received is not None and received >= micros:
                    return {GAPS: passed}
                passed += 1
        return {GAPS: end}

    def received(self, shard: int, offset: int) -> int | None:
        """Return when a row was received; None if that is unknown."""
        if self.gaps:
            return None
        try:
            return self.view.received(shard, offset)
        except SpoolError as error:
            # Reading that row will raise the error; the time is only needed to tell how old the row is.
            _log.debug("shard %d, offset %d: %s", shard, offset, error)
        return None

    def walk(
        self,
        start: Offsets,
        end: Offsets,
        max_rows: int | None,
        max_bytes: int | None,
        keys: tuple[str, ...] = (),
    ) -> Offsets:
        """Return an end between both that respects limits."""
        if not self.gaps:
            return self.view.walk(start, end, max_rows=max_rows, max_bytes=max_bytes, keys=keys or None)
        limits = [end[GAPS] - start[GAPS]]
        limits += [] if max_rows is None else [max_rows]
        limits += [] if max_bytes is None else [max(1, max_bytes // _GAP)]
        return {GAPS: start[GAPS] + min(limits)}

    def split(
        self, start: Offsets, end: Offsets, parts: int, keys: tuple[str, ...] = ()
    ) -> list[spool.Range]:
        """Split the rows between both into about ``parts`` ranges of similar bytes, each of one shard."""
        if not self.gaps:
            return self.view.split(start, end, parts, keys=keys or None)
        found = spool.Range(GAPS, start[GAPS], end[GAPS], (end[GAPS] - start[GAPS]) * _GAP)
        return [found] if found.start < found.stop else []

    def read(
        self, span: Span, columns: Sequence[str], keys: tuple[str, ...] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns of rows; the id of the spool is not among them."""
        if self.gaps:
            for batch in self.view.gaps(span.start, span.stop):
                yield pa.record_batch(batch).select(list(columns))
        else:
            found = self.view.read(span.shard, span.start, span.stop, columns=columns, keys=keys or None)
            for batch in found:
                yield pa.record_batch(batch)


FORMATS = {"samples": "zwire", "zre": "zre", "zre.log": "zre.log"}
"""Formats by the table of a spool."""


class Span(NamedTuple):
    """A part of a shard of a spool: offsets ``start`` to ``stop`` (exclusive)."""

    folder: str
    spool: str
    shard: int
    start: int
    stop: int


class Tasks(NamedTuple):
    """Bounds of the tasks of a batch."""

    most: int
    least: int = 1
    rows: int | None = None
    """Most rows of a task."""


@dataclass(eq=False, repr=False)
class Part(InputPartition):
    """The ranges that one task reads, in this order."""

    spans: list[Span]


class Logs:
    """Several spools read as one."""

    def __init__(
        self,
        folders: Iterable[str],
        table: str,
        config: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.by_id: dict[str, Log] = {}
        for folder in folders:
            log = Log(folder, table, config, (secrets or {}).get(folder.removeprefix(REMOTE)))
            if log.id in self.by_id:
                other = self.by_id[log.id].folder
                raise SpoolMismatch(f"{folder} and {other} are the same spool, {log.id}")
            self.by_id[log.id] = log

    def columns(self) -> RowSchema:
        """Return the columns common to all of them."""
        each = [log.columns() for log in self.by_id.values()]
        shared = set.intersection(*(set(schema.names) for schema in each))
        return each[0].select(name for name in each[0].names if name in shared)

    def marks(self) -> dict[str, Mapping[int, Mapping[str, int]]]:
        """Return the present marks, by the ids of spools, and shards."""
        return {name: log.marks() for name, log in self.by_id.items()}

    def walk(
        self,
        start: Places,
        end: Places,
        max_rows: int | None,
        max_bytes: int | None,
        keys: tuple[str, ...] = (),
    ) -> Places:
        """Return an end between both that respects limits; spools share them by their backlogs.

        Segments without rows of these keys do not count. Rows of a key are in order: the end is not behind
        the next change of the shards of a spool.
        """
        end = {name: log.walk(start[name], end[name], None, None) for name, log in self.by_id.items()}
        if max_rows is not None:
            backlogs = {name: _rows(start[name], end[name]) for name in self.by_id}
            end = self._limited(start, end, (max_rows, backlogs), "max_rows", keys)
        if max_bytes is not None:
            backlogs = {
                name: sum(part.bytes for part in log.split(start[name], end[name], 1, keys))
                for name, log in self.by_id.items()
            }
            end = self._limited(start, end, (max_bytes, backlogs), "max_bytes", keys)
        return end

    def _limited(
        self,
        start: Places,
        end: Places,
        limit: tuple[int, Mapping[str, int]],
        what: str,
        keys: tuple[str, ...],
    ) -> Places:
        shares, limited = _shares(*limit), {}
        for name, log in self.by_id.items():
            limits: dict[str, int | None] = {"max_rows": None, "max_bytes": None, what: shares[name]}
            # Each of them advances by a row at least when it is asked; one without wanted rows to the end.
            if shares[name]:
                limited[name] = log.walk(start[name], end[name], **limits, keys=keys)
            else:
                limited[name] = start[name] if limit[1][name] else end[name]
        return limited

    def plan(self, start: Places, end: Places, tasks: Tasks, keys: tuple[str, ...] = ()) -> list[Part]:
        """Spread the rows between both over partitions, of similar bytes unless rows are counted.

        A few rows are one partition: a task costs as much as reading some megabytes.
        """
        found = {name: log.split(start[name], end[name], 1, keys) for name, log in self.by_id.items()}
        total = sum(part.bytes for parts in found.values() for part in parts)
        wanted = min(tasks.most, -(-total // _WORTH))
        if tasks.rows is not None or tasks.least > wanted:
            whole = [
                Span(self.by_id[name].folder, name, *part[:3])
                for name, parts in found.items()
                for part in parts
            ]
            return _by_rows(whole, max(tasks.least, wanted), tasks.rows)
        if wanted > sum(map(len, found.values())):
            for name, log in self.by_id.items():
                mine = sum(part.bytes for part in found[name])
                found[name] = log.split(start[name], end[name], -(-wanted * mine // total), keys)
        spans = [
            (part.bytes, Span(self.by_id[name].folder, name, *part[:3]))
            for name, parts in found.items()
            for part in parts
        ]
        return _packed(spans, max(1, wanted))


def _rows(start: Offsets, end: Offsets) -> int:
    return sum(max(0, end[shard] - start[shard]) for shard in end)


def _shares(limit: int, backlogs: Mapping[str, int]) -> dict[str, int]:
    """Split a limit among the logs by their backlogs; the rest left by rounding goes to the first ones."""
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    shares = {name: limit * backlog // total for name, backlog in backlogs.items()}
    left = limit - sum(shares.values())
    for name, backlog in backlogs.items():
        more = min(left, backlog - shares[name])
        shares[name] += more
        left -= more
    return shares


def _packed(spans: list[tuple[int, Span]], most: int) -> list[Part]:
    """Combine ranges into parts, the largest first, each into the smallest part."""
    bins: list[tuple[int, list[Span]]] = [(0, []) for _ in range(min(most, len(spans)))]
    for size, span in sorted(spans, key=lambda each: (-each[0], each[1])):
        at = min(range(len(bins)), key=lambda index: bins[index][0])
        bins[at] = (bins[at][0] + size, [*bins[at][1], span])
    return [Part(sorted(held)) for _, held in bins]


def _by_rows(spans: list[Span], least: int, most: int | None) -> list[Part]:
    """Cut ranges into ``least`` parts or more, unless there are fewer rows, each of ``most`` rows at most."""
    rows = sum(span.stop - span.start for span in spans)
    most = min(most or rows, max(1, rows // least))
    parts: list[Part] = []
    room = 0
    for span in sorted(spans):
        own = span.stop - span.start
        cuts = -(-own // most)
        for cut in range(cuts):
            start, stop = span.start + own * cut // cuts, span.start + own * (cut + 1) // cuts
            if not parts or stop - start > room:
                parts.append(Part([]))
                room = most
            parts[-1].spans.append(span._replace(start=start, stop=stop))
            room -= stop - start
    return parts


class Reading(NamedTuple):
    """Parameters of reading in tasks; pickled with the reader."""

    table: str
    columns: RowSchema
    fail: bool
    """Value of the option ``failOnDataLoss``."""
    config: str | None = None
    """Configuration of the session to range servers; has references to secrets, not the secrets."""
    keys: tuple[str, ...] = ()
    """Key expressions: only rows whose keys intersect one of them; all if there are none."""

    @task
    def read(self, spans: Iterable[Span]) -> Iterator[pa.RecordBatch]:
        """Yield verified rows that were asked for; without ``fail``, lost and damaged ones are left out."""
        logs: dict[str, Log] = {}
        for span in spans:
            log = logs.get(span.folder) or logs.setdefault(span.folder, self._open(span))
            yield from self._span(log, span)

    def _open(self, span: Span) -> Log:
        try:
            log = Log(span.folder, self.table, self.config)
        except SpoolError as error:
            served = span.folder.startswith(REMOTE) or is_store(span.folder)
            if not served and not os.path.isdir(span.folder):  # noqa: PTH112 - it is a text
                problem = (
                    f"{span.folder}: there is no such folder where this task runs: a spool has to be on a"
                    " file system that the driver and all executors have under the same path"
                )
                raise SpoolError(problem, shard=span.shard, offset=span.start) from error
            raise
        if log.id != span.spool:
            where = f"shard {span.shard}, offset {span.start}: {span.folder}"
            raise SpoolMismatch(f"{where} holds spool {log.id}, not {span.spool}")
        return log

    def _span(self, log: Log, span: Span) -> Iterator[pa.RecordBatch]:
        needed = [name for name in self.columns.names if name != SPOOL]
        while span.start < span.stop:
            try:
                for batch in log.read(span, needed or ["offset"], self.keys):
                    yield from self._made(batch, span)
            except OffsetOutOfRange as error:
                if self.fail:
                    raise
                span = self._rest(log, span, error)
            except SpoolCorrupt as error:
                # All rows before the error have been returned.
                if self.fail or error.resumes is None:
                    raise
                span = span._replace(start=max(error.resumes, span.start))
                _log.warning("%s; what cannot be read is left out", error)
            else:
                return

    def _made(self, batch: pa.RecordBatch, span: Span) -> Iterator[pa.RecordBatch]:
        if SPOOL in self.columns.names:
            batch = batch.append_column(SPOOL, pa.repeat(pa.scalar(span.spool), batch.num_rows))
        if batch.num_rows:
            # Rebuilt, not only selected: the schema has to equal that of Spark exactly.
            columns = batch.select(list(self.columns.names)).columns
            yield pa.RecordBatch.from_arrays(columns, schema=self.columns.arrow())

    def _rest(self, log: Log, span: Span, error: OffsetOutOfRange) -> Span:
        """Return the available rest of a range with a missing part."""
        there = log.marks()[span.shard]
        missing = span.start if error.offset is None else error.offset
        if span.stop > there["end"]:
            rest = span._replace(stop=there["end"])
        elif missing < there["earliest"]:
            rest = span._replace(start=there["earliest"])
        else:
            raise error
        _log.warning("%s: %s; what is missing is left out", span.folder, error)
        return rest
