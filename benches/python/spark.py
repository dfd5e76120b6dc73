"""The helpers of zwire.spark against the most that Spark itself can move to Python in the same job.

The ceiling of a helper is the same job with a function that only counts the rows. All on
`local[2]`, with the hub on the same machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children, free_port
from python.plan import OURS, progress
from python.roles import Node
from python.rows import Row, Trial
from python.spark_driver import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "spark"
ROUNDS = 3
SIZE = 64
# Copies of the capture of zenoh-bulk, 100,011 rows, in each of two files.
COPIES = 8
# Jobs that read the spool.
STREAMED = ("kept", "followed", "stored")
# A JVM, a session and the first Python worker, on a machine that is busy with other things.
START_SECONDS, JOB_SECONDS = 120.0, 120.0


def why_not() -> str:
    """The reason why Spark cannot be measured here; empty if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    if shutil.which("java") is None:
        return "there is no java"
    if importlib.util.find_spec("zwire.spark") is None:
        return "this build of zwire has no zwire.spark"
    return ""


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    arrow, rows, batch, writer = (
        "mapInArrow that only counts",
        "mapPartitions that only counts",
        "the same of batches",
        "Arrow writer that only counts",
    )
    table = {
        "put": Row(AREA, f"mapInArrow put, {SIZE} B", "row/s", arrow, floor=1e6),
        "put_taken": Row(AREA, f"mapInArrow put, {SIZE} B, a subscriber takes all", "row/s", arrow),
        "sink": Row(AREA, f'write.format("zwire"), {SIZE} B, ack=link', "row/s", writer, floor=1e6),
        "sink_marked": Row(AREA, f"the same with idempotence, {SIZE} B", "row/s", writer),
        "put_partition": Row(AREA, f"mapPartitions put of tuples, {SIZE} B", "row/s", rows),
        "put_batches": Row(AREA, f"mapPartitions put of batches, {SIZE} B", "row/s", batch),
        "get": Row(AREA, f"mapInArrow get, one reply of {SIZE} B", "row/s", arrow),
        "pcap": Row(
            AREA, "format zwire.pcap, three columns", "row/s", "a source that gives the same batches, decoded"
        ),
        "kept": Row(
            AREA,
            f"format zwire from a spool, nine columns, {SIZE} B",
            "row/s",
            "a source that gives the same batches",
            floor=2e6,
            target=0.6,
        ),
        "followed": Row(
            AREA, "the same as a stream to noop", "row/s", "a source that gives the same batches", floor=1.5e6
        ),
        "stored": Row(
            AREA,
            "the same as a stream to Parquet",
            "row/s",
            "a source that gives the same batches",
            floor=0.8e6,
        ),
    }
    start = [
        Row(AREA, "a worker opens its session, warm", "ms", "-", less_is_better=True, floor=0.005),
        Row(AREA, "a worker imports zwire.spark", "ms", "-", less_is_better=True, floor=0.005),
    ]
    chosen = {name: row for name, row in table.items() if plan.wants(row)}
    if not chosen and not plan.wants(*start):
        return
    why = why_not()
    if plan.smoke and plan.only is None:
        why = "a JVM takes longer than a smoke run; --smoke --only spark has it"
    if why:
        for row in (*chosen.values(), *plan.chosen(start)):
            row.skipped = why
            yield row
        return
    count = 20_000 if plan.smoke else 1_000_000
    asked = 500 if plan.smoke else 20_000
    progress(f"{AREA}: starting a JVM")
    end = f"tcp/127.0.0.1:{free_port()}"
    hub = Child("hub", Node, OURS, "router", end, None)
    with children(hub):
        taker = Child("subscriber", Node, OURS, "client", None, end)
        answerer = Child("queryable", Node, OURS, "client", None, end)
        driver = Child("spark driver", Driver, end)
        driver.start_seconds = START_SECONDS
        with children(taker, answerer, driver):
            answerer.call("answer", SIZE)
            driver.send("prepare", count, SIZE, asked, COPIES // 4 if plan.smoke else COPIES)
            driver.result(JOB_SECONDS)
            for index in range(1 + (1 if plan.smoke else min(ROUNDS, plan.rounds))):
                progress(f"{AREA} round {index}" if index else f"{AREA}: first jobs, which do not count")
                for name, row in chosen.items():
                    rows = {
                        "get": asked,
                        "pcap": driver.call("captured"),
                        **dict.fromkeys(STREAMED, driver.call("kept_rows")),
                    }.get(name, count)
                    ceiling, trial = _round(name, driver, hub, taker, rows)
                    if index:
                        row.theirs.append(ceiling)
                        row.ours.append(trial)
            start[0].ours += map(Trial, driver.call("opening", 2 if plan.smoke else 50))
            start[1].ours += [Trial(_imported()) for _ in range(1 if plan.smoke else 5)]
    for name in chosen.keys() & {"put", "sink", "sink_marked"}:
        row = chosen[name]
        row.note = f"{median(row.ratios()):.2f} of the ceiling; every row counted at the hub"
    yield from (*chosen.values(), *plan.chosen(start))


def _imported() -> float:
    """Seconds of the import in a process that has imported Spark's worker already."""
    program = (
        "import time, pyspark.worker; begin = time.perf_counter(); import zwire.spark; "
        "print(time.perf_counter() - begin)"
    )
    # Users compile a module once.
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=START_SECONDS, env=cached
    )
    return float(done.stdout)


def _job(driver: Child, name: str) -> dict[str, Any]:
    driver.send("run", name)
    return dict(driver.result(JOB_SECONDS))


def _round(name: str, driver: Child, hub: Child, taker: Child, count: int) -> tuple[Trial, Trial]:
    ceiling = _job(driver, f"{name}_ceiling")
    before = hub.call("stat", "node.pushes_in")
    if name == "put_taken":
        taker.call("subscribe", "batch", "fleet/**")
        taker.send("take", count)
        done = _job(driver, "put")
        taker.result()
    else:
        done = _job(driver, name)
    came = hub.call("stat", "node.pushes_in") - before
    if done["rows"] != count or done["dropped"] or (came != count and name not in ("get", "pcap", *STREAMED)):
        raise ChildError(f"{name} of {count} rows: {done}, {came} at the hub")
    return Trial(ceiling["rows"] / ceiling["seconds"]), Trial(count / done["seconds"])
