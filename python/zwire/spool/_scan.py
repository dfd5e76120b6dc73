"""Selected rows of a spool as Arrow: tables, streams, and ranges that a filter leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from zwire import columns as tables
from zwire._lazy import pa
from zwire.errors import ConfigError
from zwire.spool._view import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from zwire.spool._view import Spool

Edge: TypeAlias = "float | datetime | Mapping[int, int] | None"
"""An edge of the rows to read: a time, or offsets by shard."""

_TABLES = {"samples": tables.SAMPLE, "zre": tables.ZRE, "zre.log": tables.ZRE_LOG}

_DAY = 86_400_000_000
"""Microseconds by which a receive time may lie ahead of the clock before a filter on time reads all rows."""


class Scan:
    """Rows of a spool, or of its log of gaps, that arguments select.

    The ends are those at the moment when it is made, so that each iteration has the same rows.

    Args:
        view: The spool.
        columns: Columns to read, in their order; all by default.
        keys: Key expressions: only rows with keys that intersect one of them.
        start: The first row: a time, or offsets by shard; the earliest by default.
        stop: The end (exclusive): likewise; shards that a mapping leaves out are read to their end.
        shards: Shards to read; all by default.
        gaps: Read the log of gaps instead.
    """

    def __init__(
        self,
        view: Spool,
        *,
        columns: Sequence[str] | None = None,
        keys: Iterable[str] = (),
        start: Edge = None,
        stop: Edge = None,
        shards: Iterable[int] | None = None,
        gaps: bool = False,
    ) -> None:
        if isinstance(columns, str) or isinstance(keys, str):
            raise TypeError("columns and keys are lists of texts")
        from zwire.zenoh import KeyExpr

        # An invalid one raises now, and not when rows are read.
        keys = [str(KeyExpr(key)) for key in keys]
        self.view, self.gaps = view, gaps
        table = tables.GAP if gaps else _TABLES[view.table].select(view.columns)
        self.table = table if columns is None else table.select(columns)
        self.all = table
        self._keys = keys or None
        if keys and "key" not in table.names:
            raise ConfigError("keys: the rows of this spool have no column 'key'", path="keys")
        if gaps:
            if start is not None or stop is not None or shards is not None:
                raise ConfigError("gaps: the log of gaps is read as a whole", path="gaps")
            self.ranges = {-1: (view.gaps_start(), view.gaps_end())}
        else:
            self.ranges = _ranges(view, start, stop, shards)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.table.arrow()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        ranges: Mapping[int, tuple[int, int]] | None = None,
        keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows, shard after shard, all before a change of the shards first.

        Only the batch in progress is in memory. ``columns`` are fewer than the selected ones, ``ranges``
        parts of the shards, ``keep`` leaves out rows of a batch, and ``limit`` ends behind so many rows.
        """
        table = self.table if columns is None else self.all.select(columns)
        schema = table.arrow()
        left = limit
        changes = [] if self.gaps else self.view.changes()
        for shard, start, stop in in_order(self.ranges if ranges is None else ranges, changes):
            rows = (
                self.view.gaps(start, stop)
                if self.gaps
                else self.view.read(shard, start, stop, columns=table.names, keys=self._keys)
            )
            for read in rows:
                batch = pa.record_batch(read)
                batch = pa.RecordBatch.from_arrays(batch.select(list(table.names)).columns, schema=schema)
                if keep is not None:
                    batch = keep(batch)
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if left == 0:
                    return

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def left_by(self, filter: pa.compute.Expression | None) -> dict[int, tuple[int, int]]:
        """Return the ranges of the rows that may pass a filter, by its ``shard``, ``offset`` and ``recv_ts``.

        Other rows in these ranges do not pass.
        """
        if filter is None or self.gaps:
            return dict(self.ranges)
        from pyarrow.dataset import field

        chance = _Chance(filter, self.all.arrow())
        found = {
            shard: _by_offset(bounds, shard, chance)
            for shard, bounds in self.ranges.items()
            if chance(field("shard") == shard)
        }
        # Clocks may be set back, so only the beginning of the rows of a time is known.
        first = self._first_time(found, chance)
        if first is None:
            return found
        begins = self.view.at(first / 1e6)
        return {shard: (max(start, begins[shard]), stop) for shard, (start, stop) in found.items()}

    def _first_time(self, ranges: Mapping[int, tuple[int, int]], chance: _Chance) -> int | None:
        """Return the greatest time before which no row passes; None if there is none."""
        if all(start >= stop for start, stop in ranges.values()):
            return None
        from pyarrow.dataset import field

        newest = max(mark["last_recv_ts"] for mark in self.view.marks().values())
        stamp = self.all.arrow().field("recv_ts").type
        found = _greatest(0, newest + _DAY, lambda at: not chance(field("recv_ts") < pa.scalar(at, stamp)))
        return found or None


class _Chance:
    """Tells whether a row with known properties may pass a filter, as Arrow does to prune files."""

    def __init__(self, filter: pa.compute.Expression, schema: pa.Schema) -> None:
        from pyarrow import dataset, fs

        self._filter, self._schema, self._dataset = filter, schema, dataset
        self._format, self._system = dataset.IpcFileFormat(), fs.LocalFileSystem()

    def __call__(self, known: pa.compute.Expression) -> bool:
        # The file is never opened.
        file = self._format.make_fragment("none", self._system, partition_expression=known)
        files = self._dataset.FileSystemDataset([file], self._schema, self._format, self._system)
        return any(True for _ in files.get_fragments(filter=self._filter))


def _by_offset(bounds: tuple[int, int], shard: int, chance: _Chance) -> tuple[int, int]:
    from pyarrow.dataset import field

    start, stop = bounds
    here = field("shard") == shard
    start = _greatest(start, stop, lambda at: at == start or not chance(here & (field("offset") < at)))
    least = _greatest(0, stop - start, lambda back: not chance(here & (field("offset") >= stop - back)))
    return start, stop - least


def _greatest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the greatest number from ``low`` to ``high`` for which a condition holds; ``low`` if none."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _ranges(view: Spool, start: Edge, stop: Edge, shards: Iterable[int] | None) -> dict[int, tuple[int, int]]:
    marks = view.marks()
    wanted = sorted(marks) if shards is None else sorted(set(shards))
    for shard in wanted:
        if shard not in marks:
            raise ConfigError(
                f"shards: this spool has {', '.join(map(str, marks))}, not {shard}", path="shards"
            )
    first = {shard: mark["earliest"] for shard, mark in marks.items()}
    last = {shard: mark["end"] for shard, mark in marks.items()}
    begins, ends = _edge(view, start, first, "start"), _edge(view, stop, last, "stop")
    if start is not None and not isinstance(start, Mapping):
        # Rows may have been deleted since the time was looked up.
        begins = {shard: max(offset, first[shard]) for shard, offset in begins.items()}
    return {shard: (begins[shard], ends[shard]) for shard in wanted}


def _edge(view: Spool, edge: Edge, default: dict[int, int], name: str) -> dict[int, int]:
    if edge is None:
        return default
    if not isinstance(edge, Mapping):
        return view.at(edge)
    for shard in edge:
        if shard not in default:
            raise ConfigError(
                f"{name}: this spool has shards {', '.join(map(str, default))}, not {shard}", path=name
            )
    return {**default, **edge}
