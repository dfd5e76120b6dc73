"""Spools in Spark: as tables and as streams, whole, in order, each row once, also while they are written."""

import ast
import json
import pickle
import shutil
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import functions as f

import zwire.spark as zs
from zwire import spool
from zwire.errors import SpoolLocked
from zwire.spark.sources import _spool, _stream
from zwire.spark.sources._logs import TABLES, columns_of

SECONDS = 60
# From 4.2 on Spark says where a batch begins and how large it may be, and shows what a source reports.
NEW = _stream.ADMISSION

pytestmark = pytest.mark.smoke


def write(folder, rows, *, first=0, shards=3, **options):
    """Numbered rows; number ``n`` was received ``n`` seconds after 1970."""
    with spool.Appender(folder, shards=shards, **options) as appender:
        for number in range(first, first + rows):
            appender.append(
                key=f"robot/{number % 5}",
                payload=b"%d" % number,
                recv_ts=number * 1_000_000,
            )
    return spool.open(folder)


def numbers(frame):
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


def run(frame, folder, name="out", **options):
    """Everything that is there, into files."""
    writer = frame.writeStream.format("parquet").trigger(availableNow=True).options(**options)
    query = writer.start(str(folder / name), checkpointLocation=str(folder / f"{name}-checkpoint"))
    assert query.awaitTermination(SECONDS)
    return query


def written(spark, folder, name="out"):
    return spark.read.parquet(str(folder / name))


def progress(query):
    return [(each["batchId"], each["numInputRows"]) for each in query.recentProgress if each["numInputRows"]]


def test_columns_are_what_spark_takes_from_arrow(as_arrow):
    for table in TABLES.values():
        rows = columns_of(table)
        assert rows.arrow().equals(as_arrow(rows.spark()))


def test_a_spool_is_a_table(spark, tmp_path):
    view = write(tmp_path, 1000)
    frame = spark.read.format("zwire").load(str(tmp_path))
    assert frame.columns == [
        "key",
        "payload",
        "kind",
        "encoding",
        "timestamp",
        "attachment",
        "recv_ts",
        "shard",
        "offset",
    ]
    assert numbers(frame) == list(range(1000))
    row = frame.where("shard = 1 and offset = 2").first()
    assert row.recv_ts.astimezone(UTC) == datetime.fromtimestamp(int(bytes(row.payload)), UTC)
    whole = spark.read.format("zwire").option("spool", f"file:{tmp_path}").option("columns", "all").load()
    assert whole.columns == [*zs.schema.SAMPLE.names, "spool"]
    assert {tuple(each) for each in whole.select("spool", "kind", "hlc").distinct().collect()} == {
        (view.id, "put", None)
    }
    ends = {
        each.shard: each.end for each in whole.groupBy("shard").agg(f.max("offset").alias("end")).collect()
    }
    assert ends == {shard: end - 1 for shard, end in view.end().items()}
    spark.sql(
        f"create or replace temporary view kept using zwire options (spool '{tmp_path}', columns 'offset')"
    )
    assert spark.sql("select count(*) from kept").first()[0] == 1000


def direct(folder, **options):
    """The rows that the tasks of a job would read, and the offsets that they look at."""
    schema = zs.schema.SAMPLE.select(["payload"]).spark()
    reader = _spool.reader({"spool": str(folder), **options}, schema, "zwire", "samples")
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    again = pickle.loads(pickle.dumps(reader))
    return [
        int(each) for part in parts for batch in again.read(part) for each in batch["payload"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": "90000"}, range(90, 100)),
        ({"endingTimestamp": "1970-01-01T00:00:05Z"}, range(5)),
        ({"startingTimestamp": "10000", "endingTimestamp": "12000"}, [10, 11]),
        ({"startingOffsetsByTimestamp": '{"0": 95000}', "endingTimestamp": "97000"}, [95, 96]),
        ({"endingOffsetsByTimestamp": '{"0": "1970-01-01T00:00:03Z"}'}, range(3)),
        ({"startingTimestamp": "99000", "startingOffsetsByTimestampStrategy": "error"}, [99]),
        ({"startingTimestamp": "99500"}, []),
        ({"startingOffsets": '{"0": 97}'}, [97, 98, 99]),
        ({"startingOffsets": '{"0": 50}', "endingOffsets": '{"0": 53}'}, [50, 51, 52]),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": '{"0": 98}', "endingOffsets": '{"0": 150}', "failOnDataLoss": "no"}, [98, 99]),
    ],
)
def test_a_part_of_a_spool_is_a_table(tmp_path, options, expected):
    write(tmp_path, 100, shards=1)
    assert direct(tmp_path, **options) == list(expected)


def test_keys_of_a_spool_are_chosen_by_an_option(spark, tmp_path):
    """In tables and in streams, which Spark hands no filters; the columns may lack the key."""
    write(tmp_path, 100)
    for keys, expected in (
        ("robot/1, robot/3", {1, 3}),
        ("robot/*", {0, 1, 2, 3, 4}),
        ("**/4", {4}),
        ("elsewhere/**", set()),
    ):
        options = {"spool": str(tmp_path), "keyFilter": keys, "columns": "payload"}
        found = spark.read.format("zwire").options(**options).load()
        assert numbers(found) == [number for number in range(100) if number % 5 in expected]
        assert found.columns == ["payload"]
    options = {"spool": str(tmp_path), "keyFilter": "robot/2", "startingOffsets": "earliest"}
    run(spark.readStream.format("zwire").options(**options).load(), tmp_path)
    assert numbers(written(spark, tmp_path)) == list(range(2, 100, 5))


def test_segments_without_the_keys_are_not_read(spark, tmp_path):
    """They may be gone; limits of batches do not count them, and offsets pass over them."""
    with spool.Appender(tmp_path / "in") as appender:
        for number in range(400):
            appender.append(
                key=f"robot/{number // 10 % 10}", payload=b"%d" % number, recv_ts=number * 1_000_000
            )
            if number % 10 == 9:
                appender.seal()
        appender.append_gap(0, "drop", count=3)
    view = spool.open(tmp_path / "in")
    assert view.plan(keys="robot/7")[:2] == (4, 36)
    for file in (tmp_path / "in" / "0").glob("*.arrow"):
        if int(file.stem) // 10 % 10 != 7:
            file.write_bytes(b"damaged")
    options = {"spool": str(tmp_path / "in"), "keyFilter": "robot/7/**", "columns": "payload"}
    expected = [number for number in range(400) if number // 10 % 10 == 7]
    assert numbers(spark.read.format("zwire").options(**options).load()) == expected
    options |= {"startingOffsets": "earliest", "maxRowsPerTrigger": "15"}
    query = run(spark.readStream.format("zwire").options(**options).load(), tmp_path)
    assert numbers(written(spark, tmp_path)) == expected
    if NEW:
        assert len(progress(query)) == 3, "40 rows, 15 in a batch"
        assert json.loads(query.recentProgress[-1]["sources"][0]["endOffset"])["s"] == {"0": 400}
    lost = spark.read.format("zwire.gaps").load(str(tmp_path / "in"))
    assert [row["count"] for row in lost.collect()] == [3]


def test_several_spools_are_one_table(spark, tmp_path):
    ids = [write(tmp_path / name, 10, first=first).id for name, first in (("a", 0), ("b", 10))]
    frame = spark.read.format("zwire").option("spools", f"{tmp_path}/a, {tmp_path}/b").load()
    assert frame.columns[-1] == "spool"
    assert numbers(frame) == list(range(20))
    assert {row.spool for row in frame.select("spool").distinct().collect()} == set(ids)


def test_gaps_are_a_table_and_a_stream(spark, tmp_path):
    with spool.Appender(tmp_path) as appender:
        for count in (3, 4):
            appender.append_gap(0, "drop", count=count)
    frame = spark.read.format("zwire.gaps").load(str(tmp_path))
    assert frame.columns == list(zs.schema.GAP.names)
    assert frame.where("kind = 'drop'").agg(f.sum("count")).first()[0] == 7
    options = {"spool": str(tmp_path), "startingOffsets": "earliest", "columns": "kind,count"}
    stream = spark.readStream.format("zwire.gaps").options(**options).load()
    run(stream, tmp_path)
    assert sorted(row["count"] for row in written(spark, tmp_path).collect()) == [3, 4]


def test_spools_of_zre_have_formats_of_their_own(spark, tmp_path):
    for table, row in (
        ("zre", {"type": "SHOUT", "peer": "0A" * 16, "headers": {"a": "b"}, "content": [b"x", b""]}),
        ("zre.log", {"level": 2, "event": 6, "node_hash": 65_535, "data": "text"}),
    ):
        folder = str(tmp_path / table)
        with spool.Appender(folder, table=table) as appender:
            appender.append(row)
        (found,) = spark.read.format(table).load(folder).collect()
        assert {name: found[name] for name in row} == row
        with pytest.raises(AnalysisException, match=rf"this spool holds {table}, not samples: .*{table!r}"):
            spark.read.format("zwire").load(folder)


@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        ("zwire", {"spool": "HERE/nothing"}, "there is no spool"),
        ("zwire", {"spool": ""}, "'spool' is missing"),
        ("zwire", {"spool": "hdfs://host/x"}, "hdfs is not one of s3, "),
        ("zwire", {"spool": "s3://key:secret@bucket/x"}, "credentials do not belong there"),
        ("zwire", {"spool": "HERE", "maxRowPerTrigger": "1"}, "did you mean 'maxRowsPerTrigger'"),
        ("zwire", {"spool": "HERE", "columns": "hlc,spol"}, "column 'spol' is not one of"),
        ("zwire", {"spool": "HERE", "endingOffsets": "x"}, "'endingOffsets' must be earliest"),
        ("zwire", {"spool": "HERE", "startingTimestamp": "noon"}, "'startingTimestamp' must be millisec"),
        (
            "zwire",
            {"spool": "HERE", "endingTimestamp": "2026-01-31"},
            "'endingTimestamp' has no zone: give 20",
        ),
        ("zwire", {"spool": "HERE", "maxTriggerDelay": "9m"}, "'maxTriggerDelay' needs minRowsPerTrigger"),
        (
            "zwire",
            {"spool": "HERE", "minPartitions": "9", "maxPartitions": "8"},
            "'minPartitions' is 9, and maxPartitions is 8",
        ),
        ("zwire", {"spool": "HERE", "endingOffsetsByTimestamp": "{}"}, r"has shards \[\] of spool"),
        ("zwire", {"spool": "HERE", "assign": "{}"}, "unknown option 'assign': all shards are read"),
        ("zwire", {"spool": "HERE", "subscribe": "robot/*"}, "'subscribe' and a spool exclude each other"),
        ("zwire", {"spool": "HERE", "consumer": "a b"}, "'consumer' must be"),
        ("zwire", {"spool": "HERE", "failOnDataLoss": "maybe"}, "must be true or false"),
        ("zwire", {"spool": "HERE", "keyFilter": "a//b"}, "'keyFilter' has 'a//b'"),
        ("zwire.gaps", {"spool": "HERE", "keyFilter": "a"}, "'keyFilter' is for samples"),
        ("zwire.gaps", {}, "'spool' is missing"),
    ],
)
def test_wrong_options_are_said_when_loading(spark, tmp_path, source, options, problem):
    write(tmp_path, 10)
    given = {name: value.replace("HERE", str(tmp_path)) for name, value in options.items()}
    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException, match=problem):
            reader.format(source).options(**given).load()


def test_options_of_the_other_use_are_refused_where_it_is_planned(spark, tmp_path):
    """Whether it becomes a table or a stream is known later than `load()`."""
    write(tmp_path, 10)
    reader = spark.read.format("zwire").options(spool=str(tmp_path), maxRowsPerTrigger="9")
    with pytest.raises(AnalysisException, match="'maxrowspertrigger' is for streams, and this is a table"):
        reader.load().collect()


def test_a_stream_waits_for_rows_and_tells_how_far_it_is_behind(spark, tmp_path):
    folder = tmp_path / "spool"
    view = write(folder, 30)
    options = {
        "spool": str(folder),
        "startingOffsets": "earliest",
        "groupId": "nightly",
        "minPartitions": "6",
    }
    stream = spark.readStream.format("zwire").options(**options, minOffsetsPerTrigger="20").load()
    tasks = f.spark_partition_id().alias("task")
    sink = stream.select("payload", tasks).writeStream.format("parquet")
    query = sink.start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
    try:
        wait(lambda: progress(query) == [(0, 30)])
        write(folder, 10, first=30)
        # A query that polls finds them, and makes no batch of them.
        wait(lambda: sum(view.consumers()["nightly"].values()) == 30)
        time.sleep(0.5)
        assert progress(query) == [(0, 30)]
        write(folder, 10, first=40)
        wait(lambda: progress(query) == [(0, 30), (1, 20)])
        last = query.lastProgress["sources"][0]
    finally:
        query.stop()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert numbers(found) == list(range(50))
    assert found.where("int(string(payload)) < 30").select("task").distinct().count() >= 6
    if NEW:
        said = json.loads(last["latestOffset"])
        assert [said[f"{which}OffsetsBehindLatest"] for which in ("avg", "max", "min")] == [0, 0, 0]
        # Of a source in Python Spark asks no metrics: they are in `latestOffset`.
        assert not last.get("metrics")


def wait(until):
    end = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_columns_that_a_spool_does_not_keep_are_missed_before_the_job(spark, tmp_path):
    write(tmp_path, 10, columns=["encoding"])
    frame = spark.read.format("zwire").schema("offset bigint, hlc bigint").load(str(tmp_path))
    with pytest.raises(AnalysisException, match="has 'hlc', which is not kept there"):
        frame.collect()


def test_offsets_that_are_not_there_fail_the_job(spark, tmp_path):
    write(tmp_path, 10, shards=1)
    frame = spark.read.format("zwire").options(spool=str(tmp_path), endingOffsets='{"0": 11}').load()
    with pytest.raises(AnalysisException, match=r"shard 0, offset 11: .* holds offsets 0 to 10"):
        frame.collect()


def test_a_stream_goes_on_where_it_was(spark, tmp_path):
    folder = tmp_path / "spool"
    write(folder, 250)
    options = {"spool": str(folder), "startingOffsets": "earliest", "maxRowsPerTrigger": "100"}
    stream = spark.readStream.format("zwire").options(**options).load()
    first = run(stream, tmp_path)
    assert [rows for _, rows in progress(first)] == ([100, 100, 50] if NEW else [250])
    consumers = list(spool.open(folder).consumers())
    assert len(consumers) == (1 if NEW else 0)
    ends = [each["sources"][0]["endOffset"] for each in first.recentProgress]
    # Before 4.2 PySpark shows what it has read as JSON in its own notation.
    assert (json.loads if NEW else ast.literal_eval)(ends[-1]) == {
        "v": 1,
        "spool": spool.open(folder).id,
        "s": {str(shard): end for shard, end in spool.open(folder).end().items()},
        **({"consumer": consumers[0]} if NEW else {}),
    }
    if NEW:
        said = json.loads(first.recentProgress[0]["sources"][0]["latestOffset"])
        assert (said["lag_rows"], said["dropped"], said["gaps"]) == (150, 0, 0)
    # Nothing new is no batch, however often it is started.
    assert progress(run(stream, tmp_path)) == []
    write(folder, 30, first=250)
    again = run(stream, tmp_path)
    assert [rows for _, rows in progress(again)] == [30]
    assert again.recentProgress[0]["sources"][0]["startOffset"] == ends[-1]
    assert list(spool.open(folder).consumers()) == consumers
    assert numbers(written(spark, tmp_path)) == list(range(280))


def test_two_queries_follow_one_spool_while_it_is_written(spark, tmp_path):
    folder = tmp_path / "spool"
    write(folder, 10, shards=1)
    options = {"spool": str(folder), "startingOffsets": "earliest", "maxRowsPerTrigger": "40"}
    stopped = threading.Event()
    count = [10]

    def traffic():
        with spool.Appender(folder) as appender:
            while not stopped.wait(0.02):
                appender.append(key="a", payload=b"%d" % count[0])
                appender.flush()
                count[0] += 1

    writer = threading.Thread(target=traffic)
    writer.start()
    try:
        queries = []
        for name in ("a", "b"):
            stream = spark.readStream.format("zwire").options(**options).load()
            sink = stream.writeStream.format("parquet").trigger(availableNow=True)
            queries.append(
                sink.start(str(tmp_path / name), checkpointLocation=str(tmp_path / f"{name}-checkpoint"))
            )
        # Both end, though more and more is there.
        assert all(query.awaitTermination(SECONDS) for query in queries)
    finally:
        stopped.set()
        writer.join()
    seen = [numbers(written(spark, tmp_path, name)) for name in ("a", "b")]
    for each in seen:
        assert each == list(range(len(each)))
        assert 10 <= len(each) <= count[0]
    assert len(spool.open(folder).consumers()) == (2 if NEW else 0)


def test_an_unfinished_batch_is_done_again_with_the_same_rows(spark, tmp_path):
    folder = tmp_path / "spool"
    write(folder, 100)
    stream = spark.readStream.format("zwire").options(spool=str(folder), startingOffsets="earliest").load()
    seen = []

    def sink(frame, batch):
        # Twice: a batch that is evaluated again is read again.
        seen.append((batch, [frame.orderBy("shard", "offset").collect() for _ in range(2)]))
        if len(seen) == 1:
            raise RuntimeError("the sink is away")

    writer = stream.writeStream.foreachBatch(sink).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="the sink is away"):
        writer.start().awaitTermination(SECONDS)
    write(folder, 50, first=100)
    assert writer.start().awaitTermination(SECONDS)
    if not NEW:
        assert len(seen) == 2, "a run of one batch has two"
        assert writer.start().awaitTermination(SECONDS)
    (first, rows), (again, same), (_, rest) = seen
    assert (first, again) == (0, 0)
    assert len(rows[0]) == 100
    assert rows[0] == rows[1] == same[0] == same[1]
    assert len(rest[0]) == 50


def test_a_query_can_receive_by_itself_and_ends_in_order(spark, endpoint, client, tmp_path):
    folder = tmp_path / "spool"
    options = {"keys": "own/**", "endpoint": endpoint, "spool": str(folder), "startingOffsets": "earliest"}
    stream = spark.readStream.format("zwire").options(**options).load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.start(str(tmp_path / "out"))
    publisher = client.declare_publisher("own/a")
    wait(lambda: publisher.matching_status.matching and (folder / "marks").exists())
    for number in range(50):
        publisher.put(str(number))
    view = spool.open(folder)
    wait(lambda: view.end() == {0: 50})
    query.processAllAvailable()
    assert numbers(written(spark, tmp_path)) == list(range(50))
    query.stop()
    # Spark ends the process that receives with a signal, and does not wait for it.
    (file,) = (folder / "0").glob("*.arrow")
    wait(lambda: file.read_bytes().endswith(b"ARROW1"))
    wait(lambda: free(folder))
    assert query.exception() is None


ENDS = """
import sys
import zwire.spark as zs
from zwire.spark.sources import _stream

given = {"keys": "own/**", "endpoint": sys.argv[1], "spool": sys.argv[2]}
reader = _stream.SpoolStreamReader(given, zs.schema.SAMPLE.select(["payload"]).spark(), "zwire", "samples")
try:
    reader.initialOffset()
    print("ready", flush=True)
    sys.stdin.readline()
finally:
    reader.stop()
"""


@pytest.mark.parametrize("close_first", [False, True])
def test_a_signal_ends_receiving_in_order(endpoint, client, tmp_path, close_first):
    command = [sys.executable, "-c", ENDS, endpoint, str(tmp_path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    client.put("own/x", "1")
    wait(lambda: spool.open(tmp_path).end() == {0: 1})
    if close_first:
        child.stdin.close()
        child.stdin = None
    child.terminate()
    child.communicate(timeout=SECONDS)
    assert child.returncode == 0
    (file,) = (tmp_path / "0").glob("*.arrow")
    assert file.read_bytes().endswith(b"ARROW1")


def test_a_temporary_spool_goes_with_its_query(endpoint, client, caplog):
    schema = zs.schema.SAMPLE.select(["payload"]).spark()
    reader = _stream.SpoolStreamReader({"keys": "own/**", "endpoint": endpoint}, schema, "zwire", "samples")
    reader.initialOffset()
    folder = Path(reader._embedded.folder)
    assert "what is sent while it does not run" in caplog.text
    client.put("own/x", "1")
    wait(lambda: spool.open(folder).end() == {0: 1})
    reader.stop()
    assert not folder.exists()


def free(folder):
    try:
        spool.Appender(folder).close()
    except SpoolLocked:
        return False
    return True


def test_another_spool_ends_a_query_unless_loss_is_allowed(spark, tmp_path):
    folder = tmp_path / "spool"
    write(folder, 20)
    options = {"spool": str(folder), "startingOffsets": "earliest"}
    run(spark.readStream.format("zwire").options(**options).load(), tmp_path)
    shutil.rmtree(folder)
    write(folder, 5, first=100)
    stream = spark.readStream.format("zwire").options(**options)
    with pytest.raises(StreamingQueryException, match=r"the query has read spool .* until now"):
        run(stream.load(), tmp_path)
    run(stream.option("failOnDataLoss", "false").load(), tmp_path)
    assert numbers(written(spark, tmp_path)) == [*range(20), *range(100, 105)]


def test_damage_fails_the_task_with_shard_and_offset(spark, tmp_path):
    write(tmp_path, 100, shards=1)
    (file,) = (tmp_path / "0").glob("*.arrow")
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    with pytest.raises(PythonException, match=r"SpoolCorrupt: shard 0, offset 0: .*arrow: .*checksum"):
        spark.read.format("zwire").load(str(tmp_path)).collect()
