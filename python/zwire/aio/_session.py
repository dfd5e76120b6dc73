"""Sessions, for event loops."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from zwire import _zwire
from zwire._zwire import Pending, without_waiting
from zwire.aio import _threads
from zwire.aio._context import Beginning, Context
from zwire.aio._entities import (
    ANSWERS,
    LinkEventsListener,
    LivelinessToken,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
    TransportEventsListener,
)
from zwire.aio._get import Replies
from zwire.aio._loops import deadline, left, until
from zwire.aio._query import Query
from zwire.aio._sender import Sender, finish, sends
from zwire.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire._zwire import (
        CancellationToken,
        EntityGlobalId,
        KeyExpr,
        Link,
        LinkEvent,
        PutSummary,
        QueryConsolidation,
        Reply,
        Sample,
        Selector,
        SourceInfo,
        Timestamp,
        TimestampContext,
        TimestampInstrumentation,
        Transport,
        TransportEvent,
        ZenohId,
        _ArrowArray,
        _IntoConfig,
        _IntoEncoding,
        _IntoKeyExpr,
        _IntoZBytes,
    )
    from zwire.aio._channel import IntoHandler, Server
    from zwire.aio._entities import Declared
    from zwire.stats import SessionStats
    from zwire.zenoh import (
        CongestionControl,
        ConsolidationMode,
        Locality,
        Priority,
        QueryTarget,
        Reliability,
        ReplyKeyExpr,
    )

LINGER: Final = 2.0
"""Seconds that `close` waits by default."""


class Session(Sender, Context):
    """An open session, as ``zwire.aio.open`` gives it; an asynchronous context manager.

    Names and parameters are those of ``zwire.zenoh.Session``. Calls that may block are coroutines.
    Declarations do
    not wait; ``await`` and ``async with`` are allowed on them.

    Args:
        session: A session of ``zwire.zenoh``, which may still be used directly.
    """

    def __init__(self, session: _zwire.Session) -> None:
        self._session = self._inner = session
        self._servers: weakref.WeakSet[Server[Any]] = weakref.WeakSet()

    async def _leave(self) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._session)

    def zid(self) -> ZenohId:
        """Return the id of this node."""
        return self._session.zid()

    @property
    def id(self) -> EntityGlobalId:
        """The id of this session as an entity."""
        return self._session.id

    @property
    def info(self) -> SessionInfo:
        """Information about links and neighbours."""
        return SessionInfo(self._session.info, self._servers)

    async def close(self, timeout: float | None = None) -> None:
        """Close the session: announce it to neighbours, and end every handler and callback.

        Repeated calls have no effect. Messages queued for the network, and callbacks, get ``timeout`` seconds
        together, two if it is None. Callbacks get the items received before the end; then only ``drop`` is
        called. A close within a callback does not wait for that callback. Calls that wait for the session
        raise ``SessionClosed``.
        """
        end = deadline(LINGER if timeout is None else timeout)
        servers = list(self._servers)
        if not self._session.is_closed():
            await _threads.run(self._session.close, timeout)
        for server in servers:
            if not server.stopped and not await server.wait(left(end)):
                server.stop()

    def is_closed(self) -> bool:
        """Whether the session is closed."""
        return self._session.is_closed()

    def share(self) -> Session:
        """Return another handle of the same session."""
        session = Session(self._session.share())
        session._servers = self._servers
        return session

    async def ready(self, timeout: float | None = None) -> bool:
        """Wait until all neighbours know the declarations of this session.

        Returns whether they do: False if ``timeout`` seconds are over first.
        """
        return await until(Pending.declarations(self._session), timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all neighbours have taken the publications of this session, best effort excepted.

        Raises:
            TimedOut: They have not within ``timeout`` seconds.
            LinkClosed: The link of a client closed before.
        """
        if not await until(Pending.everything(self._session), timeout):
            raise TimedOut(f"the answer of the neighbours took longer than {timeout} s", seconds=timeout)

    def new_timestamp(self) -> Timestamp:
        """Make a timestamp that is later than all before it."""
        return self._session.new_timestamp()

    def stats(self) -> SessionStats:
        """Return counters by name: messages, bytes, and drops by reason."""
        return self._session.stats()

    def listening(self) -> list[str]:
        """Return the endpoints on which this node listens."""
        return self._session.listening()

    async def declare_keyexpr(self, key_expr: _IntoKeyExpr) -> KeyExpr:
        """Declare a key expression, so that publications on it are shorter on the wire."""
        return self._session.declare_keyexpr(key_expr)

    async def undeclare(self, obj: KeyExpr | Declared) -> None:
        """Undeclare a key expression, or any other entity."""
        if isinstance(obj, _zwire.KeyExpr):
            self._session.undeclare(obj)
        else:
            await obj.undeclare()

    async def put(
        self,
        key_expr: _IntoKeyExpr,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value; waits for room as congestion control requires."""
        if (
            self._turns > 1
            and encoding is None
            and congestion_control is None
            and priority is None
            and express is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and allowed_destination is None
            and source_info is None
        ):
            # As for a publisher.
            self._turns -= 1
            _, room = without_waiting(self._session.put, key_expr, payload)
            if room is not None:
                await finish(room, self._session.put, key_expr, payload)
            return
        await self._send(
            self._session.put,
            key_expr,
            payload,
            encoding=encoding,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            attachment=attachment,
            timestamp=timestamp,
            timestamp_instrumentation=timestamp_instrumentation,
            allowed_destination=allowed_destination,
            source_info=source_info,
        )

    async def put_batch(
        self,
        batch: _ArrowArray,
        *,
        key_expr: _IntoKeyExpr | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> PutSummary:
        """Publish every row of an Arrow record batch, in a thread; see ``zwire.zenoh.Session.put_batch``."""
        return await _threads.wait(
            self._session.put_batch,
            batch,
            key_expr=key_expr,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
        )

    @sends
    async def delete(
        self,
        key_expr: _IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a deletion."""

    def get(
        self,
        selector: Selector | _IntoKeyExpr,
        handler: IntoHandler[Reply] | None = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        budget: int | None = None,
    ) -> Replies:
        """Query queryables: ``await`` gives all replies as a list, ``async for`` each as it comes."""
        return Replies(
            self._session.get,
            handler,
            cancellation_token,
            {
                "target": target,
                "consolidation": consolidation,
                "accept_replies": accept_replies,
                "timeout": timeout,
                "congestion_control": congestion_control,
                "priority": priority,
                "express": express,
                "payload": payload,
                "encoding": encoding,
                "attachment": attachment,
                "allowed_destination": allowed_destination,
                "source_info": source_info,
                "timestamp_instrumentation": timestamp_instrumentation,
                "budget": budget,
            },
            selector,
        )

    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: IntoHandler[Sample] | None = None,
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber:
        """Subscribe to a key expression. A callback gets one sample at a time."""
        return Subscriber(
            lambda channel: self._session.declare_subscriber(
                key_expr, channel, allowed_origin=allowed_origin
            ),
            handler,
            servers=self._servers,
        )

    def declare_queryable(
        self,
        key_expr: _IntoKeyExpr,
        handler: IntoHandler[Query] | None = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable:
        """Answer queries on a key expression. Up to 32 calls of a callback run at once."""
        return Queryable(
            lambda channel: self._session.declare_queryable(
                key_expr, channel, complete=complete, allowed_origin=allowed_origin
            ),
            handler,
            Query,
            concurrency=ANSWERS,
            servers=self._servers,
        )

    def declare_publisher(
        self,
        key_expr: _IntoKeyExpr,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Prepare for publications on a key expression."""
        return Publisher(
            self._session.declare_publisher(
                key_expr,
                encoding=encoding,
                congestion_control=congestion_control,
                priority=priority,
                express=express,
                reliability=reliability,
                allowed_destination=allowed_destination,
            )
        )

    def declare_querier(
        self,
        key_expr: _IntoKeyExpr,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
        budget: int | None = None,
    ) -> Querier:
        """Prepare for queries on a key expression."""
        return Querier(
            self._session.declare_querier(
                key_expr,
                target=target,
                consolidation=consolidation,
                accept_replies=accept_replies,
                timeout=timeout,
                congestion_control=congestion_control,
                priority=priority,
                express=express,
                allowed_destination=allowed_destination,
                budget=budget,
            )
        )

    def liveliness(self) -> Liveliness:
        """Return the interface to liveliness tokens."""
        return Liveliness(self._session.liveliness(), self._servers)


class Liveliness:
    """Tokens of this session and of others."""

    def __init__(self, inner: _zwire.Liveliness, servers: weakref.WeakSet[Server[Any]]) -> None:
        self._inner = inner
        self._servers = servers

    def declare_token(self, key_expr: _IntoKeyExpr) -> LivelinessToken:
        """Declare that a key is alive as long as the token and the session are."""
        return LivelinessToken(self._inner.declare_token(key_expr))

    def get(
        self,
        key_expr: _IntoKeyExpr,
        handler: IntoHandler[Reply] | None = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Replies:
        """Ask which tokens are alive; each comes as the sample of a reply."""
        return Replies(self._inner.get, handler, cancellation_token, {"timeout": timeout}, key_expr)

    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: IntoHandler[Sample] | None = None,
        *,
        history: bool | None = None,
    ) -> Subscriber:
        """Subscribe to tokens: PUT when one appears, DELETE when it is gone."""
        return Subscriber(
            lambda channel: self._inner.declare_subscriber(key_expr, channel, history=history),
            handler,
            servers=self._servers,
        )


class SessionInfo:
    """Information about links and neighbours."""

    def __init__(self, inner: _zwire.SessionInfo, servers: weakref.WeakSet[Server[Any]]) -> None:
        self._inner = inner
        self._servers = servers

    def zid(self) -> ZenohId:
        """Return the id of this node."""
        return self._inner.zid()

    def routers_zid(self) -> list[ZenohId]:
        """Return the routers that this node is connected to."""
        return self._inner.routers_zid()

    def peers_zid(self) -> list[ZenohId]:
        """Return the peers that this node is connected to."""
        return self._inner.peers_zid()

    def transports(self) -> list[Transport]:
        """Return the open sessions with other nodes."""
        return self._inner.transports()

    def links(self) -> list[Link]:
        """Return the established links."""
        return self._inner.links()

    def declare_transport_events_listener(
        self,
        handler: IntoHandler[TransportEvent] | None = None,
        *,
        history: bool | None = None,
    ) -> TransportEventsListener:
        """Listen to nodes that connect and disconnect; with ``history``, those connected come first."""
        return TransportEventsListener(
            lambda channel: self._inner.declare_transport_events_listener(channel, history=history),
            handler,
            servers=self._servers,
        )

    def declare_link_events_listener(
        self,
        handler: IntoHandler[LinkEvent] | None = None,
        *,
        history: bool | None = None,
    ) -> LinkEventsListener:
        """Listen to links that open and close; with ``history``, those open come first."""
        return LinkEventsListener(
            lambda channel: self._inner.declare_link_events_listener(channel, history=history),
            handler,
            servers=self._servers,
        )


class Opening(Beginning[Session]):
    """A session that is about to be opened: ``await`` it, or enter it with ``async with``."""

    def __init__(
        self, config: _IntoConfig | None, timestamp_callback: Callable[[TimestampContext], bytes] | None
    ) -> None:
        self._config = config
        self._timestamp_callback = timestamp_callback

    async def _begin(self) -> Session:
        session = await _threads.make(
            _zwire.Session.close, _zwire.open, self._config, timestamp_callback=self._timestamp_callback
        )
        return Session(session)


def open(
    config: _IntoConfig | None = None,
    *,
    timestamp_callback: Callable[[TimestampContext], bytes] | None = None,
) -> Opening:
    """Open a session; ``await`` it, or enter it with ``async with``, which closes it.

    Raises:
        ConnectError: No endpoint answers.
        ConfigError: Keys of the configuration contradict each other.
    """
    return Opening(config, timestamp_callback)
