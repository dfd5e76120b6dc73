"""From a capture to Arrow on one core.

The capture is that of `zenoh-bulk` among the test vectors, unpacked in memory: packets of a loopback, one TCP
connection, 100,000 PUSH of 8 to 200 random octets of eclipse-zenoh. Nobody else decodes to
Arrow, so the target is a rate.
"""

from __future__ import annotations

import gzip
import importlib
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children
from python.plan import progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "decode"
CAPTURE = Path(__file__).resolve().parents[2] / "tests/vectors/captures/zenoh-bulk.pcap.gz"
PUSHES = 100_000


class Decoding:
    """Decodes the capture, on one core."""

    def __init__(self) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.arrow: Any = importlib.import_module("pyarrow")
        self.zwire: Any = importlib.import_module("zwire._zwire")
        self.capture = gzip.decompress(CAPTURE.read_bytes())

    def close(self) -> None:
        self.capture = b""

    def messages(self) -> dict[str, int]:
        """How often each kind of message is in it."""
        batches = map(self.arrow.record_batch, self.zwire.Decoder([self.capture]))
        return dict(Counter(name for batch in batches for name in batch.column("message").to_pylist()))

    def decode(self, seconds: float) -> dict[str, float]:
        """Decode it again and again for that long."""
        messages, begin, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            messages += sum(self.arrow.record_batch(b).num_rows for b in self.zwire.Decoder([self.capture]))
        return {
            "messages": messages,
            "seconds": time.perf_counter() - begin,
            "cpu": time.process_time() - used,
        }


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    wall = Row(AREA, "bulk capture to Arrow, one core", "msg/s", "-", floor=1.5e6)
    cpu = Row(AREA, "the same per second of processor time", "msg/s", "-")
    if not plan.wants(wall, cpu):
        return
    if not hasattr(importlib.import_module("zwire._zwire"), "Decoder"):
        wall.skipped = cpu.skipped = "this build of zwire has no decoder"
    else:
        progress(AREA)
        child = Child("decoder", Decoding)
        with children(child):
            found = child.call("messages")
            if found.get("push") != PUSHES or "error" in found:
                raise ChildError(f"the capture has {PUSHES} PUSH and no error, decoded were {found}")
            for _ in range(plan.rounds):
                done = child.call("decode", plan.seconds)
                wall.ours.append(Trial(done["messages"] / done["seconds"]))
                cpu.ours.append(Trial(done["messages"] / done["cpu"]))
    yield from plan.chosen([wall, cpu])
