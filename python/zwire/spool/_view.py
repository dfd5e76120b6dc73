"""Reading a spool."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from zwire._lazy import library
from zwire._zwire import SpoolRows as Rows
from zwire._zwire import SpoolView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    from zwire.spool._scan import Edge, Scan
    from zwire.zenoh import KeyExpr

    Keys = str | KeyExpr | Iterable[str | KeyExpr]
    """Key expressions, or a single one."""

    Time = float | datetime
    """Seconds since 1970, or a datetime; one without a time zone is local time."""

    Wanted = tuple[list[str] | None, int | None, int | None]
    """Key expressions and times of rows, as the compiled classes take them."""

MICROS = 1_000_000


class Range(NamedTuple):
    """A part of a shard: offsets ``start`` to ``stop`` (exclusive), and their approximate bytes."""

    shard: int
    start: int
    stop: int
    bytes: int


class Selected(TypedDict, total=False):
    """Arguments that select rows, of :meth:`Spool.to_arrow` and its neighbours."""

    columns: Sequence[str] | None
    keys: Iterable[str]
    start: Edge
    stop: Edge
    shards: Iterable[int] | None
    gaps: bool


class Plan(NamedTuple):
    """The segments that a reader would open, those that it would skip, and the bytes of the former."""

    segments: int
    skipped: int
    bytes: int


def wanted(keys: Keys | None, since: Time | None, until: Time | None) -> Wanted | None:
    """Return the selection of rows; ``None`` for all of them."""
    if keys is None and since is None and until is None:
        return None
    listed = None
    if keys is not None:
        single = isinstance(keys, str) or not hasattr(keys, "__iter__")
        listed = [str(key) for key in ([keys] if single else keys)]  # type: ignore[union-attr]
    return listed, None if since is None else micros(since), None if until is None else micros(until)


def micros(when: float | datetime) -> int:
    """Return a time in microseconds since 1970."""
    seconds = when if isinstance(when, int | float) else when.timestamp()
    return round(seconds * MICROS)


def in_order(
    ranges: Mapping[int, tuple[int, int]], changes: Sequence[Mapping[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of ranges in which rows of a key are in order: all before a change of the shards first.

    A part is a shard with its offsets; without changes there is one for each shard.
    """
    left = dict(ranges)
    for ends in changes:
        for shard, (start, stop) in left.items():
            at = min(stop, max(start, ends.get(shard, 0)))
            if at > start:
                yield shard, start, at
                left[shard] = at, stop
    for shard, (start, stop) in left.items():
        if start < stop:
            yield shard, start, stop


def located(place: str | os.PathLike[str]) -> str:
    """Return a folder as an absolute path, and the address of a store as it is."""
    path = os.fspath(place)
    if "://" in path:
        return path
    return os.path.abspath(path)  # noqa: PTH100 - pathlib would be a third of the import.


class Spool:
    """A spool in a folder or in a store, for reading. It keeps no file open and pickles as its place.

    Offsets are numbers by shard. Ends are exclusive.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the metadata of the spool; see :func:`open`."""
        self.path: str = located(path)
        self._view = SpoolView(self.path)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the place, which has to be the same in the other process."""
        return Spool, (self.path,)

    def __repr__(self) -> str:
        """Show the place and the id."""
        return f"Spool({self.path!r}, id={self.id!r})"

    @property
    def id(self) -> str:
        """The permanent id of the spool: 32 hexadecimal digits."""
        return self._view.id

    @property
    def table(self) -> str:
        """Kind of the rows: ``samples``, ``zre`` or ``zre.log``."""
        return self._view.table

    @property
    def shards(self) -> list[int]:
        """The numbers of its shards."""
        return list(range(self._view.shard_count))

    @property
    def columns(self) -> list[str]:
        """The columns of its rows, in order."""
        return list(self._view.columns)

    @property
    def shard_keys(self) -> list[str] | None:
        """The key expressions of its shards; ``None`` where the checksum of a key chooses one."""
        return self._view.shard_keys

    @property
    def tier(self) -> str | None:
        """The address of the store with its sealed segments; ``None`` where there is none."""
        return self._view.tier

    def earliest(self) -> dict[int, int]:
        """Return the first offset available, by shard."""
        return {shard: bounds[0] for shard, bounds in enumerate(self._view.bounds()[:-1])}

    def end(self) -> dict[int, int]:
        """Return the offset behind the last row that may be read, by shard."""
        return {shard: bounds[1] for shard, bounds in enumerate(self._view.bounds()[:-1])}

    def changes(self) -> list[dict[int, int]]:
        """Return the ends of the shards at each change of their number (:func:`reshard`), the oldest first.

        A key may have another shard behind a change. Its rows before these offsets come before its rows from
        there on, so a reader that needs the order of each key reads all shards up to a change before it goes
        on. :meth:`walk` returns no end behind the next one, and :meth:`to_arrow` and its neighbours read in
        this order. Shards that a change leaves out had no rows before it. The last 64 changes are known.
        """
        return self._view.changes()

    def marks(self) -> dict[int, dict[str, int]]:
        """Return the marks that the writer publishes for each shard.

        The marks are ``earliest``, ``end``, ``last_recv_ts``, ``dropped`` and ``bytes``. ``last_recv_ts`` is
        in
        microseconds since 1970, ``dropped`` counts messages that did not get into the shard.
        """
        return dict(enumerate(self._view.marks()[:-1]))

    def at(self, when: float | datetime) -> dict[int, int]:
        """Return the first offset received at ``when`` or later, by shard; the end of a shard without one.

        ``when`` is in seconds since 1970, or a datetime; one without a time zone is local time.
        """
        return self._view.at(micros(when))

    def received(self, shard: int, offset: int) -> int | None:
        """Return when a row was received, in microseconds since 1970; ``None`` for an offset without a row.

        Raises:
            OffsetOutOfRange: The row is deleted, or not written yet.
            SpoolCorrupt: The row cannot be read.
        """
        return self._view.received(shard, offset)

    def walk(
        self,
        start: Mapping[int, int],
        end: Mapping[int, int],
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        keys: Keys | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> dict[int, int]:
        """Return an end between ``start`` and ``end`` that respects a limit.

        Shards share the limit by their backlog. There is always some progress, even if a single row exceeds
        ``max_bytes``. Also without a limit, the end is not behind the next of the :meth:`changes`. Segments
        that :meth:`read` skips with these ``keys``, ``since`` and ``until`` do not count.
        """
        chosen = wanted(keys, since, until)
        return self._view.walk(dict(start), dict(end), (max_rows, max_bytes), chosen)

    def split(
        self,
        start: Mapping[int, int],
        end: Mapping[int, int],
        parts: int,
        *,
        keys: Keys | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> list[Range]:
        """Split the rows between ``start`` and ``end`` into about ``parts`` ranges of similar bytes.

        A range has one shard, so there are more ranges than ``parts`` if more shards have a backlog. Segments
        that :meth:`read` skips with these ``keys``, ``since`` and ``until`` do not count, and a range may
        have some between its offsets; pass the same ones to :meth:`read`.
        """
        chosen = wanted(keys, since, until)
        return [Range(*each) for each in self._view.split(dict(start), dict(end), parts, chosen)]

    def plan(
        self,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
        *,
        keys: Keys | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Plan:
        """Count the segments that :meth:`read` would open between two offsets, and those it would skip.

        No segment is opened. The bounds are those of the spool by default.
        """
        start = self.earliest() if start is None else start
        end = self.end() if end is None else end
        return Plan(*self._view.plan(dict(start), dict(end), wanted(keys, since, until)))

    def read(
        self,
        shard: int,
        start: int,
        stop: int,
        *,
        columns: Sequence[str] | None = None,
        max_rows: int = 32_768,
        max_bytes: int = 8 << 20,
        keys: Keys | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Rows:
        """Read the rows of a range, as an iterator of batches with the Arrow C interface.

        The same range gives the same rows in the same order, and the same batches if it was not written
        meanwhile. Only a block that has more than ``max_bytes`` makes a batch that has more.

        ``keys`` are key expressions: only rows whose keys intersect one of them. ``since`` and ``until``
        (exclusive) are times at which rows were received. Segments that have no such row by their summaries
        are not opened, so damage of them is not noticed; ``segments`` of the result counts both.

        Raises:
            KeyExprError: One of ``keys`` is no key expression.
            OffsetOutOfRange: Part of the range is deleted, or not written yet.
            SpoolCorrupt: While iterating: the data differ from those written.
            SpoolUnreachable: While iterating: the store of the segments does not answer.
        """
        chosen = wanted(keys, since, until)
        return self._view.read(shard, (start, stop), _names(columns), (max_rows, max_bytes), chosen)

    def to_arrow(self, **selected: Unpack[Selected]) -> pa.Table:
        """Read rows into a table of pyarrow, shard after shard; all before one of the :meth:`changes` first.

        Args:
            **selected: ``columns``: columns to read, in their order; all by default. ``keys``: key
                expressions: only rows with keys that intersect one of them. ``start``: the first row, as a
                time (rows from the first one received then or later) or as offsets by shard; the earliest by
                default. ``stop``: the end of the rows (exclusive), likewise; the present end by default.
                ``shards``: shards to read; all by default. ``gaps``: read the log of gaps instead.

        Raises:
            OffsetOutOfRange: Part of the range is deleted, or not written yet.
            SpoolCorrupt: The data differ from those written.
            ConfigError: The spool has no such shard, or its rows no keys.
            ImportError: pyarrow is missing (``zwire[arrow]``).
        """
        return self.to_reader(**selected).read_all()

    def to_reader(self, **selected: Unpack[Selected]) -> pa.RecordBatchReader:
        """Return the rows of :meth:`to_arrow` as a stream, of which one batch at a time is in memory.

        The stream can be read once; errors of damaged rows are raised while it is read.
        """
        return self._scan(selected).reader()

    def to_dataset(self, **selected: Unpack[Selected]) -> ds.Dataset:
        """Return the rows of :meth:`to_arrow` as a dataset of pyarrow, for engines such as DuckDB.

        An engine passes the columns and the filter of each query on: other columns are not read, and neither
        are rows that a filter on ``recv_ts`` (from a time on), ``shard`` and ``offset`` leaves out. Rows that
        come later are in no query.
        """
        from zwire.spool._dataset import SpoolDataset

        return SpoolDataset(self._scan(selected))

    def scan_polars(self, **selected: Unpack[Selected]) -> pl.LazyFrame:
        """Return the rows of :meth:`to_arrow` as a lazy frame of Polars.

        Polars passes columns, predicates and limits of each query on, as an engine does with
        :meth:`to_dataset`.

        Raises:
            ImportError: Polars is missing (``zwire[polars]``).
        """
        found = self._scan(selected)
        library("polars", "polars")
        from zwire.spool import _polars

        return _polars.scan(found)

    def _scan(self, selected: Selected) -> Scan:
        library("pyarrow", "arrow")
        from zwire.spool._scan import Scan

        return Scan(self, **selected)

    def gaps(self, start: int = 0, stop: int | None = None) -> Rows:
        """Read the log of gaps, as an iterator of batches like :meth:`read`.

        ``start`` and ``stop`` are offsets of this log; ``stop`` is :meth:`gaps_end` by default, and a deleted
        ``start`` counts as the first offset available.
        """
        earliest, end = self._view.bounds()[-1]
        stop = end if stop is None else stop
        return self._view.read(None, (max(start, earliest), stop), None, (32_768, 8 << 20))

    def gaps_start(self) -> int:
        """Return the first offset available in :meth:`gaps`."""
        return self._view.bounds()[-1][0]

    def gaps_end(self) -> int:
        """Return the offset behind the last row of :meth:`gaps`."""
        return self._view.bounds()[-1][1]

    def commit(self, consumer: str, offsets: Mapping[int, int]) -> None:
        """Record that a consumer has read everything before ``offsets``, so that it may be deleted.

        ``consumer`` is a name of up to 100 letters, digits, ``-``, ``_`` and ``.``.
        """
        self._view.commit(consumer, dict(offsets), round(time.time() * MICROS))

    def consumers(self) -> dict[str, dict[int, int]]:
        """Return the committed offsets of each consumer."""
        return {name: offsets for name, (offsets, _) in self.commits().items()}

    def commits(self) -> dict[str, tuple[dict[int, int], int]]:
        """Return offsets and time of the last commit of each consumer, in microseconds since 1970."""
        return self._view.consumers()


def _names(columns: Sequence[str] | None) -> list[str] | None:
    if isinstance(columns, str):
        raise TypeError("columns is a list of names")
    return None if columns is None else list(columns)


def open(path: str | os.PathLike[str]) -> Spool:
    """Open the spool in a folder, or in a store such as ``s3://bucket/prefix``, for reading.

    It is neither locked nor changed. Segments of a folder that are in a store alone are read there. The
    credentials of a store come from the environment, the profile of its tools, or the instance.

    Raises:
        SpoolError: The place has no spool, or it cannot be read.
        SpoolUnreachable: The store does not answer, or has no such bucket.
        SpoolDenied: The store refuses the credentials.
    """
    return Spool(path)
