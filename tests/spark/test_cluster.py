"""A standalone master with two workers of one core each, from the package of PySpark alone.

Executors are JVMs of their own here, each with a daemon that forks its Python workers: nothing is shared with
the driver but what travels.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from zwire import zenoh
from zwire.idempotence import Filter

PATIENCE = 60.0

SCRIPT = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as f
import zwire.spark as zs

master, endpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.log.level", "FATAL")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "30s")
    .config("spark.cores.max", "2")
    .config("spark.python.unix.domain.socket.enabled", "true")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
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


def spark_class(name, *arguments, log, **environment):
    """Start a part of Spark as the scripts of its full distribution do."""
    home = Path(pyspark.__file__).parent
    settings = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    settings["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings["PYSPARK_PYTHON"] = sys.executable
    return subprocess.Popen(
        [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, **settings, **environment},
    )


def said(log, pattern, process):
    """Wait until a log has a line, and give what the pattern finds in it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        log.seek(0)
        text = log.read().decode(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(f"no {pattern!r} within {PATIENCE} s:\n{text}")


@contextmanager
def started(*arguments):
    """A process and its log; it is ended behind the block."""
    with tempfile.TemporaryFile() as log:
        process = spark_class(*arguments, log=log)
        try:
            yield process, log
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


@pytest.fixture
def master(tmp_path):
    """The address of a master that two workers have registered with."""
    local = ("--host", "127.0.0.1", "--webui-port", "0")
    with started("master.Master", *local, "--port", "0") as (process, log):
        address = said(log, r"Starting Spark master at (spark://[\d.:]+)", process)
        workers = ("worker.Worker", *local, "-c", "1", "-m", "1g", "-d")
        with (
            started(*workers, str(tmp_path / "1"), address) as one,
            started(*workers, str(tmp_path / "2"), address) as two,
        ):
            for worker, output in (one, two):
                said(output, r"(Successfully registered)", worker)
            yield address


@pytest.mark.timeout(170)
def test_a_cluster_of_two_workers(master, hub, endpoint, tmp_path):
    once, passed = Filter(), []

    def take(sample):
        if once.is_new(sample):
            passed.append(int(sample.payload.to_bytes()))

    put = hub.declare_subscriber("put/*", zenoh.handlers.FifoChannel(10_000))
    hub.declare_subscriber("sink/**", take)
    once.receipts(hub, "sink")
    hub.declare_queryable("twice/*", lambda q: q.reply(q.key_expr, str(2 * int(str(q.key_expr)[6:]))))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, master, endpoint],
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
