"""Typed queriers: values as payloads of queries and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from zwire.errors import PayloadError, QueryError, UsageError
from zwire.typed._declared import Declared, Keyed
from zwire.typed._handling import only_blocking
from zwire.typed._values import Reader, Writer
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer, Unpack

    from zwire import zenoh
    from zwire.typed._codec import Codec
    from zwire.typed._options import AskOptions, GetOptions, QuerierOptions
    from zwire.typed._registry import Registry

__all__ = ["Asking", "Querier", "Reply", "get", "querier", "question"]

Q = TypeVar("Q")
R = TypeVar("R")


class Reply(Generic[R]):
    """A reply: a value, or the reason why there is none."""

    __slots__ = ("_error", "_value", "raw")

    raw: zenoh.Reply
    """The reply as received."""

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


class Asking(Keyed, Generic[Q, R]):
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


class Querier(Declared, Asking[Q, R]):
    """Sends values of one model on a key expression, receives values of another; made by :func:`querier`.

    A context manager.
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
        raw = self._declared.get(payload=payload, encoding=encoding, **options)
        return _replies(raw, self._reader)

    @property
    def raw(self) -> zenoh.Querier:
        """The querier underneath."""
        return self._declared

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for queryables, as ``zenoh.Querier.wait_matching``; ``timeout`` in seconds."""
        self._declared.wait_matching(n, timeout)


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
    return _replies(session.get(selector, payload=payload, encoding=encoding, **options), reader)
