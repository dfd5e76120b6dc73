"""Files of each format, as batches with the columns that the format has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._lazy import pa, pc, pq
from zwire.columns import RECORD, SAMPLE
from zwire.errors import RecordingError, SpoolError
from zwire.recording._rows import COLUMNS, arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zwire import spool

MAX_ROWS = 8192
"""Rows of a batch; more would make a replay wait longer for the next one."""

MAX_BYTES = 8 << 20
"""Approximate bytes of a batch."""

# Former names of columns, as in files of earlier releases.
_FORMER = {new: old for old, new in SAMPLE.renamed.items()}

# Columns that messages in captures share with samples; "priority" of a capture may be that of control.
_CAPTURED = [
    name for name in RECORD.names if name in SAMPLE.names and name not in ("key", "priority", "offset")
]

_PCAP = {0xA1B2C3D4, 0xD4C3B2A1, 0xA1B23C4D, 0x4D3CB2A1, 0x0A0D0D0A}
_SUFFIXES = {
    "parquet": (".parquet",),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
    "mcap": (".mcap",),
    "pcap": (".pcap", ".pcapng"),
}

FORMATS = tuple(_SUFFIXES)


class Source:
    """A file (of a spool, a shard) to read, and its progress."""

    def __init__(self, path: Path, form: str | None, shard: int | None = None) -> None:
        self.path = path
        self.shard = shard
        self.position = 0
        self.rows = 0
        if shard is None:
            self.size = path.stat().st_size
            self.form = form or format_of(path)
        else:
            self.size = _opened(path).marks()[shard]["bytes"]
            self.form = "spool"

    def read(self, wanted: set[str]) -> Iterator[pa.RecordBatch]:
        """Yield its batches; for a truncated file, yield those before the end, then raise the error."""
        self.position = self.rows = 0
        arrow()
        try:
            for batch in _READERS[self.form](self, wanted):
                for at in range(0, batch.num_rows, MAX_ROWS):
                    yield batch.slice(at, MAX_ROWS)
                self.rows += batch.num_rows
        except RecordingError as error:
            raise self._failed(error) from error
        except SpoolError:
            raise  # the error names the place
        except OSError as error:
            if error.filename is not None or error.errno is not None:
                raise
            raise self._failed(error) from error  # what pyarrow says of some files
        except (ValueError, pa.ArrowException) as error:  # ValueError: also DecodeError
            raise self._failed(error) from error
        self.position = self.size

    def _failed(self, error: Exception) -> RecordingError:
        after = f" after {self.rows} rows" if self.rows else ""
        return RecordingError(f"{self.path}{after}: {error}", file=str(self.path), rows=self.rows)


def format_of(path: Path) -> str:
    """Detect the format by the first bytes of a file."""
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if head.startswith(b"\x89MCAP"):
        return "mcap"
    if head.startswith(b"\x1f\x8b") or int.from_bytes(head[:4], "big") in _PCAP:
        return "pcap"
    raise RecordingError(f"{path}: no Parquet, Arrow IPC, MCAP or capture", file=str(path))


def by_name(path: Path) -> str | None:
    """Guess the format by the name of a file."""
    name = path.name.removesuffix(".gz")
    return next((form for form, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), None)


def expand(path: Path, form: str | None) -> list[list[Source]]:
    """Return the files of a source, those of each folder in the order of their names."""
    if not path.is_dir():
        return [[Source(path, form)]]
    if (path / "meta.json").exists():
        return [[Source(path, None, shard)] for shard in _opened(path).shards]
    found = []
    for folder in [path, *sorted(below for below in path.rglob("*") if below.is_dir())]:
        files = [file for file in folder.iterdir() if file.is_file() and by_name(file)]
        if visible := sorted(file for file in files if not file.name.startswith((".", "_"))):
            found.append([Source(file, form) for file in visible])
    if not found:
        raise RecordingError(f"{path}: the folder holds no recording", file=str(path))
    return found


def _chosen(names: list[str], wanted: set[str]) -> list[str]:
    known = wanted | {_FORMER[name] for name in wanted if name in _FORMER}
    return [name for name in dict.fromkeys(names) if name in known]


def needed(columns: set[str]) -> set[str]:
    """Return the columns to read from a file for some columns of samples."""
    more = {*columns, "key", "recv_ts", "timestamp"}
    if columns & {"kind", "payload"}:
        more |= {"kind", "payload"}
    return more & {*COLUMNS}


def _parquet(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(source.path) as file:
        total = file.metadata.num_rows
        size = sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups))
        rows = min(MAX_ROWS, max(1, MAX_BYTES * total // max(size, 1)))
        names = _chosen(file.schema_arrow.names, wanted)
        for batch in file.iter_batches(batch_size=rows, columns=names):
            yield batch
            source.position = source.size * source.rows // max(total, 1)


def _arrow(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(source.path)) as file:
        for batch in _messages(file, wanted):
            # The file may come from anywhere, and readers of the batch rely on its offsets.
            batch.validate(full=True)
            yield batch
            source.position = min(file.tell(), source.size)


def _messages(file: pa.OSFile, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    magic, cut = file.read(8), False
    if magic.startswith(b"ARROW1"):
        try:
            schema = pa.ipc.open_file(file).schema
        except pa.ArrowException:
            # It is still being written, or its writer was killed: there is no footer, and what is whole is
            # a stream behind the magic.
            file.seek(8)
            cut = True
        else:
            fields = [schema.get_field_index(name) for name in _chosen(schema.names, wanted)]
            reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields))
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)
            return
    else:
        file.seek(0)
    for batch in pa.ipc.open_stream(file):
        yield batch.select(_chosen(batch.schema.names, wanted))
    if cut:
        raise RecordingError("the file ends early: its writer was interrupted")


def _opened(path: Path) -> spool.Spool:
    from zwire import spool

    found = spool.open(path)
    if found.table != "samples":
        raise RecordingError(f"{path}: a spool of {found.table}, not of samples", file=str(path))
    return found


def _spool(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    """Read the rows of a shard present now; later rows are left to the next iteration."""
    found = _opened(source.path)
    shard = source.shard or 0
    start, stop = found.earliest()[shard], found.end()[shard]
    columns = _chosen([*found.columns, "shard"], wanted)
    for batch in found.read(shard, start, stop, columns=columns, max_rows=MAX_ROWS, max_bytes=MAX_BYTES):
        yield pa.record_batch(batch)
        source.position = min(source.size, source.size * source.rows // max(stop - start, 1))


def _pcap(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    from zwire.capture import decode

    decoder = decode(source.path, max_rows=MAX_ROWS, max_bytes=MAX_BYTES)
    problem: str | None = None
    for found in decoder:
        batch = pa.record_batch(found)
        pushed = batch.filter(pc.equal(batch.column("message"), "push"))
        if pushed.num_rows:
            yield _published(pushed, wanted)
        source.position = min(decoder.position, source.size)
        # Undecodable bytes of a protocol are no publications; if the file itself is damaged, the row says so.
        damaged = pc.and_(pc.equal(batch.column("message"), "error"), batch.column("protocol").is_null())
        problem = problem or next(iter(batch.filter(damaged).column("error").to_pylist()), None)
    if problem is not None:
        raise RecordingError(problem)


def _published(batch: pa.RecordBatch, wanted: set[str]) -> pa.RecordBatch:
    """Convert the publications in a capture to columns of samples."""
    made = {name: batch.column(name) for name in _CAPTURED}
    made["recv_ts"] = batch.column("ts")
    made["link"] = batch.column("src")
    # Key numbers declared before the capture began are unknown.
    scope = batch.column("scope").cast(pa.string())
    unknown = pc.binary_join_element_wise("?", scope, "/", batch.column("suffix"), "")
    made["key"] = pc.coalesce(batch.column("key"), unknown)
    priority = batch.column("priority")
    made["priority"] = pc.if_else(pc.greater(priority, 0), priority, pa.scalar(None, priority.type))
    return pa.RecordBatch.from_pydict({name: column for name, column in made.items() if name in wanted})


def _mcap(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    from zwire.recording import _mcap

    return _mcap.read(source, wanted)


_READERS: dict[str, Callable[[Source, set[str]], Iterator[pa.RecordBatch]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "mcap": _mcap,
    "pcap": _pcap,
    "spool": _spool,
}
