"""Planning over a million segments of a store (benches/rust/plan.rs): the time until ranges are known."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from python.cargo import build, output
from python.plan import progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "spool_plan"
PACKAGE = ("-p", "zwire-tier")
NAMES = {
    "hour": "an hour of a million segments",
    "robot": "a robot of a million segments",
    "all": "all of a million segments",
}
ROUNDS, RUN_SECONDS = 3, 180.0
# | hour | 0.0123 | 3600 | 40 |
LINE = re.compile(
    r"^\| (?P<name>\w+) \| (?P<seconds>[\d.]+) \| (?P<found>\d+) \| (?P<memory>\d+) \|", re.MULTILINE
)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    rows = {
        key: Row(AREA, name, "ms", "target", floor=1.0, less_is_better=True) for key, name in NAMES.items()
    }
    if not plan.wants(*rows.values()):
        return
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        yield Row(AREA, "a million segments", "ms", "target", skipped="there is no cargo")
        return
    progress(f"{AREA}: building, which the minutes of a run do not count")
    if plan.smoke:
        selection = os.environ.get("CARGO_SELECTION", "").split() or PACKAGE
        output([build(cargo, "plan", "test", *selection), "--test"], RUN_SECONDS)
        yield Row(AREA, "a million segments", "ms", "target", note="ran, with 20,480, unoptimized")
        return
    program = build(cargo, "plan", "bench", *PACKAGE)
    for index in range(min(ROUNDS, plan.rounds)):
        progress(f"{AREA} round {index + 1}")
        for line in LINE.finditer(output([program, "--bench"], RUN_SECONDS)):
            row = rows[line["name"]]
            row.ours.append(Trial(float(line["seconds"])))
            row.note = f"{line['found']} segments, {line['memory']} MB of memory"
    yield from plan.chosen([row for row in rows.values() if row.ours])
