"""The format ``zwire.pcap``: captures as tables, a row for each message, decoded in the partitions."""

from __future__ import annotations

import fnmatch
import functools
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from zwire._lazy import pa, pc
from zwire._rows import KeyFilter
from zwire.spark import schema as rows
from zwire.spark._read import Capture, decode_options, local_path, read
from zwire.spark._settings import fetch
from zwire.spark._worker import task
from zwire.spark.sources._options import Options, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from zwire.spark._read import OnBadCapture
    from zwire.spark.schema import RowSchema

NAME = "zwire.pcap"

FILES = named("path paths pathGlobFilter recursiveFileLookup maxPartitionBytes minPartitions")
"""Options of sources that read files, with the names that Spark has for them."""

_OPEN_COST = 4 << 20
"""Cost of opening a file, in bytes that could be read meanwhile (as in Spark): packs small files together."""

_GLOB = frozenset("*?[")

KNOWN = (
    *named("columns startingTimestamp endingTimestamp errors keyexprs|keyexpr keys kinds|kind"),
    *named("messages|message ports pushdown"),
    *FILES,
)


_SELECTION = "keyexprs, messages, kinds, startingTimestamp, endingTimestamp, or fewer paths"


class File(NamedTuple):
    """An existing file."""

    path: str
    size: int


def listed(options: Options) -> list[File]:
    """Find the files, in the order of their names. A folder stands for its files without hidden ones."""
    single = options.text("path")
    given = [*([] if single is None else [single]), *options.listed("paths")]
    if not given:
        raise options.error("path", "is missing: give a file, a folder or a glob to load()")
    wanted = options.text("pathGlobFilter")
    deep = options.flag("recursiveFileLookup", default=False)
    found: dict[str, int] = {}
    for name in given:
        try:
            local = os.path.abspath(local_path(name))  # noqa: PTH100 - it has to stay a text
        except OSError as error:
            raise options.error("path", f"{name!r}: {error}") from None
        matches = sorted(glob.glob(local, recursive=True)) if _GLOB & set(local) else []  # noqa: PTH207 - the same
        for match in matches or [local]:
            if not os.path.lexists(match):
                raise options.error("path", f"{name!r}: there is no such file or folder")
            for path in _below(Path(match), deep=deep):
                if wanted is None or fnmatch.fnmatchcase(path.name, wanted):
                    found[str(path)] = path.stat().st_size
    return [File(path, size) for path, size in sorted(found.items())]


def _below(path: Path, *, deep: bool) -> Iterator[Path]:
    """Yield the files of a path; those of nested folders only with ``deep``."""
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if deep:
                yield from _below(entry, deep=True)
        elif entry.is_file():
            yield entry


def packed(files: list[File], options: Options) -> list[list[str]]:
    """Spread files over partitions as Spark does: enough for all cores, small ones together, none split."""
    most = options.size("maxPartitionBytes", 128 << 20)
    # The planning driver does not know the executors; its own machine is a guess that suits local sessions.
    least = options.integer("minPartitions", 2 * (os.cpu_count() or 1), least=1)
    total = sum(file.size + _OPEN_COST for file in files)
    bound = min(most, max(_OPEN_COST, total // least))
    parts: list[list[str]] = []
    room = 0
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        cost = file.size + _OPEN_COST
        if not parts or cost > room:
            parts.append([])
            room = bound
        parts[-1].append(file.path)
        room -= cost
    return parts


class PcapDataSource(DataSource):
    """Captures as a table: see the guide for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Check the options, and return the columns that they ask for."""
        options = Options(NAME, self.options, KNOWN)
        listed(options)
        Wanted(options)
        _ports(options)
        _errors(options)
        options.secret("keys")
        options.no_pushdown(_SELECTION)
        return options.columns(rows.DECODE).spark()

    def reader(self, schema: StructType) -> PcapReader:
        """Return the reader of captures."""
        options = Options(NAME, self.options, KNOWN)
        options.no_pushdown(_SELECTION)
        return PcapReader(options, options.chosen(rows.DECODE, schema))


def _ports(options: Options) -> tuple[int, ...]:
    ports = options.listed("ports")
    if not all(port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16 for port in ports):
        raise options.error("ports", f"must be numbers of 1 to 65535, not {', '.join(ports)!r}")
    return tuple(map(int, ports))


def _errors(options: Options) -> OnBadCapture:
    return options.choice("errors", ("rows", "raise"), "rows")


class Wanted:
    """The selection of rows by options. Rows of undecodable bytes are always selected."""

    def __init__(self, options: Options) -> None:
        self.start = options.instant("startingTimestamp")
        self.stop = options.instant("endingTimestamp")
        self.messages = options.listed("messages")
        self.kinds = options.listed("kinds")
        keyexprs = options.keyexprs("keyexprs")
        self.keys = KeyFilter(keyexprs) if keyexprs else None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows."""
        masks = []
        ts = batch.column("ts")
        if self.start is not None:
            masks.append(pc.greater_equal(ts, pa.scalar(self.start, pa.int64()).cast(ts.type)))
        if self.stop is not None:
            masks.append(pc.less(ts, pa.scalar(self.stop, pa.int64()).cast(ts.type)))
        for name, values in (("message", self.messages), ("kind", self.kinds)):
            if values:
                masks.append(pc.is_in(batch.column(name), value_set=pa.array(values, pa.string())))
        if self.keys is not None:
            masks.append(self.keys.mask(batch.column("key")))
        if not masks:
            return batch
        kept = pc.equal(batch.column("message"), "error")
        return batch.filter(pc.or_kleene(kept, functools.reduce(pc.and_kleene, masks)))


@dataclass(eq=False, repr=False)
class Captures(InputPartition):
    """Paths of captures; a capture is never split, since a session is decoded from its beginning."""

    paths: list[str]


class PcapReader(DataSourceReader):
    """Decodes the captures of each partition in bounded memory, regardless of their size."""

    def __init__(self, options: Options, columns: RowSchema) -> None:
        self.options = options
        self.columns = columns
        self.wanted = Wanted(options)
        self.keys = options.secret("keys")

    def partitions(self) -> list[InputPartition]:
        """Spread the present files over partitions."""
        return [Captures(paths) for paths in packed(listed(self.options), self.options)]

    @task
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode, and yield the selected rows."""
        # Without files Spark makes a partition of its own.
        paths = partition.paths if isinstance(partition, Captures) else []
        keys = [] if self.keys is None else fetch(f"{NAME}: keys", self.keys).split()
        made = decode_options(ports=_ports(self.options), errors=_errors(self.options), keys=keys)
        for batch in read(made, (Capture(path, None) for path in paths)):
            kept = self.wanted.apply(batch)
            if kept.num_rows:
                yield kept.select(self.columns.names)
