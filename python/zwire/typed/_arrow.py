"""Tables as streams of Arrow IPC."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from zwire._lazy import library
from zwire.typed._codec import Codec, name_of
from zwire.typed._shape import is_model_of
from zwire.typed._tree import Misfit, instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from zwire.zenoh import ZBytes

# First bytes of a file of Arrow IPC, before a stream of the same form.
_FILE_MAGIC = b"ARROW1\0\0"
# Tables of the metadata, and the places of the fields needed (Arrow: format/Message.fbs).
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
# The mark of a compressed batch by Arrow 0.17; readers still accept it.
_BEFORE_1_0 = b"ARROW:experimental_compression"


def is_arrow(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model is a table or a record batch of pyarrow."""
    return is_model_of("pyarrow", "Table", model) or is_model_of("pyarrow", "RecordBatch", model)


class ArrowCodec(Codec):
    """Streams of Arrow IPC, which hold their schema; tables refer to the payload, not to a copy.

    ::

        import pyarrow

        subscriber = typed.subscriber(session, "demo/table", pyarrow.Table)
        table = pyarrow.table({"x": [1, 2]})
        typed.put(session, "demo/table", table, codec=typed.ArrowCodec(max_bytes=1 << 20))
        print(subscriber.recv(timeout=5).value.to_pylist())  # [{'x': 1}, {'x': 2}]

    Args:
        validate: Check every offset and text before a table is handed out. Without it, a forged payload can
            make a reader of the table access memory outside of it.
        max_bytes: Limit on the decompressed bytes of batches, and on rows: some kilobytes can expand to
            gigabytes.
    """

    name = "arrow"
    encoding = "application/vnd.apache.arrow.stream"
    also: tuple[str, ...] = ("application/vnd.apache.arrow.file",)

    def __init__(self, *, validate: bool = True, max_bytes: int = 1 << 28) -> None:
        """Set whether payloads are trusted, and the limit on their size when decompressed."""
        self._validate = validate
        self._max_bytes = max_bytes

    def check(self, model: Any) -> None:  # noqa: ANN401
        """Refuse a model that is no table."""
        if not is_arrow(model):
            raise TypeError(f"{name_of(model)} is neither a Table nor a RecordBatch of pyarrow")

    def schema(self, model: Any) -> str | None:  # noqa: ANN401, ARG002
        """Return None: the payload has its own schema."""
        return None

    def encode(self, value: Any, model: Any) -> Buffer:  # noqa: ANN401
        """Write a stream."""
        pa = library("pyarrow", "arrow")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, instance(value, model).schema) as stream:
            stream.write(value)
        out: Buffer = sink.getvalue()
        return out

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        """Read a stream or a file."""
        pa = library("pyarrow", "arrow")
        buffer = pa.py_buffer(payload)
        if buffer[: len(_FILE_MAGIC)].to_pybytes() == _FILE_MAGIC:
            buffer = buffer[len(_FILE_MAGIC) :]
        try:
            self._bounded(pa, buffer)
            table = pa.ipc.open_stream(buffer).read_all()
            if table.num_rows > self._max_bytes:
                raise Misfit(f"{table.num_rows} rows, more than {self._max_bytes}")
            if self._validate:
                table.validate(full=True)
        except (pa.ArrowException, OSError, struct.error) as error:
            raise Misfit(f"no Arrow IPC: {error}") from error
        if model is pa.Table:
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _bounded(self, pa: Any, buffer: Any) -> None:  # noqa: ANN401
        """Refuse a payload that claims to become too large, before memory is allocated for it."""
        size = 0
        for message in pa.ipc.MessageReader.open_stream(buffer):
            body = memoryview(message.body) if message.body is not None else memoryview(b"")
            for length in _compressed(memoryview(message.metadata), body):
                size += length
                if size > self._max_bytes:
                    raise Misfit(f"compressed batches of more than {self._max_bytes} bytes")


def _compressed(metadata: memoryview, body: memoryview) -> Iterator[int]:
    """Yield the decompressed length that each compressed buffer of a message claims."""
    message = _root(metadata)
    kind = _field(metadata, message, 1)
    batch = _table(metadata, message, 2)
    if kind is None or batch is None:
        return
    if metadata[kind] == _DICTIONARY_BATCH:
        batch = _table(metadata, batch, 1)
    elif metadata[kind] != _RECORD_BATCH:
        return
    if batch is None or (_table(metadata, batch, 3) is None and _BEFORE_1_0 not in bytes(metadata)):
        return
    buffers = _table(metadata, batch, 2)
    if buffers is None:
        return
    (count,) = struct.unpack_from("<I", metadata, buffers)
    for at in range(buffers + 4, buffers + 4 + 16 * count, 16):
        offset, length = struct.unpack_from("<qq", metadata, at)
        if length >= 8:
            (whole,) = struct.unpack_from("<q", body, offset)
            # -1 marks a buffer left uncompressed.
            yield length if whole == -1 else max(0, whole)


def _root(view: memoryview) -> int:
    (at,) = struct.unpack_from("<I", view, 0)
    return int(at)


def _field(view: memoryview, table: int, number: int) -> int | None:
    """Find a field of a table of flatbuffers; ``None`` if the table does not have it."""
    (back,) = struct.unpack_from("<i", view, table)
    size, _, *_ = struct.unpack_from("<HH", view, table - back)
    if 4 + 2 * number >= size:
        return None
    (at,) = struct.unpack_from("<H", view, table - back + 4 + 2 * number)
    return table + at if at else None


def _table(view: memoryview, table: int, number: int) -> int | None:
    """Follow the reference in a field of a table."""
    at = _field(view, table, number)
    if at is None:
        return None
    (ahead,) = struct.unpack_from("<I", view, at)
    return at + int(ahead)
