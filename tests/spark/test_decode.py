"""Captures in columns and partitions become rows, and the rows say what the applications say."""

import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f

import zwire.spark as zs
from truth import comparable, facts, keys, missing, multiply, path, seen
from zwire import capture

# One of each kind of link, and of each thing that a decoder has to undo.
NAMES = ["pubsub-basic", "declared-keyexpr", "query", "router", "compression", "fragmented", "old-version"]


def expected(name, **options):
    """Rows as the decoder itself gives them."""
    batches = [pa.record_batch(batch) for batch in capture.decode(path(name), **options)]
    return [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()]


def plain(rows):
    """Rows without the name of the file, and with times that compare."""
    return [tuple(map(comparable, row[:-1])) for row in rows]


def timed(rows):
    return [tuple(map(comparable, row)) for row in rows]


def test_a_column_of_contents_decodes_to_the_truth(spark):
    files = spark.read.format("binaryFile").load([path(name) for name in NAMES])
    decoded = zs.decode(files, "content")
    assert decoded.schema == zs.schema.DECODE.spark()
    rows = decoded.collect()
    by_file = {name: [row for row in rows if row.file == f"file:{path(name)}"] for name in NAMES}
    assert sum(map(len, by_file.values())) == len(rows)
    for name in NAMES:
        assert missing(name, by_file[name]) == Counter(), name
        assert plain(by_file[name]) == timed(expected(name))


def test_a_column_of_paths_says_the_same(spark):
    listed = zs.captures(spark, [path(name) for name in NAMES], partitions=3)
    assert listed.columns == ["path", "length"]
    assert listed.rdd.getNumPartitions() == 3
    rows = zs.decode(listed, "path").collect()
    contents = zs.decode(spark.read.format("binaryFile").load([path(name) for name in NAMES]), "content")
    assert sorted(map(str, rows)) == sorted(map(str, contents.collect()))


def test_columns_can_be_chosen(spark):
    listed = zs.captures(spark, path("query"))
    decoded = zs.decode(listed, "path", columns=["file", "key", "ts"])
    assert decoded.schema == zs.schema.DECODE.select(["file", "key", "ts"]).spark()
    assert decoded.columns == ["file", "key", "ts"]
    whole = zs.decode(listed, "path").select("file", "key", "ts")
    assert decoded.collect() == whole.collect()
    for columns, problem in (
        (["key", "colour"], "column 'colour' is not one of ts, src"),
        ([], "at least one"),
        (["key", "key"], "each once"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.decode(listed, "path", columns=columns)


def test_zre_and_zmtp_are_rows_too(spark):
    """Every shout and whisper that an application heard is a row, with its peer, group and content."""
    source = path("zre-v2-chat")
    told = facts("zre-v2-chat")
    assert told.total() == 92
    by_row = spark.sparkContext.parallelize([source], 1).mapPartitions(zs.decode_partition()).collect()
    by_column = zs.decode(zs.captures(spark, source), "path").collect()
    for rows in (by_row, by_column):
        contents = [row for row in rows if row.message in ("shout", "whisper")]
        assert seen(contents) == told
        (hello, *_) = [row for row in rows if row.message == "hello" and row.name == "alice"]
        assert hello.headers == {"X-ROLE": "leader", "X-CITY": "Zurich"}
        assert (hello.kind, hello.sequence, hello.groups) == ("36", 1, [])
        assert {row.protocol for row in rows} == {"zre", "zmtp"}
    # What an RDD gives goes into a frame, and SQL sees the maps and lists.
    frame = spark.createDataFrame(by_row, zs.schema.DECODE.ddl)
    leaders = frame.where("headers['X-ROLE'] = 'leader'").select("peer").distinct().collect()
    assert len(leaders) == 1
    assert frame.where("size(content) > 1").count() == sum(len(row.content or ()) > 1 for row in by_row)


def test_keys_go_with_the_function(spark):
    secrets = keys("zre-draft-curve")
    decoded = zs.decode(zs.captures(spark, path("zre-draft-curve")), "path", keys=secrets)
    (shout,) = decoded.where("message = 'shout'").collect()
    assert [bytes(frame) for frame in shout.content] == [b"sealed"]
    assert secrets[0] not in repr(zs.decode_partition(keys=secrets))
    with pytest.raises(ValueError, match="a CURVE key is"):
        zs.decode_partition(keys=["hidden"])


def test_many_files_spread_over_partitions(spark, tmp_path):
    whole = Path(path("pubsub-basic")).read_bytes()
    for number in range(40):
        (tmp_path / f"capture {number:02}.pcap.gz").write_bytes(whole)
    listed = zs.captures(spark, f"{tmp_path}/*.pcap.gz", partitions=8)
    sizes = listed.groupBy(f.spark_partition_id()).count().collect()
    assert len(sizes) == 8
    assert max(row["count"] for row in sizes) <= 10
    rows = zs.decode(listed, "path").groupBy("file").count().collect()
    assert {row["count"] for row in rows} == {len(expected("pubsub-basic"))}
    assert len(rows) == 40
    assert zs.captures(spark, tmp_path).count() == 40, "a folder is what is in it"
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        zs.captures(spark, str(tmp_path / "missing"))


def test_partitions_of_paths_bytes_and_named_bytes(spark):
    context = spark.sparkContext
    paths = context.parallelize([path(name) for name in NAMES], 3)
    rows = paths.mapPartitions(zs.decode_partition()).collect()
    assert all(type(row) is zs.DecodedRow for row in rows)
    assert zs.DecodedRow._fields == zs.schema.DECODE.names
    assert plain(rows) == [row for name in NAMES for row in timed(expected(name))]
    assert {row.file for row in rows} == {path(name) for name in NAMES}
    frame = spark.createDataFrame(rows, zs.schema.DECODE.ddl)
    assert frame.filter("message = 'push'").count() == sum(row.message == "push" for row in rows)

    contents = context.parallelize([Path(path("query")).read_bytes()], 1)
    (files,) = [{row.file for row in contents.mapPartitions(zs.decode_partition()).collect()}]
    assert files == {None}

    named = context.binaryFiles(path("query"))
    rows = named.mapPartitions(zs.decode_partition()).collect()
    assert plain(rows) == timed(expected("query"))
    assert {row.file for row in rows} == {f"file:{path('query')}"}


def damaged(tmp_path):
    """Files that are not what they should be."""
    packed = Path(path("query")).read_bytes()
    unpacked = gzip.decompress(packed)
    (tmp_path / "none.pcap").write_bytes(b"no capture at all")
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "cut.pcap").write_bytes(unpacked[: len(unpacked) // 2])
    (tmp_path / "cut.pcap.gz").write_bytes(packed[: len(packed) // 2])
    names = ["none.pcap", "empty.pcap", "cut.pcap", "cut.pcap.gz", "missing.pcap"]
    return [str(tmp_path / name) for name in names]


def test_no_bad_file_ends_a_job(spark, tmp_path):
    bad = damaged(tmp_path)
    (tmp_path / "folder").mkdir()
    asked = [*bad, str(tmp_path / "folder"), None, "s3://bucket/x.pcap", path("query")]
    frame = spark.createDataFrame([(name,) for name in asked], "path string").coalesce(1)
    rows = zs.decode(frame, "path").collect()
    good = [row for row in rows if row.file == path("query")]
    assert plain(good) == timed(expected("query"))
    errors = {row.file: row for row in rows if row.message == "error" and row.src is None}
    assert set(errors) == set(asked[:-1])
    none, empty, cut, cut_gzip, missing = (errors[name] for name in bad)
    assert (none.protocol, none.kind, none.payload, none.offset) == (None, None, None, 0)
    magic = int.from_bytes(b"no c", "big")
    assert none.error == f"{bad[0]}: capture file magic: illegal value {magic} at offset 0"
    assert empty.error.startswith(f"{bad[1]}: capture file header")
    assert "more bytes needed" in cut.error
    assert cut.offset > 0
    assert cut_gzip.error.startswith(f"{bad[3]}: ")
    assert missing.error == f"{bad[4]}: No such file or directory"
    assert errors[None].error == "the path is null"
    assert "workers read captures from local paths" in errors["s3://bucket/x.pcap"].error
    # What was in front of the damage is there.
    for name in bad[2:4]:
        before = seen(row for row in rows if row.file == name)
        assert sum(before.values()) > 20
        assert before <= seen(good)

    contents = [(bytearray(b"no capture at all"), "here.pcap"), (None, "null.pcap")]
    frame = spark.createDataFrame(contents, "content binary, path string")
    rows = zs.decode(frame, "content").collect()
    assert [(row.message, row.file) for row in rows] == [("error", "here.pcap"), ("error", "null.pcap")]
    assert all(row.error.startswith(f"{row.file}: capture file") for row in rows)


def test_a_bad_file_ends_the_task_on_demand(spark, tmp_path):
    bad = damaged(tmp_path)
    paths = spark.createDataFrame([(bad[0],), (bad[4],)], "path string").coalesce(1)
    contents = spark.createDataFrame([(b"no capture at all", "here.pcap")], "content binary, path string")
    for frame, column, words in (
        (paths, "path", ["capture file magic", bad[0]]),
        (paths.filter(f.col("path") == bad[4]), "path", ["No such file", bad[4]]),
        (contents, "content", ["capture file magic", "here.pcap"]),
    ):
        with pytest.raises(PythonException) as caught:
            zs.decode(frame, column, errors="raise").collect()
        for word in words:
            assert word in str(caught.value)


def test_damage_inside_of_a_session_is_a_row(spark):
    unpacked = bytearray(gzip.decompress(Path(path("pubsub-basic")).read_bytes()))
    at, number = 24, 0
    while at < len(unpacked):
        length = int.from_bytes(unpacked[at + 8 : at + 12], "little")
        number += 1
        if number % 10 == 0 and length > 200:
            # Behind Ethernet, IPv4, TCP with timestamps and the length of the batch.
            unpacked[at + 16 + 14 + 20 + 32 + 2] = 0x3F
        at += 16 + length
    frame = spark.createDataFrame([(bytes(unpacked),)], "content binary")
    rows = zs.decode(frame, "content").collect()
    errors = [row for row in rows if row.message == "error"]
    assert errors
    assert all(row.error and row.offset is not None and row.src for row in errors)
    assert sum(row.message == "push" for row in rows) > 100


def test_a_port_can_be_forced(spark):
    late = gzip.decompress(Path(path("pubsub-basic")).read_bytes())
    at, packets = 24, []
    while at < len(late):
        length = int.from_bytes(late[at + 8 : at + 12], "little")
        packets.append(late[at : at + 16 + length])
        at += 16 + length
    few = late[:24] + b"".join(packets[200:203])
    frame = spark.createDataFrame([(few,)], "content binary")
    assert zs.decode(frame, "content").count() == 0
    assert zs.decode(frame, "content", ports=[7447]).count() > 0
    rdd = spark.sparkContext.parallelize([few], 1)
    assert rdd.mapPartitions(zs.decode_partition(ports=[7447])).count() > 0


@pytest.mark.long
def test_a_large_file_is_read_in_bounded_memory(spark, tmp_path):
    """Eight times the bulk capture, by a worker that may grow by a fraction of it."""
    large = tmp_path / "large.pcap"
    multiply("bulk", 8, large)
    decode = zs.decode_partition()

    def measure(paths):
        import resource

        (small, big) = paths
        # What the first decoding of a worker loads is not what is asked for.
        assert sum(1 for _ in decode([small])) > 100
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = sum(1 for _ in decode([big]))
        yield rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    rdd = spark.sparkContext.parallelize([path("query"), str(large)], 1)
    ((rows, grown),) = rdd.mapPartitions(measure).collect()
    assert rows == 8 * len(expected("bulk"))
    assert large.stat().st_size > 80 << 20
    assert grown < 40 << 10, f"the worker has grown by {grown} KiB"


def test_what_cannot_be_decoded_is_refused_before_the_job(spark):
    frame = spark.range(3)
    with pytest.raises(ValueError, match="there is no column 'content'"):
        zs.decode(frame, "content")
    with pytest.raises(ValueError, match="must be string or binary, not bigint"):
        zs.decode(frame, "id")
    for options, problem in (
        ({"ports": [70000]}, "a port is 1 to 65535"),
        ({"errors": "ignore"}, "errors must be one of rows, raise"),
        ({"max_rows": 0}, "max_rows"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.decode_partition(**options)
    with pytest.raises(TypeError):
        zs.decode_partition(port=1)
