"""The Spark job: read the tier, decode the capture of the hub, query the fleet, publish the results."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

import zwire.spark as zs
from zwire.demo.counts import Tally
from zwire.errors import TimedOut, ZwireError
from zwire.spark._types import f

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from zwire.demo.counts import Tallies

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.python.unix.domain.socket.enabled": "true",
    # A short job: starting to compile well takes longer than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

_START = 60.0
"""Seconds for a JVM and a session to start; five are usual."""


class Decoded(NamedTuple):
    """The contents of the capture."""

    messages: int
    into_hub: Tallies
    out_of_hub: Tallies
    problems: list[str]


class Answers(NamedTuple):
    """The answers of the fleet."""

    rows: int
    problems: list[str]


class Published(NamedTuple):
    """Counts of the published rows."""

    rows: int
    partitions: int


class Job:
    """A Spark session, and the steps of the job, in their order. A context manager."""

    spark: SparkSession
    """The session, once :meth:`start` has returned."""

    _messages: DataFrame
    _answers: DataFrame

    def __init__(self, endpoint: str, *, temporary: Path, log: Path) -> None:
        self.endpoint = endpoint
        self._temporary = temporary
        self._log = log
        self._starting: _Starting | None = None

    def start(self) -> None:
        """Start the session, and wait for it."""
        self._starting = _start(self._temporary, self._log)
        self.spark = self._starting.wait(_START)

    @property
    def version(self) -> str:
        """Version of Spark."""
        return self.spark.version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._starting is None:
            return
        # A JVM left alone while it starts never exits: it waits to report its port.
        self._starting.stop()
        _check(error, self._log)

    def tier(self, folder: Path) -> Tallies:
        """Count the fleet's messages that the tier of a spool has."""
        rows = self.spark.read.format("zwire").option("columns", "key,attachment").load(f"file://{folder}")
        parts = f.split("key", "/")
        counted = (
            rows.groupBy(parts[1].cast("int").alias("process"), parts[3].alias("kind"))
            .agg(f.count("*").alias("messages"), f.countDistinct("attachment").alias("different"))
            .collect()
        )
        return {(row.process, row.kind): Tally(row.messages, row.different) for row in counted}

    def decode(self, capture: Path, receivers: int = 1) -> Decoded:
        """Decode the capture, and count the fleet's messages into the hub, and out of it to each receiver."""
        columns = ["ts", "src", "dst", "message", "key", "payload", "attachment", "error"]
        hub = self.endpoint.removeprefix("tcp/")
        # mapInArrow; everything behind it is plain Spark.
        rows = zs.decode(zs.captures(self.spark, capture), "path", columns=columns)
        parts = f.split("key", "/")
        kind = f.try_element_at(parts, f.lit(4))
        self._messages = (
            rows.where("message = 'error' or (message = 'push' and key like 'fleet/%')")
            .select(
                "ts",
                "src",
                "dst",
                "error",
                f.when(f.col("dst") == hub, "into").when(f.col("src") == hub, "out of").alias("way"),
                f.try_element_at(parts, f.lit(2)).cast("int").alias("process"),
                f.try_element_at(parts, f.lit(3)).alias("robot"),
                kind.alias("kind"),
                f.conv(f.hex("attachment"), 16, 10).cast("bigint").alias("number"),
                f.length("payload").alias("bytes"),
                f.when(kind != "image", f.col("payload").cast("string")).alias("text"),
            )
            .persist()
        )
        fleet = self._messages.where("error is null")
        counted = (
            fleet.groupBy(
                "way", f.when(f.col("way") == "out of", f.col("dst")).alias("to"), "process", "kind"
            )
            .agg(f.count("*").alias("messages"), f.countDistinct("number").alias("different"))
            .collect()
        )
        # The capture grows while it is read; a message cut off at its end is not one of the fleet.
        links = fleet.select("src", "dst").distinct()
        errors = self._messages.where("error is not null").join(links, ["src", "dst"], "left_semi").collect()
        problems = [f"the capture, {row.src} > {row.dst}: {row.error}" for row in errors]
        messages = sum(row.messages for row in counted)
        ends = {row.to for row in counted if row.way == "out of"}
        if len(ends) != receivers:
            problems.append(f"the hub has sent to {len(ends)} subscribers, and there are {receivers}")
        # Of the receiver that got least: the same as of the others, if nothing was lost.
        out = min(
            (_tallies([row for row in counted if row.to == end], "out of") for end in sorted(ends)),
            key=lambda tallies: sum(tally.messages for tally in tallies.values()),
            default={},
        )
        return Decoded(messages, _tallies(counted, "into"), out, problems)

    def ask(self, processes: int, robots: int) -> Answers:
        """Query each robot for its status, from the partitions of an RDD."""
        selectors = [
            f"fleet/{process}/robot-{robot}/status" for process in range(processes) for robot in range(robots)
        ]
        asked = self.spark.sparkContext.parallelize(selectors, 2)
        replies = asked.mapPartitions(zs.get_partition(self.endpoint)).collect()
        kinds = "x double, y double, battery double, sent bigint"
        status = f.from_json(f.col("payload").cast("string"), kinds)
        self._answers = (
            self.spark.createDataFrame(replies, zs.schema.REPLY.ddl)
            .where("error is null")
            .select(
                f.split("key", "/")[1].cast("int").alias("process"),
                f.split("key", "/")[2].alias("robot"),
                status.alias("status"),
            )
        )
        wrong = [f"a query: {reply.error}" for reply in replies if reply.error is not None]
        # Every other process answers.
        expected = robots * ((processes + 1) // 2)
        if len(replies) != expected:
            wrong.append(f"{len(replies)} answers, and {expected} robots that answer")
        return Answers(len(replies), wrong)

    def publish(self) -> Published:
        """Sum up the messages of each robot, compare the sum with its answer, and publish it."""
        from pyspark.sql import Window

        place = f.from_json("text", "x double, y double")
        by_robot = Window.partitionBy("process", "robot", "kind").orderBy("number")
        messages = (
            self._messages.where("way = 'into' and error is null")
            .withColumn("place", f.when(f.col("kind") == "position", place))
            .withColumn("before", f.lag("place").over(by_robot))
        )
        step = f.hypot(f.col("place.x") - f.col("before.x"), f.col("place.y") - f.col("before.y"))

        def of(kind: str, column: str) -> Column:
            return f.when(f.col("kind") == kind, f.col(column))

        found = messages.groupBy("process", "robot").agg(
            *(f.count_if(f.col("kind") == kind).alias(kind) for kind in ("position", "battery", "image")),
            f.coalesce(f.sum(step), f.lit(0.0)).alias("metres"),
            f.max_by("place", of("position", "number")).alias("place"),
            f.max_by("text", of("battery", "number")).cast("double").alias("charge"),
            f.coalesce(f.sum(of("image", "bytes")), f.lit(0)).alias("image_bytes"),
        )
        agrees = (
            (f.col("status.x") == f.col("place.x"))
            & (f.col("status.y") == f.col("place.y"))
            & (f.col("status.sent") == f.col("position") + f.col("battery") + f.col("image"))
        )
        result = f.struct(
            "position", "battery", "image", "metres", "place", "charge", "image_bytes", agrees.alias("agrees")
        )
        results = found.join(self._answers, ["process", "robot"], "left").select(
            f.concat_ws("/", f.lit("result"), f.col("process"), f.col("robot")).alias("key"),
            f.to_json(result).alias("payload"),
            f.lit("application/json").alias("encoding"),
        )
        summary = [row for row in zs.put(results.repartition(2, "key"), self.endpoint).collect() if row.rows]
        return Published(sum(row.rows for row in summary), len(summary))

    def tracks(self) -> list[Row]:
        """Return the positions of each robot in order, at most a hundred or so of each."""
        place = f.from_json("text", "x double, y double")
        return (
            self._messages.where("way = 'into' and kind = 'position'")
            .select("process", "robot", "number", place.alias("place"))
            .groupBy("process", "robot")
            .agg(f.sort_array(f.collect_list(f.struct("number", "place.x", "place.y"))).alias("places"))
            .orderBy("process", "robot")
            .collect()
        )

    def rates(self) -> list[Row]:
        """Return bytes and messages of each kind in each tenth of a second, on their way into the hub."""
        return (
            self._messages.where("way = 'into' and error is null")
            .groupBy(f.floor(f.col("ts").cast("double") * 10).alias("tenth"), "kind")
            .agg(f.count("*").alias("messages"), f.sum("bytes").alias("bytes"))
            .orderBy("tenth")
            .collect()
        )


def _tallies(rows: list[Row], way: str) -> Tallies:
    return {(row.process, row.kind): Tally(row.messages, row.different) for row in rows if row.way == way}


def _check(error: BaseException | None, log: Path) -> None:
    """Raise an error of Spark anew, with its first line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException | Py4JError):
        line = str(error).strip().partition("\n")[0]
        raise ZwireError(f"Spark has failed, more is in {log}: {line}") from error


def _start(temporary: Path, log: Path) -> _Starting:
    # A Spark of the system would not match the installed pyspark, nor a Python of the system this one.
    os.environ.pop("SPARK_HOME", None)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("zwire demo")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(temporary / "warehouse"))
    builder = builder.config("spark.local.dir", str(temporary / "local"))
    return _Starting(builder, log)


class _Starting:
    """A session started in a thread, so that a signal ends the wait for it and not the start."""

    def __init__(self, builder: SparkSession.Builder, log: Path) -> None:
        self._builder = builder
        self._log = log
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        # Not Thread.join: one that a signal interrupts takes the thread for ended from then on.
        self._done = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with _stderr_to(self._log):
                self._session = self._builder.getOrCreate()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._error = error
        finally:
            self._done.set()

    def wait(self, seconds: float) -> SparkSession:
        self._done.wait(seconds)
        if self._error is not None:
            raise self._error
        if self._session is None:
            raise TimedOut(f"Spark has not started within {seconds:g} s", seconds=seconds)
        return self._session

    def stop(self) -> None:
        """Stop the session, as soon as it has started."""
        self._done.wait(_START)
        if self._session is not None:
            self._session.stop()


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect the standard error of processes started meanwhile, and of their children, to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
