"""Instrumentation: when messages passed where, alone and with eclipse-zenoh at the other end."""

import itertools
import queue
import threading

import pytest
import zenoh as theirs

import zwire.zenoh as ours
from interop.harness import free_port

SECONDS = 10

SEND, ROUTE, RECEIVE = range(3)


def config(zenoh, mode, **keys):
    made = zenoh.Config()
    made.insert_json5("mode", f'"{mode}"')
    made.insert_json5("scouting/multicast/enabled", "false")
    made.insert_json5("listen/endpoints", "[]")
    for key, endpoint in keys.items():
        made.insert_json5(f"{key}/endpoints", f'["{endpoint}"]')
    return made


def wanted(zenoh, *points):
    builder = zenoh.TimestampInstrumentationBuilder()
    setters = ("set_send", "set_route", "set_receive")
    for point in points:
        builder = getattr(builder, setters[point])(True)
    return builder.build()


def seen(stack, nodes):
    """The points, each with the maker of the stamp: the index of its node, or the bytes of a function."""
    if stack is None:
        return None
    made = []
    for record in stack.records:
        stamp = record.timestamp()
        who = stamp if record.is_custom else nodes.index(str(stamp).rpartition("/")[2])
        made.append((int(record.point), who))
    return made


class Pair:
    """A querier and publisher, a subscriber and queryable; optionally with a router between them."""

    def __init__(self, first, second, router=None, callback=None):
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        self.asker = first
        self.got, self.asked, self.sessions = queue.Queue(), queue.Queue(), []
        options = {"timestamp_callback": callback} if callback else {}
        if router:
            hub = router.open(config(router, "router", listen=endpoint))
            self.first = first.open(config(first, "client", connect=endpoint), **options)
            self.second = second.open(config(second, "client", connect=endpoint))
            self.sessions = [self.first, self.second, hub]
        else:
            self.second = second.open(config(second, "peer", listen=endpoint))
            self.first = first.open(config(first, "peer", connect=endpoint), **options)
            self.sessions = [self.first, self.second]
        self.nodes = [str(session.zid()) for session in self.sessions]

        def answer(query):
            self.asked.put(seen(query.timestamp_stack, self.nodes))
            with query:
                query.reply("stamped/q", "yes")
                query.reply_err("no")

        self.second.declare_subscriber("stamped/a", self.got.put)
        self.second.declare_queryable("stamped/q", answer)
        self.publisher = self.first.declare_publisher("stamped/a")
        self.querier = self.first.declare_querier("stamped/q")
        for declared in (self.publisher, self.querier):
            for _ in range(SECONDS * 100):
                if declared.matching_status.matching:
                    break
                threading.Event().wait(0.01)
            assert declared.matching_status.matching

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self.sessions:
            session.close()

    def published(self, *points):
        instrumentation = wanted(self.asker, *points) if points else None
        self.publisher.put("x", timestamp_instrumentation=instrumentation)
        self.publisher.delete(timestamp_instrumentation=instrumentation)
        self.first.put("stamped/a", "x", timestamp_instrumentation=instrumentation)
        self.first.delete("stamped/a", timestamp_instrumentation=instrumentation)
        samples = [self.got.get(timeout=SECONDS) for _ in range(4)]
        stacks = [seen(sample.timestamp_stack, self.nodes) for sample in samples]
        assert stacks == stacks[:1] * 4
        return stacks[0]

    def answered(self, *points):
        """The stamps of the query, and those of the answers."""
        instrumentation = wanted(self.asker, *points) if points else None
        replies = list(self.querier.get(timestamp_instrumentation=instrumentation))
        replies += self.first.get("stamped/q", timestamp_instrumentation=instrumentation)
        assert len(replies) == 4
        stacks = [seen((r.ok or r.err).timestamp_stack, self.nodes) for r in replies]
        assert stacks == stacks[:1] * 4
        asked = [self.asked.get(timeout=SECONDS) for _ in range(2)]
        assert asked == asked[:1] * 2
        return asked[0], stacks[0]


MODULES = {"zwire": ours, "zenoh": theirs}
PAIRS = list(itertools.product(MODULES, MODULES))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_peers_stamp_what_they_exchange(first, second):
    with Pair(MODULES[first], MODULES[second]) as pair:
        assert pair.published() is None
        assert pair.published(SEND) == [(SEND, 0)]
        assert pair.published(RECEIVE) == [(RECEIVE, 1)]
        there = [(SEND, 0), (ROUTE, 0), (ROUTE, 1), (RECEIVE, 1)]
        assert pair.published(SEND, ROUTE, RECEIVE) == there
        back = [(SEND, 1), (ROUTE, 1), (ROUTE, 0), (RECEIVE, 0)]
        assert pair.answered(SEND, ROUTE, RECEIVE) == (there, there + back)
        assert pair.answered() == (None, None)


@pytest.mark.parametrize("router", MODULES)
@pytest.mark.parametrize(("first", "second"), [("zwire", "zenoh"), ("zenoh", "zwire")])
def test_a_router_stamps_what_it_passes_on(first, second, router):
    with Pair(MODULES[first], MODULES[second], MODULES[router]) as pair:
        there = [(SEND, 0), (ROUTE, 0), (ROUTE, 2), (ROUTE, 1), (RECEIVE, 1)]
        assert pair.published(SEND, ROUTE, RECEIVE) == there
        back = [(SEND, 1), (ROUTE, 1), (ROUTE, 2), (ROUTE, 0), (RECEIVE, 0)]
        assert pair.answered(SEND, ROUTE, RECEIVE) == (there, there + back)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_function_of_the_program_makes_the_stamps(first, second):
    contexts = []

    def callback(context):
        contexts.append((repr(context), str(context.zid), context.whatami))
        return b"\xde\xad"

    with Pair(MODULES[first], MODULES[second], callback=callback) as pair:
        node = pair.nodes[0]
        mine = b"\xde\xad"
        there = [(SEND, mine), (ROUTE, mine), (ROUTE, 1), (RECEIVE, 1)]
        assert pair.published(SEND, ROUTE, RECEIVE) == there
        back = [(SEND, 1), (ROUTE, 1), (ROUTE, mine), (RECEIVE, mine)]
        assert pair.answered(SEND, ROUTE, RECEIVE) == (there, there + back)
    peer = MODULES[first].WhatAmI.PEER
    expected = (f"TimestampContext(zid={node}, whatami=Peer)", node, peer)
    assert contexts == [expected] * len(contexts) != []


@pytest.mark.parametrize("name", MODULES)
def test_the_own_session_is_stamped_twice(name):
    zenoh = MODULES[name]
    session = zenoh.open(config(zenoh, "peer"))
    nodes, got = [str(session.zid())], queue.Queue()
    session.declare_subscriber("a", got.put)
    session.declare_queryable("q", lambda query: query.reply("q", "yes"))
    everywhere = wanted(zenoh, SEND, ROUTE, RECEIVE)
    session.put("a", "x", timestamp_instrumentation=everywhere)
    stack = got.get(timeout=SECONDS).timestamp_stack
    once = [(SEND, 0), (RECEIVE, 0)]
    assert seen(stack, nodes) == once
    times = [record.timestamp() for record in stack.records]
    assert times == sorted(times)
    assert repr(stack.instrumentation) == "TimestampInstrumentation { conf_flags: 7 }"
    record = f"TimestampStackRecord {{ point: Send, timestamp: UHLC({times[0]}) }}"
    assert repr(stack.records[0]) == record
    start = f"TimestampStack {{ instrumentation: {stack.instrumentation!r}, records: [{record}, "
    assert repr(stack).startswith(start)
    (reply,) = session.get("q", timestamp_instrumentation=everywhere)
    assert seen(reply.ok.timestamp_stack, nodes) == once * 2
    session.close()


@pytest.mark.parametrize("name", MODULES)
def test_a_function_that_fails_makes_no_stamp(name, monkeypatch):
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    zenoh = MODULES[name]
    for function in (lambda _: 5, lambda _: 1 / 0):
        session = zenoh.open(config(zenoh, "peer"), timestamp_callback=function)
        got = queue.Queue()
        session.declare_subscriber("a", got.put)
        session.put("a", "x", timestamp_instrumentation=wanted(zenoh, SEND, RECEIVE))
        assert got.get(timeout=SECONDS).timestamp_stack.records == []
        session.close()


def test_advanced_publications_are_stamped():
    session = ours.open(config(ours, "peer"))
    got = queue.Queue()
    session.declare_subscriber("a", got.put)
    publisher = ours.ext.declare_advanced_publisher(session, "a")
    publisher.put("x", timestamp_instrumentation=wanted(ours, SEND))
    publisher.delete(timestamp_instrumentation=wanted(ours, SEND))
    nodes = [str(session.zid())]
    assert [seen(got.get(timeout=SECONDS).timestamp_stack, nodes) for _ in range(2)] == [[(SEND, 0)]] * 2
    session.close()


def test_what_is_no_instrumentation_is_refused():
    with pytest.raises(ours.ZError, match="at least one point"):
        ours.TimestampInstrumentationBuilder().set_send(True).set_send(False).build()
    session = ours.open(config(ours, "peer"))
    for wrong in (1, ours.TimestampInstrumentationBuilder()):
        with pytest.raises(TypeError, match="a TimestampInstrumentation"):
            session.put("a", "x", timestamp_instrumentation=wrong)
    session.close()
    with pytest.raises(TypeError, match="a callable"):
        ours.open(config(ours, "peer"), timestamp_callback=5)
