"""Rows of partitions and DataFrames arrive, with everything they say, or the job says which did not."""

import json
import pickle
import re
import threading
import time

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import functions as f

import zwire.spark as zs
from zwire import zenoh
from zwire.errors import ConfigError, LinkClosed, RowError


def total(summaries):
    return [sum(column) for column in list(zip(*summaries, strict=True))[:3]]


def test_rows_of_an_rdd_arrive(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("fleet/**")
    rows = [(f"fleet/{n % 7}/n", str(n).encode()) for n in range(20_000)]
    summaries = spark.sparkContext.parallelize(rows, 4).mapPartitions(zs.put_partition(endpoint)).collect()
    assert [type(summary) for summary in summaries] == [zs.PutSummary] * 4
    assert total(summaries) == [20_000, sum(len(payload) for _, payload in rows), 0]
    assert all(0 < summary.seconds < 60 for summary in summaries)
    got = sorted((str(s.key_expr), s.payload.to_bytes()) for s in collected(subscriber, 20_000))
    assert got == sorted(rows)


def test_the_hub_has_everything_when_the_job_is_done(spark, endpoint, hub):
    subscriber = hub.declare_subscriber("n/**", zenoh.handlers.FifoChannel(100_000))
    rdd = spark.sparkContext.range(50_000).map(lambda n: ("n/x", str(n)))
    assert total(rdd.mapPartitions(zs.put_partition(endpoint)).collect())[0] == 50_000
    # No waiting: a subscriber of the hub itself has them at this moment.
    assert len(subscriber.handler) == 50_000


def test_rows_say_encoding_and_attachment(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("a/*")
    rows = [
        ("a/1", "text"),
        ("a/2", b"\x00", "image/png"),
        ("a/3", bytearray(b"x"), None, b"attached"),
        ("a/4", None),
        {"key": "a/5", "payload": b"p", "priority": 2, "congestion": "drop", "express": True},
        {"key": "a/6", "kind": "del"},
    ]
    summaries = spark.sparkContext.parallelize(rows, 6).mapPartitions(zs.put_partition(endpoint)).collect()
    assert total(summaries)[0] == 6
    got = {str(s.key_expr): s for s in collected(subscriber, 6)}
    assert got["a/1"].payload.to_bytes() == b"text"
    assert str(got["a/2"].encoding) == "image/png"
    assert got["a/3"].attachment.to_bytes() == b"attached"
    assert got["a/4"].kind == got["a/6"].kind == zenoh.SampleKind.DELETE
    assert got["a/1"].congestion_control == zenoh.CongestionControl.BLOCK
    assert (got["a/5"].priority, got["a/5"].express) == (zenoh.Priority.INTERACTIVE_HIGH, True)
    assert got["a/5"].congestion_control == zenoh.CongestionControl.DROP


def test_a_dataframe_arrives(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("fleet/**")
    df = spark.range(10_000).select(
        f.concat(f.lit("fleet/"), f.col("id") % 10).alias("key"),
        f.to_json(f.struct("id")).alias("payload"),
        f.lit("application/json").alias("encoding"),
        f.lit(3).alias("priority"),
    )
    summary = zs.put(df, endpoint)
    assert summary.schema == zs.schema.SUMMARY.spark()
    rows = summary.collect()
    assert sum(row.rows for row in rows) == 10_000
    assert sum(row.dropped for row in rows) == 0
    samples = collected(subscriber, 10_000)
    assert sorted(json.loads(s.payload.to_bytes())["id"] for s in samples) == list(range(10_000))
    assert {(str(s.encoding), s.priority) for s in samples} == {
        ("application/json", zenoh.Priority.INTERACTIVE_LOW)
    }


def test_one_key_for_all_rows(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("the/key")
    df = spark.range(100).select(f.col("id").cast("string").alias("payload"))
    zs.put(df, endpoint, key="the/key", priority=7).collect()
    assert {s.priority for s in collected(subscriber, 100)} == {zenoh.Priority.BACKGROUND}


def test_null_payloads_of_a_dataframe_are_deletions(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("d/*")
    df = spark.createDataFrame([("d/1", None), ("d/2", b"x"), ("d/3", None)], "key string, payload binary")
    zs.put(df.coalesce(1), endpoint).collect()
    kinds = [s.kind.name for s in collected(subscriber, 3)]
    assert kinds == ["DELETE", "PUT", "DELETE"]


def test_batches_travel_in_one_piece(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("b/**")
    rows = spark.sparkContext.range(5000).map(lambda n: (f"b/{n}", str(n)))
    batches = zs.batches(rows, rows=1000).cache()
    assert sorted(map(len, batches.collect())) == [500] * 2 + [1000] * 4
    assert total(batches.mapPartitions(zs.put_partition(endpoint)).collect())[0] == 5000
    assert len(collected(subscriber, 5000)) == 5000
    again = pickle.loads(pickle.dumps(batches.first()))
    assert again == batches.first()
    assert next(again.rows()) == ("b/0", b"0")


@pytest.mark.parametrize("path", ["rdd", "dataframe"])
def test_a_bad_row_names_itself(spark, endpoint, path):
    rows = [("ok/1", b"x"), ("ok/2", b"y"), ("not//ok", b"z"), ("ok/3", b"")]
    if path == "rdd":
        job = spark.sparkContext.parallelize(rows, 1).mapPartitions(zs.put_partition(endpoint))
    else:
        job = zs.put(spark.createDataFrame(rows, "key string, payload binary").coalesce(1), endpoint)
    with pytest.raises(PythonException if path == "dataframe" else Exception, match="RowError") as caught:
        job.collect()
    assert "row 2 of the partition, key 'not//ok': a key expression has no empty chunk" in str(caught.value)


def test_bad_rows_can_be_skipped_and_are_counted(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("ok/**")
    rows = [("ok/1", b"x"), ("a//b", b"y"), (None, b""), ("ok/2", b"zz"), ("ok/3", b""), ("*$", b"")]
    put = zs.put_partition(endpoint, errors="skip")
    (summary,) = spark.sparkContext.parallelize(rows, 1).mapPartitions(put).collect()
    assert summary[:3] == (3, 3, 3)
    assert [str(s.key_expr) for s in collected(subscriber, 3)] == ["ok/1", "ok/2", "ok/3"]


def test_a_cell_of_the_wrong_type_names_its_row(spark, endpoint):
    rdd = spark.sparkContext.parallelize([("a", b"x"), ("b", 7)], 1)
    with pytest.raises(Exception, match="row 1, key 'b': payload is int, not binary"):
        rdd.mapPartitions(zs.put_partition(endpoint)).collect()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("k/1",)], "row 0, key 'k/1': there is no payload"),
        ([("k/1", b"x"), ("k/2",), ("k/3", b"x")], "row 1, key 'k/2': there is no payload"),
        (
            [{"key": "k/1", "payload": b"x"}, {"key": "k/2", "encoding": "a"}],
            "row 1, key 'k/2': there is no pay",
        ),
        ([zs.Batch(pa.RecordBatch.from_pydict({"key": ["k/1"]}))], "no column 'payload'"),
    ],
)
def test_a_row_without_a_payload_is_neither_an_empty_put_nor_a_deletion(
    endpoint, client, collected, rows, problem
):
    subscriber = client.declare_subscriber("k/*")
    put = zs.put_partition(endpoint)
    with pytest.raises(ValueError, match=problem):
        list(put(rows))
    assert subscriber.recv_many(10, timeout=0.2) == []
    kinds = [("k/1", None), ("k/2", ""), {"key": "k/3", "kind": "del"}]
    assert [total(put([row]))[:2] for row in kinds] == [[1, 0]] * 3
    zs.close_sessions()
    got = {str(sample.key_expr): sample.kind.name for sample in collected(subscriber, 3)}
    assert got == {"k/1": "DELETE", "k/2": "PUT", "k/3": "DELETE"}


@pytest.mark.parametrize(
    "call",
    [
        lambda df: zs.put(df, "tcp/127.0.0.1:1"),
        lambda df: zs.get(df, "key", "tcp/127.0.0.1:1"),
        lambda df: zs.decode(df, "key"),
        lambda df: zs.shout(df, {}, group="a"),
        lambda df: zs.whisper(df, {}),
        lambda df: zs.decode_payload(df, "x int"),
        zs.ros2,
        zs.once,
    ],
)
def test_a_frame_of_pandas_is_refused_with_the_way_to_one_of_spark(spark, call):
    """A frame of pandas, and one of pandas on Spark, which has a method of its own for it."""
    plain = pd.DataFrame({"key": ["a"], "payload": [b"x"]})
    with pytest.raises(TypeError, match=r"not of pandas: give spark\.createDataFrame\(df\)"):
        call(plain)
    with pytest.raises(TypeError, match=r"not of pyspark\.pandas.*: give df\.to_spark\(\)"):
        call(spark.createDataFrame(plain).pandas_api())


def test_a_hub_that_is_not_there_fails_the_job(spark):
    df = spark.createDataFrame([("a", b"x")], "key string, payload binary")
    config = {"connect/endpoints": ["tcp/127.0.0.1:1"], "connect/timeout_ms": 0}
    with pytest.raises(PythonException, match=r"ConnectError.*127\.0\.0\.1:1"):
        zs.put(df, config).collect()


def test_a_hub_that_goes_away_is_noticed(spark):
    hub = zenoh.open({"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]})
    endpoint = hub.listening()[0]
    # A callback must not wait for its own session to close.
    gone = threading.Event()
    hub.declare_subscriber("stop", lambda _: gone.set())
    threading.Thread(target=lambda: (gone.wait(30), hub.close())).start()

    def rows():
        yield "stop", b""
        time.sleep(1.0)
        yield from ((f"a/{n}", b"x") for n in range(100))

    def attempt(partition):
        list(partition)
        batches = (next(zs.batch.to_arrow([row], zs.schema.PUT)) for row in rows())
        try:
            yield from zs.put_partition(endpoint)(batches)
        except (RowError, LinkClosed) as error:
            yield f"{type(error).__name__}: {error}"

    (message,) = spark.sparkContext.parallelize([0], 1).mapPartitions(attempt).collect()
    assert re.match(r"RowError: row 1 of the partition, key 'a/0': there is no link to tcp/127", message)


def test_a_task_that_is_started_again_sends_again(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("retry/**")

    def rows(partition):
        for n in partition:
            if n == 900 and TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("first attempt")
            yield f"retry/{n}", b"x"

    rdd = spark.sparkContext.parallelize(range(1000), 1).mapPartitions(rows)
    summaries = zs.batches(rdd, rows=100).mapPartitions(zs.put_partition(endpoint)).collect()
    assert total(summaries)[0] == 1000
    keys = [str(s.key_expr) for s in collected(subscriber, 1900)]
    assert len(set(keys)) == 1000
    # Nine full batches went out before the error, and once more with the second attempt.
    assert len(keys) == 1900


def test_batches_of_rows_have_bounds():
    """By rows and by bytes; batches among rows stay as they are, in order."""
    from zwire.spark.batch import BYTES, ROWS, to_arrow

    def sizes(partition, **bounds):
        return [batch.num_rows for batch in to_arrow(partition, zs.schema.PUT, **bounds)]

    assert sizes([("k", b"x")] * (2 * ROWS + 1)) == [ROWS, ROWS, 1]
    assert sizes([("k", b"x")] * 150, rows=100) == [100, 50]
    large = bytes(BYTES // 100)
    for row in (("k", large), ("k", large, None), {"key": "k", "payload": large}, ["k", large.decode()]):
        counts = sizes([row] * 1000)
        assert sum(counts) == 1000
        assert max(counts) <= 100 + 64, "as much again as is taken at once"
    made = next(to_arrow([("k", b"x")] * 3, zs.schema.PUT))
    mixed = [("k", b"x"), made, zs.Batch(made), ("k", None), ("k", "x", "text/plain")]
    assert sizes(mixed) == [1, 3, 3, 2]
    taken = iter([made] * 10)
    next(to_arrow(taken, zs.schema.PUT))
    assert len(list(taken)) == 9, "a batch is passed on before the next one is taken"


def test_empty_partitions_open_nothing(spark):
    df = spark.createDataFrame([], "key string, payload binary")
    rows = zs.put(df, "tcp/127.0.0.1:1").collect()
    assert all(tuple(row) == (0, 0, 0, 0.0) for row in rows)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("key string, payload binary, colour string", {}, "'colour' is not one of key, payload"),
        ("payload binary", {}, "no column 'key'"),
        ("key string", {}, "no column 'payload'"),
        ("key string, payload int", {}, "'payload' must be string or binary, not int"),
        ("key string, payload binary", {"congestion": "wait"}, "congestion must be one of"),
        ("key string, payload binary", {"priority": 0}, "priority must be one of"),
        ("key string, payload binary", {"key": "a//b"}, "empty chunk"),
        ("key string, payload binary", {"errors": "ignore"}, "errors must be one of raise, skip"),
    ],
)
def test_mistakes_are_found_before_the_job(spark, columns, options, words):
    df = spark.createDataFrame([], columns)
    with pytest.raises(ValueError, match=words):
        zs.put(df, "tcp/127.0.0.1:1", **options)


def test_configurations_are_checked_before_the_job(spark):
    df = spark.createDataFrame([], "key string, payload binary")
    with pytest.raises(ConfigError, match="did you mean"):
        zs.put(df, {"conect": 1})
    with pytest.raises(ConfigError, match="workers cannot share"):
        zs.put_partition({"connect/endpoints": ["tcp/127.0.0.1:1"], "zwire/tap": "x.pcap"})


def test_functions_pickle():
    for function in (zs.put_partition("tcp/127.0.0.1:1"), zs.get_partition("tcp/127.0.0.1:1")):
        assert pickle.loads(pickle.dumps(function)) == function
