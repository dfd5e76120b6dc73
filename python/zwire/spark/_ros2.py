"""ROS 2 over rmw_zenoh: the parts of its keys and attachments, as columns.

A key is ``<domain>/<topic>/<type>/<hash of the type>``. An attachment holds the number of the message, the
time at its publisher and the publisher's id::

    sequence number  source time, ns  length  id
    8 octets         8 octets         10      16 octets      since May 2025, and in rmw_zenoh_pico

Before, each of the three had its name in front, a length and a text: 77 octets instead of 33. Both are read,
and 32 without the length. Spark evaluates all of it by itself, without Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.spark._types import f

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

_KEY = r"^([0-9]+)/(.+)/([^/]+)/(RIHS[0-9]+_[0-9a-f]+|TypeHashNotSupported)$"

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
    kinds = dict(df.dtypes)
    if kinds.get(key) != "string":
        raise ValueError(f"there is no column {key!r} of type string")

    def part(group: int) -> Column:
        found = f.regexp_extract(f.col(key), _KEY, group)
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
