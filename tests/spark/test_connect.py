"""The same functions through Spark Connect; its client cannot live in one process with the classic one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zwire import spool, zenoh, zre
from zwire.idempotence import Filter

CAPTURE = Path(__file__).resolve().parents[1] / "vectors" / "captures" / "zenoh-query.pcap.gz"

SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as f
import zwire.spark as zs

endpoint, capture, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
df = spark.range(1000).select(
    f.concat(f.lit("connect/"), f.col("id")).alias("key"), f.col("id").cast("string").alias("payload")
)
summary = zs.put(df, endpoint).collect()
assert sum(row.rows for row in summary) == 1000, summary
asked = spark.range(10).select(f.concat(f.lit("twice/"), f.col("id")).alias("ask"), "id")
rows = zs.get(asked, "ask", endpoint).collect()
assert [int(bytes(row.payload)) for row in rows] == [2 * row.id for row in rows], rows
assert len(rows) == 10
assert rows[0].asDict().keys() == {"ask", "id", *zs.schema.REPLY.names}
try:
    zs.put(spark.createDataFrame([("a//b", b"x")], "key string, payload binary"), endpoint).collect()
except Exception as error:
    assert "key 'a//b': a key expression has no empty chunk" in str(error), error
else:
    raise AssertionError("a bad row was sent")
listed = zs.captures(spark, [capture], partitions=2)
contents = spark.read.format("binaryFile").load(capture)
for decoded in (zs.decode(listed, "path"), zs.decode(contents, "content")):
    rows = decoded.collect()
    assert decoded.columns == [*zs.schema.DECODE.names], decoded.columns
    kinds = {row.kind for row in rows if row.message == "response"}
    assert kinds == {"put", "del", "err"}, kinds
    assert len(rows) == 181, len(rows)
    assert {row.file for row in rows} == {"file:" + capture}
frame = spark.read.format("zwire.pcap").load(capture)
assert frame.count() == 181 and frame.columns == [*zs.schema.DECODE.names]
replies = spark.read.format("zwire").options(endpoints=endpoint, selector="twice/7", columns="payload,error")
replies = zs.ros2(replies.load().selectExpr("'3/a/b::msg::dds_::C_/RIHS01_0f' as key", "payload"))
(row,) = zs.decode_payload(replies, "n int", format="json").collect()
assert (row.ros_topic, row.ros_type) == ("/a", "b/msg/C"), row
assert row.error == "json: map expected, not int", row
try:
    spark.read.format("zwire").option("selektor", "a").load().collect()
except Exception as error:
    assert "did you mean 'selector'" in str(error), error
else:
    raise AssertionError("an unknown option was taken")
assert "zwire.pcap" in zs.register(spark)
sink = spark.range(500).selectExpr("'written/n' as key", "cast(id as string) as payload")
sink.write.format("zwire").mode("append").save(endpoints=endpoint, idempotence="attachment")
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
stream = stream.selectExpr("'written/n' as key", "cast(value as string) as payload")
query = stream.writeStream.format("zwire").options(endpoints=endpoint, idempotence="attachment")
query = query.option("checkpointLocation", folder).trigger(availableNow=True).start()
assert query.awaitTermination(120)
try:
    sink.withColumnRenamed("key", "kee").write.format("zwire").mode("append").save(endpoints=endpoint)
except Exception as error:
    assert "'kee' is not one of key" in str(error), error
else:
    raise AssertionError("a column that means nothing was taken")
print("done")
spark.stop()
"""


# What a spool holds is published, and shouted.
STREAMS = """
import json, sys
from pyspark.sql import SparkSession

endpoint, folder, spooled, peer = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
kept = spark.readStream.format("zwire").option("maxRowsPerTrigger", "60")
kept = kept.option("spool", spooled).option("startingOffsets", "earliest").load()
sent = kept.selectExpr("'kept/' || string(payload) as key", "payload", "shard", "offset")
query = sent.writeStream.format("zwire").trigger(availableNow=True)
query = query.options(endpoints=endpoint, idempotence="attachment", idColumns="shard,offset")
query = query.start(checkpointLocation=folder + "-kept")
assert query.awaitTermination(120)
# Unlike classic progress this has the rows of its sources alone.
seen = [each["sources"][0] for each in query.recentProgress if each["sources"][0]["numInputRows"]]
assert [each["numInputRows"] for each in seen] == [60, 40], query.recentProgress
lag = [json.loads(each["latestOffset"])["lag_rows"] for each in seen]
assert lag == [40, 0], lag
node = {"zre.beacons": "false", "zre.bind": "127.0.0.1", "zre.mailbox": "0", "zre.peers": peer}
shouted = kept.selectExpr("'G' as group", "payload as content")
query = shouted.writeStream.format("zre").options(**node).trigger(availableNow=True)
assert query.start(checkpointLocation=folder + "-zre").awaitTermination(120)
told = spark.range(10).selectExpr("'G' as group", "cast(id as string) as content")
told.write.format("zre").mode("append").options(**node).save()
assert spark.read.format("zwire.gaps").load(spooled).where("kind = 'drop'").count() == 1
assert spark.read.format("zwire").load(spooled).where("key = 'a/1'").count() == 20
try:
    spark.readStream.format("zwire").options(spool=spooled, maxRowPerTrigger="1").load().schema
except Exception as error:
    assert "did you mean 'maxRowsPerTrigger'" in str(error), error
else:
    raise AssertionError("an unknown option of a stream was taken")
print("done")
spark.stop()
"""


# The recipe of the guide: the function runs in a Python process of the server.
BATCHES = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from zwire import sink

folder, spooled = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)

def write(batch, number):
    from zwire import sink
    sink.delta(folder + "/lake").write(batch.toArrow(), name="levels", number=number)

kept = spark.readStream.format("zwire").options(startingOffsets="earliest", maxRowsPerTrigger="60")
for _ in range(2):
    query = kept.load(spooled).writeStream.foreachBatch(write).trigger(availableNow=True)
    query = query.option("checkpointLocation", folder + "/checkpoint").start()
    assert query.awaitTermination(120)
    assert query.exception() is None, query.exception()
    # As after a crash between the write and the note of it: Spark repeats the last batch.
    for note in Path(folder, "checkpoint", "commits").glob("*1*"):
        note.unlink()
rows = sink.delta(folder + "/lake").to_arrow()
assert sorted(map(int, rows.column("payload").to_pylist())) == list(range(100)), rows.num_rows
print("done")
spark.stop()
"""


def run(script, *arguments, folder):
    result = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert result.stdout.endswith("done\n")


@pytest.fixture
def listener():
    with zre.Node("listener", {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}) as node:
        node.join("G")
        yield node


@pytest.mark.timeout(300)
def test_everything_works_through_connect(endpoint, client, collected, tmp_path):
    subscriber = client.declare_subscriber("connect/*")
    written = client.declare_subscriber("written/*", zenoh.handlers.FifoChannel(10_000))
    queryable = client.declare_queryable(
        "twice/*", lambda q: q.reply(q.key_expr, str(2 * int(str(q.key_expr).split("/")[1])))
    )
    run(SCRIPT, endpoint, CAPTURE, tmp_path / "checkpoint", folder=tmp_path)
    assert len(collected(subscriber, 1000)) == 1000
    once = Filter()
    came = once.new(collected(written, 550))
    assert [int(sample.payload.to_bytes()) for sample in came[:500]].count(499) == 1
    assert len(came) == once.stats()["passed"] >= 550
    queryable.undeclare()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_streams_of_spools_and_sinks_go_through_connect(endpoint, client, collected, listener, tmp_path):
    kept = client.declare_subscriber("kept/*", zenoh.handlers.FifoChannel(10_000))
    with spool.Appender(tmp_path / "spool", shards=2) as appender:
        for number in range(100):
            appender.append(key=f"a/{number % 5}", payload=b"%d" % number)
        appender.append_gap(0, "drop", count=3)
    folders = (tmp_path / "checkpoint", tmp_path / "spool")
    run(STREAMS, endpoint, *folders, listener.endpoint, folder=tmp_path)
    came = Filter().new(collected(kept, 100))
    assert sorted(int(sample.payload.to_bytes()) for sample in came) == list(range(100))
    shouts = [event.content for event in listener.recv_many(1000, 5) if event.type == "SHOUT"]
    assert sorted(shouts) == sorted([b"%d" % number] for number in (*range(100), *range(10)))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_batches_of_a_stream_are_in_a_table_once_through_connect(tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        for number in range(100):
            appender.append(key=f"robot/{number % 5}", payload=str(number))
    run(BATCHES, tmp_path, tmp_path / "spool", folder=tmp_path)
