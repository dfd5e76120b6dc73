"""Frames in columns and partitions: rows as the captures give them that the frames are from."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import framing
import zwire.spark as zs
from truth import comparable
from zwire import capture

NAMES = ["declared-keyexpr", "fragmented", "compression"]


SN = zs.schema.DECODE.names.index("sn")


def expected(name):
    """Rows as the decoder gives them for the capture, without the file."""
    batches = [pa.record_batch(batch) for batch in capture.decode(framing.path(name))]
    return [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()]


def plain(rows):
    return [tuple(map(comparable, row)) for row in rows]


def columns(frames):
    return [(data, src, dst, datetime.fromtimestamp(ts, UTC)) for data, src, dst, ts in frames]


DDL = "data binary, src string, dst string, ts timestamp"


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_chunks_decodes_as_its_capture(spark, name):
    frame = spark.createDataFrame(columns(framing.frames(name, framing.TCP)), DDL).coalesce(1)
    decoded = zs.decode(frame.sortWithinPartitions("ts"), "data", frames="stream")
    assert decoded.schema == zs.schema.DECODE.spark()
    rows = decoded.collect()
    assert plain(row[:-1] for row in rows) == plain(expected(name))
    assert {row.file for row in rows} == {None}


def test_sessions_are_split_over_partitions(spark):
    """Each session as a whole, by a column that both directions share."""
    name = "declared-keyexpr"
    rows = [(*row, "-".join(sorted(row[1:3]))) for row in columns(framing.frames(name, framing.TCP))]
    frame = spark.createDataFrame(rows, f"{DDL}, session string").repartition(2, "session")
    decoded = zs.decode(
        frame.sortWithinPartitions("ts"), "data", frames="stream", columns=["src", "dst", "key"]
    )
    wanted = sorted(map(str, [(row[1], row[2], row[6]) for row in expected(name)]))
    assert sorted(str(tuple(row)) for row in decoded.collect()) == wanted


def test_other_columns_may_be_missing_or_null(spark):
    frames = list(framing.batches(framing.frames("pubsub-basic", framing.TCP)))
    _, client, *_ = frames[0]
    one = [(data,) for data, src, *_ in frames if src == client] + [(None,)]
    rows = zs.decode(spark.createDataFrame(one, "data binary").coalesce(1), "data", frames="batch").collect()
    wanted = [row for row in expected("pubsub-basic") if row[1] == client]
    assert [row.sn for row in rows] == [row[SN] for row in wanted]
    assert {(row.ts, row.src, row.dst, row.error) for row in rows} == {(None, None, None, None)}


@pytest.mark.parametrize("named", [False, True])
def test_a_partition_of_frames_decodes_as_its_capture(spark, named):
    frames = list(framing.batches(framing.frames("declared-keyexpr", framing.TCP)))
    if named:
        frames = [dict(zip(capture.Frame._fields, frame, strict=True)) for frame in frames]
    rdd = spark.sparkContext.parallelize(frames, 1)
    rows = rdd.mapPartitions(zs.decode_partition(frames="batch")).collect()
    assert plain(row[:-1] for row in rows) == plain(expected("declared-keyexpr"))


def test_bytes_alone_are_one_side_of_one_session(spark):
    frames = [data for data, src, *_ in framing.frames("query", framing.TCP) if src.endswith(":7447")]
    rdd = spark.sparkContext.parallelize(frames, 1)
    rows = rdd.mapPartitions(zs.decode_partition(frames="stream")).collect()
    assert not [row.error for row in rows if row.error is not None]
    wanted = [row for row in expected("query") if row[1].endswith(":7447")]
    assert [(row.message, row.payload) for row in rows] == [(row[4], row[9]) for row in wanted]


def test_what_is_wrong_is_refused_before_the_job(spark):
    frame = spark.createDataFrame([(b"", "a", 1.0)], "data binary, path string, ts double")
    with pytest.raises(ValueError, match="'path' of frames must be binary"):
        zs.decode(frame, "path", frames="batch")
    with pytest.raises(ValueError, match="'ts' of frames must be timestamp, not double"):
        zs.decode(frame, "data", frames="batch")
    with pytest.raises(ValueError, match="one of stream, batch"):
        zs.decode_partition(frames="packets")
    with pytest.raises(ValueError, match="ports are for captures"):
        zs.decode_partition(frames="batch", ports=[7447])
