"""When the querier hears that no more replies come, in event loops, though the query is kept."""

from __future__ import annotations

import anyio
import pytest

from loops import ALONE, PATIENCE, everywhere, text
from zwire import aio, zenoh
from zwire.aio import typed
from zwire.errors import UsageError
from zwire.zenoh.handlers import BatchCallback

ALL = zenoh.ConsolidationMode.NONE


async def ask(session, key="q"):
    """The replies to a querier that must not be made to wait."""
    replies = session.get(key, timeout=PATIENCE, consolidation=ALL)
    got = [reply async for reply in replies]
    assert replies.end == "completed"
    return [text(reply.ok or reply.err) for reply in got]


class Asking:
    """A get in a task of its own."""

    def __init__(self, session, key="q"):
        self.got, self.over = [], anyio.Event()
        self._session, self._key = session, key

    async def __call__(self):
        async for reply in self._session.get(self._key, timeout=2 * PATIENCE, consolidation=ALL):
            self.got.append(text(reply.ok))
        self.over.set()


def start(tasks, session, key="q"):
    asking = Asking(session, key)
    tasks.start_soon(asking)
    return asking


@everywhere
async def test_a_query_that_a_callback_has_answered_ends_with_it():
    kept = []

    async def hear(query):
        kept.append(query)
        await query.reply("q", "yes")

    async def hear_all(queries):
        for query in queries:
            await hear(query)

    async with aio.open(ALONE) as session:
        for handler in (hear, aio.Callback(hear), (hear, None), BatchCallback(hear_all)):
            queryable = session.declare_queryable("q", handler)
            assert await ask(session) == ["yes"]
            with pytest.raises(UsageError, match="callback that has answered it has returned"):
                await kept[-1].reply("q", "more")
            await queryable.undeclare()


@everywhere
async def test_answers_of_other_tasks_do_not_end_it():
    """A task that got the query from the callback may take its time, and may also be the faster one."""
    first, again, rest = anyio.Event(), anyio.Event(), anyio.Event()

    async def serve(query):
        await query.reply("q", "one")
        first.set()
        await rest.wait()
        await query.reply("q", "two")

    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:

        async def hand_on(query):
            if first.is_set():
                again.set()
                return
            tasks.start_soon(serve, query)
            await first.wait()

        session.declare_queryable("q", aio.Callback(hand_on))
        asking = start(tasks, session)
        await first.wait()
        # One call after the other: it has come back from the first.
        assert await ask(session) == []
        assert again.is_set()
        assert not asking.over.is_set()
        rest.set()
        await asking.over.wait()
        assert asking.got == ["one", "two"]


@everywhere
async def test_one_that_a_function_keeps_stays_open():
    kept, there = [], anyio.Event()

    def hear(query):
        kept.append(query)
        there.set()

    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:
        session.declare_queryable("q", hear)
        asking = start(tasks, session)
        await there.wait()
        with kept.pop() as query:
            await query.reply("q", "one")
            await query.reply("q", "two")
        await asking.over.wait()
        assert asking.got == ["one", "two"]


@everywhere
async def test_a_callback_that_raises_ends_it_whoever_keeps_it():
    kept, errors = [], []

    async def fail(query):
        kept.append(query)
        raise LookupError

    async def fail_all(queries):
        kept.extend(queries)
        raise LookupError

    async with aio.open(ALONE) as session:
        for handler in (
            aio.Callback(fail, on_error=errors.append),
            BatchCallback(fail_all, on_error=errors.append),
        ):
            queryable = session.declare_queryable("q", handler)
            assert await ask(session) == ['{"type": "LookupError", "message": ""}']
            with pytest.raises(UsageError, match="the callback that got it has raised"):
                await kept[-1].reply("q", "more")
            assert queryable.errors == 1
            await queryable.undeclare()
    assert len(errors) == 2


@everywhere
async def test_a_loop_ends_what_it_has_answered_when_it_goes_on_or_is_left():
    kept = []
    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:
        queryable = session.declare_queryable("q")

        async def serve(source):
            async for query in source():
                kept.append(query)
                await query.reply("q", "yes")
                if "last" in query.parameters:
                    break

        for source in (lambda: queryable, lambda: queryable.handler, lambda: aiter(queryable)):
            tasks.start_soon(serve, source)
            assert await ask(session) == ["yes"]
            assert await ask(session, "q?last") == ["yes"]
        for query in kept:
            with pytest.raises(UsageError, match="the loop that has answered it has gone on"):
                await query.reply("q", "more")
        assert len(kept) == 6


@everywhere
async def test_a_loop_keeps_nothing_and_ends_nothing_that_it_has_not_answered():
    kept, there = [], anyio.Event()
    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:
        queryable = session.declare_queryable("q")

        async def serve():
            async for query in queryable:
                if "keep" in query.parameters:
                    kept.append(query)
                    there.set()
                del query

        tasks.start_soon(serve)
        asking = start(tasks, session, "q?keep")
        await there.wait()
        assert await ask(session) == []
        await kept[0].reply("q", "one")
        await kept[0].reply("q", "two")
        assert not asking.over.is_set()
        kept.clear()
        await asking.over.wait()
        assert asking.got == ["one", "two"]
        await queryable.undeclare()


@everywhere
async def test_what_recv_gives_is_ended_by_who_took_it():
    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:
        queryable = session.declare_queryable("q")
        asking = start(tasks, session)
        query = await queryable.recv(PATIENCE)
        await query.reply("q", "one")
        assert queryable.try_recv() is None
        await query.reply("q", "two")
        assert not asking.over.is_set()
        del query
        await asking.over.wait()
        assert asking.got == ["one", "two"]


@everywhere
async def test_values_are_asked_and_answered_in_the_same_way():
    kept = []

    async def hear(query):
        kept.append(query)
        await query.reply("yes")

    async with aio.open(ALONE) as session, anyio.create_task_group() as tasks:
        serving = typed.queryable(session, "q", str, hear)
        assert await ask(session) == ["yes"]
        await serving.undeclare()
        queryable = typed.queryable(session, "q", str)

        async def serve():
            async for query in queryable:
                await hear(query)

        tasks.start_soon(serve)
        assert await ask(session) == ["yes"]
        for query in kept:
            with pytest.raises(UsageError, match="Send all answers before that"):
                await query.reply("more")
        await queryable.undeclare()
    assert len(kept) == 2
