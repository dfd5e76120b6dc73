"""Values instead of bytes: publications and queries with the types that a program works with.

>>> from dataclasses import dataclass
>>> from zwire import typed
>>> @dataclass
... class Position:
...     x: float
...     y: float
>>> payload, encoding = typed.encode(Position(1.5, -2.0))
>>> str(encoding), payload.to_string()
('application/json;Position', '{"x":1.5,"y":-2.0}')
>>> typed.decode(payload, encoding, Position)
Position(x=1.5, y=-2.0)

:func:`publisher`, :func:`subscriber`, :func:`queryable` and :func:`querier` do the same over a session of
``zwire.zenoh``. A codec per encoding writes and reads: ``json``, ``cbor``, ``msgpack``, ``protobuf``,
``arrow``, ``numpy``, ``zenoh``, ``text``, ``cdr``, ``bytes``, and those that a program registers. Pickles are
not read: reading one runs arbitrary code of its sender.
"""

from zwire.typed._arrow import ArrowCodec
from zwire.typed._codec import Codec, schema_name
from zwire.typed._pubsub import Message, Publisher, Subscriber, Subscription, publisher, put, subscriber
from zwire.typed._queries import Querier, Query, Queryable, Reply, Serving, get, querier, queryable
from zwire.typed._registry import Registry, register, registry
from zwire.typed._table import arrow_schema
from zwire.typed._values import decode, encode, from_frames, to_frames

__all__ = [
    "ArrowCodec",
    "Codec",
    "Message",
    "Publisher",
    "Querier",
    "Query",
    "Queryable",
    "Registry",
    "Reply",
    "Serving",
    "Subscriber",
    "Subscription",
    "arrow_schema",
    "decode",
    "encode",
    "from_frames",
    "get",
    "publisher",
    "put",
    "querier",
    "queryable",
    "register",
    "registry",
    "schema_name",
    "subscriber",
    "to_frames",
]
