"""Sends the rows of one partition, and confirms that the hub has received them."""

# ruff: noqa: RUF009 - a bound only adds metadata to its field.

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from zwire._lazy import pa, pc
from zwire._rows import payload_bytes
from zwire.errors import LinkClosed, RowError, SessionClosed, TimedOut
from zwire.spark import schema
from zwire.spark._checked import Checked, above_zero, choice
from zwire.spark._sessions import session
from zwire.spark._settings import settings, value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zwire.spark._settings import IntoConfig
    from zwire.zenoh import CongestionControl, Priority

Congestion: TypeAlias = Literal["block", "block_first", "drop"]
OnBadRow: TypeAlias = Literal["raise", "skip"]
Confirm: TypeAlias = Literal["hub", "none"]

_log = logging.getLogger("zwire.spark")


class PutSummary(NamedTuple):
    """The result for the rows of a partition: a row of ``schema.SUMMARY``.

    ::

        endpoint = session.listening()[0]
        (summary,) = spark.put_partition(endpoint)(iter([("demo/a", b"x"), ("demo/b", b"yy")]))
        print(summary.rows, summary.bytes, summary.dropped)  # 2 3 0
    """

    rows: int
    """Rows handed to the network."""
    bytes: int
    """Bytes of their payload."""
    dropped: int
    """Bad rows that were skipped, and rows dropped by congestion control."""
    seconds: float
    """Seconds from the first row to the confirmation of the last."""


class PutKeywords(TypedDict, total=False):
    """Options of a put by keyword."""

    key: str | None
    congestion: Congestion
    priority: int
    express: bool
    errors: OnBadRow
    confirm: Confirm
    confirm_timeout: float
    send_timeout: float
    max_rows_per_second: float | None
    max_bytes_per_second: float | None


@dataclass(frozen=True, kw_only=True)
class PutOptions(Checked):
    """Options of sending."""

    config: str = field(repr=False)
    key: str | None = None
    congestion: Congestion = choice("block", "block", "block_first", "drop")
    priority: int = choice(5, *range(1, 8))
    express: bool = False
    errors: OnBadRow = choice("raise", "raise", "skip")
    confirm: Confirm = choice("hub", "hub", "none")
    confirm_timeout: float = above_zero(30.0)
    send_timeout: float = above_zero(120.0)
    max_rows_per_second: float | None = above_zero(None, None)
    max_bytes_per_second: float | None = above_zero(None, None)


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


def put_options(config: IntoConfig, **options: Unpack[PutKeywords]) -> PutOptions:
    """Check the options of a put before the job starts, not in the first task."""
    from zwire.zenoh import KeyExpr

    if (key := options.get("key")) is not None:
        options["key"] = str(KeyExpr(key))
    return PutOptions(config=settings(config), **options)


def send(options: PutOptions, batches: Iterable[pa.RecordBatch]) -> PutSummary:
    """Send a partition. For an empty one no session is opened."""
    sender: Sender | None = None
    for batch in batches:
        if batch.num_rows:
            sender = sender or Sender(options)
            sender.send(batch)
    return PutSummary(0, 0, 0, 0.0) if sender is None else sender.finish()


class Sender:
    """Sends one partition: takes batches, returns a summary at the end."""

    def __init__(self, options: PutOptions) -> None:
        from zwire import zenoh

        self.options = options
        self.session = session(options.config)
        self.qos: dict[str, CongestionControl | Priority | bool] = {
            "congestion_control": zenoh.CongestionControl[options.congestion.upper()],
            "priority": zenoh.Priority(options.priority),
            "express": options.express,
        }
        self.pace = Pace(options.max_rows_per_second, options.max_bytes_per_second)
        self.start = time.monotonic()
        self.rows = self.bytes = self.skipped = 0
        stats = self.session.stats()
        self.links = _links(stats)
        self.congested = stats.get("link.tx_dropped", 0)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch within the rate limits; waits as long as congestion control says."""
        for piece in self.pace.pieces(_with_deletions(batch)):
            with self._in_time():
                self._send(piece)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """Bound the total wait for room: each row may be taken in time, while the batch as a whole is not.

        Only the end of its session wakes up a put, and Spark does not interrupt a task.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            self.session.close()

        watch = threading.Timer(self.options.send_timeout, end)
        watch.daemon = True
        watch.start()
        try:
            yield
        except SessionClosed:
            if not late.is_set():
                raise
            seconds = self.options.send_timeout
            where = ", ".join(value(self.options.config, "connect/endpoints"))
            problem = f"{where} takes too little: rows wait since {seconds} s, after the first {self.rows}"
            raise TimedOut(problem, seconds=seconds) from None
        finally:
            watch.cancel()

    def _send(self, batch: pa.RecordBatch) -> None:
        at = 0
        while at < batch.num_rows:
            rest = batch.slice(at) if at else batch
            try:
                summary = self.session.put_batch(rest, key_expr=self.options.key, **self.qos)  # type: ignore[arg-type]  # one dictionary, three types
            except RowError as error:
                sent = error.row or 0
                bad = self._named(sent, error.key, error.reason)
                if self.options.errors == "raise":
                    raise bad from None
                _log.warning("skipped %s", bad)
                self.rows += sent
                self.bytes += payload_bytes(rest.slice(0, sent))
                self.skipped += 1
                at += sent + 1
                continue
            if summary.first_unmatched is not None:
                key = self.options.key or batch.column("key")[at + summary.first_unmatched].as_py()
                where = ", ".join(value(self.options.config, "connect/endpoints"))
                raise self._named(summary.first_unmatched, key, f"there is no link to {where}")
            self.rows += summary.rows
            self.bytes += summary.bytes
            return

    def _named(self, row: int, key: str | None, reason: str | None) -> RowError:
        number = self.rows + self.skipped + row
        shown = "" if key is None else f", key {key!r}"
        return RowError(f"row {number} of the partition{shown}: {reason}", row=number, key=key, reason=reason)

    def finish(self) -> PutSummary:
        """Wait until the hub has all rows, and return the summary."""
        if self.options.confirm == "hub" and self.rows:
            self._confirm()
        stats = self.session.stats()
        # A link that has just ended may not be counted yet, and a flush has no neighbour to wait for then.
        if _links(stats) != self.links or not self.session.info.transports():
            problem = f"the link was lost while {self.rows} rows were sent, and some of them with it"
            raise LinkClosed(f"{problem}; sending the partition again sends all of them", by_peer=True)
        dropped = self.skipped + max(0, stats.get("link.tx_dropped", 0) - self.congested)
        return PutSummary(self.rows, self.bytes, dropped, time.monotonic() - self.start)

    def _confirm(self) -> None:
        seconds = self.options.confirm_timeout
        try:
            self.session.flush(timeout=seconds)
        except TimedOut:
            problem = f"the hub has not confirmed {self.rows} rows within {seconds} s"
            raise TimedOut(problem, seconds=seconds) from None
        except LinkClosed:
            problem = f"the link was lost before the hub had confirmed {self.rows} rows"
            raise LinkClosed(problem, by_peer=True) from None


def _links(stats: Mapping[str, object]) -> list[object]:
    """Return numbers that change with each link that opens or closes."""
    ended = [number for name, number in stats.items() if name.startswith("links.ended.")]
    return [stats["session.links_up"], *ended]


def _with_deletions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the kind ``del`` where a payload is null, unless the rows have a kind already."""
    if "kind" in batch.schema.names:
        return batch
    if "payload" not in batch.schema.names:
        raise ValueError("there is no column 'payload', and none 'kind': give null payloads to delete keys")
    payload = batch.column("payload")
    if not payload.null_count:
        return batch
    kind = pc.if_else(payload.is_null(), pa.scalar("del"), pa.scalar("put"))
    return pa.RecordBatch.from_arrays([*batch.columns, kind], names=[*batch.schema.names, "kind"])


def check_columns(names: list[str], *, key: str | None) -> None:
    """Refuse unknown columns, and missing ones."""
    known = schema.PUT.names
    for old, new in schema.PUT.renamed.items():
        if old in names and new in names:
            raise ValueError(f"{old!r} is the former name of the column {new!r}: give one of them only")
    unknown = [name for name in names if name not in known and name not in schema.PUT.renamed]
    if unknown:
        raise ValueError(f"column {unknown[0]!r} is not one of {', '.join(known)}")
    for name in ("payload",) if key is not None else ("key", "payload"):
        if name not in names:
            raise ValueError(f"there is no column {name!r}")
