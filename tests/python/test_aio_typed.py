"""Values over sessions of event loops."""

import asyncio
import inspect
from dataclasses import dataclass

import anyio
import pytest

from zwire import aio, errors, typed
from zwire.aio import ext
from zwire.aio import typed as loops
from zwire.zenoh.ext import CacheConfig, HistoryConfig, MissDetectionConfig
from zwire.zenoh.handlers import BatchCallback, RingChannel

PATIENCE = 10.0
ROUTER = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], "scouting/multicast/enabled": False}


@dataclass
class Position:
    x: float
    y: float = 0.0


def with_sessions(test):
    """Run a test with two clients of one router."""

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def run(backend):
        async def main():
            with anyio.fail_after(2 * PATIENCE):
                async with aio.open(ROUTER) as hub:
                    config = {"mode": "client", "connect/endpoints": hub.listening()}
                    async with aio.open(config) as near, aio.open(config) as far:
                        await test(near, far)

        anyio.run(main, backend=backend)

    run.__name__ = test.__name__
    return run


async def pair(near, far, key, model, handler=None, **options):
    subscriber = loops.subscriber(far, key, model, handler, **options)
    publisher = loops.publisher(near, key, model)
    await publisher.wait_matching(timeout=PATIENCE)
    return publisher, subscriber


@with_sessions
async def test_values_arrive_as_they_were(near, far):
    publisher, subscriber = await pair(near, far, "v", Position)
    async with publisher, subscriber:
        await publisher.put(Position(1.0))
        assert (await subscriber.recv(timeout=PATIENCE)).value == Position(1.0)
        assert str(publisher.encoding) == "application/json;Position"
        assert publisher.matching_status
        await loops.put(near, "v", Position(2.0), codec="cbor")
        await near.put("v", "{", encoding="application/json")
        await publisher.delete()
        await publisher.put(Position(3.0))
        got = []
        async for message in subscriber:
            got.append(message)
            if message.error is None and not message.deleted and message.value.x == 3.0:
                break
        assert [type(message.error) for message in got] == [
            type(None),
            errors.PayloadError,
            type(None),
            type(None),
        ]
        assert [message.deleted for message in got] == [False, False, True, False]
        assert subscriber.failed == 1
        assert subscriber.try_recv() is None
        with pytest.raises(errors.TimedOut):
            await subscriber.recv(timeout=0.01)
        assert await subscriber.recv_many(10, timeout=0.01) == []


@with_sessions
async def test_values_alone_and_tables(near, far):
    seen = []
    publisher, subscriber = await pair(near, far, "t", Position, on_error=seen.append)
    async with publisher, subscriber:
        for x in range(3):
            await publisher.put(Position(float(x)))
        await near.put("t", "{", encoding="application/json")
        await publisher.delete()
        await publisher.put(Position(3.0))
        got = []
        async for value in subscriber.values():
            got.append(value.x)
            if value.x == 3.0:
                break
        assert got == [0.0, 1.0, 2.0, 3.0]
        assert len(seen) == subscriber.failed == 1
        await publisher.put(Position(4.0))
        table = await subscriber.recv_table(timeout=PATIENCE, key="key")
        assert table.to_pylist() == [{"key": "t", "x": 4.0, "y": 0.0}]


@with_sessions
async def test_whoever_is_cancelled_has_taken_nothing(near, far):
    publisher, subscriber = await pair(near, far, "c", int)
    messages = aiter(subscriber)
    got = []
    for number in range(50):
        with anyio.move_on_after(0):
            got.append((await anext(messages)).value)
        await publisher.put(number)
        with anyio.move_on_after(0.001 * (number % 3)):
            got.append((await anext(messages)).value)
    while len(got) < 50:
        got.append((await anext(messages)).value)
    assert got == list(range(50))


@with_sessions
async def test_callbacks_may_be_coroutine_functions(near, far):
    got, seen, done = [], [], anyio.Event()

    async def take(message):
        await anyio.lowlevel.checkpoint()
        got.append(message.value)
        if len(got) == 3:
            done.set()

    for handler in (take, aio.Callback(take)):
        publisher, subscription = await pair(near, far, "cb", int, handler, on_error=seen.append)
        assert not isinstance(subscription, loops.Subscriber)
        await near.put("cb", "{", encoding="application/json")
        for number in range(3):
            await publisher.put(number)
        await done.wait()
        assert got == [0, 1, 2]
        assert subscription.failed == 1
        await subscription.undeclare()
        await publisher.undeclare()
        got.clear()
        done = anyio.Event()
    assert len(seen) == 2

    def batch(messages):
        got.extend(message.value for message in messages)
        if len(got) == 3:
            done.set()

    publisher, subscription = await pair(near, far, "cb", int, BatchCallback(batch))
    for number in range(3):
        await publisher.put(number)
    await done.wait()
    assert got == [0, 1, 2]


@with_sessions
async def test_channels_are_those_of_the_session(near, far):
    publisher, ring = await pair(near, far, "r", int, RingChannel(1))
    probe = loops.subscriber(far, "r", int)
    await probe.wait_ready(timeout=PATIENCE)
    for number in range(3):
        await publisher.put(number)
    assert [(await probe.recv(timeout=PATIENCE)).value for _ in range(3)] == [0, 1, 2]
    assert (await ring.recv(timeout=PATIENCE)).value == 2
    assert ring.dropped == 2


@with_sessions
async def test_values_through_advanced_publishers_and_subscribers(near, far):
    raw = ext.declare_advanced_publisher(
        near, "typed/advanced", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig()
    )
    async with loops.Publisher.over(raw, Position, codec="cbor") as publisher:
        assert publisher.raw is raw
        for x in (1.0, 2.0):
            await publisher.put(Position(x), attachment="a")
        late = ext.declare_advanced_subscriber(far, "typed/advanced", history=HistoryConfig())
        async with loops.Subscriber.over(late, Position) as subscriber:
            got = [await subscriber.recv(timeout=PATIENCE) for _ in range(2)]
            assert [message.value.x for message in got] == [1.0, 2.0]
            assert str(got[0].sample.encoding) == "application/cbor;Position"
            await publisher.delete()
            assert (await subscriber.recv(timeout=PATIENCE)).deleted
            await raw.put("{", encoding="application/json")
            assert isinstance((await subscriber.recv(timeout=PATIENCE)).error, errors.PayloadError)
            assert subscriber.failed == 1


@with_sessions
async def test_questions_and_answers_are_values(near, far):
    async def double(query):
        await query.reply(Position(query.value.x * 2))

    serving = loops.queryable(far, "q", Position, double, request=Position, codec="cbor")
    async with serving, loops.querier(near, "q", Position, request=Position, timeout=PATIENCE) as querier:
        await querier.wait_matching(timeout=PATIENCE)
        replies = querier.get(Position(1.0))
        assert [reply.value async for reply in replies] == [Position(2.0)]
        assert replies.end == "completed"
        (reply,) = await loops.get(near, "q", Position, Position(2.0))
        assert reply.value == Position(4.0)
        (refused,) = await loops.get(near, "q", Position, "text", timeout=PATIENCE)
        assert "Position is not str" in str(refused.error)
        (refused,) = await querier.get()
        assert "asked without a value" in str(refused.error)
        assert serving.failed == 2


@with_sessions
async def test_an_exception_of_a_service_reaches_the_asker(near, far):
    reported = []

    async def fail(query):
        raise LookupError(query.value)

    for handler in (fail, lambda query: 1 // query.value):
        callback = aio.Callback(handler, on_error=reported.append)
        async with loops.queryable(far, "fail", int, callback, request=int) as serving:
            await serving.wait_ready(timeout=PATIENCE)
            (reply,) = await loops.get(near, "fail", int, 0, timeout=PATIENCE)
        assert isinstance(reply.error, errors.RemoteError)
        assert reply.error.type == type(reported[-1]).__name__
        assert reply.error.message == str(reported[-1])
    assert len(reported) == 2


@with_sessions
async def test_an_exception_that_ends_the_block_of_a_query_reaches_the_asker(near, far):
    queryable = loops.queryable(far, "block", int)
    await queryable.wait_ready(timeout=PATIENCE)
    replies = loops.get(near, "block", int, timeout=PATIENCE)
    with pytest.raises(KeyError):
        async with await queryable.recv(timeout=PATIENCE):
            raise KeyError("async with")
    assert [reply.error.message async for reply in replies] == ["'async with'"]
    replies = loops.get(near, "block", int, timeout=PATIENCE)
    with pytest.raises(KeyError), await queryable.recv(timeout=PATIENCE):
        raise KeyError("with")
    assert [reply.error.message async for reply in replies] == ["'with'"]


@with_sessions
async def test_queries_that_wait_to_be_taken(near, far):
    seen = []

    def refuse(query):
        seen.append(query.error)
        query.drop()

    queryable = loops.queryable(far, "w/*", int, request=int, on_error=refuse)
    await queryable.wait_ready(timeout=PATIENCE)
    bad, good = loops.get(near, "w/a", int, "text"), loops.get(near, "w/*", int, 20)
    async with await queryable.recv(timeout=PATIENCE) as query:
        await query.reply(query.value + 1, "w/a")
        await query.reply_del("w/b")
    assert [reply.value async for reply in good if not reply.deleted] == [21]
    assert [reply async for reply in bad] == []
    assert len(seen) == queryable.failed == 1
    more = loops.get(near, "w/a", int, 1)
    async for query in queryable:
        with query:
            await query.reply_err("no")
        break
    assert [str(reply.error) async for reply in more] == ["no"]
    with pytest.raises(errors.TimedOut):
        await queryable.recv(timeout=0.01)


@with_sessions
async def test_the_other_module_says_where_to_go(near, far):
    for declare in (typed.publisher, typed.subscriber, typed.querier, typed.queryable):
        with pytest.raises(TypeError, match=r"use zwire\.aio\.typed"):
            declare(near, "a", int)
    with pytest.raises(TypeError, match=r"use zwire\.aio\.typed"):
        typed.put(far, "a", 1)
    with pytest.raises(TypeError, match=r"use zwire\.aio\.typed"):
        typed.get(far, "a", int)


def test_iteration_ends_with_the_session():
    async def main():
        session = await aio.open(
            {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
        )
        subscriber = await loops.subscriber(session, "a", int)
        await loops.put(session, "a", 1)

        async def take():
            return [message.value async for message in subscriber]

        task = asyncio.create_task(take())
        await asyncio.sleep(0)
        await session.close()
        assert await asyncio.wait_for(task, PATIENCE) == [1]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["publisher", "subscriber", "queryable", "querier", "put", "get"])
def test_both_modules_take_the_same(name):
    here, there = (inspect.signature(getattr(module, name)).parameters for module in (loops, typed))
    assert [(p.name, p.kind, p.default) for p in here.values()] == [
        (p.name, p.kind, p.default) for p in there.values()
    ]


@pytest.mark.parametrize(
    "name", ["Publisher", "Subscription", "Subscriber", "Query", "Serving", "Queryable", "Querier"]
)
def test_both_modules_offer_the_same(name):
    here, there = ({n for n in dir(getattr(module, name)) if n[0] != "_"} for module in (loops, typed))
    # A queryable of a loop has no way to answer what it cannot read without waiting.
    missing = {"Queryable": {"try_recv"}}
    assert there - here == missing.get(name, set())
    assert here - there == set()
