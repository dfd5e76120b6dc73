"""Sessions: publishing, receiving, information."""

from typing import Literal, assert_type

import zwire
import zwire.zenoh as zenoh
from zwire.stats import SessionStats
from zwire.zenoh import Handler, Sample


def opening() -> None:
    assert_type(zwire.__version__, str)
    session = zenoh.open()
    assert_type(session, zenoh.Session)
    with zenoh.open({"mode": "peer", "listen/endpoints": ["tcp/127.0.0.1:0"]}) as entered:
        assert_type(entered, zenoh.Session)
    zenoh.open(zenoh.Config.from_json5("{mode: 'client'}"))
    zenoh.open(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zenoh.open(mode="peer")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def judging(session: zenoh.Session) -> None:
    def judge(request: zenoh.AccessRequest) -> bool:
        assert_type(request.action, str)
        assert_type(request.key_expr, zenoh.KeyExpr | None)
        assert_type(request.zid, zenoh.ZenohId | None)
        assert_type(request.user, str | None)
        assert_type(request.interfaces, list[str])
        return request.flow == "egress"

    zenoh.open(authoriser=judge)
    session.set_authoriser(judge, deadline=0.5, ttl=60, fallback=True)
    session.set_authoriser(None)
    session.set_authoriser(lambda _: "yes")  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
    session.invalidate_authoriser()


def publishing(session: zenoh.Session) -> None:
    session.put("a", "text")
    session.put(zenoh.KeyExpr("a"), b"bytes", encoding=zenoh.Encoding.TEXT_PLAIN)
    session.put("a", bytearray(3), encoding="text/plain", priority=zenoh.Priority.REAL_TIME)
    session.put("a", memoryview(b"x"), congestion_control=zenoh.CongestionControl.BLOCK, attachment="note")
    session.put("a", zenoh.ZBytes(b"x"), timestamp=session.new_timestamp())
    session.put("a", [b"head", bytearray(), zenoh.ZBytes(b"x")], attachment=(b"a", memoryview(b"b")))
    session.put("a", [1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    session.put("a", 21.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.put("a", "x", priority=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.put("a", "x", True)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    session.put("a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    session.delete("a")
    with session.declare_publisher("a", express=True) as publisher:
        assert_type(publisher, zenoh.Publisher)
        publisher.put("x")
        publisher.wait_matching(2, timeout=0.5)
        assert_type(publisher.matching_status, zenoh.MatchingStatus)
        assert_type(publisher.matching_status.matching, bool)
        assert_type(publisher.key_expr, zenoh.KeyExpr)
    session.declare_publisher("a", 5)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]


def shared_memory(session: zenoh.Session, publisher: zenoh.Publisher) -> None:
    loan = publisher.loan((1080, 1920, 3), "uint8")
    assert_type(loan, zenoh.shm.Loan)
    assert_type(session.loan(100).nbytes, int)
    loan[0] = 1
    loan[1:3] = b"ab"
    assert_type(loan[0], int)
    assert_type(loan[0:4], memoryview)
    publisher.put(loan)
    provider = zenoh.shm.ShmProvider.default_backend(1 << 20)
    buffer = provider.alloc((64, zenoh.shm.AllocAlignment.ALIGN_8_BYTE), zenoh.shm.BlockOn())
    assert_type(buffer, zenoh.shm.ZShmMut)
    session.put("a", buffer)
    assert_type(zenoh.ZBytes(b"x").as_shm(), zenoh.shm.ZShm | None)
    assert_type(zenoh.ZBytes(b"x").is_valid(), bool)
    assert_type(
        session.stats()["per_link"][0]["lending"],
        Literal["off", "opening", "on", "eclipse", "unreachable", "user", "timed_out", "system", "protocol"],
    )
    session.loan("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    loan[0] = b"x"  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def receiving(session: zenoh.Session) -> None:
    subscriber = session.declare_subscriber("a/**")
    assert_type(subscriber, zenoh.Subscriber[Handler[Sample]])
    assert_type(subscriber.handler, Handler[Sample])
    subscriber.wait_ready(timeout=5)
    assert_type(subscriber.recv(timeout=1.5), Sample)
    assert_type(subscriber.try_recv(), Sample | None)
    assert_type(subscriber.recv_many(10), list[Sample])
    for each in subscriber:
        assert_type(each, Sample)
    assert_type(subscriber.dropped, int)
    subscriber.try_recv().payload  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    subscriber.recv("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def reading(sample: Sample) -> None:
    assert_type(sample.key_expr, zenoh.KeyExpr)
    assert_type(sample.payload, zenoh.ZBytes)
    assert_type(sample.payload.to_string(), str)
    assert_type(bytes(sample.payload), bytes)
    assert_type(memoryview(sample.payload), memoryview)
    assert_type(sample.payload[0], int)
    assert_type(sample.payload[1:], zenoh.ZBytes)
    assert_type(sample.attachment, zenoh.ZBytes | None)
    assert_type(sample.timestamp, zenoh.Timestamp | None)
    assert_type(sample.kind, zenoh.SampleKind)
    sample.payload = zenoh.ZBytes()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    print(sample.payloads)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    if sample.timestamp is not None:
        assert_type(sample.timestamp < sample.timestamp, bool)


def keys() -> None:
    key = zenoh.KeyExpr("a") / "b"
    assert_type(key, zenoh.KeyExpr)
    assert_type(key.intersects("a/*"), bool)
    assert_type(key.relation_to("a/*"), zenoh.SetIntersectionLevel)
    key = key / 5  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    parameters = zenoh.Selector("a?b=c").parameters
    assert_type(parameters.get("b"), str | None)
    assert_type(parameters.get("b", "none"), str)


def looking(session: zenoh.Session) -> None:
    assert_type(session.info.links(), list[zenoh.Link])
    assert_type(session.info.transports(), list[zenoh.Transport])
    assert_type(session.stats(), SessionStats)
    assert_type(session.stats()["handler.dropped"], int)
    session.stats()["handler.droped"]  # type: ignore[typeddict-item]  # pyright: ignore[reportGeneralTypeIssues]
    assert_type(session.ready(timeout=1), bool)
    assert_type(session.listening(), list[str])
    events = session.info.declare_transport_events_listener(history=True)
    event = events.recv(timeout=1)
    assert_type(event, zenoh.TransportEvent)
    assert_type(event.change, Literal["connected", "reconnected", "disconnected"])
    if event.reason == "los":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        return


class Inherited(zenoh.Session):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """Sessions are final."""
