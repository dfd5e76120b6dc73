"""The bridge between ZRE and Zenoh: messages per second, latency, and memory of many peers.

Router, bridge, ZRE node and Zenoh client are a process each, on the loopback. A rate is compared with that of
the slower of both protocols without the bridge: shouts to another ZRE node, and puts to another client.
"""

from __future__ import annotations

import abc
import importlib
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from python.children import Child, children, free_port
from python.plan import progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "bridge"
PEER = "the slower of both alone"
GROUP = "bench"
SIZE = 64
PEERS = 1000
CHUNK = 1024
# Time limit for the last message, and for nodes to find each other.
PATIENCE = 30.0
# No message may be lost: the queues hold all of a trial.
ROOM = {"queue": 1 << 20, "queue_bytes": 1 << 30, "total_bytes": 1 << 30}
LOCAL = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}


class Router:
    """Router of Zenoh."""

    def __init__(self) -> None:
        zenoh: Any = importlib.import_module("zwire.zenoh")
        config = {
            "mode": "router",
            "listen/endpoints": ["tcp/127.0.0.1:0"],
            "scouting/multicast/enabled": False,
        }
        self.session = zenoh.open(config)

    def close(self) -> None:
        self.session.close()

    def endpoint(self) -> str:
        return str(self.session.listening()[0])


def _client(endpoint: str) -> Any:
    zenoh: Any = importlib.import_module("zwire.zenoh")
    config = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    return zenoh.open(config)


class Bridge:
    """The bridge, and a hub by which ZRE nodes find it."""

    def __init__(self, endpoint: str, hub: int, mailbox: int) -> None:
        bridge: Any = importlib.import_module("zwire.bridge.zre")
        self.session = _client(endpoint)
        node = {
            **LOCAL,
            "mailbox": mailbox,
            "gossip_bind": f"tcp://127.0.0.1:{hub}",
            "high_water_mark": 1_000_000,
        }
        self.bridge = bridge.Bridge(self.session, [GROUP], node=node, **ROOM)

    def close(self) -> None:
        self.bridge.close()
        self.session.close()

    def wait(self, peers: int) -> None:
        """Wait until the bridge forwards for so many peers."""
        end = time.monotonic() + PATIENCE
        while not ((stats := self.bridge.stats())["active"] and stats["peers"] >= peers):
            if time.monotonic() > end:
                raise TimeoutError(f"{stats['peers']} of {peers} peers")
            time.sleep(0.01)

    def dropped(self) -> int:
        """Messages that found a full queue in the bridge."""
        stats = self.bridge.stats()
        return int(stats["dropped_to_zre"] + stats["dropped_to_zenoh"])

    def resident(self) -> int:
        """Octets of memory in use."""
        pages = int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Hearer(abc.ABC):
    """A side that takes messages."""

    @abc.abstractmethod
    def count(self) -> int:
        """Messages so far."""

    def take(self, seconds: float) -> None:
        """Take messages for a time, while others send."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.count()


class Zre(Hearer):
    """ZRE node in the group, or several."""

    def __init__(self, hub: int, count: int = 1) -> None:
        self.start(count, gossip_connect=f"tcp://127.0.0.1:{hub}")

    def start(self, count: int, **how: Any) -> None:
        zre: Any = importlib.import_module("zwire.zre")
        settings = {**LOCAL, "high_water_mark": 1_000_000, **how}
        self.nodes = [zre.Node(**settings, queue=1 << 20) for _ in range(count)]
        for node in self.nodes:
            node.join(GROUP)
            node.start()
        self.node = self.nodes[0]

    def close(self) -> None:
        for node in self.nodes:
            node.stop(0)

    def wait(self, peers: int) -> None:
        self.node.wait_for_peers(peers, PATIENCE, group=GROUP)

    def send(self, seconds: float) -> tuple[int, float]:
        """Shout for a time; return the number of messages, and when it began."""
        batch, sent, first = [bytes(SIZE)] * CHUNK, 0, time.perf_counter()
        while time.perf_counter() < first + seconds:
            self.node.shout_many(GROUP, batch, patience=PATIENCE)
            sent += CHUNK
        return sent, first

    def count(self) -> int:
        """Messages so far, and forget their events."""
        while self.node.recv_many(CHUNK, timeout=0):
            pass
        return int(self.node.stats()["messages_in"])


class Zenoh(Hearer):
    """Client of the router."""

    def __init__(self, endpoint: str) -> None:
        handlers: Any = importlib.import_module("zwire.zenoh.handlers")
        self.session = _client(endpoint)
        self.subscriber = self.session.declare_subscriber(f"zre/group/{GROUP}/*", handlers.Channel(1 << 20))
        self.got = 0

    def close(self) -> None:
        self.session.close()

    def send(self, seconds: float) -> tuple[int, float]:
        """Publish for a time; return the number of messages, and when it began."""
        data, sent, first = bytes(SIZE), 0, time.perf_counter()
        with self.session.declare_publisher(
            f"zre/group/{GROUP}/me", congestion_control=_block()
        ) as publisher:
            while time.perf_counter() < first + seconds:
                for _ in range(CHUNK):
                    publisher.put(data)
                sent += CHUNK
        return sent, first

    def count(self) -> int:
        """Messages so far."""
        while samples := self.subscriber.recv_many(CHUNK, timeout=0):
            self.got += len(samples)
        return self.got


def _block() -> Any:
    zenoh: Any = importlib.import_module("zwire.zenoh")
    return zenoh.CongestionControl.BLOCK


class Both:
    """ZRE nodes and Zenoh clients in one process, for latencies by one clock."""

    def __init__(self, endpoint: str, hub: int) -> None:
        self.zre = Zre(hub, 2)
        self.zenoh = Zenoh(endpoint)

    def close(self) -> None:
        self.zre.close()
        self.zenoh.close()

    def wait(self) -> None:
        self.zre.wait(2)

    def latencies(self, count: int) -> tuple[float, float]:
        """The 99th percentiles of a shout to another node, and of one to the client, in seconds."""
        alone, through = [], []
        sender, hearer = self.zre.nodes
        for number in range(count):
            start = time.perf_counter()
            sender.shout(GROUP, str(number))
            while getattr(hearer.recv(timeout=PATIENCE), "group", None) != GROUP:
                pass
            alone.append(time.perf_counter() - start)
            self.zenoh.subscriber.recv(timeout=PATIENCE)
            time.sleep(0.001)
        for number in range(count):
            start = time.perf_counter()
            sender.shout(GROUP, str(number))
            self.zenoh.subscriber.recv(timeout=PATIENCE)
            through.append(time.perf_counter() - start)
            hearer.recv_many(CHUNK, timeout=0)
            time.sleep(0.001)
        return quantiles(alone, n=100)[98], quantiles(through, n=100)[98]


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    out = Row(AREA, f"shout {SIZE} B to Zenoh", "msg/s", PEER, target=0.5)
    back = Row(AREA, f"put {SIZE} B to ZRE", "msg/s", PEER, target=0.5)
    added = Row(AREA, "latency added, p99", "µs", "-", floor=200e-6, less_is_better=True)
    memory = Row(AREA, f"memory of {PEERS} peers", "MiB", "-", floor=100, less_is_better=True)
    rows = plan.chosen([out, back, added, memory])
    if not rows:
        return
    progress(AREA)
    with ExitStack() as stack:
        (router,) = stack.enter_context(children(Child("router", Router)))
        endpoint, hub, mailbox = router.call("endpoint"), free_port(), free_port()
        (bridge,) = stack.enter_context(children(Child("bridge", Bridge, endpoint, hub, mailbox)))
        if memory in rows:
            memory.ours.append(_memory(bridge, mailbox, PEERS // 20 if plan.smoke else PEERS))
        if added in rows:
            with children(Child("both", Both, endpoint, hub)) as (both,):
                both.call("wait")
                bridge.call("wait", 2)
                for _ in range(plan.rounds):
                    alone, through = both.call("latencies", 50 if plan.smoke else 1000)
                    added.ours.append(Trial(max(0.0, through - alone)))
        if out in rows or back in rows:
            for _ in range(plan.rounds):
                _rates(
                    plan,
                    (endpoint, hub, bridge),
                    out if out in rows else None,
                    back if back in rows else None,
                )
    yield from rows


def _memory(bridge: Child, mailbox: int, count: int) -> Trial:
    """Memory that peers take in the process of the bridge."""
    before = bridge.call("resident")
    with children(Child("peers", Many, mailbox, count)):
        bridge.call("wait", count)
        return Trial((bridge.call("resident") - before) / (1 << 20))


class Many(Zre):
    """Many nodes, which know the bridge alone: each other they do not need."""

    def __init__(self, mailbox: int, count: int) -> None:
        self.start(count, peers=f"tcp://127.0.0.1:{mailbox}")

    def close(self) -> None:
        """Leave the nodes to the end of the process, which stops all of them at once."""


def _rates(plan: Plan, site: tuple[str, int, Child], out: Row | None, back: Row | None) -> None:
    endpoint, hub, bridge = site
    # Without the bridge: two nodes, and two clients.
    alone = []
    own = free_port()
    with children(Child("hub", Hub, own), Child("sender", Zre, own)) as (hearer, sender):
        sender.call("wait", 1)
        alone.append(_rate(plan, sender, hearer)[0])
    with children(Child("subscriber", Zenoh, endpoint), Child("publisher", Zenoh, endpoint)) as (
        hearer,
        sender,
    ):
        alone.append(_rate(plan, sender, hearer)[0])
    theirs = Trial(min(alone))
    with children(Child("node", Zre, hub), Child("client", Zenoh, endpoint)) as (node, client):
        node.call("wait", 1)
        bridge.call("wait", 1)
        for row, sender, hearer in ((out, node, client), (back, client, node)):
            if row is not None:
                rate, dropped = _rate(plan, sender, hearer, bridge)
                row.ours.append(Trial(rate))
                row.theirs.append(theirs)
                row.note = f"{dropped:.1%} found a full queue of the bridge, and are not counted"


class Hub(Zre):
    """ZRE node by which the other one finds it."""

    def __init__(self, hub: int) -> None:
        self.start(1, gossip_bind=f"tcp://127.0.0.1:{hub}")


def _rate(plan: Plan, sender: Child, hearer: Child, bridge: Child | None = None) -> tuple[float, float]:
    """Messages received per second, from the first sent to the last one, and the share that was dropped."""
    before, dropped_before = hearer.call("count"), bridge.call("dropped") if bridge else 0
    hearer.send("take", plan.seconds)
    sent, first = sender.call("send", plan.seconds)
    hearer.result()
    end = time.monotonic() + PATIENCE
    while True:
        came, last = hearer.call("count") - before, time.perf_counter()
        dropped = bridge.call("dropped") - dropped_before if bridge else 0
        # A ZRE node counts a few messages of the protocol as well.
        if came + dropped >= sent:
            return (sent - dropped) / (last - first), dropped / sent
        if time.monotonic() > end:
            raise TimeoutError(f"{came} of {sent} messages, {dropped} dropped")
