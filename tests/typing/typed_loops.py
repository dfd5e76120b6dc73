"""Values instead of bytes, in event loops."""

from dataclasses import dataclass
from typing import assert_type

from zwire import aio, typed, zenoh
from zwire.aio import ext
from zwire.aio import typed as loops
from zwire.errors import PayloadError, QueryError


@dataclass
class Position:
    x: float
    y: float = 0.0


async def publishing(session: aio.Session) -> None:
    async with loops.publisher(session, "a", Position, codec="cbor", express=True) as publisher:
        assert_type(publisher, loops.Publisher[Position])
        await publisher.wait_matching(timeout=1)
        await publisher.put(Position(1.0))
        await publisher.put("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await loops.put(session, "a", Position(1.0), priority=zenoh.Priority.DATA)
    advanced = ext.declare_advanced_publisher(session, "a")
    assert_type(loops.Publisher.over(advanced, Position), loops.Publisher[Position])
    typed.publisher(session, "a", Position)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def subscribing(session: aio.Session) -> None:
    subscriber = loops.subscriber(session, "a", Position)
    assert_type(subscriber, loops.Subscriber[Position])
    async for message in subscriber:
        assert_type(message, typed.Message[Position])
        assert_type(message.value.x, float)
        assert_type(message.error, PayloadError | None)
    assert_type((await subscriber.recv(timeout=1)).value, Position)
    assert_type(await subscriber.recv_many(10), list[typed.Message[Position]])
    async for value in subscriber.values():
        assert_type(value, Position)

    async def show(message: typed.Message[Position]) -> None:
        print(message.value.x)

    assert_type(loops.subscriber(session, "a", Position, show), loops.Subscription[Position])
    assert_type(
        loops.subscriber(session, "a", Position, aio.Callback(show, concurrency=2)),
        loops.Subscription[Position],
    )
    advanced = ext.declare_advanced_subscriber(session, "a")
    assert_type(loops.Subscriber.over(advanced, Position), loops.Subscriber[Position])
    loops.subscriber(session, "a", int, show)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def asking(session: aio.Session) -> None:
    async def answer(query: loops.Query[Position, int]) -> None:
        assert_type(query.value, int)
        await query.reply(Position(1.0))
        await query.reply(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    serving = loops.queryable(session, "a", Position, answer, request=int)
    assert_type(serving, loops.Serving[Position, int])
    queryable = loops.queryable(session, "a", Position)
    assert_type(queryable, loops.Queryable[Position])
    async with await queryable.recv(timeout=1) as query:
        assert_type(query, loops.Query[Position])
    querier = loops.querier(session, "a", Position, request=int, timeout=1)
    assert_type(querier, loops.Querier[Position, int])
    async for reply in querier.get(3):
        assert_type(reply.value, Position)
        assert_type(reply.error, PayloadError | QueryError | None)
    assert_type(await querier.get(3), list[typed.Reply[Position]])
    assert_type(await loops.get(session, "a", Position, timeout=1), list[typed.Reply[Position]])
