"""Tiers of spools in Spark: rows that are in an object store alone, with no spooler and no folder."""

import itertools
import os
import shutil
import subprocess
import sys

import pytest

import objects
from nodes import eventually
from zwire import spool, zenoh
from zwire.spark.sources._logs import is_store
from zwire.spark.sources._options import Options
from zwire.spark.sources._spool import READ, folders

SECONDS = 60
ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}


def keep(folder, url, first, rows):
    """Numbered rows of a spooler with a tier; they are in it when this returns."""
    with (
        zenoh.open(zenoh.Config(ALONE)) as session,
        spool.Spooler(
            folder, "robot/**", session=session, shards=2, segment_bytes=20_000, tier=url
        ) as keeper,
    ):
        for number in range(first, first + rows):
            block = zenoh.CongestionControl.BLOCK
            session.put(
                f"robot/{number % 5}", b"%d" % number, attachment=bytes(500), congestion_control=block
            )
            if number % 20 == 0:
                assert keeper.flush(10)
    assert spool.open(url).end() == spool.open(folder).end()


def numbers(frame):
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


def test_addresses_of_stores_are_no_paths(tmp_path):
    given = {"spool": f"s3://bucket/a,{tmp_path},file://{tmp_path}/b,gs://c/d"}
    assert folders(Options("zwire", given, READ)) == [
        "s3://bucket/a",
        str(tmp_path),
        f"{tmp_path}/b",
        "gs://c/d",
    ]
    assert [is_store(name) for name in ("s3://a", "file:///a", "/a", "zwire:00")] == [
        True,
        False,
        False,
        False,
    ]


def test_a_stream_goes_on_in_the_tier_where_it_stopped_in_the_folder(spark, tmp_path):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'tier'}"
    keep(folder, url, 0, 100)

    def run(place):
        options = {"spool": place, "startingOffsets": "earliest", "consumer": "none"}
        read = spark.readStream.format("zwire").options(**options).load()
        write = read.writeStream.format("parquet").trigger(availableNow=True)
        query = write.start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        assert query.awaitTermination(SECONDS)
        return numbers(spark.read.parquet(str(tmp_path / "out")))

    assert run(str(folder)) == list(range(100))
    keep(folder, url, 100, 50)
    shutil.rmtree(folder)
    assert run(url) == list(range(150)), "each row once"
    table = spark.read.format("zwire").option("spool", url)
    assert numbers(table.load()) == list(range(150))
    assert table.load().where("offset >= 10 and shard = 1").count() == spool.open(url).end()[1] - 10
    with pytest.raises(Exception, match="there is no spool"):
        spark.read.format("zwire").option("spool", f"{url}2").load().count()


@pytest.mark.long
def test_a_stream_follows_another_number_of_shards_with_each_key_in_order(spark, tmp_path):
    url = f"file://{tmp_path / 'tier'}"
    given = {"shards": 2, "tier": url, "spread": True, "segment_seconds": 0.3}
    with (
        zenoh.open(zenoh.Config(ALONE)) as session,
        spool.Spooler(tmp_path / "one", "robot/**", session=session, **given) as keeper,
    ):
        for first, shards in ((0, 3), (100, 1), (200, None)):
            eventually(lambda: keeper.stats()["lease"]["state"] == "holding", within=20)
            for number in range(first, first + 100):
                block = zenoh.CongestionControl.BLOCK
                session.put(f"robot/{number % 5}", b"%d" % number, congestion_control=block)
            if shards is not None:
                spool.reshard(url, shards, timeout=30)
    batches = []

    def look(batch, _number):
        rows = batch.select("key", "payload").collect()
        batches.append([(row.key, int(bytes(row.payload))) for row in rows])

    options = {"spool": url, "startingOffsets": "earliest", "consumer": "none"}
    read = spark.readStream.format("zwire").options(**options).load()
    query = read.writeStream.foreachBatch(look).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(SECONDS)
    assert sorted(number for batch in batches for _, number in batch) == list(range(300)), "each row once"
    assert len(batches) >= 3, "a batch ends at a change"
    for key in {key for batch in batches for key, _ in batch}:
        each = [[number for other, number in batch if other == key] for batch in batches]
        each = [numbers for numbers in each if numbers]
        assert all(max(one) < min(two) for one, two in itertools.pairwise(each)), f"{key} is out of order"
    assert numbers(spark.read.format("zwire").option("spool", url).load()) == list(range(300))


S3 = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()
frame = spark.read.format("zwire").option("spool", sys.argv[1]).load()
found = sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())
print("rows", found == list(range(100)))
print("plan", "secret" in frame._jdf.queryExecution().toString())
"""


@pytest.mark.long
def test_a_stream_goes_on_when_segments_of_the_tier_are_merged(spark, tmp_path):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'tier'}"
    with spool.Appender(folder, shards=2) as appender:
        for number in range(120):
            appender.append(key=f"robot/{number % 5}", payload=b"%d" % number)
            appender.seal()
    keep(folder, url, 120, 30)
    merged = []

    def write(batch, number):
        batch.write.mode("append").parquet(str(tmp_path / "out"))
        if number == 1:
            merged.append(spool.compact(url, segment_bytes=200_000, grace_seconds=1))

    options = {"spool": url, "startingOffsets": "earliest", "consumer": "none", "maxRowsPerTrigger": "25"}
    read = spark.readStream.format("zwire").options(**options).load()
    before = sorted(read_rows(spark, url))
    query = read.writeStream.foreachBatch(write).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(SECONDS)
    assert merged[0].segments > 60
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(150)), "each row once"
    assert sorted(read_rows(spark, url)) == before


def read_rows(spark, place):
    columns = ["shard", "offset", "key", "payload", "recv_ts"]
    rows = spark.read.format("zwire").option("spool", place).load().select(*columns).collect()
    return [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows]


def test_a_bucket_is_a_table_with_the_credentials_of_the_processes(tmp_path, monkeypatch):
    with objects.store() as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        url = server.bucket("robots")
        keep(tmp_path / "spool", url, 0, 100)
        shutil.rmtree(tmp_path / "spool")
        done = subprocess.run(
            [sys.executable, "-c", S3, url],
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert "rows True\nplan False\n" in done.stdout, done.stderr[-3000:]
