"""HTTP: requests for keys, and the memory of many streams of events.

The router is a process of its own, and clients are processes with a connection each that send a request when
the answer to the last one is there. A storage in memory has the value. The other side is the REST plug-in of
Eclipse Zenoh in a router of theirs, with its storage manager.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python import zenohd
from python.children import Child, ChildError, children, free_port
from python.plan import interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from python.plan import Plan

AREA = "http_server"
CLIENTS = 2
STREAMS = 1000
KEY = "/bench/http"
GET = f"GET {KEY} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
PUT = f"PUT {KEY} HTTP/1.1\r\nHost: bench\r\nContent-Length: 64\r\n\r\n".encode() + bytes(64)
EVENTS = f"GET {KEY} HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n".encode()


class Site:
    """Router with a server."""

    def __init__(self) -> None:
        zenoh: Any = importlib.import_module("zwire.zenoh")
        http: Any = importlib.import_module("zwire.http")
        config = {"mode": "router", "listen/endpoints": [], "scouting/multicast/enabled": False}
        self.session = zenoh.open(config)
        storage: Any = importlib.import_module("zwire.storage")
        self.storage = storage.Storage(self.session, "bench/**", volume=storage.Memory())
        self.server = http.serve(self.session, "127.0.0.1:0")

    def close(self) -> None:
        self.server.close()
        self.storage.close()
        self.session.close()

    def port(self) -> int:
        return int(self.server.port)

    def resident(self) -> int:
        """Octets of memory in use."""
        pages = int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.session.put(KEY[1:], bytes(64))


class Asker:
    """Client with one connection, or with many streams."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.streams: list[socket.socket] = []

    def close(self) -> None:
        for stream in [self.stream, *self.streams]:
            stream.close()

    def ask(self, request: bytes, seconds: float) -> int:
        """Send requests one after the other, and return their number.

        Only the first answer is parsed. The others have its length, so that a client takes less of the cores
        than the server.
        """
        self.stream.sendall(request)
        length, count = len(self._answer()), 1
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.stream.sendall(request)
            answer = self.stream.recv(length, socket.MSG_WAITALL)
            assert len(answer) == length, answer
            assert answer.startswith(b"HTTP/1.1 200"), answer
            count += 1
        return count

    def _answer(self) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._part()
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += self._part()
        return head + b"\r\n\r\n" + body

    def _part(self) -> bytes:
        part = self.stream.recv(1 << 16)
        if not part:
            raise ConnectionError("the server has closed the connection")
        return part

    def listen(self, count: int) -> None:
        """Open so many streams of events."""
        for _ in range(count):
            stream = socket.create_connection(("127.0.0.1", self.port))
            stream.sendall(EVENTS)
            assert stream.recv(4096).startswith(b"HTTP/1.1 200")
            self.streams.append(stream)

    def events(self, count: int) -> None:
        """Read so many events of each stream."""
        for stream in self.streams:
            got = b""
            while got.count(b"event: PUT") < count:
                got += stream.recv(1 << 16)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    asked = [
        (Row(AREA, f"{name}, {CLIENTS} clients, 64 B", "req/s", zenohd.PEER, target=1.5), request)
        # The value that is asked for has to be put first.
        for name, request in (("PUT", PUT), ("GET", GET))
    ]
    memory = Row(AREA, f"memory of {STREAMS} streams of events", "MiB", "-", floor=128, less_is_better=True)
    rows = plan.chosen([*(row for row, _ in asked), memory])
    if not rows:
        return
    progress(AREA)
    program = zenohd.program(plan.smoke, *(row for row, _ in asked))
    with ExitStack() as stack:
        (site,) = stack.enter_context(children(Child("site", Site)))
        askers = _askers(stack, site.call("port"))
        sides: list[Callable[[bytes], Trial]] = [partial(_requests, site.cpu, askers, plan.seconds)]
        if program is not None:
            sides.append(_theirs(stack, program, plan.seconds))
        for side in sides:
            side(PUT)
        for row, request in asked:
            if row not in rows:
                continue
            for results in interleaved(plan.rounds, [partial(side, request) for side in sides]):
                for trials, result in zip((row.ours, row.theirs), results, strict=False):
                    trials.append(result)
        if memory in rows:
            memory.ours.append(_streams(site, askers[0], STREAMS // 20 if plan.smoke else STREAMS))
    yield from rows


def _askers(stack: ExitStack, port: int) -> tuple[Child, ...]:
    return stack.enter_context(children(*(Child(f"client {n}", Asker, port) for n in range(CLIENTS))))


def _theirs(stack: ExitStack, program: str, seconds: float) -> Callable[[bytes], Trial]:
    """Start a router of Eclipse Zenoh with its REST plug-in; requests go to it."""
    port = free_port()
    storage = {"storages": {"bench": {"key_expr": "bench/**", "volume": "memory"}}}
    plugins = {"rest": {"http_port": f"127.0.0.1:{port}"}, "storage_manager": storage}
    router = stack.enter_context(zenohd.running(program, listen={"endpoints": []}, plugins=plugins))
    end = time.monotonic() + 10.0
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError as error:
            if time.monotonic() > end:
                raise ChildError(f"{zenohd.PEER} do not listen for HTTP") from error
            time.sleep(0.05)
        else:
            break
    return partial(_requests, router.cpu, _askers(stack, port), seconds)


def _requests(cpu: Callable[[], float], askers: tuple[Child, ...], seconds: float, request: bytes) -> Trial:
    """Requests per second of all clients together."""
    used = cpu()
    for asker in askers:
        asker.send("ask", request, seconds)
    count = sum(asker.result() for asker in askers)
    return Trial(count / seconds, (cpu() - used) / max(count, 1))


def _streams(site: Child, asker: Child, count: int) -> Trial:
    """Memory that streams take, each with a hundred events on its way."""
    before = site.call("resident")
    asker.call("listen", count)
    site.call("publish", 100)
    asker.call("events", 100)
    return Trial((site.call("resident") - before) / (1 << 20))
