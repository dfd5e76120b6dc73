"""Functions for ``rdd.mapPartitions``: make one, and pass it to Spark.

::

    summary = rdd.mapPartitions(put_partition("tcp/hub:7447")).collect()
    replies = selectors.mapPartitions(get_partition("tcp/hub:7447"))
    messages = paths.mapPartitions(decode_partition())
    told = rdd.mapPartitions(shout_partition(zwire.zre.Config(name="job"), group="CHAT"))

The returned functions pickle, and run in the workers with the session that :func:`zwire.spark.session`
returns there. Where Arrow can be used (:mod:`zwire.spark.arrow`) it is five to ten times faster than rows
are; between the two are partitions of batches (:func:`zwire.spark.batches`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from zwire.capture import Frame
from zwire.spark import schema
from zwire.spark._ask import GetOptions, Question, ReplyRow, ask, get_options
from zwire.spark._read import Capture, DecodedRow, DecodeOptions, decode_options, read, read_frames
from zwire.spark._send import PutOptions, PutSummary, put_options, send
from zwire.spark._tell import TellOptions, ToldSummary, tell, tell_options, told
from zwire.spark._worker import task
from zwire.spark.batch import to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from zwire.capture import IntoFrame, Source
    from zwire.spark._ask import GetKeywords
    from zwire.spark._nodes import IntoNodeConfig
    from zwire.spark._read import DecodeKeywords
    from zwire.spark._send import PutKeywords
    from zwire.spark._settings import IntoConfig
    from zwire.spark._tell import TellKeywords
    from zwire.spark.batch import Batch, Row
    from zwire.zenoh import KeyExpr, Selector

    Asked: TypeAlias = str | KeyExpr | Selector | tuple[Any, ...] | dict[str, Any] | None
    Captured: TypeAlias = Source | tuple[str, Buffer]
    Framed: TypeAlias = IntoFrame | dict[str, Any]

__all__ = [
    "decode_partition",
    "get_partition",
    "put_partition",
    "shout_partition",
    "whisper_partition",
]


@dataclass(frozen=True)
class _PutPartition:
    options: PutOptions

    @task
    def __call__(self, partition: Iterable[Row | Batch]) -> Iterator[PutSummary]:
        # A generator, so that the work starts only when Spark reads the result.
        yield send(self.options, to_arrow(partition, schema.PUT))


def put_partition(config: IntoConfig, **options: Unpack[PutKeywords]) -> _PutPartition:
    """Publish the rows of a partition.

    Rows are tuples ``(key, payload[, encoding[, attachment[, kind[, priority[, congestion[, express]]]]]])``,
    dicts with these names, or batches. A null payload is a deletion. Each partition gives one
    :class:`PutSummary`.

    A task that fails is started again by Spark and sends its partition from the beginning, in another
    process: the rows of the first attempt arrive twice. Every row arrives at least once, if the job
    succeeds.

    Args:
        config: The session, see :func:`zwire.spark.session`.
        **options: See :func:`zwire.spark.put`.

    Raises:
        RowError: In the task, at the first row that cannot be sent; names row, key and reason.
        LinkClosed: In the task, when the link was lost, and rows with it.
        TimedOut: In the task, when the hub does not confirm in time.
    """
    return _PutPartition(put_options(config, **options))


@dataclass(frozen=True)
class _GetPartition:
    options: GetOptions

    @task
    def __call__(self, partition: Iterable[Asked]) -> Iterator[ReplyRow]:
        for replies in ask(self.options, map(_question, partition)):
            yield from replies


def _question(asked: Asked) -> Question:
    if isinstance(asked, dict):
        return Question(**asked)
    if isinstance(asked, tuple):
        return Question(*asked)
    return Question(None if asked is None else str(asked))


def get_partition(config: IntoConfig, **options: Unpack[GetKeywords]) -> _GetPartition:
    """Query the selectors of a partition, and yield a :class:`ReplyRow` for each reply.

    Elements are selectors, or tuples ``(selector, payload)``. Replies come in the order of the selectors; a
    selector without a reply gives no row. A task that is started again queries again.

    Args:
        config: The session, see :func:`zwire.spark.session`.
        **options: See :func:`zwire.spark.get`.
    """
    return _GetPartition(get_options(config, **options))


@dataclass(frozen=True)
class _DecodePartition:
    options: DecodeOptions

    @task
    def __call__(self, partition: Iterable[Captured | Framed]) -> Iterator[DecodedRow]:
        if self.options.frames is None:
            batches = read(self.options, map(_capture, cast("Iterable[Captured]", partition)))
        else:
            batches = read_frames(self.options, map(_frame, cast("Iterable[Framed]", partition)))
        for batch in batches:
            cells = [column.to_pylist() for column in batch.columns]
            cells[_HEADERS] = [None if pairs is None else dict(pairs) for pairs in cells[_HEADERS]]
            yield from map(DecodedRow._make, zip(*cells, strict=True))


_HEADERS = DecodedRow._fields.index("headers")


def _capture(captured: Captured) -> Capture:
    if isinstance(captured, tuple):
        name, content = captured
        return Capture(name, content)
    if isinstance(captured, str | os.PathLike):
        return Capture(os.fspath(captured), None)
    return Capture(None, captured)


def _frame(framed: Framed) -> IntoFrame:
    return Frame(**framed) if isinstance(framed, dict) else framed


def decode_partition(**options: Unpack[DecodeKeywords]) -> _DecodePartition:
    """Decode the captures of a partition, and yield a :class:`DecodedRow` for each message in them.

    Elements are paths on the worker, the bytes of a capture, or tuples ``(path, bytes)`` as
    ``SparkContext.binaryFiles`` gives them. Paths are streamed, so such a file may be larger than memory.
    Each row is made and pickled by Python: where speed matters, use :func:`zwire.spark.decode`.

    With ``frames="stream"`` or ``frames="batch"`` elements are bare bytes of Zenoh instead: ``bytes``, tuples
    ``(data, src, dst, ts)`` or dicts with these names, as :func:`zwire.capture.decode_frames` takes them.
    Both directions of a connection have to be in one partition, in order.

    Args:
        **options: See :func:`zwire.spark.decode`.
    """
    options.setdefault("max_rows", _ROWS)
    return _DecodePartition(decode_options(**options))


_ROWS = 4096
"""Most rows held as Python objects at once."""


@dataclass(frozen=True)
class _TellPartition:
    options: TellOptions

    @task
    def __call__(self, partition: Iterable[Any]) -> Iterator[ToldSummary]:
        name = "group" if self.options.shout else "peer"
        yield tell(self.options, (told(row, name) for row in partition))


def shout_partition(
    config: IntoNodeConfig, group: str | None = None, **options: Unpack[TellKeywords]
) -> _TellPartition:
    """Shout the rows of a partition to a group of a ZRE network; yield one :class:`ToldSummary`.

    Rows are contents (a text, bytes, or a list of frames), tuples ``(group, content)``, or dicts and rows of
    Spark with these names.

    Each worker process is one node, started at its first row and used by later tasks; see
    :func:`zwire.spark.shout` for the meaning of "sent", and for tasks that are started again.

    Args:
        config: A :class:`zwire.zre.Config`, or a mapping of its fields.
        group: Group of rows without one.
        **options: See :func:`zwire.spark.shout`.

    Raises:
        TimedOut: In the task: fewer than ``peers`` nodes are in the group after ``wait`` seconds.
        RowError: In the task, at the first row that a peer did not get; names row, group and reason.
    """
    return _TellPartition(tell_options(config, group, shout=True, **options))


def whisper_partition(
    config: IntoNodeConfig, peer: str | None = None, **options: Unpack[TellKeywords]
) -> _TellPartition:
    """Whisper the rows of a partition to peers of a ZRE network; yield one :class:`ToldSummary`.

    As :func:`shout_partition`; rows are contents, or tuples ``(peer, content)`` with the UUID of the peer.

    Args:
        config: A :class:`zwire.zre.Config`, or a mapping of its fields.
        peer: Peer of rows without one.
        **options: See :func:`zwire.spark.whisper`.

    Raises:
        RowError: In the task, at the first row that its peer did not get; names row, peer and reason.
    """
    return _TellPartition(tell_options(config, peer, shout=False, **options))
