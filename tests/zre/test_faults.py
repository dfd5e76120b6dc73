"""The fault matrix: what each side is told, and when, while a network or a peer fails.

All cases run at the same time, each on a network of its own, with the timers that nodes have by default; the
table in docs/guide/zre-faults.md is made of :data:`CASES` and is checked against them.
"""

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from network.namespaces import Network
from zre.peers import Party

DOCUMENT = Path(__file__).parents[2] / "docs" / "guide" / "zre-faults.md"

# What a busy machine may add to each time, in seconds.
SLACK = 3.0


@dataclasses.dataclass
class Scene:
    """Two nodes of zwire and one of pyre; the faults happen to ``b``."""

    party: Party
    a: object
    b: object
    pyre: object


def unplug(seconds):
    def fault(scene):
        both = ((scene.a, scene.b), (scene.b, scene.a))
        scene.b.host.unplug()
        # What is said meanwhile comes when the session outlives the fault.
        for x, y in both:
            for number in range(10):
                x.whisper(y, str(number))
        time.sleep(seconds)
        scene.b.host.plug()
        for x, y in both if seconds < 30 else ():
            y.wait("WHISPER", x, count=10)
            assert [int(e["content"][0]) for e in y.told("WHISPER", x)] == list(range(10))

    return fault


def down(seconds):
    def fault(scene):
        scene.b.host.down()
        time.sleep(seconds)
        scene.b.host.up()

    return fault


def spoil(seconds, **rules):
    def fault(scene):
        scene.party.network.respoil(seed=7, **rules)
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            for x, y in ((scene.a, scene.b), (scene.b, scene.a)):
                x.whisper(y, str(number))
            number += 1
            time.sleep(0.05)
        scene.party.network.respoil()
        for x, y in ((scene.a, scene.b), (scene.b, scene.a)):
            y.wait("WHISPER", x, count=number)
            assert [int(e["content"][0]) for e in y.told("WHISPER", x)] == list(range(number))

    return fault


def freeze(seconds):
    def fault(scene):
        scene.b.freeze()
        time.sleep(seconds)
        scene.b.thaw()

    return fault


def kill(scene):
    scene.b.kill()


def take_port(scene):
    """Another program listens where the peer did, and answers with something else."""
    port = int(scene.b.endpoint.rpartition(":")[2])
    scene.b.kill()
    code = (
        "import socket, sys\n"
        f"s = socket.create_server(('', {port}))\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    c.sendall(b'SSH-2.0-other\\r\\n' * 10)\n"
    )
    scene.stranger = scene.b.host.popen("-c", code)


def move(scene):
    scene.b.host.move(77)


def same_uuid(scene):
    """The peer is killed and comes back at once, with the UUID it had."""
    scene.b.kill()
    scene.again = scene.party.zwire("b", host=scene.b.host, uuid=scene.b.uuid)


def goodbye(scene):
    scene.b.stop()


@dataclasses.dataclass
class Case:
    """A row of the table.

    ``a``, ``b`` and ``pyre``: the events about the other side (``b`` sees ``a``), with the second after the
    start of the fault in which each comes.
    """

    name: str
    fault: Callable[[Scene], None]
    lasts: float
    a: list[tuple[str, float]]
    b: list[tuple[str, float]]
    pyre: list[tuple[str, float]]
    spoiled: bool = False
    survives: bool = True


# A peer that is pinged every second and does not answer; half a minute later it is given up.
QUIET = [("EVASIVE", 5), ("SILENT", 6)]
GONE = [*QUIET, ("EXIT", 30)]

# Some links take a second to come up again: then it is the fifth second in which nothing was heard.
MAYBE = [("EVASIVE?", 5)]

CASES = [
    Case("cable of b pulled for 3 s", unplug(3), 6, MAYBE, MAYBE, []),
    Case("cable of b pulled for 10 s", unplug(10), 15, QUIET, QUIET, []),
    Case(
        "cable of b pulled for 40 s",
        unplug(40),
        48,
        [*GONE, ("ENTER", 41)],
        [*GONE, ("ENTER", 41)],
        [("EXIT", 30), ("ENTER", 41)],
    ),
    Case("interface of b down for 3 s", down(3), 6, MAYBE, MAYBE, []),
    Case("interface of b down for 10 s", down(10), 15, QUIET, QUIET, []),
    Case(
        "interface of b down for 40 s",
        down(40),
        48,
        [*GONE, ("ENTER", 41)],
        [*GONE, ("ENTER", 41)],
        [("EXIT", 30), ("ENTER", 41)],
    ),
    Case("5 % of all frames lost for 15 s", spoil(15, loss=0.05), 16, [], [], [], spoiled=True),
    Case("20 % of all frames lost for 15 s", spoil(15, loss=0.2), 16, [], [], [], spoiled=True),
    Case(
        "30 % of datagrams doubled and 30 % late for 15 s",
        spoil(15, duplicate=0.3, reorder=0.3, hold=1.5, only="udp"),
        16,
        [],
        [],
        [],
        spoiled=True,
    ),
    # It looks at its interfaces every two seconds: up to 3 s, by when it looked last.
    Case(
        "b gets another address",
        move,
        12,
        [("EXIT", 1), ("ENTER", 1)],
        [],
        [("EXIT", 1), ("ENTER", 1)],
    ),
    Case("b stopped (SIGSTOP) for 10 s", freeze(10), 15, QUIET, [], []),
    Case(
        "b stopped (SIGSTOP) for 40 s",
        freeze(40),
        48,
        [*GONE, ("ENTER", 40)],
        [("EXIT", 40), ("ENTER", 40)],
        [("EXIT", 30), ("ENTER", 40)],
    ),
    Case("b killed", kill, 34, GONE, [], [("EXIT", 30)], survives=False),
    Case(
        "b killed, another program takes its port",
        take_port,
        34,
        GONE,
        [],
        [("EXIT", 30)],
        survives=False,
    ),
    Case(
        "b killed and started again with its UUID",
        same_uuid,
        10,
        [("EXIT", 1), ("ENTER", 1)],
        [],
        [("EXIT", 1), ("ENTER", 1)],
        survives=False,
    ),
    Case("b says goodbye", goodbye, 3, [("EXIT", 0)], [], [("EXIT", 0)], survives=False),
]


def run(case):
    network = Network({} if case.spoiled else None)
    party = Party(network)
    try:
        hosts = [network.host() for _ in range(3)]
        network.connect()
        scene = Scene(
            party,
            party.zwire("a", host=hosts[0]),
            party.zwire("b", host=hosts[1]),
            party.pyre("pyre", host=hosts[2]),
        )
        for x, y in ((scene.a, scene.b), (scene.b, scene.a), (scene.pyre, scene.a), (scene.pyre, scene.b)):
            x.wait("ENTER", y)
        scene.a.wait("ENTER", scene.pyre)
        scene.b.wait("ENTER", scene.pyre)
        start = time.monotonic()
        case.fault(scene)
        time.sleep(max(0.0, start + case.lasts - time.monotonic()))
        if case.survives:
            for x, y in ((scene.a, scene.b), (scene.b, scene.a), (scene.pyre, scene.b)):
                x.whisper(y, "after")
                y.wait("WHISPER", x, content=[b"after"])
        seen = {}
        for name, observer, other in (
            ("a", scene.a, scene.b),
            ("b", scene.b, scene.a),
            ("pyre", scene.pyre, scene.b),
        ):
            events = [(e["type"], e["time"] - start) for e in observer.told(peer=other) if e["time"] > start]
            seen[name] = [(kind, round(t, 1)) for kind, t in events if kind not in ("WHISPER", "STOP")]
        return seen
    finally:
        try:
            party.end()
        finally:
            network.end()


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", CASES, ids=[c.name.replace(" ", "-") for c in CASES])
def test_who_sees_what_when(namespaces, outcomes, case):
    seen = outcomes[case.name].result(timeout=150)
    for who in ("a", "b", "pyre"):
        expected = [(kind.rstrip("?"), at) for kind, at in getattr(case, who)]
        if getattr(case, who) == MAYBE and not seen[who]:
            continue
        assert [kind for kind, _ in seen[who]] == [kind for kind, _ in expected], f"{who}: {seen[who]}"
        for (kind, at), (_, wanted) in zip(seen[who], expected, strict=True):
            assert wanted - 1.5 <= at <= wanted + SLACK, f"{who}: {kind} at {at}, not about {wanted}"


def told(events):
    if events == MAYBE:
        return "nothing, or EVASIVE 5 s"
    return ", ".join(f"{kind} {at:g} s" for kind, at in events) or "nothing"


def table():
    head = ["| Fault | a is told of b | b is told of a | pyre is told of b |", "|---|---|---|---|"]
    return head + [f"| {c.name} | {told(c.a)} | {told(c.b)} | {told(c.pyre)} |" for c in CASES]


def test_the_table_in_the_documentation_is_this_one():
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    assert [r for r in rows if r in table()] == table(), "\n".join(table())
