"""Options of declarations and calls, of both interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import typing_extensions
    from typing_extensions import Buffer

    from zwire import zenoh
    from zwire.typed._codec import Codec
    from zwire.typed._registry import Registry

    A = typing_extensions.TypeVar("A", default=None)
    """Type of the values of queries: ``None`` for a declaration without ``request``."""

X = TypeVar("X")


class Qos(TypedDict, total=False):
    """Quality of service of messages."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None


class PublisherOptions(Qos, total=False):
    """Further options, passed to ``Session.declare_publisher``."""

    reliability: zenoh.Reliability | None
    allowed_destination: zenoh.Locality | None


class PutOptions(Qos, total=False):
    """Further options, passed to ``Session.put``."""

    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None
    allowed_destination: zenoh.Locality | None
    source_info: zenoh.SourceInfo | None


class SubscriberOptions(TypedDict, total=False):
    """Further options, passed to ``Session.declare_subscriber``."""

    allowed_origin: zenoh.Locality | None


class QueryableOptions(TypedDict, total=False):
    """Further options, passed to ``Session.declare_queryable``."""

    complete: bool | None
    allowed_origin: zenoh.Locality | None


class ReplyOptions(Qos, total=False):
    """Further options, passed to ``zenoh.Query.reply``."""

    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None


class QuerierOptions(Qos, total=False):
    """Further options, passed to ``Session.declare_querier``."""

    target: zenoh.QueryTarget | None
    consolidation: zenoh.ConsolidationMode | zenoh.QueryConsolidation | None
    accept_replies: zenoh.ReplyKeyExpr | None
    timeout: float | None
    budget: int | None
    allowed_destination: zenoh.Locality | None


class _Question(TypedDict, total=False):
    """Options of a single query."""

    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None


class AskOptions(_Question, total=False):
    """Further options, passed to ``zenoh.Querier.get``."""

    parameters: zenoh.Parameters | dict[str, str] | str | None


class GetOptions(QuerierOptions, _Question, total=False):
    """Further options, passed to ``Session.get``."""


# ---- Keywords of overloads: the options, and the keywords that the definition names one by one ------


class _Reading(TypedDict, Generic[X], total=False):
    """Keywords of a declaration that hands out items of one type."""

    codec: Codec | str | None
    on_error: Callable[[X], object] | None
    registry: Registry | None


class SubscriberKeywords(SubscriberOptions, _Reading[X], total=False):
    """Keywords of ``subscriber``."""

    schema: str | None


class QueryableKeywords(QueryableOptions, _Reading[X], total=False):
    """Keywords of ``queryable`` besides ``request``."""


def given(**options: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the options that are set: not every publisher accepts all of them."""
    return {name: option for name, option in options.items() if option is not None}
