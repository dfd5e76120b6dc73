"""Zenoh sessions and ZRE nodes for event loops: asyncio, uvloop, trio, and anyio over either.

Names and parameters are those of :mod:`zwire.zenoh`. Calls that may block are coroutines, iterators are
asynchronous, callbacks may be coroutine functions::

    import zwire.aio as zenoh

    async with zenoh.open({"mode": "peer"}) as session:
        await session.put("demo/temperature", "21.5")
        async for sample in session.declare_subscriber("demo/**"):
            print(sample.key_expr, sample.payload.to_string())

Values, such as ``Config`` and ``KeyExpr``, are those of :mod:`zwire.zenoh`; ZRE is in :mod:`zwire.aio.zre`.
"""

import zwire.zenoh as _zenoh  # noqa: F401 - closes what is left open
from zwire.aio._channel import Callback, Handler
from zwire.aio._entities import (
    LinkEventsListener,
    LivelinessToken,
    MatchingListener,
    Queryable,
    Subscriber,
    TransportEventsListener,
)
from zwire.aio._entity_calls import Publisher, Querier
from zwire.aio._get import Replies
from zwire.aio._query import Query
from zwire.aio._scout import Scout, scout
from zwire.aio._session import Session, open
from zwire.aio._session_calls import Liveliness, SessionInfo

__all__ = [
    "Callback",
    "Handler",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "Publisher",
    "Querier",
    "Query",
    "Queryable",
    "Replies",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
    "open",
    "scout",
]
