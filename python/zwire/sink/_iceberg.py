"""Apache Iceberg, by ``pyiceberg``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zwire._lazy import library, pa
from zwire.errors import ConfigError, NotSupported, SinkError
from zwire.sink._table import Compacted, LostRaceError, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zwire.sink._table import Rows

_MARK = "zwire.mark."
"""Prefix of the properties with the marks."""


class IcebergTable(Table):
    """A table of Apache Iceberg. Made by :func:`zwire.sink.iceberg`.

    A mark is a property of the table, set by the commit that appends the rows, and one of its snapshot.
    """

    FORMAT: ClassVar[str] = "iceberg"

    def __init__(
        self,
        name: str,
        *,
        catalog: str = "default",
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        library("pyiceberg", "iceberg")
        self._namespace, dot, _ = name.rpartition(".")
        if not dot or not self._namespace:
            raise ConfigError(f"table {name!r}: expected NAMESPACE.TABLE", path="name")
        super().__init__(name, partition_by)
        from pyiceberg import exceptions
        from pyiceberg.catalog import load_catalog

        self._errors: Any = exceptions
        with self.translating():
            self._catalog: Any = load_catalog(catalog, **(options or {}))
        self._table: Any = None

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        with self.translating():
            table = self._fresh()
            properties = {} if table is None else table.properties
            return {name: int(properties[_MARK + name]) for name in names if _MARK + name in properties}

    def to_arrow(self) -> pa.Table:
        with self.translating():
            return self._there().scan().to_arrow()

    def compact(self, target_bytes: int = 128 << 20) -> Compacted:  # noqa: ARG002 - of the interface
        raise NotSupported(
            f"{self.address}: PyIceberg rewrites no data files: call rewrite_data_files of Spark, or "
            "OPTIMIZE of Trino; commit batches of more rows to have fewer files"
        )

    def vacuum(self, older_than: float = 7 * 86400.0) -> int:
        import datetime as dt

        with self.translating():
            table = self._there()
            before = len(table.snapshots())
            moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=older_than)
            table.maintenance.expire_snapshots().older_than(moment).commit()
            return before - len(self._there().snapshots())

    def _fresh(self) -> Any:  # noqa: ANN401
        try:
            self._table = self._catalog.load_table(self.address)
        except (self._errors.NoSuchTableError, self._errors.NoSuchNamespaceError):
            self._table = None
        return self._table

    def _there(self) -> Any:  # noqa: ANN401
        table = self._fresh()
        if table is None:
            raise SinkError(f"{self.address}: the catalog has no such table", table=self.address)
        return table

    def _schema(self) -> pa.Schema | None:
        table = self._fresh()
        if table is None:
            return None
        if table.current_snapshot() is None and table.spec().is_unpartitioned() and self.partition_by:
            # Of a writer that was killed behind the creation of the table, or that was ours just now.
            with table.update_spec() as spec:
                for name in self.partition_by:
                    spec.add_identity(name)
            table = self._fresh()
        return table.schema().as_arrow()

    def _create(self, schema: pa.Schema) -> None:
        self._catalog.create_namespace_if_not_exists(self._namespace)
        self._catalog.create_table_if_not_exists(self.address, schema=schema)
        self._schema()

    def _append(self, rows: Rows, marks: Mapping[str, int]) -> None:
        table = self._table
        properties = {_MARK + name: str(number) for name, number in marks.items()}
        # A repeated attempt of the library would append the rows without a look at the marks.
        mine = {**table.metadata.properties, "commit.retry.num-retries": "0"}
        table.metadata = table.metadata.model_copy(update={"properties": mine})
        reader = rows()
        # The library streams into tables without partitions only.
        batch = reader if table.spec().is_unpartitioned() else reader.read_all()
        try:
            with table.transaction() as transaction:
                transaction.append(batch, snapshot_properties=properties)
                transaction.set_properties(properties)
        except self._errors.CommitFailedException as error:
            raise LostRaceError from error

    def _translated(self, error: Exception) -> Exception | None:
        kinds = (
            self._errors.RESTError,
            self._errors.ValidationError,
            self._errors.CommitStateUnknownException,
            self._errors.NoSuchTableError,
            OSError,
            pa.ArrowException,
        )
        # A catalog in a database has the errors of its driver.
        if isinstance(error, kinds) or type(error).__module__.startswith("sqlalchemy."):
            return SinkError(f"{self.address}: {error}", table=self.address)
        return None
