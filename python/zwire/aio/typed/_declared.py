"""Bases of the typed entities in event loops, their iterators and handlers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from zwire import aio
from zwire.aio._context import Context, Ready
from zwire.typed import _entities, _queries
from zwire.typed._entities import LEFT_OUT
from zwire.typed._queries import Q, R, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

    from zwire.typed._values import Reader

T = TypeVar("T")


class Declared(Context, Ready):
    """An entity ended by ``undeclare`` or ``async with``."""

    _declared: Any

    async def undeclare(self) -> None:
        """Undeclare the entity. A second call raises ``UsageError``."""
        await self._declared.undeclare()

    async def _leave(self) -> None:
        await self._declared.__aexit__(None, None, None)


class Asked(_queries.Asked[R, Q], Context):
    """A query with its value."""

    __slots__ = ()

    async def _leave(self) -> None:
        self.drop()

    async def __aexit__(self, *error: object) -> None:
        await self.raw.__aexit__(*error)


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


class Queries(Items["Awaitable[T]"]):
    """Queries that were decoded without an error; reading one may wait."""

    async def __anext__(self) -> T:  # type: ignore[override]
        while True:
            item = await self._read(await anext(self._source))
            if item is not LEFT_OUT:
                return item


class Replies(Generic[R]):
    """A query in progress: ``await`` it for a list of the replies, or ``async for`` as they come."""

    def __init__(self, raw: aio.Replies, reader: Reader[R]) -> None:
        """Read the replies of a get."""
        self._raw = raw
        self._reader = reader

    @property
    def raw(self) -> aio.Replies:
        """The untyped replies underneath."""
        return self._raw

    @property
    def end(self) -> str | None:
        """The outcome, as ``aio.Replies.end``; ``None`` while the query runs."""
        return self._raw.end

    def cancel(self) -> None:
        """End the query early."""
        self._raw.cancel()

    def __repr__(self) -> str:
        return f"<Replies {self._raw!r}>"

    async def _all(self) -> list[Reply[R]]:
        return [Reply(raw, self._reader) for raw in await self._raw]

    def __await__(self) -> Generator[Any, None, list[Reply[R]]]:
        return self._all().__await__()

    def __aiter__(self) -> AsyncIterator[Reply[R]]:
        return Items(aiter(self._raw), lambda raw: Reply(raw, self._reader))


def wrap(handler: Any, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - a channel or a callback
    """Turn a callback of values into one of samples; a channel is returned unchanged."""
    if isinstance(handler, aio.Callback):
        return _like(handler, _entities.wrap(handler.callback, read))
    return _entities.wrap(handler, read)


def answering(handler: Any, read: Callable[[Any], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as above
    """Turn a callback of values into one of queries; a channel is returned unchanged."""
    if not callable(handler):
        return handler
    call = handler.callback if isinstance(handler, aio.Callback) else handler

    @functools.wraps(call)
    async def answer(raw: aio.Query) -> None:
        query = await read(raw)
        result = None if query is LEFT_OUT else call(query)
        if hasattr(result, "__await__"):
            await result

    return _like(handler, answer) if isinstance(handler, aio.Callback) else answer


def _like(handler: aio.Callback[Any], call: Callable[[Any], object]) -> aio.Callback[Any]:
    """Make a callback with the settings of another."""
    return aio.Callback(call, handler.drop, concurrency=handler.concurrency, on_error=handler.on_error)
