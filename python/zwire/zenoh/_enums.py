"""The enumerations of ``zwire.zenoh``.

Their numbers are those of the protocol where it has some. ``int(member)`` gives them; members are not equal
to numbers.
"""

from __future__ import annotations

from enum import Enum, nonmember

from zwire._zwire import WhatAmIMatcher
from zwire.errors import InvalidValue

__all__ = [
    "CongestionControl",
    "ConsolidationMode",
    "InterceptionPoint",
    "Locality",
    "Priority",
    "QueryTarget",
    "Reliability",
    "ReplyKeyExpr",
    "SampleKind",
    "SetIntersectionLevel",
    "WhatAmI",
]


class _Enum(Enum):
    """Members that print like the expression that names them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __int__(self) -> int:
        number: int = self.value
        return number


class CongestionControl(_Enum):
    """The behaviour of a message when its queue is full."""

    __module__ = "zwire.zenoh"

    DROP = 0
    """The message is dropped."""
    BLOCK = 1
    """The sender waits, up to the configured deadline."""
    BLOCK_FIRST = 2
    """The first such message waits, further ones are dropped meanwhile."""
    DEFAULT = DROP


class ConsolidationMode(_Enum):
    """The replies to a get that are delivered."""

    __module__ = "zwire.zenoh"

    AUTO = 0
    """``LATEST``, or ``NONE`` where the query names a time."""
    NONE = 1
    """Every reply is delivered."""
    MONOTONIC = 2
    """Replies are delivered at once, except those older than one that was delivered for the same key."""
    LATEST = 3
    """Replies are held back; in the end the newest of each key is delivered."""
    DEFAULT = AUTO


class Locality(_Enum):
    """The sessions at the other end that are allowed."""

    __module__ = "zwire.zenoh"

    SESSION_LOCAL = 0
    """Only the same session."""
    REMOTE = 1
    """Only other sessions."""
    ANY = 2
    """Both."""
    DEFAULT = ANY


class Priority(_Enum):
    """The priority of a message: the lower the number, the sooner it is sent."""

    __module__ = "zwire.zenoh"

    REAL_TIME = 1
    INTERACTIVE_HIGH = 2
    INTERACTIVE_LOW = 3
    DATA_HIGH = 4
    DATA = 5
    DATA_LOW = 6
    BACKGROUND = 7
    DEFAULT = DATA
    MIN = BACKGROUND
    MAX = REAL_TIME
    NUM = nonmember(7)
    """The number of priorities."""


class QueryTarget(_Enum):
    """Which of the matching queryables are asked."""

    __module__ = "zwire.zenoh"

    BEST_MATCHING = 0
    """The nearest complete one, or all where none is complete."""
    ALL = 1
    """All of them."""
    ALL_COMPLETE = 2
    """All that are declared as complete."""
    DEFAULT = BEST_MATCHING


class Reliability(_Enum):
    """Which channel of the link a message takes."""

    __module__ = "zwire.zenoh"

    BEST_EFFORT = 0
    """Messages may be lost."""
    RELIABLE = 1
    """Messages arrive as long as the link lives."""
    DEFAULT = BEST_EFFORT
    """As eclipse-zenoh has it. A publisher that is told nothing is reliable there as here."""


class ReplyKeyExpr(_Enum):
    """Which replies a query accepts."""

    __module__ = "zwire.zenoh"

    ANY = 0
    """On any key."""
    MATCHING_QUERY = 1
    """On keys that intersect that of the query."""
    DEFAULT = MATCHING_QUERY


class SampleKind(_Enum):
    """Whether a value came or went."""

    __module__ = "zwire.zenoh"

    PUT = 0
    """There is a value."""
    DELETE = 1
    """There is none any more."""


class SetIntersectionLevel(_Enum):
    """How the keys of one key expression lie to those of another; each level implies those before it."""

    __module__ = "zwire.zenoh"

    DISJOINT = 0
    """No key in common."""
    INTERSECTS = 1
    """Some keys in common."""
    INCLUDES = 2
    """All keys of the other."""
    EQUALS = 3
    """The same keys."""


class WhatAmI(_Enum):
    """The role of a node."""

    __module__ = "zwire.zenoh"

    ROUTER = 1
    """Forwards for others."""
    PEER = 2
    """Connects to others directly."""
    CLIENT = 4
    """Has one router that does everything for it."""

    def __str__(self) -> str:
        return self.name.lower()

    def __repr__(self) -> str:
        return self.name.capitalize()

    @classmethod
    def _missing_(cls, value: object) -> WhatAmI:
        """``WhatAmI("router")``, as its text says it."""
        for role in cls:
            if value == str(role):
                return role
        raise InvalidValue(f"{value!r} is no role; there are router, peer and client")

    def __or__(self, other: WhatAmI | str) -> WhatAmIMatcher:
        """Both roles, or this and those of the text, as a matcher."""
        if not isinstance(other, WhatAmI | str):
            return NotImplemented
        return WhatAmIMatcher(f"{self}|{other}")

    __ror__ = __or__


class InterceptionPoint(_Enum):
    """Where a message is stamped."""

    __module__ = "zwire.zenoh"

    SEND = 0
    """Where it leaves its sender."""
    ROUTE = 1
    """At a node on its way."""
    RECEIVE = 2
    """Where a session takes it."""
