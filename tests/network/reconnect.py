"""The reconnect matrix: a running system while its network or one of its nodes fails.

Each case is a network of its own, with two nodes that publish to each other, ask each other and watch each
other's token. A fault happens; then everything is as before within the lease and two seconds, without help.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable

from interop.harness import ECLIPSE, QUIET, ZWIRE, Peer, eventually, shown
from network.namespaces import Network

PORT = 7447
# What the way back may take beyond the lease.
GRACE = 2.0
# A message is put as often.
PERIOD = 0.01


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long everything takes: as by default, or all of it shorter.

    Args:
        lease: seconds of silence after which a link is given up.
        retry: seconds before the first try to connect again, and at most between two.
        hole: how long nothing gets through in the longest case.
    """

    lease: float
    retry: tuple[float, float]
    hole: float

    @property
    def settings(self):
        first, most = self.retry
        return {
            "transport/link/tx/lease": int(self.lease * 1000),
            "connect/retry": {"period_init_ms": int(first * 1000), "period_max_ms": int(most * 1000)},
        }


DEFAULT = Timing(lease=10.0, retry=(1.0, 4.0), hole=90.0)
# A fault of 0.3 leases is over, and TCP has tried again, well before the lease is.
# The hole outlasts the lease and the ten seconds of SO_LINGER behind it: a router of the reference closes its
# lost connections in the threads that read, and reads nothing from any peer until they are closed.
SHORT = Timing(lease=2.5, retry=(0.2, 0.8), hole=14.0)


@dataclasses.dataclass(frozen=True)
class System:
    """Two nodes ``a`` and ``b`` that talk to each other, each on a host of its own.

    Args:
        name: names the implementations.
        hub: implementation of the router between them, on a third host; without, ``b`` connects to ``a``.
        a: implementation and mode.
        b: the same.
    """

    name: str
    hub: str | None
    a: tuple[str, str]
    b: tuple[str, str]


SYSTEMS = [
    System("our router, our clients", ZWIRE, (ZWIRE, "client"), (ZWIRE, "client")),
    System("their router, our clients", ECLIPSE, (ZWIRE, "client"), (ZWIRE, "client")),
    System("our router, their clients", ZWIRE, (ECLIPSE, "client"), (ECLIPSE, "client")),
    System("our peers", None, (ZWIRE, "peer"), (ZWIRE, "peer")),
    System("their peer connects to ours", None, (ZWIRE, "peer"), (ECLIPSE, "peer")),
    System("our peer connects to theirs", None, (ECLIPSE, "peer"), (ZWIRE, "peer")),
]


class Scene:
    """The nodes of a case; all connect to ``centre``, which is the router or else ``a``."""

    def __init__(self, system, timing):
        self.system = system
        self.timing = timing
        # Nodes that a fault replaced: they know nothing of what was before.
        self.fresh = set()
        self.closing = contextlib.ExitStack()
        try:
            self.network = Network()
            self.closing.callback(self.network.end)
            self.centre = self.network.host()
            if system.hub:
                self.hub = self.start(system.hub, "router", self.centre)
                self.a = self.start(*system.a, self.network.host())
            else:
                self.hub = None
                self.a = self.start(*system.a, self.centre)
            self.b = self.start(*system.b, self.network.host())
        except BaseException:
            self.closing.close()
            raise

    def start(self, implementation, mode, host):
        peer = Peer(implementation, host)
        peer.host = host
        self.closing.callback(self._end, peer)
        place = [f"tcp/{self.centre.address}:{PORT}"]
        listen, connect = (place, []) if host is self.centre else ([], place)
        peer.opened = peer.open(
            settings={
                **QUIET,
                **self.timing.settings,
                "mode": mode,
                "listen/endpoints": listen,
                "connect/endpoints": connect,
            }
        )
        return peer

    @staticmethod
    def _end(peer):
        if peer.process.poll() is None:
            peer.kill()
        peer.end()

    def restart(self, *, kindly):
        """The node in the centre ends, and another one is there in its place."""
        old = self.hub or self.a
        if kindly:
            old.close()
        old.kill()
        if self.hub:
            self.hub = self.start(self.system.hub, "router", self.centre)
        else:
            self.a = self.start(*self.system.a, self.centre)
            self.fresh.add("a")
            declare(self.a, "a", "b")

    def end(self):
        self.closing.close()


# ---- Faults: each ends when the network is whole again ----


def cable(share):
    """The cable of ``b`` is pulled for this share of the lease."""

    def fault(scene):
        scene.b.host.unplug()
        time.sleep(share * scene.timing.lease)
        scene.b.host.plug()

    return fault


def interface(share):
    """The interface of ``b`` is down; it loses its routes, and sending fails at once."""

    def fault(scene):
        scene.b.host.down()
        time.sleep(share * scene.timing.lease)
        scene.b.host.up()

    return fault


def address(scene):
    scene.b.host.move(77)


def hole(scene):
    """Nothing gets through to the centre or from it, and no node is told."""
    scene.centre.swallow()
    time.sleep(scene.timing.hole)
    scene.centre.carry()


def restart(scene):
    scene.restart(kindly=True)


def kill(scene):
    scene.restart(kindly=False)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A column of the matrix: a fault.

    Args:
        name: of the column.
        happen: makes it happen, and comes back when it is over.
        parts: whether the nodes lose each other; shorter than the lease they do not.
        reason: what our node is told of the end of its link, where it can be known.
    """

    name: str
    happen: Callable[[Scene], None]
    parts: bool = True
    reason: str | None = None


FAULTS = [
    Fault("cable pulled, 0.3 leases", cable(0.3), parts=False),
    Fault("cable pulled, 1.2 leases", cable(1.2), reason="silent"),
    Fault("interface down, 0.3 leases", interface(0.3), parts=False),
    Fault("interface down, 1.2 leases", interface(1.2)),
    Fault("another address", address),
    Fault("centre restarted", restart, reason="closed-by-peer"),
    Fault("centre killed (SIGKILL)", kill, reason="lost"),
    Fault("black hole", hole, reason="silent"),
]


# ---- Before and after ----


def declare(node, own, other):
    """Everything that can be declared, and traffic to the other one."""
    node.subscribe(name="flow", key=f"flow/{own}")
    node.subscribe(name="sub", key=f"to/{own}/**")
    node.queryable(name="q", key=f"ask/{own}", script=[{"do": "reply", "payload": own}])
    node.token(name="token", key=f"live/{own}")
    node.liveliness_subscribe(name="alive", key=f"live/{other}", history=True)
    node.publisher(name="pub", key=f"to/{other}/pub")
    node.querier(name="querier", key=f"ask/{other}")
    node.trickle(key=f"flow/{other}", period=PERIOD)


@dataclasses.dataclass
class Outcome:
    """The result of a case.

    Args:
        back: seconds after the network was whole again until messages came to ``a`` and to ``b``.
        whole: the same until all that was declared was there again.
    """

    back: tuple[float, float]
    whole: float


def run(system, fault, timing):
    """Plays one case; raises when something is not as it was before."""
    scene = Scene(system, timing)
    try:
        declare(scene.a, "a", "b")
        declare(scene.b, "b", "a")
        for node in (scene.a, scene.b):
            matches(node, 5)
            assert [s["kind"] for s in node.received(name="alive", count=1, seconds=5)] == ["PUT"]
            assert len(node.received(name="flow", count=20, seconds=5)) >= 20
        scene.b.transport_events(name="events")
        fault.happen(scene)
        start = time.monotonic()
        limit = start + timing.lease + GRACE
        back = tuple(first_after(node, start, limit) for node in (scene.a, scene.b))
        for node, own, other in ((scene.a, "a", "b"), (scene.b, "b", "a")):
            matches(node, limit - time.monotonic())
            check(node, other, limit, fault.parts and own not in scene.fresh)
        whole = time.monotonic() - start
        told(scene, fault)
        for node in (scene.a, scene.b):
            node.stop()
        return Outcome(back, whole)
    finally:
        scene.end()


def told(scene, fault):
    """``b`` is told that its neighbour has gone and come, each once, and nothing else."""
    expected = ["DELETE", "PUT"] if fault.parts else []
    events = scene.b.received(name="events", count=len(expected), seconds=1)
    assert [event["kind"] for event in events] == expected
    if scene.b.implementation == ZWIRE and fault.parts:
        # For a client any node at the endpoint is a reconnection; for others a restarted peer is a new node.
        again = "connected" if "a" in scene.fresh else "reconnected"
        assert [event["change"] for event in events] == ["disconnected", again]
        assert events[0]["reason"] == (fault.reason or events[0]["reason"])
        assert events[0]["reason"]


def matches(node, within):
    eventually("it matches", lambda: node.matching(name="pub") and node.matching(name="querier"), within)


def first_after(node, moment, limit):
    """Seconds from the moment until the first message that came after it; ten have to."""

    def came():
        after = [s["at"] for s in node.received(name="flow", count=0, seconds=0) if s["at"] > moment]
        return after[0] - moment if len(after) >= 10 else None

    return eventually("traffic again", came, limit - time.monotonic())


def check(node, other, limit, parted):
    """Everything that was declared is there again."""
    node.publish(name="pub", payload="after")
    got = node.querier_get(name="querier")
    assert [r.get("payload") for r in got["replies"]] == [shown(other.encode())], got
    expected = ["PUT", "DELETE", "PUT"] if parted else ["PUT"]
    seconds = max(limit - time.monotonic(), 0.1)
    kinds = [s["kind"] for s in node.received(name="alive", count=len(expected), seconds=seconds)]
    assert kinds == expected, kinds
