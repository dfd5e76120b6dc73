"""Batches of rows as objects that travel through RDDs in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, islice
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
    chunk = _Chunk()
    done = 0
    sort: type = Batch
    # A batch is passed on before the next one is taken.
    while piece := list(islice(coming, 1 if sort is Batch else min(_PIECE, rows - len(chunk.rows)))):
        for sort, run in _runs(piece):
            if sort is not Batch:
                chunk.add(run, sort)
                continue
            if chunk.rows:
                yield _from_rows(chunk, columns, done)
                done += len(chunk.rows)
                chunk = _Chunk()
            for item in run:
                ready = item.to_arrow() if isinstance(item, Batch) else item
                yield ready
                done += ready.num_rows
        if len(chunk.rows) >= rows or chunk.size >= BYTES:
            yield _from_rows(chunk, columns, done)
            done += len(chunk.rows)
            chunk = _Chunk()
    if chunk.rows:
        yield _from_rows(chunk, columns, done)


_PIECE = 64
"""Rows that are taken at once: fewer than Spark unpickles at once, so that no more of them are in memory."""


def _runs(piece: list[Any]) -> list[tuple[type, list[Any]]]:
    """Split into batches, dicts and other rows, in their order."""
    sorts = {_sort(kind) for kind in set(map(type, piece))}
    if len(sorts) == 1:
        return [(sorts.pop(), piece)]
    return [(sort, list(run)) for sort, run in groupby(piece, lambda item: _sort(type(item)))]


def _sort(kind: type) -> type:
    """Return ``Batch`` for the type of batches, ``dict`` for dicts, and ``tuple`` for other rows."""
    if issubclass(kind, Batch) or hasattr(kind, "__arrow_c_array__"):
        return Batch
    return dict if issubclass(kind, dict) else tuple


class _Chunk:
    """Rows of one record batch."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.cells: list[list[Any]] | None = []
        """The rows by columns; None if one of them is a dict, or if they differ in width."""
        self.size = 0
        """Bytes of the cells of rows, but the first ones: of texts, their characters."""

    def add(self, rows: list[Row], sort: type) -> None:
        """Append rows of one sort."""
        self.rows += rows
        cells = _columns(rows) if sort is tuple and self.cells is not None else []
        if not cells or len(cells) != len(self.cells or cells):
            self.cells = None
            self.size += sum(map(_bytes_of, map(_cells, rows)))
            return
        if not self.cells:
            self.cells = [[] for _ in cells]
        for column, more in zip(self.cells, cells, strict=True):
            column.extend(more)
        for more in cells[1:]:
            try:
                self.size += sum(map(len, more))
            except TypeError:
                self.size += _bytes_of(more)


def _columns(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return rows by columns; nothing if they differ in width."""
    try:
        return list(zip(*rows, strict=True))
    except ValueError:
        return []


def _bytes_of(cells: Iterable[Any]) -> int:
    return sum(len(cell) for cell in cells if isinstance(cell, bytes | bytearray | str))


def _present(row: Row, columns: RowSchema) -> Row:
    """Give a row the present names of its columns."""
    if not isinstance(row, dict) or columns.renamed.keys().isdisjoint(row):
        return row
    return {columns.present(name): value for name, value in row.items()}


def _cells(row: Row) -> Iterable[Any]:
    return row.values() if isinstance(row, dict) else islice(row, 1, None)


def _forgotten(number: int, key: Any = None) -> ValueError:  # noqa: ANN401 - whatever the row has
    """Make the error for a row to publish without a payload: it would be an empty put, or a deletion."""
    problem = "there is no payload: give None to delete the key, b'' for an empty payload"
    return ValueError(f"row {number}, key {key!r}: {problem}")


_WITH_PAYLOAD = schema.PUT.names.index("payload") + 1
"""Fewest cells of a row to publish."""


def _from_rows(chunk: _Chunk, columns: RowSchema, done: int) -> pa.RecordBatch:
    published = columns == schema.PUT
    rows = chunk.rows
    if isinstance(rows[0], dict):
        rows = [_present(row, columns) for row in rows]
        names = [name for name in columns.names if any(name in row for row in rows)]
        for number, row in enumerate(rows):
            unknown = set(row) - set(columns.names) if isinstance(row, dict) else ["a tuple among dicts"]
            for name in unknown:
                known = ", ".join(columns.names)
                raise ValueError(f"row {done + number}: {name!r} is not one of {known}")
            if published and isinstance(row, dict) and row.keys().isdisjoint(("payload", "kind")):
                raise _forgotten(done + number, row.get("key"))
        cells: Iterable[Sequence[Any]] = [[row.get(name) for row in rows] for name in names]  # type: ignore[union-attr]  # checked above
    else:
        widths = {len(chunk.cells)} if chunk.cells else set(map(len, rows))
        width = max(widths)
        if width > len(columns.names):
            raise ValueError(f"rows have {width} columns, and there are only {', '.join(columns.names)}")
        if published and min(widths) < _WITH_PAYLOAD:
            number, row = next(each for each in enumerate(rows) if len(each[1]) < _WITH_PAYLOAD)
            raise _forgotten(done + number, *row)
        names = list(columns.names[:width])
        if len(widths) > 1:
            rows = [(*row, *(None,) * (width - len(row))) for row in rows]
        cells = chunk.cells or zip(*rows, strict=True)
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
