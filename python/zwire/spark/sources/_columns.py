"""Columns that are published: their types, checked before the job; their conversion; identities of rows."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from zwire._lazy import pa, pc
from zwire.columns import deprecated, renamed
from zwire.idempotence import SIZE, Identity
from zwire.spark import schema
from zwire.spark.sources._writers import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from pyspark.sql.types import StructType

_OCTETS = ("string", "binary")
_WHOLE = ("tinyint", "smallint", "int", "bigint")

_WIDER = {"binary": _OCTETS, "tinyint": _WHOLE}
"""Types that are taken as well for a type of a column."""

SINK = {name: _WIDER.get(kind, (kind,)) for name, kind in schema.PUT.columns} | {"hlc_id": ("binary",)}
"""Columns that the sink takes, and of which types: those of ``PUT``."""

# A former column had the type of the present one, but a text was a flag.
_FORMER = {
    old: (new, ("boolean",) if "string" in SINK[new] else SINK[new])
    for old, new in schema.SAMPLE.renamed.items()
    if new in SINK
}
"""Former columns: the present one, and the types of the former."""


def check(given: StructType, *, key: str | None, ids: Sequence[str] = ()) -> None:
    """Refuse unknown columns, wrong types, and the lack of needed columns; ``ids`` are not published."""
    kinds = {field.name: field.dataType.simpleString() for field in given}
    for name in ids:
        if kinds.get(name) not in _WHOLE:
            found = f"is {kinds[name]}" if name in kinds else "is not there"
            raise ValueError(f"column {name!r} of idColumns must be a whole number, but {found}")
    for name, kind in kinds.items():
        if name in ids:
            continue
        if name in _FORMER:
            new, allowed = _FORMER[name]
            if new in kinds:
                raise ValueError(f"{name!r} is the former name of the column {new!r}: give one of them only")
            if plain(kind) not in allowed:
                raise ValueError(f"column {name!r} must be {' or '.join(allowed)}, not {kind}")
            renamed(name, new)
            continue
        if name not in SINK:
            near = difflib.get_close_matches(name.lower(), SINK, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"column {name!r} is not one of {', '.join(SINK)}{hint}")
        if name == "kind" and kind in _WHOLE:
            deprecated("column 'kind' is a string, put or del; numbers will be refused in the next release")
        elif plain(kind) not in SINK[name]:
            raise ValueError(f"column {name!r} must be {' or '.join(SINK[name])}, not {kind}")
    for name in ("payload",) if key is not None else ("key", "payload"):
        if name not in kinds:
            missing = " and no option 'key'" if name == "key" else ""
            raise ValueError(f"there is no column {name!r}{missing}")


def to_put(batch: pa.RecordBatch, ids: Sequence[str] = ()) -> pa.RecordBatch:
    """Give the columns of a batch as ``put_batch`` takes them; an error names the column out of range."""
    names, columns = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ids:
            continue
        made = column
        if name == "kind" and pa.types.is_integer(column.type):
            # The former numbers of kinds.
            bounds = pc.min_max(column).as_py()
            for number in bounds.values():
                if number is not None and not 0 <= number <= 1:
                    raise ValueError(f"column {name!r} has {number}, and 1 is the highest")
            made = pc.take(pa.array(["put", "del"]), column)
        elif name == "congestion_block":
            made = pc.if_else(column, "block", "drop")
        elif name == "priority" and column.type != pa.int8():
            try:
                made = column.cast(pa.int8())
            except pa.ArrowInvalid as error:
                raise ValueError(f"column 'priority': {error}") from None
        names.append(_FORMER[name][0] if name in _FORMER else name)
        columns.append(made)
    return pa.RecordBatch.from_arrays(columns, names=names)


class Marks:
    """The identities of the rows of one task, as attachments: equal in each attempt, to detect repeats.

    ``columns`` identify a row: a number for each row, or partition and number; if empty, its position does.
    """

    def __init__(self, query: UUID, batch: int, partition: int, columns: Sequence[str] = ()) -> None:
        self.identity = Identity(query, batch, partition, 0)
        self.columns = columns
        self.rows = 0

    def on(self, batch: pa.RecordBatch, sent: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns ``sent`` of a batch, each attachment prefixed by the identity of its row."""
        import numpy as np

        count = batch.num_rows
        heads = np.zeros(count, np.dtype([("same", "V28"), ("partition", ">u4"), ("row", ">u8")]))
        packed = self.identity.attachment()
        heads["same"] = np.frombuffer(packed[:28], "V28")
        heads["partition"] = self.identity.partition
        if not self.columns:
            heads["row"] = np.arange(self.rows, self.rows + count)
        else:
            *parts, row = self.columns
            heads["row"] = _numbers(batch, row, 1 << 63)
            # Rows are identified by these columns alone, regardless of their partition.
            heads["partition"] = _numbers(batch, parts[0], 1 << 32) if parts else 0
        self.rows += count
        ends = np.arange(0, count * SIZE + 1, SIZE, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(heads)]
        marked = pa.Array.from_buffers(pa.binary(), count, buffers)
        columns = dict(zip(sent.schema.names, sent.columns, strict=True))
        own = columns.get("attachment")
        if own is not None and own.null_count < count:
            own = pc.fill_null(own.cast(pa.binary()), b"")
            marked = pc.binary_join_element_wise(marked, own, b"")
        columns["attachment"] = marked
        return pa.RecordBatch.from_pydict(columns)


def _numbers(batch: pa.RecordBatch, name: str, limit: int) -> object:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} of idColumns holds null")
    low, high = pc.min_max(column).as_py().values()
    if low is not None and not 0 <= low <= high < limit:
        raise ValueError(f"column {name!r} of idColumns holds {low} to {high}, not 0 to {limit - 1}")
    return column.to_numpy(zero_copy_only=False)
