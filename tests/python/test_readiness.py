"""No program needs a sleep: what is waited for is there when the wait is over."""

import os
import pickle
import signal
import threading
import time

import pytest

import nodes
from nodes import LOCAL, opened
from zwire import zenoh
from zwire.errors import LinkClosed, TimedOut, UsageError

pytestmark = pytest.mark.slow

# A thousand with ZWIRE_PAIRS=1000.
PAIRS = int(os.environ.get("ZWIRE_PAIRS", "100"))
PATIENCE = 10.0


def stand_still(process):
    os.kill(process.pid, signal.SIGSTOP)
    # Until its last thread has heard of it.
    os.waitpid(process.pid, os.WUNTRACED)


def pair(kind, hub):
    """Two fresh sessions that have no word exchanged."""
    if kind == "router":
        return opened("client", connect=hub.listening()), opened("client", connect=hub.listening())
    first = opened("peer", listen=LOCAL)
    second = opened("peer", connect=first.listening())
    return (first, second) if kind == "peer" else (second, first)


@pytest.mark.timeout(30 + PAIRS / 10)
@pytest.mark.parametrize("kind", ["router", "peer", "peer that connects"])
@pytest.mark.parametrize("declared", [False, True], ids=["put", "publisher"])
def test_fresh_pairs_lose_nothing(kind, declared, hub):
    received = 0
    for number in range(PAIRS):
        near, far = pair(kind, hub)
        with near, far:
            subscriber = near.declare_subscriber(f"pair/{number}")
            subscriber.wait_ready(PATIENCE)
            if declared:
                publisher = far.declare_publisher(f"pair/{number}")
                publisher.wait_matching(timeout=PATIENCE)
                publisher.put(str(number))
            else:
                far.put(f"pair/{number}", str(number))
            sample = subscriber.recv(timeout=PATIENCE)
            received += sample.payload.to_string() == str(number)
    assert received == PAIRS


@pytest.mark.parametrize("kind", ["router", "peer", "peer that connects"])
def test_a_queryable_that_is_ready_is_asked(kind, hub):
    for number in range(10):
        near, far = pair(kind, hub)
        with near, far:
            queryable = near.declare_queryable(f"q/{number}", lambda query: query.reply(query.key_expr, "x"))
            queryable.wait_ready(PATIENCE)
            assert len(list(far.get(f"q/{number}", timeout=PATIENCE))) == 1


@pytest.mark.parametrize("kind", ["router", "peer", "peer that connects"])
def test_a_token_that_is_ready_is_found(kind, hub):
    for number in range(10):
        near, far = pair(kind, hub)
        with near, far:
            token = near.liveliness().declare_token(f"t/{number}")
            token.wait_ready(PATIENCE)
            assert len(list(far.liveliness().get("t/*", timeout=PATIENCE))) == 1


def test_a_querier_waits_for_queryables(hub):
    near, far = pair("router", hub)
    with near, far:
        querier = far.declare_querier("q")
        with pytest.raises(TimedOut) as raised:
            querier.wait_matching(timeout=0.05)
        assert raised.value.seconds == 0.05
        near.declare_queryable("q", lambda query: query.reply("q", "x"))
        querier.wait_matching(timeout=PATIENCE)
        assert len(list(querier.get())) == 1


def test_what_counts_as_one_match():
    """Own entities and those of each neighbour count one by one; a router tells of a key once."""
    with (
        opened("router", listen=LOCAL) as hub,
        opened("client", connect=hub.listening()) as a,
        opened("client", connect=hub.listening()) as b,
        opened("client", connect=hub.listening()) as c,
    ):
        publisher, at_hub = a.declare_publisher("k/1"), hub.declare_publisher("k/1")
        subscribers = [s.declare_subscriber(key) for s, key in ((b, "k/1"), (c, "k/1"), (c, "k/*"))]
        # Two keys behind the router, three subscribers that the router itself knows.
        publisher.wait_matching(2, PATIENCE)
        at_hub.wait_matching(3, PATIENCE)
        for narrow, n in ((publisher, 3), (at_hub, 4)):
            with pytest.raises(TimedOut):
                narrow.wait_matching(n, 0.05)
        own = [a.declare_subscriber("k/**"), a.declare_subscriber("k/**")]
        publisher.wait_matching(4, PATIENCE)
        assert publisher.wait_matching(0, 0) is None
        assert len(subscribers) + len(own) == 5
    with pytest.raises(UsageError):
        publisher.wait_matching(timeout=1)


def test_peers_count_one_by_one():
    with opened("peer", listen=LOCAL) as first:
        others = [opened("peer", connect=first.listening()) for _ in range(3)]
        publisher = first.declare_publisher("k")
        subscribers = [other.declare_subscriber("k") for other in others]
        publisher.wait_matching(3, PATIENCE)
        subscribers.pop().undeclare()
        with pytest.raises(TimedOut):
            publisher.wait_matching(4, 0.05)
        for other in others:
            other.close()


def test_a_wait_for_a_match_sees_it_come(hub):
    near, far = pair("router", hub)
    with near, far:
        publisher = far.declare_publisher("late")
        later = threading.Timer(0.1, near.declare_subscriber, ["late", lambda sample: None])
        later.start()
        publisher.wait_matching(timeout=PATIENCE)
        later.join()


def test_a_hub_that_stands_still_is_waited_for(router):
    with opened("client", connect=[router.endpoint]) as session:
        assert session.ready(PATIENCE) is True
        stand_still(router)
        subscriber = session.declare_subscriber("a")
        start = time.monotonic()
        assert session.ready(0.2) is False
        with pytest.raises(TimedOut) as raised:
            subscriber.wait_ready(0.2)
        assert 0.4 <= time.monotonic() - start < 2
        assert pickle.loads(pickle.dumps(raised.value)).seconds == 0.2
        with pytest.raises(TimedOut):
            session.flush(0.1)
        os.kill(router.pid, signal.SIGCONT)
        subscriber.wait_ready(PATIENCE)
        session.flush(PATIENCE)


def test_a_client_without_a_link_waits_for_one():
    endpoint = f"tcp/127.0.0.1:{nodes.free_port()}"
    with opened(
        "client", connect=[endpoint], connect__exit_on_failure=False, connect__retry__period_init_ms=50
    ) as session:
        assert session.ready(0.1) is False
        with pytest.raises(LinkClosed):
            session.flush(PATIENCE)
        subscriber = session.declare_subscriber("a")
        with opened("router", listen=[endpoint]) as hub:
            subscriber.wait_ready(PATIENCE)
            hub.put("a", "x")
            assert subscriber.recv(timeout=PATIENCE).payload.to_string() == "x"


def test_a_lost_link_fails_a_flush_and_not_a_wait_for_declarations(router):
    with opened("client", connect=[router.endpoint]) as session:
        stand_still(router)
        session.put("a", "x")
        kill = threading.Timer(0.1, os.kill, [router.pid, signal.SIGKILL])
        kill.start()
        with pytest.raises(LinkClosed) as raised:
            session.flush(PATIENCE)
        assert (raised.value.reason, raised.value.by_peer) == ("link-lost", True)
        kill.join()
        assert session.ready(0.1) is False


def test_a_router_and_a_lonely_peer_are_ready_at_once(hub):
    assert hub.ready(0) is True
    hub.declare_subscriber("a").wait_ready(0)
    with opened("peer") as peer:
        assert peer.ready(0) is True


def test_the_end_of_a_session_ends_its_waits(router):
    session = opened("client", connect=[router.endpoint])
    publisher = session.declare_publisher("nobody")
    stand_still(router)
    errors = []

    def wait(call):
        try:
            call()
        except UsageError as error:
            errors.append(str(error))

    waits = [session.ready, session.flush, publisher.wait_matching]
    threads = [threading.Thread(target=wait, args=[call]) for call in waits]
    for thread in threads:
        thread.start()
    closer = threading.Timer(0.1, session.close)
    closer.start()
    for thread in (*threads, closer):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert errors == ["the session is closed"] * 3
    with pytest.raises(UsageError):
        session.ready()


def test_what_is_undeclared_is_not_waited_for(hub):
    subscriber = hub.declare_subscriber("a")
    subscriber.undeclare()
    with pytest.raises(UsageError):
        subscriber.wait_ready(1)
    with pytest.raises(ValueError, match="timeout"):
        hub.ready(-1)


def test_a_flush_comes_after_everything(hub):
    with opened("client", connect=hub.listening()) as session:
        subscriber = hub.declare_subscriber("bulk/**", zenoh.handlers.RingChannel(1))
        subscriber.wait_ready(PATIENCE)
        for number in range(20_000):
            session.put(
                "bulk/x",
                str(number),
                congestion_control=zenoh.CongestionControl.BLOCK,
                priority=zenoh.Priority.BACKGROUND,
            )
        session.flush(PATIENCE)
        assert subscriber.try_recv().payload.to_string() == "19999"
