"""Typed queries: values as payloads of queries and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from zwire.errors import PayloadError, UsageError
from zwire.typed._declared import Counting, Declared
from zwire.typed._handling import LEFT_OUT, Items, first, only_blocking, wrap
from zwire.typed._values import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Unpack

    from zwire import zenoh
    from zwire.typed._codec import Codec
    from zwire.typed._handling import AnyChannel
    from zwire.typed._options import QueryableOptions, ReplyOptions
    from zwire.typed._registry import Registry
    from zwire.zenoh import handlers

__all__ = ["Answering", "Asked", "Query", "Queryable", "Serving", "queryable"]

Q = TypeVar("Q")
R = TypeVar("R")


class Asked(Generic[Q, R]):
    """A query with its value."""

    __slots__ = ("_answering", "_error", "_value", "raw")

    raw: Any
    """The query as received."""

    def __init__(
        self,
        raw: Any,  # noqa: ANN401 - that of either interface
        answering: Answering[Q, R],
        value: Q | None,
        error: PayloadError | None,
    ) -> None:
        """Keep a query with its value or error."""
        self.raw = raw
        self._answering = answering
        self._value = value
        self._error = error

    @property
    def value(self) -> Q:
        """The value of the query; ``None`` if the queryable takes none.

        Raises:
            PayloadError: The payload is no value of the model.
        """
        if self._error is not None:
            raise self._error
        return cast("Q", self._value)

    @property
    def error(self) -> PayloadError | None:
        """The error of reading the value, if any."""
        return self._error

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression of the query."""
        return cast("zenoh.KeyExpr", self.raw.key_expr)

    @property
    def parameters(self) -> zenoh.Parameters:
        """The parameters of the query."""
        return cast("zenoh.Parameters", self.raw.parameters)

    def drop(self) -> None:
        """End the query: no further replies are sent."""
        self.raw.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    def _key(self, key_expr: zenoh.KeyExpr | str | None) -> zenoh.KeyExpr | str:
        if key_expr is not None:
            return key_expr
        for key in (self._answering.key_expr, self.key_expr):
            if "*" not in str(key):
                return key
        raise UsageError(f"{self.key_expr}: which key is this the answer of?")

    def __repr__(self) -> str:
        return f"Query({self.raw.selector}, {self._error or self._value!r})"


class Query(Asked[Q, R]):
    """A query to answer, any number of times. A context manager, which ends it."""

    __slots__ = ()

    raw: zenoh.Query
    """The query as received."""

    def reply(
        self, value: R, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]
    ) -> None:
        """Reply with a value.

        Args:
            value: The value of the reply.
            key_expr: Its key; by default that of the queryable, or if that has wildcards, that of the query.
            options: Those of ``zenoh.Query.reply``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was sent.
            UsageError: Both have wildcards, so that the key has to be given.
        """
        key = self._key(key_expr)
        writer = self._answering._writer  # noqa: SLF001
        self.raw.reply(key, writer.write(value, key), encoding=writer.encoding, **options)

    def reply_del(self, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]) -> None:
        """Reply with the deletion of a key; parameters as in :meth:`reply`."""
        self.raw.reply_del(self._key(key_expr), **options)

    def reply_err(self, text: str) -> None:
        """Reply with an error; the querier gets a ``QueryError``."""
        self.raw.reply_err(text, encoding="text/plain")


class Answering(Counting, Generic[Q, R]):
    """Decodes the values of queries, and counts payloads that are no values."""

    def __init__(
        self,
        reader: Reader[Q] | None,
        writer: Writer[R],
        on_error: Callable[[Any], object] | None,
    ) -> None:
        """Read the queries of a queryable declared later."""
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._on_error = on_error

    def _read(self, raw: Any) -> tuple[Q | None, PayloadError | None]:  # noqa: ANN401
        if self._reader is None:
            return None, None
        key, payload, encoding = raw.key_expr, raw.payload, raw.encoding
        try:
            if payload is not None and encoding is not None:
                return self._reader.read(payload, encoding, key), None
            problem = PayloadError(f"{key}: asked without a value", key=str(key))
        except PayloadError as error:
            problem = error
        self._count_failure()
        return None, problem


class Serving(Declared, Answering[Q, R]):
    """A declared queryable that answers by a callback; made by :func:`queryable`. A context manager."""

    _declared: zenoh.Queryable[Any]

    @property
    def raw(self) -> zenoh.Queryable[Any]:
        """The queryable underneath."""
        return self._declared

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it, as ``zenoh.Queryable``; ``timeout`` in seconds."""
        self._declared.wait_ready(timeout)

    def _query(self, raw: zenoh.Query) -> Query[Q, R] | None:
        """Read a query; ``None`` if it was answered or handed on already."""
        query: Query[Q, R] = Query(raw, self, *self._read(raw))
        if query.error is None:
            return query
        if self._on_error is not None:
            self._on_error(query)
        else:
            query.reply_err(str(query.error))
            query.drop()
        return None

    def _declare(
        self,
        session: zenoh.Session,
        key_expr: zenoh.KeyExpr | str,
        handler: Any,  # noqa: ANN401
        options: QueryableOptions,
    ) -> Self:
        self._declared = session.declare_queryable(key_expr, handler, **options)
        return self


class Queryable(Serving[Q, R]):
    """A declared queryable that queues queries; made by :func:`queryable`.

    Iterating gives queries until it is undeclared or its session closes.
    """

    def recv(self, timeout: float | None = None) -> Query[Q, R]:
        """Wait for a query.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: No query came in time.
            ZwireError: As raised by ``zenoh.Queryable.recv``.
        """
        return first(lambda left: self._query(self._declared.recv(left)), timeout)

    def try_recv(self) -> Query[Q, R] | None:
        """Take a query if one is queued."""
        while (raw := self._declared.try_recv()) is not None:
            query = self._query(raw)
            if query is not None:
                return query
        return None

    def __iter__(self) -> Iterator[Query[Q, R]]:
        # No generator: its frame would keep a reference to the last query.
        return Items(iter(self._declared), lambda raw: self._query(raw) or LEFT_OUT)


@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel | None = None,
    *,
    request: type[Q],
    codec: Codec | str | None = None,
    on_error: Callable[[Query[Q, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Queryable[Q, R]: ...
@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel | None = None,
    *,
    request: None = None,
    codec: Codec | str | None = None,
    on_error: Callable[[Query[None, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Queryable[None, R]: ...
@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: Callable[[Query[Q, R]], object] | handlers.BatchCallback[Query[Q, R]],
    *,
    request: type[Q],
    codec: Codec | str | None = None,
    on_error: Callable[[Query[Q, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Serving[Q, R]: ...
@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: Callable[[Query[None, R]], object] | handlers.BatchCallback[Query[None, R]],
    *,
    request: None = None,
    codec: Codec | str | None = None,
    on_error: Callable[[Query[None, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Serving[None, R]: ...
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel
    | Callable[[Query[Any, R]], object]
    | handlers.BatchCallback[Query[Any, R]]
    | None = None,
    *,
    request: type[Any] | None = None,
    codec: Codec | str | None = None,
    on_error: Callable[[Query[Any, R]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Serving[Any, R]:
    """Declare a queryable with values as payloads of queries and replies.

    A query with a payload that is no value of ``request`` is counted in ``failed`` and answered with an error
    that says what is wrong with it.

    Args:
        session: The session.
        key_expr: The key expression that it answers for.
        reply: The type of the replies, as for :func:`publisher`.
        handler: A channel of ``zenoh.handlers``, or a function called with each query, which then ends.
        request: The type of the queries' values; with ``None`` payloads are not read.
        codec: Writes the answers, and reads payloads without an encoding of their own.
        on_error: Gets queries with an ``error``; the error reply above is not sent then.
        registry: Registry in which codecs are looked up, instead of that of the process.
        options: Those of ``Session.declare_queryable``.

    Raises:
        TypeError: A model, or a part of it, has no form under that codec.
        ValueError: No codec has that name.
    """
    only_blocking(session)
    writer = Writer(reply, codec, None, registry)
    reader = None if request is None else Reader(request, codec, None, registry)
    serving: Serving[Any, R] = (Serving if callable(handler) else Queryable)(reader, writer, on_error)
    inner = wrap(handler, serving._query)  # noqa: SLF001
    return serving._declare(session, key_expr, inner, options)  # noqa: SLF001
