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


class Qos(TypedDict, total=False):
    """What happens to messages on their way."""

    congestion_control: zenoh.CongestionControl | None
    priority: zenoh.Priority | None
    express: bool | None


class PublisherOptions(Qos, total=False):
    """What ``Session.declare_publisher`` takes as well."""

    reliability: zenoh.Reliability | None
    allowed_destination: zenoh.Locality | None


class PutOptions(Qos, total=False):
    """What ``Session.put`` takes as well."""

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


class ReplyOptions(Qos, total=False):
    """What ``zenoh.Query.reply`` takes as well."""

    attachment: Buffer | str | None
    timestamp: zenoh.Timestamp | None


class QuerierOptions(Qos, total=False):
    """What ``Session.declare_querier`` takes as well."""

    target: zenoh.QueryTarget | None
    consolidation: zenoh.ConsolidationMode | zenoh.QueryConsolidation | None
    accept_replies: zenoh.ReplyKeyExpr | None
    timeout: float | None
    allowed_destination: zenoh.Locality | None


class _Question(TypedDict, total=False):
    """What goes with one question."""

    attachment: Buffer | str | None
    source_info: zenoh.SourceInfo | None
    cancellation_token: zenoh.CancellationToken | None


class AskOptions(_Question, total=False):
    """What ``zenoh.Querier.get`` takes as well."""

    parameters: zenoh.Parameters | dict[str, str] | str | None


class GetOptions(QuerierOptions, _Question, total=False):
    """What ``Session.get`` takes as well."""
