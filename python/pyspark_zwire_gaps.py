"""Where Spark finds the format ``zwire.gaps``: it imports each module whose name begins with ``pyspark_``."""

from zwire.spark.sources._gaps import GapsDataSource as DefaultSource

__all__ = ["DefaultSource"]
