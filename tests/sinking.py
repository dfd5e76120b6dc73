"""Sinks that are killed: a child appends the rows of a spool to a table, until it kills itself.

The children are forked from a process that has imported everything, so that each starts in milliseconds.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import signal
import threading
from typing import TYPE_CHECKING, Any

from zwire import sink, spool

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("delta", "iceberg", "parquet")

# Functions that make a commit visible: before them the files are written, after them the table has the rows.
COMMITS = {
    "delta": ("deltalake", "write_deltalake"),
    "iceberg": ("pyiceberg.catalog.sql:SqlCatalog", "commit_table"),
    "parquet": ("zwire.sink._parquet:ParquetTable", "_commit"),
}


def fill_damaged(folder: Path) -> None:
    """Write a spool of three blocks of 100 rows, and change an octet of the second one."""
    with spool.Appender(folder) as appender:
        for number in range(300):
            appender.append(key="robot/1", payload=str(number))
            if number % 100 == 99:
                appender.flush()
    (file,) = (folder / "0").glob("*.arrow")
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)


def table(form: str, folder: Path | str, **options: Any) -> sink.Table:
    """The table of a test in a folder."""
    if form == "iceberg":
        place = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/ice"}
        return sink.iceberg("fleet.robots", options=place, **options)
    return getattr(sink, form)(f"{folder}/{form}", **options)


def spot(form: str) -> tuple[Any, str, Any]:
    """The object with the function that commits, its name, and the function."""
    place, name = COMMITS[form]
    module, _, cls = place.partition(":")
    owner = importlib.import_module(module)
    owner = getattr(owner, cls) if cls else owner
    return owner, name, getattr(owner, name)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(form: str, source: str, folder: str, moment: tuple[str, float], options: dict[str, Any]) -> None:
    """Append rows until a moment: seconds after a batch has begun, or before or after a commit."""
    what, when = moment
    owner, name, commit = spot(form)
    commits = [0]

    def killing(*args: Any, **more: Any) -> Any:
        commits[0] += 1
        if what == "before" and commits[0] == when:
            kill()
        found = commit(*args, **more)
        if what == "after" and commits[0] == when:
            kill()
        return found

    setattr(owner, name, killing)
    if what == "time":
        # Not from the beginning, which takes longer than a batch.
        threading.Timer(when, kill).start()
    made = sink.Sink(source, table(form, folder, partition_by=options.pop("partition_by", ())), **options)
    made.run(once=True)


def attempt(form: str, source: Path, folder: Path, moment: tuple[str, float], **options: Any) -> int:
    """Run a child; return its exit code, which is negative for a signal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sinking", "deltalake", "pyiceberg.catalog.sql", "pyarrow.parquet"])
    child = context.Process(target=work, args=(form, str(source), str(folder), moment, options))
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    child.join()
    child.close()
    assert code is not None, "the child does not end"
    return code


def moments(seed: int, count: int, longest: float) -> list[tuple[str, float]]:
    """Moments of kills: one in three at a commit, the others at any time."""
    chance = random.Random(seed)
    kinds = ["before", "after", *chance.choices(["time", "time", "before", "after"], k=count)]
    return [
        (kind, chance.uniform(0, longest) if kind == "time" else chance.randint(1, 3))
        for kind in kinds[:count]
    ]
