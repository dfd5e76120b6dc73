"""Callbacks: their waits for each other, their threads, and the exceptions that they raise."""

import functools
import sys
import threading
import time
from collections import defaultdict

import pytest

from nodes import eventually, opened, threads
from zwire import zenoh, zre
from zwire.errors import UsageError
from zwire.zenoh.handlers import BatchCallback, Callback

PATIENCE = 10.0
BLOCK = zenoh.CongestionControl.BLOCK


@pytest.fixture
def session():
    with opened("peer") as session:
        yield session


def callback_threads():
    """How many threads run callbacks right now."""
    return threads().count("zwire-callback")


linux = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")


@linux
def test_thousands_of_callbacks_share_few_threads(session):
    count = 3_000
    got, all_of_them, ended = [], threading.Event(), []

    def hear(sample):
        got.append(sample)
        if len(got) == count:
            all_of_them.set()

    for _ in range(count):
        session.declare_subscriber("a", Callback(hear, lambda: ended.append(1)))
    session.put("a", b"x")
    assert all_of_them.wait(PATIENCE), len(got)
    assert callback_threads() < 50
    start = time.monotonic()
    session.close()
    assert time.monotonic() - start < PATIENCE
    assert len(ended) == count
    eventually(lambda: callback_threads() == 0, "threads are left")


@linux
def test_callbacks_that_are_stuck_delay_no_other(session):
    stuck, leave = [], threading.Event()

    def wait(sample):
        stuck.append(sample)
        leave.wait(4 * PATIENCE)

    heard = threading.Semaphore(0)
    session.declare_subscriber("quick", lambda sample: heard.release())
    session.declare_queryable("ask", lambda query: query.reply("ask", b"yes"))
    for _ in range(60):
        session.declare_subscriber("slow", wait)
    session.put("slow", b"x")
    try:
        for _ in range(20):
            session.put("quick", b"x")
            assert heard.acquire(timeout=PATIENCE)
        assert len(list(session.get("ask", timeout=PATIENCE))) == 1
        # They do not wait for each other either.
        eventually(lambda: len(stuck) == 60, f"{len(stuck)} were called")
    finally:
        leave.set()
    # The additional threads end again.
    eventually(lambda: callback_threads() <= 2, "threads are left")


def test_a_callback_waits_for_another_of_its_session(session):
    """Each in a get that a callback answers, more of them than there were threads."""

    def relay(query):
        with query:
            for reply in session.get("inner", timeout=4 * PATIENCE):
                query.reply("outer", reply.ok.payload)

    session.declare_queryable("inner", lambda query: query.reply("inner", b"deep"))
    for _ in range(20):
        session.declare_queryable("outer", relay)
    for _ in range(3):
        replies = session.get("outer", target=zenoh.QueryTarget.ALL, timeout=4 * PATIENCE)
        assert [reply.ok.payload for reply in replies] == [b"deep"]


def test_calls_of_one_subscriber_are_in_order_and_never_two_at_once(session):
    count, kinds = 3_000, 4
    got, inside, twice = defaultdict(list), defaultdict(int), []

    def hear(name, sample):
        inside[name] += 1
        if inside[name] > 1:
            twice.append(name)
        got[name].append(int(sample.payload.to_string()))
        if len(got[name]) % 500 == name:
            time.sleep(0.003)
        inside[name] -= 1

    for name in range(kinds):
        session.declare_subscriber("a", functools.partial(hear, name))
    for number in range(count):
        session.put("a", str(number), congestion_control=BLOCK)
    eventually(lambda: all(len(got[name]) == count for name in range(kinds)), "all of it")
    assert all(items == list(range(count)) for items in got.values())
    assert twice == []


def test_a_batch_callback_gets_lists(session):
    count = 1_000
    entered, leave, done = threading.Event(), threading.Event(), threading.Event()
    batches, ended = [], threading.Event()

    def hear(samples):
        batches.append([int(sample.payload.to_string()) for sample in samples])
        entered.set()
        leave.wait(PATIENCE)
        if sum(map(len, batches)) == count:
            done.set()

    subscriber = session.declare_subscriber("a", BatchCallback(hear, ended.set, max_items=100))
    assert subscriber.handler is None
    for number in range(count):
        session.put("a", str(number))
        if number == 0:
            assert entered.wait(PATIENCE)
    leave.set()
    assert done.wait(PATIENCE)
    assert [number for batch in batches for number in batch] == list(range(count))
    assert batches[0] == [0]
    assert [len(batch) for batch in batches[1:]] == [100] * 9 + [99]
    subscriber.undeclare()
    assert ended.wait(PATIENCE)


def test_batches_of_queries_and_replies(session):
    def answer(queries):
        for query in queries:
            query.reply("q", b"yes")

    session.declare_queryable("q", BatchCallback(answer))
    got, done = [], threading.Event()
    session.get("q", BatchCallback(got.extend, done.set), timeout=PATIENCE)
    assert done.wait(PATIENCE)
    assert [bytes(reply.ok.payload) for reply in got] == [b"yes"]


@pytest.mark.parametrize("kind", [Callback, BatchCallback])
def test_on_error_gets_what_a_callback_raises(session, kind, monkeypatch):
    reported, told, calls = [], [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: reported.append(what.exc_value))

    def hear(what):
        calls.append(what)
        raise KeyError(len(calls))

    def on_error(error):
        told.append(error)
        if len(told) == 3:
            raise ValueError("worse")

    subscriber = session.declare_subscriber("a", kind(hear, on_error=on_error))
    for number in range(3):
        session.put("a", b"x")
        eventually(lambda number=number: len(told) == number + 1, "it is told")
    eventually(lambda: len(reported) == 1, "what on_error raises is reported as ever")
    assert [repr(error) for error in told] == ["KeyError(1)", "KeyError(2)", "KeyError(3)"]
    assert all(error.__traceback__ is not None for error in told)
    assert isinstance(reported[0], ValueError)
    assert subscriber.errors == 3


def test_errors_are_counted_without_on_error_too(session, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda what: None)
    queryable = session.declare_queryable("q", lambda query: 1 // 0)
    for _ in range(3):
        assert [reply.ok for reply in session.get("q", timeout=PATIENCE)] == [None]
    assert queryable.errors == 3


async def coroutine_function(sample):
    raise AssertionError


async def asynchronous_generator(sample):
    yield sample


class Asynchronous:
    async def __call__(self, sample):
        raise AssertionError

    async def method(self, sample):
        raise AssertionError


ASYNC = [
    coroutine_function,
    asynchronous_generator,
    Asynchronous(),
    Asynchronous().method,
    functools.partial(functools.partial(coroutine_function)),
    Callback(coroutine_function),
    BatchCallback(coroutine_function),
    (coroutine_function, None),
]


@pytest.mark.parametrize("callback", ASYNC, ids=[type(callback).__name__ for callback in ASYNC])
def test_a_callback_that_nobody_would_await_is_refused(session, callback):
    publisher = session.declare_publisher("a")
    before = session.stats()["session.declarations_sent"]
    uses = [
        lambda: session.declare_subscriber("a", callback),
        lambda: session.declare_queryable("a", callback),
        lambda: session.get("a", callback),
        lambda: publisher.declare_matching_listener(callback),
        lambda: session.liveliness().declare_subscriber("a", callback),
        lambda: session.info.declare_link_events_listener(callback),
        lambda: zenoh.scout(callback),
    ]
    for use in uses:
        with pytest.raises(UsageError, match=r"zwire\.aio"):
            use()
    # Nothing was declared.
    assert session.stats()["session.declarations_sent"] == before


def test_a_node_of_zre_refuses_it_too():
    with pytest.raises(UsageError, match="async"):
        zre.Node("n", callback=coroutine_function)


@pytest.mark.parametrize("callback", [print, [].append, Asynchronous, functools.partial(print, 1), id])
def test_other_callables_are_taken(session, callback):
    session.declare_subscriber("a", callback).undeclare()


def test_a_callback_may_end_itself(session):
    calls, ended = [], threading.Event()

    def hear(sample):
        calls.append(sample)
        if len(calls) == 1:
            subscriber.undeclare()

    subscriber = session.declare_subscriber("a", Callback(hear, ended.set))
    session.put("a", b"x")
    assert ended.wait(PATIENCE)
    session.put("a", b"x")
    assert len(calls) == 1
