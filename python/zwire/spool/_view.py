"""Reading a spool."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from zwire._zwire import SpoolRows as Rows
from zwire._zwire import SpoolView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

MICROS = 1_000_000


class Range(NamedTuple):
    """A part of a shard: offsets ``start`` to ``stop`` (exclusive), and their approximate bytes."""

    shard: int
    start: int
    stop: int
    bytes: int


def micros(when: float | datetime) -> int:
    """Return a time in microseconds since 1970."""
    seconds = when if isinstance(when, int | float) else when.timestamp()
    return round(seconds * MICROS)


class Spool:
    """A spool in a folder, for reading. It keeps no file open and pickles as its path.

    Offsets are numbers by shard. Ends are exclusive.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the metadata of the spool; see :func:`open`."""
        self.path: str = os.path.abspath(os.fspath(path))  # noqa: PTH100 - pathlib would be a third of the import.
        self._view = SpoolView(self.path)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the path, which has to exist in the other process."""
        return Spool, (self.path,)

    def __repr__(self) -> str:
        """Show the folder and the id."""
        return f"Spool({self.path!r}, id={self.id!r})"

    @property
    def id(self) -> str:
        """The permanent id of the spool: 32 hexadecimal digits."""
        return self._view.id

    @property
    def table(self) -> str:
        """Kind of the rows: ``samples``, ``zre`` or ``zre.log``."""
        return self._view.table

    @property
    def shards(self) -> list[int]:
        """The numbers of its shards."""
        return list(range(self._view.shard_count))

    @property
    def columns(self) -> list[str]:
        """The columns of its rows, in order."""
        return list(self._view.columns)

    @property
    def shard_keys(self) -> list[str] | None:
        """The key expressions of its shards; ``None`` where the checksum of a key chooses one."""
        return self._view.shard_keys

    def earliest(self) -> dict[int, int]:
        """Return the first offset available, by shard."""
        return {shard: bounds[0] for shard, bounds in enumerate(self._view.bounds()[:-1])}

    def end(self) -> dict[int, int]:
        """Return the offset behind the last row that may be read, by shard."""
        return {shard: bounds[1] for shard, bounds in enumerate(self._view.bounds()[:-1])}

    def marks(self) -> dict[int, dict[str, int]]:
        """Return the marks that the writer publishes for each shard.

        The marks are ``earliest``, ``end``, ``last_recv_ts``, ``dropped`` and ``bytes``. ``last_recv_ts`` is
        in
        microseconds since 1970, ``dropped`` counts messages that did not get into the shard.
        """
        return dict(enumerate(self._view.marks()[:-1]))

    def at(self, when: float | datetime) -> dict[int, int]:
        """Return the first offset received at ``when`` or later, by shard; the end of a shard without one.

        ``when`` is in seconds since 1970, or a datetime; one without a time zone is local time.
        """
        return self._view.at(micros(when))

    def received(self, shard: int, offset: int) -> int | None:
        """Return when a row was received, in microseconds since 1970; ``None`` for an offset without a row.

        Raises:
            OffsetOutOfRange: The row is deleted, or not written yet.
            SpoolCorrupt: The row cannot be read.
        """
        return self._view.received(shard, offset)

    def walk(
        self,
        start: Mapping[int, int],
        end: Mapping[int, int],
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> dict[int, int]:
        """Return an end between ``start`` and ``end`` that respects a limit.

        Shards share the limit by their backlog. There is always some progress, even if a single row exceeds
        ``max_bytes``.
        """
        return self._view.walk(dict(start), dict(end), max_rows, max_bytes)

    def split(self, start: Mapping[int, int], end: Mapping[int, int], parts: int) -> list[Range]:
        """Split the rows between ``start`` and ``end`` into about ``parts`` ranges of similar bytes.

        A range has one shard, so there are more ranges than ``parts`` if more shards have a backlog.
        """
        return [Range(*each) for each in self._view.split(dict(start), dict(end), parts)]

    def read(
        self,
        shard: int,
        start: int,
        stop: int,
        *,
        columns: Sequence[str] | None = None,
        max_rows: int = 32_768,
        max_bytes: int = 8 << 20,
    ) -> Rows:
        """Read the rows of a range, as an iterator of batches with the Arrow C interface.

        The same range gives the same rows in the same order, and the same batches if it was not written
        meanwhile. Only a block that has more than ``max_bytes`` makes a batch that has more.

        Raises:
            OffsetOutOfRange: Part of the range is deleted, or not written yet.
            SpoolCorrupt: While iterating: the data differ from those written.
        """
        return self._view.read(shard, start, stop, _names(columns), (max_rows, max_bytes))

    def gaps(self, start: int = 0, stop: int | None = None) -> Rows:
        """Read the log of gaps, as an iterator of batches like :meth:`read`.

        ``start`` and ``stop`` are offsets of this log; ``stop`` is :meth:`gaps_end` by default, and a deleted
        ``start`` counts as the first offset available.
        """
        earliest, end = self._view.bounds()[-1]
        stop = end if stop is None else stop
        return self._view.read(None, max(start, earliest), stop, None, (32_768, 8 << 20))

    def gaps_start(self) -> int:
        """Return the first offset available in :meth:`gaps`."""
        return self._view.bounds()[-1][0]

    def gaps_end(self) -> int:
        """Return the offset behind the last row of :meth:`gaps`."""
        return self._view.bounds()[-1][1]

    def commit(self, consumer: str, offsets: Mapping[int, int]) -> None:
        """Record that a consumer has read everything before ``offsets``, so that it may be deleted.

        ``consumer`` is a name of up to 100 letters, digits, ``-``, ``_`` and ``.``.
        """
        self._view.commit(consumer, dict(offsets), round(time.time() * MICROS))

    def consumers(self) -> dict[str, dict[int, int]]:
        """Return the committed offsets of each consumer."""
        return {name: offsets for name, (offsets, _) in self.commits().items()}

    def commits(self) -> dict[str, tuple[dict[int, int], int]]:
        """Return offsets and time of the last commit of each consumer, in microseconds since 1970."""
        return self._view.consumers()


def _names(columns: Sequence[str] | None) -> list[str] | None:
    if isinstance(columns, str):
        raise TypeError("columns is a list of names")
    return None if columns is None else list(columns)


def open(path: str | os.PathLike[str]) -> Spool:
    """Open the spool in a folder for reading. It is neither locked nor changed.

    Raises:
        SpoolError: The folder has no spool, or it cannot be read.
    """
    return Spool(path)
