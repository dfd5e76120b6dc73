"""Rate limits of a task: rows and bytes per second, evenly spread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire._rows import payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_STEP = 0.1
"""Seconds of one piece, so that a receiver sees an even flow and not one burst each second."""


class Pace:
    """Cuts batches into pieces and waits between them. Time lost is not made up for."""

    def __init__(self, rows: float | None, octets: float | None) -> None:
        self.rows = rows
        self.octets = octets
        self.next = 0.0

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch in pieces, each when it is due."""
        if self.rows is None and self.octets is None:
            yield batch
            return
        for piece in self._cut(batch):
            now = time.monotonic()
            if self.next > now:
                time.sleep(self.next - now)
            # Count from the due time: otherwise each late wake-up would lower the rate.
            self.next = max(self.next, now - _STEP) + self._seconds(piece)
            yield piece

    def _cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Halve the batch, until each part takes a step or is a single row."""
        if batch.num_rows > 1 and self._seconds(batch) > _STEP:
            half = batch.num_rows // 2
            yield from self._cut(batch.slice(0, half))
            yield from self._cut(batch.slice(half))
        elif batch.num_rows:
            yield batch

    def _seconds(self, batch: pa.RecordBatch) -> float:
        by_rows = 0.0 if self.rows is None else batch.num_rows / self.rows
        by_octets = 0.0 if self.octets is None else payload_bytes(batch) / self.octets
        return max(by_rows, by_octets)
