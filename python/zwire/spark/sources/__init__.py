"""Data sources for Spark: the formats ``zwire``, ``zwire.pcap`` and others of ``spark.read.format``.

With ``zwire[spark]`` installed Spark finds them by itself, through the modules ``pyspark_zwire*`` beside this
package. :func:`register` registers them explicitly, for sessions that have searched before.
"""

from __future__ import annotations

import importlib
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


def register(spark: SparkSession) -> list[str]:
    """Register the formats of zwire with a session of Spark, classic or Connect.

    Only needed where Spark has not done it by itself: it searches once, at the first use of any format, so a
    session that read anything before zwire was installed does not know the formats.

    Returns:
        Names of the formats.
    """
    from pyspark.errors import AnalysisException

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
    return names
