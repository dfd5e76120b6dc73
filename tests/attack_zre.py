"""Attacks on nodes of ZRE and on sockets of ZMTP: "theirs" is pyre, or libzmq.

Nodes and attackers are hosts of a network of the attack (``network/namespaces.py``): beacons are broadcasts,
and a node judges a connection by its address.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attack import OURS, Measure, attack
from network.namespaces import Network
from zre.peers import Party, Peer, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WATCHED = 10.0
"""Seconds of a newcomer that does not enter while the attack is watched."""


@contextlib.contextmanager
def party() -> Iterator[Party]:
    """Peers on a network of their own. One of theirs may have failed: that is not an error of the attack."""
    network = Network()
    made = Party(network)
    try:
        yield made
    finally:
        for peer in made.peers:
            with contextlib.suppress(Exception):
                peer.kill()
        network.end()


def node(made: Party, implementation: str, name: str, **settings: Any) -> Peer:
    return made.zwire(name, **settings) if implementation == OURS else made.pyre(name, **settings)


def mib(peer: Peer) -> float:
    """Memory at most so far, in MiB; 0 if the process is gone."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{peer.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    return 0.0


def entered(made: Party, implementation: str, target: Peer) -> float:
    """Seconds until a newcomer and the target know each other."""
    start = time.monotonic()
    with contextlib.suppress(PeerError):
        newcomer = node(made, implementation, "newcomer")
        # Without the start of its interpreter.
        start = time.monotonic()
        newcomer.wait("ENTER", target, within=WATCHED)
        target.wait("ENTER", newcomer, within=max(0.1, start + WATCHED - time.monotonic()))
        return time.monotonic() - start
    return WATCHED


@contextlib.contextmanager
def meanwhile(run: Callable[[], object]) -> Iterator[None]:
    """Run something beside the block, and wait for its end."""

    def body() -> None:
        with contextlib.suppress(PeerError):
            run()

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def p99(one: Peer, two: Peer, seconds: float) -> float:
    """Milliseconds for a message and its answer, of 99 in 100, between two nodes that know each other."""
    took: list[float] = []
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            start = time.monotonic()
            one.whisper(two, b"%d" % len(took))
            two.wait("WHISPER", one, within=5, count=len(took) + 1)
            took.append(time.monotonic() - start)
            time.sleep(0.005)
    except PeerError:
        return 5000.0
    took.sort()
    return 1000 * took[int(0.99 * (len(took) - 1))]


@attack("100,000 beacons of nodes that do not exist (theirs: pyre)")
def beacons(implementation: str) -> list[Measure]:
    count = 100_000
    with party() as made:
        target = node(made, implementation, "target")
        stranger = made.rude()
        before = stranger.ask("reset")
        with meanwhile(lambda: stranger.ask("flood", count=count, to=made.network.broadcast, within=30)):
            time.sleep(1)
            took = entered(made, implementation, target)
        asked = stranger.ask("reset") - before
        return [
            Measure("newcomer joins after, s", took, most=2),
            Measure("connections asked for, per beacon", asked / count, most=1),
            Measure("MiB at most", mib(target), most=256),
        ]


@attack("5,000 beacons that name a listener that never speaks (theirs: pyre)")
def mute_listeners(implementation: str) -> list[Measure]:
    with party() as made:
        one, two = node(made, implementation, "one"), node(made, implementation, "two")
        one.wait("ENTER", two)
        two.wait("ENTER", one)
        stranger = made.rude()
        flood = {"count": 5000, "to": made.network.broadcast, "mailbox": stranger.ask("listen")}
        with meanwhile(lambda: stranger.ask("flood", within=30, **flood)):
            return [Measure("p99 of two nodes, ms", p99(one, two, 5), most=50)]


@attack("20 HELLO with the endpoint of a live peer (theirs: pyre)")
def stolen_endpoints(implementation: str) -> list[Measure]:
    with party() as made:
        target, peer = node(made, implementation, "target"), node(made, implementation, "peer")
        endpoint = target.wait("ENTER", peer)["address"]
        mailbox = peer.wait("ENTER", target)["address"]
        stranger = made.rude()
        for number in range(20):
            with contextlib.suppress(PeerError):
                identity = "01" + bytes([number + 1]).hex() + "5A" * 15
                way = stranger.ask("connect", endpoint=mailbox, identity=identity)
                stranger.ask("hello", number=way, endpoint=endpoint)
        time.sleep(1)
        return [Measure("sessions ended", len(target.told("EXIT", peer)), most=0)]


@attack("1,500 connections without HELLO, to a node with 1,024 descriptors (theirs: pyre)")
def scarce_descriptors(implementation: str) -> list[Measure]:
    with party() as made:
        stranger = made.rude()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        try:
            target = node(made, implementation, "target")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        witness = node(made, implementation, "witness")
        mailbox = witness.wait("ENTER", target)["address"]
        target.wait("ENTER", witness)
        stranger.ask("hold", endpoint=mailbox, count=1500, handshake=True, within=60)
        return [Measure("newcomer joins after, s", entered(made, implementation, target), most=2)]


@contextlib.contextmanager
def asked_server(implementation: str, seconds: float) -> Iterator[str]:
    """A ROUTER with PLAIN, whose authenticator takes that long for an answer; yield its endpoint."""

    def judge(credentials: tuple[bytes, ...]) -> bool:
        time.sleep(seconds)
        return credentials == (b"user", b"password")

    if implementation == OURS:
        from zwire import zmtp

        with zmtp.Router(
            plain=True, authenticator=lambda _mechanism, _peer, credentials: judge(credentials)
        ) as ours:
            yield ours.bind("tcp://127.0.0.1:*")
        return
    import zmq

    with zmq.Context() as context:
        zap = context.socket(zmq.REP)
        zap.bind("inproc://zeromq.zap.01")
        zap.rcvtimeo = 200
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(zmq.Again):
                    version, number, *_, user, password = zap.recv_multipart()
                    status = b"200" if judge((user, password)) else b"400"
                    zap.send_multipart([version, number, status, b"", b"", b""])
            zap.close(0)

        server = threading.Thread(target=serve)
        server.start()
        router = context.socket(zmq.ROUTER)
        router.plain_server, router.linger = True, 0
        try:
            yield f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
        finally:
            router.close(0)
            over.set()
            server.join()


GUESSER = """
import collections, contextlib, socket, sys
hello = b"\\x05HELLO\\x05guess\\x05wrong"
guess = b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00PLAIN" + bytes(47) + b"\\x04" + bytes([len(hello)]) + hello
held = collections.deque()
while True:
    with contextlib.suppress(OSError):
        stream = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1, ("127.0.0.9", 0))
        held.append(stream)
        stream.sendall(guess)
    if len(held) > 400:
        held.popleft().close()
"""
"""Asks for connections with a wrong password as fast as it can, from an address of its own."""


@attack("guessers of a password of PLAIN, at an authenticator of 0.5 s (theirs: libzmq)")
def guessers(implementation: str) -> list[Measure]:
    from zwire import errors, zmtp

    with asked_server(implementation, 0.5) as endpoint:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        command = [sys.executable, "-c", GUESSER, host, port]
        attackers = [subprocess.Popen(command) for _ in range(2)]
        time.sleep(3)
        start, connected = time.monotonic(), False
        while not connected and time.monotonic() < start + WATCHED:
            # An attempt that the server aborts is made again.
            with zmtp.Dealer(plain=("user", "password")) as honest, contextlib.suppress(errors.ZwireError):
                honest.connect(endpoint, wait=start + WATCHED - time.monotonic())
                connected = True
        took = time.monotonic() - start
        for attacker in attackers:
            attacker.kill()
            attacker.wait()
    return [Measure("honest client waits, s", took, most=2)]


@attack("forged log lines of ZRE/LOG", theirs=False)
def forged_lines(implementation: str) -> list[Measure]:
    from zwire import zre
    from zwire._text import printable
    from zwire.cli import zre_log

    assert implementation == OURS
    forged = 0
    texts = ["\n2026-01-01 ERROR", "\r\x1b[2K", "\x9b31m", "\u2028", "\x85", "\x0b\x0c\x1c\x7f", "\u202e"]
    with (
        zre.LogCollector(bind="tcp://127.0.0.1:*") as collector,
        zre.LogSender("tcp://127.0.0.1:1") as sender,
    ):
        sender.connect(collector.endpoint)
        end = time.monotonic() + WATCHED
        while (record := collector.try_recv()) is None and time.monotonic() < end:
            sender.log("INFO", "JOIN", "first")
            time.sleep(0.02)
        for text in texts:
            sender.log("INFO", "JOIN", text)
        came: set[str] = set()
        while len(came) < len(texts) and time.monotonic() < end:
            record = collector.recv(WATCHED)
            if record.data != "first":
                came.add(record.data)
                shown = [printable(zre_log._line(record, form)) for form in ("text", "jsonl")]
                forged += sum(not line.isprintable() for line in shown)
        return [
            Measure("records that came", len(came), least=len(texts)),
            Measure("lines with control characters", forged, most=0),
        ]
