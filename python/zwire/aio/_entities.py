"""The entities that a session declares, for event loops."""

from __future__ import annotations

from zwire._zwire import LinkEvent, MatchingStatus, Pending, Sample, TransportEvent
from zwire.aio._channel import Receiver
from zwire.aio._context import Context, Generic, Ready, T
from zwire.aio._loops import until
from zwire.aio._query import Query
from zwire.errors import TimedOut

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable
    from typing import Any

    from zwire import _zwire
    from zwire._zwire import ArrowBatch, EntityGlobalId, KeyExpr
    from zwire.aio._channel import IntoHandler, Server

ANSWERS = 32
"""Most calls of a queryable's callback under way at once."""


class Declared(Context, Ready):
    """Something that is declared until it is undeclared, or its session closes."""

    _inner: Any

    def __repr__(self) -> str:
        return repr(self._inner)

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
    """A declared queryable: an asynchronous iterator over its queries, unless it has a callback.

    ::

        async def answer(query: aio.Query) -> None:
            await query.reply(query.key_expr, "now")

        async with session.declare_queryable("demo/now", answer):
            async for reply in session.get("demo/now", timeout=5):
                print(reply.ok.payload.to_string())  # now
    """

    def __init__(
        self, declare: Callable[[Any], Any], handler: object, *, servers: weakref.WeakSet[Server[Any]]
    ) -> None:
        super().__init__(declare, handler, Query, concurrency=ANSWERS, servers=servers)

    @property
    def errors(self) -> int:
        """Number of calls of the callback that have raised."""
        return 0 if self._server is None else self._server.errors


class LivelinessToken(Announced):
    """A declared token.

    ::

        token = await session.liveliness().declare_token("fleet/7")
        await token.wait_ready(timeout=5)
        await token.undeclare()
    """

    def __init__(self, inner: _zwire.LivelinessToken) -> None:
        self._inner = inner


class MatchingListener(Listener[MatchingStatus]):
    """A listener to changes of the matching status.

    ::

        publisher = session.declare_publisher("demo/a")
        async with publisher.declare_matching_listener() as listener:
            subscriber = session.declare_subscriber("demo/**")
            print((await listener.recv(timeout=5)).matching)  # True
    """


class TransportEventsListener(Listener[TransportEvent]):
    """A listener to nodes that connect and disconnect.

    ::

        async with session.info.declare_transport_events_listener() as listener:
            async with aio.open({"mode": "client", "connect/endpoints": session.listening()}) as client:
                event = await listener.recv(timeout=5)
                print(event.kind.name, event.transport.zid == client.zid())  # PUT True
    """


class LinkEventsListener(Listener[LinkEvent]):
    """A listener to links that come and go.

    ::

        async with session.info.declare_link_events_listener() as listener:
            async with aio.open({"mode": "client", "connect/endpoints": session.listening()}) as client:
                event = await listener.recv(timeout=5)
                print(event.kind.name, event.link.zid == client.zid())  # PUT True
    """


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
