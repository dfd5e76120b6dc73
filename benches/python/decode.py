"""From a capture to Arrow on one core.

The capture is that of `zenoh-bulk` among the test vectors, unpacked in memory: packets of a loopback, one TCP
connection, 100,000 PUSH of 8 to 200 random octets of eclipse-zenoh. Those of ZRE and ZMTP are small, so that
they are read many times over in one file: contents of one octet to 70,000, logs, beacons, heartbeats, and a
handshake for each connection. No other decoder to Arrow is known, so the target is a rate.
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
CAPTURES = Path(__file__).resolve().parents[2] / "tests/vectors/captures"
PUSHES = 100_000
ZRE = ["zre-v1-rfc20", "zre-v1-zyre100", "zre-v2-chat", "zre-draft-election", "zmtp-null"]
# Repetitions of each capture in one file, which then has some ten MiB.
TIMES = 30
# Counts of messages in each, as in the tests of the captures.
ZRE_MESSAGES = 197 + 197 + 207 + 89 + 475


def bulk() -> bytes:
    """The capture of Zenoh."""
    return gzip.decompress((CAPTURES / "zenoh-bulk.pcap.gz").read_bytes())


def zre() -> bytes:
    """The captures of ZRE and ZMTP as one file, each repeated with other addresses."""
    return many(*(gzip.decompress((CAPTURES / f"{name}.pcap.gz").read_bytes()) for name in ZRE))


def many(*files: bytes, copies: int = TIMES) -> bytes:
    """Captures as one file, each repeated with other addresses."""
    out = [files[0][:24]]
    for copy in range(copies):
        for file in map(bytearray, files):
            at = 24
            while at < len(file):
                # The third octet of both, behind Ethernet and half of IPv4.
                if file[at + 16 + 12 : at + 16 + 14] == b"\x08\x00":
                    file[at + 16 + 14 + 14] = file[at + 16 + 14 + 18] = copy
                at += 16 + int.from_bytes(file[at + 8 : at + 12], "little")
            out.append(bytes(file[24:]))
    return b"".join(out)


class Decoding:
    """Decodes a capture, on one core."""

    def __init__(self, capture: str) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.arrow: Any = importlib.import_module("pyarrow")
        self.zwire: Any = importlib.import_module("zwire._zwire")
        self.capture = {"bulk": bulk, "zre": zre}[capture]()

    def close(self) -> None:
        self.capture = b""

    def messages(self) -> dict[str, int]:
        """Number of messages of each kind in the capture."""
        batches = map(self.arrow.record_batch, self.zwire.Decoder([self.capture]))
        return dict(Counter(name for batch in batches for name in batch.column("message").to_pylist()))

    def decode(self, seconds: float) -> dict[str, float]:
        """Decode it repeatedly for that long."""
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
    yield from _measure(plan, "bulk", "bulk capture", {"push": PUSHES}, floor=1.5e6)
    told = {
        "greeting": TIMES * (26 + 26 + 20 + 12 + 22),
        "whisper": TIMES * (14 + 14 + 28),
        "log": TIMES * 26,
    }
    yield from _measure(plan, "zre", "ZRE and ZMTP captures", told, rows=TIMES * ZRE_MESSAGES)


def _measure(
    plan: Plan, name: str, title: str, told: dict[str, int], *, floor: float | None = None, rows: int = 0
) -> Iterator[Row]:
    wall = Row(AREA, f"{title} to Arrow, one core", "msg/s", "-", floor=floor)
    cpu = Row(
        AREA, "the same per second of processor time" + ("" if name == "bulk" else f", {title}"), "msg/s", "-"
    )
    if not plan.wants(wall, cpu):
        return
    if not hasattr(importlib.import_module("zwire._zwire"), "Decoder"):
        wall.skipped = cpu.skipped = "this build of zwire has no decoder"
    else:
        progress(f"{AREA} {title}")
        child = Child("decoder", Decoding, name)
        with children(child):
            found = child.call("messages")
            wrong = any(found.get(message) != count for message, count in told.items())
            if wrong or "error" in found or (rows and sum(found.values()) != rows):
                raise ChildError(f"the capture has {told} and no error, decoded were {found}")
            for _ in range(plan.rounds):
                done = child.call("decode", plan.seconds)
                wall.ours.append(Trial(done["messages"] / done["seconds"]))
                cpu.ours.append(Trial(done["messages"] / done["cpu"]))
    yield from plan.chosen([wall, cpu])
