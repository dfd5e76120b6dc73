"""Zenoh 1.x and ZRE from one Rust core.

``zwire.zenoh`` holds sessions and values, ``zwire.config`` their configuration, ``zwire.errors`` what they
raise; ``zwire.capture`` reads captured traffic, ``zwire.spark`` runs in Spark. Importing them starts no
thread and loads neither pyarrow nor pyspark.
"""

from zwire._zwire import __version__
from zwire.capture import decode

__all__ = ["__version__", "decode"]
