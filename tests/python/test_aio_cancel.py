"""Receives and gets that are cancelled while traffic flows lose nothing and double nothing."""

from __future__ import annotations

import asyncio
import random
import threading

import anyio
import anyio.lowlevel
import pyarrow as pa
import pytest

from loops import ALONE, LOOPS, PATIENCE, pair, text
from zwire import aio, zenoh

BLOCK = zenoh.CongestionControl.BLOCK


class Traffic(threading.Thread):
    """Publishes numbers from a thread until it is stopped: bursts, before which mostly nothing waits."""

    def __init__(self, session, key, subscriber):
        super().__init__(daemon=True)
        self.publisher = session.declare_publisher(key, congestion_control=BLOCK)
        self.subscriber = subscriber
        self.stopped = threading.Event()
        self.sent = 0

    def run(self):
        while not self.stopped.is_set():
            for _ in range(random.randrange(10)):
                self.publisher.put(str(self.sent))
                self.sent += 1
            self.stopped.wait(random.choice([0, 0.0002]))
            while len(self.subscriber.handler) > 5 and not self.stopped.is_set():
                self.stopped.wait(0.0002)

    def stop(self):
        self.stopped.set()
        self.join(PATIENCE)
        assert not self.is_alive()


async def receive(subscriber, got):
    """Receive once, in any way; either the item is returned, or nothing is taken."""
    match random.randrange(5):
        case 0:
            got.append(int(text(await subscriber.recv())))
        case 1:
            got.append(int(text(await subscriber.recv(timeout=PATIENCE))))
        case 2:
            got.append(int(text(await anext(aiter(subscriber)))))
        case 3:
            got.extend(int(text(sample)) for sample in await subscriber.recv_many(random.randrange(1, 9)))
        case 4:
            batch = pa.record_batch(await subscriber.recv_batch(random.randrange(1, 9)))
            got.extend(map(int, batch.column("payload").to_pylist()))


async def cancelled(make, most):
    """Start some, cancel them after a random while; how many were cancelled."""
    tasks = [asyncio.create_task(make()) for _ in range(random.randrange(1, most))]
    for _ in range(random.randrange(5)):
        await asyncio.sleep(random.choice([0, 0, 0, 1e-5]))
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
    return sum(end is not None for end in ends)


async def rest(subscriber, traffic, got):
    """Take what is still to come."""
    await anyio.to_thread.run_sync(traffic.stop)
    while len(got) < traffic.sent:
        got.append(int(text(await subscriber.recv(PATIENCE))))
    assert subscriber.try_recv() is None
    assert subscriber.dropped == 0
    assert sorted(got) == list(range(traffic.sent))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_eight_thousand_cancelled_receives(loop):
    async def main():
        async with pair() as (near, far):
            subscriber = near.declare_subscriber("storm", zenoh.handlers.FifoChannel(1000))
            await subscriber.wait_ready(PATIENCE)
            traffic = Traffic(far._session, "storm", subscriber)
            await aio.Publisher(traffic.publisher).wait_matching(timeout=PATIENCE)
            traffic.start()
            got, count = [], 0
            with anyio.fail_after(2 * PATIENCE):
                while count < 4_000:
                    count += await cancelled(lambda: receive(subscriber, got), 9)
                await rest(subscriber, traffic, got)

    anyio.run(main, **LOOPS[loop])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_two_thousand_cancelled_gets(loop):
    async def main():
        async with aio.open(ALONE) as session:

            async def answer(query):
                for i in range(3):
                    await query.reply(f"q/{i}", str(i))
                    if random.random() < 0.5:
                        await asyncio.sleep(0)

            started = []

            async def ask():
                get, got = session.get("q/*"), []
                started.append((get, got))
                if random.random() < 0.2:
                    # The whole of it: cancelled, it is over.
                    got += map(text_of, await get)
                while len(got) < 3:
                    got.append(text_of(await get.recv()))

            async with session.declare_queryable("q/*", answer):
                count = 0
                with anyio.fail_after(2 * PATIENCE):
                    while count < 1_000:
                        count += await cancelled(ask, 5)
                        for get, got in started:
                            # What a cancelled task has not taken is there, and nothing twice.
                            got += [text_of(reply) async for reply in get]
                            assert len(got) == len(set(got))
                            assert len(got) == 3 or get.end == "cancelled"
                        started.clear()
                assert len(await session.get("q/*")) == 3

    anyio.run(main, **LOOPS[loop])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_cancelled_await_of_a_get_gives_back_what_it_took(loop):
    async def main():
        async with aio.open(ALONE) as session:

            async def answer(query):
                for i in range(4):
                    await query.reply(f"q/{i}", str(i))
                answered.set()
                await asyncio.sleep(PATIENCE)

            answered = asyncio.Event()
            async with session.declare_queryable("q/*", answer):
                get = session.get("q/*", consolidation=zenoh.ConsolidationMode.NONE)
                whole = asyncio.ensure_future(get)
                with anyio.fail_after(PATIENCE):
                    await answered.wait()
                    # The task takes the replies and waits for more.
                    await asyncio.sleep(0.2)
                    assert len(get) == 0
                    whole.cancel()
                    await asyncio.wait([whole])
                assert len(get) == 4
                assert text_of(await get.recv()) == "0"
                assert list(map(text_of, await get.recv_many(2))) == ["1", "2"]
                assert [text_of(reply) async for reply in get] == ["3"]
                assert get.end == "cancelled"

    anyio.run(main, **LOOPS[loop])


def text_of(reply):
    return text(reply.ok)


@pytest.mark.parametrize("loop", LOOPS)
def test_scopes_that_are_cancelled(loop):
    async def main():
        async with aio.open(ALONE) as session:
            subscriber = session.declare_subscriber("storm", zenoh.handlers.FifoChannel(1000))
            traffic = Traffic(session._session, "storm", subscriber)
            traffic.start()
            got, left = [], [300]

            async def cancel_some():
                while left[0] > 0:
                    with anyio.CancelScope() as scope:
                        async with anyio.create_task_group() as tasks:

                            async def after_a_while(scope=scope):
                                for _ in range(random.randrange(4)):
                                    await anyio.lowlevel.checkpoint()
                                scope.cancel()

                            tasks.start_soon(after_a_while)
                            await receive(subscriber, got)
                            tasks.cancel_scope.cancel()
                    left[0] -= scope.cancelled_caught

            with anyio.fail_after(2 * PATIENCE):
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(cancel_some)
                await rest(subscriber, traffic, got)

    anyio.run(main, **LOOPS[loop])


def test_timeouts_of_asyncio():
    """`asyncio.wait_for` cancels a task of its own; its result may have come in the same moment."""

    async def main():
        async with aio.open(ALONE) as session:
            subscriber = session.declare_subscriber("storm", zenoh.handlers.FifoChannel(1000))
            traffic = Traffic(session._session, "storm", subscriber)
            traffic.start()
            got, missed = [], 0

            async def receive_with_timeouts():
                nonlocal missed
                while missed < 500:
                    try:
                        sample = await asyncio.wait_for(
                            subscriber.recv(), random.choice([0, 1e-5, 1e-4, 1e-3])
                        )
                    except TimeoutError:
                        missed += 1
                    else:
                        got.append(int(text(sample)))

            async with asyncio.timeout(2 * PATIENCE):
                await asyncio.gather(*[receive_with_timeouts() for _ in range(4)])
                await rest(subscriber, traffic, got)

    asyncio.run(main())
