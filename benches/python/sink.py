"""A spool into a table of Delta Lake, each row once, against the same rows in Parquet by pyarrow alone.

One process does either. Ours reads the spool, verifies it, writes the files and commits them with the
offsets, in batches of the default size; the other side has the rows as Arrow in memory, and writes one file
without a transaction.
"""

from __future__ import annotations

import importlib
import random
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children
from python.plan import interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "sink"
ROWS = 3_000_000
SIZE = 64
PATIENCE = 120.0
# The default columns of Spark's source.
COLUMNS = ["key", "payload", "kind", "encoding", "timestamp", "attachment", "recv_ts", "shard", "offset"]


class Writer:
    """Writer of the rows of a spool, in one of two ways."""

    def __init__(self, rows: int) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        self.parquet: Any = importlib.import_module("pyarrow.parquet")
        self.sink: Any = importlib.import_module("zwire.sink")
        spool: Any = importlib.import_module("zwire.spool")
        self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        # Other octets in each row: nothing to compress.
        chance = random.Random(7)
        payloads = [chance.randbytes(SIZE) for _ in range(16_384)]
        keys = [f"bench/{number % 50}" for number in range(16_384)]
        batch = self.arrow.record_batch({"key": keys, "payload": payloads})
        with spool.Appender(f"{self.folder}/spool", shards=2) as appender:
            left = rows
            while left > 0:
                left -= appender.append_batch(batch.slice(0, min(left, batch.num_rows)))
        self.view = spool.open(f"{self.folder}/spool")
        self.rows = sum(self.view.end().values())
        self.batches: list[Any] = list(self.view.to_reader(columns=COLUMNS))
        self.number = 0

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def about(self) -> int:
        """Return the number of rows."""
        return self.rows

    def _place(self) -> str:
        self.number += 1
        return f"{self.folder}/{self.number}"

    def table(self) -> int:
        """Append the spool to a new table; check the rows."""
        place = self._place()
        table = self.sink.delta(place)
        done = self.sink.run(self.view, table, columns=COLUMNS, consumer="none")
        if done["rows"] != self.rows or sum(table.marks(self._marks()).values()) != self.rows:
            raise ChildError(f"{done['rows']} rows of {self.rows}")
        return int(done["commits"])

    def _marks(self) -> list[str]:
        return [f"zwire/{self.view.id}/{shard}" for shard in self.view.shards]

    def file(self) -> int:
        """Write the rows that are in memory into a file."""
        place = self._place()
        with self.parquet.ParquetWriter(place, self.batches[0].schema) as writer:
            held: list[Any] = []
            count = 0
            for batch in self.batches:
                held.append(batch)
                count += batch.num_rows
                # As large as the row groups of deltalake.
                if count >= 1 << 20:
                    writer.write_table(self.arrow.Table.from_batches(held))
                    held, count = [], 0
            if held:
                writer.write_table(self.arrow.Table.from_batches(held))
        return 1

    def clean(self) -> None:
        """Delete what was written last."""
        place = f"{self.folder}/{self.number}"
        shutil.rmtree(place, ignore_errors=True)
        Path(place).unlink(missing_ok=True)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    row = Row(AREA, "spool to Delta, each row once, 64 B", "rows/s", "pyarrow, Parquet alone", floor=1e6)
    if not plan.wants(row):
        return
    progress(AREA)
    with children(Child("writer", Writer, ROWS // 20 if plan.smoke else ROWS)) as (writer,):
        count = writer.call("about")
        sides = [partial(_trial, writer, count, what) for what in ("table", "file")]
        for ours, theirs in interleaved(plan.rounds, sides):
            row.ours.append(ours)
            row.theirs.append(theirs)
    yield from plan.chosen([row])


def _trial(writer: Child, count: int, what: str) -> Trial:
    used = writer.cpu()
    begin = time.perf_counter()
    writer.send(what)
    writer.result(PATIENCE)
    seconds = time.perf_counter() - begin
    trial = Trial(count / seconds, (writer.cpu() - used) / count)
    writer.call("clean")
    return trial
