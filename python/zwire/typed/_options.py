"""Options of declarations and calls besides values, as in the untyped interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zwire import zenoh

__all__ = [
    "AskOptions",
    "GetOptions",
    "PublisherOptions",
    "PutOptions",
    "QuerierOptions",
    "QueryableOptions",
    "ReplyOptions",
    "SubscriberOptions",
]


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
