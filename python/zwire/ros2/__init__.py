"""ROS 2 without an installation of it: messages, their types, CDR, and nodes over rmw_zenoh.

>>> import zwire.ros2
>>> text = zwire.ros2.message("std_msgs/msg/String")
>>> text.encode(text.cls(data="hello")).hex()
'000100000600000068656c6c6f00'
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from zwire.ros2._messages import Message
from zwire.ros2._store import ActionType, MessageType, ServiceType, TypeStore

if TYPE_CHECKING:
    from zwire.ros2._actions import ActionClient, ActionServer, ClientGoalHandle, GoalStatus, ServerGoalHandle
    from zwire.ros2._calls import Client, Service
    from zwire.ros2._clock import Clock, Time, Timer
    from zwire.ros2._context import Context, session_config
    from zwire.ros2._endpoint import Endpoint, EndpointEvent
    from zwire.ros2._graph import Graph, GraphEvent
    from zwire.ros2._keys import Attachment, Entity, EntityKind
    from zwire.ros2._node import Node
    from zwire.ros2._parameters import Parameter, ParameterClient, ParameterType
    from zwire.ros2._pubsub import MessageInfo, Publisher, Subscription
    from zwire.ros2._qos import (
        DurabilityPolicy,
        HistoryPolicy,
        LivelinessPolicy,
        QoSProfile,
        ReliabilityPolicy,
        incompatible,
        qos_profile_latched,
        qos_profile_sensor_data,
    )

__all__ = [
    "ActionClient",
    "ActionServer",
    "ActionType",
    "Attachment",
    "Client",
    "ClientGoalHandle",
    "Clock",
    "Context",
    "DurabilityPolicy",
    "Endpoint",
    "EndpointEvent",
    "Entity",
    "EntityKind",
    "GoalStatus",
    "Graph",
    "GraphEvent",
    "HistoryPolicy",
    "LivelinessPolicy",
    "Message",
    "MessageInfo",
    "MessageType",
    "Node",
    "Parameter",
    "ParameterClient",
    "ParameterType",
    "Publisher",
    "QoSProfile",
    "ReliabilityPolicy",
    "ServerGoalHandle",
    "Service",
    "ServiceType",
    "Subscription",
    "Time",
    "Timer",
    "TypeStore",
    "action",
    "default_store",
    "incompatible",
    "message",
    "qos_profile_latched",
    "qos_profile_sensor_data",
    "service",
    "session_config",
]

_MODULES = {
    "ActionClient": "_actions",
    "ActionServer": "_actions",
    "ClientGoalHandle": "_actions",
    "GoalStatus": "_actions",
    "ServerGoalHandle": "_actions",
    "Client": "_calls",
    "Service": "_calls",
    "Clock": "_clock",
    "Time": "_clock",
    "Timer": "_clock",
    "Context": "_context",
    "session_config": "_context",
    "Endpoint": "_endpoint",
    "EndpointEvent": "_endpoint",
    "Graph": "_graph",
    "GraphEvent": "_graph",
    "Attachment": "_keys",
    "Entity": "_keys",
    "EntityKind": "_keys",
    "Node": "_node",
    "Parameter": "_parameters",
    "ParameterClient": "_parameters",
    "ParameterType": "_parameters",
    "MessageInfo": "_pubsub",
    "Publisher": "_pubsub",
    "Subscription": "_pubsub",
    "DurabilityPolicy": "_qos",
    "HistoryPolicy": "_qos",
    "LivelinessPolicy": "_qos",
    "QoSProfile": "_qos",
    "ReliabilityPolicy": "_qos",
    "incompatible": "_qos",
    "qos_profile_latched": "_qos",
    "qos_profile_sensor_data": "_qos",
}
"""Modules of the names of nodes, which are imported on use: workers of Spark use none of them."""

M = TypeVar("M")


@cache
def default_store() -> TypeStore:
    """Return the store of this process, with the common packages; see :class:`TypeStore`.

    Raises:
        ImportError: rosbags is not installed (``zwire[ros2]``).
    """
    return TypeStore()


@overload
def message(name: str) -> MessageType[Any]: ...
@overload
def message(name: type[M]) -> MessageType[M]: ...
def message(name: str | type[Any]) -> MessageType[Any]:
    """Return a type of messages of the default store; see :meth:`TypeStore.message`."""
    return default_store().message(name)


def service(name: str) -> ServiceType:
    """Return a type of services of the default store; see :meth:`TypeStore.service`."""
    return default_store().service(name)


def action(name: str) -> ActionType:
    """Return a type of actions of the default store; see :meth:`TypeStore.action`."""
    return default_store().action(name)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
