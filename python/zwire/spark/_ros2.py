"""ROS 2 over rmw_zenoh: the parts of its keys and attachments, as columns.

A key is ``<domain>/<topic>/<type>/<hash of the type>``. An attachment holds the number of the message, the
time at its publisher and the publisher's id::

    sequence number  source time, ns  length  id
    8 octets         8 octets         10      16 octets      since May 2025, and in rmw_zenoh_pico

Before, each of the three had its name in front, a length and a text: 77 octets instead of 33. Both are read,
and 32 without the length. Spark evaluates all of it by itself, without Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zwire.spark._checked import check_kind, dtypes
from zwire.spark._types import f

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from pyspark.sql import Column, DataFrame

    from zwire.ros2 import TypeStore

KEY = r"^([0-9]+)/(.+)/([^/]+)/(RIHS[0-9]+_[0-9a-f]+|TypeHashNotSupported)$"

# Octets of an attachment, its first octets, and the places of number, time and id, counted from 1.
_LAYOUTS = ((33, (17, "10"), 1, 9, 18), (32, None, 1, 9, 17), (77, (1, "0F"), 17, 42, 62))


def ros2(
    df: DataFrame, *, key: str = "key", attachment: str = "attachment", prefix: str = "ros_"
) -> DataFrame:
    """Split the keys and attachments of samples of rmw_zenoh; all columns stay, and seven more follow.

    ``ros_domain`` (int), ``ros_topic`` (``/chatter``), ``ros_type`` (``std_msgs/msg/String``), ``ros_hash``,
    ``ros_seq`` (bigint), ``ros_source_ts`` (timestamp) and ``ros_gid`` (binary). They are null where a key or
    an attachment is none of rmw_zenoh. The payload stays CDR: see :func:`zwire.spark.decode_payload`.

    Args:
        df: Samples, such as those of ``zwire.pcap``; batch or stream.
        key: Column with their keys.
        attachment: Column with their attachments; without it only the columns of keys are added.
        prefix: Prefix of the names of the new columns.

    Raises:
        ValueError: A column is missing, or exists already.
    """
    kinds = dict(dtypes(df))
    if kinds.get(key) != "string":
        raise ValueError(f"there is no column {key!r} of type string")

    def part(group: int) -> Column:
        found = f.regexp_extract(f.col(key), KEY, group)
        return f.when(found != "", found)

    named = f.regexp_replace(f.regexp_replace(part(3), "(^|::)dds_::", "$1"), "_$", "")
    made = {
        "domain": part(1).cast("int"),
        "topic": f.concat(f.lit("/"), part(2)),
        "type": f.regexp_replace(named, "::", "/"),
        "hash": part(4),
    }
    if kinds.get(attachment) == "binary":
        octets = f.col(attachment)
        nanos = _by_layout(octets, 1, _number)
        made["seq"] = _by_layout(octets, 0, _number)
        made["source_ts"] = f.timestamp_micros(f.call_function("div", nanos, f.lit(1000)))
        made["gid"] = _by_layout(octets, 2, lambda value, at: f.substring(value, at, 16))
    for name in made:
        if prefix + name in kinds:
            raise ValueError(f"there is a column {prefix + name!r} already: give another prefix")
    return df.withColumns({prefix + name: column for name, column in made.items()})


NO_HASH = "TypeHashNotSupported"
"""Hash of a type in keys of distributions that have none."""

_MINE = "zwire_ros2_"
"""Prefix of columns that exist while rows are decoded."""


def decode_ros2(
    df: DataFrame,
    topic: str,
    type: str | None = None,
    *,
    store: TypeStore | None = None,
    columns: Iterable[str] | None = None,
    key: str = "key",
    payload: str = "payload",
    encoding: str = "encoding",
    prefix: str = "",
    errors: Literal["rows", "raise"] = "rows",
) -> DataFrame:
    """Select the messages of a topic of ROS 2, and decode them into the columns of its type.

    The rows stay as they are; the fields of the message follow, then ``error``: why a payload is none of the
    type, or that a key has the hash of another type. Arrays of octets, as those of images and point clouds,
    are binary, other arrays are arrays, messages within messages are structures.

    Keys are those of rmw_zenoh, ``<domain>/<topic>/<type>/<hash>``, or the name of the topic alone, as
    recordings in MCAP have it.

    Args:
        df: Samples: of a spool, a recording or a capture; batch or stream.
        topic: Name of the topic, ``/robot/imu``.
        type: Name of the type, ``sensor_msgs/msg/Imu``. By default that of the first message of the topic, by
            its key or its encoding, which needs a job of Spark; a stream needs the name.
        store: Definitions of types; by default those of the common packages.
        columns: Fields of the message to return, by default all.
        key: Column with the keys.
        payload: Column with the payloads.
        encoding: Column with the encodings, which have the name of the type in recordings.
        prefix: Prefix of the names of the new columns, where they would collide with those of the row.
        errors: ``raise`` ends the task at the first payload that does not fit.

    Raises:
        ValueError: A column is missing, or exists already; or no message says what its type is.
        DefinitionError: There is no definition of the type.
    """
    from zwire.ros2 import default_store
    from zwire.spark.payloads import decode_record

    kinds = dict(dtypes(df))
    check_kind(kinds, key, "string")
    check_kind(kinds, payload, "binary")

    def part(group: int) -> Column:
        found = f.regexp_extract(f.col(key), KEY, group)
        return f.when(found != "", found)

    rows = df.where(f.coalesce(part(2), f.trim(f.col(key), f.lit("/"))) == topic.strip("/"))
    if type is None:
        type = _type_of(rows, topic, key, encoding if kinds.get(encoding) == "string" else None)
    made = (store or default_store()).message(type)
    given = part(4)
    other = (given != NO_HASH) & (given != made.hash)
    content = f"{_MINE}payload"
    rows = rows.withColumn(content, f.when(given.isNull() | ~other, f.col(payload)))
    decoded = decode_record(rows, made, columns, content, prefix, errors).drop(content)
    name = f"{prefix}error"
    problem = f.concat(f.lit(f"{type} has the hash {made.hash}, and the key "), given)
    return decoded.withColumn(name, f.when(other, problem).otherwise(f.col(name)))


def _type_of(rows: DataFrame, topic: str, key: str, encoding: str | None) -> str:
    if rows.isStreaming:
        raise ValueError("a stream needs the name of the type")
    row = rows.select(key, *([] if encoding is None else [encoding])).first()
    found = None if row is None else type_name(row[0], None if encoding is None else row[1])
    if found is None:
        problem = "there is no message of" if row is None else "no key or encoding has the type of"
        raise ValueError(f"{problem} {topic}: give its name")
    return found


def type_name(key: str, encoding: str | None) -> str | None:
    """Return the name of the type in a key of rmw_zenoh, or behind the encoding as recordings have it."""
    if (match := re.match(KEY, key)) is not None:
        return match[3].replace("dds_::", "").removesuffix("_").replace("::", "/")
    name = (encoding or "").partition(";")[2]
    return name if "/" in name else None


def _by_layout(octets: Column, which: int, read: Callable[[Column, int], Column]) -> Column:
    found = []
    for size, mark, *places in _LAYOUTS:
        fits = f.length(octets) == size
        if mark is not None:
            at, code = mark
            fits = fits & (f.hex(f.substring(octets, at, 1)) == code)
        found.append(f.when(fits, read(octets, places[which])))
    return f.coalesce(*found)


def _number(octets: Column, at: int) -> Column:
    """Read eight octets as a little-endian number."""
    digits = f.hex(f.substring(octets, at, 8))
    turned = f.concat(*(f.substring(digits, place, 2) for place in range(15, 0, -2)))
    return f.conv(turned, 16, -10).cast("bigint")
