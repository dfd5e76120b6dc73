"""`zwire.zenoh.ext`: advanced publishers and subscribers of one process; others are in tests/interop."""

import datetime as dt
import functools
import threading
from pathlib import Path

import pytest

import nodes
from zwire import zenoh
from zwire.errors import SessionClosed, UsageError
from zwire.zenoh import ext


@pytest.fixture
def client(session):
    return session


eventually = functools.partial(nodes.eventually, within=5.0)


def numbers(samples):
    return [int(bytes(sample.payload)) for sample in samples]


def take(subscriber, count):
    """So many samples, and no more."""
    samples = [subscriber.recv(timeout=5) for _ in range(count)]
    assert subscriber.try_recv() is None
    return samples


def numbered(session, key, cache=10, **options):
    return ext.declare_advanced_publisher(
        session,
        key,
        cache=ext.CacheConfig(cache),
        sample_miss_detection=ext.MissDetectionConfig(),
        **options,
    )


def test_the_past_comes_before_the_present(hub, client):
    publisher = numbered(hub, "a/1", cache=3, encoding="text/plain", publisher_detection=True)
    for number in range(5):
        publisher.put(f"{number}", attachment=f"{number}")
    late = ext.HistoryConfig(detect_late_publishers=True)
    # In another session, and in its own.
    subscribers = [ext.declare_advanced_subscriber(s, "a/*", history=late) for s in (hub, client)]
    for subscriber in subscribers:
        samples = take(subscriber, 3)
        assert numbers(samples) == [2, 3, 4]
        assert [bytes(s.attachment) for s in samples] == [b"2", b"3", b"4"]
        assert {str(s.encoding) for s in samples} == {"text/plain"}
        assert {s.source_info.source_id for s in samples} == {publisher.id}
    publisher.put("5", encoding="text/json")
    publisher.delete()
    for subscriber in subscribers:
        put, delete = take(subscriber, 2)
        assert (int(bytes(put.payload)), str(put.encoding)) == (5, "text/json")
        assert delete.kind == zenoh.SampleKind.DELETE
    # A deletion that is asked for is still one.
    again = ext.declare_advanced_subscriber(client, "a/1", history=ext.HistoryConfig(max_samples=2))
    assert [s.kind.name for s in take(again, 2)] == ["PUT", "DELETE"]


def test_payloads_of_several_buffers_are_cached(hub, client):
    block = bytes(range(256)) * 300
    publisher = numbered(hub, "a/1")
    publisher.put([b"head", block, b"tail"], attachment=[b"a", b"b"])
    # In another session, and in its own.
    for session in (client, hub):
        late = ext.declare_advanced_subscriber(session, "a/*", history=ext.HistoryConfig())
        sample = late.recv(timeout=5)
        assert sample.payload == b"head" + block + b"tail"
        assert sample.attachment == b"ab"


def test_misses_are_told(hub):
    publisher = hub.declare_publisher("a")
    subscriber = ext.declare_advanced_subscriber(hub, "a")
    listener = subscriber.sample_miss_listener()
    told = []
    done = threading.Event()
    called = subscriber.sample_miss_listener(zenoh.handlers.Callback(told.append, done.set))
    source = zenoh.EntityGlobalId(hub.zid(), 77)
    for number in (0, 1, 5):
        publisher.put(f"{number}", source_info=zenoh.SourceInfo(source, number))
    assert numbers(take(subscriber, 3)) == [0, 1, 5]
    miss = listener.recv(timeout=5)
    assert (miss.source, miss.nb) == (source, 3)
    assert repr(miss) == f"<Miss 3 of {hub.zid()}/77>"
    assert listener.try_recv() is None
    eventually(lambda: told, "the callback is called")
    assert told == [miss]
    called.undeclare()
    assert done.wait(5)
    listener.undeclare()
    with pytest.raises(UsageError, match="sample miss listener is undeclared"):
        listener.undeclare()
    publisher.put("9", source_info=zenoh.SourceInfo(source, 9))
    assert numbers(take(subscriber, 1)) == [9]
    assert told == [miss]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (ext.RecoveryConfig, "one of periodic_queries and heartbeat=True"),
        (lambda: ext.RecoveryConfig(heartbeat=False), "one of periodic_queries and heartbeat=True"),
        (lambda: ext.RecoveryConfig(periodic_queries=1, heartbeat=True), "not both"),
        (lambda: ext.RecoveryConfig(periodic_queries=-1), "periodic_queries must be seconds >= 0, not -1"),
        (lambda: ext.MissDetectionConfig(heartbeat=1, sporadic_heartbeat=1), "exclude each other"),
        (lambda: ext.MissDetectionConfig(heartbeat=float("nan")), "heartbeat must be seconds >= 0"),
        (lambda: ext.HistoryConfig(max_age=-0.5), "max_age must be seconds >= 0, not -0.5"),
    ],
)
def test_what_does_not_hold_together_is_refused(made, problem):
    with pytest.raises(ValueError, match=problem):
        made()


def test_periods_are_seconds_or_differences_of_time():
    for period in (1, 0.5, dt.timedelta(milliseconds=20)):
        ext.RecoveryConfig(periodic_queries=period)
        ext.MissDetectionConfig(heartbeat=period)
        ext.MissDetectionConfig(sporadic_heartbeat=period)
        ext.HistoryConfig(max_age=period)


def test_a_cache_needs_something_that_tells_samples_apart(client):
    with pytest.raises(UsageError, match="timestamping/enabled=true or pass sample_miss_detection"):
        ext.declare_advanced_publisher(client, "a", cache=ext.CacheConfig(3))
    with pytest.raises(UsageError, match="must not be zero"):
        numbered(client, "a", cache=0)
    # Neither has left anything behind.
    assert list(client.liveliness().get("**/@adv/**")) == []


def test_undeclaring_takes_everything_back(hub, client):
    publisher = ext.declare_advanced_publisher(
        client,
        "a",
        cache=ext.CacheConfig(3),
        sample_miss_detection=ext.MissDetectionConfig(heartbeat=0.01),
        publisher_detection=True,
    )
    subscriber = ext.declare_advanced_subscriber(
        client,
        "a",
        history=ext.HistoryConfig(detect_late_publishers=True),
        recovery=ext.RecoveryConfig(heartbeat=True),
        subscriber_detection=True,
    )
    with (
        hub.declare_publisher("a") as samples,
        hub.declare_publisher("a/@adv/pub/1/1/_") as heartbeats,
        hub.declare_querier("a/@adv/**") as querier,
    ):
        for matching in (samples, heartbeats, querier):
            matching.wait_matching(timeout=5)
        # The tokens come behind the rest.
        eventually(lambda: len(list(hub.liveliness().get("a/@adv/**"))) == 2)
        publisher.put("1")
        assert numbers(take(subscriber, 1)) == [1]
        publisher.undeclare()
        subscriber.undeclare()
        for matching in (samples, heartbeats, querier):
            eventually(lambda m=matching: not m.matching_status, "nobody is there")
        assert list(hub.liveliness().get("a/@adv/**")) == []
    with pytest.raises(UsageError, match="the advanced publisher is undeclared"):
        publisher.put("2")
    with pytest.raises(UsageError, match="the advanced publisher is undeclared"):
        publisher.undeclare()
    with pytest.raises(UsageError, match="undeclared"):
        subscriber.sample_miss_listener()


def test_the_end_of_the_session_ends_them(hub):
    session = zenoh.open({"mode": "client", "connect/endpoints": hub.listening()})
    publisher = numbered(session, "a")
    subscriber = ext.declare_advanced_subscriber(
        session, "a", history=ext.HistoryConfig(), recovery=ext.RecoveryConfig(periodic_queries=0.01)
    )
    listener = subscriber.sample_miss_listener()
    ended = threading.Event()
    called = ext.declare_advanced_subscriber(
        session, "a", zenoh.handlers.Callback(lambda sample: None, ended.set)
    )
    session.close()
    assert ended.wait(5)
    for waiting in (subscriber, listener):
        with pytest.raises(SessionClosed):
            waiting.recv(timeout=5)
    with pytest.raises(SessionClosed):
        publisher.put("x")
    publisher.undeclare()
    subscriber.undeclare()
    called.undeclare()


def test_they_take_no_threads(hub):
    def threads():
        return {task.name for task in Path("/proc/self/task").iterdir()}

    with zenoh.open({"mode": "client", "connect/endpoints": hub.listening()}) as session:
        before = threads()
        made = [numbered(session, f"a/{i}") for i in range(50)]
        made += [ext.declare_advanced_subscriber(session, f"a/{i}") for i in range(50)]
        # Threads of earlier tests may end meanwhile.
        assert threads() <= before
        for one in made:
            one.undeclare()


def test_a_large_answer_comes_whole(hub, client):
    """More than the queues on its way hold: the cache waits for room, and no other traffic waits for it."""
    count, size = 600, 50_000
    publisher = numbered(client, "a", cache=count)
    for number in range(count):
        publisher.put(number.to_bytes(size, "little"))
    subscriber = ext.declare_advanced_subscriber(hub, "a", history=ext.HistoryConfig())
    other = hub.declare_subscriber("b")
    client.put("b", "x", congestion_control=zenoh.CongestionControl.BLOCK)
    assert other.recv(timeout=5)
    for number in range(count):
        assert int.from_bytes(bytes(subscriber.recv(timeout=10).payload), "little") == number
