"""Decodes the captures of one partition, each as a stream of record batches of ``schema.DECODE``."""

# ruff: noqa: RUF009 - a bound only adds metadata to its field.

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

from zwire._lazy import pa
from zwire.errors import DecodeError
from zwire.spark import schema
from zwire.spark._checked import Checked, choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from zwire.capture import Decoder, IntoFrame, Source

OnBadCapture: TypeAlias = Literal["rows", "raise"]
Framing: TypeAlias = Literal["stream", "batch"]

MAX_ROWS = 32_768
"""Most rows of a batch. More than some thousands gain no speed in Spark, and cost memory."""

MAX_BYTES = 8 << 20
"""Most payload of a batch; Spark holds two or three batches of a task at once."""


class DecodedRow(NamedTuple):
    """A message of a capture: a row of ``schema.DECODE``, see :mod:`zwire.capture` for the columns.

    ::

        with zenoh.open(
            {"mode": "client", "connect/endpoints": session.listening(), "zwire/tap": "run.pcap"}
        ) as client:
            client.put("demo/a", "x")
        rows = list(spark.decode_partition()(iter(["run.pcap"])))  # as of a partition of an RDD with paths
        print([(row.key, row.payload) for row in rows if row.message == "push"])  # [('demo/a', b'x')]
    """

    ts: datetime | None
    src: str | None
    dst: str | None
    protocol: str | None
    message: str | None
    kind: str | None
    key: str | None
    scope: int | None
    suffix: str | None
    payload: bytes | None
    encoding: str | None
    timestamp: datetime | None
    hlc: int | None
    hlc_id: bytes | None
    attachment: bytes | None
    priority: int | None
    congestion: str | None
    express: bool | None
    request_id: int | None
    parameters: str | None
    consolidation: str | None
    target: str | None
    sn: int | None
    peer: str | None
    name: str | None
    address: str | None
    group: str | None
    sequence: int | None
    status: int | None
    groups: list[str] | None
    headers: dict[str, str] | None
    content: list[bytes] | None
    error: str | None
    offset: int | None
    file: str | None


class Capture(NamedTuple):
    """A capture, and its name in the rows."""

    name: str | None
    content: Source | None
    """The bytes of the file; None to read them from the path given by the name."""


class DecodeKeywords(TypedDict, total=False):
    """Options of a decode by keyword."""

    ports: Iterable[int]
    keys: Iterable[str | bytes]
    errors: OnBadCapture
    frames: Framing | None
    max_rows: int
    max_bytes: int


@dataclass(frozen=True, kw_only=True)
class DecodeOptions(Checked):
    """Options of decoding."""

    ports: tuple[int, ...] = ()
    keys: tuple[str | bytes, ...] = field(default=(), repr=False)
    errors: OnBadCapture = choice("rows", "rows", "raise")
    frames: Framing | None = choice(None, "stream", "batch")
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        """Check all fields; the decoder checks its own limits."""
        super().__post_init__()
        if self.frames is not None:
            for name in ("ports", "keys"):
                if getattr(self, name):
                    raise ValueError(f"{name} are for captures: frames are Zenoh, all of them")
        for port in self.ports:
            if not 0 < port < 1 << 16:
                raise ValueError(f"a port is 1 to 65535, not {port}")
        self.open(b"")

    def open(self, source: Source) -> Decoder:
        """Open a decoder of a file or of its bytes."""
        from zwire.capture import decode

        return decode(
            source, ports=self.ports, keys=self.keys, max_rows=self.max_rows, max_bytes=self.max_bytes
        )


def decode_options(**options: Unpack[DecodeKeywords]) -> DecodeOptions:
    """Check the options of a decode before the job starts, not in the first task."""
    given: Any = {"ports": (), "keys": (), **options}
    return DecodeOptions(**{**given, "ports": tuple(given["ports"]), "keys": tuple(given["keys"])})


def read(options: DecodeOptions, captures: Iterable[Capture]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of each capture, one after the other, in bounded memory."""
    for capture in captures:
        yield from _read(options, capture)


def read_frames(options: DecodeOptions, frames: Iterable[IntoFrame]) -> Iterator[pa.RecordBatch]:
    """Yield the messages in the frames of a partition, in bounded memory."""
    from zwire.capture import decode_frames

    stream = options.frames == "stream"
    decoder = decode_frames(frames, stream=stream, max_rows=options.max_rows, max_bytes=options.max_bytes)
    for batch in decoder:
        yield _named(pa.record_batch(batch), None)


def _read(options: DecodeOptions, capture: Capture) -> Iterator[pa.RecordBatch]:
    name, content = capture
    problem: DecodeError | OSError | None = None
    path = None
    try:
        if content is None:
            content = path = local_path(name)
        decoder = options.open(content)
    except (DecodeError, OSError) as error:
        problem = error
    else:
        while True:
            try:
                batch = next(decoder, None)
            except (DecodeError, OSError) as error:
                # The rows before the error can still be read.
                problem = error
                continue
            if batch is None:
                break
            yield _named(pa.record_batch(batch), name)
    if problem is None:
        return
    if options.errors == "raise":
        if path is None and name is not None:
            problem.add_note(f"in {name}")
        raise problem
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    reason = reason.removeprefix(f"{path}: ")
    row = {
        "message": "error",
        "error": reason if name is None else f"{name}: {reason}",
        "offset": problem.offset if isinstance(problem, DecodeError) else None,
        "file": name,
    }
    yield pa.RecordBatch.from_pylist([row], schema=schema.DECODE.arrow())


def _named(batch: pa.RecordBatch, name: str | None) -> pa.RecordBatch:
    wanted = schema.DECODE.arrow()
    names = pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, names], schema=wanted)


def local_path(name: str | None) -> str:
    """Return the local path for a path or URI, as Spark's own file sources name files."""
    if name is None:
        raise FileNotFoundError("the path is null")
    parts = urlsplit(name)
    if parts.scheme == "file" and not parts.netloc:
        path = name.removeprefix("file:")
        path = "/" + path.lstrip("/")
        # Some sources of Spark escape names in their URIs, others do not.
        return path if os.path.exists(path) else unquote(path)  # noqa: PTH110 - a text in, a text out
    if "://" in name:
        raise FileNotFoundError(
            "workers read captures from local paths; for other file systems decode the content"
        )
    return name
