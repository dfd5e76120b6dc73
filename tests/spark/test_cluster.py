"""Jobs on a standalone cluster of two workers: executors share nothing with the driver but what travels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zwire import zenoh
from zwire.idempotence import Filter

SCRIPT = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as f
import zwire.spark as zs

master, endpoint, tests = sys.argv[1:]
sys.path.insert(0, tests)
import cluster

builder = SparkSession.builder.master(master).config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
for name, value in cluster.SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
keys = f.format_string("%s/%d", f.lit("put"), f.col("id")).alias("key")
rows = spark.range(0, 1000, 1, 2).select(keys, f.col("id").cast("string").alias("payload"))
summary = zs.put(rows, endpoint)
assert sum(row.rows for row in summary.collect()) == 1000

asked = spark.range(0, 20, 1, 2).select(f.format_string("twice/%d", "id").alias("ask"), "id")
rows = zs.get(asked, "ask", endpoint).collect()
assert [int(bytes(row.payload)) for row in rows] == [2 * row.id for row in rows], rows
assert len(rows) == 20


def fail_once(batches):
    for number, batch in enumerate(batches):
        if number == 3 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt")
        yield batch


payload = f.rpad(f.col("id").cast("string"), 1000, " ").alias("payload")
sink = spark.range(0, 1000, 1, 2).select(f.lit("sink/n").alias("key"), payload)
sink = sink.mapInArrow(fail_once, "key string, payload string")
sink.write.format("zwire").mode("append").save(
    endpoints=endpoint, idempotence="attachment", ack="barrier", receipts="sink"
)
spark.stop()
print("done")
"""


@pytest.mark.long
@pytest.mark.timeout(170)
def test_a_cluster_of_two_workers(cluster, hub, endpoint, tmp_path):
    master, _ = cluster
    once, passed = Filter(), []

    def take(sample):
        if once.is_new(sample):
            passed.append(int(sample.payload.to_bytes()))

    put = hub.declare_subscriber("put/*", zenoh.handlers.FifoChannel(10_000))
    hub.declare_subscriber("sink/**", take)
    once.receipts(hub, "sink")
    hub.declare_queryable("twice/*", lambda q: q.reply(q.key_expr, str(2 * int(str(q.key_expr)[6:]))))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, master, endpoint, str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.endswith("done\n")
    assert len(put.handler) == 1000
    # Receipts have said so, or the job would have failed.
    assert sorted(passed) == list(range(1000))
    assert once.stats()["repeated"] > 0, "the first attempts have sent nothing, so nothing was shown"
