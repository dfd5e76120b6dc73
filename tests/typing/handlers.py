"""The handler given to a subscriber, queryable or get decides the type of its result."""

import queue
from typing import assert_type

import zwire.zenoh as zenoh
from zwire.zenoh import Handler, Reply, Sample, handlers


def seen(sample: Sample) -> None:
    """A callback of a subscriber."""


def answered(reply: Reply) -> None:
    """A callback of a get."""


def of_subscribers(session: zenoh.Session) -> None:
    fifo = session.declare_subscriber("a", handlers.FifoChannel(10))
    assert_type(fifo, zenoh.Subscriber[Handler[Sample]])
    ring = session.declare_subscriber("a", handlers.RingChannel(10))
    assert_type(ring.recv(), Sample)
    default = session.declare_subscriber("a", handlers.DefaultHandler())
    assert_type(default.handler.recv_many(5), list[Sample])

    called = session.declare_subscriber("a", seen)
    assert_type(called, zenoh.Subscriber[None])
    called.recv()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    waiting: queue.SimpleQueue[Sample] = queue.SimpleQueue()
    pair = session.declare_subscriber("a", (waiting.put, waiting))
    assert_type(pair, zenoh.Subscriber[queue.SimpleQueue[Sample]])
    assert_type(pair.handler.get(), Sample)

    session.declare_subscriber("a", lambda sample: print(sample.payload.to_string()))
    session.declare_subscriber("a", handlers.Callback(seen, lambda: None, indirect=False))
    session.declare_subscriber("a", answered)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.declare_subscriber("a", 5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    handlers.FifoChannel[Sample]("10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def of_gets(session: zenoh.Session) -> None:
    assert_type(session.get("a"), Handler[Reply])
    assert_type(session.get("a", handlers.FifoChannel(10)), Handler[Reply])
    session.get("a", answered)
    waiting: queue.SimpleQueue[Reply] = queue.SimpleQueue()
    assert_type(session.get("a", (waiting.put, waiting)), queue.SimpleQueue[Reply])
    session.get("a", seen)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


def of_listeners(session: zenoh.Session) -> None:
    publisher = session.declare_publisher("a")
    assert_type(publisher.declare_matching_listener().recv(), zenoh.MatchingStatus)
    assert_type(session.info.declare_link_events_listener().recv().link, zenoh.Link)
    assert_type(zenoh.scout(what="router|peer").recv(timeout=1), zenoh.Hello)
    assert_type(session.liveliness().declare_subscriber("a", history=True).recv(), Sample)
