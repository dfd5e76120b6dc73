"""Opening and closing: what is left behind, what an end does, and what callbacks may do."""

import functools
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import nodes
from zwire import zenoh
from zwire.errors import HandshakeError, TimedOut, UsageError

pytestmark = pytest.mark.slow

eventually = functools.partial(nodes.eventually, within=5.0)


def client(endpoint):
    return zenoh.open({"mode": "client", "connect/endpoints": [endpoint]})


def held():
    return tuple(len(list(Path("/proc/self", what).iterdir())) for what in ("task", "fd"))


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_who_comes_back_under_its_id_waits_until_it_is_let_go(hub, mode):
    """A node that still has the last session of an id refuses the next one, as long as it has not noticed."""
    own = {"id": "abc", "connect__timeout_ms": 0}
    first = nodes.client(hub, **own)
    ending = threading.Timer(0.3, first.close)
    ending.start()
    with nodes.opened(mode, connect=hub.listening(), **own) as second:
        ending.join()
        eventually(lambda: second.info.routers_zid() == [hub.zid()])


def test_an_id_that_somebody_else_has_is_refused(hub):
    with nodes.client(hub, id="abc"):
        started = time.monotonic()
        with pytest.raises(HandshakeError, match="MAX_LINKS"):
            nodes.client(hub, id="abc", connect__timeout_ms=0)
        assert 0.9 < time.monotonic() - started < 5


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_thousand_sessions_leave_neither_threads_nor_descriptors(hub, endpoint):
    def cycle(number):
        session = client(endpoint)
        # A key of its own: the hub may still be passing on what the session before has put.
        subscriber = session.declare_subscriber(f"a/{number}")
        called = session.declare_subscriber("a/*", lambda sample: None)
        queryable = session.declare_queryable("q", lambda query: query.reply("q", b"1"))
        session.put(f"a/{number}", b"x")
        assert subscriber.recv(timeout=5).key_expr == f"a/{number}"
        if number % 2:
            session.close()
        else:
            # An end without a word, which drops the callbacks as well.
            called.undeclare()
            queryable.undeclare()

    for number in range(50):
        cycle(number)
    eventually(lambda: not hub.info.transports(), "the hub still has links")
    threads, files = held()
    for number in range(50, 1050):
        cycle(number)
    eventually(lambda: not hub.info.transports(), "the hub still has links")
    eventually(
        lambda: held()[0] <= threads and held()[1] <= files,
        f"threads and descriptors: {threads, files} before, {held()} after",
    )


@pytest.mark.long
def test_a_thousand_hubs_leave_neither_threads_nor_descriptors():
    def cycle():
        with zenoh.open({"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]}) as hub:
            client(hub.listening()[0]).close()

    for _ in range(20):
        cycle()
    before = held()
    for _ in range(300):
        cycle()
    eventually(lambda: held() <= before, f"threads and descriptors: {before} before, {held()} after")


def test_closing_twice_and_using_afterwards(endpoint):
    session = client(endpoint)
    publisher = session.declare_publisher("a")
    subscriber = session.declare_subscriber("a")
    session.close()
    session.close()
    assert session.is_closed()
    for use in (lambda: session.put("a", b""), lambda: publisher.put(b""), lambda: session.get("a")):
        with pytest.raises(UsageError):
            use()
    with pytest.raises(UsageError):
        subscriber.recv(timeout=5)
    assert list(subscriber) == []


def test_what_was_received_before_the_close_can_still_be_read(endpoint):
    session = client(endpoint)
    subscriber = session.declare_subscriber("a")
    for number in range(10):
        session.put("a", str(number))
    eventually(lambda: len(subscriber.handler) == 10, "they come")
    session.close()
    assert [sample.payload.to_string() for sample in subscriber] == [str(n) for n in range(10)]


@pytest.mark.parametrize(
    "how",
    [
        "pass",
        "sys.exit(0)",
        "raise SystemExit(0)",
        "del session",
        "threading.Thread(target=lambda: [None for _ in subscriber], daemon=True).start()",
        "callback = session.declare_subscriber('a', lambda sample: time.sleep(0.2)); session.put('a', 'x')",
        "queryable = session.declare_queryable('a', lambda query: time.sleep(0.2)); session.get('a')",
        "threading.Thread(target=flood, daemon=True).start(); time.sleep(0.2)",
        "callback = session.declare_subscriber('a', endless); session.put('a', 'x'); time.sleep(0.2)",
        "queryable = session.declare_queryable('a', endless); replies = session.get('a'); time.sleep(0.2)",
        "listener = session.declare_publisher('a').declare_matching_listener(print)",
    ],
)
def test_a_program_that_does_not_close_ends(endpoint, how):
    script = f"""
        import sys, threading, time
        import zwire.zenoh as zenoh

        def flood():
            while True:
                session.put("flood", b"x" * 1000, congestion_control=zenoh.CongestionControl.BLOCK)

        def endless(_):
            while True:
                time.sleep(0.001)

        session = zenoh.open({{"mode": "client", "connect/endpoints": ["{endpoint}"]}})
        subscriber = session.declare_subscriber("a")
        {how}
    """
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=15,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 6, done.stderr
    # What an uncaught exception of a thread says is all right, an abort of the process is not.
    assert "fatal" not in done.stderr.lower()


def test_what_a_program_has_put_before_its_end_arrives(hub, endpoint):
    subscriber = hub.declare_subscriber("a")
    script = f"""
        import zwire.zenoh as zenoh
        session = zenoh.open({{"mode": "client", "connect/endpoints": ["{endpoint}"]}})
        for number in range(5000):
            session.put("a", str(number), congestion_control=zenoh.CongestionControl.BLOCK)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=15)
    got = [subscriber.recv(timeout=5).payload.to_string() for _ in range(5000)]
    assert got == [str(number) for number in range(5000)]


def test_a_callback_that_raises_is_reported_and_called_again(endpoint, monkeypatch):
    reported = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda what: reported.append((type(what.exc_value), what.object))
    )
    calls = []

    def callback(sample):
        calls.append(sample)
        if len(calls) == 1:
            raise KeyError("first")
        if len(calls) == 2:
            raise SystemExit(3)

    with client(endpoint) as session:
        subscriber = session.declare_subscriber("a", callback)
        for _ in range(3):
            session.put("a", b"x")
        eventually(lambda: len(calls) == 3, "all three are delivered")
        subscriber.undeclare()
    assert reported == [(KeyError, callback), (SystemExit, callback)]


def test_a_query_ends_when_its_callback_raises(endpoint, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda what: None)

    def answer(query):
        query.reply("q", b"partly")
        raise ValueError("half-way")

    with client(endpoint) as session:
        session.declare_queryable("q", answer)
        start = time.monotonic()
        replies = list(session.get("q", timeout=20))
        assert [bytes(reply.ok.payload) for reply in replies if reply.ok] == [b"partly"]
        assert len(replies) == 2
        assert time.monotonic() - start < 5


def test_the_end_of_a_callback_is_told_once(endpoint):
    ended = threading.Event()
    count = []

    def drop():
        count.append(1)
        ended.set()

    with client(endpoint) as session:
        subscriber = session.declare_subscriber("a", zenoh.handlers.Callback(lambda sample: None, drop))
        subscriber.undeclare()
        assert ended.wait(5)
        other = threading.Event()
        session.declare_subscriber("a", zenoh.handlers.Callback(lambda sample: None, other.set))
    assert other.wait(5), "closing the session ends it as well"
    assert count == [1]


def test_callbacks_may_use_the_session(endpoint):
    """Publishing, asking, declaring and undeclaring from inside a callback."""
    with client(endpoint) as session:
        done = threading.Event()
        seen = []

        def answer(query):
            query.reply(query.key_expr, session.new_timestamp().to_string_rfc3339_lossy())

        def callback(sample):
            session.put("b", sample.payload)
            replies = list(session.get("q", timeout=5))
            extra = session.declare_subscriber("c")
            extra.undeclare()
            seen.append(len(replies))
            if len(seen) == 2:
                subscriber.undeclare()
                done.set()

        session.declare_queryable("q", answer)
        heard = session.declare_subscriber("b")
        subscriber = session.declare_subscriber("a", callback)
        session.put("a", b"1")
        session.put("a", b"2")
        assert done.wait(10)
        assert seen == [1, 1]
        assert [heard.recv(timeout=5).payload for _ in range(2)] == [b"1", b"2"]


def test_closing_from_a_callback(endpoint):
    session = client(endpoint)
    closed = threading.Event()

    def callback(sample):
        session.close()
        closed.set()

    session.declare_subscriber("a", callback)
    session.put("a", b"x")
    assert closed.wait(10)
    assert session.is_closed()


def test_waits_end_when_another_thread_closes(endpoint):
    session = client(endpoint)
    subscriber = session.declare_subscriber("a")
    queryable = session.declare_queryable("q")
    replies = session.get("q", timeout=60)
    query = queryable.recv(timeout=5)
    ended = []

    def wait(name, call):
        try:
            call()
        except (UsageError, TimedOut) as error:
            ended.append((name, type(error)))
        else:
            ended.append((name, None))

    threads = [
        threading.Thread(target=wait, args=("recv", subscriber.recv)),
        threading.Thread(target=wait, args=("iterate", lambda: list(subscriber))),
        threading.Thread(target=wait, args=("batch", lambda: subscriber.recv_batch(10))),
        threading.Thread(target=wait, args=("queryable", queryable.recv)),
        threading.Thread(target=wait, args=("replies", lambda: list(replies))),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    session.close()
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads), ended
    assert len(ended) == 5
    del query


def test_what_a_closed_session_still_says(endpoint):
    session = client(endpoint)
    publisher = session.declare_publisher("a")
    key = session.declare_keyexpr("a/b")
    before = session.new_timestamp()
    session.close()
    assert session.new_timestamp() > before
    assert not publisher.matching_status
    session.undeclare(key)
    publisher.undeclare()


def test_an_encoding_that_is_given_is_that_of_the_value(hub):
    subscriber = hub.declare_subscriber("a")
    publisher = hub.declare_publisher("a", encoding="text/plain")
    publisher.put("x")
    publisher.put("x", encoding="zenoh/bytes")
    publisher.put("x", encoding="text/json")
    encodings = [str(subscriber.recv(timeout=5).encoding) for _ in range(3)]
    assert encodings == ["text/plain", "zenoh/bytes", "text/json"]
