"""The writers of the format ``zwire``: rows of batches and of streams, as publications."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4, uuid5

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from zwire.errors import ConfigError, TransportError
from zwire.idempotence import commit_key
from zwire.spark._send import Sender, put_options
from zwire.spark._sessions import session
from zwire.spark._worker import settle
from zwire.spark.batch import to_arrow
from zwire.spark.sources import _writers
from zwire.spark.sources._ack import Hop, check_receipts
from zwire.spark.sources._columns import Marks, check, to_put
from zwire.spark.sources._options import SESSION, Options, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from zwire.spark._send import PutOptions
    from zwire.spark.schema import RowSchema

_log = logging.getLogger("zwire.spark")

KNOWN = (
    *named("key|topic congestion priority express errors sendTimeout maxRowsPerSecond maxBytesPerSecond"),
    *named("ack ackTimeout receipts receivers idempotence idColumns queryId batchId commitMarkers"),
    *SESSION,
)

_NAMES = UUID("6f1d6f0e-3c68-4a43-9a44-6b2a3dfb5d0c")
"""Namespace in which names of jobs that are no UUIDs become UUIDs."""


@dataclass(frozen=True)
class SinkOptions:
    """Options of publishing rows, and of the confirmation before a task is done."""

    put: PutOptions
    counted: bool
    """``ack=barrier``: a hop or receivers have to confirm that nothing was lost."""
    receipts: str | None
    receivers: int
    marked: bool
    """Value of the option ``idempotence=attachment``."""
    ids: tuple[str, ...]
    query: UUID | None
    batch: int
    markers: str | None


@dataclass
class Written(WriterCommitMessage):
    """The result for the rows of a partition."""

    query: UUID
    batch: int
    partition: int
    rows: int
    """Rows published."""
    bytes: int
    """Bytes of their payload."""
    dropped: int
    """Bad rows that were skipped, and rows dropped by congestion control."""
    seconds: float
    """Seconds from the first row to the confirmation of the last."""


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a sink, and that none contradicts another."""
    options = Options("zwire", given, KNOWN)
    ack = options.choice("ack", ("none", "link", "barrier"), "link")
    marked = options.choice("idempotence", ("none", "attachment"), "none") == "attachment"
    receipts, markers = _prefix(options, "receipts"), _prefix(options, "commitMarkers")
    ids = tuple(options.listed("idColumns"))
    query, batch = options.text("queryId"), options.integer("batchId", None)
    if receipts is not None and not (ack == "barrier" and marked):
        problem = "needs ack=barrier and idempotence=attachment: receivers count identities"
        raise options.error("receipts", problem)
    if options.integer("receivers", None) is not None and receipts is None:
        raise options.error("receivers", "needs receipts")
    if ids and not marked:
        raise options.error("idColumns", "needs idempotence=attachment")
    if len(ids) > 2:
        raise options.error("idColumns", "is the number of a row, or a partition and the number there")
    if ids and receipts is not None:
        raise options.error("idColumns", "and receipts exclude each other: receivers count rows from 0 on")
    if batch is not None and query is None:
        raise options.error("batchId", "needs queryId: it is the number of a batch of that")
    seconds = options.seconds("ackTimeout", 30.0)
    try:
        put = put_options(
            options.session(),
            key=options.text("key"),
            congestion=options.choice("congestion", ("block", "block_first", "drop"), "block"),
            priority=options.integer("priority", 5, least=1, most=7),
            express=options.flag("express", default=False),
            errors=options.choice("errors", ("raise", "skip"), "raise"),
            confirm="none" if ack == "none" else "hub",
            confirm_timeout=seconds,
            send_timeout=options.seconds("sendTimeout", 120.0),
            max_rows_per_second=options.integer("maxRowsPerSecond", None, least=1),
            max_bytes_per_second=options.size("maxBytesPerSecond", None),
        )
    except ConfigError:
        raise
    except ValueError as error:
        raise options.error("key", f"is no key: {error}") from None
    return SinkOptions(
        put,
        counted=ack == "barrier",
        receipts=receipts,
        receivers=options.integer("receivers", 1, least=1),
        marked=marked,
        ids=ids,
        query=_as_uuid(query),
        batch=batch or 0,
        markers=markers,
    )


def _prefix(options: Options, name: str) -> str | None:
    from zwire.zenoh import KeyExpr

    found = options.text(name)
    if found is not None:
        try:
            KeyExpr(found)
        except ValueError as error:
            raise options.error(name, f"is no prefix of keys: {error}") from None
        if "*" in found:
            raise options.error(name, f"is published on, and {found!r} has a wildcard")
    return found


def _as_uuid(name: str | None) -> UUID | None:
    if name is None:
        return None
    try:
        return UUID(name)
    except ValueError:
        return uuid5(_NAMES, name)


def writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch."""
    options = _checked(given, schema, overwrite=overwrite)
    # Chosen once, so that it is the same in each attempt of each task.
    return BatchWriter(options, options.query or uuid4())


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of the batches of a stream."""
    options = _checked(given, schema, overwrite=overwrite)
    if options.query is not None:
        problem = "zwire: option 'queryId' is for batches: a stream has an id, and numbers"
        raise ConfigError(problem, path="queryId")
    return StreamWriter(options, _writers.row_schema(schema))


def _checked(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    options = sink_options(given)
    check(schema, key=options.put.key, ids=options.ids)
    _writers.append_only("zwire", overwrite=overwrite)
    return options


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch], query: UUID, batch: int) -> Written:
    """Publish the rows of a task, and wait for the requested confirmation."""
    if not options.marked:
        _writers.refuse_second_copies("zwire", "give idempotence=attachment, or turn it off")
    number = _writers.partition()
    marks = Marks(query, batch, number, options.ids)
    sender: Sender | None = None
    hop: Hop | None = None
    for given in batches:
        if not given.num_rows:
            continue
        if sender is None:
            sender = Sender(options.put)
            if options.counted and options.receipts is None:
                hop = Hop(sender.session, options.put.confirm_timeout)
        sent = to_put(given, options.ids)
        sender.send(marks.on(given, sent) if options.marked else sent)
    if sender is None:
        return Written(query, batch, number, 0, 0, 0, 0.0)
    summary = sender.finish()
    if hop is not None:
        hop.check(summary.rows, summary.dropped - sender.skipped)
    if options.receipts is not None:
        wanted = options.receipts, options.receivers, marks, summary.rows
        check_receipts(sender.session, *wanted, options.put.confirm_timeout)
    settle()
    return Written(query, batch, number, *summary)


def _mark(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], status: str, batch: int
) -> None:
    """Publish that a batch is complete, or aborted; wait until the next hop knows."""
    found = [message for message in messages if isinstance(message, Written)]
    if options.markers is None:
        return
    if not found:
        _log.warning("batch %d is %s, and no task says of which query: no marker", batch, status)
        return
    query = found[0].query
    said = {
        "query": query.hex,
        "batch": batch,
        "status": status,
        **{name: sum(getattr(message, name) for message in found) for name in ("rows", "bytes", "dropped")},
    }
    if not options.ids:
        said["partitions"] = {str(message.partition): message.rows for message in found}
    from zwire.zenoh import CongestionControl

    shared = session(options.put.config)
    shared.put(
        commit_key(options.markers, query),
        json.dumps(said),
        encoding="application/json",
        congestion_control=CongestionControl.BLOCK,
    )
    shared.flush(options.put.confirm_timeout)


def _mark_aborted(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    try:
        _mark(options, messages, "aborted", batch)
    except TransportError as error:
        # The reason of the abort matters more, and may be this error.
        _log.warning("batch %d is aborted, and its marker is not out: %s", batch, error)


@dataclass(eq=False, repr=False)
class BatchWriter(DataSourceArrowWriter):
    """Publishes a DataFrame."""

    options: SinkOptions
    query: UUID

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish a partition."""
        return _write(self.options, iterator, self.query, self.options.batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish that the batch is complete."""
        _mark(self.options, messages, "committed", self.options.batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish that the batch is aborted: a task has failed for good."""
        _mark_aborted(self.options, messages, self.options.batch)


@dataclass(eq=False, repr=False)
class StreamWriter(_writers.DataSourceStreamArrowWriter):
    """Publishes the batches of a stream."""

    options: SinkOptions
    columns: RowSchema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish a partition of a batch; also given as rows, as Spark 4.0 does."""
        # Only a task knows the number of its batch.
        query = _writers.local_property("sql.streaming.queryId")
        batch = _writers.local_property("streaming.sql.batchId")
        if query is None or batch is None:
            raise ConfigError("zwire: this version of Spark does not say to which batch a task belongs")
        return _write(self.options, to_arrow(iterator, self.columns), UUID(query), int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Publish that a batch is complete."""
        _mark(self.options, messages, "committed", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Publish that a batch is aborted; Spark writes it again, under its number, after a restart."""
        _mark_aborted(self.options, messages, batchId)
