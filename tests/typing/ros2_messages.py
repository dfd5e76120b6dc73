"""Messages of ROS 2: by name they are anything, by class they have its type."""

from __future__ import annotations

from typing import Any, assert_type

import zwire.ros2
from zwire.ros2 import Message, MessageType, ServiceType, TypeStore


class Twist(Message):
    speed: float


def by_name(payload: bytes) -> None:
    found = zwire.ros2.message("std_msgs/msg/String")
    assert_type(found, MessageType[Any])
    assert_type(found.hash, str)
    assert_type(found.encode(found.decode(payload)), bytes)
    assert_type(found.decode(memoryview(payload)), Any)


def by_class(store: TypeStore) -> None:
    twist = store.message(Twist)
    assert_type(twist, MessageType[Twist])
    assert_type(twist.decode(b"").speed, float)
    assert_type(zwire.ros2.message(Twist).cls, type[Twist])
    twist.encode("no message")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def others(store: TypeStore) -> None:
    assert_type(store.service("example_interfaces/srv/AddTwoInts"), ServiceType)
    assert_type(zwire.ros2.action("example_interfaces/action/Fibonacci").send_goal.request, MessageType[Any])
    assert_type(store.add("int8 x", "a/msg/B"), list[str])
    TypeStore("melodic")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
