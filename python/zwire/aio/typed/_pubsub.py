"""Publishers and subscribers of values, for event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from zwire import aio
from zwire.aio._loops import deadline, left
from zwire.aio.typed._declared import Declared, Items
from zwire.typed._entities import LEFT_OUT, wrap
from zwire.typed._options import given
from zwire.typed._pubsub import Message, Publishing, Reading, Taking, value_of
from zwire.typed._values import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pyarrow as pa
    from typing_extensions import Buffer, Unpack

    from zwire import zenoh
    from zwire.aio import ext
    from zwire.typed import Codec, Registry
    from zwire.typed._entities import AnyChannel
    from zwire.typed._options import PublisherOptions, PutOptions, SubscriberKeywords, SubscriberOptions
    from zwire.zenoh import handlers

__all__ = ["Message", "Publisher", "Subscriber", "Subscription", "publisher", "put", "subscriber"]

T = TypeVar("T")
V = TypeVar("V")

if TYPE_CHECKING:
    AnyPublisher: TypeAlias = aio.Publisher | ext.AdvancedPublisher
    AnySubscriber: TypeAlias = aio.Subscriber | ext.AdvancedSubscriber


class Publisher(Declared, Publishing[T]):
    """Publishes values of one model on one key; made by :func:`publisher`."""

    _declared: AnyPublisher

    def __init__(self, raw: AnyPublisher, writer: Writer[T]) -> None:
        """Write values through a declared publisher."""
        self._declared = raw
        self._writer = writer

    @staticmethod
    def over(
        raw: AnyPublisher,
        model: type[V],
        codec: Codec | str | None = None,
        *,
        schema: str | None = None,
        registry: Registry | None = None,
    ) -> Publisher[V]:
        """Publish values through a publisher that is declared already; see ``zwire.typed.Publisher.over``."""
        return Publisher(raw, Writer(model, codec, schema, registry))

    async def put(
        self,
        value: T,
        *,
        attachment: Buffer | str | None = None,
        timestamp: zenoh.Timestamp | None = None,
        source_info: zenoh.SourceInfo | None = None,
    ) -> None:
        """Publish a value.

        Raises:
            PayloadError: The value, or a part of it, has no form; nothing was published.
            ZwireError: As raised by ``aio.Publisher.put``.
        """
        payload = self._writer.write(value, self._declared.key_expr)
        options = given(attachment=attachment, timestamp=timestamp, source_info=source_info)
        await self._declared.put(payload, encoding=self._writer.encoding, **options)

    async def delete(
        self,
        *,
        attachment: Buffer | str | None = None,
        timestamp: zenoh.Timestamp | None = None,
        source_info: zenoh.SourceInfo | None = None,
    ) -> None:
        """Publish the deletion of the key."""
        options = given(attachment=attachment, timestamp=timestamp, source_info=source_info)
        await self._declared.delete(**options)

    @property
    def raw(self) -> AnyPublisher:
        """The publisher of payloads underneath."""
        return self._declared

    async def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for subscribers; ``timeout`` in seconds."""
        await self._declared.wait_matching(n, timeout)


class Subscription(Declared, Reading[T]):
    """A declared subscriber that passes values to a callback; made by :func:`subscriber`."""

    _declared: AnySubscriber

    @property
    def raw(self) -> AnySubscriber:
        """The subscriber to samples underneath."""
        return self._declared

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it; ``timeout`` in seconds."""
        await self._declared.wait_ready(timeout)


class Subscriber(Subscription[T], Taking[T]):
    """A declared subscriber that queues values; made by :func:`subscriber`.

    Iterating gives messages until it is undeclared or its session closes. A cancelled receive has taken
    no message.
    """

    @staticmethod
    def over(
        raw: AnySubscriber,
        model: type[V],
        *,
        codec: Codec | str | None = None,
        schema: str | None = None,
        on_error: Callable[[Message[V]], object] | None = None,
        registry: Registry | None = None,
    ) -> Subscriber[V]:
        """Read the samples of a subscriber that is declared already; see ``zwire.typed.Subscriber.over``."""
        made: Subscriber[V] = Subscriber(Reader(model, codec, schema, registry), on_error)
        made._declared = raw
        return made

    async def recv(self, timeout: float | None = None) -> Message[T]:
        """Wait for a message.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: No message came in time.
            ZwireError: As raised by ``aio.Subscriber.recv``.
        """
        end = deadline(timeout)
        while True:
            message = self._message(await self._declared.recv(left(end)))
            if message is not LEFT_OUT:
                return message

    async def recv_many(self, max_items: int, timeout: float | None = None) -> list[Message[T]]:
        """Wait for a message, and take further queued ones as well.

        Args:
            max_items: Largest number of messages. Those passed to ``on_error`` count as well: the list can be
                shorter.
            timeout: Seconds to wait for the first one; ``None`` is for ever. Empty when none came.
        """
        return self._messages(await self._declared.recv_many(max_items, timeout))

    async def recv_table(
        self,
        max_rows: int = 65536,
        timeout: float | None = None,
        *,
        key: str | None = None,
        timestamp: str | None = None,
    ) -> pa.Table:
        """Wait for a message, and make a table of all queued ones: see ``zwire.typed.Subscriber``."""
        self._columns(key, timestamp)
        return self._table(await self.recv_many(max_rows, timeout), key, timestamp)

    def values(self) -> AsyncIterator[T]:
        """Iterate over values alone: deletions are left out.

        A payload that is no value of the model raises, and the next step continues with the next sample.

        Raises:
            PayloadError: See above.
        """
        return Items(aiter(self), value_of)

    def __aiter__(self) -> AsyncIterator[Message[T]]:
        return Items(aiter(self._declared), self._message)


def publisher(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    codec: Codec | str | None = None,
    *,
    schema: str | None = None,
    registry: Registry | None = None,
    **options: Unpack[PublisherOptions],
) -> Publisher[T]:
    """Declare a publisher of values; see :func:`zwire.typed.publisher`."""
    writer = Writer(model, codec, schema, registry)
    return Publisher(session.declare_publisher(key_expr, encoding=writer.encoding, **options), writer)


async def put(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    value: T,
    model: type[T] | None = None,
    codec: Codec | str | None = None,
    *,
    schema: str | None = None,
    registry: Registry | None = None,
    **options: Unpack[PutOptions],
) -> None:
    """Publish one value; see :func:`zwire.typed.put`."""
    writer: Writer[Any] = Writer(type(value) if model is None else model, codec, schema, registry)
    await session.put(key_expr, writer.write(value, key_expr), encoding=writer.encoding, **options)


@overload
def subscriber(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: AnyChannel | None = None,
    **options: Unpack[SubscriberKeywords[Message[T]]],
) -> Subscriber[T]: ...
@overload
def subscriber(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: Callable[[Message[T]], object] | handlers.BatchCallback[Message[T]],
    **options: Unpack[SubscriberKeywords[Message[T]]],
) -> Subscription[T]: ...
def subscriber(
    session: aio.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: Any = None,
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    on_error: Callable[[Message[T]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[SubscriberOptions],
) -> Subscription[T]:
    """Declare a subscriber to values; see :func:`zwire.typed.subscriber`.

    ``handler`` may be a coroutine function, or a ``zwire.aio.Callback``; ``on_error`` is a plain function, so
    that nothing that was taken waits for it.
    """
    reader = Reader(model, codec, schema, registry)
    made: Subscription[T] = (Subscription if callable(handler) else Subscriber)(reader, on_error)
    made._declared = session.declare_subscriber(key_expr, _wrap(handler, made._message), **options)  # noqa: SLF001
    return made


def _wrap(handler: Any, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - a channel or a callback
    if not isinstance(handler, aio.Callback):
        return wrap(handler, read)
    return aio.Callback(
        wrap(handler.callback, read),
        handler.drop,
        concurrency=handler.concurrency,
        on_error=handler.on_error,
    )
