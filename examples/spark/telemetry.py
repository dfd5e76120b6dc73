"""Telemetry of robots as Parquet: kept by a spool, averaged over windows of a minute, each reading once.

A second run, with `--start 600`, continues where the first one has ended.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import robots
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import zwire.spark
from zwire.spool import Spooler

SCHEMA = "at timestamp, battery double, speed double"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--connect", metavar="ENDPOINT", help="a hub such as tcp/10.0.0.7:7447, instead of robots here"
    )
    options.add_argument("--key", default="fleet/*/telemetry", help="default: %(default)s")
    options.add_argument(
        "--seconds", type=int, default=600, help="how long robots are listened to; those here are faster"
    )
    options.add_argument(
        "--robots", type=int, default=5, help="how many there are here; default: %(default)s"
    )
    options.add_argument(
        "--start", type=int, default=0, help="second in which their clocks begin; default: %(default)s"
    )
    options.add_argument("--out", type=Path, default=Path("telemetry-out"), help="default: %(default)s")
    return options.parse_args(arguments)


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    """Receive, and write the completed windows."""
    out = options.out.absolute()
    kept, windows, checkpoint = (str(out / name) for name in ("spool", "windows", "checkpoint"))

    # In production this is a process of its own beside the robots or the hub: `zwire spool`.
    with (
        robots.hub(options.connect) as endpoint,
        robots.client(endpoint) as session,
        Spooler(kept, options.key, session=session, shards=2) as spooler,
    ):
        spooler.ready(10)
        if options.connect:
            time.sleep(options.seconds)
        else:
            robots.publish(endpoint, robots.readings(options.robots, options.seconds, options.start))
        session.flush(10)
        spooler.flush()

    stream = spark.readStream.format("zwire").option("spool", kept).option("startingOffsets", "earliest")
    readings = zwire.spark.decode_payload(stream.load().where("kind = 'put'"), SCHEMA, format="json")
    minutes = (
        readings.where("error is null")
        .withWatermark("at", "2 minutes")
        .groupBy(f.window("at", "1 minute").alias("minute"), "key")
        .agg(f.count("*").alias("readings"), f.avg("speed").alias("speed"), f.min("battery").alias("battery"))
        .select("minute.start", "key", "readings", "speed", "battery")
    )
    # A permanent job uses trigger(processingTime="10 seconds") instead.
    query = minutes.writeStream.format("parquet").trigger(availableNow=True)
    query.start(windows, checkpointLocation=checkpoint).awaitTermination()

    done = spark.read.parquet(windows)
    done.orderBy("key", "start").show(12, truncate=False)
    total = spark.read.format("zwire").load(kept).count()
    ended = sum(row["readings"] for row in done.select("readings").collect())
    print(f"{total} readings: {ended} in {done.count()} windows that are over, {total - ended} in others")
    lost = spark.read.format("zwire.gaps").load(kept).where("kind != 'epoch'").count()
    print(f"{lost} rows in zwire.gaps")


if __name__ == "__main__":
    chosen = parse()
    builder = SparkSession.builder.appName("telemetry").config("spark.sql.shuffle.partitions", "2")
    with builder.getOrCreate() as session:
        main(session, chosen)
