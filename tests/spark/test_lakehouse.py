"""Batches of a stream in tables of Delta, Iceberg and Parquet: each once, also if Spark repeats one."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sinking
from zwire import spool

ROWS = 1000
KILLS = int(os.environ.get("ZWIRE_SINK_KILLS", "8"))
SEED = int(os.environ.get("ZWIRE_SINK_SEED", "11"))


def filled(folder, rows=ROWS):
    with spool.Appender(folder, shards=2) as appender:
        for number in range(rows):
            appender.append(key=f"robot/{number % 5}", payload=str(number))
    return str(folder)


def check(table, rows=ROWS):
    payloads = [int(payload) for payload in table.to_arrow().column("payload").to_pylist()]
    assert sorted(payloads) == list(range(rows))


def stream(spark, source, checkpoint, write, rows=200):
    options = {"startingOffsets": "earliest", "maxRowsPerTrigger": rows, "consumer": "none"}
    frame = spark.readStream.format("zwire").options(**options).load(source)
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    return query.trigger(availableNow=True).start()


@pytest.mark.parametrize("form", sinking.FORMATS)
def test_a_batch_that_spark_repeats_is_in_the_table_once(spark, tmp_path, form):
    from pyspark.errors import StreamingQueryException

    source = filled(tmp_path / "spool")
    table = sinking.table(form, tmp_path)
    # Failures before and behind the commit of the table, each once.
    failures = {(1, "before"), (2, "behind"), (3, "before"), (3, "behind")}
    seen = []

    def fail(number, when):
        if (number, when) in failures:
            failures.discard((number, when))
            raise RuntimeError(f"{when} batch {number}")

    def write(batch, number):
        fail(number, "before")
        seen.append((number, table.write(batch.toArrow(), name="stream", number=number)))
        fail(number, "behind")
        if form != "iceberg" and number == 2:
            table.compact()

    for _ in range(5):
        query = stream(spark, source, tmp_path / "checkpoint", write)
        try:
            query.awaitTermination(60)
            break
        except StreamingQueryException:
            continue
    assert not failures
    assert seen == [(0, True), (1, True), (2, True), (2, False), (3, True), (3, False), (4, True)]
    check(table)
    columns = {"key", "payload", "kind", "encoding", "timestamp", "attachment", "recv_ts", "shard", "offset"}
    assert set(table.schema().names) == columns


def follow(form, source, folder):
    """A driver that follows a spool until it is killed, or the table has its rows."""
    sys.path.insert(0, str(Path(__file__).parent))
    from pyspark.sql import SparkSession

    from conftest import SETTINGS

    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def write(batch, number):
        table = sinking.table(form, folder)
        table.write(batch.toArrow(), name="stream", number=number)
        if form != "iceberg" and number % 10 == 9:
            table.compact()
        print(f"batch {number}", flush=True)

    stream(spark, source, Path(folder, "checkpoint"), write, rows=100).awaitTermination()
    print("done", flush=True)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", sinking.FORMATS)
def test_no_row_is_lost_or_twice_when_the_driver_is_killed(tmp_path, form):
    rows = 20_000
    source = filled(tmp_path / "spool", rows)
    paths = [str(Path(sinking.__file__).parent), os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    chance, killed, log = random.Random(SEED), 0, tmp_path / "log"
    for _ in range(4 * KILLS):
        said = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            words = [sys.executable, __file__, form, source, str(tmp_path)]
            driver = subprocess.Popen(words, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            # The first batch of a driver takes seconds, later ones tenths.
            end = time.monotonic() + 90
            while b"batch" not in log.read_bytes()[said:] and driver.poll() is None:
                assert time.monotonic() < end, log.read_text()[-2000:]
                time.sleep(0.02)
            if killed < KILLS:
                time.sleep(chance.uniform(0, 1.0))
            else:
                assert driver.wait(300) == 0, log.read_text()[-2000:]
        finally:
            ended = driver.poll()
            if ended is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
                killed += 1
        if ended is not None:
            assert ended == 0, log.read_text()[-2000:]
            break
    check(sinking.table(form, tmp_path), rows)
    print(f"{form}: {killed} kills, {log.read_text().count('batch ')} batches written or found")
    assert killed == KILLS


if __name__ == "__main__":
    follow(*sys.argv[1:])
