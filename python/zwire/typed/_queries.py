"""Typed queries: values as payloads of queries and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from zwire._failure import restore
from zwire.errors import PayloadError, QueryError, UsageError
from zwire.typed._entities import LEFT_OUT, Counting, Declared, Items, Keyed, only_blocking, remaining, wrap
from zwire.typed._values import Reader, Writer
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer, Unpack

    from zwire import zenoh
    from zwire.typed._codec import Codec
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
    from zwire.typed._registry import Registry
    from zwire.zenoh import handlers

R = TypeVar("R")
if TYPE_CHECKING:
    import typing_extensions

    Q = typing_extensions.TypeVar("Q", default=None)
else:
    Q = TypeVar("Q")


class Exchange(Generic[R, Q]):
    """Base of classes with a type of replies and a type of requests, in the order of :func:`queryable`.

    Without the second, as in ``Query[Position]``, it is ``None``: queries have no values.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: object) -> type:
            return super().__class_getitem__(types if isinstance(types, tuple) else (types, None))


class Asked(Exchange[R, Q]):
    """A query with its value."""

    __slots__ = ("_answering", "_error", "_value", "raw")

    raw: Any
    """The query as received."""

    def __init__(
        self,
        raw: Any,  # noqa: ANN401 - that of either interface
        answering: Answering[R, Q],
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

    def __exit__(self, *error: object) -> None:
        self.raw.__exit__(*error)

    def _key(self, key_expr: zenoh.KeyExpr | str | None) -> zenoh.KeyExpr | str:
        if key_expr is not None:
            return key_expr
        for key in (self._answering.key_expr, self.key_expr):
            if "*" not in str(key):
                return key
        raise UsageError(f"{self.key_expr}: which key is this the answer of?")

    def __repr__(self) -> str:
        return f"Query({self.raw.selector}, {self._error or self._value!r})"


class Query(Asked[R, Q]):
    """A query to answer, any number of times. A context manager, which ends it.

    The type of the replies comes first, as in :func:`queryable`: a handler is annotated with
    ``Query[Position, Area]``, or with ``Query[Position]`` if queries have no values.

    ::

        def area(query: typed.Query[float, tuple[float, float]]) -> None:
            width, height = query.value
            query.reply(width * height)

        serving = typed.queryable(session, "math/area", float, area, request=tuple[float, float])
        print([reply.value for reply in typed.get(session, "math/area", float, (2.0, 1.5))])  # [3.0]
    """

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


class Answering(Counting, Exchange[R, Q]):
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


class Serving(Declared, Answering[R, Q]):
    """A declared queryable that answers by a callback; made by :func:`queryable`. A context manager.

    ::

        serving = typed.queryable(
            session, "math/double", int, lambda query: query.reply(2 * query.value), request=int
        )
        replies = list(session.get("math/double", payload="no number", timeout=5))
        print(serving.failed, replies[0].err is not None)  # 1 True
    """

    _declared: zenoh.Queryable[Any]

    @property
    def raw(self) -> zenoh.Queryable[Any]:
        """The queryable underneath."""
        return self._declared

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it, as ``zenoh.Queryable``; ``timeout`` in seconds."""
        self._declared.wait_ready(timeout)

    def _query(self, raw: zenoh.Query) -> Query[R, Q]:
        """Read a query; ``LEFT_OUT`` if it was answered or handed on already."""
        query: Query[R, Q] = Query(raw, self, *self._read(raw))
        if query.error is None:
            return query
        if self._on_error is not None:
            self._on_error(query)
        else:
            with query:
                query.reply_err(str(query.error))
        return cast("Query[R, Q]", LEFT_OUT)


class Queryable(Serving[R, Q]):
    """A declared queryable that queues queries; made by :func:`queryable`.

    Iterating gives queries until it is undeclared or its session closes.

    ::

        queryable = typed.queryable(session, "demo/limits", dict[str, int])
        replies = typed.get(session, "demo/limits", dict[str, int], timeout=5)
        with queryable.recv(timeout=5) as query:
            query.reply({"speed": 3})
        print(next(replies).value)  # {'speed': 3}
    """

    def recv(self, timeout: float | None = None) -> Query[R, Q]:
        """Wait for a query.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: No query came in time.
            ZwireError: As raised by ``zenoh.Queryable.recv``.
        """
        left = remaining(timeout)
        while True:
            query = self._query(self._declared.recv(next(left)))
            if query is not LEFT_OUT:
                return query

    def try_recv(self) -> Query[R, Q] | None:
        """Take a query if one is queued."""
        while (raw := self._declared.try_recv()) is not None:
            query = self._query(raw)
            if query is not LEFT_OUT:
                return query
        return None

    def __iter__(self) -> Iterator[Query[R, Q]]:
        # No generator: its frame would keep a reference to the last query.
        return Items(iter(self._declared), self._query)


class Reply(Generic[R]):
    """A reply: a value, or the reason why there is none.

    ::

        serving = typed.queryable(session, "demo/name", str, lambda query: query.reply_err("no name yet"))
        for reply in typed.get(session, "demo/name", str, timeout=5):
            print(reply.error)  # no name yet
    """

    __slots__ = ("_error", "_value", "raw")

    raw: zenoh.Reply
    """The reply as received."""

    def __init__(self, raw: zenoh.Reply, reader: Reader[R]) -> None:
        """Read a reply."""
        self.raw = raw
        self._value: R | None = None
        self._error: PayloadError | QueryError | None
        if raw.ok is None:
            self._error = _query_error(raw)
        else:
            self._value, self._error = reader.sample(raw.ok)

    @property
    def value(self) -> R:
        """The value.

        Raises:
            RemoteError: The program of the queryable has raised an exception.
            QueryError: The queryable has answered with another error.
            PayloadError: The payload is no value of the model; or the reply is a deletion.
        """
        if self._error is not None:
            raise self._error
        if self.deleted:
            raise PayloadError(f"{self.key_expr}: was deleted, which has no value", key=str(self.key_expr))
        return cast("R", self._value)

    @property
    def error(self) -> PayloadError | QueryError | None:
        """The error of the reply; ``None`` if there is a value, and for a deletion."""
        return self._error

    @property
    def deleted(self) -> bool:
        """Whether the reply is a deletion."""
        sample = self.raw.ok
        return sample is not None and sample.kind == SampleKind.DELETE

    @property
    def key_expr(self) -> zenoh.KeyExpr | None:
        """The key; an error has none."""
        sample = self.raw.ok
        return None if sample is None else sample.key_expr

    def __repr__(self) -> str:
        what = "deleted" if self.deleted else repr(self._error or self._value)
        return f"Reply({self.key_expr}, {what})"


def replies(raw: Iterable[zenoh.Reply], reader: Reader[R]) -> Iterator[Reply[R]]:
    """Read the replies of a get as they come."""
    return (Reply(each, reader) for each in raw)


def _query_error(raw: zenoh.Reply) -> QueryError:
    error = raw.err
    if error is None:
        return QueryError("an answer without a sample")
    return restore(bytes(error.payload), str(error.encoding))


def question(
    value: object,
    request: Any,  # noqa: ANN401 - any type
    codec: Codec | str | None,
    registry: Registry | None,
    selector: object,
) -> tuple[Buffer | str | None, zenoh.Encoding | None]:
    """Return payload and encoding for the value of a single query, by type ``request`` or its class.

    Raises:
        PayloadError: The value, or a part of it, has no form.
    """
    if value is None:
        return None, None
    writer: Writer[Any] = Writer(type(value) if request is None else request, codec, None, registry)
    return writer.write(value, selector), writer.encoding


class Asking(Keyed, Exchange[R, Q]):
    """Base of queriers: sends values of one model, receives values of another."""

    def __init__(self, raw: Any, writer: Writer[Q] | None, reader: Reader[R]) -> None:  # noqa: ANN401
        """Send queries through a declared querier, of either interface."""
        self._declared = raw
        self._writer = writer
        self._reader = reader

    @property
    def matching_status(self) -> zenoh.MatchingStatus:
        """Whether a matching queryable exists."""
        return cast("zenoh.MatchingStatus", self._declared.matching_status)

    def _question(self, value: Q | None) -> tuple[Buffer | str | None, zenoh.Encoding | None]:
        """Return payload and encoding of a query."""
        if value is None:
            return None, None
        if self._writer is None:
            raise UsageError("a querier without request asks without values")
        return self._writer.write(value, self.key_expr), self._writer.encoding


class Querier(Declared, Asking[R, Q]):
    """Sends values of one model on a key expression, receives values of another; made by :func:`querier`.

    A context manager.

    ::

        def double(query: typed.Query[int, int]) -> None:
            query.reply(2 * query.value)

        serving = typed.queryable(session, "math/double", int, double, request=int)
        with typed.querier(session, "math/double", int, request=int, timeout=5) as querier:
            print([reply.value for reply in querier.get(21)])  # [42]
    """

    _declared: zenoh.Querier

    def get(self, value: Q | None = None, **options: Unpack[AskOptions]) -> Iterator[Reply[R]]:
        """Send a query, and iterate over the replies as they come.

        Args:
            value: The value of the query; ``None`` for none.
            options: Those of ``zenoh.Querier.get``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was asked.
            UsageError: There is a value, and the querier was declared without a ``request``.
        """
        payload, encoding = self._question(value)
        return replies(self._declared.get(payload=payload, encoding=encoding, **options), self._reader)

    @property
    def raw(self) -> zenoh.Querier:
        """The querier underneath."""
        return self._declared

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for queryables, as ``zenoh.Querier.wait_matching``; ``timeout`` in seconds."""
        self._declared.wait_matching(n, timeout)


@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel | None = None,
    *,
    request: type[A] | None = None,
    **options: Unpack[QueryableKeywords[Query[R, A]]],
) -> Queryable[R, A]: ...
@overload
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: Callable[[Query[R, A]], object] | handlers.BatchCallback[Query[R, A]],
    *,
    request: type[A] | None = None,
    **options: Unpack[QueryableKeywords[Query[R, A]]],
) -> Serving[R, A]: ...
def queryable(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    handler: AnyChannel
    | Callable[[Query[R, Any]], object]
    | handlers.BatchCallback[Query[R, Any]]
    | None = None,
    *,
    request: type[Any] | None = None,
    codec: Codec | str | None = None,
    on_error: Callable[[Query[R, Any]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[QueryableOptions],
) -> Serving[R, Any]:
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
    only_blocking(session, handler)
    writer = Writer(reply, codec, None, registry)
    reader = None if request is None else Reader(request, codec, None, registry)
    made: Serving[R, Any] = (Serving if callable(handler) else Queryable)(reader, writer, on_error)
    made._declared = session.declare_queryable(key_expr, wrap(handler, made._query), **options)  # noqa: SLF001
    return made


def querier(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    *,
    request: type[A] | None = None,
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[QuerierOptions],
) -> Querier[R, A]:
    """Declare a querier, for repeated queries on a key expression.

    Args:
        session: The session.
        key_expr: The key expression of the queries.
        reply: The type of the replies, as for :func:`publisher`.
        request: The type of the queries' values, if they have any.
        codec: Writes the queries, and reads replies without an encoding of their own.
        registry: Registry in which codecs are looked up, instead of that of the process.
        options: Those of ``Session.declare_querier``; ``timeout`` is in seconds.

    Raises:
        TypeError: A model, or a part of it, has no form under that codec.
        ValueError: No codec has that name.
    """
    only_blocking(session)
    reader = Reader(reply, codec, None, registry)
    writer = None if request is None else Writer(request, codec, None, registry)
    return Querier(session.declare_querier(key_expr, **options), writer, reader)


def get(
    session: zenoh.Session,
    selector: zenoh.Selector | zenoh.KeyExpr | str,
    reply: type[R],
    value: object = None,
    *,
    request: Any = None,  # noqa: ANN401 - any type
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[GetOptions],
) -> Iterator[Reply[R]]:
    """Send one query, and iterate over the replies as they come.

    Args:
        session: The session.
        selector: The selector of the query.
        reply: The type of the replies, as for :func:`publisher`.
        value: The value of the query; ``None`` for none.
        request: The type of ``value``, if not its class.
        codec: Writes the query, and reads replies without an encoding of their own.
        registry: Registry in which codecs are looked up, instead of that of the process.
        options: Those of ``Session.get``; ``timeout`` is in seconds.

    Raises:
        PayloadError: The value, or a part of it, has no form; nothing was asked.
    """
    only_blocking(session)
    reader = Reader(reply, codec, None, registry)
    payload, encoding = question(value, request, codec, registry, selector)
    return replies(session.get(selector, payload=payload, encoding=encoding, **options), reader)
