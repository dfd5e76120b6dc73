"""Zenoh and ZRE in Spark: publish, query, shout, whisper and decode in the partitions.

For DataFrames, classic and Connect: :func:`put`, :func:`get`, :func:`shout`, :func:`whisper`, :func:`decode`
and :func:`captures`; :func:`decode_payload`, :func:`decode_ros2` and :func:`ros2` for the payloads of
samples; :func:`once` to remove duplicates from several spoolers. For
``rdd.mapPartitions``: :func:`put_partition`, :func:`get_partition`, :func:`shout_partition`,
:func:`whisper_partition`, :func:`decode_partition`, and :func:`batches` for speed. For other functions:
:func:`session`. Formats of ``spark.read`` register themselves, or by
:func:`register`. The columns of all of them are in :mod:`zwire.spark.schema`.

Importing this loads neither pyspark nor pyarrow, and each name only when it is used: every worker of Spark
imports it. Using it needs ``zwire[spark]``, on the workers as well.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zwire.spark import schema
    from zwire.spark._ask import ReplyRow
    from zwire.spark._nodes import close_nodes, node_counts
    from zwire.spark._once import once
    from zwire.spark._read import DecodedRow
    from zwire.spark._ros2 import decode_ros2, ros2
    from zwire.spark._send import PutSummary
    from zwire.spark._sessions import close_sessions, session, session_counts
    from zwire.spark._tell import ToldSummary
    from zwire.spark.arrow import captures, decode, get, put, shout, whisper
    from zwire.spark.batch import Batch, batches
    from zwire.spark.partitions import (
        decode_partition,
        get_partition,
        put_partition,
        shout_partition,
        whisper_partition,
    )
    from zwire.spark.payloads import decode_payload, payload_schema
    from zwire.spark.sources import register

__all__ = [
    "Batch",
    "DecodedRow",
    "PutSummary",
    "ReplyRow",
    "ToldSummary",
    "batches",
    "captures",
    "close_nodes",
    "close_sessions",
    "decode",
    "decode_partition",
    "decode_payload",
    "decode_ros2",
    "get",
    "get_partition",
    "node_counts",
    "once",
    "payload_schema",
    "put",
    "put_partition",
    "register",
    "ros2",
    "schema",
    "session",
    "session_counts",
    "shout",
    "shout_partition",
    "whisper",
    "whisper_partition",
]

_MODULES = {
    name: module
    for module, names in {
        "_ask": "ReplyRow",
        "_nodes": "close_nodes node_counts",
        "_once": "once",
        "_read": "DecodedRow",
        "_ros2": "decode_ros2 ros2",
        "_send": "PutSummary",
        "_sessions": "close_sessions session session_counts",
        "_tell": "ToldSummary",
        "arrow": "captures decode get put shout whisper",
        "batch": "Batch batches",
        "partitions": "decode_partition get_partition put_partition shout_partition whisper_partition",
        "payloads": "decode_payload payload_schema",
        "sources": "register",
    }.items()
    for name in names.split()
}
"""Modules of the public names."""

_PARTS = ("arrow", "batch", "partitions", "payloads", "schema", "sources")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever it is
    from importlib import import_module

    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
