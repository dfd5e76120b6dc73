"""Publications of a loop are coalesced; those that are alone are written at once, by their thread."""

import asyncio
import queue
import threading
import time

import pytest

import nodes
from zwire import aio, zenoh

BLOCK = zenoh.CongestionControl.BLOCK
MANY = 2_000
MANY_QUERIES = 100
PATIENCE = 10
NO_MERGE = {"consolidation": zenoh.ConsolidationMode.NONE, "timeout": PATIENCE}


def writes(session):
    return session.stats()["link.tx_writes"]


@pytest.fixture
def got(hub, session):
    """A subscriber of the hub that the session knows."""
    with hub.declare_subscriber("a", zenoh.handlers.FifoChannel(4 * MANY)) as subscriber:
        subscriber.wait_ready()
        session.ready()
        nodes.all_counted(session, hub)
        yield subscriber


def numbers(subscriber, many):
    return [int(bytes(subscriber.recv(timeout=10).payload)) for _ in range(many)]


def test_a_loop_is_coalesced(session, got):
    before = writes(session)
    for n in range(MANY):
        session.put("a", b"%8d" % n, congestion_control=BLOCK)
    assert numbers(got, MANY) == list(range(MANY))
    assert writes(session) - before < MANY // 2


def test_a_loop_of_a_publisher_in_an_event_loop_is_coalesced(hub, got):
    async def publish():
        config = {"mode": "client", "connect/endpoints": hub.listening(), "scouting/multicast/enabled": False}
        async with (
            await aio.open(config) as session,
            session.declare_publisher("a", congestion_control=BLOCK) as publisher,
        ):
            before = writes(session)
            for n in range(MANY):
                await publisher.put(b"%8d" % n)
            found = await asyncio.to_thread(numbers, got, MANY)
            return found, writes(session) - before

    found, written = asyncio.run(publish())
    assert found == list(range(MANY))
    assert written < MANY // 2


def test_messages_that_are_alone_are_written_at_once(session, got):
    for n in range(20):
        before = writes(session)
        session.put("a", b"%d" % n)
        assert writes(session) == before + 1
        time.sleep(0.002)
    assert numbers(got, 20) == list(range(20))


def test_two_threads_publish_in_turns(session, got):
    first, second = threading.Semaphore(1), threading.Semaphore(0)

    def publish(start, mine, other):
        for n in range(start, 400, 2):
            mine.acquire()
            session.put("a", b"%d" % n, congestion_control=BLOCK)
            other.release()

    threads = [
        threading.Thread(target=publish, args=args) for args in ((0, first, second), (1, second, first))
    ]
    for thread in threads:
        thread.start()
    assert numbers(got, 400) == list(range(400))
    for thread in threads:
        thread.join()


def test_two_threads_that_loop_lose_nothing(session, got):
    def publish():
        for n in range(MANY):
            session.put("a", b"%d" % n, congestion_control=BLOCK)

    threads = [threading.Thread(target=publish) for _ in range(2)]
    before = writes(session)
    for thread in threads:
        thread.start()
    assert sorted(numbers(got, 2 * MANY)) == sorted([*range(MANY)] * 2)
    for thread in threads:
        thread.join()
    assert writes(session) - before < MANY


@pytest.fixture
def slow(hub):
    """A session that writes what it collects after ten seconds, if nothing sends it before."""
    batching = {"transport/link/tx/queue/batching": {"enabled": True, "time_limit": 10_000}}
    with nodes.client(hub, **batching) as session:
        session.ready()
        yield session


def test_questions_of_a_loop_are_coalesced_and_leave_when_their_thread_waits(hub, slow):
    with hub.declare_queryable("q", lambda query: query.reply("q", str(query.parameters))) as queryable:
        slow.declare_querier("q").wait_matching(timeout=PATIENCE)
        begin = time.monotonic()

        def asked():
            """Writes for so many queries; a thread that is held up writes each one that comes late."""
            before = writes(slow)
            gets = [slow.get(f"q?n={n}") for n in range(MANY_QUERIES)]
            got = [reply.ok.payload.to_string() for get in gets for reply in get]
            assert got == [f"n={n}" for n in range(MANY_QUERIES)]
            return writes(slow) - before

        assert min(asked() for _ in range(5)) < MANY_QUERIES // 2
        # Others that join a burst, with each kind of receiver.
        polled = [slow.get("q?n=4"), slow.get("q?n=5")][1]
        nodes.eventually(lambda: polled.try_recv() is not None)
        answered = queue.SimpleQueue()
        gets = [slow.get("q?n=1"), slow.get("q?n=2")]
        slow.get("q?n=3", answered.put)
        assert answered.get(timeout=PATIENCE).ok
        assert [len(list(get)) for get in gets] == [1, 1]
        assert time.monotonic() - begin < 5, "nothing has waited for the time limit"
        queryable.undeclare()


def test_a_question_that_is_alone_is_written_at_once(hub, session):
    with hub.declare_queryable("q", lambda query: query.reply("q", "1")):
        session.declare_querier("q").wait_matching(timeout=PATIENCE)
        nodes.all_counted(session, hub)
        for _ in range(20):
            time.sleep(0.002)
            before = writes(session)
            get = session.get("q")
            assert writes(session) == before + 1
            assert len(list(get)) == 1


def test_answers_to_queries_that_wait_together_leave_together(hub, slow):
    queries = zenoh.handlers.FifoChannel(100)
    with slow.declare_queryable("q", queries) as queryable:
        hub.declare_querier("q").wait_matching(timeout=PATIENCE)
        gets = [hub.get(f"q?n={n}") for n in range(50)]
        nodes.eventually(lambda: len(queryable.handler) == 50)
        before, begin = writes(slow), time.monotonic()
        for _ in range(50):
            with queryable.recv(timeout=PATIENCE) as query:
                query.reply("q", str(query.parameters))
        got = [reply.ok.payload.to_string() for get in gets for reply in get]
        assert got == [f"n={n}" for n in range(50)]
        assert writes(slow) - before < 25
        assert time.monotonic() - begin < 5, "the last one has taken the others along"


def test_a_question_on_two_links_leaves_on_both():
    batching = {"transport/link/tx/queue/batching": {"enabled": True, "time_limit": 10_000}}
    with (
        nodes.router(**batching) as hub,
        nodes.client(hub) as first,
        nodes.client(hub) as second,
        first.declare_queryable("q", lambda query: query.reply("q", "1")),
        second.declare_queryable("q", lambda query: query.reply("q", "2")),
        second.declare_subscriber("loop", lambda _: None) as subscriber,
    ):
        subscriber.wait_ready(timeout=PATIENCE)
        nodes.eventually(lambda: len(list(hub.get("q", target=zenoh.QueryTarget.ALL, **NO_MERGE))) == 2)
        begin = time.monotonic()
        for _ in range(20):
            for _ in range(20):
                hub.put("loop", b"1", congestion_control=BLOCK)
            # The link of the loop collects, the other one writes.
            assert len(list(hub.get("q", target=zenoh.QueryTarget.ALL, **NO_MERGE))) == 2
        assert time.monotonic() - begin < 5
