"""Statements of the Spark sink about its rows hold with either router.

Without Spark: the writer of a task is called here as a task calls it.
"""

import base64
import itertools
import json
import signal
import uuid

import pyarrow as pa
import pytest

from interop.harness import ECLIPSE, ZWIRE
from zwire import zenoh
from zwire.errors import ConfigError, LinkClosed, RowError, Undelivered
from zwire.idempotence import Filter, Identity
from zwire.spark import close_sessions
from zwire.spark.sources import _sink

JOB = uuid.UUID(int=9)
ROWS = 20_000


@pytest.fixture(autouse=True)
def no_session_stays():
    yield
    close_sessions()


def write(endpoint, batch=0, rows=ROWS, **options):
    part = pa.record_batch({"key": ["sink/a"] * ROWS, "payload": [bytes(64)] * ROWS})
    given = _sink.sink_options({"endpoints": endpoint, **options})
    return _sink._write(given, itertools.repeat(part, rows // ROWS), JOB, batch)


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
@pytest.mark.parametrize("priority", [1, 7])
def test_the_hop_has_handled_all_rows_when_the_task_is_done(net, router, priority):
    """Counted by a subscriber of the router itself, at this moment and not a little later.

    A router of the reference calls a direct subscriber where it reads. Ours puts samples into its queue
    there, and counts those.
    """
    hub = net.hub(router)
    hub.subscribe(name="sub", key="sink/**", count=True, handler="direct")
    for number in range(1, 3):
        assert write(hub.endpoint, priority=str(priority)).rows == ROWS
        count = hub.count(name="sub") if router == ECLIPSE else hub.stats()["session.samples_delivered"]
        assert count == number * ROWS


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
def test_receivers_behind_any_router_say_what_they_have_got(net, router):
    hub = net.hub(router)
    options = {"ack": "barrier", "idempotence": "attachment", "receipts": "sink", "ackTimeout": "10"}
    once, lossy = Filter(), []
    with zenoh.open({"mode": "client", "connect/endpoints": [hub.endpoint]}) as receiver:
        receiver.declare_subscriber(
            "sink/**", lambda sample: Identity.of(sample).row in lossy or once.is_new(sample)
        )
        queryable = once.receipts(receiver, "sink")
        receiver.flush(10)
        assert write(hub.endpoint, **options).rows == ROWS
        # No waiting here either.
        assert once.received(JOB, 0, 0, ROWS) == ROWS
        lossy += [3, 19_999]
        with pytest.raises(Undelivered, match="a receiver has got 19998 of the 20000 rows") as caught:
            write(hub.endpoint, 1, **{**options, "ackTimeout": "6"})
        assert caught.value.missing == 2
        lossy.clear()
        assert write(hub.endpoint, 1, **options).rows == ROWS
        assert once.stats()["repeated"] == ROWS - 2
        queryable.undeclare()


def test_a_reference_router_that_counts_nothing_is_no_barrier(net):
    hub = net.hub(ECLIPSE, **{"adminspace/enabled": True})
    with pytest.raises(ConfigError, match="tells no counters"):
        write(hub.endpoint, ack="barrier")
    assert write(net.hub(ZWIRE, **{"adminspace/enabled": True}).endpoint, ack="barrier").rows == ROWS


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
def test_a_router_that_is_stopped_ends_the_task(net, router):
    """Each row would be waited for for a minute; the wait ends with the lease, and says so."""
    hub = net.hub(router, **{"transport/link/tx/lease": 1000})
    options = {
        "zenoh.transport.link.tx.queue.congestion_control.block.wait_before_close": "60000000",
        "zenoh.connect.timeout_ms": "500",
    }
    assert write(hub.endpoint, **options).rows == ROWS
    hub.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises((RowError, LinkClosed), match="link"):
            write(hub.endpoint, rows=2_000_000, **options)
    finally:
        hub.process.send_signal(signal.SIGCONT)
    # The next attempt, in another process, is as good as any.
    close_sessions()
    assert write(hub.endpoint, **options).rows == ROWS


def test_identities_and_markers_are_plain_for_others(net):
    """A subscriber of the reference sees the attachment, 40 bytes, and a marker in JSON."""
    hub = net.hub(ECLIPSE)
    hub.subscribe(name="sub", key="sink/**")
    hub.subscribe(name="markers", key="sink/@commit/*")
    options = {"endpoints": hub.endpoint, "idempotence": "attachment", "commitMarkers": "sink"}
    given = _sink.sink_options(options)
    rows = pa.record_batch({"key": ["sink/a"], "payload": [b"x"]})
    _sink._mark(given, [_sink._write(given, iter([rows]), JOB, 7)], "committed", 7)
    (sample,) = hub.received(name="sub", count=1, seconds=5)
    assert Identity.parse(bytes_of(sample["attachment"])) == (JOB, 7, 0, 0)
    (marker,) = hub.received(name="markers", count=1, seconds=5)
    said = json.loads(bytes_of(marker["payload"]))
    assert (said["query"], said["batch"], said["rows"]) == (JOB.hex, 7, 1)
    assert marker["encoding"] == "application/json"


def bytes_of(shown):
    return base64.b64decode(shown)
