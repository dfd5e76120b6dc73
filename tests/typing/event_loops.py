"""Sessions and nodes for event loops."""

from typing import assert_type

import zwire.zenoh as zenoh
import zwire.zre as zre
from zwire import aio
from zwire.aio import zre as aio_zre


async def called(sample: zenoh.Sample) -> None:
    """A coroutine function that a subscriber awaits."""


async def answered(query: aio.Query) -> None:
    """A coroutine function that a queryable awaits."""
    assert_type(query.parameters, zenoh.Parameters)
    await query.reply(query.key_expr, "21.5")
    query.reply(5, "21.5")  # type: ignore[unused-coroutine, arg-type]  # pyright: ignore[reportUnusedCoroutine, reportArgumentType]


async def of_sessions() -> None:
    async with aio.open({"mode": "peer"}) as session:
        assert_type(session, aio.Session)
        assert_type(await session.ready(timeout=1), bool)
        await session.put("a", b"21.5", priority=zenoh.Priority.DATA_HIGH)
    assert_type(await aio.open(), aio.Session)
    session.put("a", b"")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def of_subscribers(session: aio.Session) -> None:
    subscriber = session.declare_subscriber("a", zenoh.handlers.RingChannel(10))
    assert_type(subscriber, aio.Subscriber)
    assert_type(await session.declare_subscriber("a"), aio.Subscriber)
    assert_type(await subscriber.recv(timeout=1), zenoh.Sample)
    assert_type(await subscriber.recv_many(10), list[zenoh.Sample])
    assert_type(subscriber.try_recv(), zenoh.Sample | None)
    async for sample in subscriber:
        assert_type(sample, zenoh.Sample)
    async with session.declare_subscriber("a", called) as other:
        assert_type(other, aio.Subscriber)
    session.declare_subscriber("a", aio.Callback(called, concurrency=5))
    session.declare_subscriber("a", lambda sample: print(sample.payload.to_string()))
    session.declare_subscriber("a", answered)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def of_queries(session: aio.Session) -> None:
    async with session.declare_queryable("a", answered) as queryable:
        await queryable.wait_ready(timeout=1)
    async for query in session.declare_queryable("a"):
        assert_type(query, aio.Query)
    get = session.get("a?x=1", timeout=5)
    assert_type(await get, list[zenoh.Reply])
    assert_type(get.end, str | None)
    async for reply in session.get("a"):
        assert_type(reply, zenoh.Reply)
    assert_type(await session.liveliness().get("a"), list[zenoh.Reply])


async def of_others(session: aio.Session) -> None:
    publisher = session.declare_publisher("a")
    await publisher.wait_matching(timeout=1)
    assert_type(await publisher.declare_matching_listener().recv(), zenoh.MatchingStatus)
    assert_type(await session.info.declare_link_events_listener().recv(), zenoh.LinkEvent)
    async with aio.scout(what="router") as found:
        async for hello in found:
            assert_type(hello, zenoh.Hello)


async def of_nodes() -> None:
    async with aio_zre.Node("a", interval=0.5) as node:
        assert_type(await node.join("CHAT"), bool)
        assert_type(await node.wait_for_peers(1, timeout=5), list[str])
        async for event in node:
            assert_type(event, zre.Event)
            assert_type(await node.whisper(event.peer, "hello"), zre.Delivery)
