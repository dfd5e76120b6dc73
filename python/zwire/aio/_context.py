"""Support for ``async with`` and ``await``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import GenericAlias

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any, Generic, Self, TypeVar

    T = TypeVar("T")
    C = TypeVar("C", bound="Context")
else:
    T = C = object

    class Generic:
        """Stand-in for the class of typing: its subclasses may be subscripted."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = ["Beginning", "Context", "Generic", "Ready", "T"]


class _Left(ABC):
    """Base of objects that ``async with`` ends."""

    __slots__ = ()

    @abstractmethod
    async def _leave(self) -> None:
        """End the object; repeated calls have no effect."""

    async def __aexit__(self, *_error: object) -> None:
        await self._leave()


class Context(_Left):
    """An object that exists already, entered with ``async with`` and ended by it."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self


class Ready:
    """An object that is ready without waiting: ``await`` returns it, where that reads better."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Self]:
        """Return self without waiting."""
        return self
        yield  # what makes it a generator


class Beginning(_Left, Generic[C]):
    """An operation not yet begun: ``await`` it, or enter it with ``async with``, which also ends it."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._begin = begin
        self._begun: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._begin().__await__()

    async def __aenter__(self) -> C:
        self._begun = await self._begin()
        return self._begun

    async def _leave(self) -> None:
        if self._begun is not None:
            await self._begun._leave()  # noqa: SLF001 - of the same file
