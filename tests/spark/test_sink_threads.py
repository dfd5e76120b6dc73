"""Sinks in threads, in pools of threads and in ``foreachBatch``, of classic sessions and of Connect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zwire import zenoh, zre

pytestmark = pytest.mark.smoke

# The same program for both kinds of sessions, which cannot live in one process.
SCRIPT = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
import zwire.spark as zs

kind, tests, endpoint, peer, folder = sys.argv[1:]
if kind == "connect":
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
else:
    sys.path.insert(0, tests)
    from cluster import SETTINGS

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

OPTIONS = {
    "zwire": {"endpoints": endpoint},
    "zre": {"zre.beacons": "false", "zre.bind": "127.0.0.1", "zre.mailbox": "0", "zre.peers": peer},
}
COLUMNS = {
    "zwire": ("'sent/' || part as key", "part as payload"),
    "zre": ("'G' as group", "part as content"),
}


def save(frame, format, options):
    frame.write.format(format).mode("append").options(**options).save()


def rows(format, *parts):
    frame = spark.createDataFrame([(part,) for part in parts], "part string")
    return frame.selectExpr(*COLUMNS[format])


for format, options in OPTIONS.items():
    failed = []

    def thread(part):
        try:
            zs.register(spark)
            save(rows(format, part), format, options)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread, args=(f"{format}-thread-{n}",)) for n in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed, failed

    with ThreadPoolExecutor(2, initializer=zs.register, initargs=(spark,)) as pool:
        list(pool.map(lambda n: save(rows(format, f"{format}-pool-{n}"), format, options), range(3)))

    def batch(frame, number, format=format, options=options, columns=COLUMNS[format]):
        named = frame.selectExpr(f"'{format}-batch-' || value as part").selectExpr(*columns)
        named.write.format(format).mode("append").options(**options).save()

    # Two halves of a batch at once.
    def shared(frame, number, format=format, options=options, columns=COLUMNS[format]):
        from concurrent.futures import ThreadPoolExecutor

        import zwire.spark

        def half(rest):
            named = frame.where(f"value % 2 = {rest}").selectExpr(f"'{format}-shared-' || value as part")
            named.selectExpr(*columns).write.format(format).mode("append").options(**options).save()

        session = frame.sparkSession
        with ThreadPoolExecutor(2, initializer=zwire.spark.register, initargs=(session,)) as pool:
            list(pool.map(half, range(2)))

    for name, function in (("batch", batch), ("shared", shared)):
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "4").load()
        writer = source.writeStream.foreachBatch(function).trigger(once=True)
        query = writer.option("checkpointLocation", f"{folder}/{format}-{name}").start()
        assert query.awaitTermination(100)
        assert query.exception() is None
print("done")
spark.stop()
"""


@pytest.fixture
def listener():
    with zre.Node("listener", {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}) as node:
        node.join("G")
        yield node


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classic", "connect"])
@pytest.mark.timeout(240)
def test_rows_arrive_from_threads_pools_and_functions_of_batches(
    kind, endpoint, client, collected, listener, tmp_path
):
    expected = {f"thread-{n}" for n in range(3)} | {f"pool-{n}" for n in range(3)}
    expected |= {f"{name}-{n}" for name in ("batch", "shared") for n in range(4)}
    subscriber = client.declare_subscriber("sent/*", zenoh.handlers.FifoChannel(10_000))
    # A server of Connect on a free port: that of Spark is the same for all on a machine.
    port = {"SPARK_TESTING": "1"} if kind == "connect" else {}
    arguments = (kind, Path(__file__).parents[1], endpoint, listener.endpoint, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **port},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.endswith("done\n")
    came = [sample.payload.to_string() for sample in collected(subscriber, len(expected))]
    assert sorted(came) == sorted(f"zwire-{part}" for part in expected)
    shouts = [event.content for event in listener.recv_many(1000, 5) if event.type == "SHOUT"]
    assert sorted(shouts) == sorted([f"zre-{part}".encode()] for part in expected)
