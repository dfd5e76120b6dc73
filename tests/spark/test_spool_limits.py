"""Streams of spools in Spark that have nothing to do, and streams that come too late."""

import os
import time

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQueryListener

from zwire import spool

SECONDS = 120
IDLE = int(os.environ.get("ZWIRE_IDLE_TRIGGERS", "50"))
"""`make stress` waits for a thousand."""


def follow(spark, folder, **options):
    given = {"spool": str(folder), "startingOffsets": "earliest", **options}
    return spark.readStream.format("zwire").options(**given).load()


def wait(until):
    end = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


class Triggers(StreamingQueryListener):
    """Counts the triggers of a query that found nothing, and its batches."""

    def __init__(self):
        self.idle = 0
        self.batches = []

    def onQueryStarted(self, event):  # noqa: N802 - the name is Spark's
        pass

    def onQueryProgress(self, event):  # noqa: N802 - the name is Spark's
        self.batches.append(event.progress.batchId)

    def onQueryIdle(self, event):  # noqa: N802 - the name is Spark's
        self.idle += 1

    def onQueryTerminated(self, event):  # noqa: N802 - the name is Spark's
        pass


@pytest.fixture
def triggers(spark):
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(interval, "0")
    listener = Triggers()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)
    spark.conf.unset(interval)


@pytest.mark.timeout(300)
def test_idle_triggers_make_no_batch(spark, triggers, tmp_path):
    folder, checkpoint = tmp_path / "spool", tmp_path / "checkpoint"
    with spool.Appender(folder) as appender:
        appender.append(key="a", payload=b"0")
        appender.flush()
        sink = follow(spark, folder).writeStream.format("noop")
        query = sink.start(checkpointLocation=str(checkpoint))
        query.processAllAvailable()
        before = triggers.idle
        wait(lambda: triggers.idle >= before + IDLE)
        assert sorted(file.name for file in (checkpoint / "offsets").glob("[0-9]*")) == ["0"]
        appender.append(key="a", payload=b"1")
        appender.flush()
        query.processAllAvailable()
        query.stop()
    # The same two are in the log of what was planned.
    assert sorted(file.name for file in (checkpoint / "offsets").glob("[0-9]*")) == ["0", "1"]
    wait(lambda: 1 in triggers.batches)
    assert set(triggers.batches) == {0, 1}


def test_a_query_slower_than_the_retention_ends_or_leaves_out(spark, client, tmp_path):
    folder = tmp_path / "spool"
    keep = spool.Retention(bytes=60_000)
    where = {"checkpointLocation": str(tmp_path / "checkpoint")}

    def run(**options):
        sink = follow(spark, folder, **options).writeStream.format("parquet").trigger(availableNow=True)
        assert sink.start(str(tmp_path / "out"), **where).awaitTermination(SECONDS)

    with spool.Spooler(folder, "r", session=client, segment_bytes=10_000, retention=keep) as spooler:
        view = spool.open(folder)

        def publish(numbers):
            for number in numbers:
                client.put("r", b"%d" % number + b" " * 1000)
                if number % 10 == 9:
                    assert spooler.flush()

        publish(range(20))
        run()
        publish(range(20, 420))
        wait(lambda: view.marks()[0]["bytes"] <= 60_000)
        earliest = view.earliest()[0]
        assert earliest > 20
        with pytest.raises(StreamingQueryException, match=r"shard 0, offset 20: .* deleted by its retention"):
            run()
        run(failOnDataLoss="false")
    rows = spark.read.parquet(str(tmp_path / "out")).select("offset", "payload").collect()
    assert all(int(bytes(row.payload)) == row.offset for row in rows)
    assert sorted(row.offset for row in rows) == [*range(20), *range(earliest, 420)]
