"""Entry of the format ``zwire.gaps``: Spark imports modules with a name that begins with ``pyspark_``."""

from zwire.spark.sources._zwire import GapsDataSource as DefaultSource

__all__ = ["DefaultSource"]
