"""What declarations and calls take besides values, as in the interface of payloads."""

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


class PublisherOptions(TypedDict, total=False):
    """What ``Session.declare_publisher`` takes as well."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    reliability: zenoh.Reliability | None
    allowed_destination: zenoh.Locality | None


class PutOptions(TypedDict, total=False):
    """What ``Session.put`` takes as well."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None
    allowed_destination: zenoh.Locality | None
    source_info: zenoh.SourceInfo | None


class SubscriberOptions(TypedDict, total=False):
    """What ``Session.declare_subscriber`` takes as well."""

    allowed_origin: zenoh.Locality | None


class QueryableOptions(TypedDict, total=False):
    """What ``Session.declare_queryable`` takes as well."""

    complete: bool | None
    allowed_origin: zenoh.Locality | None


class ReplyOptions(TypedDict, total=False):
    """What ``zenoh.Query.reply`` takes as well."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None


class QuerierOptions(TypedDict, total=False):
    """What ``Session.declare_querier`` takes as well."""

    target: zenoh.QueryTarget | None
    consolidation: zenoh.ConsolidationMode | zenoh.QueryConsolidation | None
    accept_replies: zenoh.ReplyKeyExpr | None
    timeout: float | None
    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None
    allowed_destination: zenoh.Locality | None


class AskOptions(TypedDict, total=False):
    """What ``zenoh.Querier.get`` takes as well."""

    parameters: zenoh.Parameters | dict[str, str] | str | None
    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None


class GetOptions(QuerierOptions, total=False):
    """What ``Session.get`` takes as well."""

    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None
