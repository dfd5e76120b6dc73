"""Messages of ROS 2, decoded in Python on one core, against rosbags.

`decode` is the call alone: zwire checks the payload and makes attributes when one is read. `and read` reads
every attribute of every object afterwards, on both sides.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children
from python.plan import interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from python.plan import Plan

AREA = "ros2"
KINDS = ("float64", "int32", "uint8", "string", "bool")
HUNDRED = "\n".join(f"{KINDS[number % 5]} f{number}" for number in range(100))
NUMBERS = "\n".join(f"float64 f{number}" for number in range(100))
MESSAGES = {
    "sensor_msgs/msg/PointCloud2": "PointCloud2, 160 kB",
    "bench/msg/Hundred": "100 fields, 20 of them texts",
    "bench/msg/Numbers": "100 numbers",
}


class Decoding:
    """Decodes a payload with both libraries, on one core."""

    def __init__(self, name: str) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        numpy: Any = importlib.import_module("numpy")
        store = importlib.import_module("zwire.ros2").TypeStore()
        rosbags: Any = importlib.import_module("rosbags.typesys")
        theirs = rosbags.get_typestore(rosbags.Stores.ROS2_JAZZY)
        for text, added in ((HUNDRED, "bench/msg/Hundred"), (NUMBERS, "bench/msg/Numbers")):
            store.add(text, added)
            theirs.register(rosbags.get_types_from_msg(text, added))
        ours = store.message(name)
        message = ours.cls()
        if name.endswith("PointCloud2"):
            field = store.message("sensor_msgs/msg/PointField").cls
            message.fields = [field(each, 4 * at, 7, 1) for at, each in enumerate("xyzi")]
            message.header.frame_id = "lidar"
            message.data = numpy.arange(160_000, dtype="u1")
        else:
            for at in range(3, 100, 5):
                setattr(message, f"f{at}", "text" if "Hundred" in name else 1.5)
        payload = ours.encode(message)
        if payload != bytes(theirs.serialize_cdr(message, name)):
            raise ChildError("the payloads differ")
        self.decode: dict[str, Callable[[], Any]] = {
            "zwire": lambda: ours.decode(payload),
            "rosbags": lambda: theirs.deserialize_cdr(payload, name),
        }

    def close(self) -> None:
        self.decode = {}

    def measure(self, side: str, seconds: float, read: bool) -> float:
        """Decode for that long; return messages per second."""
        decode, count, begin = self.decode[side], 0, time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
            for _ in range(100):
                message = decode()
                if read:
                    _read(message)
            count += 100
        return count / passed


def _read(message: Any) -> None:
    """Read all attributes, those of messages within it as well."""
    for name in getattr(type(message), "__match_args__", ()):
        value = getattr(message, name)
        for each in value if isinstance(value, list) else (value,):
            if hasattr(each, "__msgtype__"):
                _read(each)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    for name, title in MESSAGES.items():
        rows = [
            Row(AREA, f"decode {title}", "msg/s", "rosbags", target=5.0),
            Row(AREA, f"decode {title}, and read", "msg/s", "rosbags"),
        ]
        if not plan.wants(*rows):
            continue
        progress(f"{AREA} {title}")
        child = Child("decoder", Decoding, name)
        with children(child):
            for row, read in zip(rows, (False, True), strict=True):
                sides = [
                    functools.partial(child.call, "measure", side, plan.seconds, read)
                    for side in ("zwire", "rosbags")
                ]
                for ours, theirs in interleaved(plan.rounds, sides):
                    row.ours.append(Trial(ours))
                    row.theirs.append(Trial(theirs))
        yield from plan.chosen(rows)
