"""Sends the rows of one partition to a group, or to peers, of a ZRE network."""

# ruff: noqa: RUF009 - a bound only adds metadata to its field.

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from zwire.errors import RowError, TimedOut, UnknownPeer
from zwire.spark._checked import Checked, above_zero, check_kind, choice, not_negative
from zwire.spark._nodes import lend, node_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Buffer

    from zwire.spark._nodes import IntoNodeConfig
    from zwire.zre import Delivery, Node

    Content: TypeAlias = str | Buffer | Sequence[str | Buffer]

OnBadRow: TypeAlias = Literal["raise", "skip"]

_log = logging.getLogger("zwire.spark")


class Told(NamedTuple):
    """A row: its destination (a group, or the UUID of a peer), and its content."""

    to: str | None
    content: Content | None


class ToldSummary(NamedTuple):
    """The result for the rows of a partition: a row of ``schema.TOLD``.

    ::

        local = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}
        with zre.Node("listener", local) as node:
            whisper = spark.whisper_partition({**local, "peers": [node.endpoint]})
            (summary,) = whisper(iter([(node.uuid, b"for you")]))
        print(summary.rows, summary.queued, summary.skipped)  # 1 1 0
    """

    rows: int
    """Rows taken by the queue of at least one peer."""
    bytes: int
    """Bytes of their content, once for each row."""
    queued: int
    """Copies taken by the queues of peers."""
    full: int
    """Copies for which a peer had too many messages waiting."""
    not_responding: int
    """Copies for a peer with a failed connection."""
    refused: int
    """Copies of several frames for a peer that takes one."""
    skipped: int
    """Rows without a destination or without content."""
    seconds: float
    """Seconds from the first row to the last."""


class TellKeywords(TypedDict, total=False):
    """Options of a shout or whisper by keyword."""

    peers: int
    wait: float
    patience: float
    rate: float | None
    errors: OnBadRow


@dataclass(frozen=True, kw_only=True)
class TellOptions(Checked):
    """Options of sending to groups or peers."""

    config: str = field(repr=False)
    to: str | None
    shout: bool
    peers: int = not_negative(1, int)
    wait: float = above_zero(10.0)
    patience: float = not_negative(10.0, float)
    rate: float | None = above_zero(None, None)
    errors: OnBadRow = choice("raise", "raise", "skip")


def tell_options(
    config: IntoNodeConfig, to: str | None, *, shout: bool, **options: Unpack[TellKeywords]
) -> TellOptions:
    """Check the options before the job starts, not in the first task."""
    return TellOptions(config=node_settings(config), to=to, shout=shout, **options)


def tell(options: TellOptions, rows: Iterable[Told]) -> ToldSummary:
    """Send a partition. For an empty one no node is started."""
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return ToldSummary(0, 0, 0, 0, 0, 0, 0, 0.0)
    with lend(options.config) as node:
        teller = _Teller(options, node)
        teller.send(first)
        for row in iterator:
            teller.send(row)
        return teller.summary()


class _Teller:
    def __init__(self, options: TellOptions, node: Node) -> None:
        self.options = options
        self.node = node
        self.number = self.rows = self.bytes = self.skipped = 0
        self.copies: dict[str, int] = dict.fromkeys(("queued", "full", "not_responding", "refused"), 0)
        self.awaited: set[str] = set()
        self.start = time.monotonic()

    def send(self, row: Told) -> None:
        """Send a row; the first one to a group or peer waits for it to appear."""
        if self.options.rate is not None:
            time.sleep(max(0.0, self.start + self.number / self.options.rate - time.monotonic()))
        to = self.options.to if row.to is None else row.to
        try:
            outcomes = self._say(to, row.content)
        except RowError as error:
            if self.options.errors == "raise":
                raise
            _log.warning("skipped %s", error)
            outcomes = {}
        self.number += 1
        for delivery in outcomes.values():
            self.copies[delivery] += 1
        if "queued" in outcomes.values():
            self.rows += 1
            self.bytes += _size(row.content)
        else:
            self.skipped += 1
        lost = next(((peer, found) for peer, found in outcomes.items() if found != "queued"), None)
        if lost is not None and self.options.errors == "raise":
            self.number -= 1
            raise self._bad(to, _REASONS[lost[1]].format(peer=lost[0]))

    def _say(self, to: str | None, content: Content | None) -> dict[str, Delivery]:
        if to is None:
            raise self._bad(to, "it has no group" if self.options.shout else "it has no peer")
        if content is None:
            raise self._bad(to, "its content is null")
        try:
            if self.options.shout:
                if to not in self.awaited:
                    self.awaited.add(to)
                    self.node.wait_for_peers(self.options.peers, self.options.wait, group=to)
                return self.node.shout(to, content, patience=self.options.patience).peers
            return {to: self._whisper(to, content)}
        except TimedOut:
            raise
        except UnknownPeer:
            raise self._bad(to, "the peer is not there") from None
        except ValueError as error:
            raise self._bad(to, str(error)) from None

    def _whisper(self, to: str, content: Content) -> Delivery:
        """Send to a peer; the first time wait for it, within one time limit for all peers."""
        while True:
            try:
                return self.node.whisper(to, content, patience=self.options.patience)
            except UnknownPeer:
                if to in self.awaited or time.monotonic() - self.start >= self.options.wait:
                    self.awaited.add(to)
                    raise
                time.sleep(_POLL)

    def _bad(self, to: str | None, reason: str) -> RowError:
        shown = "" if to is None else f" for {to!r}"
        number = self.number
        return RowError(f"row {number} of the partition{shown}: {reason}", row=number, key=to, reason=reason)

    def summary(self) -> ToldSummary:
        """Return the summary."""
        seconds = time.monotonic() - self.start
        return ToldSummary(self.rows, self.bytes, **self.copies, skipped=self.skipped, seconds=seconds)


_POLL = 0.02
"""Seconds between two checks whether a peer is known; a HELLO takes about one."""

_REASONS = {
    "full": "too many messages wait for peer {peer}, and it takes none: raise patience, or give a rate",
    "not_responding": "the connection to peer {peer} has failed",
    "refused": "peer {peer} takes one frame per message",
}


def _size(content: Content | None) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content.encode())
    if isinstance(content, list | tuple):
        return sum(map(_size, content))
    return memoryview(content).nbytes  # type: ignore[arg-type]  # a buffer, all else is above


def told(row: Any, name: str) -> Told:  # noqa: ANN401 - what partitions hold
    """Return an element of a partition as a row; ``name`` is ``group`` or ``peer``."""
    if hasattr(row, "asDict"):
        row = row.asDict()
    if isinstance(row, dict):
        unknown = row.keys() - {name, "content"}
        if unknown:
            raise ValueError(f"a row has {name!r} and 'content', not {min(unknown)!r}")
        return Told(row.get(name), row.get("content"))
    if isinstance(row, tuple):
        if len(row) != 2:
            raise ValueError(f"a row is ({name}, content), not {len(row)} fields")
        return Told(*row)
    return Told(None, row)


def told_rows(batches: Iterable[pa.RecordBatch], to: str | None) -> Iterator[Told]:
    """Yield the rows of record batches: ``content``, and the destination from the column ``to``, if named."""
    for batch in batches:
        whom = batch.column(to).to_pylist() if to else [None] * batch.num_rows
        yield from map(Told, whom, batch.column("content").to_pylist())


def check_told(kinds: Mapping[str, str], name: str, *, given: bool) -> None:
    """Refuse columns that cannot be sent; ``name`` is ``group`` or ``peer``, unless all rows have one."""
    for column in ("content",) if given else (name, "content"):
        if column not in kinds:
            raise ValueError(f"there is no column {column!r}")
    kind = kinds["content"]
    if kind not in ("string", "binary", "array<string>", "array<binary>"):
        raise ValueError(f"column 'content' must be string, binary or an array of these, not {kind}")
    if not given:
        check_kind(kinds, name, "string")
