"""Attacks on a router, with bounded load: the same ones on ours and on one of eclipse-zenoh.

``make attack`` prints a table and fails where ours exceeds a bound. Attackers are octets of :mod:`raw`; two
clients of zwire publish and receive through the router meanwhile, a thousand messages a second, and what they
see is the measure. Each attack gets a router of its own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

import raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS, THEIRS = "zwire", "eclipse"
QUIET = {"scouting/multicast/enabled": False}
NEVER = 1e6
"""Measure of something that has not happened."""

SECONDS = 8.0
"""Time of an attack, if it has no end of its own."""

SCALE = 1.0
"""Part of the load of attacks; tests that only show that an attack runs use less."""


def scaled(count: int) -> int:
    """Part of a count, at least one."""
    return max(1, round(SCALE * count))


class Router:
    """A router in a process of its own."""

    def __init__(self, implementation: str, settings: dict[str, Any] | None = None, address_space: int = 0):
        given = json.dumps({**QUIET, "mode": "router", **(settings or {})})
        command = [sys.executable, __file__, "serve", implementation, given]
        if address_space:
            limit = f'ulimit -v {address_space // 1024}; exec "$@"'
            command = ["/bin/sh", "-c", limit, "sh", *command]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()
        self.address = raw.address_of(self.endpoint)

    def mib(self, name: str = "RssAnon") -> float:
        """Memory in MiB; 0 if the process is gone."""
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith(name + ":")).split()[1]) / 1024
        return 0.0

    def seconds(self) -> float:
        """Processor time so far; 0 if the process is gone."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def serve(implementation: str, settings: str) -> None:
    """Run a router until standard input ends."""
    if implementation == OURS:
        from zwire import zenoh as module
    else:
        import zenoh as module  # type: ignore[no-redef]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = module.Config()
    given = {"listen/endpoints": [f"tcp/127.0.0.1:{port}"], **json.loads(settings)}
    for path, value in given.items():
        config.insert_json5(path, json.dumps(value))
    with module.open(config):
        print(given["listen/endpoints"][0], flush=True)
        sys.stdin.read()


class Bystanders:
    """A publisher and a subscriber in a process of their own, until they are asked what they saw.

    The subscriber is connected to ``far``, by default the same router. The publisher may be elsewhere:
    ``near``, also in a multicast group, under an id.
    """

    def __init__(self, router: Router, far: Router | None = None, *, near: str = "", zid: bytes = b""):
        ends = [near or router.endpoint, (far or router).endpoint]
        command = [sys.executable, __file__, "watch", *ends, zid.hex()]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def seen(self) -> dict[str, float]:
        """Milliseconds (``p99``, ``max``), messages ``lost``, and the part that came (``rate``)."""
        try:
            out, _ = self.process.communicate("\n", timeout=60)
            return dict(json.loads(out.strip().splitlines()[-1]))
        except (ValueError, IndexError, subprocess.TimeoutExpired):
            return {"p99": NEVER, "max": NEVER, "lost": NEVER, "rate": 0.0}
        finally:
            self.process.kill()
            self.process.wait()


def watch(endpoint: str, far_endpoint: str, zid: str) -> None:
    """Publish a thousand numbered messages a second through routers, and tell how they arrived."""
    from zwire import zenoh

    client = {**QUIET, "mode": "client"}
    far_config = {**client, "connect/endpoints": [far_endpoint]}
    # A group does not say whether anything is received.
    in_group = endpoint.startswith("udp/224.")
    if in_group:
        config = {**QUIET, "mode": "peer", "listen/endpoints": [endpoint], "id": zid}
    else:
        config = {**client, "connect/endpoints": [endpoint]}
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    took: list[float] = []
    with zenoh.open(far_config) as far, zenoh.open(config) as near:
        far.declare_subscriber(
            "calm/**", lambda s: took.append(time.monotonic() - float(s.payload.to_string()))
        )
        publisher = near.declare_publisher("calm/x", congestion_control=zenoh.CongestionControl.BLOCK)
        end = time.monotonic() + (1 if in_group else 10)
        while not publisher.matching_status.matching and time.monotonic() < end:
            time.sleep(0.01)
        print("ready", flush=True)
        start, sent = time.monotonic(), 0
        while not stop.is_set():
            due = start + sent * 0.001
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            publisher.put(repr(time.monotonic()))
            sent += 1
        planned = (time.monotonic() - start) / 0.001
        end = time.monotonic() + 10
        while len(took) < sent and time.monotonic() < end:
            time.sleep(0.05)
    took.sort()
    p99, most = (1000 * took[int(0.99 * (len(took) - 1))], 1000 * took[-1]) if took else (NEVER, NEVER)
    seen = {"p99": p99, "max": most, "lost": sent - len(took), "rate": len(took) / planned}
    print(json.dumps(seen), flush=True)


@dataclass
class Measure:
    """A figure of an attack, and the bound of ours: ``most`` or ``least``."""

    name: str
    value: float
    most: float | None = None
    least: float | None = None

    def holds(self) -> bool:
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def bound(self) -> str:
        return f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"


@dataclass
class Attack:
    """An attack by its name; ``theirs`` is false where the other router has nothing like it."""

    name: str
    run: Callable[[str], list[Measure]]
    theirs: bool = True


ATTACKS: list[Attack] = []


def attack(name: str, *, theirs: bool = True) -> Callable[[Callable[[str], list[Measure]]], Any]:
    def add(run: Callable[[str], list[Measure]]) -> Callable[[str], list[Measure]]:
        ATTACKS.append(Attack(name, run, theirs))
        return run

    return add


@contextlib.contextmanager
def calm(implementation: str, **router: Any) -> Iterator[tuple[Router, Bystanders, contextlib.ExitStack]]:
    """A router with bystanders, and a stack for the streams of attackers."""
    target = Router(implementation, **router)
    try:
        watched = Bystanders(target)
        with contextlib.ExitStack() as held:
            yield target, watched, held
    finally:
        target.end()


def undisturbed(seen: dict[str, float], *, p99: float = 50.0) -> list[Measure]:
    return [
        Measure("p99 of others, ms", seen["p99"], most=p99),
        Measure("rate of others", seen["rate"], least=0.9),
        Measure("messages lost", seen["lost"], most=0),
    ]


def drain(stream: socket.socket) -> None:
    """Read what comes, in a thread."""
    # Not in the thread: a message that is sent at that moment fails.
    with contextlib.suppress(OSError):
        stream.settimeout(None)

    def run() -> None:
        with contextlib.suppress(OSError):
            while stream.recv(1 << 16):
                pass

    threading.Thread(target=run, daemon=True).start()


@attack("64 links with slow keys")
def slow_keys(implementation: str) -> list[Measure]:
    pattern = "**/" + "/".join(["a$*", "*"] * 660) + "/**/z"
    long = "/".join(["a"] * 2030)
    with calm(implementation) as (router, others, held):
        senders = [raw.Sender(held.enter_context(raw.introduce(router.address, lease=60))) for _ in range(64)]
        for link, sender in enumerate(senders):
            drain(sender.stream)
            with contextlib.suppress(OSError):
                sender.declare(raw.SUBSCRIBER, (f"{pattern}{link}x{number}" for number in range(120)))
        end, number = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            for link, sender in enumerate(senders):
                sender.stream.setblocking(False)
                with contextlib.suppress(OSError):
                    sender.send(raw.put(f"{number}x{link}/{long}"))
            number += 1
            time.sleep(0.05)
        return undisturbed(others.seen())


@attack("20 links with 36,000 tokens each, and an interest in all")
def tokens(implementation: str) -> list[Measure]:
    with calm(implementation) as (router, others, held):
        time.sleep(1)
        before, all_before, peak = router.mib(), router.mib("VmRSS"), 0.0
        for link in range(20):
            stream = held.enter_context(raw.introduce(router.address, lease=300))
            drain(stream)
            raw.Sender(stream).declare(raw.TOKEN, (f"t/{link}/{number}" for number in range(36_000)))
        asker = raw.Sender(held.enter_context(raw.introduce(router.address, lease=300)))
        asker.send(raw.interest(1, raw.TOKENS))
        for _ in range(20):
            time.sleep(0.2)
            peak = max(peak, router.mib())
        held.close()
        for _ in range(100):
            time.sleep(0.1)
            if router.mib() - before < 0.2 * all_before:
                break
        left = (all_before + router.mib() - before) / all_before
        return [
            Measure("MiB at most", peak, most=1024),
            Measure("memory 10 s later, of before", left, most=1.2),
            *undisturbed(others.seen()),
        ]


@attack("12 links with messages of 60 MB in 900 MB of address space")
def scarce(implementation: str) -> list[Measure]:
    piece = bytes(raw.BATCH)
    with calm(implementation, address_space=900 << 20) as (router, others, held):
        senders = [held.enter_context(raw.introduce(router.address)) for _ in range(12)]
        for number in range(5, 2005):
            header = b"\xe6" if number == 5 else b"\x66"
            fragment = header + raw.vle(number) + (b"\x02" if number == 5 else b"") + piece
            for stream in senders:
                raw.pushed(stream, raw.batch(fragment))
        time.sleep(1)
        alive = router.lives()
        return [Measure("router lives", float(alive), least=1), *undisturbed(others.seen())]


@attack("fragments on all priorities of 8 links")
def priorities(implementation: str) -> list[Measure]:
    piece = bytes(raw.BATCH)
    with calm(implementation) as (router, others, held):
        streams = [held.enter_context(raw.introduce(router.address, lease=60)) for _ in range(8)]
        peak = 0.0
        for number in range(5, 805):
            for stream in streams:
                for priority in range(8):
                    qos = b"\x31" + bytes([priority])
                    first = number == 5
                    # FRAGMENT with the priority; the first one is marked by the extension First.
                    header = (b"\xe6" if number < 804 else b"\xa6") + raw.vle(number)
                    extension = (b"\xb1" + qos[1:] + b"\x02") if first else qos
                    raw.pushed(stream, raw.batch(header + extension + piece))
            peak = max(peak, router.mib())
        return [Measure("MiB at most", peak, most=2200), *undisturbed(others.seen())]


@attack("3,000 connections that never speak")
def mute(implementation: str) -> list[Measure]:
    from zwire import zenoh

    with calm(implementation) as (router, others, held):
        for _ in range(3000):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_connection(router.address, timeout=2))
        start = time.monotonic()
        with contextlib.suppress(zenoh.ZError):
            zenoh.open({**QUIET, "mode": "client", "connect/endpoints": [router.endpoint]}).close()
        newcomer = time.monotonic() - start
        return [Measure("newcomer waits, s", newcomer, most=2), *undisturbed(others.seen())]


@attack("2,000 connections with random bytes")
def noise(implementation: str) -> list[Measure]:
    chance = random.Random(7)
    with calm(implementation) as (router, others, _):
        for _ in range(2000):
            with contextlib.suppress(OSError), socket.create_connection(router.address, timeout=2) as stream:
                stream.sendall(chance.randbytes(chance.randint(1, 2000)))
        return [Measure("router lives", float(router.lives()), least=1), *undisturbed(others.seen())]


@attack("300 sessions that come, declare and go")
def churn(implementation: str) -> list[Measure]:
    with calm(implementation) as (router, others, _):
        for number in range(300):
            with contextlib.suppress(OSError, AssertionError), raw.introduce(router.address) as stream:
                raw.Sender(stream).declare(raw.SUBSCRIBER, (f"c/{number}/{key}/*" for key in range(200)))
        return undisturbed(others.seen())


@attack("a subscriber to everything that never reads")
def deaf(implementation: str) -> list[Measure]:
    with calm(implementation) as (router, others, held):
        stream = held.enter_context(raw.introduce(router.address, lease=60))
        raw.Sender(stream).declare(raw.SUBSCRIBER, ["**"])
        flood = raw.Sender(held.enter_context(raw.introduce(router.address, lease=60)))
        drain(flood.stream)
        # Droppable messages of 30 kB, 120 MB in all.
        for _ in range(4000):
            flood.send(raw.put("flood", bytes(raw.BATCH)))
        peak = router.mib("VmHWM")
        # Others that block may wait for the deaf one up to its patience, once.
        seen = others.seen()
        return [Measure("MiB at most", peak, most=512), Measure("messages lost", seen["lost"], most=0)]


SECRETS = [
    "secret/x",
    "secret",
    "secret/*",
    "secret/**",
    "**",
    "*/x",
    "**/x",
    "s$*/x",
    "$*et/x",
    "*/*",
    "*/**",
]


@attack("33 messages that touch secret/**, which a rule denies")
def rules(implementation: str) -> list[Measure]:
    """With a default that allows; ours with ``match: "intersection"``, which theirs does not have."""
    from zwire import zenoh

    rule = {
        "id": "secret",
        "permission": "deny",
        "messages": ["put", "query", "declare_subscriber"],
        "key_exprs": ["secret/**"],
        **({"match": "intersection"} if implementation == OURS else {}),
    }
    zid = b"\x11" * 4
    settings = {
        "access_control": {
            "enabled": True,
            "default_permission": "allow",
            "rules": [rule],
            "subjects": [{"id": "stranger", "zids": [zid.hex()]}],
            "policies": [{"rules": ["secret"], "subjects": ["stranger"]}],
        }
    }
    router = Router(implementation, settings)
    puts, queries, read = set(), set(), set()
    try:
        with zenoh.open({**QUIET, "mode": "client", "connect/endpoints": [router.endpoint]}) as owner:
            owner.declare_subscriber("secret/x", lambda sample: puts.add(sample.payload.to_string()))
            asked = owner.declare_queryable("secret/x", zenoh.handlers.FifoChannel(100))
            for number, key in enumerate(SECRETS):
                # The link of before has the same id, and may not be gone yet.
                time.sleep(0.3)
                with contextlib.closing(raw.introduce(router.address, lease=30, zid=zid)) as stream:
                    sender = raw.Sender(stream)
                    sender.declare(raw.SUBSCRIBER, [key])
                    sender.send(raw.put(key, f"stolen {number}".encode()))
                    sender.send(raw.request(1, key))
                    stream.settimeout(0.5)
                    marker, seen = f"marker {number}", b""
                    time.sleep(0.2)
                    owner.put("secret/x", marker, congestion_control=zenoh.CongestionControl.BLOCK)
                    with contextlib.suppress(OSError):
                        while marker.encode() not in seen and (more := stream.recv(65536)):
                            seen += more
                    if marker.encode() in seen:
                        read.add(key)
                while (query := asked.try_recv()) is not None:
                    with query:
                        queries.add(key)
            stolen = sum(text.startswith("stolen") for text in puts)
            return [Measure("messages that pass", stolen + len(queries) + len(read), most=0)]
    finally:
        router.end()


@attack("a neighbour that tells of 3,000 nodes that do not exist")
def gossip(implementation: str) -> list[Measure]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=4096)) as trap:
        count = [0]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    trap.accept()[0].close()
                    count[0] += 1

        threading.Thread(target=accept, daemon=True).start()
        router = Router(implementation, {"mode": "peer"})
        try:
            stream = raw.introduce(router.address, lease=60, role=raw.PEER)
            drain(stream)
            sender = raw.Sender(stream)
            locator = f"tcp/127.0.0.1:{trap.getsockname()[1]}"
            for number in range(3000):
                sender.send(raw.gossip(number + 1, locator), raw.Sender.CONTROL)
            time.sleep(SECONDS)
            lives = router.lives()
            stream.close()
        finally:
            router.end()
        return [
            Measure("router lives", float(lives), least=1),
            Measure("attempts to connect", count[0], most=128 + 64 + 5 * SECONDS),
        ]


@attack("300 libzmq dealers at once, ten times (theirs: libzmq)")
def dealers(implementation: str) -> list[Measure]:
    import zmq

    from zwire import errors, zmtp

    losers = 0
    for _ in range(10):
        context = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 1024)
        ours = zmtp.Router() if implementation == OURS else None
        theirs = None if ours else context.socket(zmq.ROUTER)
        if ours:
            endpoint = ours.bind("tcp://127.0.0.1:*")
        else:
            endpoint = f"tcp://127.0.0.1:{theirs.bind_to_random_port('tcp://127.0.0.1')}"
            theirs.rcvtimeo = 3000
        fleet = [context.socket(zmq.DEALER) for _ in range(300)]
        for number, dealer in enumerate(fleet):
            dealer.identity, dealer.linger = b"%d" % number, 0
            dealer.connect(endpoint)
        for dealer in fleet:
            dealer.send(b"first")
            dealer.send(b"second")
        got: collections.Counter[bytes] = collections.Counter()
        with contextlib.suppress(errors.TimedOut, zmq.Again):
            for _ in range(600):
                frames = ours.recv(timeout=3) if ours else theirs.recv_multipart()
                got[frames[0]] += 1
        losers += sum(got[b"%d" % number] < 2 for number in range(300))
        for dealer in fleet:
            dealer.close(0)
        if ours:
            ours.close()
        else:
            theirs.close(0)
        context.term()
    return [Measure("dealers that lost messages", losers, most=0)]


@attack("101 consumers invented at a range server", theirs=False)
def commits(implementation: str) -> list[Measure]:
    import tempfile

    from zwire import spool, zenoh

    assert implementation == OURS
    with tempfile.TemporaryDirectory() as folder:
        with spool.Appender(folder) as appender:
            appender.append(key="k", payload="x")
        spool.secret(folder)
        config = {**QUIET, "mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]}
        with zenoh.open(config) as hub, spool.serve(folder, session=hub) as server:
            for number in range(101):
                asked = {"consumer": f"c{number}", "offsets": {"0": 1}, "proof": os.urandom(32).hex()}
                list(hub.get(f"@zwire/spool/{server.id}?do=commit", payload=json.dumps(asked), timeout=5))
            return [Measure("commits taken", len(spool.open(folder).consumers()), most=0)]


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= NEVER:
        return "never"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def main() -> int:
    for module in ("batches", "groups", "quic", "routes", "zre"):
        # It adds its attacks to the list.
        importlib.import_module(f"attack_{module}")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="attacks with a name that this expression finds")
    parser.add_argument("--ours", action="store_true", help="leave the router of eclipse-zenoh alone")
    args = parser.parse_args()
    failed = 0
    print(f"{'attack':58} {'measure':30} {'ours':>10} {'theirs':>10} {'bound':>10}  verdict")
    for each in ATTACKS:
        if not re.search(args.only, each.name):
            continue
        ours = each.run(OURS)
        theirs: dict[str, float] = {}
        if each.theirs and not args.ours:
            theirs = {measure.name: measure.value for measure in each.run(THEIRS)}
        for measure in ours:
            holds = measure.holds()
            failed += not holds
            row = f"{each.name:58} {measure.name:30} {shown(measure.value):>10}"
            row += f" {shown(theirs.get(measure.name)):>10} {measure.bound():>10}"
            print(f"{row}  {'ok' if holds else 'EXCEEDED'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", implementation, settings]:
            serve(implementation, settings)
        case ["watch", endpoint, far_endpoint, zid]:
            watch(endpoint, far_endpoint, zid)
        case _:
            # The module that the others import and add their attacks to, not this one.
            import attack as imported

            sys.exit(imported.main())
