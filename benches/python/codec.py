"""The codec against zenoh-codec: criterion measures (benches/rust/codec.rs), this reads its results.

Criterion measures one side after the other, so the whole set is run once per round.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from python.cargo import CargoError, build, output
from python.plan import KIB, NAMES, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "codec"
PEER = "zenoh-codec"
VERBS, SIZES, KEYS = ("decode", "encode"), (8, KIB, 64 * KIB), ("full key", "declared key")
PACKAGE = ("-p", "zwire-proto")
ROUNDS = 3
RUN_SECONDS = 180.0
# Ratios of two and more need no bootstrap of 100,000 resamples, which takes longer than the measurement.
SHORT = ("--warm-up-time", "0.2", "--measurement-time", "0.5", "--nresamples", "1000", "--noplot")
# | decode 8 B, full key | 37.1 ns | 90.2 ns | 2.43 |
LINE = re.compile(r"^\| (?P<name>[^|]+) \| (?P<ours>[\d.]+) ns \| (?P<theirs>[\d.]+) ns \|", re.MULTILINE)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    names = (f"{verb} {NAMES[size]}, {key}" for verb in VERBS for size in SIZES for key in KEYS)
    if not plan.wants(*(Row(AREA, name, "msg/s", PEER) for name in names)):
        return
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        yield Row(AREA, "decode and encode", "msg/s", PEER, skipped="there is no cargo")
        return
    progress(f"{AREA}: building, which the minutes of a run do not count")
    if plan.smoke:
        # `make bench-smoke` selects the packages and features of the tests, which have built most of it.
        selection = os.environ.get("CARGO_SELECTION", "").split() or PACKAGE
        output([build(cargo, AREA, "test", *selection), "--test"], RUN_SECONDS)
        yield Row(AREA, "decode and encode", "msg/s", PEER, note="ran, unoptimized")
        return
    program = build(cargo, AREA, "bench", *PACKAGE)
    rows: dict[str, Row] = {}
    for index in range(min(ROUNDS, plan.rounds)):
        progress(f"{AREA} round {index + 1}")
        said = output([program, "--bench", *SHORT], RUN_SECONDS)
        found = list(LINE.finditer(said))
        if not found:
            raise CargoError(f"no table in what the benchmark printed:\n{said[-2000:]}")
        for line in found:
            # Copying 64 KiB measures the memory, which is what both sides avoid.
            target = None if "copied" in line["name"] else 2.0
            row = rows.setdefault(line["name"], Row(AREA, line["name"], "msg/s", PEER, target=target))
            row.ours.append(Trial(1e9 / float(line["ours"])))
            row.theirs.append(Trial(1e9 / float(line["theirs"])))
    yield from plan.chosen(list(rows.values()))
