"""Row schemas of everything that goes into Spark or comes out, each in one place.

All columns are nullable, and only of types that Spark takes from Arrow without a conversion: no dictionaries,
no unsigned integers, no nanoseconds. ``schema.REPLY.ddl`` is for SQL and ``createDataFrame``, ``.spark()``
for ``mapInArrow``, ``.arrow()`` for pyarrow.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "DECODE",
    "GAP",
    "PUT",
    "REPLY",
    "SAMPLE",
    "SELECTED",
    "SUMMARY",
    "TOLD",
    "ZRE",
    "ZRE_LOG",
    "RowSchema",
]


@dataclasses.dataclass(frozen=True)
class RowSchema:
    """Names and SQL types of columns, in order."""

    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def ddl(self) -> str:
        """The schema as a DDL text."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    def select(self, names: Iterable[str]) -> RowSchema:
        """Give the schema of some of the columns, in the order of the names.

        Raises:
            ValueError: A name is that of no column, or there twice, or there is none.
        """
        kinds = dict(self.columns)
        wanted = tuple(names)
        for name in wanted:
            if name not in kinds:
                raise ValueError(f"column {name!r} is not one of {', '.join(self.names)}")
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError("columns must be at least one, and each once")
        return RowSchema(tuple((name, kinds[name]) for name in wanted))

    def arrow(self) -> pa.Schema:
        """Give the schema for pyarrow."""
        return _arrow(self)

    def spark(self) -> StructType:
        """Give the schema for Spark."""
        return _spark(self)


@functools.cache
def _arrow(schema: RowSchema) -> pa.Schema:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", "UTC"),
        # As Spark names the items of an array.
        "array<string>": pa.list_(pa.field("element", pa.string())),
        "array<binary>": pa.list_(pa.field("element", pa.binary())),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in schema.columns])


def _spark(schema: RowSchema) -> StructType:
    from pyspark.sql import types

    text, octets = types.StringType(), types.BinaryType()
    kinds = {
        "string": text,
        "binary": octets,
        "boolean": types.BooleanType(),
        "tinyint": types.ByteType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "double": types.DoubleType(),
        "timestamp": types.TimestampType(),
        "array<string>": types.ArrayType(text),
        "array<binary>": types.ArrayType(octets),
        "map<string,string>": types.MapType(text, text),
    }
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in schema.columns])


PUT = RowSchema(
    (
        ("key", "string"),
        ("payload", "binary"),
        ("encoding", "string"),
        ("attachment", "binary"),
        ("kind", "string"),
        ("priority", "tinyint"),
        ("congestion", "string"),
        ("express", "boolean"),
        ("ts", "timestamp"),
        ("hlc", "bigint"),
        ("hlc_id", "binary"),
    )
)
"""What ``put`` takes. Only ``key`` and ``payload`` have to be there; a null payload is a deletion.

``kind`` is ``put`` or ``del``, ``priority`` 1 (real time) to 7 (background), ``congestion`` ``drop``,
``block`` or ``block_first``. ``payload`` and ``attachment`` may also be strings. ``ts``, or all 64 bits of it
as ``hlc``, is the time stamp, and ``hlc_id`` says whose clock it is of: as ``SAMPLE`` has them, and of the
session where a row says nothing.
"""

SUMMARY = RowSchema((("rows", "bigint"), ("bytes", "bigint"), ("dropped", "bigint"), ("seconds", "double")))
"""What ``put`` gives, a row for each partition.

``rows`` were handed to the network with ``bytes`` of payload; ``dropped`` were not, or fell to congestion
control.
"""

REPLY = RowSchema(
    (
        ("key", "string"),
        ("payload", "binary"),
        ("encoding", "string"),
        ("timestamp", "timestamp"),
        ("replier", "string"),
        ("error", "string"),
    )
)
"""What ``get`` gives, a row for each reply.

Of a deletion ``payload`` and ``encoding`` are null. An error reply has ``error``, and its bytes in
``payload``; a query that nobody could answer any more (its time was up, the link was lost) has ``error``
alone. ``replier`` is the id of the node that answered, where it says so.
"""

SELECTED = RowSchema((*REPLY.columns, ("selector", "string")))
"""What ``spark.read.format("zwire")`` gives for selectors: the columns of ``REPLY``, and what was asked."""

TOLD = RowSchema(
    (
        ("rows", "bigint"),
        ("bytes", "bigint"),
        ("queued", "bigint"),
        ("full", "bigint"),
        ("not_responding", "bigint"),
        ("refused", "bigint"),
        ("skipped", "bigint"),
        ("seconds", "double"),
    )
)
"""What ``shout`` and ``whisper`` give, a row for each partition.

``rows`` were taken by the queue of at least one peer, with ``bytes`` of content; ``skipped`` by none. The
copies of all rows are ``queued`` or not: too many messages waited (``full``), the connection had failed
(``not_responding``), or the content had several frames and the peer takes one (``refused``).
"""

DECODE = RowSchema(
    (
        ("ts", "timestamp"),
        ("src", "string"),
        ("dst", "string"),
        ("protocol", "string"),
        ("message", "string"),
        ("kind", "string"),
        ("key", "string"),
        ("scope", "int"),
        ("suffix", "string"),
        ("payload", "binary"),
        ("encoding", "string"),
        ("timestamp", "string"),
        ("attachment", "binary"),
        ("priority", "tinyint"),
        ("congestion", "string"),
        ("express", "boolean"),
        ("request_id", "bigint"),
        ("parameters", "string"),
        ("consolidation", "string"),
        ("target", "string"),
        ("sn", "bigint"),
        ("peer", "string"),
        ("name", "string"),
        ("address", "string"),
        ("group", "string"),
        ("sequence", "int"),
        ("status", "int"),
        ("groups", "array<string>"),
        ("headers", "map<string,string>"),
        ("content", "array<binary>"),
        ("error", "string"),
        ("offset", "bigint"),
        ("file", "string"),
    )
)
"""What ``decode`` gives, a row for each message: the columns of :mod:`zwire.capture`, then ``file``.

``file`` is the path of the capture as it was given, null for bytes without a name. Bytes that do not decode
are a row with ``message`` ``error``, the reason in ``error`` and the place in ``offset``; so is a file that
cannot be read or is no capture, and that row has no addresses.
"""

SAMPLE = RowSchema(
    (
        ("key", "string"),
        ("payload", "binary"),
        ("kind", "tinyint"),
        ("encoding", "string"),
        ("ts", "timestamp"),
        ("hlc", "bigint"),
        ("hlc_id", "binary"),
        ("source_zid", "binary"),
        ("source_eid", "bigint"),
        ("source_sn", "bigint"),
        ("attachment", "binary"),
        ("priority", "tinyint"),
        ("congestion_block", "boolean"),
        ("express", "boolean"),
        ("reliable", "boolean"),
        ("link", "string"),
        ("recv_ts", "timestamp"),
        ("shard", "int"),
        ("offset", "bigint"),
    )
)
"""Rows of a spool of Zenoh, one for each sample.

``kind`` is 0 for a put and 1 for a deletion, whose ``payload`` is null. ``ts`` is the timestamp of the sample
cut to microseconds, ``hlc`` all 64 bits of it (negative from 2038 on), ``hlc_id`` who made it; null where
there is none. ``source_zid``, ``source_eid`` and ``source_sn`` are its source information: publishers that
number their samples can be checked by them. ``link`` is the locator of the neighbour that it came from,
``recv_ts`` when it came. ``shard`` and ``offset`` are its place in the spool: unique, and without holes.
"""

GAP = RowSchema(
    (
        ("shard", "int"),
        ("offset", "bigint"),
        ("kind", "string"),
        ("source_zid", "binary"),
        ("source_eid", "bigint"),
        ("sn_from", "bigint"),
        ("sn_to", "bigint"),
        ("count", "bigint"),
        ("recv_ts", "timestamp"),
        ("detail", "string"),
    )
)
"""Rows of a spool's log of gaps: what is missing in front of ``offset`` of ``shard``.

``kind`` is ``gap``, ``drop``, ``reconnect``, ``epoch`` (a spooler was started) or ``duplicate``. ``sn_from``
and ``sn_to`` are the first and the last number that is missing of a publisher, ``count`` how many messages,
where that is known. ``recv_ts`` is when it was noticed, ``detail`` says it in words.
"""

ZRE = RowSchema(
    (
        ("event", "string"),
        ("peer", "binary"),
        ("peer_name", "string"),
        ("group", "string"),
        ("headers", "map<string,string>"),
        ("content", "array<binary>"),
        ("status", "int"),
        ("sequence", "int"),
        ("endpoint", "string"),
        ("version", "int"),
        ("recv_ts", "timestamp"),
        ("shard", "int"),
        ("offset", "bigint"),
    )
)
"""Rows of a spool of ZRE, one for each event.

``event`` is ``ENTER``, ``EXIT``, ``JOIN``, ``LEAVE``, ``WHISPER``, ``SHOUT``, ``EVASIVE``, ``SILENT`` or
``LEADER``; ``peer`` the 16 bytes of the UUID of whom it is about, ``content`` the frames of a message,
``version`` 1, 2 or 3.
"""

ZRE_LOG = RowSchema(
    (
        ("level", "tinyint"),
        ("event", "tinyint"),
        ("node", "int"),
        ("peer", "int"),
        ("time", "timestamp"),
        ("data", "string"),
        ("recv_ts", "timestamp"),
        ("shard", "int"),
        ("offset", "bigint"),
    )
)
"""Rows of a spool of ZRE/LOG, one for each record.

``level`` is 1 (error), 2 (warning) or 3 (info), ``event`` 1 (join) to 6 (receive), ``node`` and ``peer`` are
hashes.
"""
