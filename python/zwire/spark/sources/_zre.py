"""The format ``zre``: rows as shouts to groups, or whispers to peers, and events read from spools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.spark.sources._tables import SpoolTable

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


class ZreDataSource(SpoolTable):
    """A ZRE network, or a spool of one: see the guide for its options."""

    FORMAT = "zre"
    TABLE = "zre"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        from zwire.spark.sources import _zre_sink

        return _zre_sink.writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return the writer of the batches of a stream."""
        from zwire.spark.sources import _zre_sink

        return _zre_sink.stream_writer(self.options, schema, overwrite=overwrite)
