"""Nodes of ZRE: shouts to many, discovery, and the cost of an idle node. Against pyre.

pyre needs an interface with broadcast, which the loopback is not for it. So everything runs in a network
namespace of its own with one interface, in a process that is started there (`zre_driver.py`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.plan import Plan, interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "zre"
PEER = "pyre"
FANS = [2, 10, 50]
# Hearers of large messages, all in one process.
LARGE_FANS = (1, 4)
SMALL, LARGE = 64, 1 << 20
# Idle nodes in one process.
IDLE = [1, 100, 1000]
# The first node pays for the runtime and the imports; a further one does not.
KIB_PER_IDLE_NODE = 100
# Time limit of a trial: it answers in a second, the kernel may take the rest.
PATIENCE = 90.0

DRIVER = Path(__file__).with_name("zre_driver.py")
SETUP = (
    "ip link set lo up; ip link add zre0 type veth peer name zre1; ip link set zre1 up; "
    "ip addr add 10.99.0.1/24 broadcast 10.99.0.255 dev zre0; "
    'ip link set zre0 up; exec "$@"'
)


class Network:
    """Runs trials in a namespace of its own."""

    def __init__(self) -> None:
        self.way = next(
            (way for way in (["--net"], ["--user", "--map-root-user", "--net"]) if _works(way)), None
        )

    def run(self, *arguments: object) -> Any:
        """Run one trial; return its figures."""
        assert self.way is not None
        command = ["unshare", *self.way, "sh", "-ec", SETUP, "sh", sys.executable, str(DRIVER)]
        done = subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[-1])


def _works(way: list[str]) -> bool:
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    command = ["unshare", *way, "sh", "-ec", SETUP, "sh", "true"]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False).returncode == 0


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    fans = FANS[:1] if plan.smoke else FANS
    shouts = {
        (fan, way): Row(
            AREA, f"shout 64 B to {fan}{', batch' if way == 'batch' else ''}", "msg/s", PEER, target=10
        )
        for fan in fans
        for way, suffix in (("single", ""), ("batch", ", batch"))
    }
    large = {
        fan: Row(AREA, f"shout 1 MiB to {fan} on this host", "msg/s", PEER, target=2) for fan in LARGE_FANS
    }
    enter = Row(AREA, "start to ENTER at a peer", "µs", PEER, less_is_better=True, floor=1.0)
    idle = {
        count: Row(
            AREA,
            f"idle node, {count} in a process",
            "KiB",
            "a process that has imported it",
            less_is_better=True,
            floor=KIB_PER_IDLE_NODE if count > 1 else None,
        )
        for count in IDLE[: 2 if plan.smoke else None]
    }
    rows = [*shouts.values(), *large.values(), enter, *idle.values()]
    if not plan.wants(*rows):
        return
    network = Network()
    if network.way is None:
        for row in plan.chosen(rows):
            row.skipped = "needs a network namespace: unshare and ip, and a kernel that allows it"
            yield row
        return
    for fan in fans:
        ways = {way: shouts[fan, way] for way in ("single", "batch")}
        if plan.wants(*ways.values()):
            progress(f"{AREA} shout to {fan}")
            _shouts(plan, network, fan, SMALL, ways)
            yield from plan.chosen(list(ways.values()))
    for fan, row in large.items():
        if plan.wants(row):
            progress(f"{AREA} shout 1 MiB to {fan}")
            _shouts(plan, network, fan, LARGE, {"single": row})
            yield row
    if plan.wants(enter):
        progress(f"{AREA} ENTER")
        sides = [lambda: network.run("enter", "zwire"), lambda: network.run("enter", "pyre")]
        for ours, theirs in interleaved(plan.rounds, sides):
            enter.ours.append(Trial(ours))
            enter.theirs.append(Trial(theirs))
        yield enter
    for count, row in idle.items():
        if plan.wants(row):
            progress(f"{AREA} {count} idle")
            found = network.run("idle", count)
            row.ours.append(Trial(found["kib"]))
            row.note = f"{found['threads']} threads in the process"
            yield row


def _shouts(plan: Plan, network: Network, fan: int, size: int, rows: dict[str, Row]) -> None:
    def side(who: str) -> Trial:
        found = network.run("shout", who, fan, plan.seconds, size)
        return Trial(found["rate"], found["cpu"])

    sides = [lambda who=who: side(who) for who in ("pyre", *rows)]
    for theirs, *ours in interleaved(plan.rounds, sides):
        for row, trial in zip(rows.values(), ours, strict=True):
            row.ours.append(trial)
            row.theirs.append(theirs)
