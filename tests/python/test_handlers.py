"""Full channels: their policies, and the counters of drops; and iterators of channels."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

import nodes
from nodes import opened
from zwire import typed, zenoh, zre
from zwire.zenoh.handlers import Callback, Channel, FifoChannel, LatestChannel, RingChannel

BLOCK = zenoh.CongestionControl.BLOCK


@pytest.fixture
def session():
    with alone() as session:
        yield session


def alone(**handler):
    """A session without links: what it publishes is queued when `put` returns."""
    return opened("peer", **{f"zwire/handler/{key}": value for key, value in handler.items()})


def publish(session, numbers, key="a"):
    for number in numbers:
        session.put(key, str(number), congestion_control=BLOCK)


def waiting(subscriber):
    taken = []
    while (sample := subscriber.try_recv()) is not None:
        taken.append(int(sample.payload.to_string()))
    return taken


@pytest.mark.parametrize(
    ("handler", "kept"),
    [
        (Channel(4), [6, 7, 8, 9]),
        (Channel(4, full="drop_oldest"), [6, 7, 8, 9]),
        (Channel(4, full="drop_newest"), [0, 1, 2, 3]),
        (RingChannel(4), [6, 7, 8, 9]),
        (Channel(4, full="block", deadline=0.05), [0, 1, 2, 3, 4]),
        (Channel(4, full="block", deadline=0), [0, 1, 2, 3, 4]),
    ],
    ids=["default", "drop_oldest", "drop_newest", "ring", "block", "block not"],
)
def test_a_full_channel_keeps_what_its_policy_says(session, handler, kept):
    subscriber = session.declare_subscriber("a", handler)
    publish(session, range(10))
    assert subscriber.dropped == subscriber.handler.dropped == 10 - len(kept)
    assert session.stats()["handler.dropped"] == subscriber.dropped
    assert waiting(subscriber) == kept
    # Once there is room it goes on.
    publish(session, [10, 11])
    assert waiting(subscriber) == [10, 11]


def test_blocking_waits_for_who_takes(session):
    subscriber = session.declare_subscriber("a", Channel(2, full="block", deadline=20))
    publisher = threading.Thread(target=publish, args=(session, range(100)))
    publisher.start()
    got = [int(subscriber.recv(timeout=5).payload.to_string()) for _ in range(100)]
    publisher.join(5)
    assert got == list(range(100))
    assert subscriber.dropped == 0


def test_an_unread_subscriber_never_stops_a_publisher_of_its_session_for_good():
    """The default handler, and the channel that stops the publisher in eclipse-zenoh."""
    with alone(capacity_messages=8, block_deadline_ms=100) as session:
        handlers = [None, zenoh.handlers.DefaultHandler(), FifoChannel(8)]
        subscribers = [session.declare_subscriber("a", handler) for handler in handlers]
        start = time.monotonic()
        publish(session, range(2_000))
        # One deadline for each, not one for each message.
        assert time.monotonic() - start < 10
        for subscriber in subscribers:
            assert subscriber.dropped == 2_000 - 9
            assert waiting(subscriber) == list(range(9))


def test_the_latest_of_each_key_waits_in_the_place_of_the_first(session):
    subscriber = session.declare_subscriber("k/*", LatestChannel(10))
    for number in range(30):
        session.put(f"k/{number % 3}", str(number))
    session.delete("k/1")
    assert len(subscriber.handler) == 3
    assert (subscriber.replaced, subscriber.dropped) == (28, 0)
    assert session.stats()["handler.replaced"] == 28
    first, second, third = (subscriber.recv(timeout=0) for _ in range(3))
    assert [str(s.key_expr) for s in (first, second, third)] == ["k/0", "k/1", "k/2"]
    assert (first.payload, third.payload) == (b"27", b"29")
    assert second.kind == zenoh.SampleKind.DELETE
    # What was taken is not replaced any more.
    session.put("k/0", "30")
    assert subscriber.recv(timeout=0).payload == b"30"
    assert subscriber.try_recv() is None


def test_of_more_keys_than_fit_the_oldest_go(session):
    subscriber = session.declare_subscriber("k/*", LatestChannel(2))
    for number in range(5):
        session.put(f"k/{number}", str(number))
    assert subscriber.dropped == 3
    assert waiting(subscriber) == [3, 4]


@pytest.mark.parametrize("take", ["recv_many", "recv_batch", "one by one"])
def test_the_latest_stay_the_latest_however_they_are_taken(session, take):
    subscriber = session.declare_subscriber("k/*", LatestChannel(100))
    for round_ in range(3):
        for number in range(8):
            session.put(f"k/{number}", str(100 * round_ + number))
        if take == "recv_many":
            assert len(subscriber.recv_many(3)) == 3
        elif take == "recv_batch":
            assert subscriber.recv_batch(3 + 10 * round_).num_rows in {3, 8}
        else:
            assert subscriber.recv() is not None
        for number in range(8):
            session.put(f"k/{number}", str(100 * round_ + 50 + number))
        # One of each key, those that were left over in their old places.
        got = waiting(subscriber)
        assert sorted(got) == [100 * round_ + 50 + number for number in range(8)]


def test_replies_and_queries_go_through_channels_too(session):
    queries = session.declare_queryable("q", Channel(2, full="drop_newest"))
    replies = [session.get("q", LatestChannel(4), timeout=10) for _ in range(3)]
    assert queries.dropped == 1
    # A query that was dropped is over.
    assert list(replies[2]) == []
    for _ in range(2):
        with queries.recv(timeout=5) as query:
            for number in range(3):
                query.reply("q", str(number))
    for handler in replies[:2]:
        assert [bytes(reply.ok.payload) for reply in handler] == [b"2"]


def test_one_warning_names_what_is_full():
    script = """
import zwire.zenoh as zenoh
from zwire.zenoh.handlers import Channel, RingChannel
zenoh.init_log_from_env_or("warn")
config = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
config["zwire/handler/block_deadline_ms"] = 1
with zenoh.open(config) as session:
    kept = [
        session.declare_subscriber("oldest/*", Channel(2)),
        session.declare_subscriber("newest/*", Channel(2, full="drop_newest")),
        session.declare_subscriber("block/*", Channel(2, full="block")),
        session.declare_subscriber("ring/*", RingChannel(2)),
    ]
    for _ in range(20):
        for key in ("oldest", "newest", "block", "ring"):
            session.put(key + "/1", b"x")
    kept[2].recv_many(100)
    for _ in range(20):
        session.put("block/1", b"x")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=20
    )
    for policy in ("oldest", "newest", "block"):
        assert done.stderr.count(f"the subscriber of {policy}/*") == 1, done.stderr
    # To forget is what a ring is for.
    assert "ring" not in done.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda: Channel(0),
        lambda: LatestChannel(0),
        lambda: Channel(1, full="drop"),
        lambda: Channel(1, deadline=1.0),
        lambda: Channel(1, full="drop_newest", deadline=1.0),
        lambda: Channel(1, full="block", deadline=-1.0),
        lambda: zenoh.handlers.BatchCallback(print, max_items=0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match=r"capacity|full|deadline|max_items"):
        make()


def test_handlers_say_what_they_are():
    channel = Channel(3, full="block", deadline=0.5)
    assert (channel.capacity, channel.full, channel.deadline) == (3, "block", 0.5)
    assert Channel().capacity == 256
    assert LatestChannel(7).capacity == 7
    callback = Callback(print, on_error=id)
    assert (callback.callback, callback.drop, callback.on_error) == (print, None, id)
    batch = zenoh.handlers.BatchCallback(print, id, max_items=5)
    assert (batch.callback, batch.drop, batch.max_items, batch.on_error) == (print, id, 5, None)


ITERATED = {
    "subscriber": lambda session: session.declare_subscriber("a"),
    "advanced subscriber": lambda session: zenoh.ext.declare_advanced_subscriber(session, "a"),
    "typed subscriber": lambda session: typed.subscriber(session, "a", str),
    "values": lambda session: typed.subscriber(session, "a", str).values(),
    "queryable": lambda session: session.declare_queryable("a"),
    "typed queryable": lambda session: typed.queryable(session, "a", str),
    "liveliness": lambda session: session.liveliness().declare_subscriber("a"),
    "transports": lambda session: session.info.declare_transport_events_listener(history=True),
}


@pytest.mark.parametrize("kind", ITERATED)
def test_an_iterator_keeps_what_it_iterates_over_declared(hub, kind):
    """No other reference is left: what a `for` loop over a call has."""
    with nodes.client(hub) as session:
        iterator = iter(ITERATED[kind](session))
        gc.collect()
        session.put("a", '"x"', encoding="application/json")
        replies = session.get("a", timeout=1)
        token = session.liveliness().declare_token("a")
        next(iterator)
        del iterator, token
        assert list(replies) == []


def test_the_replies_of_a_get_keep_its_session(hub):
    answers = hub.declare_queryable("a", lambda query: time.sleep(0.1) or query.reply("a", "yes"))
    replies = nodes.client(hub).get("a")
    gc.collect()
    assert [reply.ok.payload.to_string() for reply in replies] == ["yes"]
    del replies
    nodes.eventually(lambda: not hub.info.transports(), "the session has ended with the replies")
    answers.undeclare()


def test_the_events_of_a_node_keep_it():
    port = nodes.free_port()
    with nodes.zre_node("one", port) as one:

        def started():
            two = nodes.zre_node("two", port)
            two.start()
            return two

        events = iter(started())
        gc.collect()
        assert isinstance(next(events), zre.Enter)
        assert one.wait_for_peers(1, 5)
    assert isinstance(next(events), zre.Exit)


def test_a_node_that_keeps_its_own_iterator_is_collected():
    node = nodes.zre_node("one", nodes.free_port())
    node.events = iter(node)
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None
