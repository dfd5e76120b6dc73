"""The text that an interactive session shows of each public object says what the object is."""

import importlib
import inspect
import re

import pytest

import nodes
from zwire import aio, spool, typed, zenoh, zmtp, zre
from zwire.zenoh import ext, handlers

MODULES = [
    "zwire.aio",
    "zwire.aio.ext",
    "zwire.aio.typed",
    "zwire.aio.zre",
    "zwire.capture",
    "zwire.config",
    "zwire.idempotence",
    "zwire.recording",
    "zwire.ros2",
    "zwire.spool",
    "zwire.typed",
    "zwire.zenoh",
    "zwire.zenoh.ext",
    "zwire.zenoh.handlers",
    "zwire.zenoh.shm",
    "zwire.zmtp",
    "zwire.zre",
    "zwire.zre.compat",
]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_class_has_a_text_of_its_own(module):
    module = importlib.import_module(module)
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    classes = [each for name in names if inspect.isclass(each := getattr(module, name))]
    assert classes, "no class is found"
    assert [each.__name__ for each in classes if each.__repr__ is object.__repr__] == []


@pytest.fixture
def session(hub):
    with nodes.client(hub) as session:
        yield session


def test_declarations_name_their_key_and_state(session):
    for declare, name in [
        (lambda: session.declare_subscriber("a/**"), "Subscriber"),
        (lambda: session.declare_publisher("a/**"), "Publisher"),
        (lambda: session.declare_querier("a/**"), "Querier"),
        (lambda: session.declare_queryable("a/**"), "Queryable"),
        (lambda: session.liveliness().declare_token("a/**"), "LivelinessToken"),
        (lambda: ext.declare_advanced_subscriber(session, "a/**"), "AdvancedSubscriber"),
        (lambda: ext.declare_advanced_publisher(session, "a/**"), "AdvancedPublisher"),
    ]:
        declared = declare()
        assert repr(declared) == f"<{name} a/** declared>"
        declared.undeclare()
        assert repr(declared) == f"<{name} a/** undeclared>"
    kept = session.declare_subscriber("b")
    of_values = typed.subscriber(session, "b", int)
    assert repr(of_values) == "<Subscriber of values by <Subscriber b declared>>"
    assert repr(session.info) == f"<SessionInfo of session {session.zid()}>"
    assert repr(session.liveliness()) == f"<Liveliness of session {session.zid()}>"
    listener = session.info.declare_link_events_listener()
    assert repr(listener) == f"<LinkEventsListener of session {session.zid()}, listening>"
    wrapped = aio.Session(session)
    assert repr(wrapped.declare_publisher("c")) == "<Publisher c declared>"
    assert repr(wrapped.info) == repr(session.info)
    session.close()
    assert repr(kept) == "<Subscriber b closed>"


def test_queries_and_replies_show_their_content(session):
    queryable = session.declare_queryable("a")
    replies = session.get("a?b=c")
    with queryable.recv(timeout=5) as query:
        assert repr(query) == "<Query a?b=c open>"
        query.reply("a", "yes")
    assert repr(query) == "<Query a?b=c finished>"
    (reply,) = replies
    assert repr(reply) == f"<Reply {reply.ok!r}>"
    assert repr(replies) == "<Handler 0 waiting, 0 dropped>"
    token = zenoh.CancellationToken()
    assert repr(token) == "<CancellationToken not cancelled>"


@pytest.mark.parametrize(
    "text",
    [
        "DefaultHandler()",
        "FifoChannel(3)",
        "RingChannel(3)",
        "LatestChannel(3)",
        "Channel(4, full='block', deadline=0.5)",
        "Channel(4, full='drop_newest')",
        "RepliesConfig(express=True)",
        "CacheConfig(max_samples=3, replies_config=RepliesConfig(express=False))",
        "MissDetectionConfig(heartbeat=0.5)",
        "MissDetectionConfig(sporadic_heartbeat=2)",
        "MissDetectionConfig()",
        "HistoryConfig(detect_late_publishers=True, max_samples=5, max_age=1.5)",
        "HistoryConfig()",
        "RecoveryConfig(periodic_queries=1)",
        "RecoveryConfig(heartbeat=True)",
    ],
)
def test_settings_are_shown_as_the_expression_that_makes_them(text):
    assert repr(eval(text, vars(handlers) | vars(ext))) == text


def test_other_objects_name_what_they_are_for(tmp_path):
    assert repr(handlers.Callback(print)) == "<Callback of <built-in function print>>"
    assert repr(handlers.BatchCallback(print, max_items=3)).endswith("max_items=3>")
    with zmtp.Dealer() as dealer:
        dealer.bind("tcp://127.0.0.1:*")
        assert re.fullmatch(r'<Dealer 0 connections, bound to \["tcp://127\.0\.0\.1:\d+"\]>', repr(dealer))
    assert repr(dealer).endswith(", closed>")
    with zre.LogCollector("tcp://127.0.0.1:*") as collector:
        assert repr(collector) == f"<LogCollector {collector.endpoint}, 0 records dropped>"
    with spool.Appender(tmp_path) as appender:
        assert repr(appender) == f"<Appender {str(tmp_path)!r}>"
    with zenoh.scout(config={"scouting/multicast/enabled": True}) as scout:
        assert repr(scout) == "<Scout searching, 0 answers waiting>"
    assert repr(scout) == "<Scout ended, 0 answers waiting>"
