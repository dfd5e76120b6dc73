"""Data sources for Spark: the formats ``zwire``, ``zwire.pcap`` and others of ``spark.read.format``.

With ``zwire[spark]`` installed Spark finds them by itself, through the modules ``pyspark_zwire*`` beside this
package. :func:`register` registers them explicitly, for sessions that have searched before.
"""

from __future__ import annotations

import importlib
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["register"]

MODULES = (
    "pyspark_zwire",
    "pyspark_zwire_gaps",
    "pyspark_zwire_pcap",
    "pyspark_zwire_ros2",
    "pyspark_zwire_zre",
    "pyspark_zwire_zre_log",
)
"""Modules; each has the class of one format as ``DefaultSource``."""


class _Registration(NamedTuple):
    """The result of registering a session."""

    names: list[str]
    listener: StreamingQueryListener | None


_registered: weakref.WeakKeyDictionary[SparkSession, _Registration] = weakref.WeakKeyDictionary()
"""Sessions that know the formats by :func:`register`: a second registration draws a warning of Spark."""


def register(spark: SparkSession) -> list[str]:
    """Register the formats of zwire with a session of Spark, and make it active in the calling thread.

    Needed in three cases, the first in classic sessions and with Connect:

    - Spark searches for formats once, at the first use of any format. A session that read anything before
      zwire was installed does not know the formats.
    - A classic session looks for the format of ``df.write`` in the active session of the calling thread. A
      thread that Python has started has none, so each format in Python is ``DATA_SOURCE_NOT_FOUND`` there.
      Reads are not concerned. A pool of threads does it for each:
      ``ThreadPoolExecutor(4, initializer=register, initargs=(spark,))``.
    - A listener in a classic session commits each batch of a spool in a folder as soon as Spark has committed
      it. Otherwise the query does so at its next trigger.

    Returns:
        Names of the formats.
    """
    from pyspark.errors import AnalysisException

    # The public way to make a session active: all that Spark does for it happens in the driver.
    spark.createDataFrame([], "unused int")
    if spark in _registered:
        return list(_registered[spark].names)
    names = []
    for module in MODULES:
        source = importlib.import_module(module).DefaultSource
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # Spark 4.0 does not replace a format that it has found itself, which is the same one.
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
        names.append(str(source.name()))
    _registered[spark] = _Registration(names, _listen(spark))
    return list(names)


def _listen(spark: SparkSession) -> StreamingQueryListener | None:
    """Add the listener that commits batches; none with Connect.

    A listener of Connect has a thread that keeps a program from its end, and folders are those of the server.
    """
    if not hasattr(spark, "sparkContext"):
        return None
    from zwire.spark.sources._progress import Committer

    listener = Committer()
    spark.streams.addListener(listener)
    return listener
