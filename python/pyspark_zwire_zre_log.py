"""Entry of the format ``zre.log``: Spark imports modules with a name that begins with ``pyspark_``."""

from zwire.spark.sources._zwire import ZreLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
