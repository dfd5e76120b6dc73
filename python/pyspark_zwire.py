"""Entry of the format ``zwire``: Spark imports modules with a name that begins with ``pyspark_``."""

from zwire.spark.sources._zwire import ZwireDataSource as DefaultSource

__all__ = ["DefaultSource"]
