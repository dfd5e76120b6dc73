"""A spool as a source of Polars."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source
from pyarrow.dataset import field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.spool._scan import Scan

_log = logging.getLogger("zwire.spool")

_COMPARED = {
    "Eq": lambda a, b: a == b,
    "Gt": lambda a, b: a > b,
    "GtEq": lambda a, b: a >= b,
    "Lt": lambda a, b: a < b,
    "LtEq": lambda a, b: a <= b,
}
_MIRRORED = {"Eq": "Eq", "Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq"}

_BOUNDED = ("recv_ts", "offset", "shard")
"""Columns by which comparisons leave ranges of offsets."""


def scan(source: Scan) -> pl.LazyFrame:
    """Return the rows as a lazy frame: Polars passes columns, predicate and limit to each read."""
    schema = pl.Schema(source.schema)

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(source.table.names) if columns is None else columns
        also = [] if predicate is None else [n for n in predicate.meta.root_names() if n not in wanted]
        bounds = None if predicate is None else _bounds(predicate, source.schema)
        ranges = source.left_by(bounds)
        names = [*wanted, *also] or [source.table.names[-1]]
        for batch in source.batches(names, ranges=ranges, limit=limit):
            frame = pl.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(wanted)

    return register_io_source(read, schema=schema, is_pure=True)


def _bounds(predicate: pl.Expr, schema: pa.Schema) -> Any:  # noqa: ANN401 - an expression of pyarrow
    """Return the comparisons of a predicate that leave ranges of a spool, as a filter of Arrow."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
        return _conjuncts(tree, schema)
    except (ValueError, KeyError, TypeError, pl.exceptions.PolarsError, pa.ArrowException) as error:
        # The predicate itself is applied to each batch: only more rows are read.
        _log.debug("the predicate %s leaves all rows to read: %r", predicate, error)
        return None


def _conjuncts(tree: dict[str, Any], schema: pa.Schema) -> Any:  # noqa: ANN401
    binary = tree.get("BinaryExpr")
    if binary is None:
        return None
    op, left, right = binary["op"], binary["left"], binary["right"]
    if op in {"And", "LogicalAnd"}:
        found = [part for part in (_conjuncts(left, schema), _conjuncts(right, schema)) if part is not None]
        return found[0] & found[1] if len(found) == 2 else next(iter(found), None)
    if op not in _COMPARED:
        return None
    if "Column" not in left:
        op, left, right = _MIRRORED[op], right, left
    name = left.get("Column")
    if name not in _BOUNDED:
        return None
    other = pl.Expr.deserialize(json.dumps(right).encode(), format="json")
    if other.meta.root_names():
        return None
    value = pl.select(other).item()
    return _COMPARED[op](field(name), pa.scalar(value, schema.field(name).type))
