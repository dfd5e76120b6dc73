"""Recordings as batches of samples, ordered by time."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from zwire._lazy import pa, pc
from zwire._rows import KeyFilter
from zwire.columns import SAMPLE
from zwire.errors import RecordingError, SpoolCorrupt
from zwire.recording._files import FORMATS, expand, needed
from zwire.recording._rows import COLUMNS, arrow, conformed, rising, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from zwire.recording._files import Source

When: TypeAlias = "dt.datetime | float | None"


class ReadOptions(TypedDict, total=False):
    """Options of :func:`read` by keyword.

    ::

        minute: recording.ReadOptions = {
            "keys": ["demo/**"],
            "start": 0,
            "stop": 60,
            "columns": ["key", "payload"],
        }
        with recording.Recorder(session, ["**"], "run.mcap"):
            session.put("demo/a", "x")
            session.put("other/a", "y")
        print(sum(batch.num_rows for batch in recording.read("run.mcap", **minute)))  # 1
    """

    format: str | None
    columns: Iterable[str] | None
    keys: Iterable[str]
    start: When
    stop: When
    link: str | None
    whole: bool


class Recording:
    """Files as batches of samples; each iteration reads them from the beginning.

    Also an Arrow stream, for ``pyarrow.table`` and other readers of Arrow. Made by :func:`read`.
    """

    def __init__(self, sources: Iterable[str | PathLike[str]], **options: Unpack[ReadOptions]) -> None:
        unknown = options.keys() - ReadOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"read has no option {', '.join(sorted(unknown))}")
        format = options.get("format")
        columns, link = options.get("columns"), options.get("link")
        if format is not None and format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
        self._rows = SAMPLE if columns is None else SAMPLE.select(columns)
        self._wanted = needed({*self._rows.names, *(() if link is None else ("link",))})
        self._read = [name for name in COLUMNS if name in self._wanted]
        expressions = list(options.get("keys", ()))
        self._keys = KeyFilter(expressions) if expressions else None
        self._start, self._stop = options.get("start"), options.get("stop")
        self._link = link
        self._whole = options.get("whole", False)
        self._sources = [str(source) for source in sources]
        self._streams = [stream for source in self._sources for stream in expand(Path(source), format)]
        if not self._streams:
            raise ValueError("no source given")

    def __repr__(self) -> str:
        return f"<Recording of {', '.join(self._sources)}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns, as those of ``zwire.columns.SAMPLE``."""
        arrow()
        return self._rows.arrow()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(source.size for stream in self._streams for source in stream)

    @property
    def position(self) -> int:
        """Approximate bytes of the files read by the last iteration."""
        return sum(source.position for stream in self._streams for source in stream)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, without those that the filters leave empty."""
        arrow()
        start, stop = _micros(self._start), _micros(self._stop)
        begin: int | None = None
        for batch in self._merged():
            left = batch
            if start is not None or stop is not None:
                when = times(batch)
                if begin is None:
                    begin = rising(batch, None)[0].as_py()
                left = left.filter(_between(when, start, stop, begin or 0))
            if self._keys is not None and left.num_rows:
                left = left.filter(self._keys.mask(left.column("key")))
            if self._link is not None and left.num_rows:
                left = left.filter(_like(left.column("link"), self._link))
            if left.num_rows:
                chosen = [left.column(name) for name in self._rows.names]
                yield pa.RecordBatch.from_arrays(chosen, schema=self._rows.arrow())

    def __arrow_c_schema__(self) -> object:
        """Return the schema through the Arrow C interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all batches through the Arrow C interface."""
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    def _merged(self) -> Iterator[pa.RecordBatch]:
        streams = [self._stream(stream) for stream in self._streams]
        return streams[0] if len(streams) == 1 else _merge(streams)

    def _stream(self, files: list[Source]) -> Iterator[pa.RecordBatch]:
        for source in files:
            for batch in self._source(source):
                if batch.num_rows:
                    yield conformed(batch, columns=self._read)

    def _source(self, source: Source) -> Iterator[pa.RecordBatch]:
        try:
            yield from source.read(self._wanted)
        except (RecordingError, SpoolCorrupt):
            if not self._whole:
                raise


def read(*sources: str | PathLike[str], **options: Unpack[ReadOptions]) -> Recording:
    """Read recordings: Parquet, Arrow IPC, MCAP, captures, folders of them, and spools.

    Files of a folder follow each other in the order of their names. Several sources, several folders below
    one, and the shards of a spool are merged by time; each keeps its own order. Of a spool, the rows
    present at the beginning of the iteration are read. Of a capture, each publication is read as often
    as it was captured: a hub receives it once and sends it to each subscriber, and ``link``
    tells the copies apart.

    Args:
        sources: Paths.
        **options: ``format``: ``parquet``, ``arrow``, ``mcap`` or ``pcap``; by the first bytes of a file if
            left out. ``columns``: columns of ``zwire.columns.SAMPLE`` to read; all if left out. ``keys``: key
            expressions; rows of other keys are left out. ``start``: the earliest time, an instant
            (without a zone: of local time) or seconds from the beginning of the recording; the time of a row
            is its ``recv_ts``, or else its ``timestamp``, and rows without any are left out if a time is
            given. ``stop``: the end of the times (exclusive). ``link``: origin of the samples, with
            ``*`` for any text: ``tcp/10.0.0.7:*``, in a capture ``10.0.0.7:*``. ``whole``: read damaged files
            up to their damage, and go on with the other files (false); :func:`damage` finds them.

    Returns:
        The recording; iterating over it yields record batches of pyarrow with the columns of
        ``zwire.columns.SAMPLE``; columns missing in a file are null.

    Raises:
        RecordingError: A file is no recording, or, while iterating, is damaged: rows before the damage come
            first. The same goes for a file of a killed writer. With ``whole``, damage is no error.
        ImportError: pyarrow or mcap are missing (``zwire[arrow]``, ``zwire[record]``).
        SpoolError: A path is no spool, or the spool is damaged.
        OSError: A file cannot be read.
        ValueError: A column or format is unknown.
        KeyExprError: One of ``keys`` is not legal.
    """
    return Recording(sources, **options)


def _micros(when: When) -> tuple[bool, int] | None:
    """Return a time in microseconds, and whether it counts from 1970."""
    if when is None:
        return None
    if isinstance(when, dt.datetime):
        aware = when if when.tzinfo is not None else when.astimezone()
        since = aware - dt.datetime.fromtimestamp(0, dt.UTC)
        return True, since // dt.timedelta(microseconds=1)
    return False, round(when * 1e6)


def _between(
    when: pa.Array, start: tuple[bool, int] | None, stop: tuple[bool, int] | None, begin: int
) -> pa.Array:
    inside = when.is_valid()
    for limit, within in ((start, pc.greater_equal), (stop, pc.less)):
        if limit is not None:
            absolute, micros = limit
            bound = pa.scalar(micros if absolute else begin + micros, pa.int64())
            inside = pc.and_(inside, pc.fill_null(within(when, bound), False))
    return inside


def _like(links: pa.Array, pattern: str) -> pa.Array:
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
    return pc.fill_null(pc.match_like(links, escaped), False)


class _Head:
    """A stream of batches, and the times of the rows of its next one."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch: Any = None
        self.due: Any = None
        self._last: int | None = None

    def fill(self) -> bool:
        if self.batch is None or not self.batch.num_rows:
            self.batch = next(self._batches, None)
            if self.batch is not None:
                self.due = rising(self.batch, self._last)
                self._last = self.due[-1].as_py()
        return self.batch is not None

    def take(self, until: int) -> tuple[Any, Any]:
        """Return the rows due until a time."""
        count = pc.sum(pc.less_equal(self.due, pa.scalar(until, pa.int64()))).as_py()
        taken = self.batch.slice(0, count), self.due.slice(0, count)
        self.batch, self.due = self.batch.slice(count), self.due.slice(count)
        return taken


def _merge(streams: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several streams ordered by time; rows of one stream keep their order."""
    heads = [_Head(stream) for stream in streams]
    while left := [head for head in heads if head.fill()]:
        # The batch that ends first is taken whole, of the others the rows that are not later.
        until = min(head.due[-1].as_py() for head in left)
        parts = [taken for head in left if (taken := head.take(until))[0].num_rows]
        if len(parts) == 1:
            yield parts[0][0]
            continue
        rows = pa.Table.from_batches([batch for batch, _ in parts]).combine_chunks().to_batches()[0]
        due = pa.concat_arrays([due for _, due in parts])
        yield rows.take(pc.sort_indices(due))  # which is stable
