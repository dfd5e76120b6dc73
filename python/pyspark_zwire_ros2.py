"""Entry of the format ``zwire.ros2``: Spark imports modules with a name that begins with ``pyspark_``."""

from zwire.spark.sources._ros2 import Ros2DataSource as DefaultSource

__all__ = ["DefaultSource"]
