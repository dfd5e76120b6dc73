"""Starts nodes of either implementation and talks to them; every wait is bounded."""

import base64
import contextlib
import hashlib
import itertools
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from interop.starter import Starter
from network.relay import DatagramRelay
from nodes import free_port

PEER = Path(__file__).with_name("peer.py")

ZWIRE = "zwire"
ECLIPSE = "eclipse"
OLD = "eclipse-1.0"
NINE = "eclipse-1.9"
# Their releases; `make setup` installs them.
RELEASES = {OLD: "1.0.0", NINE: "1.9.0"}

# Hub, near client, far client. In these mixes any two of the roles are filled in all four ways; the other
# three mixes are part of `make test-long`.
PAIRWISE = {
    (ZWIRE, ZWIRE, ZWIRE),
    (ZWIRE, ECLIPSE, ECLIPSE),
    (ECLIPSE, ZWIRE, ECLIPSE),
    (ECLIPSE, ECLIPSE, ZWIRE),
}


def mixes():
    """Return the mixes of a hub and two clients that have a node of ours, as parameters of a test."""
    return [
        pytest.param(mix, id="-".join(mix), marks=[] if mix in PAIRWISE else [pytest.mark.long])
        for mix in itertools.product((ZWIRE, ECLIPSE), repeat=3)
        if ZWIRE in mix
    ]


# Default time limit of a command. On an idle machine it takes milliseconds.
PATIENCE = 20.0


class PeerError(AssertionError):
    """A command failed in the peer."""


def python_of(implementation):
    """Interpreter and module."""
    if implementation == ZWIRE:
        return sys.executable, "zwire.zenoh"
    if implementation == ECLIPSE:
        return sys.executable, "zenoh"
    prefix = os.environ.get("ZWIRE_OLD_PEERS")
    if not prefix:
        pytest.skip("ZWIRE_OLD_PEERS names no interpreters (`make test-interop` installs them)")
    return f"{prefix}{RELEASES[implementation]}/bin/python", "zenoh"


STARTERS = {}


def starter_of(python, module, environment):
    """The process that forks nodes with an interpreter, a module and an environment."""
    key = python, module, *sorted(environment.items())
    if key not in STARTERS:
        STARTERS[key] = Starter([python, str(PEER), module], environment)
    return STARTERS[key]


class Peer:
    """A child process that runs ``peer.py``.

    Args:
        implementation: of Zenoh.
        host: of a network of our own, visible to the process; ``None`` is this machine.
    """

    def __init__(self, implementation, host=None):
        self.implementation = implementation
        python, module = python_of(implementation)
        self.stderr = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - lives as long as the process
        # A name of the running test would differ from test to test.
        hidden = {
            "PYTEST_CURRENT_TEST",
            "ZENOH_CONFIG",
            "ZWIRE_CONFIG",
            "ZENOH_SESSION_CONFIG_URI",
            "ZENOH_CONFIG_OVERRIDE",
        }
        if host:
            # The network has no other nodes: scouting may run with its defaults.
            hidden.add("ZWIRE_SCOUTING_INTERFACE")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        if host:
            self.process = subprocess.Popen(
                [*host.namespace.prefix, python, str(PEER), module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                text=True,
                env=environment,
            )
        else:
            self.process = starter_of(python, module, environment).start(self.stderr)
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def complaints(self):
        """The standard error of the process."""
        self.stderr.seek(0)
        return self.stderr.read()

    def send(self, op, **fields):
        """Send a command without waiting for its end."""
        print(json.dumps({"op": op, **fields}), file=self.process.stdin, flush=True)

    def answer(self, within=PATIENCE):
        """The reply to the oldest command without one."""
        try:
            line = self.answers.get(timeout=within)
        except queue.Empty:
            raise PeerError(
                f"{self.implementation} gave no answer within {within} s\n{self.complaints()}"
            ) from None
        if line is None:
            raise PeerError(f"{self.implementation} ended ({self.process.wait(5)})\n{self.complaints()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.implementation}: {answer['error']}\n{self.complaints()}")
        return answer["value"]

    def __getattr__(self, op):
        def call(within=PATIENCE, **fields):
            self.send(op, **fields)
            return self.answer(within)

        return call

    def kill(self):
        """End as in a crash: no close message is sent."""
        self.process.kill()
        self.process.wait(10)

    def end(self):
        """Lets the process end by itself, with an open session; it must not hang."""
        if self.process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.send("quit")
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise PeerError(f"{self.implementation} did not end\n{self.complaints()}") from None
            finally:
                self._release()
            return
        self._release()

    def _release(self):
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self.stderr.close()


QUIET = {"scouting/multicast/enabled": False}


class Net:
    """The nodes of one test."""

    def __init__(self):
        self.peers = []

    def start(self, implementation):
        """A process without a session."""
        peer = Peer(implementation)
        self.peers.append(peer)
        return peer

    def node(self, implementation, mode, listen=(), connect=(), **settings):
        """A process with a session."""
        peer = self.start(implementation)
        peer.opened = peer.open(
            settings={
                **QUIET,
                "mode": mode,
                "listen/endpoints": list(listen),
                "connect/endpoints": list(connect),
                **settings,
            }
        )
        return peer

    def hub(self, implementation, port=None, **settings):
        """A router on a port of its own."""
        endpoint = f"tcp/127.0.0.1:{port or free_port()}"
        peer = self.node(implementation, "router", listen=[endpoint], **settings)
        peer.endpoint = endpoint
        return peer

    def client(self, implementation, hub, **settings):
        """A client of a router or peer."""
        return self.node(implementation, "client", connect=[hub.endpoint], **settings)

    def end(self):
        problems = []
        for peer in reversed(self.peers):
            try:
                peer.end()
            except PeerError as error:
                problems.append(str(error))
        assert not problems, "\n".join(problems)


def started_at_once(seconds, start, *nodes):
    """Start nodes until one is open within that time, and return all of them.

    A node that waits for more nodes than it has found takes half a second each time. Beside other work one
    start may take longer.
    """
    nodes = [*nodes]
    while not nodes or nodes[-1].opened["seconds"] >= seconds:
        assert len(nodes) < 6, [node.opened["seconds"] for node in nodes]
        nodes.append(start())
    return nodes


class LossyWorld:
    """A router, and a way to it on which datagrams are lost: ``relay.loss`` says how many."""

    def __init__(self):
        self.net = Net()
        udp = free_port()
        self.hub = self.net.hub(ZWIRE)
        self.net.node(ZWIRE, "router", listen=[f"udp/127.0.0.1:{udp}"], connect=[self.hub.endpoint])
        self.relay = DatagramRelay(udp)

    def end(self):
        self.relay.loss = 0.0
        try:
            self.net.end()
        finally:
            self.relay.end()


def shown(payload):
    """The form in which a peer reports these bytes."""
    if len(payload) > 1024:
        return {"size": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    return base64.b64encode(payload).decode()


def random_bytes(size, seed):
    """The bytes that a peer makes of ``{"size": ..., "seed": ...}``."""
    return random.Random(seed).randbytes(size)


def eventually(what, condition, within=5.0, period=0.02):
    """Ask until the condition holds; return its last value."""
    end = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"{what}: not within {within} s")
        time.sleep(period)


def subscribed(publisher, subscriber, key, **options):
    """Subscribes with a collector ``sub`` and waits until a put of ``publisher`` gets there.

    Declarations take time to arrive; until then, a put goes nowhere.
    """
    subscriber.subscribe(name="sub", key=key, **options)
    probe = key.replace("**", "probe").replace("$*", "probe").replace("*", "probe")
    reached(publisher, subscriber, "sub", probe)


def all_declared(publisher, subscriber):
    """Wait until all declarations of the subscriber so far have reached the publisher.

    The declarations of a session arrive in their order, and the one of this key is the last.
    """
    subscriber.subscribe(name="declared last", key="declared/last")
    reached(publisher, subscriber, "declared last", "declared/last")


def reached(publisher, subscriber, name, key, also=()):
    """Puts on the key until one arrives, then forgets all of them, also those of other subscribers."""

    def one():
        publisher.put(key=key, payload="probe")
        return subscriber.received(name=name, count=1, seconds=0.1)

    eventually(f"a put on {key} arrives", one)
    # A probe may still be on its way: after one more has arrived, so have all before it.
    publisher.put(key=key, payload="last probe", congestion_control="BLOCK")
    last = shown(b"last probe")
    for each in (name, *also):
        eventually(
            f"the last probe arrives at {each}",
            lambda each=each: any(
                s["payload"] == last for s in subscriber.received(name=each, count=1, seconds=0.1)
            ),
        )
        subscriber.forget(name=each)
