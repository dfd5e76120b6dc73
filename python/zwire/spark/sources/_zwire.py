"""The formats that read spools: ``zwire``, which also queries and publishes, its gaps, ``zre`` and its log.

An option selects what ``zwire`` does; each is in a module of its own, loaded on use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

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
        from zwire.spark.sources import _stream

        return _stream.schema(self.options, self.FORMAT, self.TABLE)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from zwire.spark.sources import _spool

        return _spool.reader(self.options, schema, self.FORMAT, self.TABLE)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        from zwire.spark.sources import _stream

        return _stream.SpoolStreamReader(self.options, schema, self.FORMAT, self.TABLE)


class Network(SpoolTable):
    """A network to which rows are sent, and spools of it."""

    SINK: ClassVar[str]
    """Name of the module with the writers."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        made: DataSourceWriter = self._sink().writer(self.options, schema, overwrite=overwrite)
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return the writer of the batches of a stream."""
        made: DataSourceStreamWriter = self._sink().stream_writer(self.options, schema, overwrite=overwrite)
        return made

    def _sink(self) -> Any:  # noqa: ANN401 - a module
        return import_module(f"zwire.spark.sources.{self.SINK}")


class GapsDataSource(SpoolTable):
    """The losses noted by the writers of spools: see the guide for its options."""

    FORMAT, TABLE = "zwire.gaps", "gaps"


class ZreDataSource(Network):
    """A ZRE network, or a spool of one: see the guide for its options."""

    FORMAT, TABLE, SINK = "zre", "zre", "_zre_sink"


class ZreLogDataSource(SpoolTable):
    """A spool of ZRE/LOG: see the guide for its options."""

    FORMAT, TABLE = "zre.log", "zre.log"


class ZwireDataSource(Network):
    """Zenoh as a table: see the guide for its options."""

    FORMAT, TABLE, SINK = "zwire", "samples", "_sink"

    def schema(self) -> StructType:
        """Return the columns of a read, and check its options."""
        if self._asks():
            from zwire.spark.sources import _get

            return _get.schema(self.options)
        return super().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        if self._asks():
            from zwire.spark.sources import _get

            return _get.reader(self.options, schema)
        return super().reader(schema)

    def _asks(self) -> bool:
        """Whether selectors are given; an error if there is no spool either."""
        if is_set(self.options, "selector", "selectors"):
            return True
        if is_set(self.options, "spool", "spools", "path", "keyexprs", "keyexpr", "keys", "subscribe"):
            return False
        from zwire.spark.sources import _get, _stream

        # The deciding option may be given, and misspelt.
        Options(self.FORMAT, self.options, (*_get.KNOWN, *_stream.known("samples")))
        problem = f"{self.FORMAT}: give selector (or selectors) or the folder of a spool to say what is read"
        raise ConfigError(problem, path="selector")
