"""Event loops leave nothing behind: in this process, in a forked one and at the end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path

import pytest

import nodes
from loops import ALONE, PATIENCE, text
from nodes import eventually
from zwire import aio, zenoh


def count(what):
    return len(list(Path("/proc/self", what).iterdir()))


def threads():
    """The number of threads not shared by all sessions."""
    return sum(name not in ("zwire-io", "zwire-wake") for name in nodes.threads())


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def use():
    async with aio.open(ALONE) as session:
        for _ in range(20):
            subscriber = session.declare_subscriber("k")
            session.declare_subscriber("c", lambda _: None)
            waiting = asyncio.create_task(subscriber.recv(PATIENCE))
            await asyncio.sleep(0)
            await session.put("k", b"x")
            await waiting
            cancelled = asyncio.create_task(subscriber.recv())
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            get = session.get("nobody")
            await get
            await subscriber.undeclare()


def test_loops_and_sessions_come_and_go():
    def some():
        for _ in range(5):
            asyncio.run(use())
        gc.collect()
        # Threads that wait for the next one to serve end by themselves.
        eventually(lambda: threads() <= alone, "the threads have ended")
        return count("fd"), resident()

    alone = threads()
    some()
    before = some()
    after = [some() for _ in range(3)][-1]
    assert after[0] == before[0]
    assert after[1] <= before[1] + 2_000_000, "fifteen loops with 300 subscribers"


def test_a_forked_child_opens_its_own(program):
    """The wake-ups of the parent have a thread that the child has not."""
    child = program("""
import asyncio
from zwire import aio

ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}

async def talk(name):
    async with aio.open(ALONE) as session:
        subscriber = session.declare_subscriber("k")
        waiting = asyncio.create_task(subscriber.recv(timeout=10))
        await asyncio.sleep(0)
        await session.put("k", name)
        return (await waiting).payload.to_string()

async def inherited(subscriber):
    try:
        await subscriber.recv(timeout=10)
    except zenoh.ZError as error:
        return str(error)

async def main():
    async with aio.open(ALONE) as session:
        subscriber = session.declare_subscriber("k")
        waiting = asyncio.create_task(subscriber.recv(timeout=10))
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            # A loop runs in this thread already, of which nothing but the object is left.
            found = []
            def own():
                found.append(asyncio.run(talk("child")))
                found.append(asyncio.run(inherited(subscriber)))
            thread = threading.Thread(target=own)
            thread.start()
            thread.join(10)
            print(found[0], "after a fork" in found[1], flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        await session.put("k", "parent")
        print((await waiting).payload.to_string(), await talk("again"))

asyncio.run(main())
""")
    assert child.rest(PATIENCE) == ("child True\nparent again\n", "")


@pytest.mark.parametrize("end", ["", "loop.close()", "session.close()", "os.kill(os.getpid(), 2)"])
def test_a_program_ends_that_leaves_everything_open(program, end):
    left = program(f"""
import asyncio
from zwire import aio

ALONE = {{"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}}
loop = asyncio.new_event_loop()

async def leave():
    session = await aio.open(ALONE)
    subscriber = session.declare_subscriber("k")
    session.declare_subscriber("c", print)
    task = loop.create_task(subscriber.recv())
    # Nothing of this is what the test is about.
    task._log_destroy_pending = False
    for task in asyncio.all_tasks():
        task._log_destroy_pending = False
    await asyncio.sleep(0)
    return session._session, subscriber, task

session, *kept = loop.run_until_complete(leave())
session.put("k", "x")
try:
    {end or "pass"}
except KeyboardInterrupt:
    pass
""")
    assert left.rest(PATIENCE)[0] == ""
    assert left.returncode == 0


def test_the_wake_ups_of_a_loop_reach_it_from_threads():
    """Messages that other threads publish, one by one, each wake a task that waits."""

    async def main():
        with zenoh.open(ALONE) as session:
            subscriber = aio.Session(session).declare_subscriber("k")
            for i in range(200):
                waiting = asyncio.create_task(subscriber.recv(PATIENCE))
                await asyncio.sleep(0)
                await asyncio.to_thread(session.put, "k", str(i))
                assert text(await waiting) == str(i)

    asyncio.run(main())


def test_errors_of_callbacks_reach_the_handler_of_the_loop():
    seen = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        async with aio.open(ALONE) as session:

            async def cancelled(_):
                raise asyncio.CancelledError

            def fail(_):
                raise LookupError("bad")

            first = session.declare_subscriber("k", fail)
            second = session.declare_subscriber("k", cancelled)
            await session.put("k", b"1")
            await session.put("k", b"2")
        assert (first.errors, second.errors) == (2, 2)

    asyncio.run(main())
    assert (
        sorted(type(context["exception"]).__name__ for context in seen)
        == ["CancelledError"] * 2 + ["LookupError"] * 2
    )


def test_a_publication_that_may_be_dropped_waits_in_a_thread(router, monkeypatch):
    """A peer that has stopped costs the loop nothing: not even the millisecond of grace."""
    from zwire.aio import _threads

    in_threads = []
    run = _threads.run

    async def counted(function, *args, **kwargs):
        in_threads.append(function.__name__)
        return await run(function, *args, **kwargs)

    async def main():
        config = {"mode": "client", "connect/endpoints": [router.endpoint]}
        async with aio.open(config) as session:
            publisher = session.declare_publisher("k")
            with zenoh.open(config) as other:
                kept = other.declare_subscriber("k")
                await publisher.wait_matching(timeout=PATIENCE)
                os.kill(router.pid, signal.SIGSTOP)
                monkeypatch.setattr(_threads, "run", counted)
                payload = bytes(1_000_000)
                async with asyncio.timeout(PATIENCE):
                    while "put" not in in_threads:
                        await publisher.put(payload)
                os.kill(router.pid, signal.SIGCONT)
                assert kept.recv(timeout=PATIENCE).payload.to_bytes() == payload

    asyncio.run(main())
