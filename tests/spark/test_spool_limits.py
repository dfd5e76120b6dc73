"""Streams of spools in Spark that have nothing to do, and streams that come too late."""

import json
import os
import time

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQueryListener

from zwire import spool
from zwire.spark import sources as _sources
from zwire.spark.sources import _progress, _stream

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


NEW = _stream.ADMISSION
"""From 4.2 on Spark asks a run of ``availableNow`` for another batch at its end."""


@pytest.mark.smoke
def test_a_batch_is_read_for_its_consumer_when_spark_has_committed_it(spark, tmp_path):
    folder = tmp_path / "spool"
    with spool.Appender(folder, shards=1) as appender:

        def append(rows):
            for _ in range(rows):
                appender.append(key="a", payload=b"x")
            appender.flush()

        append(50)
        view = spool.open(folder)
        sink = follow(spark, folder, consumer="c", maxRowsPerTrigger=20).writeStream.format("noop")
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)
        # Without a listener an old Spark tells its source nothing at the end.
        assert view.consumers() == {"c": {0: 50 if NEW else 0}}
        query = sink.trigger(processingTime="0 seconds").start()
        try:
            append(7)
            wait(lambda: view.consumers() == {"c": {0: 57}})
        finally:
            query.stop()


@pytest.fixture
def listening(spark):
    """A session that was registered, with the listener of that."""
    _sources.register(spark)
    yield spark
    spark.streams.removeListener(_sources._registered[spark].listener)


@pytest.mark.skipif(not NEW, reason="Spark before 4.2 does not show what a source reports")
def test_a_registered_session_needs_no_next_batch(listening, tmp_path):
    """A trigger an hour later, two spools in one stream, and a source of Spark beside them."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        with spool.Appender(folder, shards=1) as appender:
            for _ in range(50):
                appender.append(key="a", payload=b"x")
    views = [spool.open(folder) for folder in folders]
    both = ",".join(map(str, folders))
    foreign = listening.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    stream = follow(listening, both, consumer="c").select("payload")
    stream = stream.union(foreign.selectExpr("cast(string(value) as binary)"))
    sink = stream.writeStream.format("noop").trigger(processingTime="1 hour")
    query = sink.start(checkpointLocation=str(tmp_path / "checkpoint"))
    try:
        wait(lambda: [view.consumers() for view in views] == [{"c": {0: 50}}] * 2)
    finally:
        query.stop()


def report(view, folder, **changed):
    return json.dumps({"consumer": "c", "folders": {view.id: str(folder)}, **changed})


def test_a_listener_commits_forwards_and_disturbs_nothing(tmp_path, caplog):
    with spool.Appender(tmp_path, shards=1) as appender:
        for _ in range(50):
            appender.append(key="a", payload=b"x")
    view = spool.open(tmp_path)

    def end(offset, id=view.id):
        return json.dumps({"v": 1, "spool": id, "s": {"0": offset}})

    _progress.commit(end(10), report(view, tmp_path))
    assert view.consumers() == {}, "the query itself makes its consumer"
    view.commit("c", {0: 20})
    for text, said in (
        (end(10), report(view, tmp_path)),
        (end(30), report(view, tmp_path / "elsewhere")),
        (end(30), report(view, tmp_path, consumer="d")),
        (end(30), report(view, tmp_path, consumer=7)),
        (end(30), report(view, tmp_path, folders=[])),
        (end(30), '{"consumer": "c"}'),
        (end(30, "0" * 32), json.dumps({"consumer": "c", "folders": {"0" * 32: str(tmp_path)}})),
        ('{"v": 2}', report(view, tmp_path)),
        ("{'v': 1}", "{'v': 1}"),
        ("7", "7"),
        (None, None),
    ):
        _progress.commit(text, said)
        assert view.consumers() == {"c": {0: 20}}, (text, said)
    _progress.commit(end(30), report(view, tmp_path))
    assert view.consumers() == {"c": {0: 30}}
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []


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
    # Nothing is deleted any more.
    earliest = view.earliest()[0]
    assert earliest > 20
    with pytest.raises(StreamingQueryException, match=r"shard 0, offset 20: .* deleted by its retention"):
        run()
    run(failOnDataLoss="false")
    unread = spark.read.format("zwire.gaps").load(str(folder)).where("kind = 'gap'").collect()
    # The offset of a gap is that behind it. What was read is in none, and what was not is.
    missing = [offset for row in unread for offset in range(row.offset - row["count"], row.offset)]
    assert sorted(missing) == [*range(20 if NEW else 0, earliest)]
    rows = spark.read.parquet(str(tmp_path / "out")).select("offset", "payload").collect()
    assert all(int(bytes(row.payload)) == row.offset for row in rows)
    assert sorted(row.offset for row in rows) == [*range(20), *range(earliest, 420)]
