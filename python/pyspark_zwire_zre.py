"""Where Spark finds the format ``zre``."""

from zwire.spark.sources._zwire import ZreDataSource as DefaultSource

__all__ = ["DefaultSource"]
