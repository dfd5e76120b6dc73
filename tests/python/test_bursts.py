"""Publications of a loop are coalesced; those that are alone are written at once, by their thread."""

import asyncio
import threading
import time

import pytest

from zwire import aio, zenoh

BLOCK = zenoh.CongestionControl.BLOCK
MANY = 2_000


def writes(session):
    return session.stats()["link.tx_writes"]


@pytest.fixture
def got(hub, session):
    """A subscriber of the hub that the session knows."""
    with hub.declare_subscriber("a", zenoh.handlers.FifoChannel(4 * MANY)) as subscriber:
        subscriber.wait_ready()
        session.ready()
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
