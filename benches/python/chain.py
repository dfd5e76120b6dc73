"""Two routers in a line, a client at each end; each in a process of its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from python import pubsub, roundtrip
from python.children import Child, children, free_port
from python.plan import NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.roles import Node
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "chain"
PEER = "eclipse-zenoh"
SIZE = 64


@dataclass
class Line:
    """The processes of one implementation."""

    routers: list[Child]
    clients: tuple[Child, Child]

    def trial(self, way: str, seconds: float) -> Trial:
        return pubsub.trial(*self.clients, way, SIZE, seconds, *self.routers)

    def ping(self, seconds: float) -> Trial:
        """The 99th percentile of the round trip."""
        times, cpu = roundtrip.trial(*self.clients, "ping", SIZE, seconds)
        return Trial(times[int(len(times) * 0.99)], cpu)


@contextlib.contextmanager
def line(module: str) -> Iterator[Line]:
    """Two routers, then a subscriber at the far one and a publisher at the near one."""
    near, far = (f"tcp/127.0.0.1:{free_port()}" for _ in range(2))
    with contextlib.ExitStack() as stack:

        def start(name: str, mode: str, listen: str | None, connect: str | None) -> Child:
            child = Child(f"{module} {name}", Node, module, mode, listen, connect)
            return stack.enter_context(children(child))[0]

        routers = [start("near router", "router", near, None), start("far router", "router", far, near)]
        subscriber = start("subscriber", "client", None, far)
        yield Line(routers, (subscriber, start("publisher", "client", None, near)))


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    name = f"two routers, {NAMES[SIZE]}"
    callback = Row(AREA, f"{name} callback", "msg/s", PEER, target=1.5)
    batch = Row(AREA, f"{name} batch", "msg/s", f"{PEER}, its faster way", target=5.0)
    p99 = Row(AREA, f"{name} round trip, p99", "µs", PEER, target=0.8, less_is_better=True)
    if not plan.wants(callback, batch, p99):
        return
    with line(THEIRS) as theirs, line(OURS) as ours:
        if plan.wants(callback, batch):
            progress("chain")
            sides = [
                lambda: theirs.trial("callback", plan.seconds),
                lambda: ours.trial("callback", plan.seconds),
                lambda: theirs.trial("iterate", plan.seconds),
                lambda: ours.trial("batch", plan.seconds),
            ]
            for call, our_call, loop, our_batch in interleaved(plan.rounds, sides):
                callback.theirs.append(call)
                callback.ours.append(our_call)
                batch.theirs.append(max(call, loop, key=lambda t: t.value))
                batch.ours.append(our_batch)
            yield from plan.chosen([callback, batch])
        if plan.wants(p99):
            progress("chain ping")
            for side in (theirs, ours):
                side.clients[0].call("pong")
            seconds = plan.seconds * 2
            for their, our in interleaved(
                plan.rounds, [lambda: theirs.ping(seconds), lambda: ours.ping(seconds)]
            ):
                p99.theirs.append(their)
                p99.ours.append(our)
            yield p99
