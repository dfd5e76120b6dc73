"""Scores the readings of robots in Spark, and sends each robot its scores, each reading once."""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import robots
from pyspark.sql import SparkSession

import zwire.spark
from zwire.idempotence import Filter
from zwire.spool import Spooler

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from zwire import zenoh

SCHEMA = "battery double, speed double, motor double"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--robots", type=int, default=5, help="default: %(default)s")
    options.add_argument(
        "--seconds", type=int, default=120, help="of what they measure; default: %(default)s"
    )
    options.add_argument(
        "--start", type=int, default=0, help="second in which their clocks begin; default: %(default)s"
    )
    options.add_argument(
        "--out", type=Path, default=Path("scoring-out"), help="spool and checkpoint; default: %(default)s"
    )
    return options.parse_args(arguments)


def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Score how unusual readings are. Runs in the workers; load a real model before the loop."""
    usual, spread = 42.5, 5.0
    for readings in frames:
        hot = (readings["motor"] - usual).abs() / spread
        weak = (0.2 - readings["battery"]).clip(lower=0) * 10
        readings["score"] = (hot + weak).round(3)
        yield readings


class Robot:
    """Receives its scores. A batch that Spark sends again after a failure passes once."""

    def __init__(self, session: zenoh.Session, name: str) -> None:
        self.name, self.scores, self.worst = name, 0, 0.0
        self._once, self._lock = Filter(), threading.Lock()
        self.subscriber = session.declare_subscriber(f"scores/{name}", self._heard)

    def _heard(self, sample: zenoh.Sample) -> None:
        with self._lock:
            if self._once.is_new(sample):
                self.scores += 1
                self.worst = max(self.worst, json.loads(sample.payload.to_bytes())["score"])

    @property
    def repeats(self) -> int:
        """Return the number of repeated scores."""
        return self._once.stats()["repeated"]


def score_all(spark: SparkSession, endpoint: str, spool: str, checkpoint: str) -> None:
    """Score the readings in the spool that are not scored yet."""
    stream = spark.readStream.format("zwire").option("spool", spool).option("startingOffsets", "earliest")
    readings = zwire.spark.decode_payload(stream.load().where("kind = 'put'"), SCHEMA, format="json")
    scored = (
        readings.where("error is null")
        .select("key", "shard", "offset", "battery", "motor")
        .mapInPandas(score, "key string, shard int, offset long, battery double, motor double, score double")
    )
    told = scored.selectExpr(
        "'scores/' || split(key, '/')[1] as key",
        "to_json(struct(score)) as payload",
        "'application/json' as encoding",
        "shard",
        "offset",
    )
    query = told.writeStream.format("zwire").option("endpoints", endpoint)
    # Shard and offset identify the reading of a score, also when the same batch is repeated.
    query = query.option("idempotence", "attachment").option("idColumns", "shard,offset")
    # A permanent job uses trigger(processingTime="1 second") instead.
    query.trigger(availableNow=True).start(checkpointLocation=checkpoint).awaitTermination()


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    """Let robots measure, score the readings, and print the scores they received."""
    out = options.out.absolute()
    spool, checkpoint = str(out / "spool"), str(out / "checkpoint")
    with robots.hub() as endpoint, robots.client(endpoint) as session:
        with Spooler(spool, "fleet/*/telemetry", session=session, shards=2) as spooler:
            spooler.ready(10)
            robots.publish(endpoint, robots.readings(options.robots, options.seconds, options.start))
            session.flush(10)
            spooler.flush()
        fleet = [Robot(session, f"robot-{number}") for number in range(options.robots)]
        for robot in fleet:
            robot.subscriber.wait_ready(10)
        score_all(spark, endpoint, spool, checkpoint)
        session.flush(10)
        for robot in fleet:
            print(f"{robot.name}: {robot.scores} scores, the worst {robot.worst}, {robot.repeats} came again")


if __name__ == "__main__":
    chosen = parse()
    builder = SparkSession.builder.appName("scoring").config("spark.sql.shuffle.partitions", "2")
    with builder.getOrCreate() as session:
        main(session, chosen)
