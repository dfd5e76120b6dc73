"""How fast a task may send: so many rows and bytes per second, evenly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire._rows import payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_STEP = 0.1
"""Seconds: what goes out at once, so that a receiver sees an even flow and not one burst each second."""


class Pace:
    """Cuts batches into pieces and waits between them. What was not sent in time is not made up for."""

    def __init__(self, rows: float | None, octets: float | None) -> None:
        self.rows = rows
        self.octets = octets
        self.next = 0.0

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give the rows of a batch in pieces, each when it may go."""
        if self.rows is None and self.octets is None:
            yield batch
            return
        for piece in self._cut(batch):
            now = time.monotonic()
            if self.next > now:
                time.sleep(self.next - now)
            # From where it should have gone, or a late wake-up would slow everything down.
            self.next = max(self.next, now - _STEP) + self._seconds(piece)
            yield piece

    def _cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Halves, until each takes a step or is a single row."""
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
