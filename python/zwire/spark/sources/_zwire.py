"""The format ``zwire``: replies to queries, rows of spools, streams, or publications.

An option selects which; each is in a module of its own, loaded on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from zwire.errors import ConfigError
from zwire.spark.sources._options import Options, is_set

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

NAME = "zwire"


class ZwireDataSource(DataSource):
    """Zenoh as a table: see the guide for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of a read, and check its options."""
        if self._asks():
            from zwire.spark.sources import _get

            return _get.schema(self.options)
        if self._has_spool():
            from zwire.spark.sources import _tables

            return _tables.schema(self.options, NAME, "samples")
        raise self._undecided()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        if self._asks():
            from zwire.spark.sources import _get

            return _get.reader(self.options, schema)
        if self._has_spool():
            from zwire.spark.sources import _spool

            return _spool.reader(self.options, schema, NAME, "samples")
        raise self._undecided()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        from zwire.spark.sources import _stream

        return _stream.reader(self.options, schema, NAME, "samples")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        from zwire.spark.sources import _sink

        return _sink.writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return the writer of the batches of a stream."""
        from zwire.spark.sources import _sink

        return _sink.stream_writer(self.options, schema, overwrite=overwrite)

    def _asks(self) -> bool:
        return is_set(self.options, "selector", "selectors")

    def _has_spool(self) -> bool:
        return is_set(self.options, "spool", "spools", "path", "keyexprs", "keyexpr", "keys", "subscribe")

    def _undecided(self) -> ConfigError:
        from zwire.spark.sources import _get, _stream

        # The deciding option may be given, and misspelt.
        Options(NAME, self.options, (*_get.KNOWN, *_stream.known("samples")))
        return ConfigError(
            f"{NAME}: give selector (or selectors) or the folder of a spool to say what is read",
            path="selector",
        )
