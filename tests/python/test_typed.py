"""Typed publishers, subscribers, queriers and queryables, between two sessions over loopback."""

import functools
import sys
import threading
from dataclasses import dataclass
from typing import get_args

import msgspec
import pyarrow as pa
import pydantic
import pytest

import nodes
from zwire import _failure, errors, typed, zenoh
from zwire.aio import typed as loops
from zwire.zenoh import ext
from zwire.zenoh.handlers import Callback

SOON = 10.0
NONE = zenoh.ConsolidationMode.NONE


@dataclass
class Position:
    x: float
    y: float = 0.0


@dataclass
class Area:
    low: Position
    high: Position


class Struct(msgspec.Struct):
    x: float


class Model(pydantic.BaseModel):
    x: float


@pytest.fixture(scope="module")
def hub():
    with nodes.router() as session:
        yield session


@pytest.fixture(scope="module")
def sessions(hub):
    with nodes.client(hub) as near, nodes.client(hub) as far:
        yield near, far


def pair(sessions, key, model, handler=None, *, codec=None, **options):
    """A publisher in one session and a subscriber in the other that know of each other."""
    near, far = sessions
    subscriber = typed.subscriber(far, key, model, handler, **options)
    publisher = typed.publisher(near, key, model, codec)
    publisher.wait_matching(timeout=SOON)
    return publisher, subscriber


@pytest.mark.parametrize(
    ("value", "codec", "encoding"),
    [
        (Position(1.5, -2.0), None, "application/json;Position"),
        (Position(1.5, -2.0), "cbor", "application/cbor;Position"),
        (Position(1.5, -2.0), "msgpack", "application/msgpack;Position"),
        (Position(1.5, -2.0), "zenoh", "zenoh/serialized;Position"),
        (Struct(1.5), "msgpack", "application/msgpack;Struct"),
        (Model(x=1.5), None, "application/json;Model"),
        ({"a": [1, 2]}, None, "application/json"),
        ("text", None, "zenoh/string"),
        (b"bytes", None, "zenoh/bytes"),
        (pa.table({"x": [1, 2]}), None, "application/vnd.apache.arrow.stream"),
    ],
    ids=str,
)
def test_a_value_arrives_as_it_was(sessions, value, codec, encoding):
    publisher, subscriber = pair(sessions, "typed/value", type(value), codec=codec)
    with publisher, subscriber:
        publisher.put(value, attachment="beside it")
        message = subscriber.recv(timeout=SOON)
        assert message.value == value
        assert message.error is None
        assert not message.deleted
        assert str(message.key_expr) == str(publisher.key_expr) == "typed/value"
        assert str(message.sample.encoding) == str(publisher.encoding) == encoding
        assert message.sample.attachment.to_string() == "beside it"


def test_a_subscriber_reads_what_each_publisher_has_chosen(sessions):
    near, far = sessions
    with typed.subscriber(far, "typed/mixed", Position) as subscriber:
        subscriber.wait_ready(timeout=SOON)
        for codec in ("json", "cbor", "msgpack", "zenoh"):
            typed.put(near, "typed/mixed", Position(1.0), codec=codec)
            assert subscriber.recv(timeout=SOON).value == Position(1.0)
        # A payload without an encoding is read by the codec that suits the model.
        near.put("typed/mixed", '{"x":2}')
        assert subscriber.recv(timeout=SOON).value == Position(2.0)
        typed.put(near, "typed/mixed", {"x": 3.0}, dict)
        assert subscriber.recv(timeout=SOON).value == Position(3.0)
        assert subscriber.failed == 0
        assert subscriber.dropped == 0


def test_what_cannot_be_read_ends_nothing(sessions):
    near, far = sessions
    with typed.subscriber(far, "typed/bad", Position) as subscriber:
        subscriber.wait_ready(timeout=SOON)
        near.put("typed/bad", "{", encoding="application/json")
        near.put("typed/bad", '{"x":1}', encoding="application/json;Other")
        near.put("typed/bad", '{"x":1}', encoding="application/x-unheard-of")
        near.put("typed/bad", "x", encoding="application/python-serialized-object")
        near.delete("typed/bad")
        typed.put(near, "typed/bad", Position(1.0))
        *bad, deleted, good = [subscriber.recv(timeout=SOON) for _ in range(6)]
        assert [type(message.error) for message in bad] == [
            errors.PayloadError,
            errors.SchemaMismatch,
            errors.UnknownEncoding,
            errors.UnknownEncoding,
        ]
        for message in bad:
            assert message.error.key == "typed/bad"
            assert str(message.error).startswith("typed/bad: ")
            with pytest.raises(type(message.error)):
                _ = message.value
        assert "pickles are not decoded" in str(bad[3].error)
        assert "application/cbor" in bad[2].error.known
        assert deleted.deleted
        assert deleted.error is None
        with pytest.raises(errors.PayloadError, match="was deleted"):
            _ = deleted.value
        assert good.value == Position(1.0)
        assert subscriber.failed == 4
        assert "PayloadError" in repr(bad[0])
        assert "Position" in repr(good)
        assert "deleted" in repr(deleted)


def test_errors_go_to_who_asks_for_them(sessions):
    near, far = sessions
    seen = []
    with typed.subscriber(far, "typed/errors", Position, on_error=seen.append) as subscriber:
        subscriber.wait_ready(timeout=SOON)
        for payload in ("{", '{"x":1}', "[]", '{"x":2}'):
            near.put("typed/errors", payload, encoding="application/json")
        assert [subscriber.recv(timeout=SOON).value.x for _ in range(2)] == [1.0, 2.0]
        assert [message.error.path for message in seen] == [None, None]
        assert subscriber.failed == len(seen) == 2
        assert subscriber.try_recv() is None
        with pytest.raises(errors.TimedOut):
            subscriber.recv(timeout=0.01)


def test_values_alone(sessions):
    near, far = sessions
    with typed.subscriber(far, "typed/values", Position) as subscriber:
        subscriber.wait_ready(timeout=SOON)
        typed.put(near, "typed/values", Position(1.0))
        near.delete("typed/values")
        typed.put(near, "typed/values", Position(2.0))
        near.put("typed/values", "{", encoding="application/json")
        values = subscriber.values()
        assert [next(values), next(values)] == [Position(1.0), Position(2.0)]
        typed.put(near, "typed/values", Position(3.0))
        with pytest.raises(errors.PayloadError):
            next(values)
        assert next(values) == Position(3.0)


def test_iteration_ends_with_the_subscriber(sessions):
    publisher, subscriber = pair(sessions, "typed/ends", int)
    got, last = [], threading.Event()

    def take():
        for message in subscriber:
            got.append(message.value)
            if message.value == 9:
                last.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    for number in range(10):
        publisher.put(number)
    assert last.wait(SOON)
    subscriber.undeclare()
    thread.join(SOON)
    assert not thread.is_alive()
    assert got == list(range(10))
    publisher.undeclare()


def test_many_at_once(sessions):
    publisher, subscriber = pair(sessions, "typed/many", int)
    with publisher, subscriber:
        for number in range(20):
            publisher.put(number)
        got = []
        while len(got) < 20:
            got += subscriber.recv_many(100, timeout=SOON)
        assert [message.value for message in got] == list(range(20))


@pytest.mark.parametrize("indirect", [None, True])
def test_callbacks_get_messages(sessions, indirect):
    got, seen, done = [], [], threading.Event()

    def take(message):
        got.append(message.value)
        if len(got) == 2:
            done.set()

    handler = take if indirect is None else zenoh.handlers.Callback(take, indirect=indirect)
    publisher, subscription = pair(sessions, "typed/callback", Position, handler, on_error=seen.append)
    with publisher, subscription:
        assert not isinstance(subscription, typed.Subscriber)
        publisher.put(Position(1.0))
        publisher.raw.put("{", encoding="application/json")
        publisher.put(Position(2.0))
        assert done.wait(SOON)
        assert got == [Position(1.0), Position(2.0)]
        assert subscription.failed == len(seen) == 1


def test_callbacks_get_batches(sessions):
    got, sizes, done = [], [], threading.Event()

    def take(messages):
        sizes.append(len(messages))
        got.extend(message.value for message in messages)
        if len(got) == 20:
            done.set()

    handler = zenoh.handlers.BatchCallback(take, max_items=8)
    publisher, subscription = pair(sessions, "typed/batches", int, handler, on_error=lambda _: None)
    with publisher, subscription:
        publisher.raw.put("{", encoding="application/json")
        for number in range(20):
            publisher.put(number)
        assert done.wait(SOON)
        assert got == list(range(20))
        assert max(sizes) <= 8
        assert subscription.failed == 1


def test_channels_are_those_of_the_session(sessions):
    publisher, subscriber = pair(sessions, "typed/ring", int, zenoh.handlers.RingChannel(2))
    probe = typed.subscriber(sessions[1], "typed/ring", int)
    probe.wait_ready(timeout=SOON)
    with publisher, subscriber, probe:
        for number in range(5):
            publisher.put(number)
        assert [probe.recv(timeout=SOON).value for _ in range(5)] == list(range(5))
        assert [subscriber.recv(timeout=SOON).value for _ in range(2)] == [3, 4]
        assert subscriber.dropped == 3


def test_options_reach_the_session(sessions):
    near, _ = sessions
    with typed.publisher(
        near, "typed/options", Position, priority=zenoh.Priority.DATA_HIGH, express=True
    ) as publisher:
        assert publisher.raw.priority == zenoh.Priority.DATA_HIGH
        assert not publisher.matching_status
    with pytest.raises(errors.KeyExprError):
        typed.subscriber(near, "typed//options", Position)
    with pytest.raises(errors.PayloadError, match="typed/options: application/json: Position expected"):
        typed.put(near, "typed/options", {"x": 1.0}, Position)


def test_a_model_that_has_no_form_declares_nothing(sessions):
    near, _ = sessions
    for declare in (typed.publisher, typed.subscriber):
        with pytest.raises(TypeError, match="complex has no form"):
            declare(near, "typed/none", complex)


def test_deletions_are_published(sessions):
    publisher, subscriber = pair(sessions, "typed/delete", Position)
    with publisher, subscriber:
        publisher.delete(attachment="gone")
        message = subscriber.recv(timeout=SOON)
        assert message.deleted
        assert message.sample.attachment.to_string() == "gone"


def test_tables_of_what_has_arrived(sessions):
    near, far = sessions
    failed = []
    with typed.subscriber(far, "typed/table/*", Position, on_error=failed.append) as subscriber:
        subscriber.wait_ready(timeout=SOON)
        for number in range(5):
            stamp = near.new_timestamp()
            typed.put(near, f"typed/table/{number}", Position(float(number)), timestamp=stamp)
        near.put("typed/table/5", "{", encoding="application/json")
        near.delete("typed/table/6")
        typed.put(near, "typed/table/7", Position(7.0), codec="cbor")
        tables = []
        while sum(table.num_rows for table in tables) < 6:
            tables.append(subscriber.recv_table(timeout=SOON, key="key", timestamp="at"))
        table = pa.concat_tables(tables)
        assert table.schema == pa.schema(
            [
                ("key", pa.string()),
                ("at", pa.timestamp("us", "UTC")),
                pa.field("x", pa.float64(), nullable=False),
                pa.field("y", pa.float64(), nullable=False),
            ]
        )
        assert table["x"].to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0, 7.0]
        assert [key[-1] for key in table["key"].to_pylist()] == ["0", "1", "2", "3", "4", "7"]
        assert table["at"][4].as_py() == stamp.get_time()
        assert subscriber.failed == len(failed) == 1
        assert subscriber.recv_table(timeout=0.01).num_rows == 0
        assert subscriber.recv_many(10, timeout=0.01) == []


def test_tables_of_tables(sessions):
    for model in (pa.Table, pa.RecordBatch):
        publisher, subscriber = pair(sessions, "typed/tables", model)
        rows = pa.table({"x": [1, 2]})
        with publisher, subscriber:
            for _ in range(3):
                publisher.put(rows if model is pa.Table else rows.to_batches()[0])
            got = 0
            while got < 6:
                table = subscriber.recv_table(timeout=SOON)
                assert table.schema == rows.schema
                got += table.num_rows
            with pytest.raises(TypeError, match="no key"):
                subscriber.recv_table(key="key")
    with (
        typed.subscriber(sessions[0], "typed/tables", int) as subscriber,
        pytest.raises(TypeError, match="no named fields"),
    ):
        subscriber.recv_table()


def test_values_through_advanced_publishers_and_subscribers(sessions):
    near, far = sessions
    raw = ext.declare_advanced_publisher(
        near, "typed/advanced", cache=ext.CacheConfig(10), sample_miss_detection=ext.MissDetectionConfig()
    )
    with typed.Publisher.over(raw, Position, codec="cbor") as publisher:
        for x in (1.0, 2.0):
            publisher.put(Position(x), attachment="a")
        late = ext.declare_advanced_subscriber(far, "typed/advanced", history=ext.HistoryConfig())
        with typed.Subscriber.over(late, Position) as subscriber:
            got = [subscriber.recv(timeout=SOON) for _ in range(2)]
            assert [message.value.x for message in got] == [1.0, 2.0]
            assert str(got[0].sample.encoding) == "application/cbor;Position"
            publisher.delete()
            assert subscriber.recv(timeout=SOON).deleted
            raw.put("{", encoding="application/json")
            assert isinstance(subscriber.recv(timeout=SOON).error, errors.PayloadError)
            assert subscriber.failed == 1


# ---- Queries ----------------------------------------------------------------------------------------


def test_questions_and_answers_are_values(sessions):
    near, far = sessions

    def middle(query):
        area = query.value
        assert query.error is None
        assert query.parameters.get("scale") == "2"
        query.reply(Position((area.low.x + area.high.x) / 2))

    with (
        typed.queryable(far, "typed/middle", Position, middle, request=Area, codec="cbor") as serving,
        typed.querier(near, "typed/middle", Position, request=Area, timeout=SOON) as querier,
    ):
        querier.wait_matching(timeout=SOON)
        assert querier.matching_status
        replies = list(querier.get(Area(Position(1.0), Position(3.0)), parameters="scale=2"))
        assert [reply.value for reply in replies] == [Position(2.0)]
        assert str(replies[0].key_expr) == "typed/middle"
        assert str(replies[0].raw.ok.encoding) == "application/cbor;Position"
        assert replies[0].error is None
        assert serving.failed == 0
        once = typed.get(near, "typed/middle?scale=2", Position, Area(Position(0.0), Position(1.0)))
        assert [reply.value.x for reply in once] == [0.5]


def test_a_question_that_cannot_be_read_is_answered_so(sessions):
    near, far = sessions
    with (
        typed.queryable(far, "typed/strict", Position, request=Area) as queryable,
        typed.querier(near, "typed/strict", Position, request=dict, timeout=SOON) as querier,
    ):
        querier.wait_matching(timeout=SOON)
        answers = [querier.get({"low": {"x": "a"}, "high": {"x": 1.0}}), querier.get(), querier.get()]
        good = querier.get({"low": {"x": 0.0}, "high": {"x": 1.0}})
        with queryable.recv(timeout=SOON) as query:
            assert query.value == Area(Position(0.0), Position(1.0))
            assert "Area" in repr(query)
            query.reply(query.value.high)
        assert [reply.value for reply in good] == [Position(1.0)]
        (reply,) = answers[0]
        assert isinstance(reply.error, errors.QueryError)
        with pytest.raises(errors.QueryError, match=r"float expected, not text at low\.x"):
            _ = reply.value
        assert reply.key_expr is None
        assert ["asked without a value" in str(reply.error) for reply in answers[1]] == [True]
        assert queryable.failed == 3
        assert queryable.try_recv() is None
        with pytest.raises(errors.TimedOut):
            queryable.recv(timeout=0.01)


def test_errors_of_questions_go_to_who_asks_for_them(sessions):
    near, far = sessions

    def refuse(query):
        with pytest.raises(errors.PayloadError):
            _ = query.value
        query.reply_err("no")
        query.drop()

    with typed.queryable(far, "typed/refuse", int, request=int, on_error=refuse) as queryable:
        queryable.wait_ready(timeout=SOON)
        replies = typed.get(near, "typed/refuse", int, "text", timeout=SOON)
        near.get("typed/refuse", payload="3", encoding="application/json")
        assert queryable.recv().value == 3
        assert [str(reply.error) for reply in replies] == ["no"]
        assert queryable.failed == 1


class NoRouteError(Exception):
    pass


def failing(query):
    raise NoRouteError("no route to", query.value)


@pytest.mark.parametrize("setting", ["none", "message", "traceback"])
def test_an_exception_of_a_service_reaches_the_asker(setting, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    with nodes.opened("peer", zwire__handler__error_reply=setting) as session:
        service = typed.queryable(session, "typed/fail", int, failing, request=int)
        replies = list(typed.get(session, "typed/fail", int, 3, timeout=SOON))
        assert service.raw.errors == 1
    assert [(type(one.exc_value), one.object.__name__) for one in reported] == [(NoRouteError, "failing")]
    if setting == "none":
        assert replies == []
        return
    (reply,) = replies
    with pytest.raises(errors.RemoteError, match=r"NoRouteError: \('no route to', 3\)$") as raised:
        _ = reply.value
    error = raised.value
    assert (error.type, error.message) == (f"{__name__}.NoRouteError", "('no route to', 3)")
    if setting == "message":
        assert error.traceback is None
    else:
        assert error.traceback.endswith(f"{__name__}.NoRouteError: ('no route to', 3)\n")
        assert "in failing" in error.traceback


def test_a_service_that_fails_halfway_has_answered_before(sessions):
    near, far = sessions
    reported = []

    def serve(query):
        query.reply(1)
        raise ValueError

    handler = Callback(serve, on_error=reported.append)
    with typed.queryable(far, "typed/halfway", int, handler) as serving:
        serving.wait_ready(timeout=SOON)
        first, second = typed.get(near, "typed/halfway", int, timeout=SOON, consolidation=NONE)
    assert first.value == 1
    assert isinstance(second.error, errors.RemoteError)
    assert (str(second.error), second.error.message) == ("ValueError", "")
    assert [type(error) for error in reported] == [ValueError]


def test_an_exception_that_ends_the_block_of_a_query_reaches_the_asker(sessions):
    near, far = sessions
    with typed.queryable(far, "typed/block", int) as queryable:
        queryable.wait_ready(timeout=SOON)
        replies = typed.get(near, "typed/block", int, timeout=SOON)
        with pytest.raises(KeyError), queryable.recv(timeout=SOON):
            raise KeyError("on purpose")
        (reply,) = replies
        assert (reply.error.type, reply.error.message) == ("KeyError", "'on purpose'")
        # What ends a program is no answer.
        replies = typed.get(near, "typed/block", int, timeout=SOON)
        with pytest.raises(SystemExit), queryable.recv(timeout=SOON):
            raise SystemExit
        assert list(replies) == []


def test_texts_of_exceptions_are_bounded():
    class UnprintableError(Exception):
        def __str__(self):
            raise RuntimeError

    for error in (ValueError("\U0001f600" * 10_000), UnprintableError(), ValueError("\ud800")):
        payload, encoding = _failure.describe(error, True)
        again = _failure.restore(payload, encoding)
        assert isinstance(again, errors.RemoteError)
        assert len(again.message) <= _failure.MAX_MESSAGE
        assert len(again.traceback) <= _failure.MAX_TRACEBACK
        assert again.type.endswith(type(error).__name__)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b'["type"]',
        b'{"type": "E"}',
        b'{"type": 1, "message": "m"}',
        b'{"type": "E", "message": "m", "traceback": 1}',
        b'{"type": "E", "message": "%s"}' % (b"m" * _failure.MAX_PAYLOAD),
    ],
    ids=range(8),
)
def test_an_error_reply_that_claims_to_be_an_exception_is_still_an_error_reply(payload):
    error = _failure.restore(payload, _failure.ENCODING)
    assert type(error) is errors.QueryError
    assert error.payload == payload


def test_coroutine_functions_are_refused_where_nothing_would_await_them(sessions):
    async def handle(item):
        raise AssertionError

    for declare in (typed.subscriber, typed.queryable):
        for handler in (handle, Callback(handle), functools.partial(handle)):
            with pytest.raises(errors.UsageError, match=r"zwire\.aio\.typed"):
                declare(sessions[0], "typed/async", int, handler)


@pytest.mark.parametrize("module", [typed, loops])
def test_types_of_queries_stand_in_the_order_of_their_declaration(module):
    for cls in (module.Query, module.Queryable, module.Serving, module.Querier):
        assert get_args(cls[int, str]) == (int, str)
        assert get_args(cls[int]) == (int, None.__class__)


def test_questions_without_values(sessions):
    near, far = sessions

    def answer(query):
        assert query.value is None
        query.reply(1, "typed/many/a")
        query.reply_del("typed/many/b")
        query.raw.reply("typed/many/c", "[]", encoding="application/json")
        with pytest.raises(errors.UsageError, match="which key"):
            query.reply(2)

    with (
        typed.queryable(far, "typed/many/*", int, answer),
        typed.querier(near, "typed/many/*", int, timeout=SOON) as querier,
    ):
        querier.wait_matching(timeout=SOON)
        replies = {str(reply.key_expr)[-1]: reply for reply in querier.get()}
        assert replies["a"].value == 1
        assert replies["b"].deleted
        with pytest.raises(errors.PayloadError, match="was deleted"):
            _ = replies["b"].value
        assert isinstance(replies["c"].error, errors.PayloadError)
        assert str(replies["c"].error).startswith("typed/many/c: ")
        with pytest.raises(errors.UsageError, match="without request"):
            querier.get(1)


def test_the_key_of_an_answer_is_that_of_the_question_where_it_can(sessions):
    near, far = sessions
    with typed.queryable(far, "typed/keys/*", int, lambda query: query.reply(7)) as serving:
        serving.wait_ready(timeout=SOON)
        (reply,) = typed.get(near, "typed/keys/one", int, timeout=SOON)
        assert (str(reply.key_expr), reply.value) == ("typed/keys/one", 7)
