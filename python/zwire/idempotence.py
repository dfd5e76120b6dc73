"""Publications that may be sent again, and subscribers that take each of them once.

A job that has failed half-way is done again, and what its first attempt has published comes twice. Here each
publication says in its attachment what it is: which query (a job), which batch of it, which partition of the
batch, and which row of the partition. A :class:`Filter` at the subscriber knows what has come::

    once = Filter()
    for sample in subscriber:
        if once.is_new(sample):
            ...

The same call serves callbacks and ``async for``; :meth:`Filter.new` takes a list, :meth:`Filter.batch` what
``recv_batch`` gives. Samples without an identity pass. ``df.write.format("zwire")`` makes identities with
``idempotence=attachment``, other publishers with :meth:`Identity.attachment`.

An identity is 40 bytes, highest byte first: ``zwi`` and the version 1, the query (16 bytes), the batch (8),
the partition (4), the row (8). An attachment that the publication has besides follows.
"""

from __future__ import annotations

import json
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from zwire._zwire import Parameters, ZBytes

__all__ = ["SIZE", "Filter", "Identity", "commit_key", "receipt_key"]

_MAGIC = b"zwi\x01"
_LAYOUT = struct.Struct(">4s16sQIQ")
# Of one partition all is the same but for the row.
_RUN = struct.Struct(">32sQ")
_ROW = struct.Struct(">Q")

SIZE = _LAYOUT.size
"""Bytes of an identity in front of an attachment."""

MAX_RANGES = 65_536
"""Ranges of rows that a filter remembers: one for each partition of each batch, and one more for each hole in
it. About 600 bytes each, so that a filter stays below 40 MB whatever it is sent."""

MAX_QUERIES = 16_384
"""Number of queries for which the newest batch is remembered, about 250 bytes each."""

BATCHES = 100
"""Batches of a query that are told apart row by row. Spark begins a batch when the one before is committed
and keeps the plans of 100, so what is older comes from an attempt that was given up long ago."""


class _Sample(Protocol):
    @property
    def attachment(self) -> ZBytes | None: ...


_S = TypeVar("_S", bound=_Sample)


_Q = TypeVar("_Q", covariant=True)  # noqa: PLC0105 - a queryable


class _Session(Protocol[_Q]):
    def zid(self) -> object: ...
    def declare_queryable(self, key_expr: str, handler: Callable[[Any], Any], /) -> _Q: ...


class _Query(Protocol):
    @property
    def parameters(self) -> Parameters: ...
    def reply(self, key_expr: str, payload: str, /) -> Any: ...  # noqa: ANN401 - a coroutine in zwire.aio
    def reply_err(self, payload: str, /) -> Any: ...  # noqa: ANN401 - as above


class Identity(NamedTuple):
    """The identity of a publication, the same for every attempt to send it."""

    query: UUID
    """The job."""
    batch: int
    """Its number in the job, 0 where there is one only; it only rises."""
    partition: int
    """Which part of the batch."""
    row: int
    """Its place in the partition, from 0."""

    def attachment(self, rest: bytes = b"") -> bytes:
        """Give the attachment of the publication; ``rest`` is what it has besides.

        Raises:
            ValueError: A number is negative or too large.
        """
        try:
            packed = _LAYOUT.pack(_MAGIC, self.query.bytes, self.batch, self.partition, self.row)
        except struct.error as error:
            raise ValueError(f"{self}: {error}") from None
        return packed + rest

    @classmethod
    def of(cls, sample: _Sample) -> Identity | None:
        """Give the identity of a sample; ``None`` where it has none."""
        attachment = sample.attachment
        return None if attachment is None else cls.parse(bytes(attachment))

    @classmethod
    def parse(cls, attachment: bytes) -> Identity | None:
        """Give the identity in front of an attachment, if there is one."""
        if len(attachment) < SIZE:
            return None
        magic, query, batch, partition, row = _LAYOUT.unpack_from(attachment)
        return cls(UUID(bytes=query), batch, partition, row) if magic == _MAGIC else None


def commit_key(prefix: str, query: UUID) -> str:
    """Give the key on which a sink says that a batch of a query is complete."""
    return f"{prefix}/@commit/{query.hex}"


def receipt_key(prefix: str, receiver: object = "*") -> str:
    """Give the key on which a receiver (a session, by its ``zid()``) says what it has got; ``*``: all."""
    return f"{prefix}/@receipt/{receiver}"


class _Rows:
    """Rows of one partition of one batch that have come: disjoint ranges in order."""

    __slots__ = ("starts", "stops")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []

    def add(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Take rows, and give those of them that are new."""
        starts, stops = self.starts, self.stops
        if stops and start == stops[-1]:
            stops[-1] = stop
            return [(start, stop)]
        # The ranges that the rows touch.
        first = bisect_right(starts, start)
        if first and stops[first - 1] >= start:
            first -= 1
        last = bisect_right(starts, stop)
        new, at = [], start
        for index in range(first, last):
            if at < starts[index]:
                new.append((at, starts[index]))
            at = max(at, stops[index])
        if at < stop:
            new.append((at, stop))
        if first < last:
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        starts[first:last] = [start]
        stops[first:last] = [stop]
        return new

    def count(self, below: int) -> int:
        """Count those that have come of the rows below one."""
        return sum(
            max(0, min(stop, below) - start) for start, stop in zip(self.starts, self.stops, strict=True)
        )


_Part = tuple[bytes, int, int]


class Filter:
    """Knows which publications have come, and lets each pass once.

    One for each subscriber; any thread may use it. Its memory is bounded, see ``max_ranges``: what is
    forgotten for that passes again when it comes again, and is counted. A pickled filter goes on where it
    was, for receivers that must know after a restart.

    Args:
        max_ranges: Most ranges of rows that are remembered, about 600 bytes each.
    """

    def __init__(self, max_ranges: int = MAX_RANGES) -> None:
        if max_ranges < 1:
            raise ValueError(f"max_ranges must be at least 1, not {max_ranges}")
        self.max_ranges = max_ranges
        self._lock = threading.Lock()
        # What was used last is last.
        self._parts: OrderedDict[_Part, _Rows] = OrderedDict()
        self._newest: OrderedDict[bytes, int] = OrderedDict()
        self._ranges = 0
        self._counts = dict.fromkeys(("passed", "repeated", "late", "unmarked", "forgotten"), 0)
        self._last: tuple[bytes, _Rows] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock."""
        with self._lock:
            parts = [(part, list(rows.starts), list(rows.stops)) for part, rows in self._parts.items()]
            return {
                "max_ranges": self.max_ranges,
                "parts": parts,
                "newest": list(self._newest.items()),
                "counts": dict(self._counts),
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on where another one was."""
        self.__init__(state["max_ranges"])  # type: ignore[misc]  # a new one, then filled
        for part, starts, stops in state["parts"]:
            rows = self._parts[part] = _Rows()
            rows.starts, rows.stops = starts, stops
            self._ranges += len(starts)
        self._newest.update(state["newest"])
        self._counts.update(state["counts"])

    def is_new(self, sample: _Sample) -> bool:
        """Whether a sample comes for the first time, or has no identity."""
        attachment = sample.attachment
        head = b"" if attachment is None else bytes(attachment)[:SIZE]
        with self._lock:
            return self._takes(head)

    def new(self, samples: Iterable[_S]) -> list[_S]:
        """Give those of some samples that come for the first time, in their order."""
        return [sample for sample in samples if self.is_new(sample)]

    def batch(self, batch: Any) -> pa.RecordBatch:  # noqa: ANN401 - whatever has the Arrow C interface
        """Give the rows of a record batch that come for the first time.

        The batch is that of ``recv_batch``, or any other with a column ``attachment``. Needs pyarrow.

        Raises:
            ValueError: There is no column ``attachment``, or it is not binary.
        """
        import pyarrow as pa

        batch = pa.record_batch(batch)
        if "attachment" not in batch.schema.names:
            raise ValueError("the batch has no column 'attachment'")
        column = batch.column("attachment")
        if pa.types.is_large_binary(column.type):
            column = column.cast(pa.binary())
        if not pa.types.is_binary(column.type):
            raise ValueError(f"column 'attachment' must be binary, not {column.type}")
        with self._lock:
            bare = _bare(column)
            kept = self._heads(column) if bare is None else self._runs(bare)
        if sum(stop - start for start, stop in kept) == batch.num_rows:
            return batch
        pieces = [batch.slice(start, stop - start) for start, stop in kept]
        if not pieces:
            return batch.slice(0, 0)
        return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]

    def _takes(self, head: bytes) -> bool:
        if len(head) < SIZE or not head.startswith(_MAGIC):
            self._counts["unmarked"] += 1
            return True
        (row,) = _ROW.unpack_from(head, 32)
        return bool(self._add(head[:32], row, row + 1))

    def _heads(self, column: pa.Array) -> list[tuple[int, int]]:
        """Rows that pass, where some have more than an identity, or none."""
        kept = []
        for number, cell in enumerate(column):
            head = bytes(memoryview(cell.as_buffer())[:SIZE]) if cell.is_valid else b""
            if self._takes(head):
                kept.append((number, number + 1))
        return kept

    def _runs(self, heads: memoryview) -> list[tuple[int, int]]:
        """Rows that pass, of identities one behind the other."""
        kept: list[tuple[int, int]] = []
        part, start, expected, at = b"", 0, 0, -1

        def done(end: int) -> None:
            if part.startswith(_MAGIC):
                moved = end - expected
                kept.extend((first + moved, stop + moved) for first, stop in self._add(part, start, expected))
            elif part:
                self._counts["unmarked"] += 1
                kept.append((end - 1, end))

        for at, (this, row) in enumerate(_RUN.iter_unpack(heads)):
            if row == expected and this == part and this.startswith(_MAGIC):
                expected += 1
                continue
            done(at)
            part, start, expected = this, row, row + 1
        done(at + 1)
        return kept

    def _add(self, part: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        """Take rows of a partition, and give those that are new."""
        last = self._last
        if last is not None and last[0] == part:
            rows = last[1]
        else:
            found = self._find(part)
            if found is None:
                self._counts["late"] += stop - start
                return []
            rows = found
            self._last = (part, rows)
        before = len(rows.starts)
        new = rows.add(start, stop)
        self._ranges += len(rows.starts) - before
        passed = sum(stop - start for start, stop in new)
        self._counts["passed"] += passed
        self._counts["repeated"] += stop - start - passed
        if self._ranges > self.max_ranges:
            self._forget(rows)
        return new

    def _find(self, part: bytes) -> _Rows | None:
        """The rows of a partition that have come; ``None`` where its batch is long over."""
        _, query, batch, partition, _ = _LAYOUT.unpack(part + bytes(8))
        newest = self._newest.get(query, -1)
        if batch <= newest - BATCHES:
            return None
        if batch > newest:
            self._newest[query] = batch
        self._newest.move_to_end(query)
        if len(self._newest) > MAX_QUERIES:
            self._newest.popitem(last=False)
        key = (query, batch, partition)
        rows = self._parts.get(key)
        if rows is None:
            rows = self._parts[key] = _Rows()
        self._parts.move_to_end(key)
        return rows

    def _forget(self, used: _Rows) -> None:
        """Stay within the bound: what was not used for longest goes; of a single partition its first rows."""
        while self._ranges > self.max_ranges:
            if len(self._parts) > 1:
                (query, batch, _), rows = self._parts.popitem(last=False)
                gone = rows.count(1 << 64)
                self._ranges -= len(rows.starts)
                if batch <= self._newest.get(query, -1) - BATCHES:
                    continue  # it could only come late
            else:
                gone = used.stops.pop(0) - used.starts.pop(0)
                self._ranges -= 1
            self._counts["forgotten"] += gone

    def stats(self) -> dict[str, int]:
        """Count rows.

        ``passed``: with an identity, for the first time. ``repeated``: not passed, since they had come.
        ``late``: not passed, since their batch is long over. ``unmarked``: passed without an identity.
        ``forgotten``: they would pass again. ``ranges``: remembered now.
        """
        with self._lock:
            return {**self._counts, "ranges": self._ranges}

    def received(self, query: UUID, batch: int, partition: int, rows: int) -> int:
        """Count how many of the first ``rows`` rows of a partition have come."""
        with self._lock:
            found = self._parts.get((query.bytes, batch, partition))
            return 0 if found is None else found.count(rows)

    def missing(self, marker: bytes | str | Mapping[str, Any]) -> int:
        """Count the rows of a batch that have not come yet, by its commit marker.

        Args:
            marker: Payload of a sample on :func:`commit_key`, or what JSON makes of it.

        Raises:
            ValueError: It is no such marker.
        """
        try:
            said: Mapping[str, Any] = json.loads(marker) if isinstance(marker, bytes | str) else marker
            query, batch = UUID(said["query"]), int(said["batch"])
            parts = [(int(partition), int(rows)) for partition, rows in said["partitions"].items()]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"no marker of a batch: {error!r}") from None
        return sum(rows - self.received(query, batch, partition, rows) for partition, rows in parts)

    def receipts(self, session: _Session[_Q], prefix: str) -> _Q:
        """Answer sinks that ask which rows have arrived; return the queryable, active until undeclared.

        A sink with ``ack=barrier`` and ``receipts=<prefix>`` ends a task only when the rows of its partition
        have passed here. Use it in a program that subscribes to all keys of the sink and asks this filter
        about each sample.

        Args:
            session: Of :mod:`zwire.zenoh` or :mod:`zwire.aio`.
            prefix: The value of the sink's option ``receipts``.
        """
        key = receipt_key(prefix, session.zid())

        def answer(query: _Query) -> Any:  # noqa: ANN401 - a coroutine in zwire.aio
            asked = [str(query.parameters.get(name)) for name in ("query", "batch", "partition", "rows")]
            try:
                count = self.received(UUID(asked[0]), *map(int, asked[1:]))
            except ValueError as error:
                return query.reply_err(str(error))
            return query.reply(key, json.dumps({"rows": count}))

        return session.declare_queryable(key, answer)


def _bare(column: pa.Array) -> memoryview | None:
    """The bytes of a column in which each cell has the size of an identity."""
    import pyarrow.compute as pc

    if not len(column) or column.null_count:
        return None
    if pc.min_max(pc.binary_length(column)).as_py() != {"min": SIZE, "max": SIZE}:
        return None
    _, offsets, data = column.buffers()
    start = memoryview(offsets).cast("i")[column.offset]
    return memoryview(data)[start : start + len(column) * SIZE]
