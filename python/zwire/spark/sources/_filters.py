"""Filters of Spark on Arrow batches, with the logic of SQL: only true lets a row through, not false or null.

Filters accepted here are applied exactly, so Spark need not repeat them. Any that might differ stay with
Spark: nested columns, values of another type than their column, nulls in a list.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from zwire._lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

    from zwire.spark.schema import RowSchema

_MATCHERS = {
    "EqualTo": "equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "StringStartsWith": "starts_with",
    "StringEndsWith": "ends_with",
    "StringContains": "match_substring",
}
"""Functions of Arrow; the last three are for texts only."""

_PYTHON = {"string": str, "binary": bytes, "boolean": bool, "timestamp": datetime}
_WHOLE = {"tinyint": 8, "int": 32, "bigint": 64}


class Filters:
    """Filters applied where rows are made; a row has to pass all of them."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.filters = list(filters)

    @property
    def columns(self) -> list[str]:
        """The columns that the filters are about."""
        return [name for each in self.filters if (name := column_of(each)) is not None]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass. The batch has every column that a filter names."""
        for each in self.filters:
            batch = batch.filter(_mask(each, batch))
        return batch


def split(filters: Iterable[Filter], rows: RowSchema) -> tuple[list[Filter], list[Filter]]:
    """Split filters into those that can be applied exactly to such rows, and the others."""
    kinds = dict(rows.columns)
    taken: list[Filter] = []
    left: list[Filter] = []
    for each in filters:
        (taken if _is_exact(each, kinds) else left).append(each)
    return taken, left


def column_of(each: Any) -> str | None:  # noqa: ANN401 - a filter of any class
    """Return the column of a filter; None if it refers to a part of one."""
    inner = getattr(each, "child", each)
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else None


def _is_exact(each: Any, kinds: dict[str, str]) -> bool:  # noqa: ANN401 - a filter of any class
    name = type(each).__name__
    if name == "Not":
        return _is_exact(each.child, kinds)
    column = column_of(each)
    if column not in kinds:
        return False
    if name in ("IsNull", "IsNotNull"):
        return True
    kind = kinds[column]
    if name == "In":
        return all(_fits(value, kind) for value in each.value)
    if name == "EqualNullSafe":
        return _fits(each.value, kind)
    if name not in _MATCHERS or not _fits(each.value, kind):
        return False
    if name.startswith("String"):
        return kind == "string"
    return kind != "boolean" or name == "EqualTo"


def _fits(value: Any, kind: str) -> bool:  # noqa: ANN401 - whatever SQL compares with
    if kind in _WHOLE:
        bound = 1 << (_WHOLE[kind] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if not isinstance(value, _PYTHON.get(kind, ())):
        return False
    return not isinstance(value, datetime) or value.tzinfo is not None


def _mask(each: Any, batch: pa.RecordBatch) -> pa.Array:  # noqa: ANN401 - a filter of any class
    """Return true, false or null for each row."""
    name = type(each).__name__
    if name == "Not":
        return pc.invert(_mask(each.child, batch))
    column = batch.column(column_of(each))
    if name == "IsNull":
        return pc.is_null(column)
    if name == "IsNotNull":
        return pc.is_valid(column)
    if name == "In":
        found = pc.is_in(column, value_set=pa.array(each.value, column.type))
        return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))
    if name.startswith("String"):
        return getattr(pc, _MATCHERS[name])(column, each.value)
    value = pa.scalar(each.value, column.type)
    if name == "EqualNullSafe":
        return pc.fill_null(pc.equal(column, value), fill_value=False)
    return getattr(pc, _MATCHERS[name])(column, value)
