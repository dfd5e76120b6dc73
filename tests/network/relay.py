"""Relays: of TCP connections, at a limited rate, or a hole that swallows everything; of datagrams, with loss.

It works where no network can be made and no kernel shapes traffic, and is exact about bytes: what a sender
has written and the relay has not taken is in the sender's socket, as behind a slow link.
"""

import bisect
import collections
import contextlib
import random
import selectors
import socket
import threading
import time

# What passes at once; the receive buffer of the relay is as large, and the system doubles it.
CHUNK = 4 * 1024
# How often a limited or held direction looks again.
PERIOD = 0.002
# What the relay and its buffer hold in a direction at most, as the queue of a router would.
HELD = 3 * CHUNK


class _Direction:
    """Bytes from one socket to the other."""

    def __init__(self, relay, source, sink, seen):
        self.relay = relay
        self.source = source
        self.sink = sink
        self.seen = seen
        # When the last byte so far has passed at the relay's rate.
        self.free = time.monotonic()

    def run(self):
        with contextlib.suppress(OSError), selectors.DefaultSelector() as ready:
            ready.register(self.source, selectors.EVENT_READ)
            while not self.relay.ended:
                wait = self.free - time.monotonic()
                if self.relay.held or wait > 0:
                    time.sleep(min(max(wait, PERIOD), 0.1))
                    continue
                if not ready.select(0.1) or self.relay.held:
                    continue
                data = self.source.recv(CHUNK)
                if not data:
                    break
                if self.relay.rate:
                    now = time.monotonic()
                    self.free = max(self.free, now - PERIOD) + len(data) * 8 / self.relay.rate
                if len(self.seen) < self.relay.remember:
                    self.seen += data
                self.relay.bytes += len(data)
                self.sink.sendall(data)
                self.relay.passed.append((time.monotonic_ns(), self.relay.bytes))
        for s in (self.source, self.sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


class Relay:
    """Connections to ``port`` go on to another port of loopback.

    Args:
        target: the port that connections go on to.
        rate: bits per second in each direction; ``None`` is as fast as it goes.
        remember: how many bytes of each direction of each connection are kept in ``seen``.
        port: to listen on, of a relay that was ended; 0 is any.
    """

    def __init__(self, target, rate=None, remember=0, port=0):
        self.target = target
        self.rate = rate
        self.remember = remember
        self.held = self.ended = False
        self.bytes = 0
        # When (ns of the monotonic clock) how many bytes had passed, in both directions together.
        self.passed = [(0, 0)]
        # Per connection: what the caller said, what it was told.
        self.seen = []
        self.sockets = []
        self.threads = []
        self.listener = socket.socket()
        # A small buffer, and before the first connection: what waits should wait at the sender.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        # Segments as on Ethernet: those of loopback are as large as a batch.
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen()
        self.listener.settimeout(0.05)
        self.port = self.listener.getsockname()[1]
        # Always the first: it starts the others.
        self._start(self._accept)

    def _start(self, target):
        thread = threading.Thread(target=target, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while not self.ended:
            try:
                near, _ = self.listener.accept()
            except TimeoutError:
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            for s in (near, far):
                s.settimeout(None)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            said, told = bytearray(), bytearray()
            self.seen.append((said, told))
            self.sockets += [near, far]
            self._start(_Direction(self, near, far, said).run)
            self._start(_Direction(self, far, near, told).run)

    def between(self, start, end):
        """How many bytes passed between two moments (ns of the monotonic clock)."""
        first, last = (bisect.bisect(self.passed, (moment, 1 << 62)) - 1 for moment in (start, end))
        return self.passed[last][1] - self.passed[first][1]

    def hold(self):
        """Takes nothing and passes nothing on from now on; connections stay."""
        self.held = True

    def go_on(self):
        self.held = False

    def end(self):
        """Closes everything."""
        self.ended = True
        self.threads[0].join(10)
        self.listener.close()
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for thread in self.threads[1:]:
            thread.join(5)
        for s in self.sockets:
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class DatagramRelay:
    """Datagrams to ``port`` go on to another port of loopback, and back; some are lost.

    Args:
        target: the port that they go on to.
        seed: of the choice which are lost; the order in which they come is the machine's.
    """

    def __init__(self, target, seed=1):
        self.target = ("127.0.0.1", target)
        self.random = random.Random(seed)
        # Of those that come, in both directions.
        self.loss = 0.0
        self.lost = self.passed = 0
        # The last ones that were lost: what they held can be looked for.
        self.last_lost = collections.deque(maxlen=64)
        self.ended = False
        self.near = self._socket()
        self.near.bind(("127.0.0.1", 0))
        self.port = self.near.getsockname()[1]
        # By the address of each caller, the socket that speaks for it, and the way back.
        self.callers = {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @staticmethod
    def _socket():
        made = socket.socket(type=socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        made.setblocking(False)
        return made

    def _run(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.near, selectors.EVENT_READ, None)
            while not self.ended:
                for key, _ in ready.select(0.05):
                    with contextlib.suppress(OSError):
                        self._pass(ready, key.fileobj, key.data)

    def _pass(self, ready, source, caller):
        data, address = source.recvfrom(65_536)
        if caller is None and address not in self.callers:
            self.callers[address] = self._socket()
            ready.register(self.callers[address], selectors.EVENT_READ, address)
        if self.random.random() < self.loss:
            self.last_lost.append(data)
            self.lost += 1
            return
        self.passed += 1
        if caller is None:
            self.callers[address].sendto(data, self.target)
        else:
            self.near.sendto(data, caller)

    def end(self):
        """Closes everything."""
        self.ended = True
        self.thread.join(10)
        for s in (self.near, *self.callers.values()):
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
