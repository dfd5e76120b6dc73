"""Bases of the typed entities in event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from zwire.aio._context import Context, Ready
from zwire.typed._entities import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Declared", "Items"]

T = TypeVar("T")


class Declared(Context, Ready):
    """An entity ended by ``undeclare`` or ``async with``."""

    _declared: Any

    async def undeclare(self) -> None:
        """Undeclare the entity. A second call raises ``UsageError``."""
        await self._declared.undeclare()

    async def _leave(self) -> None:
        await self._declared.__aexit__(None, None, None)


class Items(Generic[T]):
    """Values made of the items of an iterator. A cancelled call has taken no item; iteration may go on."""

    def __init__(self, source: AsyncIterator[Any], read: Callable[[Any], T]) -> None:
        """Wrap the items of the source; items for which ``read`` returns ``LEFT_OUT`` are skipped."""
        self._source = source
        self._read = read

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            item = self._read(await anext(self._source))
            if item is not LEFT_OUT:
                return item
