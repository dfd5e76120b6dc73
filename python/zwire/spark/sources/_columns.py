"""Columns that are published: what they may be, checked before the job, and as what they are sent."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from zwire._lazy import pa, pc
from zwire.columns import deprecated, renamed
from zwire.spark import schema
from zwire.spark.sources._writers import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

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

_KINDS = ["put", "del"]


def check(given: StructType, *, key: str | None, ids: Sequence[str] = ()) -> None:
    """Refuse columns that mean nothing or are of a wrong type, and the lack of those that are needed.

    Args:
        given: Of the DataFrame.
        key: The key of all rows, where there is one.
        ids: Columns that say which row it is, and are not published.

    Raises:
        ValueError: As said.
    """
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
    """Give the columns of a batch as ``put_batch`` takes them.

    Raises:
        ValueError: A number is out of range; the message names the column.
    """
    names, columns = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ids:
            continue
        made = column
        if name == "kind" and pa.types.is_integer(column.type):
            made = _chosen(name, column, _KINDS)
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


def _chosen(name: str, column: pa.Array, words: list[str]) -> pa.Array:
    bounds = pc.min_max(column).as_py()
    for number in bounds.values():
        if number is not None and not 0 <= number < len(words):
            raise ValueError(f"column {name!r} has {number}, and {len(words) - 1} is the highest")
    return pc.take(pa.array(words), column)
