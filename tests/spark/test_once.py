"""Two spoolers on the same keys: one of them is killed, and Spark has each sample once."""

import contextlib
import subprocess
import sys
import threading

import pytest

import nodes
import zwire.spark as zs
from zwire import spool, zenoh

BLOCK = {"congestion_control": zenoh.CongestionControl.BLOCK}
COLUMNS = "key,payload,hlc,hlc_id,source_zid,source_eid,source_sn,recv_ts,spool,shard,offset"


@contextlib.contextmanager
def spoolers(hub, *folders):
    """As processes of their own."""
    processes = []
    try:
        for folder in folders:
            command = [sys.executable, "-m", "zwire", "spool", "keep", "--dir", str(folder), "k/**"]
            processes.append(
                subprocess.Popen([*command, "-e", hub.listening()[0]], stderr=subprocess.PIPE, text=True)
            )
        for process in processes:
            assert "keeping" in process.stderr.readline()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stderr.close()


def numbers(frame):
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


def test_one_of_two_is_killed_and_the_other_has_everything(spark, hub, tmp_path):
    """Numbers of publishers tell samples apart; where there are none, the times that the hub gives."""
    folders = [tmp_path / "a", tmp_path / "b"]
    done = 0
    with nodes.client(hub) as publisher, spoolers(hub, *folders) as processes:
        entity = publisher.declare_publisher("k/x").id
        killed = threading.Event()

        def publish(count):
            nonlocal done
            for _ in range(count):
                given = {} if done % 2 else {"source_info": zenoh.SourceInfo(entity, done // 2)}
                publisher.put(f"k/{done % 5}", str(done), **given, **BLOCK)
                done += 1

        publish(300)
        views = [spool.open(folder) for folder in folders]
        nodes.eventually(lambda: min(view.end()[0] for view in views) >= 100)

        def kill():
            processes[0].kill()
            killed.set()

        # While samples are on their way.
        killer = threading.Timer(0.01, kill)
        killer.start()
        while not killed.is_set():
            publish(20)
        killer.join()
        publish(100)
        nodes.eventually(lambda: views[1].end()[0] == done)
    both = ",".join(map(str, folders))
    table = spark.read.format("zwire").option("columns", COLUMNS).load(both)
    assert table.count() > done
    assert numbers(zs.once(table)) == list(range(done))
    stream = spark.readStream.format("zwire").option("startingOffsets", "earliest").option("columns", COLUMNS)
    query = zs.once(stream.load(both), "1 hour").writeStream.format("memory").queryName("once")
    query = query.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert query.start().awaitTermination(60)
    assert numbers(spark.table("once")) == list(range(done))


def test_what_nothing_tells_apart_stays(spark, tmp_path):
    for name in "ab":
        with spool.Appender(tmp_path / name) as appender:
            for number in range(3):
                appender.append(key="k", payload=b"%d" % number)
            appender.append(key="k", payload=b"3", hlc=5, hlc_id=b"\1")
            appender.append(key="l", payload=b"4", hlc=5, hlc_id=b"\1")
            appender.append(key="k", payload=b"5", hlc=5, hlc_id=b"\2")
    table = spark.read.format("zwire").option("columns", COLUMNS).load(f"{tmp_path / 'a'},{tmp_path / 'b'}")
    assert numbers(zs.once(table)) == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="'hlc'"):
        zs.once(table.drop("hlc"))
