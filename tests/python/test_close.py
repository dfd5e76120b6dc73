"""The end of a session: waits, notifications, and what can still be used afterwards."""

import contextlib
import threading
import time

import pyarrow as pa
import pytest

from nodes import eventually, opened, router
from zwire import zenoh
from zwire.errors import SessionClosed, TransportError, UsageError
from zwire.zenoh.handlers import BatchCallback, Callback

PATIENCE = 10.0


@pytest.fixture
def session():
    with opened("peer") as session:
        yield session


def everything(session):
    """Declare one object of each kind; return them with their calls."""
    info, liveliness = session.info, session.liveliness()
    publisher = session.declare_publisher("p")
    matching = publisher.declare_matching_listener()
    querier = session.declare_querier("q")
    subscriber = session.declare_subscriber("s")
    ring = session.declare_subscriber("s", zenoh.handlers.RingChannel(3))
    queryable = session.declare_queryable("q")
    tokens = liveliness.declare_subscriber("t")
    replies = session.get("q", timeout=600)
    query = queryable.recv(timeout=PATIENCE)
    transports = info.declare_transport_events_listener()
    links = info.declare_link_events_listener()
    batch = pa.record_batch({"key": ["a"], "payload": [b"x"]})
    waits = {
        "subscriber.recv": subscriber.recv,
        "subscriber.recv with timeout": lambda: subscriber.recv(timeout=600),
        "subscriber.recv_many": lambda: subscriber.recv_many(5),
        "subscriber.recv_batch": lambda: subscriber.recv_batch(5),
        "subscriber.handler.recv": subscriber.handler.recv,
        "ring.recv": ring.recv,
        "queryable.recv": queryable.recv,
        "replies.recv": replies.recv,
        "tokens.recv": tokens.recv,
        "matching.recv": lambda: [matching.recv() for _ in range(3)],
        "transports.recv": transports.recv,
        "links.recv": links.recv,
        "publisher.wait_matching": lambda: publisher.wait_matching(5),
        "querier.wait_matching": lambda: querier.wait_matching(5),
    }
    uses = {
        **waits,
        "put": lambda: session.put("a", b""),
        "put_batch": lambda: session.put_batch(batch),
        "delete": lambda: session.delete("a"),
        "get": lambda: session.get("a"),
        "declare_subscriber": lambda: session.declare_subscriber("a"),
        "declare_subscriber with callback": lambda: session.declare_subscriber("a", print),
        "declare_publisher": lambda: session.declare_publisher("a"),
        "declare_queryable": lambda: session.declare_queryable("a"),
        "declare_querier": lambda: session.declare_querier("a"),
        "declare_keyexpr": lambda: session.declare_keyexpr("a"),
        "flush": session.flush,
        "ready": session.ready,
        "publisher.put": lambda: publisher.put(b""),
        "publisher.delete": publisher.delete,
        "publisher.declare_matching_listener": publisher.declare_matching_listener,
        "querier.get": querier.get,
        "subscriber.try_recv": subscriber.try_recv,
        "subscriber.wait_ready": subscriber.wait_ready,
        "queryable.try_recv": queryable.try_recv,
        "query.reply": lambda: query.reply("q", b""),
        "query.reply_del": lambda: query.reply_del("q"),
        "query.reply_err": lambda: query.reply_err(b""),
        "replies.try_recv": replies.try_recv,
        "liveliness.get": lambda: liveliness.get("t"),
        "liveliness.declare_token": lambda: liveliness.declare_token("t2"),
        "liveliness.declare_subscriber": lambda: liveliness.declare_subscriber("t2"),
        "info.declare_link_events_listener": info.declare_link_events_listener,
    }
    iterations = [subscriber, ring, queryable, replies, tokens, transports, links]
    return waits, uses, iterations


def outcome(call):
    try:
        return call()
    except BaseException as error:  # noqa: BLE001 - it is looked at
        return type(error)


def test_whoever_waits_hears_that_the_session_is_closed(session):
    # The others are kept: a query without a reference is over.
    waits, kept, _ = everything(session)
    got, entered = {}, threading.Semaphore(0)

    def wait(name, call):
        entered.release()
        got[name] = outcome(call)

    threads = [threading.Thread(target=wait, args=pair, daemon=True) for pair in waits.items()]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=PATIENCE)
    session.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert got == dict.fromkeys(waits, SessionClosed)
    del kept


def test_whatever_is_used_afterwards_says_so(session):
    _, uses, iterations = everything(session)
    session.close()
    # One change has come before the end, and can still be taken.
    first = uses.pop("matching.recv")
    assert outcome(first) == SessionClosed
    assert {name: outcome(use) for name, use in uses.items()} == dict.fromkeys(uses, SessionClosed)
    for iteration in iterations:
        assert list(iteration) == []


def test_it_is_an_error_that_ported_programs_know():
    assert issubclass(SessionClosed, UsageError)
    assert issubclass(SessionClosed, zenoh.ZError)


def test_what_only_looks_or_ends_goes_on_working(session):
    publisher, subscriber = session.declare_publisher("a"), session.declare_subscriber("a")
    token, queryable = session.liveliness().declare_token("t"), session.declare_queryable("q")
    number = session.declare_keyexpr("k")
    session.close()
    session.close(timeout=0)
    assert session.is_closed()
    assert session.info.links() == []
    assert (str(publisher.key_expr), str(session.zid())) == ("a", str(session.id.zid))
    with subscriber:
        pass
    session.undeclare(number)
    for declared in (publisher, token, queryable):
        declared.undeclare()
        with pytest.raises(SessionClosed):
            declared.undeclare()


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(session, timeout):
    with pytest.raises(ValueError, match="timeout"):
        session.close(timeout)
    assert not session.is_closed()


@pytest.mark.parametrize("kind", [Callback, BatchCallback])
def test_close_waits_for_callbacks_and_none_comes_after(session, kind):
    entered, calls, ended = threading.Event(), [], []

    def hear(what):
        entered.set()
        time.sleep(0.01)
        calls.append(what)

    session.declare_subscriber("a", kind(hear, lambda: ended.append(len(calls))))
    for _ in range(20):
        session.put("a", b"x")
    assert entered.wait(PATIENCE)
    session.close(timeout=PATIENCE)
    # What had come was handed over, and then the end was told.
    assert sum(len(call) if isinstance(call, list) else 1 for call in calls) == 20
    assert ended == [len(calls)]


def test_close_leaves_a_callback_that_does_not_end(session):
    entered, leave, calls, ended = threading.Event(), threading.Event(), [], threading.Event()

    def hear(sample):
        calls.append(sample)
        entered.set()
        leave.wait(4 * PATIENCE)

    session.declare_subscriber("a", Callback(hear, ended.set))
    for _ in range(20):
        session.put("a", b"x")
    assert entered.wait(PATIENCE)
    start = time.monotonic()
    session.close(timeout=0.05)
    assert time.monotonic() - start < PATIENCE
    leave.set()
    # The end is told, and nothing but the end.
    assert ended.wait(PATIENCE)
    assert len(calls) == 1


def test_callbacks_close_their_session_all_at_once():
    session = opened("peer")
    took, all_in = [], threading.Barrier(5)
    done = threading.Semaphore(0)

    def hear(sample):
        all_in.wait(PATIENCE)
        start = time.monotonic()
        session.close(timeout=4 * PATIENCE)
        took.append(time.monotonic() - start)
        done.release()

    for _ in range(4):
        session.declare_subscriber("a", hear)
    session.put("a", b"x")
    all_in.wait(PATIENCE)
    session.close(timeout=4 * PATIENCE)
    for _ in range(4):
        assert done.acquire(timeout=PATIENCE)
    # No close waits for a callback that itself waits for that close.
    assert max(took) < PATIENCE


def test_a_callback_that_closes_is_not_called_again():
    session = opened("peer")
    calls, ended = [], threading.Event()

    def hear(sample):
        calls.append(sample)
        entered.wait(PATIENCE)
        session.close()

    entered = threading.Event()
    session.declare_subscriber("a", Callback(hear, ended.set))
    for _ in range(10):
        session.put("a", b"x")
    entered.set()
    assert ended.wait(PATIENCE)
    assert len(calls) == 1


def test_whoever_connects_meanwhile_is_not_kept():
    """A link that is made while the session closes is no link of it: its other end hears of that."""
    for _ in range(5):
        hub, found, first = router(), [], threading.Event()
        endpoints = hub.listening()

        def connect(endpoints=endpoints, found=found, first=first):
            # It may be closed already, or in the middle of a handshake.
            with contextlib.suppress(TransportError):
                found.append(opened("client", connect=endpoints, connect__timeout_ms=0))
            first.set()

        threads = [threading.Thread(target=connect) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert first.wait(PATIENCE)
        hub.close()
        for thread in threads:
            thread.join(PATIENCE)
        for session in found:
            eventually(lambda session=session: not session.info.links())
            session.close()


def test_threads_that_close_at_once_return_together(session):
    leave, entered = threading.Event(), threading.Event()

    def hear(sample):
        entered.set()
        leave.wait(PATIENCE)

    session.declare_subscriber("a", hear)
    session.put("a", b"x")
    assert entered.wait(PATIENCE)
    threads = [threading.Thread(target=session.close, args=(4 * PATIENCE,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert any(thread.is_alive() for thread in threads)
    leave.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("when", ["before", "after"])
def test_closing_in_atexit(program, when):
    """Registered before zwire is imported it runs after zwire's own end, and the other way round."""
    process = program(
        "import atexit\n"
        "s = client(); s.declare_subscriber('a', lambda sample: None); s.put('a', 'x')\n"
        "sub = s.declare_subscriber('b')\n"
        "def end():\n"
        "    s.close(); s.close(timeout=1)\n"
        "    try: sub.recv()\n"
        "    except zenoh.ZError as error: print(type(error).__name__)\n"
        + ("atexit.register(end)\n" if when == "after" else "atexit.unregister(zenoh.close_all)\n")
        + ("" if when == "after" else "atexit.register(end); atexit.register(zenoh.close_all)\n")
    )
    out, err = process.rest(within=5)
    assert (process.returncode, out.strip(), err) == (0, "SessionClosed", "")


def test_ctrl_c_ends_the_wait_of_close(program):
    """The session is closed all the same."""
    process = program(
        "import signal\n"
        "s = client(); busy, leave = threading.Event(), threading.Event()\n"
        "s.declare_subscriber('a', lambda sample: (busy.set(), leave.wait(60)))\n"
        "s.put('a', 'x'); busy.wait(5)\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: s.close(timeout=60)\n"
        "except KeyboardInterrupt: print('interrupted', s.is_closed())\n"
        "leave.set()\n"
    )
    out, err = process.rest(within=10)
    assert (process.returncode, out.strip()) == (0, "interrupted True")
    # The log names the callback that goes on.
    assert "session closed while callbacks are running" in err
    assert len(err.splitlines()) == 1


def test_a_session_that_is_dropped_holds_up_no_other_thread(program):
    """Its link is stuck, and it waits for that as long as a close does."""
    process = program(
        "import signal\n"
        "s = client(zwire__queue__bytes_per_priority=65_536); t = client()\n"
        "t.declare_subscriber('b', id)\n"
        "p = s.declare_publisher('b'); p.wait_matching(1, 5)\n"
        "os.kill(int(sys.argv[2]), signal.SIGSTOP)\n"
        # Stuck: nothing has left for a while. A drop alone says that the queue was full once.
        "sent, now = -1, 0\n"
        "while sent != now:\n"
        "    sent = s.stats()['link.tx_bytes']\n"
        "    for _ in range(100): p.put(bytes(60_000)); time.sleep(0.001)\n"
        "    now = s.stats()['link.tx_bytes']\n"
        "assert s.stats()['link.tx_dropped'] > 5\n"
        "gone = threading.Event()\n"
        "def drop():\n"
        "    global s, p\n"
        "    del p, s\n"
        "    gone.set()\n"
        "thread = threading.Thread(target=drop); thread.start()\n"
        "turns = 0\n"
        "while not gone.wait(0.01): turns += 1\n"
        "os.kill(int(sys.argv[2]), signal.SIGCONT)\n"
        "thread.join(); print(turns > 3)\n"
    )
    out, err = process.rest(within=15)
    assert (process.returncode, out.strip()) == (0, "True"), err
