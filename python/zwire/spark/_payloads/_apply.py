"""Decodes the payloads of batches: each row unchanged, then the columns of its payload, then ``error``."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zwire._lazy import pa, pc
from zwire.errors import PayloadError
from zwire.spark._types import arrow_type
from zwire.spark._worker import task
from zwire.typed._arrow import ArrowCodec
from zwire.typed._formats import CODECS
from zwire.typed._tree import Misfit
from zwire.typed._values import problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.types import StructType

    from zwire.spark._payloads._msg import Record

    # Values or a table of a payload, or columns of many payloads.
    Reader: TypeAlias = "Callable[[bytes], Any] | Columns"

ROWS = 32_768
"""Most rows of an output batch."""

BYTES = 8 << 20
"""Approximate limit on the bytes of payloads in a batch."""

_AT_ONCE = 256
"""Most payloads held as Python objects at once."""


@dataclass(frozen=True)
class Spec:
    """Format and schema of payloads; sent to the workers, so all of its fields pickle."""

    schema: StructType
    format: str
    payload: str
    encoding: str | None
    prefix: str
    errors: str
    message: str | None = None
    descriptors: bytes | None = field(default=None, repr=False)
    record: Record | None = field(default=None, repr=False)


class Columns:
    """A reader of many payloads at once, by the kernel for CDR."""

    def __init__(self, record: Record, names: list[str]) -> None:
        from zwire.ros2._codec import columns_of

        self._kernel = columns_of(record, names)

    def read(self, payloads: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        """Return the columns of payloads, and the reasons why rows have none."""
        *columns, errors = pa.record_batch(self._kernel.decode(payloads)).columns
        return columns, errors


def reader_of(spec: Spec, name: str) -> Reader:
    """Return the reader of payloads in a format; refuse the lack of a description that it needs."""
    names = spec.schema.fieldNames()
    if name == "protobuf":
        if spec.message is None or spec.descriptors is None:
            raise ValueError("protobuf needs the name of the message and descriptors")
        from zwire.spark._payloads._protobuf import message_class, message_reader

        return message_reader(message_class(spec.message, spec.descriptors), names)
    if name == "cdr":
        if spec.record is None:
            raise ValueError("cdr needs a definition or a schema")
        return Columns(spec.record, names)
    if name == "arrow":
        return _table_reader(spec.schema)
    if name in ("json", "cbor", "msgpack"):
        from zwire.spark._payloads._trees import tree_reader

        return tree_reader(name, spec.schema)
    raise ValueError(f"{name} has no columns")


def arrow_codec() -> ArrowCodec:
    """Return the codec of Arrow tables."""
    (found,) = (codec for codec in CODECS if isinstance(codec, ArrowCodec))
    return found


def _table_reader(schema: StructType) -> Reader:
    """Return a reader of a payload as a table with the columns of a schema."""
    codec = arrow_codec()
    wanted = pa.schema([pa.field(each.name, arrow_type(each.dataType)) for each in schema])

    def read(payload: bytes) -> pa.RecordBatch:
        table = codec.decode(cast("Any", payload), pa.Table)
        columns = []
        for column in wanted:
            at = table.schema.get_field_index(column.name)
            found = pa.nulls(table.num_rows) if at < 0 else table.column(at).combine_chunks()
            try:
                columns.append(found.cast(column.type))
            except pa.ArrowException as error:
                misfit = Misfit(str(error))
                misfit.steps.append(column.name)
                raise misfit from None
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    return read


@dataclass(frozen=True)
class Unpack:
    """The function for ``mapInArrow``."""

    spec: Spec

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = _Readers(self.spec)
        for batch in batches:
            yield from _Batch(self.spec, readers, batch).pieces()


class _Readers:
    """Readers by the encodings of the rows."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.by_name = {codec: made.name for made in CODECS for codec in (made.encoding, *made.also)}
        self.made: dict[str, Reader] = {}
        self.known: dict[str | None, tuple[str, Reader | None]] = {}

    def find(self, encoding: str | None) -> tuple[str, Reader | None]:
        """Return the name of a payload's encoding and its reader; None without a reader."""
        found = self.known.get(encoding)
        if found is None:
            found = self._find(encoding)
            if len(self.known) < ROWS:  # encodings come from peers
                self.known[encoding] = found
        return found

    def _find(self, encoding: str | None) -> tuple[str, Reader | None]:
        told = (encoding or "zenoh/bytes").partition(";")[0]
        name = self.by_name.get(told, "")
        if self.spec.format != "auto":
            told = name = self.spec.format
        if name not in self.made:
            try:
                self.made[name] = reader_of(self.spec, name)
            except ValueError:
                return told, None
        return told, self.made[name]


class _Batch:
    """A batch being built: values in lists, with tables between them."""

    def __init__(self, spec: Spec, readers: _Readers, batch: pa.RecordBatch) -> None:
        self.spec, self.readers, self.batch = spec, readers, batch
        self.fields = [pa.field(spec.prefix + each.name, arrow_type(each.dataType)) for each in spec.schema]
        self.schema = pa.schema([*batch.schema, *self.fields, pa.field(f"{spec.prefix}error", pa.string())])
        self.nothing = [None] * len(self.fields)
        self._begin()

    def _begin(self) -> None:
        self.at: list[int] = []
        self.values: list[list[Any]] = []
        self.errors: list[str | None] = []
        self.size = 0

    def pieces(self) -> Iterator[pa.RecordBatch]:
        for start, stop, columns, told in self._runs():
            if columns is None:
                yield from self._rows(start, stop)
            else:
                yield from self._flush()
                yield from self._many(start, stop, columns, told)
        yield from self._flush()

    def _runs(self) -> Iterator[tuple[int, int, Columns | None, str]]:
        """Yield the ranges of rows that are read in the same way: by columns, or row by row."""
        encodings: list[str | None] = [None]
        if self.spec.encoding is not None:
            encodings = self.batch.column(self.spec.encoding).to_pylist()
        start = 0
        for (columns, told), same in groupby(map(self._columns_of, encodings)):
            stop = self.batch.num_rows if self.spec.encoding is None else start + sum(1 for _ in same)
            yield start, stop, columns, told
            start = stop

    def _columns_of(self, encoding: str | None) -> tuple[Columns | None, str]:
        told, reader = self.readers.find(encoding)
        return (reader, told) if isinstance(reader, Columns) else (None, "")

    def _many(self, start: int, stop: int, columns: Columns, told: str) -> Iterator[pa.RecordBatch]:
        """Read payloads by columns, in pieces whose sizes are bounded."""
        part = self.batch.slice(start, stop - start)
        payloads = part.column(self.spec.payload)
        if part.num_rows > 1 and (part.num_rows > ROWS or payloads.nbytes > BYTES):
            middle = (start + stop) // 2
            yield from self._many(start, middle, columns, told)
            yield from self._many(middle, stop, columns, told)
            return
        made, errors = columns.read(payloads)
        if errors.null_count < len(errors):
            errors = pc.binary_join_element_wise(f"{told[:100]}: ", errors, "")
            if self.spec.errors == "raise":
                raise PayloadError(errors.drop_null()[0].as_py(), encoding=told)
        yield pa.RecordBatch.from_arrays([*part.columns, *made, errors], schema=self.schema)

    def _rows(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for row, (payload, encoding) in enumerate(self._payloads(start, stop), start):
            values: Any = self.nothing
            error = None
            if payload is not None:
                try:
                    values = self._read(payload, encoding)
                except PayloadError as found:
                    if self.spec.errors == "raise":
                        raise
                    error = str(found)
                self.size += len(payload)
            if not isinstance(values, list) and values.num_rows:
                yield from self._flush()
                yield from self._table(row, values)
            else:
                self.at.append(row)
                self.values.append(values if isinstance(values, list) else self.nothing)
                self.errors.append(error)
            if len(self.at) >= ROWS or self.size >= BYTES:
                yield from self._flush()

    def _payloads(self, begin: int, stop: int) -> Iterator[tuple[bytes | None, str | None]]:
        for start in range(begin, stop, _AT_ONCE):
            part = self.batch.slice(start, min(_AT_ONCE, stop - start))
            payloads = part.column(self.spec.payload).to_pylist()
            if self.spec.encoding is None:
                yield from ((payload, None) for payload in payloads)
            else:
                yield from zip(payloads, part.column(self.spec.encoding).to_pylist(), strict=True)

    def _read(self, payload: bytes, encoding: str | None) -> Any:  # noqa: ANN401 - a list, or a table
        told, reader = self.readers.find(encoding)
        if reader is None or isinstance(reader, Columns):
            raise PayloadError(f"{told[:100]}: nothing reads this as columns; say what it is with format")
        try:
            return reader(payload)
        except Exception as error:
            # Libraries raise errors of any type; all of them concern this payload.
            raise problem(error, None, told, None) from error

    def _table(self, row: int, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for start in range(0, table.num_rows, ROWS):
            part = table.slice(start, ROWS)
            at = [row] * part.num_rows
            # Repeating a payload of many rows in each of them would need quadratic memory.
            first: list[int | None] = [None if start else row, *[None] * (part.num_rows - 1)]
            yield self._out(at, part.columns, [None] * part.num_rows, first)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if self.at:
            yield self._out(self.at, self._columns(), self.errors)
            self._begin()

    def _columns(self) -> list[pa.Array]:
        problems = (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError)
        try:
            return self._arrays()
        except problems:
            # Readers have checked nearly everything; a remaining error (a year 10000) costs its row the
            # columns.
            for row, values in enumerate(self.values):
                for value, each in zip(values, self.fields, strict=True):
                    try:
                        pa.array([value], each.type)
                    except problems as error:
                        reason = f"{str(error)[:300]} at {each.name}"
                        if self.spec.errors == "raise":
                            raise PayloadError(reason) from None
                        self.values[row], self.errors[row] = self.nothing, reason
                        break
            return self._arrays()

    def _arrays(self) -> list[pa.Array]:
        cells = zip(*self.values, strict=True)
        return [pa.array(column, each.type) for column, each in zip(cells, self.fields, strict=True)]

    def _out(
        self,
        at: list[int],
        columns: list[pa.Array],
        errors: list[str | None],
        payloads: list[int | None] | None = None,
    ) -> pa.RecordBatch:
        """Put selected rows beside their columns; the payload column may come from other rows."""
        left = self.batch.columns
        if payloads is not None or at != list(range(self.batch.num_rows)):
            rows = dict.fromkeys(self.batch.schema.names, pa.array(at, pa.int64()))
            if payloads is not None:
                rows[self.spec.payload] = pa.array(payloads, pa.int64())
            left = [column.take(chosen) for column, chosen in zip(left, rows.values(), strict=True)]
        made = [*left, *columns, pa.array(errors, pa.string())]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)
