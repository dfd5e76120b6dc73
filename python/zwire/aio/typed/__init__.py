"""Values instead of bytes, for event loops: :mod:`zwire.typed` over sessions of :mod:`zwire.aio`.

Names and parameters are those of :mod:`zwire.typed`, and so are models, codecs and errors. Calls that may
block are coroutines, iterators are asynchronous, callbacks may be coroutine functions::

    from zwire import aio
    from zwire.aio import typed

    async with aio.open(config) as session:
        publisher = typed.publisher(session, "fleet/7/position", Position)
        await publisher.put(Position(1.5, -2.0))
        async for message in typed.subscriber(session, "fleet/*/position", Position):
            print(message.key_expr, message.value)
"""

from zwire.aio.typed._declared import Replies
from zwire.aio.typed._pubsub import Publisher, Subscriber, Subscription, publisher, put, subscriber
from zwire.aio.typed._queries import (
    Querier,
    Query,
    Queryable,
    Serving,
    get,
    querier,
    queryable,
)
from zwire.typed._pubsub import Message
from zwire.typed._queries import Reply

__all__ = [
    "Message",
    "Publisher",
    "Querier",
    "Query",
    "Queryable",
    "Replies",
    "Reply",
    "Serving",
    "Subscriber",
    "Subscription",
    "get",
    "publisher",
    "put",
    "querier",
    "queryable",
    "subscriber",
]
