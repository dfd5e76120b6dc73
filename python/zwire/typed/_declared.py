"""What everything typed has that is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Declared"]


class Declared:
    """What ends with ``undeclare``, or ``with``."""

    _declared: Any

    def undeclare(self) -> None:
        """End it. A second time is a ``UsageError``."""
        self._declared.undeclare()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undeclare()
