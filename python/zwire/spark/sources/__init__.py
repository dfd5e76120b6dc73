"""Data sources for Spark: what ``spark.read.format("zwire")`` and the like find.

With ``zwire[spark]`` installed Spark finds them by itself, through the modules ``pyspark_zwire*`` beside this
package. :func:`register` does the same by hand, for sessions that have looked before.
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
"""Each has the class of one format as ``DefaultSource``."""


def register(spark: SparkSession) -> list[str]:
    """Register the formats of zwire with a session of Spark, classic or Connect.

    Only needed where Spark has not done it by itself: it looks once, at the first use of any format, so a
    session that has read something before zwire was installed knows nothing of it.

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
            # Spark 4.0 does not replace what it has found itself, and that is the same.
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
        names.append(str(source.name()))
    return names
