"""Where Spark finds the format ``zwire``: it imports each module whose name begins with ``pyspark_``."""

from zwire.spark.sources._zwire import ZwireDataSource as DefaultSource

__all__ = ["DefaultSource"]
