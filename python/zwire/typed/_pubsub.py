"""Publishers and subscribers of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

from zwire.errors import PayloadError
from zwire.typed._entities import LEFT_OUT, Counting, Declared, Items, Keyed, only_blocking, remaining, wrap
from zwire.typed._options import given
from zwire.typed._values import Reader, Writer
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from typing_extensions import Buffer, Unpack

    from zwire import zenoh
    from zwire.typed._codec import Codec
    from zwire.typed._entities import AnyChannel
    from zwire.typed._options import PublisherOptions, PutOptions, SubscriberKeywords, SubscriberOptions
    from zwire.typed._registry import Registry
    from zwire.zenoh import ext, handlers

T = TypeVar("T")
V = TypeVar("V")

if TYPE_CHECKING:
    AnyPublisher: TypeAlias = zenoh.Publisher | ext.AdvancedPublisher
    AnySubscriber: TypeAlias = zenoh.Subscriber[Any] | ext.AdvancedSubscriber[Any]


class Publishing(Keyed, Generic[T]):
    """Base of publishers of values of one model on one key."""

    _writer: Writer[T]

    @property
    def encoding(self) -> zenoh.Encoding:
        """The encoding of every value, with the schema."""
        return self._writer.encoding

    @property
    def matching_status(self) -> zenoh.MatchingStatus:
        """Whether a matching subscriber exists."""
        return cast("zenoh.MatchingStatus", self._declared.matching_status)


class Publisher(Declared, Publishing[T]):
    """Publishes values of one model on one key; made by :func:`publisher`. A context manager.

    ::

        with typed.publisher(session, "demo/pose", dict[str, float]) as publisher:
            publisher.put({"x": 1.5})
            print(publisher.encoding)  # application/json
    """

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
        """Publish values through a publisher that is declared already, such as an advanced one.

        The parameters are those of :func:`publisher`. An advanced publisher has no ``matching_status`` and
        takes no ``source_info``.
        """
        return Publisher(raw, Writer(model, codec, schema, registry))

    def put(
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
            ZwireError: As raised by ``zenoh.Publisher.put``.
        """
        payload = self._writer.write(value, self._declared.key_expr)
        options = given(attachment=attachment, timestamp=timestamp, source_info=source_info)
        self._declared.put(payload, encoding=self._writer.encoding, **options)

    def delete(
        self,
        *,
        attachment: Buffer | str | None = None,
        timestamp: zenoh.Timestamp | None = None,
        source_info: zenoh.SourceInfo | None = None,
    ) -> None:
        """Publish the deletion of the key."""
        options = given(attachment=attachment, timestamp=timestamp, source_info=source_info)
        self._declared.delete(**options)

    @property
    def raw(self) -> AnyPublisher:
        """The publisher of payloads underneath."""
        return self._declared

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait for subscribers, as ``zenoh.Publisher.wait_matching``; ``timeout`` in seconds."""
        self._declared.wait_matching(n, timeout)


class Message(Generic[T]):
    """A received value, or the reason why there is none."""

    __slots__ = ("_error", "_value", "sample")

    sample: zenoh.Sample
    """The sample as received."""

    def __init__(self, sample: zenoh.Sample, value: T | None, error: PayloadError | None) -> None:
        """Keep a sample with its value or error."""
        self.sample = sample
        self._value = value
        self._error = error

    @property
    def value(self) -> T:
        """The value.

        Raises:
            PayloadError: The payload is no value of the model; or the message is a deletion.
        """
        if self._error is not None:
            raise self._error
        if self.deleted:
            key = str(self.sample.key_expr)
            raise PayloadError(f"{key}: was deleted, which has no value", key=key)
        return cast("T", self._value)

    @property
    def error(self) -> PayloadError | None:
        """The error of reading; ``None`` if there is a value, and for a deletion."""
        return self._error

    @property
    def deleted(self) -> bool:
        """Whether the message is a deletion."""
        return self.sample.kind == SampleKind.DELETE

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key of the publication."""
        return self.sample.key_expr

    @property
    def timestamp(self) -> zenoh.Timestamp | None:
        """The time stamp of the sample, if it has one."""
        return self.sample.timestamp

    def __repr__(self) -> str:
        what = "deleted" if self.deleted else repr(self._error or self._value)
        return f"Message({self.key_expr}, {what})"


def value_of(message: Message[T]) -> T:
    """Return the value of a message; a deletion is skipped."""
    value: T = LEFT_OUT if message.deleted else message.value
    return value


class Reading(Counting, Generic[T]):
    """Converts samples to messages, and counts the payloads that are no values."""

    def __init__(self, reader: Reader[T], on_error: Callable[[Message[T]], object] | None) -> None:
        """Read the samples of a subscriber declared later."""
        super().__init__()
        self._reader = reader
        self._on_error = on_error

    @property
    def dropped(self) -> int:
        """Number of samples dropped so far because the queue was full."""
        return cast("int", self._declared.dropped)

    def _message(self, sample: zenoh.Sample) -> Message[T]:
        """Read a sample; ``LEFT_OUT`` if it was passed to ``on_error``."""
        message = Message(sample, *self._reader.sample(sample))
        if message.error is not None:
            self._count_failure()
            if self._on_error is not None:
                self._on_error(message)
                return cast("Message[T]", LEFT_OUT)
        return message


class Taking(Reading[T]):
    """Base of subscribers with messages taken singly."""

    def try_recv(self) -> Message[T] | None:
        """Take a message if one is queued."""
        while (sample := self._declared.try_recv()) is not None:
            message = self._message(sample)
            if message is not LEFT_OUT:
                return message
        return None

    def _messages(self, samples: list[zenoh.Sample]) -> list[Message[T]]:
        return [message for sample in samples if (message := self._message(sample)) is not LEFT_OUT]

    def _columns(self, key: str | None, timestamp: str | None) -> None:
        """Check that a table is possible, before any message is taken that could not be returned."""
        from zwire.typed import _arrow, _table

        if not _arrow.is_arrow(self._reader.model):
            _table.arrow_schema(self._reader.model)
        elif key or timestamp:
            raise TypeError("rows of tables have no key and no time stamp of their own")

    def _table(self, messages: list[Message[T]], key: str | None, timestamp: str | None) -> pa.Table:
        from zwire.typed import _table

        values = [message for message in messages if not message.deleted and message.error is None]
        return _table.table(self._reader.model, values, key=key, timestamp=timestamp)


class Subscription(Declared, Reading[T]):
    """A declared subscriber that passes values to a callback; made by :func:`subscriber`.

    ::

        import queue

        seen = queue.SimpleQueue()
        with typed.subscriber(session, "demo/count", int, seen.put) as subscription:
            typed.put(session, "demo/count", 7)
            print(seen.get(timeout=5).value, subscription.failed)  # 7 0
    """

    _declared: AnySubscriber

    @property
    def raw(self) -> AnySubscriber:
        """The subscriber to samples underneath."""
        return self._declared

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it, as ``zenoh.Subscriber``; ``timeout`` in seconds."""
        self._declared.wait_ready(timeout)


class Subscriber(Subscription[T], Taking[T]):
    """A declared subscriber that queues values; made by :func:`subscriber`.

    Iterating gives messages until it is undeclared or its session closes.

    ::

        subscriber = typed.subscriber(session, "demo/count", int)
        for number in range(3):
            typed.put(session, "demo/count", number)
        print([message.value for message in subscriber.recv_many(9, timeout=5)])  # [0, 1, 2]
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
        """Read the samples of a subscriber that is declared already, such as an advanced one, with a channel.

        The parameters are those of :func:`subscriber`.
        """
        made: Subscriber[V] = Subscriber(Reader(model, codec, schema, registry), on_error)
        made._declared = raw
        return made

    def recv(self, timeout: float | None = None) -> Message[T]:
        """Wait for a message.

        Args:
            timeout: Seconds; ``None`` is for ever.

        Raises:
            TimedOut: No message came in time.
            ZwireError: As raised by ``zenoh.Subscriber.recv``.
        """
        left = remaining(timeout)
        while True:
            message = self._message(self._declared.recv(next(left)))
            if message is not LEFT_OUT:
                return message

    def recv_many(self, max_items: int, timeout: float | None = None) -> list[Message[T]]:
        """Wait for a message, and take further queued ones as well.

        Args:
            max_items: Largest number of messages. Those passed to ``on_error`` count as well: the list can be
                shorter.
            timeout: Seconds to wait for the first one; ``None`` is without a limit. Then the list is empty.
        """
        return self._messages(self._declared.recv_many(max_items, timeout))

    def recv_table(
        self,
        max_rows: int = 65536,
        timeout: float | None = None,
        *,
        key: str | None = None,
        timestamp: str | None = None,
    ) -> pa.Table:
        """Wait for a message, and make a table of all queued ones: a row each.

        The columns are those of :func:`arrow_schema`. Rows of tables and record batches are concatenated
        without copies; all must have one schema. Deletions are left out, as are payloads that are no values
        of the model: those are counted in ``failed``, and passed to ``on_error``.

        Args:
            max_rows: Largest number of messages to take.
            timeout: Seconds to wait for the first one; ``None`` is without a limit. Then the table is empty.
            key: Name of a column for the keys, in front of the others.
            timestamp: Name of a column for the time stamps, as ``timestamp[us, UTC]``, null where there is
                none.

        Raises:
            TypeError: The model has no named fields, or one of them no column.
            ImportError: pyarrow is not installed.
        """
        self._columns(key, timestamp)
        return self._table(self.recv_many(max_rows, timeout), key, timestamp)

    def values(self) -> Iterator[T]:
        """Iterate over values alone: deletions are left out.

        A payload that is no value of the model raises, and the next step continues with the next sample.

        Raises:
            PayloadError: See above.
        """
        return Items(iter(self), value_of)

    def __iter__(self) -> Iterator[Message[T]]:
        return Items(iter(self._declared), self._message)


def publisher(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    codec: Codec | str | None = None,
    *,
    schema: str | None = None,
    registry: Registry | None = None,
    **options: Unpack[PublisherOptions],
) -> Publisher[T]:
    """Declare a publisher of values.

    Args:
        session: The session.
        key_expr: The key.
        model: The type of the values: a dataclass, a model of pydantic or msgspec, a TypedDict, a message
            class of protobuf, a ``Table`` or ``RecordBatch`` of pyarrow, or a plain type such as ``dict``.
        codec: A codec, or the name of one; by default the one that suits the model, which is JSON for most.
        schema: The schema in the encoding, instead of the model's own; ``""`` for none.
        registry: Registry in which codecs are looked up by name, instead of that of the process.
        options: Those of ``Session.declare_publisher``.

    Raises:
        TypeError: The model, or a part of it, has no form under that codec.
        ValueError: No codec has that name.
        ImportError: A library that the codec needs is not installed; the message names the extra.
    """
    only_blocking(session)
    writer = Writer(model, codec, schema, registry)
    return Publisher(session.declare_publisher(key_expr, encoding=writer.encoding, **options), writer)


def put(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    value: T,
    model: type[T] | None = None,
    codec: Codec | str | None = None,
    *,
    schema: str | None = None,
    registry: Registry | None = None,
    **options: Unpack[PutOptions],
) -> None:
    """Publish one value; the parameters are those of :func:`publisher` and of ``Session.put``.

    ``model`` is the class of the value, unless said otherwise.

    Raises:
        PayloadError: The value, or a part of it, has no form; nothing was published.
    """
    only_blocking(session)
    writer: Writer[Any] = Writer(type(value) if model is None else model, codec, schema, registry)
    session.put(key_expr, writer.write(value, key_expr), encoding=writer.encoding, **options)


@overload
def subscriber(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: AnyChannel | None = None,
    **options: Unpack[SubscriberKeywords[Message[T]]],
) -> Subscriber[T]: ...
@overload
def subscriber(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: Callable[[Message[T]], object] | handlers.BatchCallback[Message[T]],
    **options: Unpack[SubscriberKeywords[Message[T]]],
) -> Subscription[T]: ...
def subscriber(
    session: zenoh.Session,
    key_expr: zenoh.KeyExpr | str,
    model: type[T],
    handler: AnyChannel | Callable[[Message[T]], object] | handlers.BatchCallback[Message[T]] | None = None,
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    on_error: Callable[[Message[T]], object] | None = None,
    registry: Registry | None = None,
    **options: Unpack[SubscriberOptions],
) -> Subscription[T]:
    """Declare a subscriber to values.

    A payload is read by the codec of its encoding, which the publisher chooses. A payload that is no value of
    the model is counted in ``failed``; the subscription continues, and its message has an ``error``, which
    its ``value`` raises.

    Args:
        session: The session.
        key_expr: The key expression.
        model: The type of the values, as for :func:`publisher`; ``bytes``, ``memoryview`` and ``ZBytes`` are
            payloads themselves, of any encoding.
        handler: A channel of ``zenoh.handlers``, or a function called with each message.
        codec: Codec of payloads without an encoding (``zenoh/bytes``).
        schema: The schema to expect, instead of the model's own; ``"*"`` is any. A payload without one is
            always read.
        on_error: Gets messages with an ``error``, instead of ``handler`` or ``recv``, in the same thread.
        registry: Registry in which codecs are looked up, instead of that of the process.
        options: Those of ``Session.declare_subscriber``.

    Raises:
        TypeError: The model, or a part of it, has no form under that codec.
        ValueError: No codec has that name.
    """
    only_blocking(session, handler)
    reader = Reader(model, codec, schema, registry)
    made: Subscription[T] = (Subscription if callable(handler) else Subscriber)(reader, on_error)
    made._declared = session.declare_subscriber(key_expr, wrap(handler, made._message), **options)  # noqa: SLF001
    return made
