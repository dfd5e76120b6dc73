"""A disk that is full, for real: a small one in a namespace of its own, with something on it that can go."""

import pytest

from disks import run_on_small_disk

PRELUDE = """
import sys, time
from pathlib import Path
import pyarrow as pa
from zwire import spool, zenoh
from zwire.errors import SpoolError

disk = Path(sys.argv[1])
folder, ballast = disk / "spool", disk / "ballast"
ballast.write_bytes(bytes(300_000))


def rows():
    view = spool.open(folder)
    batches = view.read(0, view.earliest()[0], view.end()[0], columns=["payload"])
    found = [int(row["payload"][:6]) for batch in batches for row in pa.record_batch(batch).to_pylist()]
    assert found == sorted(set(found))
    assert spool.verify(folder) == []
    return found


def payload(number):
    return b"%06d" % number + bytes(500)


def fill(appender, number=0):
    "Append until there is no room; how many rows there are then."
    while True:
        for number in range(number, number + 10):
            appender.append(key="k", payload=payload(number))
        number += 1
        try:
            appender.flush()
        except SpoolError as error:
            assert "No space left on device" in str(error), error
            assert str(folder / "0") in str(error), error
            return number
"""

APPENDER = """
appender = spool.Appender(folder, segment_bytes=40_000)
count = fill(appender)
there = rows()
assert there == list(range(len(there))) and 0 < len(there) < count
# A second time as well; readers of the folder are not affected.
count = fill(appender, count)
assert rows() == there
for change in (lambda: spool.open(folder).commit("me", {0: 5}), appender.flush):
    try:
        change()
    except SpoolError as error:
        assert "No space left on device" in str(error), error
assert spool.open(folder).consumers() in ({}, {"me": {0: 5}})
ballast.unlink()
appender.flush()
appender.append(key="k", payload=payload(count))
appender.close()
assert rows() == list(range(count + 1))
"""

REOPENED = """
import os, signal
pid = os.fork()
if pid == 0:
    count = fill(spool.Appender(folder, segment_bytes=40_000))
    os.kill(os.getpid(), signal.SIGKILL)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
there = rows()
assert there == list(range(len(there))) and there
for _ in range(3):
    try:
        spool.Appender(folder).close()
    except SpoolError as error:
        assert "No space left on device" in str(error), error
    assert rows() == there
ballast.unlink()
with spool.Appender(folder) as appender:
    (count,) = spool.open(folder).end().values()
    assert count == len(there)
    appender.append(key="k", payload=payload(count))
assert rows() == [*there, count]
"""

SPOOLER = """
hub = zenoh.open({"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]})
config = {"mode": "client", "connect/endpoints": hub.listening()}
spooler = spool.Spooler(folder, "k", config=config, queue_bytes=60_000, segment_bytes=40_000)
spooler.ready(5)
publisher = zenoh.open(config)
entity = publisher.declare_publisher("k").id
view = spool.open(folder)
sent, end = 0, time.monotonic() + 20


def put():
    global sent
    info = zenoh.SourceInfo(entity, sent)
    block = zenoh.CongestionControl.BLOCK
    publisher.put("k", payload(sent), source_info=info, congestion_control=block)
    sent += 1


def until(condition):
    while not condition():
        assert time.monotonic() < end, spooler.stats()
        time.sleep(0.005)


while spooler.stats()["problem"] is None:
    put()
    # In small blocks, so that some of them fit.
    until(lambda: sent - view.end()[0] < 50 or spooler.stats()["problem"])
assert "No space left on device" in spooler.stats()["problem"]
# The network is read all the same.
for _ in range(1000):
    put()
until(lambda: spooler.stats()["received"] == sent)
assert spooler.stats()["dropped"] > 0
assert rows()
ballast.unlink()
# Who comes behind those that were dropped shows that they are missing.
until(lambda: spooler.stats()["waiting"] == 0)
for _ in range(20):
    put()
until(lambda: spooler.stats()["received"] == sent)
assert spooler.flush(10)
spooler.close()
named = set()
for batch in spool.open(folder).gaps():
    for row in pa.record_batch(batch).to_pylist():
        if row["kind"] == "gap":
            named |= set(range(row["sn_from"], row["sn_to"] + 1))
kept = set(rows())
assert not kept & named
assert kept | named == set(range(sent))
"""


@pytest.mark.parametrize("program", [APPENDER, REOPENED, SPOOLER], ids=["appender", "reopened", "spooler"])
def test_a_full_disk_costs_nothing_that_could_be_seen(tmp_path, program):
    run_on_small_disk(PRELUDE + program, tmp_path, "600k")
