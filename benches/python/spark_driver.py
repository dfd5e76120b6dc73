"""The driver of the Spark jobs, and the functions imported by its workers."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.decode import bulk, many
from python.roles import QUERY

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 100
# The spool has several times the rows of the other jobs, so that the fixed cost of a job does not dominate.
KEPT = 4
COLUMNS = "ts,key,payload"


def count_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Take every batch and yield one row."""
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def count_rows(rows: Iterator[Any]) -> Iterator[int]:
    """Take every element and yield their number."""
    yield sum(1 for _ in rows)


def count_in_batches(batches: Iterator[Any]) -> Iterator[int]:
    """Take every batch and yield the number of rows."""
    yield sum(len(batch) for batch in batches)


class Tuples:
    """Rows made in Python."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size

    def __call__(self, _: Iterator[Any]) -> Iterator[tuple[str, bytes]]:
        payload = bytes(self.size)
        return ((f"fleet/{row % KEYS:03}/status", payload) for row in range(self.rows))


def counting_source() -> type[Any]:
    """A data source with a writer that takes every batch and discards it."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            self.rows = sum(batch.num_rows for batch in iterator)
            return WriterCommitMessage()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
            return Writer()

    return Source


class Opening:
    """Opens the session of a worker and closes it, repeatedly."""

    def __init__(self, hub: str, times: int) -> None:
        self.hub, self.times = hub, times

    def __call__(self, _: Iterator[Any]) -> Iterator[list[float]]:
        from zwire.spark import close_sessions, session

        taken = []
        for _ in range(1 + self.times):
            begin = time.perf_counter()
            session(self.hub)
            taken.append(time.perf_counter() - begin)
            close_sessions()
        yield taken[1:]


class Driver:
    """A Spark session on two cores, and the jobs to measure."""

    def __init__(self, hub: str, *, sockets: bool = True, memory: str = "2g") -> None:
        from pyspark.sql import SparkSession

        self.hub = hub
        self.scratch = tempfile.TemporaryDirectory(prefix="zwire-bench-")
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # The workers import this module.
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        builder = SparkSession.builder.master("local[2]").appName("zwire bench")
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.memory": memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={self._quiet().as_uri()}",
            "spark.python.unix.domain.socket.enabled": str(sockets).lower(),
            # The rows of each batch are summed up at the end.
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.sql.warehouse.dir": self.scratch.name,
            "spark.local.dir": self.scratch.name,
        }.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.dataSource.register(counting_source())

    def _quiet(self) -> Path:
        """Settings of a log without the first lines of every session."""
        path = Path(self.scratch.name) / "log4j2.properties"
        lines = ["rootLogger.level=error", "rootLogger.appenderRef.stderr.ref=stderr"]
        lines += [
            "appender.stderr.type=Console",
            "appender.stderr.name=stderr",
            "appender.stderr.target=SYSTEM_ERR",
        ]
        lines += [
            "appender.stderr.layout.type=PatternLayout",
            "appender.stderr.layout.pattern=%p %c: %m%n%ex",
        ]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    def close(self) -> None:
        self.spark.stop()
        with contextlib.suppress(OSError):
            self.scratch.cleanup()

    def prepare(self, rows: int, size: int, asked: int, copies: int) -> None:
        """Make the input and keep it in the memory of the JVM."""
        from pyspark.sql import functions as f

        from zwire.spark import batches

        self.rows = rows
        key = f.format_string("fleet/%03d/status", f.col("id") % KEYS)
        payload = f.unhex(f.lit("a5" * size))
        self.frame = (
            self.spark.range(0, rows, 1, 2).select(key.alias("key"), payload.alias("payload")).cache()
        )
        self.asked = self.spark.range(0, asked, 1, 2).select(f.lit(QUERY).alias("key")).cache()
        context = self.spark.sparkContext
        self.tuples = context.parallelize(range(2), 2).mapPartitions(Tuples(rows // 2, size)).cache()
        self.batches = batches(self.tuples).cache()
        for made in (self.frame, self.asked, self.tuples, self.batches):
            made.count()
        self._prepare_captures(copies)
        self._prepare_spool(KEPT * rows, size)

    def _prepare_captures(self, copies: int) -> None:
        """Write captures, and a source that yields their rows without decoding."""
        import pyarrow as pa

        from zwire.capture import decode

        folder = Path(self.scratch.name) / "captures"
        folder.mkdir()
        for name in ("a", "b"):
            (folder / f"{name}.pcap").write_bytes(many(bulk(), copies=copies))
        self.captures = self.spark.read.format("zwire.pcap").option("columns", COLUMNS).load(str(folder))
        table = pa.Table.from_batches([pa.record_batch(each) for each in decode(bulk())])
        path = Path(self.scratch.name) / "prepared.arrow"
        with pa.ipc.new_file(str(path), table.select(COLUMNS.split(",")).schema) as file:
            file.write_table(table.select(COLUMNS.split(",")), max_chunksize=32_768)
        self.captured_rows = 2 * copies * table.num_rows
        self.spark.dataSource.register(prepared())
        reader = self.spark.read.format("prepared").option("copies", copies)
        self.prepared = reader.schema("ts timestamp, key string, payload binary").load(str(path))

    def _prepare_spool(self, rows: int, size: int) -> None:
        """Fill a spool of two shards, and an Arrow file with the columns that a task reads of it."""
        import pyarrow as pa

        from zwire import spool

        self.kept_count = rows
        folder, path = Path(self.scratch.name) / "spool", Path(self.scratch.name) / "spooled.arrow"
        piece = 10_000
        keys = [f"fleet/{row % KEYS:03}/status" for row in range(piece)]
        batch = pa.RecordBatch.from_pydict({"key": keys, "payload": [bytes(size)] * piece})
        with spool.Appender(folder, shards=2) as appender:
            for number in range(rows // piece):
                appender.append_batch(batch, shard=number % 2)
        self.spool = str(folder)
        self.kept = self.spark.read.format("zwire").load(self.spool)
        view = spool.open(folder)
        with pa.ipc.new_file(str(path), pa.schema(view.read(0, 0, 0, columns=self.kept.columns))) as file:
            for each in view.read(0, 0, view.end()[0], columns=self.kept.columns):
                file.write_batch(pa.record_batch(each))
        reader = self.spark.read.format("prepared").option("copies", 1)
        self.spooled = reader.schema(self.kept.schema).load(str(path))

    def captured(self) -> int:
        """Number of rows in the captures."""
        return self.captured_rows

    def kept_rows(self) -> int:
        """Number of rows in the spool."""
        return self.kept_count

    def opening(self, times: int) -> list[float]:
        """Seconds that a worker takes to open its session again."""
        one = self.spark.sparkContext.parallelize([0], 1)
        return list(*one.mapPartitions(Opening(self.hub, times)).collect())

    def _pcap_ceiling(self) -> tuple[int, int]:
        return _read(self.prepared), 0

    def _pcap(self) -> tuple[int, int]:
        return _read(self.captures), 0

    def _kept_ceiling(self) -> tuple[int, int]:
        return _read(self.spooled), 0

    def _kept(self) -> tuple[int, int]:
        return _read(self.kept), 0

    def _followed_ceiling(self) -> tuple[int, int]:
        self.spooled.write.format("noop").mode("overwrite").save()
        return self.kept_count, 0

    def _followed(self) -> tuple[int, int, float]:
        return self._follow("noop")

    def _stored_ceiling(self) -> tuple[int, int]:
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            self.spooled.write.parquet(f"{folder}/out")
        return self.kept_count, 0

    def _stored(self) -> tuple[int, int, float]:
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            done = self._follow("parquet", path=f"{folder}/out")
            # What was written is what Spark reads of it.
            return self.spark.read.parquet(f"{folder}/out").count(), *done[1:]

    def stream(self, folder: str, **options: str) -> Any:
        """Return the rows of a spool as a stream, from the first one on."""
        stream = self.spark.readStream.format("zwire").option("spool", folder)
        return stream.option("startingOffsets", "earliest").options(**options).load()

    def _follow(self, sink: str, **options: str) -> tuple[int, int, float]:
        checkpoint = tempfile.mkdtemp(dir=self.scratch.name)
        writer = self.stream(self.spool).writeStream.format(sink).options(**options)
        query = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
        query.awaitTermination(60)
        done = [each for each in query.recentProgress if each["numInputRows"]]
        # Of the batches only: a query is started once and runs for months.
        seconds = sum(each["durationMs"]["triggerExecution"] for each in done) / 1000
        return sum(each["numInputRows"] for each in done), 0, seconds

    def run(self, job: str) -> dict[str, Any]:
        """Rows in, rows dropped, and the seconds of the whole job, or those that it reports."""
        begin = time.perf_counter()
        rows, dropped, *seconds = getattr(self, f"_{job}")()
        taken = seconds[0] if seconds else time.perf_counter() - begin
        return {"rows": rows, "dropped": dropped, "seconds": taken}

    def _put_ceiling(self) -> tuple[int, int]:
        return sum(row.rows for row in self.frame.mapInArrow(count_batches, "rows bigint").collect()), 0

    _put_taken_ceiling = _put_ceiling

    def _put(self) -> tuple[int, int]:
        from zwire.spark import put

        return _sums(put(self.frame, self.hub).collect())

    def _sink_ceiling(self) -> tuple[int, int]:
        self.frame.write.format("counting").mode("append").save()
        return self.rows, 0

    _sink_marked_ceiling = _sink_ceiling

    def _sink(self, **options: str) -> tuple[int, int]:
        # Losses show in the counters of the hub.
        self.frame.write.format("zwire").mode("append").save(endpoints=self.hub, **options)
        return self.rows, 0

    def _sink_marked(self) -> tuple[int, int]:
        return self._sink(idempotence="attachment")

    def _put_partition_ceiling(self) -> tuple[int, int]:
        return sum(self.tuples.mapPartitions(count_rows).collect()), 0

    def _put_partition(self) -> tuple[int, int]:
        from zwire.spark import put_partition

        return _sums(self.tuples.mapPartitions(put_partition(self.hub)).collect())

    def _put_batches_ceiling(self) -> tuple[int, int]:
        return sum(self.batches.mapPartitions(count_in_batches).collect()), 0

    def _put_batches(self) -> tuple[int, int]:
        from zwire.spark import put_partition

        return _sums(self.batches.mapPartitions(put_partition(self.hub)).collect())

    def _get_ceiling(self) -> tuple[int, int]:
        return sum(row.rows for row in self.asked.mapInArrow(count_batches, "rows bigint").collect()), 0

    def _get(self) -> tuple[int, int]:
        from zwire.spark import get

        replies = get(self.asked, "key", self.hub, prefix="reply_")
        wrong = "count_if(reply_error is not null or reply_payload is null)"
        row = replies.selectExpr("count(*) as rows", f"{wrong} as wrong").first()
        return row.rows, row.wrong


def _read(frame: Any) -> int:
    row = frame.selectExpr("count(*) as rows", "sum(length(payload)) as octets").first()
    return int(row.rows) if row.octets else 0


def prepared() -> Any:
    """A data source of two partitions, each with the batches of a file, repeated."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, options: dict[str, str]) -> None:
            self.path, self.copies = options["path"], int(options["copies"])

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0), InputPartition(1)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            with pa.ipc.open_file(self.path) as file:
                batches = [file.get_batch(number) for number in range(file.num_record_batches)]
            for _ in range(self.copies):
                yield from batches

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "prepared"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(dict(self.options))

    return Source


def _sums(summaries: list[Any]) -> tuple[int, int]:
    return sum(row.rows for row in summaries), sum(row.dropped for row in summaries)
