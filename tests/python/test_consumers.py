"""Consumers that are slow or stop: what it costs them, what it costs others, and where it is counted."""

import functools
import signal
import threading
import time

import pytest

import nodes
from nodes import opened
from zwire import zenoh

PATIENCE = 15.0
eventually = functools.partial(nodes.eventually, within=PATIENCE)
BLOCK = zenoh.CongestionControl.BLOCK
# How long a session waits for a handler in these tests.
DEADLINE = 0.3


@pytest.fixture
def client(hub):
    sessions = []

    def make(**settings):
        settings.setdefault("zwire__handler__block_deadline_ms", int(DEADLINE * 1000))
        sessions.append(nodes.client(hub, **settings))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def numbers(samples):
    return [int(sample.payload.to_string()) for sample in samples]


def matched(publisher):
    eventually(lambda: publisher.matching_status.matching, "a match")
    return publisher


def test_a_stopped_consumer_costs_others_one_deadline(client):
    count = 5_000
    sender, same, other = client(), client(), client()
    stopped = same.declare_subscriber("flow", zenoh.handlers.FifoChannel(10))
    got = {"beside it": [], "elsewhere": []}
    same.declare_subscriber("flow", got["beside it"].append)
    other.declare_subscriber("flow", got["elsewhere"].append)
    # Until both sessions are known, the first messages would reach one of them alone.
    ready = other.declare_subscriber("ready")
    matched(sender.declare_publisher("ready"))
    publisher = matched(sender.declare_publisher("flow", congestion_control=BLOCK))
    start = time.monotonic()
    for number in range(count):
        publisher.put(str(number))
    eventually(lambda: all(len(items) == count for items in got.values()), "all of it, for the others")
    assert time.monotonic() - start < DEADLINE + 3
    for items in got.values():
        assert numbers(items) == list(range(count))
    # It keeps the oldest; what it lost is counted, there and in the session.
    assert stopped.dropped == same.stats()["handler.dropped"]
    kept = []
    while (sample := stopped.try_recv()) is not None:
        kept.append(sample)
    assert numbers(kept) == list(range(len(kept)))
    assert len(kept) + stopped.dropped == count
    assert other.stats()["handler.dropped"] == 0
    # Once it takes something it is served again.
    publisher.put("-1")
    assert numbers([stopped.recv(timeout=5)]) == [-1]
    ready.undeclare()


def test_a_slow_consumer_slows_its_sender_and_loses_nothing(client):
    count = 1_500
    sender = client(zwire__queue__bytes_per_priority=65_536)
    receiver = client(zwire__handler__block_deadline_ms=5_000)
    slow = receiver.declare_subscriber("slow", zenoh.handlers.FifoChannel(4))
    got = []

    def take():
        for sample in slow:
            got.append(sample)
            time.sleep(0.0005)
            if len(got) == count:
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    publisher = matched(sender.declare_publisher("slow", congestion_control=BLOCK))
    payload = "{:<4000}"
    for number in range(count):
        publisher.put(payload.format(number))
    thread.join(PATIENCE)
    assert numbers(got) == list(range(count))
    assert receiver.stats()["handler.dropped"] == 0
    assert sender.stats()["link.tx_dropped"] == 0


def test_a_callback_that_takes_its_time_holds_up_nobody(client):
    sender, receiver = client(), client()
    entered, leave = threading.Event(), threading.Event()

    def busy(_):
        entered.set()
        leave.wait(PATIENCE)

    receiver.declare_subscriber("key", busy)
    quick = receiver.declare_subscriber("key")
    receiver.declare_queryable("ask", lambda query: query.reply("ask", "yes"))
    publisher = matched(sender.declare_publisher("key", congestion_control=BLOCK))
    try:
        publisher.put("0")
        assert entered.wait(5)
        start = time.monotonic()
        for number in range(1, 100):
            publisher.put(str(number))
        assert numbers(quick.recv(timeout=5) for _ in range(100)) == list(range(100))
        assert len(list(sender.get("ask", timeout=5))) == 1
        assert time.monotonic() - start < 1
    finally:
        leave.set()


def test_a_ring_never_waits_and_counts_what_it_forgot(client):
    sender, receiver = client(), client()
    ring = receiver.declare_subscriber("tick", zenoh.handlers.RingChannel(5))
    last = []
    receiver.declare_subscriber("tick", last.append)
    publisher = matched(sender.declare_publisher("tick", congestion_control=BLOCK))
    for number in range(1_000):
        publisher.put(str(number))
    eventually(lambda: len(last) == 1_000, "all of it")
    assert numbers(ring.recv() for _ in range(5)) == [995, 996, 997, 998, 999]
    assert ring.try_recv() is None
    assert ring.dropped == receiver.stats()["handler.dropped"] == 995


def test_a_stopped_queryable_costs_others_nothing(client):
    asker, stopped, other = client(), client(), client()
    inbox = stopped.declare_queryable("ask", zenoh.handlers.FifoChannel(2))
    other.declare_queryable("ask", lambda query: query.reply("ask", "yes"))
    querier = asker.declare_querier("ask", target=zenoh.QueryTarget.ALL, timeout=0.2)
    eventually(lambda: any(reply.ok for reply in querier.get()), "an answer")
    for _ in range(5):
        start = time.monotonic()
        assert [reply.ok.payload.to_string() for reply in querier.get() if reply.ok] == ["yes"]
        # Its own timeout, and no more.
        assert time.monotonic() - start < 1
    assert other.stats()["handler.queries_dropped"] == 0
    while (query := inbox.try_recv()) is not None:
        query.drop()


def test_replies_wait_for_a_slow_asker(client):
    asker, answerer = client(zwire__handler__block_deadline_ms=5_000), client()

    def answer(query):
        for number in range(300):
            query.reply(f"many/{number}", str(number))

    answerer.declare_queryable("many/*", answer)
    matched(asker.declare_querier("many/*"))
    got = []
    for reply in asker.get(
        "many/*", zenoh.handlers.FifoChannel(2), consolidation=zenoh.ConsolidationMode.NONE
    ):
        got.append(reply.ok)
        time.sleep(0.001)
    assert numbers(got) == list(range(300))


def test_drops_are_counted_by_reason(client, hub):
    session, other = client(), client()

    def dropped(reason, of=session):
        return of.stats()["session.dropped." + reason]

    # Without a subscriber: the publisher knows, and sends nothing.
    publisher = session.declare_publisher("nobody")
    eventually(lambda: session.stats()["session.declarations_received"] > 0, "the hub's answer")
    before = session.stats()["link.tx_messages"]
    for _ in range(3):
        publisher.put("x")
    assert dropped("put_no_subscriber") == 3
    assert session.stats()["link.tx_messages"] == before
    # Only to this session, which has no subscriber.
    session.put("nobody", "x", allowed_destination=zenoh.Locality.SESSION_LOCAL)
    assert dropped("put_no_local_subscriber") == 1
    # A reply that consolidation leaves out, and one that comes too late.
    queryable = other.declare_queryable("ask")
    matched(session.declare_querier("ask"))
    replies = session.get("ask", timeout=0.3)
    query = queryable.recv(timeout=PATIENCE)
    query.reply("ask", "1")
    query.reply("ask", "2")
    assert [r.ok.payload.to_string() for r in replies if r.ok] == ["2"]
    assert dropped("reply_consolidated") == 1
    query.reply("ask", "late")
    # Where it stops depends on whether the hub's own timer has run out as well.
    eventually(
        lambda: dropped("reply_late") or hub.stats()["node.unknown_requests"],
        "the late reply is counted",
    )
    queryable.undeclare()
    # The link is gone.
    hub.close()
    eventually(lambda: session.info.routers_zid() == [], "the end of the link")
    session.put("anything", "x")
    assert dropped("put_no_link") == 1


def test_a_destination_that_stops_reading_is_counted(router):
    with opened(
        "client", connect__endpoints=[router.endpoint], zwire__queue__bytes_per_priority=65_536
    ) as session:
        router.send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            for _ in range(1_000):
                session.put("key", bytes(60_000))
            # What may be dropped waits at most as long as the configuration says, once.
            assert time.monotonic() - start < 3
            stats = session.stats()
            assert stats["link.tx_dropped"] > 50
            assert stats["link.tx_dropped"] + stats["link.tx_messages"] >= 1_000
        finally:
            router.send_signal(signal.SIGCONT)
