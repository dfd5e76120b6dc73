"""Tables that take a batch of rows and the marks of its writer in one transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from zwire._lazy import pa, pc
from zwire.errors import ConfigError, SinkConflict, SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Rows: TypeAlias = Callable[[], pa.RecordBatchReader]
    """Makes a stream of rows; the same rows for each attempt."""

ATTEMPTS = 10
"""Attempts to commit beside writers with other names, each of which may be first."""

DATE = "date"
"""Column of partitions by day: the date of ``recv_ts`` in UTC, added to rows without such a column."""


class Compacted(NamedTuple):
    """The result of :meth:`Table.compact`."""

    removed: int
    """Small files replaced."""
    added: int
    """Files that have their rows now."""


class LostRaceError(Exception):
    """Another writer has committed first; the attempt left nothing in the table."""


class Table(ABC):
    """A table of a lakehouse, to which batches are appended exactly once.

    A *mark* is a number under a name of the writer that is stored with the rows of a batch, in the same
    transaction: the next offset of a shard, or the number of a batch. A writer that was killed at any moment
    reads the marks and knows which batches the table has.
    """

    FORMAT: ClassVar[str]
    """Name of the format."""

    def __init__(self, address: str, partition_by: Sequence[str] = ()) -> None:
        if isinstance(partition_by, str):
            raise TypeError("partition_by is a list of names")
        self.address: str = address
        self.partition_by: tuple[str, ...] = tuple(partition_by)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address!r}>"

    @abstractmethod
    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """Return the present marks of some names; names without a mark are left out.

        Raises:
            SinkError: The table cannot be read.
        """

    def schema(self) -> pa.Schema | None:
        """Return the columns of the table; ``None`` if there is no table yet.

        Raises:
            SinkError: The table cannot be read.
        """
        with self.translating():
            return self._schema()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Read the rows of all committed batches."""

    @abstractmethod
    def compact(self, target_bytes: int = 128 << 20) -> Compacted:
        """Replace small files by files of about ``target_bytes``; rows and marks stay the same.

        Sinks may go on meanwhile. Readers of earlier versions need the old files until :meth:`vacuum`.

        Raises:
            NotSupported: The library of the format cannot.
        """

    @abstractmethod
    def vacuum(self, older_than: float = 7 * 86400.0) -> int:
        """Delete files that the table needs no longer, or that attempts without a commit have left.

        Only files that are older than so many seconds: reads and batches in progress have to be shorter.
        Returns the number of files, of Iceberg that of snapshots.
        """

    @abstractmethod
    def _schema(self) -> pa.Schema | None:
        """Return the columns of the table, None if it does not exist."""

    @abstractmethod
    def _create(self, schema: pa.Schema) -> None:
        """Create the table, unless another writer has done so."""

    @abstractmethod
    def _append(self, rows: Rows, marks: Mapping[str, int]) -> None:
        """Append rows and set marks on top of the version that :meth:`marks` has read last.

        Raises:
            LostRaceError: The table has a later version.
        """

    @abstractmethod
    def _translated(self, error: Exception) -> Exception | None:
        """Return the error of zwire for one of the library, None for any other."""

    def write(self, rows: Any, *, name: str, number: int) -> bool:  # noqa: ANN401 - of any library with Arrow
        """Append a batch unless the table has it: for ``foreachBatch`` of Spark, and sources that repeat.

        Numbers of a name ascend; a batch that is repeated has the same number and the same rows.

        Args:
            rows: The batch: a table, batch or stream with the Arrow C interface.
            name: Name of the writer, such as that of the query. A query with a new checkpoint counts from 0
                again and needs a new name.
            number: Number of the batch.

        Returns:
            Whether the batch was appended; ``False`` if the table had it already.

        Raises:
            SinkConflict: A later batch of this name is in the table.
            SinkError: The table cannot be written.
        """
        batch = pa.table(rows)
        found = self.marks([name]).get(name)
        if found is not None and found > number:
            raise SinkConflict(
                f"{self.address}: batch {number} of {name!r} is older than batch {found}, the last one "
                "written: the checkpoint was deleted or restored; give the query a new name",
                table=self.address,
            )
        if found == number:
            return False
        expected = {} if found is None else {name: found}
        return self.commit(batch.to_reader, batch.schema, {name: number}, expected)

    def commit(
        self, rows: Rows, schema: pa.Schema, marks: Mapping[str, int], expected: Mapping[str, int]
    ) -> bool:
        """Append rows and set marks in one transaction, if the present marks are the expected ones.

        Returns:
            Whether this call appended them; ``False`` if the table had these marks already.

        Raises:
            SinkConflict: The marks are neither the expected ones nor those to set: another writer has the
                same name.
            SinkError: The table cannot be written, or its columns do not fit.
        """
        with self.translating():
            target = self._ready(schema)
            for attempt in range(ATTEMPTS):
                found = self.marks(marks)
                if found == dict(marks):
                    # With rows of an attempt that seemed to fail, the commit is ours.
                    return attempt > 0
                if found != dict(expected):
                    raise SinkConflict(
                        f"{self.address}: its marks are {found or 'none'}, expected were "
                        f"{dict(expected) or 'none'}: another writer uses the same name; choose another one",
                        table=self.address,
                    )
                try:
                    self._append(lambda: _fitted(rows(), target), marks)
                except LostRaceError:
                    continue
                return True
        raise SinkError(
            f"{self.address}: other writers were first {ATTEMPTS} times in a row; try again",
            table=self.address,
        )

    def translating(self) -> _Translating:
        """Return a context in which errors of the library become errors of zwire."""
        return _Translating(self)

    def _ready(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the table; create it if there is none."""
        found = self._schema()
        if found is None:
            wanted = _dated(schema, self.partition_by)
            for name in self.partition_by:
                if name not in wanted.names:
                    raise ConfigError(
                        f"partition_by: {name!r} is not one of the columns {', '.join(wanted.names)}",
                        path="partition_by",
                    )
            self._create(wanted)
            # Another writer may have been first, and a format may change types.
            found = self._schema()
            assert found is not None  # noqa: S101 - it is created
        for name in schema.names:
            if name not in found.names:
                raise SinkError(
                    f"{self.address}: the table has no column {name!r}: write the columns "
                    f"{', '.join(found.names)}, or a new table",
                    table=self.address,
                )
        return found


class _Translating:
    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and (found := self._table._translated(error)) is not None:  # noqa: SLF001
            raise found from error


def _dated(schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    if DATE in partition_by and DATE not in schema.names and "recv_ts" in schema.names:
        return schema.append(pa.field(DATE, pa.date32()))
    return schema


def _fitted(reader: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """Give rows the columns of a table, in its order and with its types; missing ones are null."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            made = [_column(batch, field) for field in schema]
            yield pa.RecordBatch.from_arrays(made, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name in batch.schema.names:
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)
    if field.name == DATE and "recv_ts" in batch.schema.names:
        return pc.cast(batch.column("recv_ts").cast(pa.timestamp("us", "UTC")), pa.date32())
    return pa.nulls(batch.num_rows, field.type)
