"""The format ``zre``: rows as shouts to groups, or whispers to peers, of a ZRE network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

NAME = "zre"


class ZreDataSource(DataSource):
    """A ZRE network: see the guide for its options."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Give what tells a DataFrame."""
        from zwire.spark.sources import _zre_sink

        return _zre_sink.writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Give what tells the batches of a stream."""
        from zwire.spark.sources import _zre_sink

        return _zre_sink.stream_writer(self.options, schema, overwrite=overwrite)
