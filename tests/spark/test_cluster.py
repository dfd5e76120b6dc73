"""Jobs on a standalone cluster of two workers: executors share nothing with the driver but what travels."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cluster as standalone
import crash
import nodes
import snippets
from interop.certificates import Authority
from zwire import spool, zenoh
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


# Stages of a job while the test kills what runs it: each task leaves a note when it begins.
KILLED = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as f
import zwire.spark as zs

master, tests, folder, spools, endpoint, stages, more = sys.argv[1:]
sys.path.insert(0, tests)
import cluster

builder = SparkSession.builder.master(master).config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
for name, value in cluster.SETTINGS.items():
    builder = builder.config(name, value)
for pair in more.split():
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()


def slow(stage):
    notes = Path(folder, stage)
    notes.mkdir()

    def through(batches):
        import time, uuid
        from pathlib import Path

        Path(folder, stage, uuid.uuid4().hex).touch()
        for batch in batches:
            time.sleep(0.2)
            yield batch

    return through


def numbers(frame):
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


def batch(stage):
    frame = spark.read.format("zwire").options(spool=spools, maxRecordsPerPartition="100").load()
    print("tasks", frame.rdd.getNumPartitions(), flush=True)
    return numbers(frame.mapInArrow(slow(stage), frame.schema))


def stream(stage):
    options = {"spool": spools, "startingOffsets": "earliest", "maxRowsPerTrigger": "600"}
    frame = spark.readStream.format("zwire").options(**options, maxRecordsPerPartition="100").load()
    frame = frame.mapInArrow(slow(stage), frame.schema)
    sink = frame.writeStream.format("parquet").trigger(availableNow=True)
    query = sink.start(f"{folder}/{stage}-out", checkpointLocation=f"{folder}/{stage}-checkpoint")
    assert query.awaitTermination(150), query.status
    assert query.exception() is None
    return numbers(spark.read.parquet(f"{folder}/{stage}-out"))


def write(stage):
    frame = spark.range(0, 1200, 1, 12)
    frame = frame.selectExpr("'sink/n' as key", "cast(id as string) as payload")
    frame = frame.mapInArrow(slow(stage), frame.schema)
    options = {"idempotence": "attachment", "ack": "barrier", "receipts": "sink"}
    frame.write.format("zwire").mode("append").save(endpoints=endpoint, **options)
    return list(range(1200))


for stage in stages.split():
    found = {"batch": batch, "stream": stream, "write": write}[stage.partition("-")[0]](stage)
    assert found == list(range(1200)), (stage, len(found), len(set(found)))
    print("done", stage, flush=True)
spark.stop()
"""


def filled(folder):
    """Two spools with 1,200 numbered rows, as the value of the option."""
    for name, first in (("a", 0), ("b", 600)):
        with spool.Appender(folder / name, shards=2) as appender:
            for number in range(first, first + 600):
                appender.append(key=f"k/{number}", payload=b"%d" % number)
                if number % 50 == 49:
                    appender.flush()
    return f"{folder / 'a'},{folder / 'b'}"


@contextlib.contextmanager
def job(tmp_path, master, endpoint, stages, more=""):
    """The job as a process; it must succeed within the block."""
    notes = tmp_path / "notes"
    notes.mkdir()
    arguments = (master, Path(__file__).parents[1], notes, filled(tmp_path), endpoint, stages, more)
    log = tmp_path / "job.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, *map(str, arguments)],
            stdout=out,
            stderr=out,
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        yield notes, process
        assert process.wait(170) == 0, log.read_text()[-6000:]
    finally:
        process.kill()
        process.wait()
    assert [line for line in log.read_text().splitlines() if line.startswith("done")] == [
        f"done {stage}" for stage in stages.split()
    ]


def within(notes, stage, process, *, begun=3):
    """Wait until some tasks of a stage have begun; return how many there are."""
    end = time.monotonic() + 120
    while not (notes / stage).is_dir() or len(list((notes / stage).iterdir())) < begun:
        assert process.poll() is None, "the job has ended"
        assert time.monotonic() < end, stage
        time.sleep(0.02)
    time.sleep(0.1)


def attempts(notes, stage):
    return len(list((notes / stage).iterdir()))


def executors(workers):
    return crash.pids([worker.pid for worker in workers], crash.EXECUTOR)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_executors_are_killed_under_a_batch_a_stream_and_a_write(cluster, hub, endpoint, tmp_path):
    """Of two spools that are read as one; receivers have each row once."""
    master, workers = cluster
    once, passed = Filter(), []

    def take(sample):
        if once.is_new(sample):
            passed.append(int(sample.payload.to_bytes()))

    hub.declare_subscriber("sink/**", take)
    once.receipts(hub, "sink")
    with job(tmp_path, master, endpoint, "batch stream write") as (notes, process):
        for stage in ("batch", "stream", "write"):
            within(notes, stage, process)
            running = executors(workers)
            assert running
            assert crash.end(running[-1])
    assert sorted(passed) == list(range(1200))
    # Tasks that a killed executor had begun have begun again.
    assert all(attempts(notes, stage) > 12 for stage in ("batch", "stream", "write"))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_worker_is_decommissioned_and_another_one_is_lost(endpoint, tmp_path):
    """The other one does the rest of the work each time."""
    settings = "spark.decommission.enabled=true"
    stages = "batch-decommissioned stream-decommissioned batch-lost stream-after"
    with (
        standalone.cluster(tmp_path / "cluster") as (master, workers),
        job(tmp_path, master, endpoint, stages, settings) as (notes, process),
    ):
        for stage in ("batch-decommissioned", "stream-decommissioned"):
            within(notes, stage, process)
            running = executors(workers)
            assert running
            # As a cluster manager announces the end of an executor, which finishes its tasks.
            os.kill(running[-1], signal.SIGPWR)
            nodes.eventually(lambda: running[-1] not in executors(workers), within=60)  # noqa: B023
        within(notes, "batch-lost", process)
        # The worker with the oldest executor, which has a task, and all that it runs, at once.
        busy = min((each for each in workers if executors([each])), key=lambda each: executors([each])[0])
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait(20)
    tasks = re.search(r"tasks (\d+)", (tmp_path / "job.log").read_text())[1]
    assert attempts(notes, "batch-decommissioned") == int(tasks), "no task has run twice"
    assert attempts(notes, "batch-lost") > int(tasks)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_examples_run_there_by_one_command(tmp_path):
    folder = snippets.ROOT / "examples/spark"
    programs = sorted(str(file) for file in folder.glob("*.py") if file.stem != "robots")
    done = subprocess.run(
        [sys.executable, standalone.__file__, *programs],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.count("== ") == len(programs) >= 5
    for line in ("0 rows in zwire.gaps", "0 came again", "answered: ", " messages, 1 errors", " records"):
        assert line in done.stdout, (line, done.stdout[-3000:])
    assert list(tmp_path.iterdir()) == [], "what they write is in a folder of the command"


ALLOCATED = """
import sys, time
from pyspark.sql import SparkSession

master, tests, folder, endpoint, authority, identity = sys.argv[1:]
sys.path.insert(0, tests)
import cluster

builder = SparkSession.builder.master(master)
for name, value in cluster.SETTINGS.items():
    builder = builder.config(name, value)
for name, value in {
    "dynamicAllocation.enabled": "true",
    "dynamicAllocation.shuffleTracking.enabled": "true",
    "dynamicAllocation.shuffleTracking.timeout": "2s",
    "dynamicAllocation.minExecutors": "0",
    "dynamicAllocation.executorIdleTimeout": "2s",
    "dynamicAllocation.schedulerBacklogTimeout": "1s",
    "executorEnv.SPOOL_PASSWORD": "open sesame",
    "scheduler.minRegisteredResourcesRatio": "0",
}.items():
    builder = builder.config(f"spark.{name}", value)
spark = builder.getOrCreate()
tracker = spark.sparkContext._jsc.sc().getExecutorMemoryStatus


def executors():
    # The driver is one of them.
    return tracker().size() - 1


def wait(until):
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, executors()
        time.sleep(0.1)


options = {
    "endpoints": endpoint,
    "zenoh.transport.link.tls.root_ca_certificate": authority,
    "zenoh.transport.auth.usrpwd.user": "spark",
    "zenoh.transport.auth.usrpwd.password": "env:SPOOL_PASSWORD",
    "spool": "zwire:" + identity,
}
table = spark.read.format("zwire").options(**options, maxRecordsPerPartition="100").load()
for _ in range(2):
    assert table.count() == 600
    assert executors() > 0
    # The sessions go with their executors; the next job opens others.
    wait(lambda: executors() == 0)
stream = spark.readStream.format("zwire").options(**options, startingOffsets="earliest").load()
sink = stream.writeStream.format("parquet").trigger(availableNow=True)
query = sink.start(folder + "/out", checkpointLocation=folder + "/checkpoint")
assert query.awaitTermination(100)
rows = spark.read.parquet(folder + "/out").select("payload").collect()
assert sorted(int(bytes(row.payload)) for row in rows) == list(range(600))
try:
    options["zenoh.transport.auth.usrpwd.user"] = "other"
    spark.read.format("zwire").options(**options).load().count()
except Exception as error:
    assert "AuthenticationError" in str(error) or "credential" in str(error).lower(), error
else:
    raise AssertionError("a user that is not listed has read")
spark.stop()
print("done")
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_executors_that_come_and_go_read_a_range_server_with_tls_and_users(cluster, tmp_path):
    master, _ = cluster
    filled(tmp_path)
    authority = Authority(tmp_path)
    certificate, key = authority.issue("hub")
    users = tmp_path / "users"
    users.write_text("spark:open sesame\nhub:own\n")
    users.chmod(0o600)
    settings = {
        "transport__link__tls__listen_certificate": str(certificate),
        "transport__link__tls__listen_private_key": str(key),
        "transport__auth__usrpwd__user": "hub",
        "transport__auth__usrpwd__password": "own",
        "transport__auth__usrpwd__dictionary_file": str(users),
    }
    # The driver plans, so it needs the variable of the workers, too.
    environment = {**os.environ, "SPOOL_PASSWORD": "open sesame", "PYTHONWARNINGS": "ignore"}
    with (
        nodes.opened("router", listen=["tls/127.0.0.1:0"], **settings) as hub,
        spool.serve(tmp_path / "a", session=hub) as server,
    ):
        arguments = (
            master,
            Path(__file__).parents[1],
            tmp_path,
            hub.listening()[0],
            authority.file,
            server.id,
        )
        done = subprocess.run(
            [sys.executable, "-c", ALLOCATED, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
            cwd=tmp_path,
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.endswith("done\n")
