"""Rows that are written to the format zre are shouted and whispered."""

import json
import pickle

import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import _parse_datatype_string

import zwire.spark as zs
from zwire import zre
from zwire.errors import ConfigError
from zwire.spark.sources import _zre_sink

QUIET = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}

pytestmark = pytest.mark.smoke


@pytest.fixture
def listener():
    with zre.Node("listener", QUIET) as node:
        node.join("G")
        yield node


@pytest.fixture
def options(listener):
    return {
        "zre.beacons": "false",
        "zre.bind": "127.0.0.1",
        "zre.mailbox": "0",
        "zre.peers": listener.endpoint,
    }


def heard(node, kind, count):
    """The contents of so many events, sorted; in time or not at all."""
    found = []
    while len(found) < count:
        events = node.recv_many(1000, 20)
        assert events, f"{len(found)} of {count} came"
        found += [tuple(event.content) for event in events if event.type == kind]
    return sorted(found)


def test_batches_and_streams_are_shouted(spark, listener, options, tmp_path):
    rows = spark.range(100).select(f.col("id").cast("string").alias("content"))
    rows.write.format("zre").mode("append").options(**options).option("group", "G").save()
    assert heard(listener, "SHOUT", 100) == sorted((b"%d" % number,) for number in range(100))
    stream = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10).load()
    stream = stream.selectExpr("'G' as group", "array('n', cast(value as string)) as content")
    query = stream.writeStream.format("zre").options(**options).option("maxRowsPerSecond", "1000")
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    count = sum(progress["numInputRows"] for progress in query.recentProgress)
    assert count >= 10
    assert heard(listener, "SHOUT", count) == sorted((b"n", b"%d" % number) for number in range(count))


def test_whispers_go_to_their_peers(spark, listener, options):
    schema = _parse_datatype_string("peer string, content binary")
    writer = pickle.loads(pickle.dumps(_zre_sink.writer(options, schema, overwrite=False)))
    batch = pa.record_batch({"peer": [listener.uuid] * 3, "content": [b"a", b"b", b"c"]})
    written = writer.write(iter([batch]))
    assert (written.partition, written.summary.queued) == (0, 3)
    assert heard(listener, "WHISPER", 3) == [(b"a",), (b"b",), (b"c",)]
    zs.close_nodes()


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("content string", {}, "neither a group nor a peer"),
        ("content string, group string, peer string", {}, "both a group and a peer"),
        ("content string, group string", {"peer": "x"}, "both a group and a peer"),
        ("group string", {}, "no column 'content'"),
        ("content int", {"group": "G"}, "must be string, binary or an array"),
        ("content string, group int", {}, "'group' must be string"),
        ("content string, colour string", {"group": "G"}, "'colour' is not one of group, content"),
        ("content string", {"group": "G", "pers": "1"}, "unknown option 'pers', did you mean"),
        ("content string", {"group": "G", "zre.intervall": "1"}, "did you mean interval"),
        ("content string", {"group": "G", "zre.generations": "99"}, "generations"),
        ("content string", {"group": "G", "zre.uuid": "0" * 32}, "each worker is a node of its own"),
        ("content string", {"group": "G", "zre.secret_key": "k" * 40}, "a secret would be in plans"),
        ("content string", {"group": "G", "config": "{"}, "is no JSON"),
        ("content string", {"group": "G", "maxRowsPerSecond": "0"}, "at least 1"),
    ],
)
def test_mistakes_are_found_before_the_job(spark, columns, options, words):
    with pytest.raises(ValueError, match=words):
        _zre_sink.stream_writer(options, _parse_datatype_string(columns), overwrite=False)


def test_what_was_said_cannot_be_overwritten(spark):
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        _zre_sink.writer({"group": "G"}, _parse_datatype_string("content string"), overwrite=True)


def test_a_secret_is_named_and_read_by_the_worker(spark, monkeypatch):
    public, secret = zre.keypair()
    theirs, their_secret = zre.keypair()
    with zre.Node("closed", {**QUIET, "secret_key": their_secret, "allow": [public]}) as node:
        node.join("G")
        config = {**QUIET, "peers": [f"{node.endpoint}|{theirs}"], "secret_key": "env:ZRE_SECRET"}
        given = {"group": "G", "config": json.dumps(config)}
        writer = _zre_sink.writer(given, _parse_datatype_string("content string"), overwrite=False)
        assert secret.encode() not in pickle.dumps(writer)
        batch = pa.record_batch({"content": ["x"]})
        with pytest.raises(ConfigError, match="the variable ZRE_SECRET is not set"):
            writer.write(iter([batch]))
        monkeypatch.setenv("ZRE_SECRET", secret)
        assert writer.write(iter([batch])).summary.queued == 1
        assert heard(node, "SHOUT", 1) == [(b"x",)]
        zs.close_nodes()
