"""The enumerations of ``zwire.zenoh``.

Their numbers are those of the protocol, if it has them. ``int(member)`` returns them; members are not equal
to numbers.
"""

from __future__ import annotations

from enum import Enum, nonmember

from zwire._zwire import WhatAmIMatcher
from zwire.errors import InvalidValue


class _Enum(Enum):
    """An enumeration of ``zwire.zenoh`` with members that print as the expression that names them."""

    def __init_subclass__(cls) -> None:
        # Programs see and pickle the classes as those of the public module.
        cls.__module__ = "zwire.zenoh"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __int__(self) -> int:
        number: int = self.value
        return number


class CongestionControl(_Enum):
    """The behaviour of a message when its queue is full."""

    DROP = 0
    """The message is dropped."""
    BLOCK = 1
    """The sender waits, up to the configured deadline."""
    BLOCK_FIRST = 2
    """The first such message waits, further ones are dropped meanwhile."""
    DEFAULT = DROP


class ConsolidationMode(_Enum):
    """The replies to a get that are delivered."""

    AUTO = 0
    """``LATEST``, or ``NONE`` where the query names a time."""
    NONE = 1
    """Every reply is delivered."""
    MONOTONIC = 2
    """Replies are delivered at once, except those older than one already delivered for the same key."""
    LATEST = 3
    """Replies are held back; at the end the newest of each key is delivered."""
    DEFAULT = AUTO


class Locality(_Enum):
    """The sessions at the other end that are allowed.

    ::

        here = session.declare_subscriber("demo/**", allowed_origin=zenoh.Locality.SESSION_LOCAL)
        session.put("demo/a", "x", allowed_destination=zenoh.Locality.REMOTE)
        print(here.try_recv())  # None
    """

    SESSION_LOCAL = 0
    """Only the same session."""
    REMOTE = 1
    """Only other sessions."""
    ANY = 2
    """Both."""
    DEFAULT = ANY


class Priority(_Enum):
    """The priority of a message: the lower the number, the sooner it is sent."""

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
    """The matching queryables to ask.

    ::

        one, two = (
            session.declare_queryable("demo/*", lambda query: query.reply("demo/a", "here")) for _ in range(2)
        )
        every = {"target": zenoh.QueryTarget.ALL, "consolidation": zenoh.ConsolidationMode.NONE}
        print(len(list(session.get("demo/a", **every))))  # 2
    """

    BEST_MATCHING = 0
    """The nearest complete queryable, or all if none is complete."""
    ALL = 1
    """All matching queryables."""
    ALL_COMPLETE = 2
    """All queryables declared as complete."""
    DEFAULT = BEST_MATCHING


class Reliability(_Enum):
    """The channel of the link for a message.

    ::

        publisher = session.declare_publisher("demo/video", reliability=zenoh.Reliability.BEST_EFFORT)
        print(publisher.reliability.name)  # BEST_EFFORT
    """

    BEST_EFFORT = 0
    """Messages may be lost."""
    RELIABLE = 1
    """Messages arrive as long as the link exists."""
    DEFAULT = BEST_EFFORT
    """The value of eclipse-zenoh. A publisher without a setting is reliable, there as here."""


class ReplyKeyExpr(_Enum):
    """The replies that a query accepts.

    ::

        queryable = session.declare_queryable("demo/a", lambda query: query.reply("other/b", "moved"))
        replies = session.get("demo/a", accept_replies=zenoh.ReplyKeyExpr.ANY, timeout=5)
        print([str(reply.ok.key_expr) for reply in replies])  # ['other/b']
    """

    ANY = 0
    """Replies on any key."""
    MATCHING_QUERY = 1
    """Replies on keys that intersect that of the query."""
    DEFAULT = MATCHING_QUERY


class SampleKind(_Enum):
    """Whether a sample is a value or a deletion.

    ::

        subscriber = session.declare_subscriber("demo/**")
        session.delete("demo/a")
        sample = subscriber.recv(timeout=5)
        print(sample.kind is zenoh.SampleKind.DELETE)  # True
    """

    PUT = 0
    """A value."""
    DELETE = 1
    """A deletion."""


class SetIntersectionLevel(_Enum):
    """The relation of the keys of one key expression to those of another; each level implies those before."""

    DISJOINT = 0
    """No key in common."""
    INTERSECTS = 1
    """Some keys in common."""
    INCLUDES = 2
    """All keys of the other."""
    EQUALS = 3
    """The same keys."""


class WhatAmI(_Enum):
    """The role of a node.

    ::

        client = zenoh.open({"mode": "client", "connect/endpoints": session.listening()})
        client.ready(timeout=5)  # the session has answered
        clients = [each for each in session.info.transports() if each.whatami == zenoh.WhatAmI.CLIENT]
        print(len(clients))  # 1
    """

    ROUTER = 1
    """A node that forwards for others."""
    PEER = 2
    """A node that connects to others directly."""
    CLIENT = 4
    """A node that relies on one router for everything."""

    def __str__(self) -> str:
        return self.name.lower()

    def __repr__(self) -> str:
        return self.name.capitalize()

    @classmethod
    def _missing_(cls, value: object) -> WhatAmI:
        """Look up a role by its text, as in ``WhatAmI("router")``."""
        for role in cls:
            if value == str(role):
                return role
        raise InvalidValue(f"{value!r} is no role; there are router, peer and client")

    def __or__(self, other: WhatAmI | str) -> WhatAmIMatcher:
        """Combine the role with that of the text, as a matcher."""
        if not isinstance(other, WhatAmI | str):
            return NotImplemented
        return WhatAmIMatcher(f"{self}|{other}")

    __ror__ = __or__


class InterceptionPoint(_Enum):
    """The point at which a message is stamped.

    ::

        stamped = zenoh.TimestampInstrumentationBuilder().set_receive(True).build()
        print(stamped.is_instrumented(zenoh.InterceptionPoint.RECEIVE))  # True
        print(stamped.is_instrumented(zenoh.InterceptionPoint.SEND))  # False
    """

    SEND = 0
    """The message leaves its sender."""
    ROUTE = 1
    """The message passes a node on its way."""
    RECEIVE = 2
    """A session takes the message."""
