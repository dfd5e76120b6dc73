"""Forwarding: a client publishes, a router hands on, a client receives; each in a process of its own.

Three kinds of clients, since a router is only as fast as its slowest neighbour: each implementation with its
own, both with the clients of eclipse-zenoh, both with those of zwire (by callback, and in batches, which
are fast enough to fill a router).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from python.children import Child, children, free_port
from python.fan import Star
from python.fan import trial as fan_trial
from python.plan import KIB, NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.pubsub import trial
from python.roles import Node
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "hub"
PEER = "eclipse-zenoh router"
SIZES = [8, KIB, 64 * KIB]


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    yield from _forwarding(plan)
    yield from _cores(plan)


def _bind(processes: list[Child], cores: list[int]) -> None:
    """Have all threads of these processes run on these cores."""
    for process in processes:
        for task in Path(f"/proc/{process.process}/task").iterdir():
            # It may have ended.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def _cores(plan: Plan) -> Iterator[Row]:
    """What a second core gives a router with many publishers, and all their processes."""
    rows = {
        many: Row(AREA, f"{many} to 1 in batches, two cores", "msg/s", "the same on one core", target=1.6)
        for many in (1, 2, 4, 8, 16)
    }
    cores = sorted(os.sched_getaffinity(0))[:2]
    if plan.smoke or len(cores) < 2 or not plan.wants(*rows.values()):
        return
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    router = Child("router", Node, OURS, "router", endpoint, None)
    with children(router):
        clients = [Child(f"client {at}", Node, OURS, "client", None, endpoint) for at in range(17)]
        with children(*clients):
            everyone = [router, *clients]
            for many, row in rows.items():
                if not plan.wants(row):
                    continue
                progress(f"{AREA} {row.name}")
                peers = Star(clients[0], clients[1 : 1 + many])

                def on(own: list[int], peers: Star = peers) -> Trial:
                    _bind(everyone, own)
                    return fan_trial(peers, False, "batch", plan.seconds)

                sides = [lambda on=on: on(cores[:1]), lambda on=on: on(cores)]
                for one, two in interleaved(plan.rounds, sides):
                    row.theirs.append(one)
                    row.ours.append(two)
                yield row


def _forwarding(plan: Plan) -> Iterator[Row]:
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
