"""Data sources for Spark: the formats ``zwire``, ``zwire.pcap`` and others of ``spark.read.format``.

With ``zwire[spark]`` installed Spark finds them by itself, through the modules ``pyspark_zwire*`` beside this
package. :func:`register` registers them explicitly, for sessions that have searched before.
"""

from __future__ import annotations

import importlib
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

MODULES = (
    "pyspark_zwire",
    "pyspark_zwire_gaps",
    "pyspark_zwire_pcap",
    "pyspark_zwire_zre",
    "pyspark_zwire_zre_log",
)
"""Modules; each has the class of one format as ``DefaultSource``."""


_registered: weakref.WeakKeyDictionary[SparkSession, list[str]] = weakref.WeakKeyDictionary()
"""Sessions that know the formats by :func:`register`: a second registration draws a warning of Spark."""


def register(spark: SparkSession) -> list[str]:
    """Register the formats of zwire with a session of Spark, and make it active in the calling thread.

    Needed in two cases, in classic sessions and with Connect:

    - Spark searches for formats once, at the first use of any format. A session that read anything before
      zwire was installed does not know the formats.
    - A classic session looks for the format of ``df.write`` in the active session of the calling thread. A
      thread that Python has started has none, so each format in Python is ``DATA_SOURCE_NOT_FOUND`` there.
      Reads are not concerned. A pool of threads does it for each:
      ``ThreadPoolExecutor(4, initializer=register, initargs=(spark,))``.

    Returns:
        Names of the formats.
    """
    from pyspark.errors import AnalysisException

    # The public way to make a session active: all that Spark does for it happens in the driver.
    spark.createDataFrame([], "unused int")
    if spark in _registered:
        return list(_registered[spark])
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
    _registered[spark] = names
    return list(names)
