"""Advanced publishers and subscribers for event loops; their settings are those of :mod:`zwire.zenoh.ext`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zwire import _zwire
from zwire._zwire import Miss, Sample
from zwire.aio._entities import Expecting, Listener, Outlet, Samples, Subscriber
from zwire.aio._sender import sends

if TYPE_CHECKING:
    import weakref

    from zwire._zwire import (
        CacheConfig,
        HistoryConfig,
        MissDetectionConfig,
        RecoveryConfig,
        Timestamp,
        _IntoEncoding,
        _IntoKeyExpr,
        _IntoZBytes,
    )
    from zwire.aio._channel import IntoHandler, Server
    from zwire.aio._session import Session
    from zwire.zenoh import CongestionControl, Locality, Priority, Reliability

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "SampleMissListener",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
]


class AdvancedPublisher(Outlet, Expecting):
    """A publisher that numbers its publications and keeps the newest."""

    def __init__(self, inner: _zwire.AdvancedPublisher) -> None:
        self._inner: _zwire.AdvancedPublisher = inner

    @sends
    async def put(
        self,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: None = None,
    ) -> None:
        """Publish a value; waits for room as congestion control requires."""

    @sends
    async def delete(
        self,
        *,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: None = None,
    ) -> None:
        """Publish a deletion."""


class SampleMissListener(Listener[Miss]):
    """A listener to what an advanced subscriber misses."""


class AdvancedSubscriber(Samples):
    """A subscriber that orders samples, asks for missing ones, and reports lost ones."""

    _servers: weakref.WeakSet[Server[Any]]

    def sample_miss_listener(self, handler: IntoHandler[Miss] | None = None) -> SampleMissListener:
        """Listen to missed publications: each is reported once, when no publisher has it any more."""
        return SampleMissListener(self._inner.sample_miss_listener, handler, servers=self._servers)

    def detect_publishers(
        self, handler: IntoHandler[Sample] | None = None, *, history: bool | None = None
    ) -> Subscriber:
        """Subscribe to the tokens of publishers with ``publisher_detection`` on its key."""
        return Subscriber(
            lambda channel: self._inner.detect_publishers(channel, history=history),
            handler,
            servers=self._servers,
        )


def declare_advanced_publisher(
    session: Session,
    key_expr: _IntoKeyExpr,
    *,
    encoding: _IntoEncoding | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
    reliability: Reliability | None = None,
    allowed_destination: Locality | None = None,
    cache: CacheConfig | None = None,
    sample_miss_detection: MissDetectionConfig | None = None,
    publisher_detection: bool | None = None,
) -> AdvancedPublisher:
    """Declare an advanced publisher; see ``zwire.zenoh.ext.declare_advanced_publisher``."""
    inner = _zwire.declare_advanced_publisher(
        session._session,  # noqa: SLF001 - of the same package
        key_expr,
        encoding=encoding,
        congestion_control=congestion_control,
        priority=priority,
        express=express,
        reliability=reliability,
        allowed_destination=allowed_destination,
        cache=cache,
        sample_miss_detection=sample_miss_detection,
        publisher_detection=publisher_detection,
    )
    return AdvancedPublisher(inner)


def declare_advanced_subscriber(
    session: Session,
    key_expr: _IntoKeyExpr,
    handler: IntoHandler[Sample] | None = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber:
    """Declare an advanced subscriber; see ``zwire.zenoh.ext.declare_advanced_subscriber``."""
    servers = session._servers  # noqa: SLF001 - of the same package
    subscriber = AdvancedSubscriber(
        lambda channel: _zwire.declare_advanced_subscriber(
            session._session,  # noqa: SLF001 - of the same package
            key_expr,
            channel,
            allowed_origin=allowed_origin,
            history=history,
            recovery=recovery,
            subscriber_detection=subscriber_detection,
        ),
        handler,
        servers=servers,
    )
    subscriber._servers = servers  # noqa: SLF001 - for what it declares in turn
    return subscriber
