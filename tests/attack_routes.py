"""Attacks of routers on the routes of others: link states that are not so, and as many as one can tell.

Link states carry no proof of their origin (``zenoh-behaviour`` 5.6). The bystanders of these attacks are at
both ends of a chain of three routers; the liar is linked to one of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import attack
import raw
from attack import QUIET, Bystanders, Measure, Router, drain, scaled, undisturbed
from raw import sized, vle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIAR = b"\x11"
IDS = [b"\xa1", b"\xb1", b"\xc1"]
"""Ids of the routers of a chain."""

NODE_ID = 0x33
"""Extension with the number of a router, of which a declaration is."""

LINKED = 0.5
"""Seconds within which routers have trees with a new link."""


def state(psid: int, sn: int, zid: bytes | None = None, links: Sequence[int] = ()) -> bytes:
    """Record of a router with its id, if given, and the numbers of the routers that it is linked to."""
    known = b"" if zid is None else sized(zid) + b"\x01"
    options = b"\x00" if zid is None else b"\x03"
    return options + vle(psid) + vle(sn) + known + vle(len(links)) + b"".join(map(vle, links))


def states(records: Sequence[bytes]) -> bytes:
    """OAM with link states."""
    return b"\x5f\x01" + sized(vle(len(records)) + b"".join(records))


class Liar(raw.Sender):
    """A router with a link to another one, of which it says so."""

    def __init__(self, router: Router, neighbour: bytes, zid: bytes = LIAR):
        super().__init__(raw.introduce(router.address, lease=60, role=raw.ROUTER, zid=zid))
        drain(self.stream)
        self.tell(state(0, 1, zid, [1]), state(1, 0, neighbour))
        time.sleep(LINKED)

    def tell(self, *records: bytes) -> None:
        self.send(states(records), self.CONTROL)

    def send_long(self, message: bytes) -> None:
        """Send a message in fragments, on the channel of control."""
        parts = [message[at : at + raw.BATCH] for at in range(0, len(message), raw.BATCH)]
        for at, part in enumerate(parts):
            number = self.numbers[self.CONTROL]
            self.numbers[self.CONTROL] = number + 1
            header = b"\xa6" if at + 1 == len(parts) else b"\xe6"
            # The priority 0; the first fragment is marked by the extension First.
            exts = b"\xb1\x00\x02" if at == 0 else b"\x31\x00"
            raw.pushed(self.stream, raw.batch(header + vle(number) + exts + part))


@dataclass
class Chain:
    """Routers A - B - C, and bystanders at A and C."""

    routers: list[Router]
    others: Bystanders

    def sums(self) -> tuple[float, float]:
        """Memory in MiB and processor seconds of all routers."""
        return sum(each.mib() for each in self.routers), sum(each.seconds() for each in self.routers)


@contextlib.contextmanager
def chain(implementation: str) -> Iterator[Chain]:
    with contextlib.ExitStack() as held:
        routers: list[Router] = []
        for zid in IDS:
            before = {"connect/endpoints": [routers[-1].endpoint]} if routers else {}
            routers.append(Router(implementation, {"id": zid.hex(), **before}))
            held.callback(routers[-1].end)
        yield Chain(routers, Bystanders(routers[0], routers[2]))


def lies(number: Iterator[int]) -> Iterator[list[bytes]]:
    """Lists of claims about each router of a chain: no links, links to invented routers, one to the liar."""
    invented = state(1900, 1, b"\x99" * 4, [1000, 1001, 1002])
    for links in itertools.cycle([[], [1900], [0, 1900], [0]]):
        sn = next(number)
        yield [state(1000 + at, sn, zid, links) for at, zid in enumerate(IDS)] + [invented]


def disturbed(chain: Chain, linked_to: int, period: float) -> list[Measure]:
    with contextlib.closing(Liar(chain.routers[linked_to], IDS[linked_to]).stream) as stream:
        liar = raw.Sender(stream)
        liar.numbers[liar.CONTROL] = 6
        # Greater than all that routers use, and each greater than the answer to the one before.
        claims = lies(itertools.count(1 << 56, 1 << 20))
        end = time.monotonic() + attack.SECONDS
        while time.monotonic() < end:
            liar.send(states(next(claims)), liar.CONTROL)
            time.sleep(period)
        return undisturbed(chain.others.seen())


@attack.attack("claims about the routers of a chain, at the middle one")
def claims_in_the_middle(implementation: str) -> list[Measure]:
    with chain(implementation) as routers:
        return disturbed(routers, 1, 0.01)


@attack.attack("claims about the routers of a chain, at the first one")
def claims_at_the_end(implementation: str) -> list[Measure]:
    with chain(implementation) as routers:
        return disturbed(routers, 0, 0.5)


def invent(liar: Liar, count: int) -> list[int]:
    """Tell of routers that do not exist, each linked to the liar; returns their numbers."""
    numbers = list(range(10, 10 + count))
    records = [state(n, 1, struct.pack("<I", 0xEE000000 + n), [0, 10 + (n * 7) % count]) for n in numbers]
    liar.send_long(states([state(0, 2, None, [1, *numbers]), *records]))
    return numbers


@attack.attack("1,000 invented routers that declare and change")
def invented(implementation: str) -> list[Measure]:
    with chain(implementation) as routers:
        liar = Liar(routers.routers[1], IDS[1])
        with contextlib.closing(liar.stream):
            _, before = routers.sums()
            numbers = invent(liar, scaled(1000))
            time.sleep(LINKED)
            for number in numbers:
                declared = raw.wire.d_entity(raw.SUBSCRIBER, 0, f"x/{number}")
                control = raw.wire.qos(raw.wire.CONTROL, block=True)
                liar.send(raw.wire.declare(declared, control, (NODE_ID, number)), liar.CONTROL)
            end, peak, sn = time.monotonic() + attack.SECONDS, 0.0, itertools.count(3)
            for links in itertools.cycle([[0], [0, numbers[-1]]]):
                if time.monotonic() >= end:
                    break
                for number in numbers[:20]:
                    liar.tell(state(number, next(sn), None, links))
                peak = max(peak, routers.sums()[0])
                time.sleep(0.02)
            _, after = routers.sums()
            return [
                Measure("MiB at most, of three", peak, most=512),
                Measure("processor seconds of three", after - before, most=2 * attack.SECONDS),
                *undisturbed(routers.others.seen()),
            ]


@attack.attack("40,000,000 links told by four neighbours")
def many_links(implementation: str) -> list[Measure]:
    with chain(implementation) as routers, contextlib.ExitStack() as held:
        record = state(0, 5, None, [1] * 10_000)
        message = states([record] * scaled(1000))
        peak, done = 0.0, threading.Event()

        def run(number: int) -> None:
            with contextlib.suppress(OSError, AssertionError):
                liar = Liar(routers.routers[1], IDS[1], LIAR + bytes([number]))
                held.callback(liar.stream.close)
                liar.send_long(message)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 5)]
        for each in threads:
            each.start()
        end = time.monotonic() + attack.SECONDS
        while time.monotonic() < end:
            peak = max(peak, routers.sums()[0])
            done.wait(0.02)
        for each in threads:
            each.join(30)
        return [Measure("MiB at most, of three", peak, most=256), *undisturbed(routers.others.seen())]


@attack.attack("a new router, while 3,000 are invented")
def crowded(implementation: str) -> list[Measure]:
    from zwire import zenoh

    with chain(implementation) as routers, contextlib.ExitStack() as held:
        liar = Liar(routers.routers[1], IDS[1])
        held.callback(liar.stream.close)
        invent(liar, scaled(3000))
        time.sleep(LINKED)
        new = Router(implementation, {"connect/endpoints": [routers.routers[1].endpoint]})
        held.callback(new.end)
        start, came = time.monotonic(), threading.Event()
        client = {**QUIET, "mode": "client"}
        with contextlib.suppress(zenoh.ZError):
            far = held.enter_context(zenoh.open({**client, "connect/endpoints": [new.endpoint]}))
            far.declare_subscriber("new/**", lambda _: came.set())
            first = {**client, "connect/endpoints": [routers.routers[1].endpoint]}
            near = held.enter_context(zenoh.open(first))
            while not came.wait(0.05) and time.monotonic() < start + 10:
                near.put("new/x", "x")
        reached = time.monotonic() - start
        return [Measure("new router is reached, s", reached, most=5), *undisturbed(routers.others.seen())]


def trace(near_endpoint: str, far_endpoint: str) -> None:
    """Publish a thousand numbered messages a second until standard input has a line.

    Tells when each was sent, and which came.
    """
    from zwire import zenoh

    client = {**QUIET, "mode": "client"}
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    came: list[int] = []
    sent: list[float] = []
    longest = 0.0
    with (
        zenoh.open({**client, "connect/endpoints": [far_endpoint]}) as far,
        zenoh.open({**client, "connect/endpoints": [near_endpoint]}) as near,
    ):
        far.declare_subscriber("calm/**", lambda sample: came.append(int(sample.payload.to_string())))
        publisher = near.declare_publisher("calm/x", congestion_control=zenoh.CongestionControl.BLOCK)
        end = time.monotonic() + 10
        while not publisher.matching_status.matching and time.monotonic() < end:
            time.sleep(0.01)
        print("ready", flush=True)
        start = time.monotonic()
        while not stop.is_set():
            if (wait := start + len(sent) * 0.001 - time.monotonic()) > 0:
                time.sleep(wait)
            sent.append(time.monotonic())
            publisher.put(str(len(sent) - 1))
            longest = max(longest, time.monotonic() - sent[-1])
        time.sleep(1)
    print(json.dumps({"sent": sent, "came": came, "longest": longest}), flush=True)


@attack.attack("SIGKILL of the middle one of three routers")
def killed(implementation: str) -> list[Measure]:
    with chain(implementation) as routers:
        routers.others.process.kill()
        a, b, c = routers.routers
        command = [sys.executable, __file__, "trace", a.endpoint, c.endpoint]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as watched:
            assert watched.stdout is not None
            watched.stdout.readline()
            time.sleep(attack.SECONDS / 4)
            kill = time.monotonic()
            b.end()
            time.sleep(1)
            again = {"connect/endpoints": [a.endpoint], "listen/endpoints": [b.endpoint], "id": IDS[1].hex()}
            back = Router(implementation, again)
            try:
                time.sleep(4 + attack.SECONDS)
                out, _ = watched.communicate("\n", timeout=30)
            finally:
                watched.kill()
                back.end()
        seen = json.loads(out.strip().splitlines()[-1])
        came, sent = set(seen["came"]), seen["sent"]
        # Those on the way, or in the queues of the one that was killed, are lost with it.
        before = [n for n, at in enumerate(sent) if at < kill - 0.1]
        after = [n for n, at in enumerate(sent) if at > kill and n in came]
        first = after[0] if after else len(sent)
        return [
            Measure("lost before the kill", len(set(before) - came), most=0),
            Measure("seconds without messages", (sent[first] if after else sent[-1]) - kill, most=8),
            Measure("lost afterwards", len(set(range(first, len(sent))) - came), most=0),
            Measure("doubled", len(seen["came"]) - len(came), most=0),
            Measure("longest put, ms", 1000 * seen["longest"], most=50),
        ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["trace", near_endpoint, far_endpoint]:
            trace(near_endpoint, far_endpoint)
