"""The schedule of a replay: which rows are due when. Uses no clock and no network."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire._lazy import pa, pc
from zwire.columns import SAMPLE
from zwire.recording._rows import conform, rising

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zwire._rows import KeyFilter
    from zwire.recording._keys import Remap

TICK = 0.001
"""Seconds: rows due within this time go together, so that one call publishes several."""

_UNUSED = {"source_zid", "source_eid", "source_sn", "reliable", "link", "shard", "offset"}

PLAYED = tuple(name for name in SAMPLE.names if name not in _UNUSED)
"""Columns that a replay needs; a recording with just these is not converted."""


class Ready(NamedTuple):
    """A batch ready for publishing."""

    batch: pa.RecordBatch
    times: pa.Array
    """Times of the rows in microseconds, rising."""
    first: bool
    """Whether the batch is the first of the recording."""


class Due(NamedTuple):
    """Rows to publish now."""

    batch: pa.RecordBatch
    late: float
    """Seconds by which the first of them is late."""


def prepared(
    batches: Iterable[Any], *, loop: int | None, keys: KeyFilter | None, remap: Remap | None
) -> Iterator[Ready]:
    """Yield the batches of each round, filtered by ``keys``, with the new keys."""
    rounds = 0
    while loop is None or rounds < loop:
        rounds += 1
        last: int | None = None
        for given in batches:
            batch = conform(given, columns=PLAYED)
            if keys is not None:
                batch = batch.filter(keys.mask(batch.column("key")))
            if not batch.num_rows:
                continue
            if remap is not None:
                batch = batch.set_column(0, "key", remap.column(batch.column("key")))
            times = rising(batch, last)
            yield Ready(batch, times, first=last is None)
            last = times[-1].as_py()
        if last is None:
            return  # an empty round would repeat without end


class Player:
    """Returns the rows of batches when they are due.

    Rows are due relative to the first one, at ``rate`` times the speed of the recording, so that one delay
    does not delay later rows. Pauses longer than ``max_gap`` seconds of the recording are shortened to that.
    """

    def __init__(self, batches: Iterator[Ready], *, rate: float | None, max_gap: float | None) -> None:
        self._batches = batches
        self._rate = rate
        self._gap = None if max_gap is None else round(max_gap * 1e6)
        self._batch: pa.RecordBatch | None = None
        # Times of the batch, in microseconds from the first row of the recording.
        self._due: memoryview[int] = memoryview(b"").cast("q")
        self._at = 0
        self.began = 0.0
        self._begun = False
        self._played = 0
        self._last = 0

    @property
    def played(self) -> float:
        """Seconds of the recording played so far."""
        return self._due[self._at - 1] / 1e6 if self._at else self._played / 1e6

    def step(self, now: float) -> Due | float | None:
        """Return the next action: rows to publish, seconds to wait (perhaps 0), ``None`` at the end."""
        if self._batch is None or self._at == self._batch.num_rows:
            return 0.0 if self._fill() else None
        if not self._begun:
            self.began, self._begun = now, True
        count = self._batch.num_rows
        if self._rate is None:
            begin, self._at = self._at, count
            return Due(self._batch.slice(begin), 0.0)
        passed = now - self.began
        until = bisect_right(self._due, passed * self._rate * 1e6, self._at)
        behind = passed - self._due[self._at] / 1e6 / self._rate
        if until == self._at:
            return max(-behind, TICK)
        begin, self._at = self._at, until
        return Due(self._batch.slice(begin, until - begin), behind)

    def _fill(self) -> bool:
        ready = next(self._batches, None)
        if ready is None:
            return False
        times = ready.times
        before = pa.scalar(times[0].as_py() if ready.first else self._last, pa.int64())
        self._last = times[-1].as_py()
        if self._gap is None:
            offsets = pc.subtract(times, before)
        else:
            steps = pc.subtract(times, pc.coalesce(_shifted(times), before))
            offsets = pc.cumulative_sum(pc.min_element_wise(steps, self._gap))
        due = pc.add(offsets, self._played)
        self._played = due[-1].as_py()
        self._due = memoryview(due.buffers()[1]).cast("q")[: len(due)]
        self._batch, self._at = ready.batch, 0
        return True


def _shifted(column: pa.Array) -> pa.Array:
    """Shift a column by one row: each row gets the value of the row before, the first one null."""
    return pa.concat_arrays([pa.nulls(1, column.type), column.slice(0, len(column) - 1)])
