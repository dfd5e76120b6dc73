"""Batches of samples into files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire._rows import payload_bytes
from zwire.columns import SAMPLE
from zwire.recording._files import by_name
from zwire.recording._mcap import McapWriter
from zwire.recording._rows import arrow, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from os import PathLike

    import pyarrow as pa
    import pyarrow.parquet as pq

    from zwire.recording._mcap import McapSchema

__all__ = ["Written", "write"]

_WRITTEN = ("parquet", "arrow", "mcap")

_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20
"""When a row group of Parquet is written; so much is held until then."""

_NOT_IN_MCAP = ("attachment", "shard", "offset")


class Written(NamedTuple):
    """What :func:`write` has written."""

    rows: int
    bytes: int
    """Of payload."""
    lost: dict[str, int]
    """Columns for which the format has no place, and how many rows had something there."""


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
    quality of service that a key has; those are metadata of the channel, so that :func:`read` gives them
    back. What is different from message to message and no time has no place there: ``attachment``, and
    ``shard`` and ``offset``. Of ``hlc`` it keeps nanoseconds, of ``source_sn`` 32 bits, and ``recv_ts`` is
    never null: it is ``timestamp`` then.

    Args:
        batches: What has the Arrow C interface and columns as :func:`conform` knows them.
        path: Where to; a file that is there is replaced.
        format: ``parquet``, ``arrow`` (a file of Arrow IPC) or ``mcap``; by the name if left out.
        columns: Those of ``zwire.columns.SAMPLE`` that are written; all if left out. MCAP has all.
        schemas: For MCAP: what the names of schemas in encodings stand for. Without, there is the name.
        compress: By zstd.

    Returns:
        What was written. If ``batches`` raises, the file is whole and holds what came before.

    Raises:
        RecordingError: A batch has no key, or a row no place in an MCAP: it has no time, or the file 65,535
            channels.
        ImportError: pyarrow or mcap are missing (``zwire[arrow]``, ``zwire[record]``).
        ValueError: A column or format is unknown.
    """
    form = format or by_name(Path(path))
    if form not in _WRITTEN:
        raise ValueError(f"format must be one of {', '.join(_WRITTEN)}, not {format or Path(path).name!r}")
    if columns is not None and form == "mcap":
        raise ValueError("columns cannot be chosen: MCAP has all that it has a place for")
    arrow()
    rows = SAMPLE if columns is None else SAMPLE.select(columns)
    opened = (
        _mcap(path, schemas, compress=compress)
        if form == "mcap"
        else _OPEN[form](path, rows.arrow(), compress)
    )
    count = size = 0
    lost: dict[str, int] = {}
    with opened as put:
        for given in batches:
            batch = conform(given, columns=rows.names)
            put(batch)
            count += batch.num_rows
            size += payload_bytes(batch)
            for name in _NOT_IN_MCAP if form == "mcap" else ():
                column = batch.column(name)
                if len(column) > column.null_count:
                    lost[name] = lost.get(name, 0) + len(column) - column.null_count
    return Written(count, size, lost)


@contextmanager
def _parquet(path: Any, rows: pa.Schema, compress: bool) -> Iterator[Callable[[Any], Any]]:  # noqa: ANN401
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, rows, compression="zstd" if compress else "none") as writer:
        group = _Group(writer)
        try:
            yield group.add
        finally:
            group.write()


class _Group:
    """Batches that become a row group of Parquet: each has statistics and pages of every column."""

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
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=self._rows)
        self._batches, self._rows, self._bytes = [], 0, 0


@contextmanager
def _arrow(path: Any, rows: pa.Schema, compress: bool) -> Iterator[Callable[[Any], Any]]:  # noqa: ANN401
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="zstd" if compress else None)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows, options=options) as writer:
        yield writer.write_batch


@contextmanager
def _mcap(
    path: str | PathLike[str], schemas: Mapping[str, McapSchema] | None, *, compress: bool
) -> Iterator[Callable[[Any], Any]]:
    with Path(path).open("wb") as file:
        writer = McapWriter(file, schemas, compress=compress)
        try:
            yield writer.write
        finally:
            writer.close()


_OPEN = {"parquet": _parquet, "arrow": _arrow}
