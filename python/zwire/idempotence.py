"""Publications that may be sent again, and subscribers that take each of them once.

A job that has failed half-way is repeated, and the publications of its first attempt come twice. Here each
publication has an identity in its attachment: the query (a job), the batch of it, the partition of the
batch, and the row of the partition. A :class:`Filter` at the subscriber remembers received rows::

    once = Filter()
    for sample in subscriber:
        if once.is_new(sample):
            ...

The same call works in callbacks and ``async for``; :meth:`Filter.new` takes a list, :meth:`Filter.batch` a
batch from ``recv_batch``. Samples without an identity pass. ``df.write.format("zwire")`` adds identities with
``idempotence=attachment``, other publishers with :meth:`Identity.attachment`.

An identity is 40 bytes, highest byte first: ``zwi`` and the version 1, the query (16 bytes), the batch (8),
the partition (4), the row (8). The publication's own attachment, if any, follows.
"""

from __future__ import annotations

import json
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from zwire._lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zwire._zwire import Parameters, ZBytes

__all__ = ["SIZE", "Filter", "Identity", "commit_key", "receipt_key"]

_MAGIC = b"zwi\x01"
_LAYOUT = struct.Struct(">4s16sQIQ")
# Identities of one partition differ in the row only.
_RUN = struct.Struct(">32sQ")
_ROW = struct.Struct(">Q")

SIZE = _LAYOUT.size
"""Bytes of an identity in front of an attachment."""

MAX_RANGES = 65_536
"""Ranges of rows that a filter remembers: one for each partition of each batch, and one more for each hole in
it. About 600 bytes each, so a filter stays below 40 MB in any case."""

MAX_QUERIES = 16_384
"""Number of queries for which the newest batch is remembered, about 250 bytes each."""

BATCHES = 100
"""Batches of a query with a record of each row. Spark begins a batch when the one before is committed
and keeps the plans of 100, so an older one comes from an attempt that was given up long ago."""


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
    """Id of the job."""
    batch: int
    """Number of the batch in the job, 0 for a single one; it only rises."""
    partition: int
    """Number of the partition in the batch."""
    row: int
    """Position of the row in the partition, from 0."""

    def attachment(self, rest: bytes = b"") -> bytes:
        """Return the attachment of the publication; ``rest`` is its own attachment.

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
        """Return the identity of a sample; ``None`` without one."""
        attachment = sample.attachment
        return None if attachment is None else cls.parse(bytes(attachment))

    @classmethod
    def parse(cls, attachment: bytes) -> Identity | None:
        """Return the identity in front of an attachment, if there is one."""
        if len(attachment) < SIZE:
            return None
        magic, query, batch, partition, row = _LAYOUT.unpack_from(attachment)
        return cls(UUID(bytes=query), batch, partition, row) if magic == _MAGIC else None


def commit_key(prefix: str, query: UUID) -> str:
    """Return the key on which a sink publishes that a batch of a query is complete."""
    return f"{prefix}/@commit/{query.hex}"


def receipt_key(prefix: str, receiver: object = "*") -> str:
    """Return the key of a receiver (a session, by its ``zid()``) for receipts; ``*``: all receivers."""
    return f"{prefix}/@receipt/{receiver}"


class _Rows:
    """Received rows of one partition of one batch: disjoint ranges in order."""

    __slots__ = ("starts", "stops")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []

    def add(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Add rows, and return the new ones among them."""
        starts, stops = self.starts, self.stops
        if stops and start == stops[-1]:
            stops[-1] = stop
            return [(start, stop)]
        # The ranges that overlap or adjoin the rows.
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
        """Count the received rows below one."""
        return sum(
            max(0, min(stop, below) - start) for start, stop in zip(self.starts, self.stops, strict=True)
        )


_Part = tuple[bytes, int, int]


class Filter:
    """Remembers received publications, and lets each pass once.

    Use one for each subscriber; it is thread-safe. Its memory is bounded, see ``max_ranges``: rows
    forgotten for that pass again when they are repeated, and are counted. A pickled filter keeps its state,
    for receivers that must remember across a restart.

    Args:
        max_ranges: Most ranges of rows to remember, about 600 bytes each.
    """

    def __init__(self, max_ranges: int = MAX_RANGES) -> None:
        if max_ranges < 1:
            raise ValueError(f"max_ranges must be at least 1, not {max_ranges}")
        self.max_ranges = max_ranges
        self._lock = threading.Lock()
        # Ordered by last use.
        self._parts: OrderedDict[_Part, _Rows] = OrderedDict()
        self._newest: OrderedDict[bytes, int] = OrderedDict()
        self._ranges = 0
        self._counts = dict.fromkeys(("passed", "repeated", "late", "unmarked", "forgotten"), 0)
        self._last: tuple[bytes, _Rows] | None = None

    def __repr__(self) -> str:
        return f"<Filter of {self._ranges} ranges, {self._counts['passed']} samples passed>"

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        with self._lock:
            parts = [(part, list(rows.starts), list(rows.stops)) for part, rows in self._parts.items()]
            return {
                "max_ranges": self.max_ranges,
                "parts": parts,
                "newest": list(self._newest.items()),
                "counts": dict(self._counts),
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue with the state of another filter."""
        self.__init__(state["max_ranges"])  # type: ignore[misc]  # a new one, then filled
        for part, starts, stops in state["parts"]:
            rows = self._parts[part] = _Rows()
            rows.starts, rows.stops = starts, stops
            self._ranges += len(starts)
        self._newest.update(state["newest"])
        self._counts.update(state["counts"])

    def is_new(self, sample: _Sample) -> bool:
        """Return whether a sample comes for the first time, or has no identity."""
        attachment = sample.attachment
        head = b"" if attachment is None else bytes(attachment)[:SIZE]
        with self._lock:
            return self._takes(head)

    def new(self, samples: Iterable[_S]) -> list[_S]:
        """Return the samples that come for the first time, in order."""
        return [sample for sample in samples if self.is_new(sample)]

    def batch(self, batch: Any) -> pa.RecordBatch:  # noqa: ANN401 - whatever has the Arrow C interface
        """Return the rows of a record batch that come for the first time.

        The batch is that of ``recv_batch``, or any other with a column ``attachment``. Needs pyarrow.

        Raises:
            ValueError: There is no column ``attachment``, or it is not binary.
        """
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
        """Return the rows that pass, if attachments differ in length or some are missing."""
        kept = []
        for number, cell in enumerate(column):
            head = bytes(memoryview(cell.as_buffer())[:SIZE]) if cell.is_valid else b""
            if self._takes(head):
                kept.append((number, number + 1))
        return kept

    def _runs(self, heads: memoryview) -> list[tuple[int, int]]:
        """Return the rows that pass, for identities stored one behind the other."""
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
        """Add rows of a partition, and return the new ones."""
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
        """Return the received rows of a partition; ``None`` if its batch is too old."""
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
        """Stay within the bound: drop the least recently used; of a single partition its first rows."""
        while self._ranges > self.max_ranges:
            if len(self._parts) > 1:
                (query, batch, _), rows = self._parts.popitem(last=False)
                gone = rows.count(1 << 64)
                self._ranges -= len(rows.starts)
                if batch <= self._newest.get(query, -1) - BATCHES:
                    continue  # a repeat of its rows counts as late
            else:
                gone = used.stops.pop(0) - used.starts.pop(0)
                self._ranges -= 1
            self._counts["forgotten"] += gone

    def stats(self) -> dict[str, int]:
        """Count rows.

        ``passed``: with an identity, for the first time. ``repeated``: not passed, as received before.
        ``late``: not passed, since their batch is too old. ``unmarked``: passed without an identity.
        ``forgotten``: would pass again. ``ranges``: remembered now.
        """
        with self._lock:
            return {**self._counts, "ranges": self._ranges}

    def received(self, query: UUID, batch: int, partition: int, rows: int) -> int:
        """Count the received rows among the first ``rows`` rows of a partition."""
        with self._lock:
            found = self._parts.get((query.bytes, batch, partition))
            return 0 if found is None else found.count(rows)

    def missing(self, marker: bytes | str | Mapping[str, Any]) -> int:
        """Count the rows of a batch not received yet, by its commit marker.

        Args:
            marker: Payload of a sample on :func:`commit_key`, or its parsed JSON.

        Raises:
            ValueError: The payload is no such marker.
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
            session: A session of :mod:`zwire.zenoh` or :mod:`zwire.aio`.
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
    """Return the bytes of a column if each cell has the size of an identity."""
    if not len(column) or column.null_count:
        return None
    if pc.min_max(pc.binary_length(column)).as_py() != {"min": SIZE, "max": SIZE}:
        return None
    _, offsets, data = column.buffers()
    start = memoryview(offsets).cast("i")[column.offset]
    return memoryview(data)[start : start + len(column) * SIZE]
