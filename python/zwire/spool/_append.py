"""Writing a spool directly."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zwire._closing import Closing
from zwire._zwire import SpoolAppender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zwire._zwire import _ArrowArray


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` if the block raises, also by an interrupt."""
    try:
        yield
    except BaseException:
        undo()
        raise


class Appender(Closing):
    """Writes rows into a spool, without any network: for tests, imports, and other sources.

    A context manager. Readers see rows after :meth:`flush`, or when a block is full.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "samples",
        columns: Sequence[str] | None = None,
        shards: int = 1,
        durability: str = "os",
        compression: str = "none",
        segment_bytes: int = 256 << 20,
        segment_seconds: float = 600.0,
    ) -> None:
        """Open the spool in a folder for writing, or create one.

        Args:
            path: The folder.
            table: Kind of the rows: ``samples``, ``zre`` or ``zre.log``.
            columns: Columns of the table to keep, besides the mandatory ones; all by default.
            shards: Number of shards. The checksum of a row's ``key`` selects the shard.
            durability: ``os``: readers see rows when the kernel has them; ``disk``: when the disk has them.
            compression: Compression of the files: ``zstd`` takes least room, ``lz4`` least time. Programs of
                before this option cannot read compressed segments.
            segment_bytes: Size in bytes at which a segment is sealed, and a new one begun.
            segment_seconds: Age in seconds at which a segment is sealed likewise.

        Raises:
            SpoolLocked: Another writer has the spool open.
            SpoolMismatch: The folder has a spool with other columns or shards.
        """
        self._path = os.fspath(path)
        self._appender = SpoolAppender(
            self._path,
            {
                "table": table,
                "columns": columns,
                "shards": shards,
                "durability": durability,
                "compression": compression,
                "segment_bytes": segment_bytes,
                "segment_seconds": segment_seconds,
            },
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path!r}>"

    def append(
        self, row: Mapping[str, object] | None = None, *, shard: int | None = None, **columns: object
    ) -> None:
        """Append a row, as a mapping or as keywords; missing fields are null.

        ``recv_ts`` and ``timestamp`` are in microseconds since 1970; the former is now by default, and
        ``kind`` is ``put``. ``offset`` is assigned here.
        """
        self._appender.append(shard, {**(row or {}), **columns})

    def append_batch(self, batch: _ArrowArray, *, shard: int | None = None) -> int:
        """Append the rows of a record batch (Arrow C interface), columns by name; return their number."""
        return self._appender.append_batch(shard, batch)

    def append_gap(
        self, shard: int, kind: str = "gap", *, count: int | None = None, detail: str = ""
    ) -> None:
        """Append a row to the log of gaps: rows are missing before the next row of ``shard``.

        ``kind`` is ``gap``, ``drop``, ``reconnect``, ``epoch`` or ``duplicate``.
        """
        self._appender.append_gap(shard, kind, count, detail)

    def flush(self) -> None:
        """Write buffered rows, so that readers see them; with ``disk`` durability, wait for the disk."""
        self._appender.flush()

    def seal(self) -> None:
        """End the open segments as well, so that programs that read Arrow files can read them."""
        self._appender.seal()

    def close(self) -> None:
        """Write and seal everything, and unlock the spool. Repeated calls have no effect."""
        self._appender.close()
