"""Columns of all rows that zwire returns or accepts: names, types and meanings.

The tables come from the compiled module, which builds its batches with them. A name has one type in all
tables. All columns are nullable, and have types that Spark reads from Arrow without a conversion: no
dictionaries, no unsigned integers, no nanoseconds. ``columns.SAMPLE.arrow()`` is for pyarrow, ``.ddl`` for
SQL and ``createDataFrame``, ``.spark()`` for ``mapInArrow``.

Former names of columns are accepted as input for one release, with a ``DeprecationWarning`` that names the
present one. Rows that are read or received have the present names.
"""

from __future__ import annotations

import functools
import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zwire._lazy import pa
from zwire._zwire import column_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zwire.spark._types import StructType

__all__ = [
    "GAP",
    "PUT",
    "RECEIVED",
    "RECORD",
    "REPLY",
    "SAMPLE",
    "ZMTP",
    "ZMTP_ROUTER",
    "ZRE",
    "ZRE_LOG",
    "ZRE_RECEIVED",
    "RowSchema",
]


@dataclass(frozen=True)
class RowSchema:
    """Names and SQL types of columns, in order."""

    columns: tuple[tuple[str, str], ...]
    meanings: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Meanings of the columns, by name."""
    renamed: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Former names with the present ones."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def ddl(self) -> str:
        """The schema as a DDL text."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    def present(self, name: str) -> str:
        """Return the present name of a column, and warn if ``name`` is its former one."""
        new = self.renamed.get(name)
        if new is None:
            return name
        renamed(name, new)
        return new

    def select(self, names: Iterable[str]) -> RowSchema:
        """Return the schema of some columns, in the order of the names.

        Raises:
            ValueError: A name is unknown or appears twice, or there are no names.
        """
        kinds = dict(self.columns)
        wanted = tuple(self.present(name) for name in names)
        for name in wanted:
            if name not in kinds:
                raise ValueError(f"column {name!r} is not one of {', '.join(self.names)}")
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError("columns must be at least one, and each once")
        return RowSchema(tuple((name, kinds[name]) for name in wanted), self.meanings, self.renamed)

    def extended(self, **more: tuple[str, str]) -> RowSchema:
        """Return the schema with columns appended, given as SQL type and meaning by name."""
        columns = (*self.columns, *((name, kind) for name, (kind, _) in more.items()))
        meanings = {**self.meanings, **{name: meaning for name, (_, meaning) in more.items()}}
        return RowSchema(columns, meanings, self.renamed)

    def arrow(self) -> pa.Schema:
        """Return the schema for pyarrow."""
        return _arrow(self)

    def spark(self) -> StructType:
        """Return the schema for Spark."""
        from zwire.spark._types import struct

        return struct(self.columns)


def renamed(name: str, new: str) -> None:
    """Warn that a column was given by its former name."""
    deprecated(f"column {name!r} is called {new!r} now; the former name will be refused in the next release")


def deprecated(problem: str) -> None:
    """Warn of input that is accepted for one more release, at the line of the calling program."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - the frame is of this function
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "zwire":
        level, frame = level + 1, frame.f_back
    warnings.warn(problem, DeprecationWarning, stacklevel=level)


@functools.cache
def _arrow(schema: RowSchema) -> pa.Schema:
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


_TABLES = column_tables()


def _table(name: str) -> RowSchema:
    columns, former = _TABLES[name]
    kinds = tuple((column, kind) for column, kind, _ in columns)
    return RowSchema(kinds, {column: meaning for column, _, meaning in columns}, former)


SAMPLE = _table("sample")
"""Samples in spools and recordings, and as Spark reads them.

A spool stores only whether ``congestion`` is ``drop``, so that ``block_first`` is read as ``block``. The
``payload`` of a deletion is null. ``timestamp``, ``hlc`` and ``hlc_id`` are null for a sample without a time
stamp. ``source_zid``, ``source_eid`` and ``source_sn`` are its source information, by which missing samples
of numbering publishers are detected. ``shard`` and ``offset`` are the place in the spool: unique, without
holes.
"""

RECEIVED = _table("received")
"""Rows of ``recv_batch`` of a subscriber."""

PUT = _table("put")
"""Rows of ``put_batch`` and of ``put`` of Spark. Only ``key`` and ``payload`` are required.

``payload`` and ``attachment`` may also be strings. A null payload is a deletion in Spark. ``timestamp``, or
all 64 bits of it as ``hlc``, is the time stamp; ``hlc_id`` is its clock, by default that of the session.
"""

REPLY = _table("reply")
"""Rows of ``get`` of Spark, one for each reply.

``payload`` and ``encoding`` of a deletion are null. An error reply has ``error``, and its bytes in
``payload``; a query that ended without an answer (timeout, lost link) has ``error`` alone. ``replier`` is
null if the reply does not name its sender.
"""

RECORD = _table("record")
"""Messages in captured traffic; :mod:`zwire.capture` describes each column."""

GAP = _table("gap")
"""Rows of the gap log of a spool: messages missing before ``offset`` of ``shard``."""

ZRE = _table("zre")
"""Events of a ZRE network in spools, and as Spark reads them."""

ZRE_RECEIVED = _table("zre_received")
"""Rows of ``recv_batch`` of a ZRE node."""

ZRE_LOG = _table("zre_log")
"""Records of ZRE/LOG in spools, and as Spark reads them."""

ZMTP = _table("zmtp")
"""Rows of ``recv_batch`` of a ZMTP socket."""

ZMTP_ROUTER = _table("zmtp_router")
"""Rows of ``recv_batch`` of a ROUTER socket."""
