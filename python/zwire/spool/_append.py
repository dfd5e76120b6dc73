"""Writing a spool by hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zwire._zwire import SpoolAppender

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from zwire._zwire import _ArrowArray

__all__ = ["Appender", "settings"]


def settings(
    *,
    table: str = "samples",
    columns: Sequence[str] | None,
    shards: int = 1,
    shard_keys: Sequence[str] | None = None,
    durability: str,
    segment_bytes: int,
    segment_seconds: float,
) -> dict[str, object]:
    """Give what the compiled module wants to know of a spool that is written."""
    return {
        "table": table,
        "columns": None if columns is None else list(columns),
        "shards": shards,
        "shard_keys": None if shard_keys is None else list(shard_keys),
        "durability": durability,
        "segment_bytes": segment_bytes,
        "segment_seconds": segment_seconds,
    }


class Appender:
    """Writes rows into a spool, without any network: for tests, imports, and sources of one's own.

    It is a context manager. Others see rows after :meth:`flush`, or when a block is full.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "samples",
        columns: Sequence[str] | None = None,
        shards: int = 1,
        durability: str = "os",
        segment_bytes: int = 256 << 20,
        segment_seconds: float = 600.0,
    ) -> None:
        """Open the spool in a folder for writing, or make one.

        Args:
            path: The folder.
            table: What rows are: ``samples``, ``zre`` or ``zre.log``.
            columns: Which of the table's columns are kept, besides those that always are; all by default.
            shards: How many shards there are. The checksum of a row's ``key`` says which one it goes to.
            durability: ``os``: others see rows when the kernel has them; ``disk``: when the disk has them.
            segment_bytes: A segment is sealed, and a new one begun, at so many bytes.
            segment_seconds: Or after so many seconds.

        Raises:
            SpoolLocked: Somebody else writes it.
            SpoolMismatch: There is a spool with other columns or shards.
        """
        wanted = settings(
            table=table,
            columns=columns,
            shards=shards,
            durability=durability,
            segment_bytes=segment_bytes,
            segment_seconds=segment_seconds,
        )
        self._appender = SpoolAppender(os.fspath(path), wanted)

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def append(
        self, row: Mapping[str, object] | None = None, *, shard: int | None = None, **columns: object
    ) -> None:
        """Append a row, as a mapping or as keywords; what is not given is null.

        ``recv_ts`` and ``timestamp`` are in microseconds since 1970; the former is now by default, and
        ``kind`` is ``put``. ``offset`` is made here.
        """
        self._appender.append(shard, {**(row or {}), **columns})

    def append_batch(self, batch: _ArrowArray, *, shard: int | None = None) -> int:
        """Append the rows of a record batch with the Arrow C interface, columns by name; returns how many."""
        return self._appender.append_batch(shard, batch)

    def append_gap(
        self, shard: int, kind: str = "gap", *, count: int | None = None, detail: str = ""
    ) -> None:
        """Append a row to the log of gaps: in front of the next row of ``shard`` something is missing.

        ``kind`` is ``gap``, ``drop``, ``reconnect``, ``epoch`` or ``duplicate``.
        """
        self._appender.append_gap(shard, kind, count, detail)

    def flush(self) -> None:
        """Write what is in no file yet, so that others see it; with ``disk`` durability, wait for it."""
        self._appender.flush()

    def seal(self) -> None:
        """End the open segments as well, so that programs that read Arrow files can read them."""
        self._appender.seal()

    def close(self) -> None:
        """Write and seal everything, and let go of the spool. A second time does nothing."""
        self._appender.close()
