"""Functions for DataFrames, classic and Connect: Arrow in, Arrow out, without Python objects per row."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Unpack

from zwire._lazy import pa
from zwire.capture import Frame
from zwire.spark import schema
from zwire.spark._ask import GetOptions, Question, ask, get_options
from zwire.spark._checked import added, check_kind, dtypes
from zwire.spark._read import Capture, DecodeOptions, decode_options, read, read_frames
from zwire.spark._send import PutOptions, check_columns, put_options, send
from zwire.spark._tell import TellOptions, check_told, tell, tell_options, told_rows
from zwire.spark._types import f
from zwire.spark._worker import task
from zwire.spark.batch import BYTES, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from zwire.spark._ask import GetKeywords, ReplyRow
    from zwire.spark._nodes import IntoNodeConfig
    from zwire.spark._read import DecodeKeywords
    from zwire.spark._send import PutKeywords
    from zwire.spark._settings import IntoConfig
    from zwire.spark._tell import TellKeywords

__all__ = ["captures", "decode", "get", "put", "shout", "whisper"]


@dataclass(frozen=True)
class _Put:
    options: PutOptions

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        summary = send(self.options, batches)
        yield pa.RecordBatch.from_pylist([summary._asdict()], schema=schema.SUMMARY.arrow())


def put(df: DataFrame, config: IntoConfig, **options: Unpack[PutKeywords]) -> DataFrame:
    """Publish the rows of a DataFrame; return a row of ``schema.SUMMARY`` for each partition.

    Columns are matched by name: those of ``schema.PUT``, of which ``key`` and ``payload`` are mandatory. A
    null payload is a deletion. Like everything in Spark this is lazy: nothing is sent before an action such
    as ``collect()``, and each action sends again.

    A row is sent when there is room for it, and waits for room otherwise. The summary of a partition comes
    when the hub has received every row. A task that fails is started again by Spark and sends its partition
    from the beginning, so rows arrive at least once, some of them twice; give rows a time stamp or number of
    their own where that matters.

    Args:
        df: The rows to publish.
        config: The session, see :func:`zwire.spark.session`. The longest wait for a full queue is its key
            ``transport/link/tx/queue/congestion_control/block/wait_before_close`` (5 s without progress).
        **options: ``key``: for all rows, instead of a column. ``congestion``: ``block`` (default),
            ``block_first`` or ``drop``, the default of rows; so are ``priority`` (5) and ``express``
            (False). ``errors``: ``raise`` (default) ends the task at the first bad row and names row, key and
            reason; ``skip`` logs it to ``zwire.spark`` and counts it as dropped. ``confirm``: ``hub``
            (default) waits until the hub has everything, at most ``confirm_timeout`` (30) seconds; ``none``
            does not. ``send_timeout`` (120): longest wait of a record batch for room, in seconds.
            ``max_rows_per_second``, ``max_bytes_per_second`` (of payload): limits of each task.

    Raises:
        ValueError: A column or an option is wrong. Rows are checked in the tasks.
    """
    made = put_options(config, **options)
    kinds = dtypes(df)
    check_columns([name for name, _ in kinds], key=made.key)
    # Cast here, since type errors of Spark are hard to read: an integer literal is an int, not a tinyint.
    wanted = dict(schema.PUT.columns)
    columns = []
    for given, kind in kinds:
        name = schema.PUT.present(given)
        if wanted[name] == "binary" and kind not in ("string", "binary"):
            raise ValueError(f"column {name!r} must be string or binary, not {kind}")
        fits = wanted[name] in ("binary", kind)
        column = f.col(given) if fits else f.col(given).cast(wanted[name])
        columns.append(column if given == name else column.alias(name))
    return df.select(columns).mapInArrow(_Put(made), schema.SUMMARY.ddl)


@dataclass(frozen=True)
class _Get:
    options: GetOptions
    selector: str
    payload: str | None
    left: bool
    prefix: str

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self._join(batch)

    def _join(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        selectors = batch.column(self.selector).to_pylist()
        payloads = batch.column(self.payload).to_pylist() if self.payload else [None] * len(selectors)
        asked: list[int] = []
        replies: list[ReplyRow | None] = []
        size = 0
        for number, rows in enumerate(ask(self.options, map(Question, selectors, payloads))):
            found: list[ReplyRow | None] = list(rows)
            if not found and self.left:
                found = [None]
            for reply in found:
                asked.append(number)
                replies.append(reply)
                size += len(reply.payload) if reply is not None and reply.payload is not None else 0
                if len(replies) >= ROWS or size >= BYTES:
                    yield self._joined(batch, asked, replies)
                    asked, replies, size = [], [], 0
        if replies:
            yield self._joined(batch, asked, replies)

    def _joined(
        self, batch: pa.RecordBatch, asked: list[int], replies: list[ReplyRow | None]
    ) -> pa.RecordBatch:
        wanted = schema.REPLY.arrow()
        nothing = (None,) * len(wanted)
        cells = zip(*(nothing if reply is None else reply for reply in replies), strict=True)
        columns = [pa.array(column, field.type) for column, field in zip(cells, wanted, strict=True)]
        left = batch.take(pa.array(asked, pa.int64()))
        fields = [field.with_name(self.prefix + field.name) for field in wanted]
        wider = pa.schema([*batch.schema, *fields])
        return pa.RecordBatch.from_arrays([*left.columns, *columns], schema=wider)


def get(
    df: DataFrame,
    selector_column: str,
    config: IntoConfig,
    *,
    payload_column: str | None = None,
    how: Literal["left", "inner"] = "left",
    prefix: str = "",
    **options: Unpack[GetKeywords],
) -> DataFrame:
    """Query the selector of each row, and join the replies: the columns of the row, then ``schema.REPLY``.

    A row with several replies comes out several times. Lazy like all of Spark; each action queries again, and
    so does a task that is started again.

    Args:
        df: The rows with selectors.
        selector_column: Column with the selector, such as ``robot/1/log?from=10``.
        config: The session, see :func:`zwire.spark.session`.
        payload_column: Column with the payload of the query.
        how: ``left`` keeps rows without a reply, with nulls; ``inner`` leaves them out.
        prefix: Prefix of the names of the columns of replies, where they would collide with those of the
            row.
        **options: ``timeout`` of a query (10 s), ``target`` (``best_matching``, ``all``, ``all_complete``),
            ``consolidation`` (``auto``, ``none``, ``monotonic``, ``latest``), ``in_flight``: queries under
            way at once in a task (32), ``budget``: most replies of a query (no limit), ``errors``: ``rows``
            (default) or ``raise``, which ends the task at the first error reply, timeout or lost link.

    Raises:
        ValueError: A column or an option is wrong.
    """
    made = get_options(config, **options)
    if how not in ("left", "inner"):
        raise ValueError(f"how must be left or inner, not {how!r}")
    kinds = dict(dtypes(df))
    check_kind(kinds, selector_column, "string")
    if payload_column is not None:
        check_kind(kinds, payload_column, "string", "binary")
    columns = added(df, prefix, schema.REPLY.spark(), "replies")
    return df.mapInArrow(_Get(made, selector_column, payload_column, how == "left", prefix), columns)


@dataclass(frozen=True)
class _Decode:
    options: DecodeOptions
    column: str
    name: str | None
    columns: tuple[str, ...]

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark converts each column that it gets, so pass only those asked for.
        return (batch.select(self.columns) for batch in read(self.options, self._captures(batches)))

    def _captures(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Capture]:
        for batch in batches:
            column = batch.column(self.column)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                for path in column:
                    yield Capture(path.as_py(), None)
                continue
            names = batch.column(self.name).to_pylist() if self.name else [None] * len(column)
            for name, content in zip(names, column, strict=True):
                # A view: data from Spark is large and is not copied again. A null is an empty file.
                yield Capture(name, memoryview(content.as_buffer()) if content.is_valid else b"")


@dataclass(frozen=True)
class _DecodeFrames:
    options: DecodeOptions
    column: str
    given: tuple[str, ...]
    columns: tuple[str, ...]

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(self.columns) for batch in read_frames(self.options, self._frames(batches)))

    def _frames(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Frame]:
        for batch in batches:
            data = (memoryview(cell.as_buffer()) if cell.is_valid else None for cell in batch[self.column])
            nothing = [None] * batch.num_rows
            src, dst = (batch[name].to_pylist() if name in self.given else nothing for name in ("src", "dst"))
            ts = _seconds(batch["ts"]) if "ts" in self.given else nothing
            yield from map(Frame, data, src, dst, ts)


_FRAME_KINDS = {"src": "string", "dst": "string", "ts": "timestamp"}


def _seconds(column: pa.Array) -> list[float | None]:
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if cell is None else cell / 1e6 for cell in micros]


def decode(
    df: DataFrame, column: str, *, columns: Sequence[str] | None = None, **options: Unpack[DecodeKeywords]
) -> DataFrame:
    """Decode the captures in a column: a row of ``schema.DECODE`` for each message in them.

    With a column of paths (see :func:`captures`) each file is streamed where its task runs and may be larger
    than memory. With a column of contents, such as ``content`` of ``spark.read.format("binaryFile")``, files
    come from wherever Spark can read; it then holds each one whole, several times over, and takes none above
    2 GiB. Rows are in the order of each file. One file is decoded by one task, since a session can be decoded
    only from its beginning.

    With ``frames`` a row is not a capture but bare bytes of Zenoh, as :func:`zwire.capture.decode_frames`
    takes them. The two directions of a connection have to be in one partition and in order, such as after
    ``df.repartition("session").sortWithinPartitions("ts")``.

    Args:
        df: Captures (pcap or pcapng, each also in gzip), one in a row; or frames.
        column: Column with the path, or with the content; for content, an optional column ``path`` gives the
            name in ``file``. For frames, the bytes; sender, receiver and time are in the optional columns
            ``src``, ``dst`` (strings) and ``ts`` (timestamp).
        columns: Columns of ``schema.DECODE`` to return, by default all. Spark would convert even columns that
            a later ``select`` drops.
        **options: ``ports``: TCP and UDP ports on which everything is Zenoh. ``keys``: secret CURVE keys, see
            :func:`zwire.capture.decode`; they travel to the workers with the function. ``errors``: ``rows``
            (default) makes a file that cannot be read, or is no capture, a row with ``message`` ``error``;
            ``raise`` ends the task there. Damage inside of a capture is always a row. ``frames``: ``stream``
            for pieces of streams, with lengths in front of batches, ``batch`` for a batch or datagram in each
            row. ``max_rows`` (32,768) and ``max_bytes`` (8 MiB) of a batch.

    Raises:
        ValueError: The column or an option is wrong.
    """
    made = decode_options(**options)
    kinds = dict(dtypes(df))
    check_kind(kinds, column, "string", "binary")
    rows = schema.DECODE if columns is None else schema.DECODE.select(columns)
    if made.frames is not None:
        check_kind(kinds, column, "binary", of=" of frames")
        given = tuple(each for each in _FRAME_KINDS if each in kinds and each != column)
        for each in given:
            check_kind(kinds, each, _FRAME_KINDS[each], of=" of frames")
        function = _DecodeFrames(made, column, given, rows.names)
        return df.select([column, *given]).mapInArrow(function, rows.ddl)
    name = "path" if kinds[column] == "binary" and kinds.get("path") == "string" else None
    wanted = [column] if name is None else [column, name]
    return df.select(wanted).mapInArrow(_Decode(made, column, name, rows.names), rows.ddl)


def captures(
    spark: SparkSession,
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    partitions: int | None = None,
) -> DataFrame:
    """List captures for :func:`decode`, spread over partitions: columns ``path`` and ``length`` in bytes.

    No file is opened here; ``decode(captures(spark, "/data/*.pcap.gz"), "path")`` streams them. Workers have
    to see the files under the same paths.

    Args:
        spark: The session, classic or Connect.
        paths: Files, folders or globs, as Spark takes them.
        partitions: Number of partitions; by default as Spark packs files: up to 128 MiB in one, and enough
            for all cores.

    Raises:
        AnalysisException: A path does not exist.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = spark.read.format("binaryFile").load([os.fspath(path) for path in listed])
    # The content column is not selected, so Spark does not read it.
    found = files.select("path", "length")
    return found if partitions is None else found.repartitionByRange(partitions, "path")


@dataclass(frozen=True)
class _Tell:
    options: TellOptions
    to: str | None

    @task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        summary = tell(self.options, told_rows(batches, self.to))
        yield pa.RecordBatch.from_pylist([summary._asdict()], schema=schema.TOLD.arrow())


def shout(
    df: DataFrame, config: IntoNodeConfig, *, group: str | None = None, **options: Unpack[TellKeywords]
) -> DataFrame:
    """Shout the rows of a DataFrame to groups of a ZRE network; return a row of ``schema.TOLD`` a partition.

    Columns go by name: ``content`` (string, binary, or an array of frames), and ``group`` unless it is given
    for all rows. Lazy, as everything in Spark: each action sends again.

    Each worker process is one node of the network, which others see enter at its first row and leave some
    time after its last one. Its messages are queued for each member of the group and go out while the task
    goes on; peers confirm nothing in ZRE, so a summary says what was ``queued``, not what has
    arrived. A task that fails is started again by Spark with its partition from the beginning, possibly in
    another process, which is another node: the rows queued by the first attempt arrive twice, from two peers.

    Args:
        df: The rows to shout.
        config: A :class:`zwire.zre.Config`, or a mapping of its fields. Without beacons the nodes need
            ``peers`` or ``gossip_connect``. ``uuid`` is for one node and refused.
        group: Group of all rows, instead of the column.
        **options: ``peers`` (1): members a group must have before its first row is sent, within
            ``wait`` (10) seconds; 0 does not wait. ``patience`` (10): how many seconds a row waits for room
            where the queue of a peer is full (``high_water_mark``, ``high_water_bytes``); beyond that the
            peer loses the row and its session. ``rate``: rows per second and task at most. ``errors``:
            ``raise`` (default) ends the task at the first row that is invalid or that a peer did not get;
            ``skip`` goes on, and the summary counts.

    Raises:
        ValueError: A column or an option is wrong. Rows are checked in the tasks.
        ConfigError: The configuration is wrong, or not for workers.
    """
    made = tell_options(config, group, shout=True, **options)
    return _told(df, made, "group", given=group is not None)


def whisper(
    df: DataFrame, config: IntoNodeConfig, *, peer: str | None = None, **options: Unpack[TellKeywords]
) -> DataFrame:
    """Whisper the rows of a DataFrame to peers of a ZRE network; return a row of ``schema.TOLD`` a partition.

    As :func:`shout`, with the UUID of a peer in the column ``peer`` unless it is given for all rows. A task
    waits up to ``wait`` seconds from its first row on for peers that are not known yet.

    Args:
        df: The rows to whisper.
        config: A :class:`zwire.zre.Config`, or a mapping of its fields.
        peer: UUID of the peer for all rows, instead of the column.
        **options: See :func:`shout`; ``peers`` has no effect here.

    Raises:
        ValueError: A column or an option is wrong. Rows are checked in the tasks.
        ConfigError: The configuration is wrong, or not for workers.
    """
    made = tell_options(config, peer, shout=False, **options)
    return _told(df, made, "peer", given=peer is not None)


def _told(df: DataFrame, options: TellOptions, name: str, *, given: bool) -> DataFrame:
    check_told(dict(dtypes(df)), name, given=given)
    wanted = ["content"] if given else [name, "content"]
    return df.select(wanted).mapInArrow(_Tell(options, None if given else name), schema.TOLD.ddl)
