"""Stability of memory: 150 million messages through a spooler with retention, and a stream that follows it.

A publisher sends batches of 64 B, blocking, and waits when the stream is far behind. Rows that the stream has
read is deleted. Memory is read about four times a second.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from python.children import Child, ChildError, children, free_port
from python.plan import progress
from python.rows import Row, Trial
from python.spark import START_SECONDS, why_not
from python.spool import Publisher
from python.stream_driver import SIZE, SteadyKeeper, StreamDriver, resident

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "steady"
COUNT, PIECE, BEHIND = 150_000_000, 500_000, 6_000_000
KEEP_BYTES = 4 << 30
# Often enough to see a queue full in each fifth of the time.
SAMPLE_SECONDS = 0.25
# Time limit of any step, also on a machine that is busy with other things.
MOST_SECONDS = 900.0
WHO = ("spooler", "Python of Spark", "JVM")


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    count = COUNT // 50 if plan.smoke else COUNT
    rate = Row(AREA, f"{count / 1e6:.0f} M rows of {SIZE} B through spool and stream", "row/s", "-")
    rows = {
        who: Row(AREA, f"most memory of the {who}, last fifth", "MiB", "middle fifth", less_is_better=True)
        for who in WHO
    }
    # A JVM grows into its heap, however much of it is in use: shown, and not judged.
    rows["spooler"].target = rows["Python of Spark"].target = 1.1
    if not plan.wants(rate, *rows.values()):
        return
    if why := why_not():
        for row in (rate, *rows.values()):
            row.skipped = why
    else:
        progress(f"{AREA}, {count:,} rows")
        series, seconds = _run(count)
        rate.ours.append(Trial(count / seconds))
        for who, row in rows.items():
            values = [sample[who] / (1 << 20) for sample in series]
            fifth = max(1, len(values) // 5)
            # The maximum: a queue that happens to be empty would hide the others.
            row.ours.append(Trial(max(values[-fifth:])))
            row.theirs.append(Trial(max(values[2 * fifth : 3 * fifth], default=values[0])))
            shown = values[:: max(1, len(values) // 20)]
            row.note = f"MiB, {len(values)} samples, some of them: {', '.join(f'{v:.0f}' for v in shown)}"
    yield from plan.chosen([rate, *rows.values()])


def _run(count: int) -> tuple[list[dict[str, int]], float]:
    """Memory at intervals, and the seconds for all rows."""
    endpoint, end = f"tcp/127.0.0.1:{free_port()}", time.monotonic() + MOST_SECONDS
    keeper = Child("keeper", SteadyKeeper, endpoint)
    driver = Child("spark driver", StreamDriver, endpoint, memory="1g")
    driver.start_seconds = START_SECONDS
    series: list[dict[str, int]] = []
    with children(keeper), children(Child("publisher", Publisher, endpoint), driver) as (publisher, _):
        driver.call("drop", keeper.call("fill", KEEP_BYTES), 2 * PIECE)
        sent, begin = 0, time.perf_counter()
        due = time.monotonic()
        while sent < count:
            if time.monotonic() >= end:
                raise ChildError(f"{sent} of {count} rows in {MOST_SECONDS:.0f} s")
            if sent - keeper.call("passed") < BEHIND:
                publisher.call("publish", min(PIECE, count - sent), SIZE)
                sent += min(PIECE, count - sent)
            else:
                time.sleep(0.05)
            if time.monotonic() >= due:
                series.append({"spooler": resident(keeper.process), **driver.call("processes")})
                due = time.monotonic() + SAMPLE_SECONDS
        while keeper.call("rows") < count and time.monotonic() < end:
            time.sleep(0.05)
        driver.send("drain")
        read = driver.result(START_SECONDS)
        seconds = time.perf_counter() - begin
        keeper.call("end")
    if read != count:
        raise ChildError(f"{read} of {count} rows came out of the stream")
    return series, seconds
