"""Tables of a pipeline over a spool of robots: samples, the newest level of each battery, losses."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from zwire.spark import declarative

spark = SparkSession.active()
SPOOL = spark.conf.get("robots.spool", "/var/spool/robots") or "/var/spool/robots"

declarative.table("samples", SPOOL, comment="all samples of robots, each once")
declarative.losses("losses", SPOOL)


@dp.materialized_view
def levels() -> DataFrame:
    """Return the newest level of each battery."""
    batteries = spark.read.table("samples").where("key like 'robot/%/battery' and kind = 'put'")
    newest = f.max_by(f.col("payload").cast("string").cast("double"), "recv_ts").alias("level")
    return batteries.groupBy("key").agg(newest)
