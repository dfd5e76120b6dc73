"""Folders of Parquet with a log of commits.

The log is a sequence of JSON objects, ``_zwire/log/<number>.json``; a commit is the creation of the next
number, which fails if another writer was first. An entry has the files that it adds and removes, and the
marks that it sets. Every 64th commit is followed by a checkpoint, ``_zwire/checkpoint/<number>.json``: the
sum of all entries up to that number.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from zwire._lazy import library, pa, pc, pq
from zwire.errors import SinkError
from zwire.sink._store import opened
from zwire.sink._table import Compacted, LostRaceError, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from zwire.sink._store import Object
    from zwire.sink._table import Rows

_VERSION = 1
_LOG, _CHECKPOINT, _SCHEMA = "_zwire/log/", "_zwire/checkpoint/", "_zwire/schema.arrow"
_EVERY = 64
"""Commits between two checkpoints, which an open reads one by one."""

_MOST_PARTITIONS = 1000
"""Most partitions of a batch: each is a file of its own."""

_GROUP = 1 << 17
"""Rows of a row group."""


class File(NamedTuple):
    """A file of the table: path below the root, rows and bytes."""

    path: str
    rows: int
    bytes: int

    @property
    def partition(self) -> str:
        """The folder of the file."""
        return self.path.rpartition("/")[0]


@dataclass
class _State:
    """The table up to a commit; ``number`` is -1 before the first."""

    number: int = -1
    files: dict[str, File] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)

    def apply(self, entry: Mapping[str, Any]) -> None:
        for path in entry["remove"]:
            self.files.pop(path, None)
        self.files |= {path: File(path, rows, size) for path, rows, size in entry["add"]}
        self.marks |= entry["marks"]
        self.number = entry["number"]


class ParquetTable(Table):
    """A folder of Parquet, or one in a store, with a log of commits. Made by :func:`zwire.sink.parquet`.

    Readers take the files of :meth:`files`: the folder also has files of attempts that were cut off, until
    :meth:`vacuum`, and files that :meth:`compact` has replaced.
    """

    FORMAT: ClassVar[str] = "parquet"

    def __init__(
        self,
        url: str | PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        compression: str = "zstd",
    ) -> None:
        library("pyarrow", "arrow")
        super().__init__(str(url), partition_by)
        self._store = opened(self.address, options)
        self._compression = compression
        self._state = _State()

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        with self.translating():
            marks = self._refresh().marks
        return {name: marks[name] for name in names if name in marks}

    def files(self) -> list[str]:
        """Return the paths or addresses of all files of the table, for readers of Parquet."""
        with self.translating():
            return [self._store.url(path) for path in sorted(self._refresh().files)]

    def to_arrow(self) -> pa.Table:
        with self.translating():
            schema = self._there()
            tables = [self._read(file) for _, file in sorted(self._refresh().files.items())]
            return pa.concat_tables([schema.empty_table(), *tables])

    def compact(self, target_bytes: int = 128 << 20) -> Compacted:
        removed = added = 0
        with self.translating():
            schema = self._there()
            for group in _groups(self._refresh().files.values(), target_bytes):
                made = self._write(group[0].partition, schema, (self._read(file) for file in group))
                if not self._replace(group, made):
                    # Another compaction was first; its files are as good.
                    self._store.remove(made.path)
                    continue
                removed, added = removed + len(group), added + 1
        return Compacted(removed, added)

    def vacuum(self, older_than: float = 7 * 86400.0) -> int:
        with self.translating():
            # Listed first: files of commits in between are kept.
            listed = self._store.listed("")
            known = self._refresh().files
            old = [each.name for each in listed if each.age >= older_than and self._is_unused(each, known)]
            for name in [*old, *self._covered(listed, older_than)]:
                self._store.remove(name)
        return len(old)

    @staticmethod
    def _is_unused(object: Object, known: Mapping[str, File]) -> bool:
        return object.name.endswith(".parquet") and object.name not in known

    @staticmethod
    def _covered(listed: list[Object], older_than: float) -> list[str]:
        """Return the entries of the log and checkpoints that an old checkpoint makes superfluous."""
        aged = {
            _number(each.name)
            for each in listed
            if each.name.startswith(_CHECKPOINT) and each.age >= older_than
        }
        # A writer that has read the log before the checkpoint would create a deleted number again.
        least = max(aged, default=-1)
        return sorted(
            each.name
            for each in listed
            if each.name.startswith((_LOG, _CHECKPOINT)) and 0 <= _number(each.name) < least
        )

    def _replace(self, group: list[File], made: File) -> bool:
        gone = [file.path for file in group]
        while all(path in self._state.files for path in gone):
            if self._commit([made], gone, {}):
                return True
            self._refresh()
        return False

    def _refresh(self) -> _State:
        """Read what was committed since the last call."""
        if self._state.number < 0:
            self._state = self._newest()
        while True:
            while (text := self._store.read(_name(_LOG, self._state.number + 1))) is not None:
                self._state.apply(self._parsed(text))
            if self._is_head():
                return self._state
            self._state = self._newest()

    def _is_head(self) -> bool:
        """Whether there is no next entry because none was made, and not because a vacuum has deleted it."""
        if self._state.number < 0:
            return not self._store.listed(_CHECKPOINT)
        # A vacuum deletes entries in their order.
        return self._store.read(_name(_LOG, self._state.number)) is not None

    def _newest(self) -> _State:
        """Return the state of the newest checkpoint."""
        points = [_number(each.name) for each in self._store.listed(_CHECKPOINT)]
        return self._checkpoint(max(points)) if points else _State()

    def _checkpoint(self, number: int) -> _State:
        found = self._parsed(self._store.read(_name(_CHECKPOINT, number)) or b"")
        state = _State()
        state.apply({**found, "remove": []})
        return state

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
            version = found["v"]
        except (ValueError, KeyError, TypeError):
            version, found = None, {}
        if version != _VERSION or not {"number", "add", "marks"} <= found.keys():
            raise SinkError(
                f"{self.address}: its log has version {version!r}, this is {_VERSION}", table=self.address
            )
        return dict(found)

    def _commit(self, add: Sequence[File], remove: Sequence[str], marks: Mapping[str, int]) -> bool:
        """Create the next entry of the log; return whether this writer was first."""
        number = self._state.number + 1
        entry = {
            "v": _VERSION,
            "number": number,
            "at": time.time_ns() // 1000,
            # Two writers with the same files and marks differ by it.
            "id": uuid4().hex,
            "add": [list(file) for file in add],
            "remove": list(remove),
            "marks": dict(marks),
        }
        if not self._store.create(_name(_LOG, number), json.dumps(entry).encode()):
            return False
        self._state.apply(entry)
        if number % _EVERY == _EVERY - 1:
            state = {
                "v": _VERSION,
                "number": number,
                "add": [list(file) for file in self._state.files.values()],
                "marks": self._state.marks,
            }
            self._store.create(_name(_CHECKPOINT, number), json.dumps(state).encode())
        return True

    def _schema(self) -> pa.Schema | None:
        text = self._store.read(_SCHEMA)
        return None if text is None else pa.ipc.read_schema(pa.py_buffer(text))

    def _there(self) -> pa.Schema:
        schema = self._schema()
        if schema is None:
            raise SinkError(
                f"{self.address}: there is no table of Parquet with a log of zwire", table=self.address
            )
        return schema

    def _create(self, schema: pa.Schema) -> None:
        self._store.create(_SCHEMA, schema.serialize().to_pybytes())

    def _append(self, rows: Rows, marks: Mapping[str, int]) -> None:
        # Another writer may have created the table with its columns.
        schema = self._there()
        with ExitStack() as undo:
            add = []
            for partition, part in self._parts(rows()):
                file = self._write(partition, schema, part)
                undo.callback(self._store.remove, file.path)
                add.append(file)
            # From here on an error may hide a commit that has succeeded: then the files have to stay.
            undo.pop_all()
        won = self._commit([file for file in add if file.rows], [], marks)
        for file in add:
            if not won or not file.rows:
                self._store.remove(file.path)
        if not won:
            raise LostRaceError

    def _parts(self, reader: pa.RecordBatchReader) -> Iterator[tuple[str, Iterable[Any]]]:
        """Split rows by their partitions, each with its folder."""
        if not self.partition_by:
            yield "", reader
            return
        table = reader.read_all()
        names = list(self.partition_by)
        found = table.group_by(names).aggregate([]).to_pylist() if table.num_rows else []
        if len(found) > _MOST_PARTITIONS:
            raise SinkError(
                f"{self.address}: a batch has {len(found)} partitions by {', '.join(names)}, more than "
                f"{_MOST_PARTITIONS}: partition by other columns",
                table=self.address,
            )
        for values in found:
            mask = None
            for name, value in values.items():
                column = table.column(name)
                same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
                mask = same if mask is None else pc.and_(mask, same)
            yield "/".join(_folder(name, value) for name, value in values.items()), [table.filter(mask)]

    def _write(self, partition: str, schema: pa.Schema, rows: Iterable[Any]) -> File:
        """Write a file with a name that no other attempt has."""
        path = f"{partition}/" if partition else ""
        path = f"{path}{time.time_ns() // 1000}-{uuid4().hex}.parquet"
        count = 0
        with self._store.writing(path) as out:
            counting = _Counting(out)
            with pq.ParquetWriter(counting, schema, compression=self._compression) as writer:
                for each in _grouped(rows, schema):
                    writer.write_table(each, row_group_size=each.num_rows)
                    count += each.num_rows
        return File(path, count, counting.bytes)

    def _read(self, file: File) -> pa.Table:
        url = self._store.url(file.path)
        if "://" not in url:
            return pq.read_table(url, partitioning=None)
        data = self._store.read(file.path)
        if data is None:
            raise SinkError(f"{url}: the log names this file, which is missing", table=self.address)
        return pq.read_table(pa.BufferReader(data), partitioning=None)

    def _translated(self, error: Exception) -> Exception | None:
        if isinstance(error, OSError | pa.ArrowException):
            return SinkError(f"{self.address}: {error}", table=self.address)
        return None


class _Counting:
    """A file that counts its bytes, for pyarrow."""

    closed = False

    def __init__(self, file: Any) -> None:  # noqa: ANN401
        self._file, self.bytes = file, 0

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer
        piece = memoryview(data)
        self._file.write(piece)
        self.bytes += piece.nbytes
        return piece.nbytes

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        # The store closes it, once the file is complete.
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _grouped(rows: Iterable[Any], schema: pa.Schema) -> Iterator[pa.Table]:
    """Collect batches or tables for row groups."""
    held: list[Any] = []
    count = 0
    for each in rows:
        held.append(each if isinstance(each, pa.Table) else pa.Table.from_batches([each], schema))
        count += each.num_rows
        if count >= _GROUP:
            yield pa.concat_tables(held)
            held, count = [], 0
    if count:
        yield pa.concat_tables(held)


def _groups(files: Iterable[File], target: int) -> Iterator[list[File]]:
    """Yield groups of small files of one partition, of about the target size, of two files at least."""
    by_partition: dict[str, list[File]] = {}
    for file in sorted(files):
        if file.bytes < target // 2:
            by_partition.setdefault(file.partition, []).append(file)
    for small in by_partition.values():
        group: list[File] = []
        for file in small:
            if group and sum(each.bytes for each in group) + file.bytes > target:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def _folder(name: str, value: object) -> str:
    text = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe="")
    return f"{quote(name, safe='')}={text}"


def _name(prefix: str, number: int) -> str:
    return f"{prefix}{number:020}.json"


def _number(name: str) -> int:
    with suppress(ValueError):
        return int(name.rpartition("/")[2].partition(".")[0])
    return -1
