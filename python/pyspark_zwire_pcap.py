"""Entry of the format ``zwire.pcap``: Spark imports modules with a name that begins with ``pyspark_``."""

from zwire.spark.sources._pcap import PcapDataSource as DefaultSource

__all__ = ["DefaultSource"]
