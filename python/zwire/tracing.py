"""W3C trace context in attachments: a trace goes on in subscribers, queryables and Spark.

>>> from zwire import tracing
>>> traced = tracing.Traced(session)  # doctest: +SKIP
>>> traced.put("robot/1/pose", "{}")  # doctest: +SKIP

Trace context is carried only where a program asks for it: by :class:`Traced` for the operations of a
session, or by :func:`inject` for one attachment. The attachment is then a map as
``zwire.zenoh.ext.z_serialize`` writes it, with text keys and bytes as values, in this order:

=============== ============================================================
``traceparent`` 55 characters, see https://www.w3.org/TR/trace-context/
``tracestate``  at most 512 characters; absent if empty
``attachment``  attachment of the program, as it is; absent if there is none
=============== ============================================================

Programs of eclipse-zenoh read it by ``z_deserialize(dict[str, bytes], attachment)``. :func:`extract` takes
one map off, so that a receiver gets the attachment that the sender gave. A map of another program with
further keys gives its trace context, too, and stays the attachment. Any other attachment is returned as it
came.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from zwire._lazy import library
from zwire.zenoh.ext import z_serialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

    from zwire.zenoh import Session

__all__ = ["Extracted", "Traced", "counters", "extract", "inject", "span"]

_PARENT, _STATE, _REST = "traceparent", "tracestate", "attachment"

_TRACEPARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.*)?"
)

_MOST_PARENT = 128
"""Characters of a traceparent; versions after 00 may have more than its 55."""

_MOST_STATE = 512
"""Characters of a tracestate that is sent or accepted."""

_MOST_ENTRIES = 16
"""Entries of a map that may hold trace context."""

_MOST_NAME = 64
"""Bytes of a key of such a map."""


class Extracted(NamedTuple):
    """Trace context and attachment of a message."""

    attachment: bytes | None
    """Attachment that the program of the sender gave."""
    traceparent: str | None = None
    """Valid; ``None`` if there is none."""
    tracestate: str | None = None

    def context(self, base: Context | None = None) -> Context:
        """Return the context of OpenTelemetry for spans that go on with the trace.

        Args:
            base: Context that it extends; the present one if left out. Without a traceparent, it is returned.

        Raises:
            ImportError: ``opentelemetry-api`` is not installed.
        """
        from opentelemetry.context import get_current

        start = get_current() if base is None else base
        if self.traceparent is None:
            return start
        carrier = {_PARENT: self.traceparent}
        if self.tracestate is not None:
            carrier[_STATE] = self.tracestate
        return _propagator().extract(carrier, start)  # type: ignore[no-any-return]  # the library is untyped here


class _Counters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("injected", "extracted", "invalid", "shortened"), 0)

    def add(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def copy(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


_COUNTERS = _Counters()


def counters() -> dict[str, int]:
    """Return counts of this process.

    ``injected`` and ``extracted`` are attachments with trace context. ``invalid`` counts those whose
    traceparent or tracestate breaks the rules of W3C, or is too long, and was ignored; ``shortened`` counts
    tracestates that were sent without their last entries.
    """
    return _COUNTERS.copy()


def inject(attachment: Any = None, context: Context | None = None) -> Any:  # noqa: ANN401 - as of `put`
    """Return an attachment with the trace context, and with the attachment of the program in it.

    Args:
        attachment: Attachment of the program: bytes, a buffer, or text.
        context: Context of OpenTelemetry; the present one if left out.

    Returns:
        The attachment to send. Without an active span it is the one given.

    Raises:
        ImportError: ``opentelemetry-api`` is not installed.
    """
    carrier: dict[str, str] = {}
    _propagator().inject(carrier, context)
    parent = carrier.get(_PARENT)
    if parent is None:
        return attachment
    entries = [(_PARENT, parent.encode())]
    if state := _shortened(carrier.get(_STATE, "")):
        entries.append((_STATE, state.encode()))
    if attachment is not None:
        entries.append((_REST, attachment.encode() if isinstance(attachment, str) else bytes(attachment)))
    _COUNTERS.add("injected")
    return z_serialize(dict(entries)).to_bytes()


def extract(source: Any) -> Extracted:  # noqa: ANN401 - whatever has an attachment
    """Return trace context and attachment of a message.

    Args:
        source: A sample, a query, a row with a column ``attachment`` (also as a mapping), or the attachment
            itself.
    """
    if isinstance(source, Mapping):
        attachment = source.get("attachment")
    else:
        attachment = getattr(source, "attachment", source)
    if attachment is None:
        return Extracted(None)
    data = bytes(attachment)
    entries = _read(data)
    if entries is None or _PARENT not in entries:
        return Extracted(data)
    ours = entries.keys() <= {_PARENT, _STATE, _REST}
    rest = entries.get(_REST) if ours else data
    parent, state = entries[_PARENT], entries.get(_STATE)
    if (valid := _valid_parent(parent)) is None:
        _COUNTERS.add("invalid")
        return Extracted(rest)
    _COUNTERS.add("extracted")
    known = None
    if state is not None and (known := _valid_state(state)) is None:
        _COUNTERS.add("invalid")
    return Extracted(rest, valid, known)


@contextlib.contextmanager
def span(
    source: Any,  # noqa: ANN401 - as of `extract`
    name: str,
    *,
    kind: SpanKind | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[Span]:
    """Run a block in a span that goes on with the trace of a message; without one it begins a trace.

    ::

        with tracing.span(sample, "plan"):
            session.put("plan", "...", attachment=tracing.inject())

    Args:
        source: As of :func:`extract`.
        name: Name of the span.
        kind: Kind of the span; that of a consumer if left out.
        tracer_provider: Provider of the span; without one, that of the program.

    Raises:
        ImportError: ``opentelemetry-api`` is not installed.
    """
    from opentelemetry.trace import SpanKind

    context = extract(source).context()
    kind = SpanKind.CONSUMER if kind is None else kind
    with _tracer(tracer_provider).start_as_current_span(name, context, kind=kind) as made:
        yield made


class Traced:
    """A session that sends trace context with publications and queries, and continues it in callbacks.

    ::

        traced = tracing.Traced(session)
        traced.declare_subscriber("robot/*/pose", lambda sample: traced.put("plan", "..."))

    ``put`` and ``delete``, also of its publishers, are spans of a producer. ``get``, also of its queriers,
    sends the context of the present span. Callbacks of subscribers and queryables run in a span of a consumer
    or server that belongs to the trace of the message; the attachment that the sender gave is
    ``tracing.extract(sample).attachment``.
    Other calls are those of the session, without spans: channels, ``put_batch``, replies, liveliness.

    Args:
        session: Session of :mod:`zwire.zenoh`; it stays usable on its own, without trace context.
        tracer_provider: Provider of the spans; without one, that of the program.

    Raises:
        ImportError: ``opentelemetry-api`` is not installed.
        TypeError: The session is one of :mod:`zwire.aio`.
    """

    def __init__(self, session: Session, tracer_provider: TracerProvider | None = None) -> None:
        if inspect.iscoroutinefunction(session.put):
            raise TypeError(
                f"Traced cannot await the calls of {session!r}: give them attachment=tracing.inject(...), "
                "and read samples and queries by tracing.extract(sample)"
            )
        self._session = session
        self._tracer = _tracer(tracer_provider)

    def __repr__(self) -> str:
        return f"<Traced {self._session!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self._session.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the session
        return getattr(self._session, name)

    def put(self, key_expr: Any, payload: Any, *, attachment: Any = None, **options: Any) -> None:  # noqa: ANN401
        """Publish a value in a span, see ``Session.put``."""
        with _producer(self._tracer, "publish", key_expr):
            self._session.put(key_expr, payload, attachment=inject(attachment), **options)

    def delete(self, key_expr: Any, *, attachment: Any = None, **options: Any) -> None:  # noqa: ANN401
        """Publish a deletion in a span, see ``Session.delete``."""
        with _producer(self._tracer, "delete", key_expr):
            self._session.delete(key_expr, attachment=inject(attachment), **options)

    def get(self, selector: Any, handler: Any = None, *, attachment: Any = None, **options: Any) -> Any:  # noqa: ANN401
        """Ask queryables, with the context of the present span, see ``Session.get``."""
        return self._session.get(selector, handler, attachment=inject(attachment), **options)

    def declare_publisher(self, key_expr: Any, **options: Any) -> Any:  # noqa: ANN401
        """Declare a publisher that publishes in spans, see ``Session.declare_publisher``."""
        return _Publisher(self._session.declare_publisher(key_expr, **options), self._tracer)

    def declare_querier(self, key_expr: Any, **options: Any) -> Any:  # noqa: ANN401
        """Declare a querier that sends the context of the present span, see ``Session.declare_querier``."""
        return _Querier(self._session.declare_querier(key_expr, **options))

    def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Any:  # noqa: ANN401
        """Declare a subscriber with a callback that runs in a span, see ``Session.declare_subscriber``."""
        from opentelemetry.trace import SpanKind

        handler = self._continuing(handler, "process", SpanKind.CONSUMER)
        return self._session.declare_subscriber(key_expr, handler, **options)

    def declare_queryable(self, key_expr: Any, handler: Any = None, **options: Any) -> Any:  # noqa: ANN401
        """Declare a queryable with a callback that runs in a span, see ``Session.declare_queryable``."""
        from opentelemetry.trace import SpanKind

        handler = self._continuing(handler, "answer", SpanKind.SERVER)
        return self._session.declare_queryable(key_expr, handler, **options)

    def _continuing(self, handler: Any, verb: str, kind: SpanKind) -> Any:  # noqa: ANN401
        from zwire.zenoh import handlers

        if isinstance(handler, tuple):
            callback, *rest = handler
            return (self._continuing(callback, verb, kind), *rest)
        if isinstance(handler, handlers.Callback):
            call = self._spanned(handler.callback, verb, kind)
            return handlers.Callback(call, handler.drop, on_error=handler.on_error)
        if isinstance(handler, handlers.BatchCallback) or not callable(handler):
            return handler
        return self._spanned(handler, verb, kind)

    def _spanned(self, call: Callable[[Any], object], verb: str, kind: SpanKind) -> Callable[[Any], None]:
        def run(item: Any) -> None:  # noqa: ANN401 - a sample or query
            name, attributes = _named(verb, item.key_expr)
            context = extract(item).context()
            with self._tracer.start_as_current_span(name, context, kind=kind, attributes=attributes):
                call(item)

        return run


class _Declared:
    """A declared entity: calls that carry no trace context are passed on to it."""

    def __init__(self, entity: Any) -> None:  # noqa: ANN401
        self._entity = entity

    def __repr__(self) -> str:
        return f"<traced {self._entity!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._entity.__exit__(*args)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._entity, name)


class _Publisher(_Declared):
    def __init__(self, publisher: Any, tracer: Tracer) -> None:  # noqa: ANN401
        super().__init__(publisher)
        self._tracer = tracer

    def put(self, payload: Any, *, attachment: Any = None, **options: Any) -> None:  # noqa: ANN401
        with _producer(self._tracer, "publish", self._entity.key_expr):
            self._entity.put(payload, attachment=inject(attachment), **options)

    def delete(self, *, attachment: Any = None, **options: Any) -> None:  # noqa: ANN401
        with _producer(self._tracer, "delete", self._entity.key_expr):
            self._entity.delete(attachment=inject(attachment), **options)


class _Querier(_Declared):
    def get(self, handler: Any = None, *, attachment: Any = None, **options: Any) -> Any:  # noqa: ANN401
        return self._entity.get(handler, attachment=inject(attachment), **options)


@functools.cache
def _propagator() -> Any:  # noqa: ANN401 - the library is untyped here
    library("opentelemetry.trace", "otel")
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _tracer(provider: TracerProvider | None) -> Tracer:
    library("opentelemetry.trace", "otel")
    from opentelemetry import trace

    from zwire import __version__

    return trace.get_tracer("zwire", __version__, provider)


@contextlib.contextmanager
def _producer(tracer: Tracer, verb: str, key: object) -> Iterator[None]:
    from opentelemetry.trace import SpanKind

    name, attributes = _named(verb, key)
    with tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes):
        yield


def _named(verb: str, key: object) -> tuple[str, dict[str, str]]:
    return f"{verb} {key}", {"messaging.system": "zenoh", "messaging.destination.name": str(key)}


def _valid_parent(data: bytes) -> str | None:
    if len(data) > _MOST_PARENT:
        return None
    text = data.decode("latin-1")
    found = _TRACEPARENT.fullmatch(text)
    # Version 00 has nothing behind its flags.
    return text if found is not None and not (found["version"] == "00" and found["more"]) else None


def _valid_state(data: bytes) -> str | None:
    if len(data) > _MOST_STATE or not all(0x20 <= byte < 0x7F for byte in data):
        return None
    return data.decode("ascii")


def _shortened(state: str) -> str:
    if len(state) > _MOST_STATE:
        # The first entries are the newest.
        state = state[: _MOST_STATE + 1].rpartition(",")[0]
        _COUNTERS.add("shortened")
    return state


def _read(data: bytes) -> dict[str, bytes] | None:
    """Read a map of texts to bytes; return ``None`` for all other bytes, and for a map too large."""
    # Nearly all other attachments end here.
    if not data or not 0 < data[0] <= _MOST_ENTRIES:
        return None
    at, entries = 1, {}
    for _ in range(data[0]):
        pair: list[bytes] = []
        for _ in range(2):
            length, at = _length(data, at)
            if length is None or length > len(data) - at or (not pair and length > _MOST_NAME):
                return None
            pair.append(data[at : at + length])
            at += length
        try:
            name = pair[0].decode()
        except UnicodeDecodeError:
            return None
        if name in entries:
            return None
        entries[name] = pair[1]
    return entries if at == len(data) else None


def _length(data: bytes, at: int) -> tuple[int | None, int]:
    number = 0
    for index, byte in enumerate(data[at : at + 5]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, at + index + 1
    return None, at
