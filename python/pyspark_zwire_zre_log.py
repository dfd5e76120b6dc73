"""Where Spark finds the format ``zre.log``: it imports each module whose name begins with ``pyspark_``."""

from zwire.spark.sources._zre_log import ZreLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
