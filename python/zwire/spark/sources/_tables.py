"""Base of the formats that read a table of a spool."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from zwire.spark.sources._options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


def schema(given: Mapping[str, str], source: str, table: str) -> StructType:
    """Check the options of a batch or a stream, and return the columns that they ask for."""
    from zwire.spark.sources._logs import TABLES, columns_of
    from zwire.spark.sources._spool import BATCH, check_batch, columns, open_all
    from zwire.spark.sources._stream import check_stream, known

    # Whether it will be a batch or a stream is not known here.
    options = Options(source, given, (*BATCH, *known(table)))
    check_stream(options, table)
    if table == "samples" and "keyexprs" in options:
        # A spool may not exist yet; a later one has all columns.
        return columns(options, table, columns_of(TABLES[table])).spark()
    logs = open_all(options, table)
    check_batch(options, logs)
    return columns(options, table, logs.columns(), several=len(logs.by_id) > 1).spark()


class SpoolTable(DataSource):
    """A table of spools, as batch and as stream."""

    FORMAT: ClassVar[str]
    TABLE: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.FORMAT

    def schema(self) -> StructType:
        """Return the columns of a read, and check its options."""
        return schema(self.options, self.FORMAT, self.TABLE)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from zwire.spark.sources import _spool

        return _spool.reader(self.options, schema, self.FORMAT, self.TABLE)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        from zwire.spark.sources import _stream

        return _stream.reader(self.options, schema, self.FORMAT, self.TABLE)
