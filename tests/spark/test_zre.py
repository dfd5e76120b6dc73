"""Rows become shouts and whispers, each at least once, from one node for each worker.

The nodes of these tests know each other by their endpoints on the loopback; nothing is broadcast.
"""

import os
import pickle
import threading
import time
import uuid

import pytest
from pyspark.errors import PythonException

import zwire.spark as zs
from zwire import zre
from zwire.errors import ConfigError, RowError
from zwire.spark import _nodes
from zwire.spark._tell import Told, told

QUIET = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}


@pytest.fixture
def listener():
    """A node that others find by its endpoint, and what it has heard."""
    heard = []
    with zre.Node("listener", QUIET, callback=heard.append) as node:
        node.join("G")
        node.heard = heard
        yield node


@pytest.fixture
def config(listener):
    return {**QUIET, "peers": [listener.endpoint]}


@pytest.fixture(autouse=True)
def no_nodes_are_left():
    yield
    zs.close_nodes()


def eventually(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def contents(node, kind="SHOUT", count=0):
    """The contents that a node has heard, once there are ``count`` of them."""

    def found():
        return [event for event in list(node.heard) if event.type == kind]

    eventually(lambda: len(found()) >= count)
    return found()


def test_rows_are_shouted_by_partitions(spark, listener, config):
    rdd = spark.sparkContext.parallelize([f"row {number}" for number in range(200)], 4)
    summaries = rdd.mapPartitions(zs.shout_partition(config, "G")).collect()
    assert len(summaries) == 4
    assert all(type(summary) is zs.ToldSummary for summary in summaries)
    assert sum(summary.rows for summary in summaries) == sum(summary.queued for summary in summaries) == 200
    assert sum(summary.bytes for summary in summaries) == sum(len(f"row {n}") for n in range(200))
    assert not any(s.full or s.not_responding or s.refused or s.skipped for s in summaries)
    heard = contents(listener, count=200)
    assert sorted(event.content[0].decode() for event in heard) == sorted(rdd.collect())
    assert {event.group for event in heard} == {"G"}


def test_rows_are_shouted_from_a_frame(spark, listener, config):
    rows = [("G", [b"a", b"b"]), ("G", [b""]), ("G", [b"c"])]
    frame = spark.createDataFrame(rows, "group string, content array<binary>").coalesce(1)
    told = zs.shout(frame, config)
    assert told.schema == zs.schema.TOLD.spark()
    (summary,) = told.collect()
    assert (summary.rows, summary.bytes, summary.queued) == (3, 3, 3)
    assert [event.content for event in contents(listener, count=3)] == [[b"a", b"b"], [b""], [b"c"]]
    texts = spark.createDataFrame([("x",), ("y",)], "content string").coalesce(1)
    assert zs.shout(texts, config, group="G").collect()[0].rows == 2
    assert [event.content for event in contents(listener, count=5)[3:]] == [[b"x"], [b"y"]]


def test_rows_are_whispered_to_their_peers(spark, listener, config):
    rows = [(listener.uuid, "one"), (listener.uuid.lower(), b"two"), (listener.uuid, ["three", b"3"])]
    rdd = spark.sparkContext.parallelize(rows, 1)
    (summary,) = rdd.mapPartitions(zs.whisper_partition(config)).collect()
    assert (summary.rows, summary.bytes, summary.queued) == (3, 3 + 3 + 6, 3)
    heard = contents(listener, "WHISPER", 3)
    assert [event.content for event in heard] == [[b"one"], [b"two"], [b"three", b"3"]]
    frame = spark.createDataFrame([("four", 4)], "content string, other int")
    assert zs.whisper(frame, config, peer=listener.uuid).collect()[-1].skipped == 0
    assert contents(listener, "WHISPER", 4)[3].content == [b"four"]


def test_workers_keep_their_node_between_jobs(spark, listener, config):
    shout = zs.shout_partition(config, "G")

    def use(partition):
        list(shout(partition))
        yield os.getpid(), zs.node_counts()["started"]

    seen = set()
    for _ in range(3):
        seen.update(spark.sparkContext.parallelize(["a", "b", "c", "d"], 4).mapPartitions(use).collect())
    workers = {pid for pid, _ in seen}
    # Twelve tasks, and as many nodes as processes: earlier tests had other ones.
    assert len({(pid, started) for pid, started in seen}) == len(workers) <= 3
    heard = contents(listener, count=12)
    assert {event.peer for event in heard} == {event.peer for event in contents(listener, "ENTER")}
    assert len({event.peer for event in heard}) == len(workers)


def test_a_task_that_runs_again_shouts_again(spark, listener, config, tmp_path):
    """At least once: what the first attempt has queued arrives, and then everything."""
    shout = zs.shout_partition(config, "G")
    marker = tmp_path / "failed"

    def fail_once(partition):
        def rows():
            for number, row in enumerate(partition):
                if number == 5 and not marker.exists():
                    marker.touch()
                    raise RuntimeError("the first attempt")
                yield row

        yield from shout(rows())

    rdd = spark.sparkContext.parallelize([str(number) for number in range(10)], 1)
    (summary,) = rdd.mapPartitions(fail_once).collect()
    assert summary.rows == 10
    heard = [event.content[0].decode() for event in contents(listener, count=15)]
    assert sorted(heard) == sorted([str(number) for number in [*range(5), *range(10)]])


def test_nobody_in_the_group_ends_the_task(spark, config):
    rdd = spark.sparkContext.parallelize(["a"], 1)
    with pytest.raises(Exception, match="TimedOut"):
        rdd.mapPartitions(zs.shout_partition(config, "EMPTY", wait=0.2)).collect()
    with pytest.raises(Exception, match="the peer is not there"):
        rdd.mapPartitions(zs.whisper_partition(config, uuid.uuid4().hex, wait=0.2)).collect()
    frame = spark.createDataFrame([("a",)], "content string")
    with pytest.raises(PythonException, match="TimedOut"):
        zs.shout(frame, config, group="EMPTY", wait=0.2).collect()


def test_rows_that_nobody_gets_are_counted_on_demand(config, listener):
    rows = ["a", None, ("NOBODY", "b"), ("G", []), {"group": "G", "content": "c"}]
    shout = zs.shout_partition(config, "G", errors="skip", peers=0)
    zs.shout_partition(config, "G")(["first"]).__next__()  # the listener is there now
    (summary,) = shout(rows)
    assert (summary.rows, summary.queued, summary.skipped) == (2, 2, 3)
    with pytest.raises(RowError, match="row 1 of the partition for 'G': its content is null") as caught:
        list(zs.shout_partition(config, "G")(rows))
    assert (caught.value.row, caught.value.key) == (1, "G")
    with pytest.raises(RowError, match="row 0 of the partition: it has no group"):
        list(zs.shout_partition(config)(["a"]))


def test_a_full_queue_is_told():
    """A peer with a program that does not take its events stops reading after a while."""
    free = threading.Event()
    slow = zre.Node("slow", QUIET, callback=lambda event: free.wait(20), queue_bytes=100_000)
    rows = [bytes(100_000)] * 400
    with slow:
        slow.join("G")
        small = {**QUIET, "peers": [slow.endpoint], "high_water_bytes": 1_000_000}
        try:
            with pytest.raises(RowError, match=r"too many messages wait for peer .* give a rate"):
                list(zs.shout_partition(small, "G", patience=0.2)(rows))
            zs.close_nodes()
            (summary,) = zs.shout_partition(small, "G", errors="skip", peers=0, patience=0)(rows)
        finally:
            free.set()
    assert summary.rows + summary.skipped == 400
    assert summary.queued < 400


def test_rows_wait_for_room(config):
    """Many times what a queue holds, to a peer that takes its time: nothing is lost."""
    rows = [b"%04d" % number + bytes(100_000) for number in range(400)]
    with zre.Node("steady", QUIET) as steady:
        steady.join("G")
        small = {**QUIET, "peers": [steady.endpoint], "high_water_bytes": 1_000_000}
        (summary,) = zs.shout_partition(small, "G")(rows)
        assert (summary.rows, summary.queued, summary.full) == (400, 400, 0)
        heard = []
        while len(heard) < 400:
            heard += [event.content[0] for event in steady.recv_many(400, 20) if event.type == "SHOUT"]
    assert heard == rows


def test_a_rate_is_kept(config):
    start = time.monotonic()
    (summary,) = zs.shout_partition(config, "G", rate=50)(["a"] * 11)
    assert summary.rows == 11
    assert 0.2 <= summary.seconds <= time.monotonic() - start


def test_a_node_that_is_idle_leaves(monkeypatch, config, listener):
    monkeypatch.setattr(_nodes, "IDLE", 0.2)
    list(zs.shout_partition(config, "G")(["a"]))
    assert zs.node_counts()["running"] == 1
    eventually(lambda: not zs.node_counts()["running"])
    eventually(lambda: contents(listener, "EXIT"))
    list(zs.shout_partition(config, "G")(["b"]))
    assert len(contents(listener, count=2)) == 2


def test_an_empty_partition_starts_no_node(config):
    before = zs.node_counts()["started"]
    (summary,) = zs.shout_partition(config, "G")([])
    assert summary == (0, 0, 0, 0, 0, 0, 0, 0.0)
    assert zs.node_counts()["started"] == before


def test_what_is_wrong_is_refused_before_the_job(spark):
    for options, problem in (
        ({"errors": "ignore"}, "errors must be one of raise, skip"),
        ({"peers": -1}, "peers must not be negative"),
        ({"wait": 0}, "wait must be positive"),
        ({"rate": 0}, "rate must be positive"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.shout_partition(QUIET, "G", **options)
    for config, path in (
        ({"uuid": uuid.uuid4().hex}, "uuid"),
        ({"allow": lambda key: True}, "allow"),
        ({"intervall": 1}, "intervall"),
        ({"generations": ["99"]}, "generations"),
    ):
        with pytest.raises(ConfigError) as caught:
            zs.shout_partition(config, "G")
        assert caught.value.path == path
    frame = spark.createDataFrame([(1, "a")], "number int, content string")
    with pytest.raises(ValueError, match="there is no column 'group'"):
        zs.shout(frame, QUIET)
    with pytest.raises(ValueError, match="there is no column 'peer'"):
        zs.whisper(frame, QUIET)
    with pytest.raises(ValueError, match="must be string, binary or an array"):
        zs.shout(frame.selectExpr("number as content"), QUIET, group="G")


def test_a_configuration_travels(listener):
    """As a Config with everything in it that is no plain text."""
    config = zre.Config(
        name="job",
        beacons=False,
        bind="127.0.0.1",
        mailbox=(49152, 65535),
        generations=("20", "36"),
        headers={"X-JOB": "7"},
        peers=(listener.endpoint,),
    )
    shout = pickle.loads(pickle.dumps(zs.shout_partition(config, "G")))
    (summary,) = shout(["a"])
    assert summary.queued == 1
    (enter,) = contents(listener, "ENTER", 1)
    assert (enter.name, enter.headers) == ("job", {"X-JOB": "7"})


def test_a_secret_is_not_shown():
    _, secret = zre.keypair()
    assert secret not in repr(zs.shout_partition({**QUIET, "secret_key": secret}, "G"))


def test_elements_of_partitions():
    assert told("a", "group") == Told(None, "a")
    assert told(("G", [b"a", "b"]), "group") == Told("G", [b"a", "b"])
    assert told({"peer": "P", "content": b"c"}, "peer") == Told("P", b"c")
    with pytest.raises(ValueError, match="not 'grup'"):
        told({"grup": "G"}, "group")
    with pytest.raises(ValueError, match="not 3 fields"):
        told(("G", "a", "b"), "group")


def test_an_inherited_node_is_left_alone(config, listener):
    """A worker is forked from a process that may have a node of its own."""
    list(zs.shout_partition(config, "G")(["parent"]))
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            (summary,) = zs.shout_partition(config, "G")(["child"])
            os.write(writer, b"%d %d" % (summary.rows, zs.node_counts()["started"]))
            zs.close_nodes()
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"1 1"
    assert status == 0
    assert len({event.peer for event in contents(listener, count=2)}) == 2
