"""The log of a node on ``/rosout``, where ``rqt_console`` and others read it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from zwire.ros2._qos import DurabilityPolicy, QoSProfile

if TYPE_CHECKING:
    from zwire.ros2._pubsub import Publisher

PROFILE: Final = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL, lifespan=10.0)
"""Profile of ``/rosout``, as ROS 2 has it."""

_LEVELS: Final = (10, 20, 30, 40, 50)
"""Levels of ``rcl_interfaces/msg/Log``; the numbers are those of :mod:`logging`."""


class RosoutHandler(logging.Handler):
    """Publishes the records of a logger as ``rcl_interfaces/msg/Log``."""

    def __init__(self, publisher: Publisher, name: str) -> None:
        super().__init__()
        self._publisher = publisher
        self._name = name
        self._publishing = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record; records that the publishing makes itself are left out."""
        if getattr(self._publishing, "now", False):
            return
        self._publishing.now = True
        try:
            self._publisher.publish(self._message(record))
        except Exception:  # noqa: BLE001 - as handlers of logging do: no record ends the program that logs it
            self.handleError(record)
        finally:
            self._publishing.now = False

    def _message(self, record: logging.LogRecord) -> Any:  # noqa: ANN401 - rcl_interfaces/msg/Log
        message = self._publisher.type.cls(
            level=max((level for level in _LEVELS if level <= record.levelno), default=10),
            name=self._name,
            msg=record.getMessage(),
            file=record.pathname,
            function=record.funcName or "",
            line=record.lineno,
        )
        message.stamp.sec, message.stamp.nanosec = divmod(time.time_ns(), 10**9)
        return message
