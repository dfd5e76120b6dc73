"""Drives nodes of several implementations on the hosts of a network; every wait is bounded."""

import contextlib
import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from network.namespaces import Network
from zwire.conformance.zre import Target

PROGRAMS = Path(__file__).with_name("programs")

# Default time limit of an operation. Beacons come once a second.
PATIENCE = 15.0


class PeerError(AssertionError):
    """A peer failed, ended, or did not do something in time."""


def libraries(name):
    """The folder of the C implementations and the environment that loads them; skips without."""
    folder = os.environ.get("ZWIRE_ZRE_PEERS")
    if not folder:
        pytest.skip("ZWIRE_ZRE_PEERS names no folder (`make test-zre` fills one)")
    reason = Path(folder) / f"{name}.missing"
    if reason.exists():
        pytest.skip(f"{name}: {reason.read_text().strip()}")
    return folder, {**os.environ, "LD_LIBRARY_PATH": str(Path(folder) / "lib")}


def octets(content):
    """A text, bytes, or a list of them, in the form that the programs read."""
    if isinstance(content, (str, bytes)):
        content = [content]
    return [(c.encode() if isinstance(c, str) else bytes(c)).hex() for c in content]


class Peer:
    """A program of ours on a host: one node."""

    def __init__(self, host, program, settings=None, *, environment=None):
        self.host = host
        self.program = program
        self.stderr = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - lives as long as the process
        self.process = host.python(
            PROGRAMS / program,
            json.dumps(settings or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=environment,
        )
        self.news = threading.Condition()
        self.answers = []
        self.events = []
        self.looked = 0
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            started = self.wait("STARTED")
        except PeerError:
            self.process.kill()
            self.process.wait(10)
            self._release()
            raise
        self.uuid = started.get("peer")
        self.endpoint = started.get("endpoint")

    def _read(self):
        for line in self.process.stdout:
            thing = json.loads(line)
            with self.news:
                if "event" in thing:
                    event = thing["event"]
                    if "content" in event:
                        event["content"] = [bytes.fromhex(c) for c in event["content"]]
                    self.events.append(event)
                else:
                    self.answers.append(thing)
                self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def complaints(self):
        """The standard error of the process, and how it ended."""
        self.stderr.seek(0)
        return f"{self.program} at {self.host.address}, status {self.process.poll()}\n{self.stderr.read()}"

    def _until(self, ready, within, what):
        deadline = time.monotonic() + within
        with self.news:
            while True:
                found = ready()
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if self.ended or left <= 0:
                    if self.ended:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            self.process.wait(5)
                    told = "\n".join(map(str, self.events[-20:]))
                    raise PeerError(f"{what}: not within {within} s\n{self.complaints()}{told}")
                self.news.wait(left)

    # ---- Commands ----

    def send(self, op, **fields):
        """Send a command without waiting for its answer."""
        print(json.dumps({"op": op, **fields}), file=self.process.stdin, flush=True)

    def answer(self, within=PATIENCE):
        thing = self._until(lambda: self.answers.pop(0) if self.answers else None, within, "an answer")
        if "error" in thing:
            raise PeerError(f"{thing['error']}\n{self.complaints()}")
        return thing["value"]

    def ask(self, op, within=PATIENCE, **fields):
        """Send a command, and return its answer."""
        try:
            self.send(op, **fields)
        except BrokenPipeError:
            self._until(lambda: True if self.ended else None, 5, "the end")
            raise PeerError(f"{op}: it has ended\n{self.complaints()}") from None
        return self.answer(within)

    def join(self, group):
        self.ask("join", group=group)

    def leave(self, group):
        self.ask("leave", group=group)

    def whisper(self, peer, content):
        return self.ask("whisper", peer=getattr(peer, "uuid", peer), content=octets(content))

    def shout(self, group, content):
        return self.ask("shout", group=group, content=octets(content))

    def state(self):
        return self.ask("state")

    def stop(self):
        """Leave in the orderly way."""
        return self.ask("stop")

    # ---- Events ----

    def told(self, kind=None, peer=None, **fields):
        """The events so far that have this type, peer and fields."""
        uuid = getattr(peer, "uuid", peer)
        with self.news:
            return [
                e
                for e in self.events
                if (kind is None or e["type"] == kind)
                and (uuid is None or e.get("peer") == uuid)
                and all(e.get(k) == v for k, v in fields.items())
            ]

    def wait(self, kind, peer=None, within=PATIENCE, count=1, **fields):
        """Waits until there have been that many such events since the start; gives the last."""

        def found():
            events = self.told(kind, peer, **fields)
            return events[count - 1] if len(events) >= count else None

        where = getattr(peer, "uuid", peer)
        return self._until(found, within, f"{kind} {where or ''} {fields or ''} (number {count})")

    def kinds(self, peer=None):
        """The types of the events of one peer, in order."""
        return [e["type"] for e in self.told(peer=peer) if e["type"] != "STARTED"]

    # ---- Ends ----

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """End as in a crash: no goodbye is sent."""
        self.process.kill()
        self.process.wait(10)
        self._release()

    def status(self, within=PATIENCE):
        """Wait for its end and return its exit status."""
        return self.process.wait(within)

    def end(self):
        """End it without a goodbye; a peer that has failed by itself is an error."""
        if self.process.stdin.closed:
            return
        if self.process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.send("quit")
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise PeerError(f"it did not end\n{self.complaints()}") from None
        status, complaints = self.process.returncode, self.complaints()
        self._release()
        if status:
            raise PeerError(f"it failed\n{complaints}")

    def _release(self):
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError, ValueError):
                stream.close()
        self.stderr.close()


class Party:
    """The peers of one test, on a host each unless it says otherwise."""

    def __init__(self, network):
        self.network = network
        self.peers = []

    def add(self, program, host=None, *, environment=None, **settings):
        peer = Peer(host or self.network.host(), program, settings, environment=environment)
        self.peers.append(peer)
        return peer

    def zwire(self, name=None, host=None, **settings):
        """A node of zwire; settings are those of ``zwire.zre.Config``."""
        return self.add("zwire_peer.py", host, name=name, **settings)

    def pyre(self, name=None, host=None, **settings):
        return self.add("pyre_peer.py", host, name=name, **settings)

    def scripted(self, generation="20", host=None, **settings):
        """A 20/ZRE node, octet by octet; "zyre1" is zyre 1.0.0."""
        host = host or self.network.host()
        return self.add(
            "scripted.py",
            host,
            generation=generation,
            address=host.address,
            broadcast=self.network.broadcast,
            **settings,
        )

    def zyre(self, version="2.0.1", host=None, **settings):
        """A node of zyre: "2.0.1", "1.0.0", or "20", the last one that spoke 20/ZRE."""
        folder, environment = libraries(f"zyre-{version}")
        host = host or self.network.host()
        return self.add(
            "zyre_peer.py",
            host,
            environment=environment,
            libraries=folder,
            version=version,
            address=host.address,
            broadcast=self.network.broadcast,
            **settings,
        )

    def rude(self, host=None):
        host = host or self.network.host()
        return self.add("rude.py", host, address=host.address, broadcast=self.network.broadcast)

    def gossip(self, host=None, **settings):
        """A zgossip of czmq: ``bind`` makes it a hub, ``connect`` a leaf."""
        folder, environment = libraries("czmq")
        return self.add("gossip.py", host, environment=environment, libraries=folder, **settings)

    def end(self):
        failed = []
        for peer in self.peers:
            try:
                peer.end()
            except PeerError as e:
                failed.append(e)
        if failed:
            raise failed[0]


class Sockets:
    """Makes sockets on a host of a network, for this process, which is on none."""

    def __init__(self, host):
        self.near, far = socket.socketpair()
        self.turn = threading.Lock()
        with far:
            self.process = host.python(PROGRAMS / "sockets.py", far.fileno(), pass_fds=[far.fileno()])

    def __call__(self, kind):
        with self.turn:
            self.near.send(bytes([kind]))
            _, descriptors, _, _ = socket.recv_fds(self.near, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def end(self):
        self.near.close()
        self.process.wait(10)


class Judged:
    """A node that does what the conformance suite asks of it: it answers each message by the same.

    ``start`` starts a peer; it is called again after the node has ended.
    """

    def __init__(self, start):
        self.start = start
        self.turn = threading.Lock()
        self.begin()

    def begin(self):
        self.node = self.start()
        threading.Thread(target=self.echo, args=(self.node,), daemon=True).start()

    def echo(self, node):
        answered = 0
        while not node.ended:
            with node.news:
                while not node.ended and len(node.events) == answered:
                    node.news.wait(60)
                events = node.events[answered:]
            answered += len(events)
            for event in events:
                # A peer may be gone before it is answered, and the node may end.
                with contextlib.suppress(PeerError), self.turn:
                    if event["type"] == "WHISPER":
                        node.whisper(event["peer"], event["content"])
                    elif event["type"] == "SHOUT":
                        node.shout(event["group"], event["content"])

    def join(self, group):
        with self.turn:
            self.node.join(group)

    def leave(self, group):
        with self.turn:
            self.node.leave(group)

    def stop(self):
        with self.turn:
            self.node.stop()

    def restart(self):
        self.end()
        self.begin()
        return self.endpoint

    @property
    def endpoint(self):
        return self.node.endpoint.replace("tcp://", "tcp/")

    def end(self):
        if not self.node.process.stdin.closed:
            self.node.kill()


# Whole seconds, which pyre requires.
EVASIVE, EXPIRED = 2, 6

# Implementation, release, generation, how a party starts a node, and the further options of the target.
JUDGED = [
    ("zwire", importlib.metadata.version("zwire"), "36", Party.zwire, {"generations": "36", "gossip": True}),
    ("zwire", importlib.metadata.version("zwire"), "43", Party.zwire, {"generations": "43"}),
    ("zwire", importlib.metadata.version("zwire"), "20", Party.zwire, {"generations": "20"}),
    ("zwire", importlib.metadata.version("zwire"), "zyre1", Party.zwire, {"generations": "zyre1"}),
    ("pyre", importlib.metadata.version("zeromq-pyre"), "36", Party.pyre, {}),
    ("zyre", "2.0.1", "36", Party.zyre, {"version": "2.0.1"}),
    ("zyre", "1.0.0", "zyre1", Party.zyre, {"version": "1.0.0"}),
    ("zyre", "of 20/ZRE", "20", Party.zyre, {"version": "20"}),
]


@contextlib.contextmanager
def judged(generation, begin, settings):
    """A node on a network of its own, as the target of the conformance suite, which has to be entered."""
    settings = dict(settings)
    version = settings.get("version")
    with contextlib.ExitStack() as stack:
        network = Network()
        stack.callback(network.end)
        party = Party(network)
        host = network.host()
        sockets = Sockets(network.host())
        stack.callback(sockets.end)
        gossip = f"{host.address}:9000" if settings.pop("gossip", False) else None
        if gossip:
            settings["gossip_bind"] = f"tcp://{gossip}"
        timed = version not in ("1.0.0", "20")
        if timed:
            settings |= {"evasive": EVASIVE, "expired": EXPIRED}
        settings |= {"headers": {"X-CONFORMANCE": "1"}, "groups": ["conformance"]}
        node = Judged(lambda: begin(party, host=host, **settings))
        stack.callback(node.end)
        yield Target(
            node.endpoint,
            interface="eth0",
            generation=generation,
            gossip=gossip and f"tcp/{gossip}",
            expired=EXPIRED if timed else 10.0,
            join=node.join,
            leave=node.leave,
            stop=node.stop,
            restart=node.restart,
            make_socket=sockets,
        )


def targets(only=None):
    """Implementation, release, generation and target of each node that can be started here, in turn.

    A node runs until the next one is asked for. ``only`` is the name of an implementation. Peers that are not
    built are left out.
    """
    for name, release, generation, begin, settings in JUDGED:
        if only is not None and name != only:
            continue
        if name == "zyre" and not built(f"zyre-{settings['version']}"):
            continue
        with judged(generation, begin, settings) as target:
            yield name, release, generation, target


def built(name):
    """Whether the folder of the C implementations has one."""
    folder = os.environ.get("ZWIRE_ZRE_PEERS")
    return bool(folder) and not (Path(folder) / f"{name}.missing").exists()
