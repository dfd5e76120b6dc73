"""Quality of service: profiles, their text in tokens, incompatible pairs (`zenoh-services` 6.3)."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, TypeVar

from zwire.errors import DecodeError, InvalidValue

DEFAULT_DEPTH: Final = 42
"""Depth that rmw_zenoh takes for 0, and leaves out of the text."""

MOST_DEPTH: Final = 1_000_000
"""Highest depth of an own endpoint: its queue and cache hold as many messages."""

_P = TypeVar("_P", bound=enum.IntEnum)

_BILLION: Final = 10**9
_INFINITE: Final = (9223372036, 854775807)
_NUMBER = re.compile(r"[0-9]{1,20}")


class ReliabilityPolicy(enum.IntEnum):
    """Whether lost messages are sent again; numbers are those of ROS 2.

    ::

        newest = ros2.QoSProfile(depth=1, reliability=ros2.ReliabilityPolicy.BEST_EFFORT)
        print(newest.depth, newest.reliability.name)  # 1 BEST_EFFORT
    """

    RELIABLE = 1
    BEST_EFFORT = 2


class DurabilityPolicy(enum.IntEnum):
    """Whether subscriptions get messages from before their time."""

    TRANSIENT_LOCAL = 1
    VOLATILE = 2


class HistoryPolicy(enum.IntEnum):
    """Whether a queue keeps the newest messages, or all.

    ::

        everything = ros2.QoSProfile(history=ros2.HistoryPolicy.KEEP_ALL)
        print(everything.history.name)  # KEEP_ALL
    """

    KEEP_LAST = 1
    KEEP_ALL = 2


class LivelinessPolicy(enum.IntEnum):
    """How a publisher shows that it is alive.

    ::

        print(ros2.QoSProfile().liveliness.name)  # AUTOMATIC
    """

    AUTOMATIC = 1
    MANUAL_BY_TOPIC = 3


@dataclass(frozen=True, slots=True)
class QoSProfile:
    """Quality of service of an endpoint. Times are in seconds, None for infinite ones.

    Raises:
        InvalidValue: A value is out of its range.
    """

    depth: int = 10
    """Messages that a queue, and the cache of a transient-local publisher, keeps; 0 stands for 42."""
    history: HistoryPolicy = HistoryPolicy.KEEP_LAST
    reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE
    deadline: float | None = None
    """Longest time between two messages."""
    lifespan: float | None = None
    """Time after which a message is of no use."""
    liveliness: LivelinessPolicy = LivelinessPolicy.AUTOMATIC
    liveliness_lease_duration: float | None = None
    """Time after which a publisher that has shown no life is dead."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.depth < 0:
            raise InvalidValue(f"depth: {self.depth} is negative")
        for name in ("deadline", "lifespan", "liveliness_lease_duration"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _INFINITE[0]:
                raise InvalidValue(f"{name}: {value} s is out of range; None stands for no limit")

    @property
    def kept(self) -> int:
        """Number of messages that a queue or cache holds."""
        return min(self.depth or DEFAULT_DEPTH, MOST_DEPTH)

    def text(self) -> str:
        """Return the text in tokens: fields that equal those of rmw_zenoh's default are empty."""
        depth = self.depth or DEFAULT_DEPTH
        return ":".join(
            (
                _left_out(self.reliability, ReliabilityPolicy.RELIABLE),
                _left_out(self.durability, DurabilityPolicy.VOLATILE),
                f"{_left_out(self.history, HistoryPolicy.KEEP_LAST)},{_left_out(depth, DEFAULT_DEPTH)}",
                _time_text(self.deadline),
                _time_text(self.lifespan),
                _left_out(self.liveliness, LivelinessPolicy.AUTOMATIC)
                + ","
                + _time_text(self.liveliness_lease_duration),
            )
        )

    @classmethod
    def from_text(cls, text: str) -> QoSProfile:
        """Read the text of a token.

        Raises:
            DecodeError: It has another form.
        """
        parts = [part.split(",") for part in text.split(":")]
        if [len(part) for part in parts[:6]] != [1, 1, 2, 2, 2, 3] or len(text) > 200:
            raise DecodeError(f"qos: {text[:80]!r} has not the six fields", reading="qos", offset=0)
        return cls(
            reliability=_policy(parts[0][0], ReliabilityPolicy, ReliabilityPolicy.RELIABLE),
            durability=_policy(parts[1][0], DurabilityPolicy, DurabilityPolicy.VOLATILE),
            history=_policy(parts[2][0], HistoryPolicy, HistoryPolicy.KEEP_LAST),
            depth=_number(parts[2][1], DEFAULT_DEPTH),
            deadline=_time(parts[3]),
            lifespan=_time(parts[4]),
            liveliness=_policy(parts[5][0], LivelinessPolicy, LivelinessPolicy.AUTOMATIC),
            liveliness_lease_duration=_time(parts[5][1:]),
        )


def _left_out(value: int, default: int) -> str:
    return "" if value == default else str(int(value))


def _time_text(seconds: float | None) -> str:
    if seconds is None:
        return ","
    whole, nanos = divmod(round(seconds * _BILLION), _BILLION)
    return f"{_left_out(whole, _INFINITE[0])},{_left_out(nanos, _INFINITE[1])}"


def _number(text: str, default: int) -> int:
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise DecodeError(f"qos: {text[:40]!r} is no number", reading="qos", offset=0)
    return int(text)


def _policy(text: str, kind: type[_P], default: _P) -> _P:
    number = _number(text, default)
    try:
        return kind(number)
    except ValueError:
        # "System default", "unknown" and "best available" have numbers too; none has a form of its own here.
        if number <= 5:
            return default
        raise DecodeError(f"qos: {number} is no {kind.__name__}", reading="qos", offset=0) from None


def _time(parts: list[str]) -> float | None:
    seconds, nanos = _number(parts[0], _INFINITE[0]), _number(parts[1], _INFINITE[1])
    if seconds >= _INFINITE[0]:
        return None
    if nanos >= _BILLION:
        raise DecodeError(f"qos: {nanos} nanoseconds are a second or more", reading="qos", offset=0)
    return seconds + nanos / _BILLION


def incompatible(offered: QoSProfile, requested: QoSProfile) -> list[str]:
    """Return why a subscription that requests one profile gets less from a publisher that offers the other.

    The rules are those of DDS. Over Zenoh messages flow all the same, without the missing property; through a
    bridge to DDS they do not.
    """
    found = []
    if (offered.reliability, requested.reliability) == (
        ReliabilityPolicy.BEST_EFFORT,
        ReliabilityPolicy.RELIABLE,
    ):
        found.append("reliability: the publisher is best effort, the subscription asks for reliable")
    if (offered.durability, requested.durability) == (
        DurabilityPolicy.VOLATILE,
        DurabilityPolicy.TRANSIENT_LOCAL,
    ):
        found.append("durability: the publisher is volatile, the subscription asks for transient local")
    if _longer(offered.deadline, requested.deadline):
        found.append(f"deadline: offered {_said(offered.deadline)}, asked for {_said(requested.deadline)}")
    if offered.liveliness < requested.liveliness:
        found.append("liveliness: the publisher's is automatic, the subscription asks for manual by topic")
    lease = offered.liveliness_lease_duration, requested.liveliness_lease_duration
    if _longer(*lease):
        found.append(f"liveliness lease: offered {_said(lease[0])}, asked for {_said(lease[1])}")
    return found


def _longer(offered: float | None, requested: float | None) -> bool:
    return requested is not None and (offered is None or offered > requested)


def _said(seconds: float | None) -> str:
    return "no limit" if seconds is None else f"{seconds:g} s"


qos_profile_default: Final[QoSProfile] = QoSProfile()
"""Profile of topics: reliable, volatile, the newest 10."""
qos_profile_sensor_data: Final[QoSProfile] = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Profile of fast sensors."""
qos_profile_services_default: Final[QoSProfile] = QoSProfile()
"""Profile of services."""
qos_profile_parameters: Final[QoSProfile] = QoSProfile(depth=1000)
"""Profile of the services for parameters."""
qos_profile_parameter_events: Final[QoSProfile] = QoSProfile(depth=1000)
"""Profile of ``/parameter_events``."""
qos_profile_latched: Final[QoSProfile] = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Profile of values that late subscriptions get too, such as ``/robot_description``."""
