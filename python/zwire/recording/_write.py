"""Writing of batches of samples into files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire._lazy import pa, pq
from zwire._rows import payload_bytes
from zwire.columns import SAMPLE
from zwire.recording._files import by_name
from zwire.recording._mcap import McapWriter
from zwire.recording._rows import arrow, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from os import PathLike

    from zwire.recording._mcap import McapSchema

WRITTEN = ("parquet", "arrow", "mcap")

_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20
"""Limits of a row group of Parquet; up to so much is held in memory until it is written."""

NOT_IN_MCAP = ("attachment", "shard", "offset")


class Written(NamedTuple):
    """The result of :func:`write`."""

    rows: int
    bytes: int
    """Bytes of payload written."""
    lost: dict[str, int]
    """Columns without a place in the format, and the number of rows with a value there."""


def write(
    batches: Iterable[Any],
    path: str | PathLike[str],
    format: str | None = None,
    *,
    columns: Iterable[str] | None = None,
    schemas: Mapping[str, McapSchema] | None = None,
    compress: bool = True,
) -> Written:
    """Write a recording.

    An MCAP has a channel for each key, with the key as its topic, and one more for each encoding, sender and
    quality of service of a key; those are metadata of the channel, so that :func:`read` restores them.
    Fields that differ from message to message and are no time cannot be stored: ``attachment``, and
    ``shard`` and ``offset``. Of ``hlc`` it keeps nanoseconds, of ``source_sn`` 32 bits, and ``recv_ts`` is
    never null: ``timestamp`` takes its place.

    Args:
        batches: Batches with the Arrow C interface and the columns that :func:`conform` accepts.
        path: The file; an existing one is replaced.
        format: ``parquet``, ``arrow`` (a file of Arrow IPC) or ``mcap``; by the name if left out.
        columns: Columns of ``zwire.columns.SAMPLE`` to write; all if left out. MCAP has all.
        schemas: For MCAP: definitions of the schemas named in encodings. Without, only the name is written.
        compress: Whether to compress by zstd.

    Returns:
        The counts of what was written. If ``batches`` raises, the file is complete and holds all before.

    Raises:
        RecordingError: A batch has no key, or a row no place in an MCAP: it has no time, or the file 65,535
            channels.
        ImportError: pyarrow or mcap are missing (``zwire[arrow]``, ``zwire[record]``).
        ValueError: A column or format is unknown.
    """
    form = format or by_name(Path(path))
    if form not in WRITTEN:
        raise ValueError(f"format must be one of {', '.join(WRITTEN)}, not {format or Path(path).name!r}")
    if columns is not None and form == "mcap":
        raise ValueError("columns cannot be chosen: MCAP has all that it has a place for")
    arrow()
    rows = SAMPLE if columns is None else SAMPLE.select(columns)
    opened = _OPEN[form](path, schemas if form == "mcap" else rows.arrow(), compress)
    count = size = 0
    lost: dict[str, int] = {}
    with opened as put:
        for given in batches:
            batch = conform(given, columns=rows.names)
            put(batch)
            count += batch.num_rows
            size += payload_bytes(batch)
            for name in NOT_IN_MCAP if form == "mcap" else ():
                column = batch.column(name)
                if len(column) > column.null_count:
                    lost[name] = lost.get(name, 0) + len(column) - column.null_count
    return Written(count, size, lost)


@contextmanager
def _parquet(path: Any, rows: pa.Schema, compress: bool) -> Iterator[Callable[[Any], Any]]:  # noqa: ANN401
    with pq.ParquetWriter(path, rows, compression="zstd" if compress else "none") as writer:
        group = Group(writer)
        try:
            yield group.add
        finally:
            group.write()


class Group:
    """Batches collected for a row group of Parquet: each has statistics and pages of every column."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self.write()

    def write(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=self._rows)
        self._batches, self._rows, self._bytes = [], 0, 0


@contextmanager
def _arrow(path: Any, rows: pa.Schema, compress: bool) -> Iterator[Callable[[Any], Any]]:  # noqa: ANN401
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compress else None)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows, options=options) as writer:
        yield writer.write_batch


@contextmanager
def _mcap(path: Any, schemas: Any, compress: bool) -> Iterator[Callable[[Any], Any]]:  # noqa: ANN401
    with Path(path).open("wb") as file:
        writer = McapWriter(file, schemas, compress=compress)
        try:
            yield writer.write
        finally:
            writer.close()


_OPEN = {"parquet": _parquet, "arrow": _arrow, "mcap": _mcap}
