"""Where Spark finds the format ``zwire.pcap``: it imports each module whose name begins with ``pyspark_``."""

from zwire.spark.sources._pcap import PcapDataSource as DefaultSource

__all__ = ["DefaultSource"]
