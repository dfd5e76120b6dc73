"""Event loops against threads: `zwire.aio` and `zwire.zenoh` in turns; also the cost of starting.

Receiving: one process publishes batches, so that the one that receives is the slower. Publishing: one message
at a time, received in batches.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from python.children import Child, children, free_port
from python.plan import OURS, Plan, interleaved, progress
from python.pubsub import LostError
from python.roles import END, MATCH_SECONDS, RECEIVE_SECONDS, STRIDE, Node, clock
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "aio"
SYNC = "zwire.zenoh"
SIZE = 64
# Items of one `recv_many`.
MANY = 256
SUBSCRIBERS = 2000
START_SECONDS = 60.0
_keys = itertools.count()

# Cost of importing, opening, and subscribing, in a process that has done nothing else.
START = """
import json, sys, time
begin = time.perf_counter()
import {module}
seconds = time.perf_counter() - begin
from pathlib import Path
from zwire import zenoh

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

def resident():
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096

before = threads()
config = {{"mode": "peer", "scouting/multicast/enabled": False}}
if "{module}" == "zwire.aio":
    import asyncio

    async def opening():
        session = await zwire.aio.open(config)
        # The thread that has opened it ends when no other session needs one.
        await asyncio.sleep(0.5)
        return session, threads() - before

    session, opened = asyncio.run(opening())
else:
    session = zenoh.open(config)
    opened = threads() - before
make = session.declare_subscriber
kept = [make(f"warm/{{i}}") for i in range(100)]
empty = resident()
kept += [make(f"bench/{{i}}") for i in range({subscribers})]
print(json.dumps([seconds, opened, (resident() - empty) / {subscribers}]))
"""


class AsyncNode(Node):
    """A session with subscriber and publisher in an event loop."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        from zwire import aio

        self.aio: Any = aio
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.loop.close()
        super().close()

    def collect(self, way: str) -> dict[str, float]:
        self.incoming = self.aio.Subscriber(lambda _: self.subscriber, None)
        return super().collect(way)

    def _collect_iterate(self) -> tuple[int, float, float]:
        return self.loop.run_until_complete(self._iterate())

    async def _iterate(self) -> tuple[int, float, float]:
        count, first = 0, 0.0
        async for sample in self.incoming:
            payload = sample.payload.to_bytes()
            if count == 0:
                first = clock()
            if len(payload) == len(END):
                return count, first, clock()
            count += 1
        raise EOFError(f"the subscriber ended after {count} messages")

    def _collect_many(self) -> tuple[int, float, float]:
        return self.loop.run_until_complete(self._many())

    async def _many(self) -> tuple[int, float, float]:
        count, first = 0, 0.0
        while True:
            samples = await self.incoming.recv_many(MANY, RECEIVE_SECONDS)
            if count == 0:
                first = clock()
            lengths = [len(sample.payload.to_bytes()) for sample in samples]
            count += len(lengths)
            if lengths[-1] == len(END):
                return count - 1, first, clock()

    def _collect_batch(self) -> tuple[int, float, float]:
        return self.loop.run_until_complete(self._batches_of())

    async def _batches_of(self) -> tuple[int, float, float]:
        count, first = 0, 0.0
        while True:
            batch = self.arrow.record_batch(await self.incoming.recv_batch(timeout=RECEIVE_SECONDS))
            if count == 0:
                first = clock()
            count += batch.num_rows
            if self._marks(batch.column("payload")):
                return count - 1, first, clock()

    def put(self, key: str, seconds: float) -> dict[str, float]:
        """Publish for that long, one at a time, then the end mark."""
        return self.loop.run_until_complete(self._put(key, seconds))

    async def _put(self, key: str, seconds: float) -> dict[str, float]:
        publisher = self.aio.Session(self.session).declare_publisher(key, **self.block)
        await publisher.wait_matching(timeout=MATCH_SECONDS)
        data, sent, begin = bytes(SIZE), 0, clock()
        while clock() - begin < seconds:
            for _ in range(STRIDE):
                await publisher.put(data)
            sent += STRIDE
        taken = clock() - begin
        await publisher.put(END)
        await publisher.undeclare()
        return {"sent": sent, "seconds": taken}


class SyncNode(Node):
    """The same without an event loop."""

    def _collect_many(self) -> tuple[int, float, float]:
        count, first = 0, 0.0
        while True:
            samples = self.subscriber.recv_many(MANY, RECEIVE_SECONDS)
            if count == 0:
                first = clock()
            lengths = [len(sample.payload.to_bytes()) for sample in samples]
            count += len(lengths)
            if lengths[-1] == len(END):
                return count - 1, first, clock()

    def put(self, key: str, seconds: float) -> dict[str, float]:
        """Publish for that long, one at a time, then the end mark."""
        return self.publish("single", key, SIZE, seconds)


def _receive(subscriber: Child, publisher: Child, way: str, seconds: float) -> Trial:
    key = f"bench/aio/{next(_keys)}"
    before = subscriber.cpu() + publisher.cpu()
    subscriber.call("subscribe", way, key)
    subscriber.send("collect", way)
    publisher.send("publish", "batch", key, SIZE, seconds)
    return _result(subscriber, publisher, before)


def _publish(subscriber: Child, publisher: Child, seconds: float) -> Trial:
    key = f"bench/aio/{next(_keys)}"
    before = subscriber.cpu() + publisher.cpu()
    subscriber.call("subscribe", "batch", key)
    subscriber.send("collect", "batch")
    publisher.send("put", key, seconds)
    return _result(subscriber, publisher, before)


def _result(subscriber: Child, publisher: Child, before: float) -> Trial:
    sent, got = publisher.result(), subscriber.result()
    if got["received"] != sent["sent"]:
        raise LostError(f"{publisher.name} sent {sent['sent']}, {got['received']} came")
    cpu = subscriber.cpu() + publisher.cpu() - before
    return Trial(got["received"] / got["seconds"], cpu / got["received"])


def _pair(make: type[Node], name: str) -> tuple[Child, Child]:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    subscriber = Child(f"{name} subscriber", make, OURS, "peer", endpoint, None)
    return subscriber, Child(f"{name} publisher", make, OURS, "peer", None, endpoint)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    yield from _rates(plan)
    yield from _start(plan)


def _rates(plan: Plan) -> Iterator[Row]:
    rows = {
        way: Row(AREA, f"64 B {name}", "msg/s", SYNC, target=target)
        for way, name, target in (
            ("iterate", "iterate", None),
            ("many", f"recv_many, {MANY}", 0.6),
            ("batch", "batch", 0.6),
            ("put", "put", None),
        )
    }
    chosen = {way: row for way, row in rows.items() if plan.wants(row)}
    if not chosen:
        return
    progress(f"{AREA} rates")
    sync, loop = _pair(SyncNode, "sync"), _pair(AsyncNode, "asyncio")
    with children(*sync, *loop):
        for way, row in chosen.items():
            if way == "put":
                sides = [lambda: _publish(*sync, plan.seconds), lambda: _publish(*loop, plan.seconds)]
            else:
                sides = [
                    lambda way=way: _receive(*sync, way, plan.seconds),
                    lambda way=way: _receive(*loop, way, plan.seconds),
                ]
            for theirs, ours in interleaved(plan.rounds, sides):
                row.ours.append(ours)
                row.theirs.append(theirs)
            yield row


def _start(plan: Plan) -> Iterator[Row]:
    alone = "nothing"
    for module in ("zwire.zenoh", "zwire.aio"):
        rows = [
            Row(AREA, f"import {module}", "µs", alone, less_is_better=True, floor=0.050),
            Row(AREA, f"threads of a session, {module}", "threads", alone, less_is_better=True, floor=2.0),
            Row(AREA, f"memory of a subscriber, {module}", "KiB", alone, less_is_better=True),
        ]
        if not plan.wants(*rows):
            continue
        progress(f"{AREA} start of {module}")
        program = START.format(module=module, subscribers=SUBSCRIBERS)
        # Users compile a module once; the first trial may still do that.
        cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(plan.rounds):
            done = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                check=True,
                timeout=START_SECONDS,
                env=cached,
            )
            seconds, threads, memory = json.loads(done.stdout)
            for row, value in zip(rows, (seconds, threads, memory / 1024), strict=True):
                row.ours.append(Trial(value))
        yield from plan.chosen(rows)
