"""Where Spark finds the format ``zre``."""

from zwire.spark.sources._zre import ZreDataSource as DefaultSource

__all__ = ["DefaultSource"]
