"""Latency of a message: publisher, spooler, stream, and the user's function in `foreachBatch`.

Spark's default trigger, `local[2]`, 1,000 messages of 64 B in a second, one `put` for each. The clock is read
before the put and when the function has the rows of a batch. Measured with Spark's default, TCP between JVM
and Python, and with `spark.python.unix.domain.socket.enabled`.
"""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING

from python.children import Child, ChildError, children, free_port
from python.plan import progress
from python.rows import Row, Trial
from python.spark import START_SECONDS, why_not
from python.stream_driver import PacedPublisher, SteadyKeeper, StreamDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "latency"
RATE = 1000
# The first batches start workers, and the JVM compiles what they need.
WARM_SECONDS, ROUND_SECONDS, ROUNDS = 15.0, 10.0, 3


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    for sockets, name, floor in ((False, "as it is", 0.350), (True, "Unix sockets", 0.250)):
        what = f"publisher to foreachBatch, {RATE} msg/s, {name}, p99"
        row = Row(AREA, what, "ms", "half of the messages", less_is_better=True, floor=floor)
        if not plan.wants(row):
            continue
        row.skipped = why_not()
        if not row.skipped:
            progress(f"{AREA}, {name}")
            _run(plan, row, sockets=sockets)
        yield row


def _run(plan: Plan, row: Row, *, sockets: bool) -> None:
    warm, each = (2.0, 1.0) if plan.smoke else (WARM_SECONDS, ROUND_SECONDS)
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    keeper = Child("keeper", SteadyKeeper, endpoint)
    driver = Child("spark driver", StreamDriver, endpoint, sockets=sockets)
    driver.start_seconds = START_SECONDS
    with children(keeper), children(Child("publisher", PacedPublisher, endpoint), driver) as (publisher, _):
        driver.call("watch", keeper.call("fill", 1 << 30))
        count = 0
        for seconds in [warm, *[each] * (1 if plan.smoke else ROUNDS)]:
            publisher.send("pace", RATE, seconds)
            count += publisher.result(seconds + START_SECONDS)
        driver.send("drain")
        driver.result(START_SECONDS)
        taken = [seconds for batch in driver.call("taken") for seconds in batch]
        keeper.call("end")
    if len(taken) != count:
        raise ChildError(f"{len(taken)} of {count} messages came to the sink")
    # In the order in which they were sent: a spool of one shard keeps it.
    first, size = round(warm * RATE), round(each * RATE)
    for at in range(first, count, size):
        hundredths = quantiles(taken[at : at + size], n=100)
        row.ours.append(Trial(hundredths[98]))
        row.theirs.append(Trial(hundredths[49]))
