"""Rows that are written to the format zwire arrive, each once where that is asked for, or the job fails."""

import datetime as dt
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import functions as f
from pyspark.sql.types import _parse_datatype_string

import nodes
import zwire.spark as zs
from zwire import zenoh
from zwire.errors import ConfigError, LinkClosed, TimedOut, Undelivered
from zwire.idempotence import Filter, Identity, commit_key
from zwire.spark._send import Pace, Sender, put_options
from zwire.spark.sources import _sink
from zwire.spark.sources._columns import check, to_put
from zwire.spark.sources._writers import row_schema

STUCK = "transport/link/tx/queue/congestion_control/block/wait_before_close"

pytestmark = pytest.mark.smoke

# A node that can be stopped, so that it exists and reads nothing.
NODE = """
import sys
from zwire import zenoh

config = {sys.argv[1]: [sys.argv[2]], "mode": sys.argv[3], "scouting/multicast/enabled": False}
if sys.argv[3] == "client":
    # Its silence alone is no reason to give it up, however long Spark takes to start a task.
    config["transport/link/tx/lease"] = 300_000
node = zenoh.open(config)
subscriber = node.declare_subscriber("**", lambda _: None)
node.flush(10) if sys.argv[3] == "client" else None
print(*node.listening(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stopped():
    """Start nodes in processes of their own; the returned function stops one."""
    running = []

    def start(kind, endpoint, mode):
        command = [sys.executable, "-c", NODE, kind, endpoint, mode]
        # In a group of its own: the kernel wakes up those that are stopped when the shell of theirs ends.
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        running.append(child)
        said = child.stdout.readline().strip()
        return said, lambda: os.kill(child.pid, signal.SIGSTOP)

    yield start
    for child in running:
        child.kill()
        child.communicate()


@pytest.fixture
def once(hub):
    """A receiver: the samples that passed its filter, and all samples."""

    class Receiver:
        def __init__(self):
            self.filter, self.passed, self.came = Filter(), [], 0
            self.lock = threading.Lock()
            self.subscriber = hub.declare_subscriber("sink/**", self.take)
            self.commits = hub.declare_subscriber(
                commit_key("sink", uuid.UUID(int=0)).rpartition("/")[0] + "/*"
            )

        def take(self, sample):
            with self.lock:
                self.came += 1
                if self.filter.is_new(sample):
                    self.passed.append(sample.payload.to_bytes())

        def settled(self, count):
            """Wait until ``count`` samples have passed, and check that no more do."""
            end = time.monotonic() + 20
            while len(self.passed) < count and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.1)
            return sorted(self.passed)

    return Receiver()


def sink(df, endpoint, **options):
    return df.write.format("zwire").mode("append").option("endpoints", endpoint).options(**options)


def numbered(spark, count, partitions=2, size=0):
    """Rows with their numbers, each of at least that many bytes."""
    payload = f.rpad(f.col("id").cast("string"), size or 1, " ") if size else f.col("id").cast("string")
    return spark.range(0, count, 1, partitions).select(f.lit("sink/n").alias("key"), payload.alias("payload"))


def fail_first_attempts(after):
    """Let each task fail at its first attempt, after some batches."""

    def through(batches):
        for number, batch in enumerate(batches):
            if number == after and TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("the first attempt")
            yield batch

    return through


@pytest.fixture
def small_batches(spark):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_rows_arrive_with_all_that_they_say(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("a/*")
    df = spark.sql(
        "select * from values"
        " ('a/1', cast('x' as binary), 'text/plain', cast('at' as binary), 'put', 2, 'drop', true),"
        " ('a/2', null, null, null, 'del', null, null, null),"
        " ('a/3', cast('' as binary), null, null, null, 7, 'block', false)"
        " as t(key, payload, encoding, attachment, kind, priority, congestion, express)"
    )
    sink(df, endpoint).save()
    got = {str(s.key_expr): s for s in collected(subscriber, 3)}
    first, second, third = (got[f"a/{number}"] for number in (1, 2, 3))
    assert (first.payload.to_bytes(), str(first.encoding), first.attachment.to_bytes()) == (
        b"x",
        "text/plain",
        b"at",
    )
    assert (first.priority, first.express) == (zenoh.Priority.INTERACTIVE_HIGH, True)
    assert first.congestion_control == zenoh.CongestionControl.DROP
    assert second.kind == zenoh.SampleKind.DELETE
    assert second.congestion_control == third.congestion_control == zenoh.CongestionControl.BLOCK
    assert (third.kind, third.priority) == (zenoh.SampleKind.PUT, zenoh.Priority.BACKGROUND)
    assert {s.reliability for s in got.values()} == {zenoh.Reliability.RELIABLE}


def test_rows_bring_their_time_stamps(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("a/*")
    df = spark.sql(
        "select * from values"
        " ('a/1', timestamp '2026-03-04T05:06:07.25Z', null, x'42'),"
        " ('a/2', timestamp '2026-03-04T05:06:07.25Z', 7613311700000000005, null)"
        " as t(key, timestamp, hlc, hlc_id)"
    )
    sink(df.selectExpr("*", "'x' as payload"), endpoint).save()
    sink(
        df.selectExpr("'b' as payload", "'a/3' as key", "timestamp"), endpoint, idempotence="attachment"
    ).save()
    zs.put(
        df.limit(1).selectExpr("'a/4' as key", "'c' as payload", "timestamp", "hlc_id"), endpoint
    ).collect()
    got = {str(s.key_expr): s.timestamp for s in collected(subscriber, 5)}
    when = dt.datetime(2026, 3, 4, 5, 6, 7, 250_000, dt.UTC)
    assert got["a/1"] == got["a/4"] == zenoh.Timestamp(when, b"\x42")
    assert int(got["a/2"].get_time_as_ntp64()) == 7613311700000000005
    assert got["a/3"].get_time() == when


def test_the_next_hop_has_everything_when_the_job_is_done(spark, endpoint, hub):
    subscriber = hub.declare_subscriber("sink/**", zenoh.handlers.FifoChannel(100_000))
    sink(numbered(spark, 50_000).drop("key"), endpoint, key="sink/all", maxRowsPerSecond="1000000").save()
    assert len(subscriber.handler) == 50_000


def test_a_task_that_fails_gives_each_row_once(spark, endpoint, once, small_batches):
    rows = numbered(spark, 2000, size=500).mapInArrow(fail_first_attempts(7), "key string, payload string")
    sink(rows, endpoint, idempotence="attachment", commitMarkers="sink").save()
    expected = sorted(b"%-500d" % number for number in range(2000))
    assert once.settled(2000) == expected
    assert once.came > 2000, "the first attempt has sent nothing, so nothing was shown"
    assert once.filter.stats()["repeated"] == once.came - 2000
    marker = once.commits.recv(timeout=5)
    said = json.loads(marker.payload.to_bytes())
    assert (said["status"], said["rows"], said["partitions"]) == ("committed", 2000, {"0": 1000, "1": 1000})
    assert once.filter.missing(said) == 0
    assert str(marker.key_expr) == commit_key("sink", uuid.UUID(said["query"]))


def test_a_job_that_is_done_again_under_its_name_gives_each_row_once(spark, endpoint, once):
    df = numbered(spark, 100)
    for batch in (0, 1, 0, 1):
        sink(df, endpoint, idempotence="attachment", queryId="nightly", batchId=str(batch)).save()
    assert len(once.settled(200)) == 200
    assert once.came == 400
    # By numbers that rows have, whatever the partitions.
    for partitions in (1, 3):
        df = numbered(spark, 50, partitions).withColumn("n", f.col("payload").cast("bigint"))
        df = df.withColumn("shard", f.col("n") % 2)
        sink(df, endpoint, idempotence="attachment", queryId="by-number", idColumns="shard,n").save()
    assert len(once.settled(250)) == 250


def test_a_batch_that_failed_says_so(spark, endpoint, once):
    options = {"endpoints": endpoint, "commitMarkers": "sink", "queryId": "nightly", "batchId": "3"}
    writer = _sink.writer(options, _parse_datatype_string("key string, payload binary"), overwrite=False)
    batch = pa.record_batch({"key": ["sink/a"], "payload": [b"x"]})
    # Of the other partition there is nothing to say.
    writer.abort([writer.write(iter([batch])), None])
    said = json.loads(once.commits.recv(timeout=5).payload.to_bytes())
    assert (said["status"], said["batch"], said["rows"]) == ("aborted", 3, 1)
    writer.abort([None])
    assert not once.commits.recv_many(1, timeout=0.05)


def test_a_peer_that_takes_nothing_ends_the_job(spark, endpoint, stopped):
    """With an error that says so, and the cores are free for the next job."""
    dead, stop = stopped("listen/endpoints", "tcp/127.0.0.1:0", "router")
    bounds = {"zenoh." + STUCK.replace("/", "."): "300000", "zenoh.transport.unicast.open_timeout": "300"}
    warm = numbered(spark, 10)
    sink(warm, dead, **bounds).save()
    stop()
    begin = time.monotonic()
    with pytest.raises(PythonException, match=r"RowError|LinkClosed|ConnectError"):
        sink(numbered(spark, 40_000, 2, size=1000), dead, **bounds).save()
    assert time.monotonic() - begin < 30
    # Tasks in barrier mode start together or not at all, so both cores are free.
    assert spark.range(0, 2, 1, 2).mapInArrow(lambda rows: rows, "id long", barrier=True).count() == 2
    sink(warm, endpoint).save()


@pytest.mark.parametrize("confirm", ["hub", "none"])
def test_rows_of_a_link_that_is_gone_are_not_taken_for_sent(confirm):
    """Also if it went behind the last row, when nothing waits for it any more."""
    with nodes.router() as dead:
        options = put_options({"connect/endpoints": dead.listening()}, confirm=confirm)
        sender = Sender(options)
        sender.send(pa.record_batch({"key": ["sink/a"], "payload": [b"x"]}))
    nodes.eventually(lambda: not sender.session.info.transports())
    with pytest.raises(LinkClosed, match="link was lost"):
        sender.finish()
    zs.close_sessions()


def test_a_peer_that_takes_too_little_ends_the_wait(stopped):
    dead, stop = stopped("listen/endpoints", "tcp/127.0.0.1:0", "router")
    # Each row alone would be waited for long.
    sender = Sender(put_options({"connect/endpoints": [dead], STUCK: 60_000_000}, send_timeout=0.3))
    batch = pa.record_batch({"key": ["sink/a"] * 20_000, "payload": [bytes(2000)] * 20_000})
    stop()
    with pytest.raises(TimedOut, match=r"takes too little: rows wait since 0.3 s"):
        sender.send(batch)
    assert sender.session.is_closed()


@pytest.fixture
def counting():
    """A hub that reports its counters, and gives up subscribers that do not read at once."""
    hub = zenoh.open(
        {
            "mode": "router",
            "listen/endpoints": ["tcp/127.0.0.1:0"],
            "adminspace/enabled": True,
            STUCK: 200_000,
        }
    )
    with hub:
        yield hub


def test_a_drop_at_the_hop_fails_the_task(spark, counting, stopped):
    (endpoint,) = counting.listening()
    _, stop = stopped("connect/endpoints", endpoint, "client")
    stop()
    given = {"endpoints": endpoint, "congestion": "drop"}
    batch = pa.record_batch({"key": ["sink/a"] * 15_000, "payload": [bytes(2000)] * 15_000})
    with pytest.raises(Undelivered, match=r"lost messages while .*link.tx_dropped") as caught:
        _sink._write(_sink.sink_options({**given, "ack": "barrier"}), iter([batch]), uuid.UUID(int=1), 0)
    assert caught.value.rows + caught.value.missing > 15_000
    # Without the barrier the loss goes unnoticed.
    _sink._write(_sink.sink_options(given), iter([batch]), uuid.UUID(int=1), 0)
    # The hop has given up the first one.
    _, stop = stopped("connect/endpoints", endpoint, "client")
    stop()
    df = numbered(spark, 15_000, 1, size=2000)
    with pytest.raises(PythonException, match=r"Undelivered: .* lost messages while"):
        # No faster than the link is: what is lost is lost behind the hop.
        sink(df, endpoint, congestion="drop", ack="barrier", maxRowsPerSecond="10000").save()


def test_a_subscriber_that_the_hop_gives_up_is_a_drop(counting, stopped):
    """Rows that were to wait for it go with its link; the next attempt finds it gone, and all is well."""
    (endpoint,) = counting.listening()
    _, stop = stopped("connect/endpoints", endpoint, "client")
    options = _sink.sink_options({"endpoints": endpoint, "ack": "barrier"})
    batch = pa.record_batch({"key": ["sink/a"] * 15_000, "payload": [bytes(2000)] * 15_000})
    assert _sink._write(options, iter([batch.slice(0, 10)]), uuid.UUID(int=1), 0).rows == 10
    stop()
    with pytest.raises(Undelivered, match=r"lost messages while .*links.ended.unresponsive by 1"):
        _sink._write(options, iter([batch]), uuid.UUID(int=1), 0)
    assert _sink._write(options, iter([batch]), uuid.UUID(int=1), 0).rows == 15_000


def test_receivers_say_what_they_have_got(spark, endpoint, hub, once, small_batches):
    """Row 150 of each partition is lost at first; the second attempt makes up for it."""
    lost, take = set(), once.take

    def forgetful(sample):
        identity = Identity.of(sample)
        if identity.row == 150 and identity.partition not in lost:
            lost.add(identity.partition)
        else:
            take(sample)

    once.subscriber.undeclare()
    subscriber = hub.declare_subscriber("sink/**", forgetful)
    queryable = once.filter.receipts(hub, "sink")
    options = {"idempotence": "attachment", "ack": "barrier", "receipts": "sink", "ackTimeout": "500ms"}
    sink(numbered(spark, 400), endpoint, **options).save()
    assert once.settled(400) == sorted(b"%d" % number for number in range(400))
    assert lost == {0, 1}
    queryable.undeclare()
    options = _sink.sink_options({"endpoints": endpoint, **options})
    batch = pa.record_batch({"key": ["sink/a"], "payload": [b"x"]})
    with pytest.raises(Undelivered, match=r"0 of 1 receivers answer on sink/@receipt/\*"):
        _sink._write(options, iter([batch]), uuid.UUID(int=1), 0)
    # A receiver that answers once and is too slow afterwards has answered.
    counts = iter(['{"rows": 0}'])
    queryable = hub.declare_queryable(
        "sink/@receipt/a", lambda query: [query.reply("sink/@receipt/a", count) for count in counts]
    )
    with pytest.raises(Undelivered, match="a receiver has got 0 of the 1 rows of partition 0") as caught:
        _sink._write(options, iter([batch]), uuid.UUID(int=1), 1)
    assert caught.value.missing == 1
    queryable.undeclare()
    subscriber.undeclare()


def test_a_second_copy_of_a_task_is_not_let_through(spark, endpoint, once):
    """Where Spark may start one, and it would send the rows as well."""
    given = ({"endpoints": endpoint}, {"endpoints": endpoint, "idempotence": "attachment"})

    def attempt(batches):
        list(batches)
        row = pa.record_batch({"key": ["sink/a"], "payload": [b"x"]})
        said = []
        for options in given:
            try:
                said.append(
                    str(_sink._write(_sink.sink_options(options), iter([row]), uuid.UUID(int=1), 0).rows)
                )
            except ConfigError as error:
                said.append(str(error))
        yield pa.record_batch({"said": said})

    spark.sparkContext.setLocalProperty("spark.speculation", "true")
    try:
        refused, passed = spark.range(0, 1, 1, 1).mapInArrow(attempt, "said string").collect()
    finally:
        spark.sparkContext.setLocalProperty("spark.speculation", None)
    assert "with spark.speculation a second copy" in refused.said
    assert passed.said == "1"
    assert len(once.settled(1)) == once.came == 1


def test_a_stream_gives_each_row_once(spark, endpoint, once, tmp_path, small_batches):
    """The first run fails within its second batch; the next one writes that batch again."""
    failing, ended = tmp_path / "failing", tmp_path / "ended"
    failing.touch()

    def fail_while_there(batches):
        for number, batch in enumerate(batches):
            context = TaskContext.get()
            late = int(context.getLocalProperty("streaming.sql.batchId")) == 1
            if late and number == 3 and context.partitionId() == 1 and failing.exists():
                # The marker of an aborted batch needs a task that has ended: it tells of its query.
                end = time.monotonic() + 30
                while not ended.exists() and time.monotonic() < end:
                    time.sleep(0.01)
                raise RuntimeError("not yet")
            yield batch

    def a_task_has_ended():
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage.numCompletedTasks for stage in stages if stage)

    def run(fails=False):
        stream = (
            spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1000, numPartitions=2).load()
        )
        payload = f.rpad(f.col("value").cast("string"), 700, " ").alias("payload")
        rows = stream.select(f.lit("sink/s").alias("key"), payload)
        rows = rows.mapInArrow(fail_while_there, "key string, payload string")
        query = (
            rows.writeStream.format("zwire")
            .option("endpoints", endpoint)
            .options(idempotence="attachment", commitMarkers="sink", ack="link")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        if fails:
            nodes.eventually(a_task_has_ended, "one of two tasks has ended", within=30)
            ended.touch()
        assert query.awaitTermination(60)
        return query

    def markers():
        return [json.loads(sample.payload.to_bytes()) for sample in once.commits.recv_many(9, timeout=5)]

    run()
    (first,) = markers()
    with pytest.raises(StreamingQueryException, match="not yet"):
        run(fails=True)
    (aborted,) = markers()
    failing.unlink()
    query = run()
    (second, *third) = markers()
    assert [(one["batch"], one["status"]) for one in (first, aborted, second)] == [
        (0, "committed"), (1, "aborted"), (1, "committed"),
    ]  # fmt: skip
    assert {one["query"] for one in (first, aborted, second)} == {uuid.UUID(str(query.id)).hex}
    total = first["rows"] + second["rows"] + sum(one["rows"] for one in third)
    passed = once.settled(total)
    assert passed == sorted(b"%-700d" % number for number in range(total))
    assert once.came > total
    assert once.filter.missing(second) == 0


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("key string, payload binary, colour string", {}, "'colour' is not one of key, payload"),
        ("key string, payload binary, prio int", {}, "did you mean 'priority'"),
        ("payload binary", {}, "no column 'key' and no option 'key'"),
        ("key string", {}, "no column 'payload'"),
        ("key string, payload int", {}, "'payload' must be string or binary, not int"),
        ("key string, payload binary, priority string", {}, "'priority' must be tinyint"),
        ("key string, payload binary, timestamp string", {}, "'timestamp' must be timestamp, not string"),
        (
            "key string, payload binary, timestamp timestamp_ntz",
            {},
            "'timestamp' must be timestamp, not timestamp_ntz",
        ),
        ("key string, payload binary, hlc double", {}, "'hlc' must be bigint, not double"),
        ("key string, payload binary, congestion string, congestion_block boolean", {}, "one of them only"),
        ("key string, payload binary", {"acks": "all"}, "did you mean 'ack'"),
        ("key string, payload binary", {"ack": "all"}, "must be one of none, link, barrier"),
        ("key string, payload binary", {"key": "a//b"}, "empty chunk"),
        ("key string, payload binary", {"maxRowsPerSecond": "0"}, "at least 1"),
        ("key string, payload binary", {"receipts": "a"}, "needs ack=barrier and idempotence=attachment"),
        ("key string, payload binary", {"receivers": "2"}, "needs receipts"),
        ("key string, payload binary", {"idColumns": "n"}, "needs idempotence"),
        ("key string, payload binary", {"batchId": "1"}, "needs queryId"),
        ("key string, payload binary", {"commitMarkers": "a/*"}, "wildcard"),
        (
            "key string, payload binary, n string",
            {"idColumns": "n", "idempotence": "attachment"},
            "'n' of idColumns must be a whole number, but is string",
        ),
    ],
)
def test_mistakes_are_found_before_the_job(spark, columns, options, words):
    given = {"endpoints": "tcp/127.0.0.1:1", **options}
    with pytest.raises(ValueError, match=words):
        _sink.writer(given, _parse_datatype_string(columns), overwrite=False)


def test_spark_shows_them_as_its_own(spark, endpoint):
    df = spark.createDataFrame([], "key string, payload binary, colour string")
    with pytest.raises(AnalysisException, match="column 'colour' is not one of"):
        sink(df, endpoint).save()
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        sink(df.drop("colour"), endpoint).mode("overwrite").save()


def test_writers_pickle_and_open_nothing(spark):
    before = zs.session_counts()
    schema = _parse_datatype_string("key string, payload binary, priority smallint")
    given = {"endpoints": "tcp/127.0.0.1:1"}
    writer = _sink.writer(given, schema, overwrite=False)
    again = pickle.loads(pickle.dumps(writer))
    assert (again.query, again.options) == (writer.query, writer.options)
    assert _sink.writer(given, schema, overwrite=False).query != writer.query
    assert "127.0.0.1" not in repr(writer.options)
    stream = pickle.loads(pickle.dumps(_sink.stream_writer(given, schema, overwrite=False)))
    assert stream.options == writer.options
    assert zs.session_counts() == before
    with pytest.raises(ConfigError, match="a stream has an id"):
        _sink.stream_writer({**given, "queryId": "x"}, schema, overwrite=False)


def test_other_threads_write_after_they_have_registered(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("thread/**")
    parts = [spark.createDataFrame([(f"thread/{n}", b"x")], "key string, payload binary") for n in range(8)]

    def save(part):
        part.write.format("zwire").mode("append").save(endpoints=endpoint)

    with ThreadPoolExecutor(4, initializer=zs.register, initargs=(spark,)) as pool:
        list(pool.map(save, parts))
    keys = sorted(str(sample.key_expr) for sample in collected(subscriber, 8))
    assert keys == [f"thread/{n}" for n in range(8)]


def test_rows_of_spark_4_0_are_made_into_batches(spark, endpoint, client, collected):
    """In that version a writer of streams gets rows."""
    from pyspark.sql import Row

    from zwire.spark.batch import to_arrow

    columns = row_schema(_parse_datatype_string("key varchar(9), payload binary, priority smallint"))
    rows = iter(
        [Row(key="r/1", payload=bytearray(b"x"), priority=3), Row(key="r/2", payload=None, priority=None)]
    )
    options = _sink.sink_options({"endpoints": endpoint})
    subscriber = client.declare_subscriber("r/*")
    client.flush(5)
    written = _sink._write(options, to_arrow(rows, columns), uuid.UUID(int=1), 0)
    assert (written.rows, written.bytes) == (2, 1)
    assert [(s.priority, s.kind.name) for s in collected(subscriber, 2)] == [
        (zenoh.Priority.INTERACTIVE_LOW, "PUT"), (zenoh.Priority.DATA, "DELETE"),
    ]  # fmt: skip


def test_a_hop_without_counters_is_no_barrier(endpoint):
    options = _sink.sink_options({"endpoints": endpoint, "ack": "barrier"})
    batch = pa.record_batch({"key": ["a"], "payload": [b""]})
    with pytest.raises(ConfigError, match="tells no counters"):
        _sink._write(options, iter([batch]), uuid.UUID(int=1), 0)


def test_what_a_policy_of_the_hop_forbids_is_missed(counting):
    class Hub:
        """Takes none of the rows."""

        info = zs.session(counting.listening()[0]).info
        get = zs.session(counting.listening()[0]).get

    from zwire.spark.sources._ack import Hop

    with pytest.raises(Undelivered, match="has taken 0 publications while 5 rows were sent") as caught:
        Hop(Hub(), 5).check(5)
    assert (caught.value.rows, caught.value.missing) == (5, 5)
    with pytest.raises(Undelivered, match="while 5 rows were sent: its link has dropped 3"):
        Hop(Hub(), 5).check(5, 3)


def test_former_columns_are_sent_as_the_present_ones():
    former = _parse_datatype_string(
        "key string, payload binary, kind tinyint, congestion_block boolean, ts timestamp"
    )
    with pytest.warns(DeprecationWarning, match="next release") as warned:
        check(former, key=None)
    assert {str(each.message).split("'")[1] for each in warned} == {"kind", "congestion_block", "ts"}
    batch = pa.record_batch(
        {
            "key": ["a", "b"],
            "payload": [b"", None],
            "kind": pa.array([0, 1], pa.int8()),
            "congestion_block": [True, False],
            "ts": pa.array([1, 2], pa.timestamp("us", "UTC")),
        }
    )
    sent = to_put(batch).to_pydict()
    assert (sent["kind"], sent["congestion"]) == (["put", "del"], ["block", "drop"])
    assert sent["timestamp"] == batch.column("ts").to_pylist()


def test_rows_of_a_read_are_sent_without_a_conversion():
    rows = zs.schema.SAMPLE.select(zs.schema.PUT.names).arrow()
    given = {"key": "a", "payload": b"x", "kind": "put", "congestion": "block", "priority": 5}
    batch = pa.RecordBatch.from_pylist([given], schema=rows)
    sent = to_put(batch)
    assert sent.equals(batch)
    for name in given:
        theirs, ours = batch.column(name).buffers(), sent.column(name).buffers()
        assert [one and one.address for one in theirs] == [one and one.address for one in ours]


def test_numbers_out_of_range_name_their_column(endpoint):
    for column, values, words in (
        ("priority", [300], "column 'priority'"),
        ("kind", [2], "column 'kind' has 2"),
        ("n", [-1], "'n' of idColumns holds -1"),
        ("n", [None], "'n' of idColumns holds null"),
    ):
        marks = {"idempotence": "attachment", "idColumns": "n"} if column == "n" else {}
        options = _sink.sink_options({"endpoints": endpoint, **marks})
        batch = pa.record_batch({"key": ["a"], "payload": [b""], column: pa.array(values, pa.int64())})
        with pytest.raises(ValueError, match=words):
            _sink._write(options, iter([batch]), uuid.UUID(int=1), 0)


def test_a_pace_is_kept():
    batch = pa.record_batch({"payload": [bytes(100)] * 100})
    for pace, pieces in ((Pace(500, None), 2), (Pace(None, 50_000), 2), (Pace(500, 1_000_000), 2)):
        begin = time.monotonic()
        cut = [piece.num_rows for _ in range(2) for piece in pace.pieces(batch)]
        # What is in the last piece may go at once.
        assert time.monotonic() - begin >= 0.19
        assert (sum(cut), len(cut)) == (200, pieces * 2)
    assert [piece.num_rows for piece in Pace(1e6, None).pieces(batch)] == [100]
    assert [piece.num_rows for piece in Pace(None, None).pieces(batch)] == [100]
