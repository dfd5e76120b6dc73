"""MCAP: the key is the topic, with a channel for each set of fields common to its messages."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zwire._lazy import library, pa, pc
from zwire.columns import SAMPLE
from zwire.errors import RecordingError
from zwire.recording._rows import COLUMNS, arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from mcap.reader import McapReader
    from mcap.records import Channel, Message, Schema
    from mcap.summary import Summary

    from zwire.recording._files import Source

AT_ONCE = 1024
"""Messages of a batch: each is a Python object for a while, and a replay waits for the batch."""

_BYTES = 4 << 20
_MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")
"""Opcode and length of a record."""
_FOOTER = 2

_MOST_RECORD = 1 << 30
"""Largest record read, in bytes; a damaged length must not take all memory."""

_MOST_CHANNELS = 65_535
"""Most channels: their numbers have 16 bits, and 0 is not used."""

# Encodings of Zenoh, and their names in MCAP (MCAP: well-known message encodings).
_ENCODINGS = {name: f"application/{name}" for name in ("cdr", "cbor", "json", "msgpack", "protobuf")}
_NAMES = {encoding: name for name, encoding in _ENCODINGS.items()} | {"text/json": "json"}

# Fields equal for all messages of a channel, as its metadata.
_PREFIX = "zwire."
_VARIES = {"key", "payload", "timestamp", "hlc", "source_sn", "attachment", "recv_ts", "shard", "offset"}
_FIXED = tuple(name for name in SAMPLE.names if name not in _VARIES)
# What channels have that were written when columns had other types: the column, and its value.
_FORMER = {
    "kind": ("kind", {"0": "put", "1": "del"}),
    "congestion_block": ("congestion", {"true": "block", "false": "drop"}),
}
_TIMED = f"{_PREFIX}timestamp"
_PLACE = ("shard", "offset")


class McapSchema(NamedTuple):
    """A schema, for programs that display MCAP files.

    ::

        import json

        pose = json.dumps({"type": "object", "properties": {"x": {"type": "number"}}})
        schemas = {"demo.Pose": recording.McapSchema("jsonschema", pose.encode())}
        with recording.Recorder(session, ["demo/**"], "run.mcap", schemas=schemas):
            session.put("demo/pose", '{"x": 1.5}', encoding="application/json;demo.Pose")
    """

    encoding: str
    """``protobuf``, ``jsonschema``, ``ros2msg``, ``ros2idl``, ... (MCAP: well-known schema encodings)."""
    data: bytes
    """In this encoding, such as a ``FileDescriptorSet`` of protobuf."""


def read(source: Source, wanted: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file in the order of recording."""
    library("mcap", "record")
    arrow()
    rows = _Rows(wanted)
    with source.path.open("rb") as opened:
        file = _Whole(opened)
        try:
            for found in _said(_messages(file)):  # type: ignore[arg-type]  # what readers call of a file
                rows.add(*found)
                if len(rows.messages) >= AT_ONCE or rows.size >= _BYTES:
                    yield rows.batch()
                    source.position = min(opened.tell(), source.size)
        except RecordingError:
            # Messages before the end of a truncated file come before its error.
            if rows.messages:
                yield rows.batch()
            raise
    if rows.messages:
        yield rows.batch()


class _Whole:
    """A file that returns all the bytes requested, or raises: the library accepts half a message."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int) -> bytes:
        from mcap.exceptions import EndOfFile

        found = self._file.read(size)
        if len(found) < size:
            raise EndOfFile
        return found


def records(file: IO[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield opcode, place and length of the contents of each whole record; the file may be moved meanwhile.

    Ends behind the last whole record: at the footer, or where a record does not fit into the file.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        return
    at = len(_MAGIC)
    while at + _HEAD.size <= size:
        file.seek(at)
        opcode, length = _HEAD.unpack(file.read(_HEAD.size))
        if opcode == 0 or length > size - at - _HEAD.size:
            return
        yield opcode, at + _HEAD.size, length
        at += _HEAD.size + length
        if opcode == _FOOTER:
            return


def schemas(path: Path) -> dict[str, McapSchema]:
    """Return the schemas of a file by their names, the first one of each; of a damaged one those before that.

    Raises:
        RecordingError: The file is no MCAP.
        ImportError: mcap is not installed (``zwire[record]``).
    """
    library("mcap", "record")
    found: dict[str, McapSchema] = {}
    with path.open("rb") as opened:
        try:
            for schema in _said(_schemas(_Whole(opened))):  # type: ignore[arg-type]  # what readers call of a file
                if schema is not None:
                    found.setdefault(schema.name, McapSchema(schema.encoding, schema.data))
        except RecordingError:
            # A schema precedes its messages, so those of the messages that can be read are there.
            if not found:
                raise
    return found


def _schemas(file: IO[bytes]) -> Iterator[Schema | None]:
    from mcap.reader import SeekingReader

    summary = _summary(SeekingReader(file, record_size_limit=_MOST_RECORD))
    if summary is not None and summary.schemas:
        yield from summary.schemas.values()
        return
    file.seek(0)
    for schema, _, _ in _messages(file):
        yield schema


def whole(path: Path) -> int:
    """Return the number of bytes up to which a file is whole, by its records and the sums of its chunks."""
    library("mcap", "record")
    import zstandard
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
    from mcap.records import Chunk
    from mcap.stream_reader import breakup_chunk

    end, footer = 0, False
    with path.open("rb") as file:
        for opcode, at, length in records(file):
            if opcode == Opcode.CHUNK:
                if length > _MOST_RECORD:
                    return end
                file.seek(at)
                try:
                    breakup_chunk(Chunk.read(ReadDataStream(file)), validate_crc=True)
                except (
                    McapError,
                    zstandard.ZstdError,
                    RuntimeError,
                    ValueError,
                    KeyError,
                    struct.error,
                    MemoryError,
                    OverflowError,
                ):
                    return end
            end = at + length
            footer = opcode == _FOOTER
        if footer:
            file.seek(end)
            end += len(_MAGIC) if file.read(len(_MAGIC)) == _MAGIC else 0
    return end


def _summary(reader: McapReader) -> Summary | None:
    from mcap.exceptions import McapError

    try:
        return reader.get_summary()
    except (McapError, ValueError, struct.error, OSError):
        return None  # truncated: read the file from its beginning, as far as it goes


def _messages(file: IO[bytes]) -> Iterator[tuple[Schema | None, Channel, Message]]:
    from mcap.reader import NonSeekingReader, SeekingReader

    reader: McapReader = SeekingReader(file, validate_crcs=True, record_size_limit=_MOST_RECORD)
    summary = _summary(reader)
    if summary is not None and summary.chunk_indexes:
        yield from reader.iter_messages()
        return
    file.seek(0)
    reader = NonSeekingReader(file, validate_crcs=True, record_size_limit=_MOST_RECORD)
    yield from reader.iter_messages(log_time_order=False)


T = TypeVar("T")


def _said(messages: Iterator[T]) -> Iterator[T]:
    """Yield the same messages or schemas, with the library's errors converted."""
    import zstandard
    from mcap.exceptions import EndOfFile, McapError

    try:
        yield from messages
    except EndOfFile as error:
        raise RecordingError("the file ends early: its writer was interrupted") from error
    except (McapError, zstandard.ZstdError, RuntimeError, ValueError, KeyError, struct.error) as error:
        raise RecordingError(f"no whole MCAP: {error}") from error
    except (MemoryError, OverflowError) as error:
        raise RecordingError("no whole MCAP: a length or place is out of all bounds") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise RecordingError("no whole MCAP: an index points out of the file") from error


class _Fixed(NamedTuple):
    """The fields that a channel gives for all of its messages."""

    timed: bool
    values: dict[str, Any]


class _Rows:
    """Collects messages into a batch."""

    def __init__(self, wanted: set[str]) -> None:
        self._fields = [field for field in SAMPLE.arrow() if field.name in wanted - {*_PLACE}]
        self._numbers: dict[int, int] = {}
        self._channels: list[_Fixed] = []
        self._of: list[int] = []
        self.messages: list[Message] = []
        self.size = 0

    def add(self, schema: Schema | None, channel: Channel, message: Message) -> None:
        number = self._numbers.get(channel.id)
        if number is None:
            number = self._numbers[channel.id] = len(self._channels)
            self._channels.append(_fixed(schema, channel))
        self._of.append(number)
        self.messages.append(message)
        self.size += len(message.data)

    def batch(self) -> pa.RecordBatch:
        """Return the batch of the collected messages, and start the next one."""
        channels = pa.array(self._of, pa.int32())

        def of_channels(values: list[Any], kind: pa.DataType) -> pa.Array:
            return pa.array(values, kind).take(channels)

        def where(known: list[bool], column: pa.Array) -> pa.Array:
            return pc.if_else(of_channels(known, pa.bool_()), column, pa.scalar(None, column.type))

        messages = self.messages
        timed = [channel.timed for channel in self._channels]
        made = pa.array([message.publish_time for message in messages], pa.uint64())
        logged = pa.array([message.log_time for message in messages], pa.uint64())
        columns = []
        for field in self._fields:
            match field.name:
                case "recv_ts":
                    column = _micros(logged)
                case "timestamp":
                    column = where(timed, _micros(made))
                case "hlc":
                    column = where(timed, _hlc(made))
                case "payload":
                    column = pa.array([message.data for message in messages], field.type)
                    column = where([channel.values["kind"] != "del" for channel in self._channels], column)
                case "source_sn":
                    column = pa.array([message.sequence for message in messages], field.type)
                    column = where(["source_zid" in channel.values for channel in self._channels], column)
                case name:
                    column = of_channels([channel.values.get(name) for channel in self._channels], field.type)
            columns.append(column)
        self._of, self.messages, self.size = [], [], 0
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(self._fields))


def _micros(nanos: pa.Array) -> pa.Array:
    return pc.divide(nanos, 1000).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


def _hlc(nanos: pa.Array) -> pa.Array:
    """Return the bits of time stamps; null for times later than 2106."""
    second, bits = (pa.scalar(number, pa.uint64()) for number in (1_000_000_000, 32))
    seconds = pc.divide(nanos, second)
    rest = pc.subtract(nanos, pc.multiply(seconds, second))
    whole = pc.shift_left(seconds, bits)
    found = pc.add(whole, pc.divide(pc.shift_left(rest, bits), second))
    late = pc.not_equal(pc.shift_right(seconds, bits), pa.scalar(0, pa.uint64()))
    return pc.if_else(late, pa.scalar(None, pa.uint64()), found).view(pa.int64())


def _fixed(schema: Schema | None, channel: Channel) -> _Fixed:
    known = channel.metadata.items()
    said = {name.removeprefix(_PREFIX): value for name, value in known if name.startswith(_PREFIX)}
    if "kind" not in said:
        # Another program wrote the file: topics of ROS begin with a slash, and keys do not.
        encoding = _ENCODINGS.get(channel.message_encoding, channel.message_encoding) or None
        if encoding is not None and schema is not None and schema.name:
            encoding = f"{encoding};{schema.name}"
        values = {"key": channel.topic.strip("/"), "encoding": encoding, "kind": "put"}
        return _Fixed(timed=True, values=values)
    for name, (new, texts) in _FORMER.items():
        if (text := texts.get(said.get(name, ""))) is not None:
            said[new] = text
    made = {name: _value(name, said[name]) for name in _FIXED if name in said}
    return _Fixed(timed="timestamp" in said, values={"key": channel.topic, **made})


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(name: str, text: str) -> Any:  # noqa: ANN401 - of the column
    kind = dict(SAMPLE.columns)[name]
    if kind == "string":
        return text
    if kind == "binary":
        return bytes.fromhex(text)
    return text == "true" if kind == "boolean" else int(text)


def _nanos(ntp64: int) -> int:
    # Rounded up, since conversion of an instant to a time stamp rounds down.
    return (ntp64 >> 32) * 1_000_000_000 - (-(ntp64 & 0xFFFF_FFFF) * 1_000_000_000 >> 32)


class McapWriter:
    """Writes batches of samples; ``close`` completes the file."""

    def __init__(
        self, file: IO[bytes], schemas: Mapping[str, McapSchema] | None = None, *, compress: bool = True
    ) -> None:
        library("mcap", "record")
        from mcap.writer import CompressionType, Writer

        from zwire import __version__

        self._writer = Writer(file, compression=CompressionType.ZSTD if compress else CompressionType.NONE)
        self._writer.start(profile="", library=f"zwire {__version__}")
        self._known = {} if schemas is None else schemas
        self._schemas: dict[str, int] = {}
        self._channels: dict[tuple[object, ...], int] = {}
        self._counts: dict[int, int] = {}
        self.rows = 0

    def write(self, batch: pa.RecordBatch, *, skip: bool = False) -> int:
        """Write the rows of a batch of samples; return how many were left out.

        Args:
            batch: The rows.
            skip: Leave out rows that have no channel, when the file has no more. Without, they are an error.

        Raises:
            RecordingError: A row has no place in the file; those before it are written.
        """
        refused = 0
        cells = {name: batch.column(name) for name in COLUMNS if name not in _PLACE}
        for name in ("timestamp", "recv_ts"):
            cells[name] = cells[name].cast("int64")
        lists = {name: column.to_pylist() for name, column in cells.items()}
        fixed = zip(*(lists[name] for name in _FIXED), strict=True)
        others = ("key", "payload", "timestamp", "hlc", "source_sn", "recv_ts")
        rest = zip(*(lists[name] for name in others), strict=True)
        for same, (key, payload, ts, hlc, number, recv_ts) in zip(fixed, rest, strict=True):
            made = ts * 1000 if hlc is None and ts is not None else None
            if hlc is not None:
                made = _nanos(hlc & (1 << 64) - 1)
            logged = made if recv_ts is None else recv_ts * 1000
            if logged is None:
                raise self._unfit(key, "neither recv_ts nor timestamp is set, and MCAP needs one")
            identity = (key, made is not None, *same)
            channel = self._channels.get(identity)
            if channel is None:
                if skip and len(self._channels) >= _MOST_CHANNELS:
                    refused += 1
                    continue
                channel = self._channel(identity)
            count = self._counts[channel] = self._counts[channel] + 1
            self._writer.add_message(
                channel_id=channel,
                log_time=logged,
                data=payload or b"",
                publish_time=logged if made is None else made,
                sequence=(count if number is None else number) & 0xFFFF_FFFF,
            )
            self.rows += 1
        return refused

    def _channel(self, identity: tuple[object, ...]) -> int:
        key, timed, *same = identity
        if len(self._channels) >= _MOST_CHANNELS:
            problem = f"an MCAP has at most {_MOST_CHANNELS} channels, and this would be"
            raise self._unfit(key, f"{problem} one more key, or one more sender or kind of a key")
        fixed = zip(_FIXED, same, strict=True)
        said = {_PREFIX + name: _text(value) for name, value in fixed if value is not None}
        said.setdefault(f"{_PREFIX}kind", "put")
        if timed:
            said[_TIMED] = "true"
        encoding, _, name = said.get(f"{_PREFIX}encoding", "").partition(";")
        channel = self._writer.register_channel(
            topic=str(key),
            message_encoding=_NAMES.get(encoding, encoding),
            schema_id=self._schema(name),
            metadata=said,
        )
        self._channels[identity] = channel
        self._counts[channel] = 0
        return channel

    def _unfit(self, key: object, reason: str) -> RecordingError:
        return RecordingError(f"row {self.rows}, key {key!r}: {reason}", rows=self.rows)

    def _schema(self, name: str) -> int:
        if not name:
            return 0
        if name not in self._schemas:
            # Without a definition only the name is written (MCAP: an empty encoding means that).
            encoding, data = self._known.get(name, ("", b""))
            self._schemas[name] = self._writer.register_schema(name=name, encoding=encoding, data=data)
        return self._schemas[name]

    def flush(self) -> None:
        """End the chunk, and give all rows to the system, so that the end of the process loses none."""
        self._writer.flush()  # type: ignore[no-untyped-call]  # the library says no type here

    def note(self, name: str, fields: dict[str, str]) -> None:
        """Write a record of metadata."""
        self._writer.add_metadata(name, fields)

    def close(self) -> None:
        """Write index and summary."""
        self._writer.finish()  # type: ignore[no-untyped-call]  # the library says no type here
