"""Writing to a spool, and reading it again.

A publisher in a process of its own sends batches, blocking, over TCP of loopback. They are kept by a
`Spooler` with its defaults: all columns, checksums, `durability="os"`. The other side is the same subscriber
that takes batches and keeps nothing, and for large payloads a file to which the same number of octets is
appended. Time runs from the first message to the moment when all can be read.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from python.children import Child, ChildError, children, free_port
from python.plan import KIB, NAMES, interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "spool"
KEY = "bench/spool"
# Messages of a trial, by size: about half a second's worth.
COUNTS = {64: 1_000_000, KIB: 400_000, 64 * KIB: 20_000}
BATCH = 4096
# Time limit of a trial.
PATIENCE = 30.0


class Publisher:
    """Sends batches."""

    def __init__(self, endpoint: str) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        zenoh: Any = importlib.import_module("zwire.zenoh")
        config = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
        self.session = zenoh.open(config)
        self.publisher = self.session.declare_publisher(KEY)

    def close(self) -> None:
        self.session.close()

    def publish(self, count: int, size: int) -> None:
        """Send ``count`` messages."""
        self.publisher.wait_matching(1, PATIENCE)
        rows = max(1, min(BATCH, (4 << 20) // size))
        batch = self.arrow.record_batch({"key": [KEY] * rows, "payload": [os.urandom(size)] * rows})
        while count > 0:
            part = batch if count >= rows else batch.slice(0, count)
            count -= self.session.put_batch(part).rows


class Keeper:
    """Takes the messages: into a spool, or discards them."""

    def __init__(self, endpoint: str) -> None:
        self.zenoh: Any = importlib.import_module("zwire.zenoh")
        self.spool: Any = importlib.import_module("zwire.spool")
        config = {"mode": "router", "listen/endpoints": [endpoint], "scouting/multicast/enabled": False}
        # Without losses: the link waits where the queue is full.
        self.session = self.zenoh.open({**config, "zwire/handler/capacity_bytes": 64 << 20})
        self.folder = ""
        self.kept: Any = None

    def close(self) -> None:
        self.session.close()

    def begin(self, compression: str | None) -> None:
        """Subscribe; with a compression, into a spool."""
        if compression:
            self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
            self.kept = self.spool.Spooler(
                self.folder, KEY, session=self.session, overflow="block", compression=compression
            )
        else:
            self.kept = self.session.declare_subscriber(KEY, self.zenoh.handlers.FifoChannel(1 << 20))

    def wait(self, count: int) -> float:
        """Wait until all of them are there; return the processor time."""
        used, end = time.process_time(), time.monotonic() + PATIENCE
        if self.folder:
            while self.kept.stats()["rows"] < count and time.monotonic() < end:
                time.sleep(0.001)
            self.kept.flush(PATIENCE)
            came = sum(self.spool.open(self.folder).end().values())
        else:
            came = 0
            while came < count and time.monotonic() < end:
                came += len(self.kept.recv_batch(timeout=1.0))
        if came != count:
            raise ChildError(f"{came} of {count} messages came")
        return time.process_time() - used

    def end(self) -> None:
        """Unsubscribe, and delete the spool."""
        self.kept.__exit__(None, None, None)
        if self.folder:
            shutil.rmtree(self.folder)
            self.folder = ""

    def append(self, size: int, count: int) -> tuple[float, float]:
        """Append the same number of octets to a file, by the mebibyte; return real and processor seconds."""
        block, left = os.urandom(1 << 20), size * count
        with tempfile.TemporaryDirectory(prefix="zwire-bench-") as folder:
            used, begin = time.process_time(), time.perf_counter()
            with Path(folder, "file").open("wb", buffering=0) as file:
                while left > 0:
                    left -= file.write(block[: min(left, len(block))])
            return time.perf_counter() - begin, time.process_time() - used

    def read(self, columns: list[str] | None) -> float:
        """Read the whole spool into Arrow; return the seconds."""
        arrow: Any = importlib.import_module("pyarrow")
        view, begin, rows = self.spool.open(self.folder), time.perf_counter(), 0
        for shard, end in view.end().items():
            rows += sum(arrow.record_batch(b).num_rows for b in view.read(shard, 0, end, columns=columns))
        if rows != sum(view.end().values()):
            raise ChildError(f"only {rows} rows")
        return time.perf_counter() - begin


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    without, slower = "the same without a spool", "the slower of append and no spool"
    for size, whole in COUNTS.items():
        name = NAMES[size]
        ingest = Row(AREA, f"into a spool, {name}", "msg/s", without, floor=1e6 if size == 64 else None)
        raw = Row(AREA, f"the same in octets, {name}", "MB/s", "append to a file")
        raw.target = 0.7 if size == 64 * KIB else None
        bound = Row(AREA, f"the same in octets, {name}, to its bound", "MB/s", slower)
        bound.target = 0.7 if size == 64 * KIB else None
        read = Row(AREA, f"out of a spool, all columns, {name}", "row/s", "-")
        read.floor = 2e6 if size == 64 else None
        packed = Row(AREA, f"into a spool, {name}, zstd", "msg/s", "without compression")
        packed.target = 0.8 if size == 64 else None
        if not plan.wants(ingest, raw, bound, read, packed):
            continue
        progress(f"{AREA} {name}")
        count = whole // 20 if plan.smoke else whole
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        keeper = Child("keeper", Keeper, endpoint)
        with children(keeper), children(Child("publisher", Publisher, endpoint)) as (publisher,):
            trial = partial(_trial, keeper, publisher, count, size)
            sides = [partial(trial, compression=compression) for compression in ("none", "zstd", None)]
            spent = []
            for ours, compressed, theirs in interleaved(plan.rounds, sides):
                ingest.ours.append(ours.came)
                ingest.theirs.append(theirs.came)
                packed.ours.append(compressed.came)
                packed.theirs.append(ours.came)
                read.ours.append(Trial(count / ours.reading))
                seconds, appending = keeper.call("append", size, count)
                octets, append = ours.came.value * size, size * count / seconds
                raw.ours.append(Trial(octets))
                raw.theirs.append(Trial(append))
                bound.ours.append(Trial(octets))
                bound.theirs.append(Trial(min(append, theirs.came.value * size)))
                spent.append([cpu / (size * count) for cpu in (theirs.sending, theirs.receiving, appending)])
        if size == 64 * KIB:
            bound.note = _share(spent)
        yield from plan.chosen([ingest, raw, bound, read, packed])


def _share(spent: list[list[float]]) -> str:
    """The most that all cores could do if they only sent, received and appended."""
    sending, receiving, appending = (median(each) * 1e9 for each in zip(*spent, strict=True))
    cores, whole = os.cpu_count() or 1, sending + receiving + appending
    return (
        f"a gigabyte takes {sending:.2f} s of processor to send, {receiving:.2f} to receive and"
        f" {appending:.2f} to append: {cores} cores that never wait do {cores / whole:.1f} GB/s, and an"
        f" append alone {1 / appending:.1f}"
    )


class Done(NamedTuple):
    """The figures of a trial."""

    came: Trial
    """Messages received per second."""
    reading: float
    """Seconds to read them again."""
    sending: float
    """Processor seconds of the publisher."""
    receiving: float
    """Processor seconds of the other side."""


def _trial(keeper: Child, publisher: Child, count: int, size: int, *, compression: str | None) -> Done:
    keeper.call("begin", compression)
    before, begin = publisher.cpu(), time.perf_counter()
    keeper.send("wait", count)
    publisher.call("publish", count, size)
    cpu = keeper.result(PATIENCE)
    seconds = time.perf_counter() - begin
    reading = keeper.call("read", None) if compression else 0.0
    keeper.call("end")
    return Done(Trial(count / seconds, cpu / count), reading, publisher.cpu() - before, cpu)
