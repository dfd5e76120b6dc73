"""`zwire.aio` on the loops of asyncio, uvloop and trio."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from loops import ALONE, PATIENCE, everywhere, pair, text
from zwire import aio, zenoh
from zwire.aio import ext, typed
from zwire.errors import ConfigError, ConnectError, TimedOut, UsageError


def threads_now():
    return len(list(Path("/proc/self/task").iterdir()))


@everywhere
async def test_samples_come_in_order_by_every_way_of_receiving():
    async with pair() as (near, far):
        subscriber = await near.declare_subscriber("a/**")
        await subscriber.wait_ready(PATIENCE)
        async with far.declare_publisher("a/b") as publisher:
            await publisher.wait_matching(timeout=PATIENCE)
            assert publisher.matching_status
            for i in range(500):
                await publisher.put(str(i))
        got = [text(await subscriber.recv()), text(await subscriber.recv(timeout=PATIENCE))]
        while len(got) < 300:
            many = await subscriber.recv_many(100)
            assert 1 <= len(many) <= 100
            got += map(text, many)
        batch = await subscriber.recv_batch(20, timeout=PATIENCE)
        assert 1 <= len(batch) <= 20
        got += ["?"] * len(batch)
        async for sample in subscriber:
            got.append(text(sample))
            if len(got) == 500:
                break
        assert [number for number, seen in enumerate(got) if seen not in (str(number), "?")] == []
        assert subscriber.try_recv() is None
        assert await subscriber.recv_many(5, timeout=0) == []
        assert len(await subscriber.recv_batch(timeout=0.01)) == 0
        with pytest.raises(TimedOut) as raised:
            await subscriber.recv(timeout=0.01)
        assert raised.value.seconds == 0.01
        with pytest.raises(ValueError, match="timeout"):
            await subscriber.recv(timeout=-1)


KEPT = {
    "subscriber": lambda session: session.declare_subscriber("k"),
    "advanced subscriber": lambda session: ext.declare_advanced_subscriber(session, "k"),
    "typed subscriber": lambda session: typed.subscriber(session, "k", str),
    "queryable": lambda session: session.declare_queryable("k"),
    "typed queryable": lambda session: typed.queryable(session, "k", str),
    "liveliness": lambda session: session.liveliness().declare_subscriber("k"),
}


@everywhere
async def test_an_iterator_keeps_what_it_iterates_over_declared():
    """No other reference is left: what an `async for` loop over a call has."""
    async with aio.open(ALONE) as session:
        for kind, declare in KEPT.items():
            iterator = aiter(declare(session))
            gc.collect()
            await session.put("k", '"x"', encoding="application/json")
            replies = session.get("k", timeout=0.1)
            token = session.liveliness().declare_token("k")
            with anyio.fail_after(PATIENCE):
                assert await anext(iterator), kind
            del iterator, token
            assert await replies == []


@everywhere
async def test_the_loop_runs_on_while_a_task_waits_and_while_one_never_has_to():
    async with aio.open(ALONE) as session:
        subscriber = session.declare_subscriber("k", zenoh.handlers.FifoChannel(100_000))
        turns = 0

        async def turn():
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            for _ in range(5_000):
                await session.put("k", b"")
            published = turns
            for _ in range(5_000):
                await subscriber.recv()
            tasks.cancel_scope.cancel()
        assert published >= 10, "publishing leaves the others their turn"
        assert turns >= published + 10, "receiving does so, too"


@everywhere
async def test_gets_give_lists_and_streams_and_say_how_they_ended():
    async with pair() as (near, far):

        async def answer(query):
            await anyio.sleep(0.001)
            assert query.accepts_replies() == zenoh.ReplyKeyExpr.MATCHING_QUERY
            await query.reply(query.key_expr, f"{query.parameters.get('n')}")

        async def refuse(query):
            await query.reply_err(b"no")

        async with near.declare_queryable("q/yes", answer) as yes, near.declare_queryable("q/no", refuse):
            await yes.wait_ready(PATIENCE)
            await near.ready(PATIENCE)
            get = far.get("q/yes?n=7", timeout=PATIENCE)
            assert get.end is None
            assert [text(reply.ok) for reply in await get] == ["7"]
            assert get.end == "completed"
            assert [bytes(reply.err.payload) async for reply in far.get("q/no")] == [b"no"]
            querier = far.declare_querier("q/yes")
            await querier.wait_matching(timeout=PATIENCE)
            assert [text(reply.ok) for reply in await querier.get(parameters="n=8")] == ["8"]
            seen = []
            assert await far.get("q/yes?n=9", lambda reply: seen.append(text(reply.ok))) == []
            assert seen == ["9"]
        assert await far.get("q/nobody") == []


@everywhere
async def test_queries_are_iterated_over():
    async with aio.open(ALONE) as session:
        queryable = session.declare_queryable("q")

        async def serve():
            async for query in queryable:
                with query:
                    await query.reply("q", b"1")
                    await query.reply_del("q")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            replies = await session.get("q", consolidation=zenoh.ConsolidationMode.NONE)
            assert [reply.ok.kind for reply in replies] == [zenoh.SampleKind.PUT, zenoh.SampleKind.DELETE]
            await queryable.undeclare()
        with pytest.raises(UsageError):
            await queryable.undeclare()


@everywhere
async def test_a_query_ends_when_its_callback_has_failed():
    errors = []
    async with aio.open(ALONE) as session:

        async def fail(query):
            raise LookupError(str(query))

        callback = aio.Callback(fail, on_error=errors.append)
        session.declare_queryable("q", callback)
        begin = time.monotonic()
        told = '{"type": "LookupError", "message": "q"}'
        assert [text(reply.err) for reply in await session.get("q", timeout=PATIENCE)] == [told]
        assert time.monotonic() - begin < PATIENCE
        goes_on = await session.get("q", timeout=PATIENCE)
        assert [text(reply.err) for reply in goes_on] == [told]
    assert [str(error) for error in errors] == ["q", "q"]


@everywhere
async def test_callbacks_are_called_in_order_one_at_a_time_or_so_many():
    async with aio.open(ALONE) as session:
        single, several, most, ended = [], [], [0, 0], anyio.Event()

        async def one(sample):
            await anyio.lowlevel.checkpoint()
            single.append(text(sample))

        async def many(sample):
            most[0] += 1
            most[1] = max(most)
            several.append(text(sample))
            await anyio.sleep(0.001)
            most[0] -= 1

        first = session.declare_subscriber("k", one)
        session.declare_subscriber("k", aio.Callback(many, ended.set, concurrency=4))
        with pytest.raises(UsageError, match="callback"):
            await first.recv()
        for i in range(40):
            await session.put("k", str(i))
        await session.close()
        assert ended.is_set()
        await first.undeclare()
        with pytest.raises(UsageError):
            await first.undeclare()
        assert single == several == [str(i) for i in range(40)]
        assert most[1] == 4


@everywhere
async def test_a_callback_may_close_its_session_and_one_that_is_stuck_is_left():
    async with aio.open(ALONE) as session:
        seen, closed = [], anyio.Event()

        async def close(sample):
            seen.append(text(sample))
            await session.close()
            closed.set()

        session.declare_subscriber("k", close)
        await session.put("k", "1")
        await closed.wait()
    async with aio.open(ALONE) as session:
        session.declare_subscriber("k", lambda sample: anyio.sleep(PATIENCE))
        await session.put("k", "1")
        await session.put("k", "2")
        await anyio.sleep(0.01)
        await session.close(timeout=0.01)
    assert seen == ["1"]


@everywhere
async def test_close_ends_every_wait():
    async with aio.open(ALONE) as session:
        subscriber, queryable = session.declare_subscriber("k"), session.declare_queryable("q")
        publisher = session.declare_publisher("p")
        ended = []

        async def expect(wait):
            with pytest.raises(zenoh.ZError) as raised:
                await wait
            ended.append(type(raised.value))

        async def iterate():
            ended.append([sample async for sample in subscriber])

        async with anyio.create_task_group() as tasks:
            for wait in (
                subscriber.recv(),
                subscriber.recv_many(3),
                subscriber.recv_batch(),
                queryable.recv(timeout=PATIENCE),
                publisher.wait_matching(),
            ):
                tasks.start_soon(expect, wait)
            tasks.start_soon(iterate)
            await anyio.sleep(0.05)
            await session.close()
        assert len(ended) == 6
        assert [] in ended
        await session.close()
        for late in (session.put("k", b""), subscriber.recv(), publisher.put(b""), session.flush()):
            with pytest.raises(zenoh.ZError):
                await late


@everywhere
async def test_liveliness_matching_and_connectivity_are_told():
    async with pair() as (near, far):
        tokens = far.liveliness().declare_subscriber("t/**", history=True)
        await tokens.wait_ready(PATIENCE)
        token = near.liveliness().declare_token("t/1")
        await token.wait_ready(PATIENCE)
        assert (await tokens.recv(PATIENCE)).kind == zenoh.SampleKind.PUT
        assert [str(reply.ok.key_expr) for reply in await far.liveliness().get("t/*")] == ["t/1"]
        await token.undeclare()
        assert (await tokens.recv(PATIENCE)).kind == zenoh.SampleKind.DELETE

        async with far.declare_publisher("m") as publisher:
            listener = publisher.declare_matching_listener()
            async with near.declare_subscriber("m"):
                assert await listener.recv(PATIENCE)
            assert not await listener.recv(PATIENCE)
            with pytest.raises(TimedOut):
                await publisher.wait_matching(timeout=0.01)
        async with near.info.declare_link_events_listener(history=True) as links:
            assert (await links.recv(PATIENCE)).change == "connected"
        assert len(near.info.links()) == 1


@everywhere
async def test_opening_and_scouting():
    with pytest.raises(ConfigError):
        await aio.open({"mode": "no"})
    refused = {
        "mode": "client",
        "connect/endpoints": ["tcp/127.0.0.1:9"],
        "scouting/multicast/enabled": False,
    }
    with pytest.raises(ConnectError):
        async with aio.open(refused | {"connect/timeout_ms": 100}):
            pass
    begin = time.monotonic()
    with anyio.move_on_after(0.05) as scope:
        await aio.open(refused | {"connect/timeout_ms": 1000 * PATIENCE})
    assert scope.cancelled_caught
    assert time.monotonic() - begin < PATIENCE, "whoever is cancelled waits for nothing"
    async with aio.scout(what="peer", config={"scouting/multicast/interface": "lo"}) as found:
        assert found.try_recv() is None
    with pytest.raises(UsageError):
        await found.recv()


@everywhere
async def test_a_full_queue_makes_the_publisher_wait_and_not_the_loop():
    async with aio.open(ALONE) as session:
        subscriber = session.declare_subscriber("k", zenoh.handlers.FifoChannel(4))
        block = zenoh.CongestionControl.BLOCK
        state = []

        async def publish():
            for i in range(20):
                await session.put("k", str(i), congestion_control=block)
            state.append("done")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            # The publisher gets as far as the queue goes, while this task has its turns.
            while len(subscriber.handler) < 5:
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.01)
            assert (len(subscriber.handler), state) == (5, [])
            got = [text(await subscriber.recv(PATIENCE)) for _ in range(20)]
        assert got == [str(i) for i in range(20)]
        assert subscriber.dropped == 0


@everywhere
async def test_several_tasks_share_a_subscriber():
    async with aio.open(ALONE) as session:
        subscriber = session.declare_subscriber("k", zenoh.handlers.FifoChannel(10_000))
        got = []

        async def take():
            async for sample in subscriber:
                got.append(int(text(sample)))
                if len(got) == 500:
                    await session.close()
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(take)
            for i in range(500):
                await session.put("k", str(i))
                if i % 50 == 0:
                    await anyio.sleep(0.001)
        assert sorted(got) == list(range(500))


def test_a_closed_loop_costs_nothing():
    """Loops that end while tasks wait are forgotten, and what they waited for goes on."""
    import asyncio

    session = zenoh.open(ALONE)
    subscriber = aio.Session(session).declare_subscriber("k")
    loops = []
    for _ in range(3):
        loop = asyncio.new_event_loop()
        task = loop.create_task(subscriber.recv())
        loop.run_until_complete(asyncio.sleep(0))
        loops.append(weakref.ref(loop))
        # Brutal: the task is never cancelled, which asyncio says when it is collected.
        task._log_destroy_pending = False
        loop.close()
        del loop, task
    # The bell of the last loop rings without a listener.
    session.put("k", b"1")
    session.put("k", b"2")

    async def rest(subscriber):
        async with asyncio.timeout(PATIENCE):
            got = [text(await subscriber.recv()) for _ in range(2)]
            with pytest.raises(TimedOut):
                await subscriber.recv(timeout=0.01)
            return got

    assert asyncio.run(rest(subscriber)) == ["1", "2"]
    session.close()
    gc.collect()
    assert [loop() for loop in loops] == [None, None, None]


def test_a_task_of_another_loop_is_told_so():
    import asyncio

    with zenoh.open(ALONE) as session:
        subscriber = aio.Session(session).declare_subscriber("k")

        async def main():
            waiting = asyncio.create_task(subscriber.recv())
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, subscriber.recv())
            session.put("k", b"x")
            assert bytes((await waiting).payload) == b"x"

        asyncio.run(main())


def test_without_a_loop_there_is_an_error():
    with zenoh.open(ALONE) as session:
        asynchronous = aio.Session(session)
        with pytest.raises(UsageError, match="no event loop"):
            asynchronous.declare_subscriber("k", print)
        assert asynchronous.declare_subscriber("k").try_recv() is None
        with pytest.raises(ValueError, match="handler"):
            asynchronous.declare_subscriber("k", 5)


def test_subscribers_have_no_threads():
    async def main():
        async with aio.open(ALONE) as session:
            subscribers = [session.declare_subscriber(f"k/{i}") for i in range(200)]
            seen = 0

            async def take(subscriber):
                nonlocal seen
                await subscriber.recv()
                seen += 1

            async with anyio.create_task_group() as tasks:
                for subscriber in subscribers:
                    tasks.start_soon(take, subscriber)
                session.declare_subscriber("c/**", lambda _: None)
                await anyio.lowlevel.checkpoint()
                threads = threads_now()
                for i in range(200):
                    await session.put(f"k/{i}", b"")
            assert seen == 200
            return threads

    before = threads_now()
    # The two of the runtime may be there already; the one that opened the session may still linger.
    assert anyio.run(main) <= before + 4


def test_threads_end_that_have_nothing_to_do():
    async def main():
        async with aio.open(ALONE):
            pass

    anyio.run(main)
    deadline = time.monotonic() + PATIENCE
    while any(thread.name == "zwire-aio" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
