"""Bases of the typed entities."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from types import TracebackType

    from zwire import zenoh

__all__ = ["Counting", "Declared", "Keyed"]


class Keyed:
    """An entity declared on a key expression, in either interface."""

    _declared: Any

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression."""
        return cast("zenoh.KeyExpr", self._declared.key_expr)


class Counting(Keyed):
    """A reader of payloads that counts those that are no values of its model."""

    def __init__(self) -> None:
        """Start the count at 0."""
        self._failed = 0
        # Callbacks may run in several threads.
        self._lock = threading.Lock()

    @property
    def failed(self) -> int:
        """Number of payloads so far that were no values of the model."""
        return self._failed

    def _count_failure(self) -> None:
        with self._lock:
            self._failed += 1


class Declared:
    """An entity ended by ``undeclare`` or ``with``."""

    _declared: Any

    def undeclare(self) -> None:
        """Undeclare the entity. A second call raises ``UsageError``."""
        self._declared.undeclare()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undeclare()
