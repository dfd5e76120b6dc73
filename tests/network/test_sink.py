"""If the peer of a task of the Spark sink vanishes, the task ends with an error, and its core is free.

Without Spark: the writer of a task is called here as a task calls it, in a process on a host of a network of
ours. `tests/spark/test_sink.py` tests the same under Spark.
"""

import subprocess
import sys
import time

import pytest

from interop.harness import ECLIPSE, QUIET, ZWIRE, Peer
from network.namespaces import Network, missing

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

WRITE = """
import sys, time, uuid
import pyarrow as pa
from zwire.errors import ZwireError
from zwire.spark.sources import _sink

options = {"endpoints": sys.argv[1], "zenoh.connect.timeout_ms": "1000"}
bound = "zenoh.transport.link.tx.queue.congestion_control.block.wait_before_close"
given = _sink.sink_options({**options, bound: "60000000"})


def write(rows, size):
    batch = pa.record_batch({"key": ["sink/a"] * rows, "payload": [bytes(size)] * rows})
    return _sink._write(given, iter([batch]), uuid.UUID(int=1), 0).rows


print(write(10, 1), flush=True)
sys.stdin.readline()
for _ in range(2):
    begin = time.monotonic()
    try:
        print("written", write(20_000, 2000))
    except ZwireError as error:
        print(type(error).__name__, f"{time.monotonic() - begin:.1f}", error, flush=True)
"""


@pytest.fixture
def network():
    if reason := missing():
        pytest.skip(reason)
    net = Network()
    try:
        yield net
    finally:
        net.end()


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
def test_a_peer_behind_a_black_hole_ends_the_task(network, router):
    hub_host, host = network.host(), network.host()
    hub = Peer(router, hub_host)
    try:
        endpoint = f"tcp/{hub_host.address}:7447"
        # A node that is silent for longer than its own lease is gone.
        lease = {"transport/link/tx/lease": 1000}
        hub.open(settings={**QUIET, **lease, "mode": "router", "listen/endpoints": [endpoint]})
        command = host.command(sys.executable, "-c", WRITE, endpoint)
        task = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        host.processes.append(task)
        assert task.stdout.readline() == "10\n"
        hub_host.swallow()
        begin = time.monotonic()
        said, _ = task.communicate("go on\n", timeout=30)
        # The process has ended: no thread of it is held by the wait.
        assert task.returncode == 0
        first, second = said.splitlines()
        # Rows wait for the link until its lease is over, though each of them might wait for a minute.
        assert first.split()[0] in {"RowError", "LinkClosed"}, first
        # The next attempt finds no listener.
        assert second.split()[0] in {"RowError", "LinkClosed", "ConnectError"}, second
        print(f"{router}: {first}; {second}; {time.monotonic() - begin:.1f} s in all")
        hub_host.carry()
    finally:
        hub.kill()
        hub.end()
