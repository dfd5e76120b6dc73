"""Keys and sizes of rows in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Iterable

REMEMBERED = 65_536
"""Most keys with a cached answer. Beyond it the cache is cleared, so that new keys do not fill the memory."""


def unique(column: pa.Array) -> tuple[list[str | None], pa.Array]:
    """Return the distinct texts of a column, and for each row the index of its text, null for a null."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column.dictionary.to_pylist(), column.indices


class KeyFilter:
    """Filter for keys that intersect one of a few key expressions; an invalid key never passes.

    Raises:
        KeyExprError: One of the expressions is invalid.
    """

    def __init__(self, expressions: Iterable[str]) -> None:
        from zwire.zenoh import KeyExpr

        self._expressions = [KeyExpr(text) for text in expressions]
        self._known: dict[str, bool] = {}

    def mask(self, keys: pa.Array) -> pa.Array:
        """Return for each key whether it is selected."""
        names, indices = unique(keys)
        if len(self._known) > REMEMBERED:
            self._known.clear()
        found = [name is not None and self._wants(name) for name in names]
        return pa.array(found, pa.bool_()).take(indices).fill_null(False)

    def _wants(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._intersects(name)
        return known

    def _intersects(self, name: str) -> bool:
        from zwire.zenoh import KeyExpr

        try:
            key = KeyExpr(name)
        except ValueError:
            return False
        return any(expression.intersects(key) for expression in self._expressions)


def payload_bytes(batch: pa.RecordBatch) -> int:
    """Count the bytes of the payloads of a batch."""
    if "payload" not in batch.schema.names:
        return 0
    return int(pc.sum(pc.binary_length(batch.column("payload"))).as_py() or 0)
