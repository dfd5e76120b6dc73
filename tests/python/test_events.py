"""Events of connectivity: nodes that connect and disconnect, with reasons."""

import functools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import nodes
from nodes import LOCAL, eventually
from zwire import zenoh
from zwire.errors import TimedOut, UsageError

PATIENCE = 10.0
opened = functools.partial(nodes.opened, connect__retry__period_init_ms=20, connect__retry__period_max_ms=50)


def next_change(listener):
    event = listener.recv(timeout=PATIENCE)
    return event.change, event.reason


def test_a_hub_sees_its_clients_come_and_go():
    with opened("router", listen=LOCAL) as hub:
        nodes = hub.info.declare_transport_events_listener()
        links = hub.info.declare_link_events_listener()
        client = opened("client", connect=hub.listening())
        came = nodes.recv(timeout=PATIENCE)
        assert (came.kind, came.change, came.reason, came.detail) == (
            zenoh.SampleKind.PUT,
            "connected",
            None,
            None,
        )
        assert (came.transport.zid, came.transport.whatami) == (client.zid(), zenoh.WhatAmI.CLIENT)
        assert came.transport == hub.info.transports()[0]
        link = links.recv(timeout=PATIENCE).link
        assert [link] == hub.info.links()
        assert (link.src, link.interfaces, link.priorities, link.group) == (
            hub.listening()[0],
            ["lo"],
            (0, 7),
            None,
        )
        (their,) = client.info.links()
        assert (their.src, their.dst) == (link.dst, link.src)
        client.close()
        gone = nodes.recv(timeout=PATIENCE)
        assert (gone.kind, gone.change, gone.reason) == (
            zenoh.SampleKind.DELETE,
            "disconnected",
            "closed-by-peer",
        )
        assert "closed by the peer" in gone.detail
        assert gone.transport == came.transport
        assert links.recv(timeout=PATIENCE).link == link
        assert repr(gone).startswith("TransportEvent(disconnected, Transport { zid: ")


def test_history_tells_who_is_there_and_without_it_only_news_comes():
    with opened("router", listen=LOCAL) as hub, opened("client", connect=hub.listening()) as client:
        assert next_change(client.info.declare_transport_events_listener(history=True)) == ("connected", None)
        assert next_change(client.info.declare_link_events_listener(history=True)) == ("connected", None)
        assert client.info.declare_transport_events_listener().try_recv() is None
        assert client.info.declare_link_events_listener(history=False).try_recv() is None


def test_a_client_reconnects(router):
    with opened("client", connect=[router.endpoint]) as client:
        heard, changed = [], threading.Condition()

        def hear(event):
            with changed:
                heard.append((event.change, event.reason))
                changed.notify()

        def until(count):
            with changed:
                assert changed.wait_for(lambda: len(heard) >= count, PATIENCE)
                return heard[count - 1]

        client.info.declare_transport_events_listener(hear)
        os.kill(router.pid, signal.SIGKILL)
        change, reason = until(1)
        assert change == "disconnected"
        # A process that is killed ends its connections, or resets those in which something was left.
        assert reason == "lost"
        router.wait(PATIENCE)
        with opened("router", listen=[router.endpoint]):
            assert until(2) == ("reconnected", None)
        assert until(3) == ("disconnected", "closed-by-peer")
        assert client.is_closed() is False


SILENT = """
import sys, time
from zwire import zenoh
session = zenoh.open({"mode": "client", "connect/endpoints": [sys.argv[1]], "transport/link/tx/lease": 500})
time.sleep(60)
"""


def test_a_neighbour_that_falls_silent():
    with opened("router", listen=LOCAL) as hub:
        listener = hub.info.declare_transport_events_listener()
        with subprocess.Popen([sys.executable, "-c", SILENT, *hub.listening()]) as process:
            try:
                assert next_change(listener) == ("connected", None)
                os.kill(process.pid, signal.SIGSTOP)
                start = time.monotonic()
                # The lease that it has announced is over.
                assert next_change(listener) == ("disconnected", "silent")
                assert time.monotonic() - start < 3
            finally:
                process.kill()


def test_peers_know_each_other_again():
    with opened("peer", listen=LOCAL) as first:
        listener = first.info.declare_transport_events_listener()
        for expected in ("connected", "reconnected"):
            with opened("peer", connect=first.listening(), id="abc123"):
                assert next_change(listener) == (expected, None)
            assert next_change(listener) == ("disconnected", "closed-by-peer")
        with opened("peer", connect=first.listening()):
            assert next_change(listener) == ("connected", None)


def test_listeners_end():
    with opened("router", listen=LOCAL) as hub:
        with hub.info.declare_transport_events_listener() as listener, pytest.raises(TimedOut):
            listener.recv(timeout=0.01)
        with pytest.raises(UsageError):
            listener.recv(timeout=1)
        with pytest.raises(UsageError):
            listener.undeclare()
        ring = hub.info.declare_link_events_listener(zenoh.handlers.RingChannel(1))
        others = [opened("client", connect=hub.listening()) for _ in range(3)]
        for other in others:
            other.ready(PATIENCE)
        assert ring.recv(timeout=PATIENCE).link.zid in {other.zid() for other in others}
        for other in others:
            other.close()
        # Else it hears of those.
        eventually(lambda: not hub.info.transports())
        left = hub.info.declare_transport_events_listener()
    with pytest.raises(UsageError):
        left.recv(timeout=1)
    with pytest.raises(UsageError):
        hub.info.declare_transport_events_listener()
