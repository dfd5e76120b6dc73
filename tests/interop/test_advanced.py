"""Advanced publishers and subscribers of both implementations: late joiners, loss, restarts, misses."""

import base64
import contextlib
import itertools
import time

import pytest

from interop.harness import ECLIPSE, QUIET, ZWIRE, LossyWorld, all_declared, eventually, shown
from network.relay import Relay

BOTH = [ZWIRE, ECLIPSE]
PAIRS = list(itertools.product(BOTH, BOTH))
# The number of a test's key: nodes serve all tests of this file.
NUMBERS = itertools.count()


class World(LossyWorld):
    """A router, and clients of both implementations: some that publish, some behind a lossy path."""

    def __init__(self):
        super().__init__()
        settings = {"timestamping/enabled": True}
        self.publishers = {kind: self.net.client(kind, self.hub, **settings) for kind in BOTH}
        self.subscribers = {kind: self.net.client(kind, self.hub) for kind in BOTH}
        # An answer may be lost as well: it is not waited for as long as by default.
        settings = {"queries_default_timeout": 500}
        endpoint = f"udp/127.0.0.1:{self.relay.port}"
        self.far = {kind: self.net.node(kind, "client", connect=[endpoint], **settings) for kind in BOTH}


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.end()


@pytest.fixture
def key():
    return f"adv/{next(NUMBERS)}"


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request, world):
    """Publisher and subscriber, by implementation."""
    publisher, subscriber = request.param
    yield world.publishers[publisher], world.subscribers[subscriber]
    world.publishers[publisher].drop_all()
    world.subscribers[subscriber].drop_all()


@pytest.fixture(params=PAIRS, ids="-".join)
def far_pair(request, world):
    """Publisher, and subscriber behind a path on which datagrams are lost, by implementation."""
    publisher, subscriber = request.param
    yield world.publishers[publisher], world.far[subscriber]
    world.relay.loss = 0.0
    world.publishers[publisher].drop_all()
    world.far[subscriber].drop_all()


def numbers(followed):
    return [sample["number"] for sample in followed["came"]]


def missed(followed):
    return sum(miss["nb"] for miss in followed["misses"])


# ---- what is said ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_a_publisher_declares_beside_its_key(world, kind, key):
    """The bytes that the others read."""
    watcher, publisher = world.subscribers[ZWIRE], world.publishers[kind]
    watcher.subscribe(name="heartbeats", key=f"{key}/@adv/pub/**")
    watcher.liveliness_subscribe(name="tokens", key=f"{key}/@adv/pub/**", history=True)
    watcher.subscribe(name="samples", key=key)
    all_declared(publisher, watcher)
    zid, eid = publisher.advanced_publisher(
        name="pub", key=key, cache=3, detect={"sporadic_heartbeat": 0.02}, detection=True
    )
    beside = f"{key}/@adv/pub/{zid}/{eid}/_"
    assert [s["key"] for s in watcher.received(name="tokens", count=1, seconds=5)] == [beside]
    publisher.publish_numbers(name="pub", start=0, end=5)
    assert len(watcher.received(name="samples", count=5, seconds=5)) == 5
    last = shown(b"\x04\0\0\0")

    def told():
        heartbeats = watcher.received(name="heartbeats", count=1, seconds=1)
        return any((s["key"], s["payload"]) == (beside, last) for s in heartbeats)

    eventually("the last number is told", told)
    heartbeat = watcher.received(name="heartbeats", count=1, seconds=1)[-1]
    assert (heartbeat["priority"], heartbeat["congestion"]) == ("DATA", "BLOCK")
    publisher.undeclare(name="pub")
    kinds = [s["kind"] for s in watcher.received(name="tokens", count=2, seconds=5)]
    assert kinds == ["PUT", "DELETE"]
    watcher.drop_all()


QUESTIONS = {
    "": [2, 3, 4],
    "_max=2": [3, 4],
    "_max=0": [],
    "_max=x": [2, 3, 4],
    "_sn=3..4": [3, 4],
    "_sn=3": [3],
    "_sn=..2": [2],
    "_sn=..1": [],
    "_sn=4..9": [4],
    "_sn=4..3": [],
    "_sn=x": [2, 3, 4],
    "_sn=2..4;_max=2": [3, 4],
    "_time=[now(-1h)..]": [2, 3, 4],
    "_time=[..now(-1h)]": [],
    "_time=bad": [2, 3, 4],
}


@pytest.mark.parametrize("kind", BOTH)
def test_a_cache_answers(world, kind, key):
    asker, publisher = world.subscribers[ZWIRE], world.publishers[kind]
    publisher.advanced_publisher(name="pub", key=key, cache=3, detect={})
    publisher.publish_numbers(name="pub", start=0, end=5)

    def answers(parameters):
        selector = f"{key}/@adv/**?{parameters}" + (";_anyke" if parameters else "_anyke")
        got = asker.get(selector=selector, target="ALL", consolidation="NONE")["replies"]
        assert all(reply["ok"] and reply["key"] == key for reply in got)
        return [int(base64.b64decode(reply["payload"])) for reply in got]

    eventually("the cache is known", lambda: answers(""))
    for parameters, expected in QUESTIONS.items():
        assert answers(parameters) == expected, parameters
    publisher.undeclare(name="pub")


@pytest.mark.parametrize("kind", BOTH)
def test_a_subscriber_asks_for_histories(world, kind, key):
    cache, subscriber = world.publishers[ZWIRE], world.subscribers[kind]
    cache.queryable(name="cache", key=f"{key}/**/@adv/**", script=[])
    all_declared(subscriber, cache)
    for at, (history, on, asked) in enumerate(
        [
            ({}, "", ""),
            ({"max_samples": 3}, "", "_max=3;"),
            ({"max_age": 2.5}, "", "_time=[now(-2.5s)..];"),
            ({"max_age": 2, "max_samples": 2}, "/**", "_max=2;_time=[now(-2s)..];"),
        ]
    ):
        subscriber.advanced_subscribe(name=f"sub {at}", key=key + on, history=history)
        query = cache.received(name="cache", count=at + 1, seconds=5)[-1]
        assert (query["key"], query["parameters"]) == (f"{key}{on}/@adv/**", f"{asked}_anyke")
    cache.drop_all()
    subscriber.drop_all()


# ---- the past --------------------------------------------------------------------------------------


def test_a_late_joiner_gets_the_history(pair, key):
    publisher, subscriber = pair
    publisher.advanced_publisher(name="pub", key=key, cache=10, detect={})
    publisher.publish_numbers(name="pub", start=0, end=15)
    # The cache is known once a subscriber has got a sample out of it.
    subscriber.advanced_subscribe(name="first", key=key, history={})
    eventually("the history comes", lambda: known(publisher, subscriber, key))
    subscriber.advanced_subscribe(name="all", key=key, history={})
    subscriber.advanced_subscribe(name="some", key=key, history={"max_samples": 4})
    subscriber.advanced_subscribe(name="young", key=key, history={"max_age": 3600})
    subscriber.advanced_subscribe(name="none", key=key, history={"max_age": 0.001})
    for name, expected in {"all": 5, "some": 11, "young": 5}.items():
        got = subscriber.followed(name=name, count=15 - expected, seconds=5)
        assert numbers(got) == list(range(expected, 15)), name
    publisher.publish_numbers(name="pub", start=15, end=20)
    for name, expected in {"all": 5, "some": 11, "young": 5, "none": 15}.items():
        got = subscriber.followed(name=name, count=20 - expected, seconds=5)
        assert numbers(got) == list(range(expected, 20)), name
        assert got["misses"] == []


def known(publisher, subscriber, key):
    """Whether a question of the subscriber comes to the publisher's cache."""
    zid = publisher.opened["zid"]
    got = subscriber.get(selector=f"{key}/@adv/pub/{zid}/**?_max=1;_anyke", target="ALL")
    return got["replies"]


def test_times_tell_apart_what_has_no_number(pair, key):
    publisher, subscriber = pair
    publisher.advanced_publisher(name="pub", key=key, cache=5)
    publisher.publish_numbers(name="pub", start=0, end=8)
    eventually("the cache is known", lambda: known(publisher, subscriber, key))
    subscriber.advanced_subscribe(name="sub", key=key, history={})
    assert numbers(subscriber.followed(name="sub", count=5, seconds=5)) == [3, 4, 5, 6, 7]
    publisher.publish_numbers(name="pub", start=8, end=10)
    got = subscriber.followed(name="sub", count=7, seconds=5)
    assert numbers(got) == [3, 4, 5, 6, 7, 8, 9]
    assert got["misses"] == []
    assert all(sample["source"] is None for sample in got["came"])


def test_late_publishers_are_detected(pair, key):
    publisher, subscriber = pair
    subscriber.advanced_subscribe(
        name="sub", key=f"{key}/*", history={"detect_late_publishers": True, "max_samples": 3}
    )
    subscriber.detect_publishers(name="publishers", of="sub", history=True)
    zid, eid = publisher.advanced_publisher(name="pub", key=f"{key}/a", cache=10, detect={}, detection=True)
    publisher.publish_numbers(name="pub", start=0, end=3)
    got = subscriber.followed(name="sub", count=3, seconds=5)
    assert numbers(got) == [0, 1, 2]
    assert got["misses"] == []
    detected = subscriber.received(name="publishers", count=1, seconds=5)
    assert [(s["kind"], s["key"]) for s in detected] == [("PUT", f"{key}/a/@adv/pub/{zid}/{eid}/_")]
    publisher.undeclare(name="pub")
    detected = subscriber.received(name="publishers", count=2, seconds=5)
    assert detected[1]["kind"] == "DELETE"


def test_a_restarted_publisher_is_followed(pair, key):
    publisher, subscriber = pair
    late = {"detect_late_publishers": True}
    subscriber.advanced_subscribe(name="sub", key=key, history=late, recovery={"heartbeat": True})
    sources = []
    for _ in range(3):
        _, eid = publisher.advanced_publisher(
            name="pub", key=key, cache=20, detect={"sporadic_heartbeat": 0.05}, detection=True
        )
        sources.append(eid)
        publisher.publish_numbers(name="pub", start=0, end=10)
        got = subscriber.followed(name="sub", count=10 * len(sources), seconds=5)
        assert len(got["came"]) == 10 * len(sources)
        publisher.undeclare(name="pub")
    assert len(set(sources)) == 3
    for source in sources:
        assert [s["number"] for s in got["came"] if s["source"] == source] == list(range(10))
    assert got["misses"] == []


@pytest.mark.parametrize("recovery", [None, {"heartbeat": True}], ids=["history", "recovery"])
@pytest.mark.parametrize("kind", BOTH)
def test_a_publisher_may_begin_again_under_its_name(world, kind, key, recovery):
    """With the configured id of its node and the same number in it: eclipse-zenoh takes that for the past."""
    settings = {"id": f"a{next(NUMBERS)}", "connect/endpoints": [world.hub.endpoint], "mode": "client"}
    subscriber, publisher = world.subscribers[ZWIRE], world.net.start(kind)
    late = {"detect_late_publishers": True}
    subscriber.advanced_subscribe(name="sub", key=key, history=late, recovery=recovery)
    subscriber.detect_publishers(name="publishers", of="sub", history=True)
    names = []
    for round_ in range(2):
        publisher.open(settings={**QUIET, **settings})
        names.append(publisher.advanced_publisher(name="pub", key=key, cache=20, detect={}, detection=True))
        publisher.publish_numbers(name="pub", start=0, end=10 - 5 * round_)
        got = subscriber.followed(name="sub", count=10 + 5 * round_, seconds=5)
        publisher.reset()
        assert len(subscriber.received(name="publishers", count=2 + 2 * round_, seconds=5)) == 2 + 2 * round_
    assert names[0] == names[1]
    assert numbers(got) == [*range(10), *range(5)]
    assert got["misses"] == []
    subscriber.drop_all()


# ---- loss ------------------------------------------------------------------------------------------

RECOVERIES = {
    "heartbeat": ({"heartbeat": 0.05}, {"heartbeat": True}),
    "sporadic": ({"sporadic_heartbeat": 0.3}, {"heartbeat": True}),
    "periodic": ({}, {"periodic_queries": 0.05}),
}


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("kind", BOTH)
def test_loss_everywhere_is_survived(world, kind, key, recovery):
    """Five of a hundred datagrams are lost: samples, heartbeats, questions and answers.

    A subscriber of eclipse-zenoh takes ten seconds for each answer that is lost, and does not ask again.
    """
    publisher, subscriber = world.publishers[kind], world.far[ZWIRE]
    detect, recover = RECOVERIES[recovery]
    publisher.advanced_publisher(name="pub", key=key, cache=1000, detect=detect)
    subscriber.advanced_subscribe(name="sub", key=key, recovery=recover)
    arrives(publisher, subscriber, key)
    lost = world.relay.lost
    with losing(world.relay, 0.05):
        publisher.publish_numbers(name="pub", start=1, end=200, period=0.001)
        # A sporadic heartbeat that is lost is not sent again.
        if recovery != "sporadic":
            subscriber.followed(name="sub", count=200, seconds=20)
    publisher.publish_numbers(name="pub", start=200, end=201)
    got = subscriber.followed(name="sub", count=201, seconds=20)
    assert world.relay.lost > lost
    assert numbers(got) == list(range(201)), "the cache had everything"
    assert got["misses"] == []
    publisher.drop_all()
    subscriber.drop_all()


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_what_is_lost_is_recovered(world, far_pair, key, recovery):
    publisher, subscriber = far_pair
    detect, recover = RECOVERIES[recovery]
    zid, eid = publisher.advanced_publisher(name="pub", key=key, cache=100, detect=detect)
    subscriber.advanced_subscribe(name="sub", key=key, recovery=recover)
    arrives(publisher, subscriber, key)
    for start in (1, 11):
        lose_numbers(world, publisher, key, start, start + 5)
        publisher.publish_numbers(name="pub", start=start + 5, end=start + 10)
        got = subscriber.followed(name="sub", count=start + 10, seconds=10)
        assert numbers(got) == list(range(start + 10))
        assert got["misses"] == []
    # The last ones: only by being told, or by asking.
    for start in range(21, 41, 5):
        lose_numbers(world, publisher, key, start, start + 4)
        got = subscriber.followed(name="sub", count=start + 4, seconds=3 if recovery == "sporadic" else 10)
        if recovery != "sporadic" or not heartbeat_was_lost(world.relay, zid, eid, start + 3):
            break
        # It was told while nothing got through, and a sporadic heartbeat is not sent again. Once more.
        publisher.publish_numbers(name="pub", start=start + 4, end=start + 5)
        subscriber.followed(name="sub", count=start + 5, seconds=10)
    assert numbers(got) == list(range(start + 4))
    assert got["misses"] == []


@contextlib.contextmanager
def losing(relay, loss):
    relay.loss = loss
    try:
        yield
    finally:
        relay.loss = 0.0


def lose_numbers(world, publisher, key, start, end):
    """Publishes while nothing gets through."""
    # The end of an answer that has come may be behind it: eclipse-zenoh asks nothing while it is missing.
    time.sleep(0.1)
    with losing(world.relay, 1.0):
        publisher.publish_numbers(name="pub", start=start, end=end)
        # Behind them on the same way: where it is lost, nothing of them is still to come.
        last = f"behind {start} to {end} of {key}"
        publisher.put(key=f"{key}/ready", payload=last, express=True)
        eventually(
            "they are lost",
            lambda: any(last.encode() in datagram for datagram in world.relay.last_lost.copy()),
        )


def heartbeat_was_lost(relay, zid, eid, number):
    """Whether the relay has lost a heartbeat that told of ``number``.

    The front of its key may be a number, the names in it are text; the payload has its length in front.
    """
    names, told = f"/{zid}/{eid}/_".encode(), b"\x04" + number.to_bytes(4, "little")
    return any(told in datagram.partition(names)[2] for datagram in relay.last_lost.copy())


def arrives(publisher, subscriber, key):
    """Publishes the first sample, which arrives: routers and publisher know the subscription from then on."""
    subscriber.subscribe(name="ready", key=f"{key}/ready")
    eventually(
        "the routers know the subscriptions",
        lambda: (
            publisher.put(key=f"{key}/ready", payload="x")
            or subscriber.received(name="ready", count=1, seconds=0.05)
        ),
    )
    # A sample that its session has no subscriber for uses no sequence number, so it would not be missed. The
    # advanced publishers of eclipse-zenoh do not tell whether they match: a publisher beside it does.
    publisher.publisher(name="known", key=key)
    eventually("the publisher knows the subscription", lambda: publisher.matching(name="known"))
    publisher.publish_numbers(name="pub", start=0, end=1)
    assert numbers(subscriber.followed(name="sub", count=1, seconds=5)) == [0]


@pytest.mark.parametrize("kind", BOTH)
def test_what_is_published_while_the_link_is_lost_is_recovered(world, kind, key):
    publisher = world.publishers[kind]
    port = int(world.hub.endpoint.rpartition(":")[2])
    with Relay(port) as relay:
        near = relay.port
        subscriber = world.net.node(ZWIRE, "client", connect=[f"tcp/127.0.0.1:{near}"])
        publisher.advanced_publisher(name="pub", key=key, cache=20, detect={}, detection=True)
        subscriber.advanced_subscribe(
            name="sub",
            key=key,
            history={"detect_late_publishers": True},
            recovery={"heartbeat": True},
        )
        subscriber.detect_publishers(name="publishers", of="sub", history=True)
        publisher.publish_numbers(name="pub", start=0, end=5)
        assert numbers(subscriber.followed(name="sub", count=5, seconds=5)) == list(range(5))
    assert len(subscriber.received(name="publishers", count=2, seconds=5)) == 2
    publisher.publish_numbers(name="pub", start=5, end=10)
    with Relay(port, port=near):
        got = subscriber.followed(name="sub", count=10, seconds=10)
        assert numbers(got) == list(range(10))
        publisher.publish_numbers(name="pub", start=10, end=12)
        got = subscriber.followed(name="sub", count=12, seconds=5)
        assert numbers(got) == list(range(12))
        assert got["misses"] == []
        subscriber.reset()
    publisher.drop_all()


@pytest.mark.parametrize("cache", [2, 100])
def test_what_the_cache_has_not_is_reported(world, far_pair, key, cache):
    publisher, subscriber = far_pair
    publisher.advanced_publisher(name="pub", key=key, cache=cache, detect={})
    subscriber.advanced_subscribe(name="with", key=key, recovery={"heartbeat": True})
    subscriber.advanced_subscribe(name="sub", key=key)
    arrives(publisher, subscriber, key)
    lose_numbers(world, publisher, key, 1, 6)
    publisher.publish_numbers(name="pub", start=6, end=8)
    got = subscriber.followed(name="sub", count=8, seconds=5)
    assert numbers(got) == [0, 6, 7]
    assert [miss["nb"] for miss in got["misses"]] == [5]
    got = subscriber.followed(name="with", count=8, seconds=5)
    if cache == 100:
        assert numbers(got) == list(range(8))
        assert got["misses"] == []
    else:
        assert numbers(got)[-2:] == [6, 7]
        assert len(got["came"]) + missed(got) == 8
        assert missed(got) in (4, 5), "two were in the cache when it was asked, 6 and perhaps 5 or 7"
