"""The entities that a session declares, for event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zwire._zwire import LinkEvent, MatchingStatus, Pending, Sample, TransportEvent, without_waiting
from zwire.aio._channel import Receiver
from zwire.aio._context import Context, Ready
from zwire.aio._get import Replies
from zwire.aio._loops import until
from zwire.aio._query import Query
from zwire.aio._sender import Sender, finish, sends
from zwire.errors import TimedOut

if TYPE_CHECKING:
    from zwire import _zwire
    from zwire._zwire import (
        ArrowBatch,
        CancellationToken,
        Encoding,
        EntityGlobalId,
        KeyExpr,
        Reply,
        SourceInfo,
        Timestamp,
        TimestampInstrumentation,
        _IntoEncoding,
        _IntoParameters,
        _IntoZBytes,
    )
    from zwire.aio._channel import IntoHandler
    from zwire.zenoh import CongestionControl, Priority, Reliability, ReplyKeyExpr

T = TypeVar("T")
ANSWERS = 32
"""Most calls of a queryable's callback under way at once."""


class Declared(Context, Ready):
    """Something that is declared until it is undeclared, or its session closes."""

    _inner: Any

    async def undeclare(self) -> None:
        """Undeclare the entity. A second call raises ``UsageError``."""
        self._inner.undeclare()

    async def _leave(self) -> None:
        self._inner.__exit__(None, None, None)


class Announced(Declared):
    """An entity announced to neighbours."""

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of the entity.

        Args:
            timeout: Seconds; None waits for ever.

        Raises:
            TimedOut: Not all of them do within that time.
            SessionClosed: The session is closed.
        """
        if not await until(Pending.declarations(self._inner), timeout):
            raise TimedOut(f"the answer of the neighbours took longer than {timeout} s", seconds=timeout)


class Entity(Declared):
    """An entity with an id and a key expression."""

    @property
    def id(self) -> EntityGlobalId:
        """The id of the entity."""
        return self._inner.id  # type: ignore[no-any-return]

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression that it subscribes to, answers, asks for or publishes on."""
        return self._inner.key_expr  # type: ignore[no-any-return]


class Listener(Receiver[T], Declared, Generic[T]):
    """A receiver that is declared."""


class Inlet(Listener[T], Entity, Announced, Generic[T]):
    """A receiver of messages from other nodes to a key expression."""

    @property
    def dropped(self) -> int:
        """Number of items dropped because the handler was full."""
        return self._inner.dropped  # type: ignore[no-any-return]


class Batches(Receiver[T]):
    """A receiver of items that fit into a table."""

    async def recv_batch(self, max_rows: int = 65536, timeout: float | None = None) -> ArrowBatch:
        """Take up to ``max_rows`` items as an Arrow record batch, as in the other interface.

        Waits for the first only. ``timeout`` is in seconds; when they are over, the batch has no rows. Errors
        are those of :meth:`recv`.
        """
        batch: ArrowBatch = await self._open().batch(
            lambda: self._inner.recv_batch(max_rows, 0.0), timeout, enough=max_rows <= 0
        )
        return batch


class Samples(Inlet[Sample], Batches[Sample]):
    """A receiver of samples."""


class Subscriber(Samples):
    """A declared subscriber: an asynchronous iterator over its samples, unless it has a callback."""

    @property
    def replaced(self) -> int:
        """Number of samples replaced by newer ones of the same key, in a ``LatestChannel``."""
        return self._inner.replaced  # type: ignore[no-any-return]

    @property
    def errors(self) -> int:
        """Number of calls of the callback that have raised."""
        return 0 if self._server is None else self._server.errors


class Queryable(Inlet[Query]):
    """A declared queryable: an asynchronous iterator over its queries, unless it has a callback."""

    @property
    def errors(self) -> int:
        """Number of calls of the callback that have raised."""
        return 0 if self._server is None else self._server.errors


class LivelinessToken(Announced):
    """A declared token."""

    def __init__(self, inner: _zwire.LivelinessToken) -> None:
        self._inner = inner


class MatchingListener(Listener[MatchingStatus]):
    """A listener to changes of the matching status."""


class TransportEventsListener(Listener[TransportEvent]):
    """A listener to nodes that connect and disconnect."""


class LinkEventsListener(Listener[LinkEvent]):
    """A listener to links that come and go."""


class Expecting(Entity):
    """An entity that can wait for matching subscribers or queryables."""

    async def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait until at least ``n`` matching subscribers or queryables exist.

        Args:
            n: How many, counted as in the other interface.
            timeout: Seconds; None waits for ever.

        Raises:
            TimedOut: Fewer exist within that time.
            SessionClosed: The session is closed.
        """
        if not await until(Pending.matching(self._inner, n), timeout):
            raise TimedOut(f"the match took longer than {timeout} s", seconds=timeout)


class Matched(Expecting):
    """An entity with a matching status and listeners to its changes."""

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether a matching subscriber or queryable exists."""
        return self._inner.matching_status  # type: ignore[no-any-return]

    def declare_matching_listener(
        self, handler: IntoHandler[MatchingStatus] | None = None
    ) -> MatchingListener:
        """Listen to changes of the matching status."""
        return MatchingListener(self._inner.declare_matching_listener, handler)


class Outlet(Entity, Sender):
    """An entity that publishes to a key expression."""

    _inner: _zwire.Publisher | _zwire.AdvancedPublisher

    @property
    def encoding(self) -> Encoding:
        """The encoding of its values."""
        return self._inner.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """The behaviour of its publications when a queue is full."""
        return self._inner.congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its publications."""
        return self._inner.priority


class Publisher(Matched, Outlet):
    """A declared publisher."""

    def __init__(self, inner: _zwire.Publisher) -> None:
        self._inner: _zwire.Publisher = inner

    @property
    def reliability(self) -> Reliability:
        """The channel of its publications."""
        return self._inner.reliability

    async def put(
        self,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value; waits for room as congestion control requires."""
        if (
            self._turns > 1
            and encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
        ):
            # Most messages have no options; gathering arguments would cost a fifth of such a call.
            self._turns -= 1
            _, room = without_waiting(self._inner.put, payload)
            if room is not None:
                await finish(room, self._inner.put, payload)
            return
        await self._send(
            self._inner.put,
            payload,
            encoding=encoding,
            attachment=attachment,
            timestamp=timestamp,
            timestamp_instrumentation=timestamp_instrumentation,
            source_info=source_info,
        )

    @sends
    async def delete(
        self,
        *,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a deletion."""


class Querier(Matched):
    """A declared querier."""

    def __init__(self, inner: _zwire.Querier) -> None:
        self._inner: _zwire.Querier = inner

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        """The keys of replies that it accepts."""
        return self._inner.accept_replies

    def get(
        self,
        handler: IntoHandler[Reply] | None = None,
        *,
        parameters: _IntoParameters | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> Replies:
        """Send a query; see ``Session.get``."""
        return Replies(
            self._inner.get,
            handler,
            cancellation_token,
            {
                "parameters": parameters,
                "payload": payload,
                "encoding": encoding,
                "attachment": attachment,
                "source_info": source_info,
                "timestamp_instrumentation": timestamp_instrumentation,
            },
        )
