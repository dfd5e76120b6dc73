"""`zwire.aio` has the names and parameters of `zwire.zenoh` and `zwire.zre`; coroutines where it waits."""

from __future__ import annotations

import inspect

import pytest

from zwire import aio, zenoh, zre
from zwire.aio import ext as aio_ext
from zwire.aio import zre as aio_zre
from zwire.zenoh import ext

CLASSES = [
    (ext.AdvancedPublisher, aio_ext.AdvancedPublisher),
    (ext.AdvancedSubscriber, aio_ext.AdvancedSubscriber),
    (ext.SampleMissListener, aio_ext.SampleMissListener),
    (zenoh.Handler, aio.Handler),
    (zenoh.LinkEventsListener, aio.LinkEventsListener),
    (zenoh.Liveliness, aio.Liveliness),
    (zenoh.LivelinessToken, aio.LivelinessToken),
    (zenoh.MatchingListener, aio.MatchingListener),
    (zenoh.Publisher, aio.Publisher),
    (zenoh.Querier, aio.Querier),
    (zenoh.Query, aio.Query),
    (zenoh.Queryable, aio.Queryable),
    (zenoh.Scout, aio.Scout),
    (zenoh.Session, aio.Session),
    (zenoh.SessionInfo, aio.SessionInfo),
    (zenoh.Subscriber, aio.Subscriber),
    (zenoh.TransportEventsListener, aio.TransportEventsListener),
    (zre.Node, aio_zre.Node),
]

# What may wait, or talks to others.
COROUTINES = {
    "close",
    "contest",
    "declare_keyexpr",
    "delete",
    "flush",
    "gossip_bind",
    "gossip_connect",
    "invalidate_authoriser",
    "join",
    "leave",
    "put",
    "put_batch",
    "ready",
    "reconfigure",
    "recv",
    "recv_batch",
    "recv_many",
    "reply",
    "reply_del",
    "reply_err",
    "require_peer",
    "set_authoriser",
    "shout",
    "shout_many",
    "start",
    "stop",
    "undeclare",
    "wait_for_peers",
    "wait_matching",
    "wait_ready",
    "whisper",
    "whisper_many",
}
# Ends a search without waiting.
NOT_COROUTINES = {(aio.Scout, "stop")}


def names(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def parameters(function):
    """Names, kinds and defaults, without the one for the object."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name not in ("self", "cls")]


@pytest.mark.parametrize(("ours", "theirs"), CLASSES, ids=lambda cls: cls.__name__)
def test_names_and_parameters_are_the_same(ours, theirs):
    assert len(names(ours)) >= 2, "the guard has looked at nothing"
    assert names(ours) - names(theirs) == set()
    compared = 0
    for name in names(ours):
        sync, asynchronous = getattr(ours, name), getattr(theirs, name)
        assert callable(sync) == callable(asynchronous), name
        if callable(sync):
            assert parameters(asynchronous) == parameters(sync), name
            waits = name in COROUTINES and (theirs, name) not in NOT_COROUTINES
            assert inspect.iscoroutinefunction(asynchronous) == waits, name
            compared += 1
    assert compared


def test_functions_are_the_same():
    for name in ("open", "scout"):
        assert parameters(getattr(aio, name)) == parameters(getattr(zenoh, name))
    for name in ("declare_advanced_publisher", "declare_advanced_subscriber"):
        assert parameters(getattr(aio_ext, name)) == parameters(getattr(ext, name))
    assert parameters(aio_zre.Node) == parameters(zre.Node)


def test_what_declares_something_may_be_awaited():
    for name in names(aio.Session) | names(aio.Liveliness):
        if name.startswith("declare_") and name != "declare_keyexpr":
            owner = aio.Session if hasattr(aio.Session, name) else aio.Liveliness
            assert not inspect.iscoroutinefunction(getattr(owner, name))
    for cls in (aio.Subscriber, aio.Queryable, aio.Publisher, aio.Querier, aio.LivelinessToken):
        assert {"__await__", "__aenter__", "__aexit__"} <= set(dir(cls))
