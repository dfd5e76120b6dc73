"""Batches of rows as objects that travel through RDDs in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from zwire._lazy import pa
from zwire.spark import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark import RDD

    from zwire.spark.schema import RowSchema

    Row: TypeAlias = Sequence[Any] | dict[str, Any]

__all__ = ["Batch", "batches"]

ROWS = 8192
"""Default rows of a batch made of rows: enough to make the cost of a batch small per row."""

BYTES = 4 << 20
"""Most bytes of payload in such a batch; Spark takes 2 GiB in a column at most, and workers are small."""


class Batch:
    """A record batch that pickles as one buffer.

    Rows of an RDD are pickled one by one, which is what makes them slow. A partition of batches costs a
    fraction of it: use an RDD of batches with ``mapPartitions`` where speed matters.
    """

    __slots__ = ("_batch",)

    def __init__(self, batch: pa.RecordBatch) -> None:
        """Wrap a record batch."""
        self._batch = batch

    def to_arrow(self) -> pa.RecordBatch:
        """Return the record batch, without a copy."""
        return self._batch

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples."""
        return zip(*(column.to_pylist() for column in self._batch.columns), strict=True)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def __eq__(self, other: object) -> bool:
        return bool(self._batch.equals(other._batch)) if isinstance(other, Batch) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as large as what it holds

    def __repr__(self) -> str:
        return f"<Batch {len(self)} rows: {', '.join(self._batch.schema.names)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._batch.schema) as writer:
            writer.write_batch(self._batch)
        return _from_ipc, (sink.getvalue().to_pybytes(),)


def _from_ipc(data: bytes) -> Batch:
    # Some writers encode a batch without rows as a stream of its schema alone.
    with pa.ipc.open_stream(data) as reader:
        return Batch(next(iter(reader), pa.RecordBatch.from_pylist([], schema=reader.schema)))


@dataclass(frozen=True)
class _ToBatches:
    columns: RowSchema
    rows: int

    def __call__(self, partition: Iterable[Row | Batch | pa.RecordBatch]) -> Iterator[Batch]:
        return (Batch(batch) for batch in to_arrow(partition, self.columns, rows=self.rows))


def batches(rdd: RDD[Any], columns: RowSchema = schema.PUT, *, rows: int = ROWS) -> RDD[Batch]:
    """Turn an RDD of rows into one of batches, for ``put_partition`` and for functions of the user.

    Args:
        rdd: Rows as tuples with the first columns of the schema, or as dicts.
        columns: The schema of the rows; by default that of ``put``.
        rows: Most rows of a batch.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}")
    return rdd.mapPartitions(_ToBatches(columns, rows), preservesPartitioning=True)


def to_arrow(
    partition: Iterable[Row | Batch | pa.RecordBatch], columns: RowSchema, *, rows: int = ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as record batches; a batch passes through unchanged."""
    coming = iter(partition)
    chunk: list[Row] = []
    size = done = 0
    is_batch = True
    # A batch is passed on before the next one is taken.
    while piece := list(islice(coming, 1 if is_batch else min(_PIECE, rows - len(chunk)))):
        for is_batch, run in _runs(piece):
            if not is_batch:
                chunk += run
                size += _bytes_in(run)
                continue
            if chunk:
                yield _from_rows(chunk, columns, done)
                done += len(chunk)
                chunk, size = [], 0
            for item in run:
                ready = item.to_arrow() if isinstance(item, Batch) else item
                yield ready
                done += ready.num_rows
        if len(chunk) >= rows or size >= BYTES:
            yield _from_rows(chunk, columns, done)
            done += len(chunk)
            chunk, size = [], 0
    if chunk:
        yield _from_rows(chunk, columns, done)


_PIECE = 64
"""Rows that are taken at once: fewer than Spark unpickles at once, so that no more of them are in memory."""


def _runs(piece: list[Any]) -> Iterable[tuple[bool, list[Any]]]:
    """Split into batches and rows, in their order."""
    if not any(map(_is_batch, set(map(type, piece)))):
        return [(False, piece)]
    return [(kind, list(run)) for kind, run in groupby(piece, lambda item: _is_batch(type(item)))]


def _is_batch(kind: type) -> bool:
    return issubclass(kind, Batch) or hasattr(kind, "__arrow_c_array__")


def _bytes_in(rows: list[Row]) -> int:
    """Bytes of the cells of rows, but the first ones: of texts, their characters."""
    if any(issubclass(kind, dict) for kind in set(map(type, rows))):
        columns: Iterable[Iterable[Any]] = map(_cells, rows)
    else:
        columns = islice(zip_longest(*rows), 1, None)
    return sum(map(_bytes_of, columns))


def _bytes_of(cells: Iterable[Any]) -> int:
    cells = tuple(cells)
    if set(map(type, cells)) == {bytes}:
        return sum(map(len, cells))
    return sum(len(cell) for cell in cells if isinstance(cell, bytes | bytearray | str))


def _present(row: Row, columns: RowSchema) -> Row:
    """Give a row the present names of its columns."""
    if not isinstance(row, dict) or columns.renamed.keys().isdisjoint(row):
        return row
    return {columns.present(name): value for name, value in row.items()}


def _cells(row: Row) -> Iterable[Any]:
    return row.values() if isinstance(row, dict) else islice(row, 1, None)


def _from_rows(rows: list[Row], columns: RowSchema, done: int) -> pa.RecordBatch:
    if isinstance(rows[0], dict):
        rows = [_present(row, columns) for row in rows]
        names = [name for name in columns.names if any(name in row for row in rows)]
        for number, row in enumerate(rows):
            unknown = set(row) - set(columns.names) if isinstance(row, dict) else ["a tuple among dicts"]
            for name in unknown:
                known = ", ".join(columns.names)
                raise ValueError(f"row {done + number}: {name!r} is not one of {known}")
        cells: Iterable[Sequence[Any]] = [[row.get(name) for row in rows] for name in names]  # type: ignore[union-attr]  # checked above
    else:
        widths = set(map(len, rows))
        width = max(widths)
        if width > len(columns.names):
            raise ValueError(f"rows have {width} columns, and there are only {', '.join(columns.names)}")
        names = list(columns.names[:width])
        if len(widths) > 1:
            rows = [(*row, *(None,) * (width - len(row))) for row in rows]
        cells = zip(*rows, strict=True)
    wanted = columns.arrow()
    made = []
    for name, column in zip(names, cells, strict=True):
        kind = wanted.field(name).type
        try:
            made.append(pa.array(column, kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(_which(name, kind, column, rows, done)) from error
    return pa.RecordBatch.from_arrays(made, names=names)


def _which(name: str, kind: pa.DataType, column: Sequence[Any], rows: list[Row], done: int) -> str:
    """Find the cell that Arrow did not accept."""
    for number, cell in enumerate(column):
        try:
            pa.array([cell], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            row = rows[number]
            key = row.get("key") if isinstance(row, dict) else row[0]
            return f"row {done + number}, key {key!r}: {name} is {type(cell).__name__}, not {kind}"
    return f"column {name!r} is not {kind}"
