"""Rows of spools in tables of Delta Lake, Apache Iceberg and Parquet, each row once.

::

    from zwire import sink

    table = sink.delta("/lake/robots", partition_by=["date"])
    sink.run("/var/spool/robots", table)

A batch of rows and the position in the spool are one transaction of the table, so that a sink which is killed
at any moment continues without a row that is missing or there twice. :meth:`Table.write` does the same for
the batches of Spark, by their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.sink._sink import Batch, Sink, SinkOptions, SinkStats, run
from zwire.sink._table import Compacted, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from zwire.sink._parquet import ParquetTable

__all__ = [
    "Batch",
    "Compacted",
    "Sink",
    "SinkOptions",
    "SinkStats",
    "Table",
    "delta",
    "iceberg",
    "parquet",
    "run",
]


def delta(
    url: str | PathLike[str],
    *,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Table:
    """Return a table of Delta Lake, which the first batch creates.

    Args:
        url: Its folder, or an address such as ``s3://bucket/prefix``.
        partition_by: Columns of partitions; ``date`` is the day of ``recv_ts`` in UTC.
        options: Options of the store, as ``storage_options`` of ``deltalake``.

    Raises:
        ImportError: ``deltalake`` is missing (``zwire[delta]``).
    """
    from zwire.sink._delta import DeltaTable

    return DeltaTable(url, partition_by=partition_by, options=options)


def iceberg(
    name: str,
    *,
    catalog: str = "default",
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Table:
    """Return a table of Apache Iceberg, which the first batch creates.

    Args:
        name: Namespace and table, with a dot between.
        catalog: Name of the catalog in the configuration of PyIceberg.
        partition_by: Columns of partitions; ``date`` is the day of ``recv_ts`` in UTC.
        options: Properties of the catalog, besides those of the configuration.

    Raises:
        ImportError: ``pyiceberg`` is missing (``zwire[iceberg]``).
        ConfigError: The name has no namespace.
    """
    from zwire.sink._iceberg import IcebergTable

    return IcebergTable(name, catalog=catalog, partition_by=partition_by, options=options)


def parquet(
    url: str | PathLike[str],
    *,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    compression: str = "zstd",
) -> ParquetTable:
    """Return a table of Parquet files with a log of commits, which the first batch creates.

    Args:
        url: Its folder, or an address such as ``s3://bucket/prefix``, which needs ``zwire[parquet]``.
        partition_by: Columns of partitions, as levels of folders; ``date`` is the day of ``recv_ts`` in UTC.
        options: Options of the store, as ``config`` of ``obstore``.
        compression: Compression of the files, as of pyarrow.
    """
    from zwire.sink._parquet import ParquetTable

    return ParquetTable(url, partition_by=partition_by, options=options, compression=compression)
