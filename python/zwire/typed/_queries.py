"""Questions and answers that are values."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, cast, overload

from zwire.errors import PayloadError, QueryError, UsageError
from zwire.typed._handling import only_blocking, wrap
from zwire.typed._values import Reader, Writer
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Buffer, Unpack

    from zwire import zenoh
    from zwire.typed._codec import Codec
    from zwire.typed._handling import AnyChannel
    from zwire.typed._registry import Registry
    from zwire.zenoh import handlers

__all__ = [
    "Answering",
    "Asked",
    "Querier",
    "Query",
    "Queryable",
    "Reply",
    "Serving",
    "get",
    "querier",
    "queryable",
]

Q = TypeVar("Q")
R = TypeVar("R")


class QueryableOptions(TypedDict, total=False):
    """What ``Session.declare_queryable`` takes as well."""

    complete: bool | None
    allowed_origin: zenoh.Locality | None


class ReplyOptions(TypedDict, total=False):
    """What ``zenoh.Query.reply`` takes as well."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None


class QuerierOptions(TypedDict, total=False):
    """What ``Session.declare_querier`` takes as well."""

    target: zenoh.QueryTarget | None
    consolidation: zenoh.ConsolidationMode | zenoh.QueryConsolidation | None
    accept_replies: zenoh.ReplyKeyExpr | None
    timeout: float | None
    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    allowed_destination: zenoh.Locality | None


class AskOptions(TypedDict, total=False):
    """What ``zenoh.Querier.get`` takes as well."""

    parameters: zenoh.Parameters | dict[str, str] | str | None
    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None


class GetOptions(QuerierOptions, total=False):
    """What ``Session.get`` takes as well."""

    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None


class Asked(Generic[Q, R]):
    """What was asked, with the value."""

    __slots__ = ("_answering", "_error", "_value", "raw")

    raw: Any
    """What it came as."""

    def __init__(
        self,
        raw: Any,  # noqa: ANN401 - that of either interface
        answering: Answering[Q, R],
        value: Q | None,
        error: PayloadError | None,
    ) -> None:
        """Keep what was made of a query."""
        self.raw = raw
        self._answering = answering
        self._value = value
        self._error = error

    @property
    def value(self) -> Q:
        """The value that was asked with; ``None`` if the queryable takes none.

        Raises:
            PayloadError: The payload is none of the model.
        """
        if self._error is not None:
            raise self._error
        return cast("Q", self._value)

    @property
    def error(self) -> PayloadError | None:
        """Why there is no value, if so."""
        return self._error

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression that was asked for."""
        return cast("zenoh.KeyExpr", self.raw.key_expr)

    @property
    def parameters(self) -> zenoh.Parameters:
        """The parameters that were asked with."""
        return cast("zenoh.Parameters", self.raw.parameters)

    def drop(self) -> None:
        """End it: there are no further answers."""
        self.raw.drop()

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
    """A question to answer, any number of times. A context manager, which ends it."""

    __slots__ = ()

    raw: zenoh.Query
    """What it came as."""

    def reply(
        self, value: R, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]
    ) -> None:
        """Answer with a value.

        Args:
            value: The answer.
            key_expr: Of which key; by default that of the queryable, or where that one is wild, of the query.
            options: Those of ``zenoh.Query.reply``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was sent.
            UsageError: Both are wild, so that the key has to be named.
        """
        key = self._key(key_expr)
        writer = self._answering._writer  # noqa: SLF001
        self.raw.reply(key, writer.write(value, key), encoding=writer.encoding, **options)

    def reply_del(self, key_expr: zenoh.KeyExpr | str | None = None, **options: Unpack[ReplyOptions]) -> None:
        """Answer that a key has no value any more; parameters as in :meth:`reply`."""
        self.raw.reply_del(self._key(key_expr), **options)

    def reply_err(self, text: str) -> None:
        """Answer with an error; it is a ``QueryError`` at the other side."""
        self.raw.reply_err(text, encoding="text/plain")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()


class Answering(Generic[Q, R]):
    """Makes questions of queries, and counts those that are none."""

    def __init__(
        self,
        reader: Reader[Q] | None,
        writer: Writer[R],
        on_error: Callable[[Any], object] | None,
    ) -> None:
        """Read queries of what is yet to be declared."""
        self._reader = reader
        self._writer = writer
        self._on_error = on_error
        self._failed = 0
        self._lock = threading.Lock()
        self._declared: Any

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression."""
        return cast("zenoh.KeyExpr", self._declared.key_expr)

    @property
    def failed(self) -> int:
        """Queries so far whose payloads were no values of the model."""
        return self._failed

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
        with self._lock:
            self._failed += 1
        return None, problem


class Serving(Answering[Q, R]):
    """A declared queryable that answers by a callback; made by :func:`queryable`. A context manager."""

    _declared: zenoh.Queryable[Any]

    @property
    def raw(self) -> zenoh.Queryable[Any]:
        """The queryable that this one goes through."""
        return self._declared

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it, as ``zenoh.Queryable``; ``timeout`` in seconds."""
        self._declared.wait_ready(timeout)

    def undeclare(self) -> None:
        """End it."""
        self._declared.undeclare()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undeclare()

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
    """A declared queryable whose queries wait to be taken; made by :func:`queryable`.

    Iterating gives queries until it is undeclared or its session closes.
    """

    def recv(self, timeout: float | None = None) -> Query[Q, R]:
        """Wait for a query.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: None came in time.
            ZwireError: What ``zenoh.Queryable.recv`` raises.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self._query(self._declared.recv(timeout))
            if query is not None:
                return query
            if deadline is not None:
                timeout = max(0.0, deadline - time.monotonic())

    def try_recv(self) -> Query[Q, R] | None:
        """Take a query if one is there."""
        while (raw := self._declared.try_recv()) is not None:
            query = self._query(raw)
            if query is not None:
                return query
        return None

    def __iter__(self) -> Iterator[Query[Q, R]]:
        for raw in self._declared:
            query = self._query(raw)
            if query is not None:
                yield query


class Reply(Generic[R]):
    """An answer: a value, or why there is none."""

    __slots__ = ("_error", "_value", "raw")

    raw: zenoh.Reply
    """What it came as."""

    def __init__(self, raw: zenoh.Reply, reader: Reader[R]) -> None:
        """Read a reply."""
        self.raw = raw
        self._value: R | None = None
        self._error: PayloadError | QueryError | None = None
        sample = raw.ok
        if sample is None:
            self._error = _query_error(raw)
        elif sample.kind == SampleKind.PUT:
            try:
                self._value = reader.read(sample.payload, sample.encoding, sample.key_expr)
            except PayloadError as error:
                self._error = error

    @property
    def value(self) -> R:
        """The value.

        Raises:
            QueryError: The queryable has answered with an error.
            PayloadError: The payload is none of the model; or this is a deletion, which has none.
        """
        if self._error is not None:
            raise self._error
        if self.deleted:
            raise PayloadError(f"{self.key_expr}: was deleted, which has no value", key=str(self.key_expr))
        return cast("R", self._value)

    @property
    def error(self) -> PayloadError | QueryError | None:
        """Why there is no value; ``None`` if there is one, and for a deletion."""
        return self._error

    @property
    def deleted(self) -> bool:
        """Whether it says that there is no value any more."""
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


def _query_error(raw: zenoh.Reply) -> QueryError:
    error = raw.err
    if error is None:
        return QueryError("an answer without a sample")
    payload = bytes(error.payload)
    text = payload[:300].decode(errors="replace")
    return QueryError(text, payload=payload, encoding=str(error.encoding))


def _replies(raw: Iterable[zenoh.Reply], reader: Reader[R]) -> Iterator[Reply[R]]:
    for reply in raw:
        yield Reply(reply, reader)


class Querier(Generic[Q, R]):
    """Asks one key expression with values of one model for values of another; made by :func:`querier`.

    A context manager.
    """

    def __init__(self, raw: zenoh.Querier, writer: Writer[Q] | None, reader: Reader[R]) -> None:
        """Ask through a declared querier."""
        self._raw = raw
        self._writer = writer
        self._reader = reader

    def get(self, value: Q | None = None, **options: Unpack[AskOptions]) -> Iterator[Reply[R]]:
        """Ask, and iterate over the answers as they come.

        Args:
            value: What to ask with; ``None`` is nothing.
            options: Those of ``zenoh.Querier.get``.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was asked.
            UsageError: There is a value, and the querier was declared without a ``request``.
        """
        if value is None:
            return _replies(self._raw.get(**options), self._reader)
        if self._writer is None:
            raise UsageError("a querier without request asks without values")
        payload = self._writer.write(value, self._raw.key_expr)
        raw = self._raw.get(payload=payload, encoding=self._writer.encoding, **options)
        return _replies(raw, self._reader)

    @property
    def raw(self) -> zenoh.Querier:
        """The querier that this one goes through."""
        return self._raw

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression."""
        return self._raw.key_expr

    @property
    def matching_status(self) -> zenoh.MatchingStatus:
        """Whether there is anybody to ask."""
        return self._raw.matching_status

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for queryables, as ``zenoh.Querier.wait_matching``; ``timeout`` in seconds."""
        self._raw.wait_matching(n, timeout)

    def undeclare(self) -> None:
        """End it."""
        self._raw.undeclare()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undeclare()


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
    """Declare a queryable that is asked with values and answers with values.

    A query whose payload is no value of ``request`` is counted in ``failed`` and answered with an error that
    says what is wrong with it.

    Args:
        session: Where.
        key_expr: What to answer for.
        reply: The type of the answers, as for :func:`publisher`.
        handler: A channel of ``zenoh.handlers``, or who is called with each query, which then ends.
        request: The type of what is asked with; ``None`` looks at no payload.
        codec: What answers are written by, and payloads taken for that do not say what they are.
        on_error: Who gets queries with an ``error``, instead of the answer above.
        registry: Where codecs are looked up, if not in that of the process.
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


@overload
def querier(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    *,
    request: type[Q],
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[QuerierOptions],
) -> Querier[Q, R]: ...
@overload
def querier(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    *,
    request: None = None,
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[QuerierOptions],
) -> Querier[None, R]: ...
def querier(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    reply: type[R],
    *,
    request: type[Any] | None = None,
    codec: Codec | str | None = None,
    registry: Registry | None = None,
    **options: Unpack[QuerierOptions],
) -> Querier[Any, R]:
    """Declare who asks a key expression again and again.

    Args:
        session: Where.
        key_expr: What to ask.
        reply: The type of the answers, as for :func:`publisher`.
        request: The type of what to ask with, if anything.
        codec: What questions are written by, and answers taken for that do not say what they are.
        registry: Where codecs are looked up, if not in that of the process.
        options: Those of ``Session.declare_querier``; ``timeout`` is in seconds.

    Raises:
        TypeError: A model, or a part of it, has no form under that codec.
        ValueError: No codec has that name.
    """
    only_blocking(session)
    reader = Reader(reply, codec, None, registry)
    writer: Writer[Any] | None = None if request is None else Writer(request, codec, None, registry)
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
    """Ask once, and iterate over the answers as they come.

    Args:
        session: Where.
        selector: What to ask.
        reply: The type of the answers, as for :func:`publisher`.
        value: What to ask with; ``None`` is nothing.
        request: The type of ``value``, if not its class.
        codec: What the question is written by, and answers taken for that do not say what they are.
        registry: Where codecs are looked up, if not in that of the process.
        options: Those of ``Session.get``; ``timeout`` is in seconds.

    Raises:
        PayloadError: The value, or a part of it, has no form; nothing was asked.
    """
    only_blocking(session)
    reader = Reader(reply, codec, None, registry)
    if value is None:
        return _replies(session.get(selector, **options), reader)
    writer: Writer[Any] = Writer(type(value) if request is None else request, codec, None, registry)
    payload = writer.write(value, selector)
    return _replies(session.get(selector, payload=payload, encoding=writer.encoding, **options), reader)
