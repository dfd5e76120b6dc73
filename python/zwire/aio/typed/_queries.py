"""Typed queries for event loops: values as payloads of queries and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from zwire import aio
from zwire.aio._context import Context
from zwire.aio._loops import deadline, left
from zwire.aio.typed._declared import Declared, Items
from zwire.typed._entities import LEFT_OUT
from zwire.typed._queries import Answering, Asked, Asking, Reply, question
from zwire.typed._values import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from typing_extensions import Unpack

    from zwire import zenoh
    from zwire.typed import Codec, Registry
    from zwire.typed._entities import AnyChannel
    from zwire.typed._options import (
        A,
        AskOptions,
        GetOptions,
        QuerierOptions,
        QueryableKeywords,
        QueryableOptions,
        ReplyOptions,
    )

__all__ = ["Querier", "Query", "Queryable", "Replies", "Reply", "Serving", "get", "querier", "queryable"]

Q = TypeVar("Q")
R = TypeVar("R")


class Query(Asked[Q, R], Context):
    """A query to answer, any number of times. A context manager, ``async`` or not, which ends it."""

    __slots__ = ()

    raw: aio.Query
    """The query as received."""

    async def reply(
        self, value: R, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]
    ) -> None:
        """Reply with a value; see ``zwire.typed.Query``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was sent.
            UsageError: The keys of queryable and query are wild, so that the key has to be named.
        """
        key = self._key(key_expr)
        writer = self._answering._writer  # noqa: SLF001
        await self.raw.reply(key, writer.write(value, key), encoding=writer.encoding, **options)

    async def reply_del(
        self, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]
    ) -> None:
        """Reply with the deletion of a key; parameters as in :meth:`reply`."""
        await self.raw.reply_del(self._key(key_expr), **options)

    async def reply_err(self, text: str) -> None:
        """Reply with an error; the querier gets a ``QueryError``."""
        await self.raw.reply_err(text, encoding="text/plain")

    async def _leave(self) -> None:
        self.drop()


class Serving(Declared, Answering[Q, R]):
    """A declared queryable that answers by a callback; made by :func:`queryable`."""

    _declared: aio.Queryable

    @property
    def raw(self) -> aio.Queryable:
        """The queryable underneath."""
        return self._declared

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it; ``timeout`` in seconds."""
        await self._declared.wait_ready(timeout)

    async def _query(self, raw: aio.Query) -> Query[Q, R]:
        """Read a query; ``LEFT_OUT`` if it was answered or handed on already."""
        query: Query[Q, R] = Query(raw, self, *self._read(raw))
        if query.error is None:
            return query
        if self._on_error is not None:
            self._on_error(query)
        else:
            async with query:
                await query.reply_err(str(query.error))
        return cast("Query[Q, R]", LEFT_OUT)


class Queryable(Serving[Q, R]):
    """A declared queryable that queues queries; made by :func:`queryable`.

    Iterating gives queries until it is undeclared or its session closes.
    """

    async def recv(self, timeout: float | None = None) -> Query[Q, R]:
        """Wait for a query.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: No query came in time.
            ZwireError: As raised by ``aio.Queryable.recv``.
        """
        end = deadline(timeout)
        while True:
            query = await self._query(await self._declared.recv(left(end)))
            if query is not LEFT_OUT:
                return query

    def __aiter__(self) -> AsyncIterator[Query[Q, R]]:
        return _Queries(self, aiter(self._declared))


class _Queries(Generic[Q, R]):
    """The queries of a queryable that were decoded without an error."""

    def __init__(self, queryable: Queryable[Q, R], source: AsyncIterator[aio.Query]) -> None:
        self._queryable = queryable
        self._source = source

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Query[Q, R]:
        while True:
            query = await self._queryable._query(await anext(self._source))  # noqa: SLF001
            if query is not LEFT_OUT:
                return query


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

    async def _all(self) -> list[Reply[R]]:
        return [Reply(raw, self._reader) for raw in await self._raw]

    def __await__(self) -> Generator[Any, None, list[Reply[R]]]:
        return self._all().__await__()

    def __aiter__(self) -> AsyncIterator[Reply[R]]:
        return Items(aiter(self._raw), lambda raw: Reply(raw, self._reader))


class Querier(Declared, Asking[Q, R]):
    """Sends values of one model on a key expression, receives values of another; made by :func:`querier`."""

    _declared: aio.Querier

    def get(self, value: Q | None = None, **options: Unpack[AskOptions]) -> Replies[R]:
        """Send a query; see ``zwire.typed.Querier``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was asked.
            UsageError: There is a value, and the querier was declared without a ``request``.
        """
        payload, encoding = self._question(value)
        return Replies(self._declared.get(payload=payload, encoding=encoding, **options), self._reader)

    @property
    def raw(self) -> aio.Querier:
        """The querier underneath."""
        return self._declared

    async def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for queryables; ``timeout`` in seconds."""
        await self._declared.wait_matching(n, timeout)


@overload
def queryable(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel | None = None,
    *,
    request: type[A] | None = None,
    **options: Unpack[QueryableKeywords[Query[A, R]]],
) -> Queryable[A, R]: ...
@overload
def queryable(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: Callable[[Query[A, R]], object],
    *,
    request: type[A] | None = None,
    **options: Unpack[QueryableKeywords[Query[A, R]]],
) -> Serving[A, R]: ...
def queryable(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: Any = None,
    *,
    request: type[Any] | None = None,
    codec: Codec | str | None = None,
    on_error: Callable[[Query[Any, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Serving[Any, R]:
    """Declare a queryable with values in queries and replies; see :func:`zwire.typed.queryable`.

    ``handler`` may be a coroutine function, or a ``zwire.aio.Callback``; ``on_error`` is a plain function.
    """
    writer = Writer(reply, codec, None, registry)
    reader = None if request is None else Reader(request, codec, None, registry)
    made: Serving[Any, R] = (Serving if callable(handler) else Queryable)(reader, writer, on_error)
    call = handler.callback if isinstance(handler, aio.Callback) else handler

    async def answer(raw: aio.Query) -> None:
        query = await made._query(raw)  # noqa: SLF001
        result = None if query is LEFT_OUT else call(query)
        if hasattr(result, "__await__"):
            await result

    inner: Any = handler
    if isinstance(handler, aio.Callback):
        inner = aio.Callback(answer, handler.drop, concurrency=handler.concurrency, on_error=handler.on_error)
    elif callable(handler):
        inner = answer
    made._declared = session.declare_queryable(key_expr, inner, **options)  # noqa: SLF001
    return made


def querier(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    *,
    request: type[A] | None = None,
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[QuerierOptions],
) -> Querier[A, R]:
    """Declare a querier, for repeated queries on a key expression; see :func:`zwire.typed.querier`."""
    reader = Reader(reply, codec, None, registry)
    writer = None if request is None else Writer(request, codec, None, registry)
    return Querier(session.declare_querier(key_expr, **options), writer, reader)


def get(
    session: aio.Session,
    selector: zenoh.Selector | zenoh.KeyExpr | str,
    reply: type[R],
    value: object = None,
    *,
    request: Any = None,  # noqa: ANN401 - any type
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[GetOptions],
) -> Replies[R]:
    """Send one query; see :func:`zwire.typed.get`."""
    reader = Reader(reply, codec, None, registry)
    payload, encoding = question(value, request, codec, registry, selector)
    return Replies(session.get(selector, payload=payload, encoding=encoding, **options), reader)
