"""Forwarding: a client publishes, a router hands on, a client receives; each in a process of its own.

Three kinds of clients, since a router is only as fast as its slowest neighbour: each implementation with its
own, both with the clients of eclipse-zenoh, both with those of zwire (by callback, and in batches, which
are fast enough to fill a router).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from python.children import Child, children, free_port
from python.plan import KIB, NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.pubsub import trial
from python.roles import Node
from python.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "hub"
PEER = "eclipse-zenoh router"
SIZES = [8, KIB, 64 * KIB]


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    sizes = SIZES[:1] if plan.smoke else SIZES
    rows = {
        size: {
            "own": Row(AREA, f"{NAMES[size]}, each with its own clients", "msg/s", PEER, target=1.0),
            "theirs": Row(AREA, f"{NAMES[size]}, clients of eclipse-zenoh", "msg/s", PEER, target=1.0),
            "ours": Row(AREA, f"{NAMES[size]}, clients of zwire", "msg/s", PEER, target=1.0),
            "batch": Row(AREA, f"{NAMES[size]}, clients of zwire, batches", "msg/s", PEER, target=1.0),
        }
        for size in sizes
    }
    wanted = {size: per for size, per in rows.items() if plan.wants(*per.values())}
    if not wanted:
        return
    ends = {module: f"tcp/127.0.0.1:{free_port()}" for module in (OURS, THEIRS)}
    hubs = {
        module: Child(f"{module} router", Node, module, "router", end, None) for module, end in ends.items()
    }
    with children(*hubs.values()):
        clients = {
            (kind, hub): tuple(
                Child(f"{kind} {role} at {hub} router", Node, kind, "client", None, ends[hub])
                for role in ("subscriber", "publisher")
            )
            for kind in (OURS, THEIRS)
            for hub in (OURS, THEIRS)
        }
        with children(*(client for two in clients.values() for client in two)):
            for size, per in wanted.items():
                progress(f"{AREA} {NAMES[size]}")
                ways = [(kind, hub, "callback") for kind, hub in clients]
                ways += [(OURS, hub, "batch") for hub in (OURS, THEIRS)]
                sides = [
                    lambda kind=kind, hub=hub, way=way, size=size: trial(
                        *clients[kind, hub], way, size, plan.seconds, hubs[hub]
                    )
                    for kind, hub, way in ways
                ]
                for results in interleaved(plan.rounds, sides):
                    by = dict(zip(ways, results, strict=True))
                    for name, ours, theirs in (
                        ("own", (OURS, OURS, "callback"), (THEIRS, THEIRS, "callback")),
                        ("theirs", (THEIRS, OURS, "callback"), (THEIRS, THEIRS, "callback")),
                        ("ours", (OURS, OURS, "callback"), (OURS, THEIRS, "callback")),
                        ("batch", (OURS, OURS, "batch"), (OURS, THEIRS, "batch")),
                    ):
                        per[name].ours.append(by[ours])
                        per[name].theirs.append(by[theirs])
                yield from plan.chosen(list(per.values()))
