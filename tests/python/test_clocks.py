"""Clocks that are ahead: what a hub does with their time stamps."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from nodes import opened
from zwire import zenoh

PATIENCE = 10.0


def ahead(seconds):
    return zenoh.Timestamp(datetime.now(UTC) + timedelta(seconds=seconds), b"\x07")


@pytest.mark.parametrize(
    ("settings", "seconds", "kept"),
    [
        ({}, 0.2, "kept"),
        ({}, 3600, "replaced"),
        ({"timestamping__drop_future_timestamp": True}, 3600, "dropped"),
        ({"zwire__timestamping__max_drift_ms": 7_200_000}, 3600, "kept"),
        ({"zwire__timestamping__max_drift_ms": 0}, 3600, "replaced"),
        ({"timestamping__enabled": False}, 3600, "kept"),
    ],
)
def test_a_time_stamp_from_the_future(settings, seconds, kept):
    with (
        opened("router", listen__endpoints=["tcp/127.0.0.1:0"], **settings) as hub,
        opened("client", connect__endpoints=hub.listening()) as near,
        opened("client", connect__endpoints=hub.listening()) as far,
    ):
        subscriber = near.declare_subscriber("k")
        subscriber.wait_ready(PATIENCE)
        stamp = ahead(seconds)
        far.put("k", "x", timestamp=stamp)
        # A deletion is never touched, and comes after it.
        far.delete("k", timestamp=stamp)
        samples = [subscriber.recv(timeout=PATIENCE)]
        if samples[0].kind is zenoh.SampleKind.PUT:
            samples.append(subscriber.recv(timeout=PATIENCE))
        assert samples[-1].timestamp == stamp
        if kept == "dropped":
            assert len(samples) == 1
        else:
            assert (samples[0].timestamp == stamp) is (kept == "kept")
            assert (
                samples[0].timestamp.get_id() == (stamp if kept == "kept" else hub.new_timestamp()).get_id()
            )
        stats = hub.stats()
        assert stats["node.future_dropped"] == (kept == "dropped")
        assert stats["node.future_replaced"] == (kept == "replaced")


HUB = """
import sys
from zwire import zenoh

zenoh.init_log_from_env_or("warn")
settings = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], "scouting/multicast/enabled": False}
with zenoh.open(settings) as hub:
    print(*hub.listening(), flush=True)
    sys.stdin.read()
"""


def test_a_clock_that_is_ahead_is_named_in_the_log_once():
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HUB]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        endpoint = process.stdout.readline().strip()
        with opened("client", connect__endpoints=[endpoint]) as session:
            for _ in range(1000):
                session.put("k", "x", timestamp=ahead(3600), congestion_control=zenoh.CongestionControl.BLOCK)
            session.flush(PATIENCE)
        log = process.communicate(timeout=PATIENCE)[1]
    lines = [line for line in log.splitlines() if "lie in the future" in line]
    assert len(lines) == 1, log
    assert "clock=7" in lines[0], log
