"""Drivers of streams that run for a while, and the programs that fill the spool for them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from python.children import ChildError
from python.spark_driver import Driver
from python.spool import KEY, PATIENCE, Keeper, Publisher

# Messages of a paced publisher begin with the clock.
CLOCK_BYTES = 8
SIZE = 64


class PacedPublisher(Publisher):
    """Sends messages at a rate, each with the time of its start."""

    def pace(self, rate: int, seconds: float) -> int:
        """Send for that long; return the number of messages."""
        self.publisher.wait_matching(1, PATIENCE)
        rest, begin = bytes(SIZE - CLOCK_BYTES), time.perf_counter()
        for number in range(count := round(rate * seconds)):
            wait = begin + number / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            self.publisher.put(time.time_ns().to_bytes(CLOCK_BYTES, "little") + rest)
        return count


class SteadyKeeper(Keeper):
    """Keeps a spool for streams: rows that these have read are deleted."""

    def fill(self, keep_bytes: int) -> str:
        """Start; return the folder."""
        self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        retention = self.spool.Retention(seconds=1.0, bytes=keep_bytes)
        self.kept = self.spool.Spooler(
            self.folder, KEY, session=self.session, overflow="block", retention=retention
        )
        return self.folder

    def rows(self) -> int:
        """Number of rows that are in the spool, or were."""
        return sum(self.spool.open(self.folder).end().values())

    def passed(self) -> int:
        """Number of rows that the stream has committed."""
        consumers = self.spool.open(self.folder).consumers()
        return sum(sum(offsets.values()) for offsets in consumers.values())


class StreamDriver(Driver):
    """A Spark session with one stream."""

    def watch(self, folder: str) -> None:
        """Start a stream that reads the clock when it has the rows of a batch."""
        import numpy as np

        self.seconds: list[Any] = []

        def take(frame: Any, _: int) -> None:
            rows = frame.select("payload").toArrow().column("payload")
            now = time.time_ns()
            sent = np.frombuffer(b"".join(each.as_py()[:CLOCK_BYTES] for each in rows), "<i8")
            self.seconds.append((now - sent) / 1e9)

        self._start(self.stream(folder).writeStream.foreachBatch(take))

    def taken(self) -> list[list[float]]:
        """Seconds from the start of each message to its sink, by batch."""
        return [each.tolist() for each in self.seconds]

    def drop(self, folder: str, rows: int) -> None:
        """Start a stream that reads all default columns, and discards them."""
        self._start(self.stream(folder, maxRowsPerTrigger=str(rows)).writeStream.format("noop"))

    def _start(self, writer: Any) -> None:
        checkpoint = tempfile.mkdtemp(dir=self.scratch.name)
        self.query = writer.option("checkpointLocation", checkpoint).start()

    def drain(self) -> int:
        """End the stream when it has read everything; return its rows."""
        self.query.processAllAvailable()
        self.query.stop()
        if self.query.exception() is not None:
            raise ChildError(str(self.query.exception()))
        return sum(each["numInputRows"] for each in self.query.recentProgress)

    def processes(self) -> dict[str, int]:
        """Bytes in memory: of the JVM, and of all Python processes that it has started."""
        parents: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            # Some processes end meanwhile.
            with contextlib.suppress(OSError):
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        jvm = next(each for each, parent in parents.items() if parent == os.getpid() and _is_java(each))
        below, found = {jvm}, {jvm}
        while below:
            below = {each for each, parent in parents.items() if parent in below}
            found |= below
        return {"JVM": resident(jvm), "Python of Spark": sum(map(resident, found - {jvm}))}


def _is_java(process: int) -> bool:
    return Path(f"/proc/{process}/comm").read_text().strip() == "java"


def resident(process: int) -> int:
    """Bytes of a process in memory; 0 if it has ended.

    Shared memory counts in parts: otherwise a worker of Spark that has just been forked would
    count as much as its parent.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
