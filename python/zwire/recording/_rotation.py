"""Files of a recording that grows: complete up to their last flush, one after the other."""

from __future__ import annotations

import contextlib
import re
from errno import EEXIST
from typing import TYPE_CHECKING, Any, Protocol

from zwire._lazy import pa, pq
from zwire.columns import SAMPLE
from zwire.recording._losses import LIST, NAME, written
from zwire.recording._mcap import McapWriter
from zwire.recording._write import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zwire.recording._losses import Loss
    from zwire.recording._mcap import McapSchema

_PARTIAL = ".partial.arrow"


class Growing(Protocol):
    """A file that is written."""

    path: Path

    def write(self, batch: pa.RecordBatch) -> int:
        """Add rows; return how many of them have no place in the file."""

    def note(self, loss: Loss) -> None:
        """Name a loss."""

    def flush(self) -> None:
        """Give everything to the system: the end of the process loses none of it."""

    def size(self) -> int:
        """Return the bytes of the file up to the last flush."""

    def close(self) -> None:
        """Complete the file."""


class Names:
    """Names of the files of a recording: the path itself, or with a number before its suffix."""

    def __init__(self, path: Path, *, numbered: bool) -> None:
        self._path = path
        self._next: int | None = None
        if numbered:
            suffixes = "|".join(map(re.escape, (path.suffix, _PARTIAL)))
            pattern = re.compile(rf"{re.escape(path.stem)}-(\d+)({suffixes})")
            found = [pattern.fullmatch(file.name) for file in path.parent.iterdir()]
            self._next = max((int(match[1]) for match in found if match), default=0) + 1
        else:
            for taken in (path, partial(path)):
                if taken.exists():
                    raise FileExistsError(EEXIST, "the file exists already, and is not replaced", str(taken))

    def __call__(self) -> Path:
        """Return the name of the next file."""
        if self._next is None:
            return self._path
        number, self._next = self._next, self._next + 1
        return self._path.with_name(f"{self._path.stem}-{number:04}{self._path.suffix}")


def partial(path: Path) -> Path:
    """Return the name of a Parquet file that is not complete yet: it is an Arrow file."""
    return path.with_name(path.name.removesuffix(path.suffix) + _PARTIAL)


class Mcap:
    """An MCAP; each flush ends a chunk."""

    def __init__(self, path: Path, schemas: Mapping[str, McapSchema] | None, *, compress: bool) -> None:
        self.path = path
        self._file = path.open("xb")
        try:
            self._writer = McapWriter(self._file, schemas, compress=compress)
            self._writer.flush()
        except BaseException:
            self._file.close()
            path.unlink()
            raise

    def write(self, batch: pa.RecordBatch) -> int:
        """Add rows; a key beyond the last channel has no place."""
        return self._writer.write(batch, skip=True)

    def note(self, loss: Loss) -> None:
        """Write a record of metadata."""
        self._writer.note(NAME, loss.texts())

    def flush(self) -> None:
        """End the chunk."""
        self._writer.flush()

    def size(self) -> int:
        """Return the bytes up to the last flush."""
        return self._file.tell()

    def close(self) -> None:
        """Write index and summary."""
        with self._file:
            self._writer.close()


class Arrow:
    """A file of Arrow IPC; each flush writes a batch."""

    def __init__(self, path: Path, *, compress: bool) -> None:
        self.path = path
        with path.open("xb"):
            pass  # which fails if the file exists
        self._schema = SAMPLE.arrow()
        try:
            self._file: Any = pa.OSFile(str(path), "wb")
            options = pa.ipc.IpcWriteOptions(compression="zstd" if compress else None)
            self._writer = pa.ipc.new_file(self._file, self._schema, options=options)
        except BaseException:
            path.unlink()
            raise
        self._batches: list[pa.RecordBatch] = []
        self._losses: list[Loss] = []

    def write(self, batch: pa.RecordBatch) -> int:
        """Add rows; all have a place."""
        self._batches.append(batch)
        return 0

    def note(self, loss: Loss) -> None:
        """Name a loss in the metadata of the next batch."""
        self._losses.append(loss)

    def flush(self) -> None:
        """Write one batch."""
        if not self._batches and not self._losses:
            return
        batches = pa.Table.from_batches(self._batches, self._schema).combine_chunks().to_batches()
        batches = batches or [pa.RecordBatch.from_pylist([], schema=self._schema)]
        for batch in batches:
            if self._losses:
                self._writer.write_batch(batch, custom_metadata={LIST: written(self._losses)})
            else:
                self._writer.write_batch(batch)
            self._losses = []
        self._batches = []

    def size(self) -> int:
        """Return the bytes up to the last flush."""
        return int(self._file.tell())

    def close(self) -> None:
        """Write the footer."""
        try:
            self.flush()
            self._writer.close()
        finally:
            self._file.close()


class Parquet:
    """A Parquet file. Its index is at its end, so an Arrow file has the rows until it is complete."""

    def __init__(self, path: Path, *, compress: bool) -> None:
        self.path = path
        if path.exists():
            raise FileExistsError(EEXIST, "the file exists already, and is not replaced", str(path))
        self._compress = compress
        self._rows = Arrow(partial(path), compress=compress)
        self._losses: list[Loss] = []
        self.write, self.flush, self.size = self._rows.write, self._rows.flush, self._rows.size

    def note(self, loss: Loss) -> None:
        """Name a loss in the Arrow file now, in the footer later."""
        self._rows.note(loss)
        self._losses.append(loss)

    def close(self) -> None:
        """Write the Parquet file, and delete the other one."""
        self._rows.close()
        draft = self.path.with_name(f".{self.path.name}.part")
        compression = "zstd" if self._compress else "none"
        try:
            with (
                pa.OSFile(str(self._rows.path)) as file,
                pq.ParquetWriter(draft, SAMPLE.arrow(), compression=compression) as writer,
            ):
                group, reader = Group(writer), pa.ipc.open_file(file)
                for at in range(reader.num_record_batches):
                    group.add(reader.get_batch(at))
                group.write()
                if self._losses:
                    writer.add_key_value_metadata({LIST: written(self._losses)})
            draft.replace(self.path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
        self._rows.path.unlink()


def opener(
    form: str, schemas: Mapping[str, McapSchema] | None, *, compress: bool
) -> Callable[[Path], Growing]:
    """Return the function that opens a new file of a format."""
    match form:
        case "mcap":
            return lambda path: Mcap(path, schemas, compress=compress)
        case "arrow":
            return lambda path: Arrow(path, compress=compress)
        case _:
            return lambda path: Parquet(path, compress=compress)
