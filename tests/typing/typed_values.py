"""Values instead of bytes: the model is what comes out."""

from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, assert_type

import msgspec
import pydantic

from zwire import typed, zenoh
from zwire.errors import PayloadError, QueryError
from zwire.zenoh import ext

T = TypeVar("T")


@dataclass
class Position:
    x: float
    y: float = 0.0


@dataclass
class Box(Generic[T]):
    content: T


class Note(TypedDict):
    text: str


class Struct(msgspec.Struct):
    x: float


class Model(pydantic.BaseModel):
    x: float


def publishing(session: zenoh.Session) -> None:
    publisher = typed.publisher(session, "a", Position, codec="cbor", priority=zenoh.Priority.DATA_HIGH)
    assert_type(publisher, typed.Publisher[Position])
    with publisher:
        publisher.put(Position(1.0), attachment=b"x")
        publisher.put({"x": 1.0})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(publisher.encoding, zenoh.Encoding)
    assert_type(typed.publisher(session, "a", list[Position]), typed.Publisher[list[Position]])
    assert_type(typed.publisher(session, "a", Note), typed.Publisher[Note])
    typed.put(session, "a", Position(1.0), express=True)
    typed.put(session, "a", {"text": "x"}, Note)
    typed.publisher(session, "a", Position, express="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    advanced = ext.declare_advanced_publisher(session, "a", cache=ext.CacheConfig(10))
    assert_type(typed.Publisher.over(advanced, Position), typed.Publisher[Position])
    typed.publisher(session, "a", Position, speed=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def subscribing(session: zenoh.Session) -> None:
    with typed.subscriber(session, "a", Position) as subscriber:
        assert_type(subscriber, typed.Subscriber[Position])
        for message in subscriber:
            assert_type(message, typed.Message[Position])
            assert_type(message.value, Position)
            assert_type(message.error, PayloadError | None)
            assert_type(message.sample, zenoh.Sample)
            message.value.z  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        assert_type(subscriber.recv(timeout=1.5).value.x, float)
        assert_type(subscriber.try_recv(), typed.Message[Position] | None)
        assert_type(subscriber.recv_many(10), list[typed.Message[Position]])
        assert_type(next(subscriber.values()), Position)
    assert_type(typed.subscriber(session, "a", Struct).recv().value, Struct)
    assert_type(typed.subscriber(session, "a", Model).recv().value, Model)
    assert_type(typed.subscriber(session, "a", dict[str, int]).recv().value, dict[str, int])
    advanced = ext.declare_advanced_subscriber(session, "a", history=ext.HistoryConfig())
    assert_type(typed.Subscriber.over(advanced, Position), typed.Subscriber[Position])
    assert_type(typed.subscriber(session, "a", Box[int]).recv().value.content, int)
    ring = typed.subscriber(session, "a", bytes, zenoh.handlers.RingChannel(2))
    assert_type(ring, typed.Subscriber[bytes])


def calling_back(session: zenoh.Session) -> None:
    def show(message: typed.Message[Position]) -> None:
        print(message.value.x)

    subscription = typed.subscriber(
        session, "a", Position, show, on_error=lambda message: print(message.error)
    )
    assert_type(subscription, typed.Subscription[Position])
    batches = zenoh.handlers.BatchCallback[typed.Message[Position]](
        lambda messages: print(messages[0].value.x)
    )
    assert_type(typed.subscriber(session, "a", Position, batches), typed.Subscription[Position])
    latest = zenoh.handlers.LatestChannel[zenoh.Sample](10)
    assert_type(typed.subscriber(session, "a", Position, latest), typed.Subscriber[Position])
    subscription.recv()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    typed.subscriber(session, "a", Struct, show)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


def asking(session: zenoh.Session) -> None:
    def answer(query: typed.Query[Position, Note]) -> None:
        assert_type(query.value, Note)
        query.reply(Position(1.0), priority=zenoh.Priority.DATA)
        query.reply("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def answer_all(query: typed.Query[Position]) -> None:
        assert_type(query.value, None)

    serving = typed.queryable(session, "a", Position, answer, request=Note, complete=True)
    assert_type(typed.queryable(session, "a", Position, answer_all), typed.Serving[Position])
    assert_type(serving, typed.Serving[Position, Note])
    waiting = typed.queryable(session, "a", Position)
    assert_type(waiting, typed.Queryable[Position])
    assert_type(waiting.recv().value, None)
    querier = typed.querier(session, "a", Position, request=Note, timeout=2.5)
    assert_type(querier, typed.Querier[Position, Note])
    for reply in querier.get({"text": "x"}, parameters={"n": "1"}):
        assert_type(reply.value, Position)
        assert_type(reply.error, PayloadError | QueryError | None)
    querier.get(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(next(typed.get(session, "a", Position, timeout=1)).value, Position)


class Hex(typed.Codec):
    name = "hex"
    encoding = "application/x-hex"

    def encode(self, value: bytes, model: object) -> str:
        return value.hex()

    def decode(self, payload: zenoh.ZBytes, model: object) -> bytes:
        return bytes.fromhex(payload.to_string())


def without_a_session() -> None:
    payload, encoding = typed.encode(Position(1.0), codec="msgpack")
    assert_type(payload, zenoh.ZBytes)
    assert_type(typed.decode(payload, encoding, Position), Position)
    assert_type(typed.from_frames(typed.to_frames(Position(1.0)), Position), Position)
    assert_type(typed.schema_name(Position), str | None)
    typed.register("application/x-hex", Hex())
    typed.register("application/x-hex", "hex")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
