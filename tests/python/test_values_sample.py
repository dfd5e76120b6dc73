"""Samples, through a session that has no network."""

import pickle

import numpy as np
import pytest

from zwire.config import Scouting, SessionConfig
from zwire.zenoh import (
    CongestionControl,
    Encoding,
    EntityGlobalId,
    KeyExpr,
    Priority,
    Reliability,
    Sample,
    SampleKind,
    SourceInfo,
    TimestampInstrumentationBuilder,
    ZBytes,
    ZenohId,
    open,
)


@pytest.fixture(scope="module")
def session():
    with open(SessionConfig(mode="peer", listen=[], scouting=Scouting(multicast=False))) as session:
        yield session


@pytest.fixture
def received(session):
    """Publishes and gives what arrived."""
    with session.declare_subscriber("values/**") as subscriber:

        def receive(publish, *args, **options):
            publish(*args, **options)
            return subscriber.recv(timeout=10)

        yield receive


def test_a_sample_with_everything(session, received):
    stamp = session.new_timestamp()
    source = SourceInfo(EntityGlobalId(ZenohId("ab"), 7), 3)
    sample = received(
        session.put,
        "values/a",
        b"payload",
        encoding="text/plain;utf8",
        congestion_control=CongestionControl.BLOCK,
        priority=Priority.REAL_TIME,
        express=True,
        attachment=b"beside",
        timestamp=stamp,
        source_info=source,
    )
    assert isinstance(sample, Sample)
    assert sample.key_expr == KeyExpr("values/a")
    assert sample.payload == ZBytes(b"payload")
    assert sample.kind is SampleKind.PUT
    assert sample.encoding == Encoding("text/plain;utf8")
    assert sample.congestion_control is CongestionControl.BLOCK
    assert sample.priority is Priority.REAL_TIME
    assert sample.express is True
    assert sample.reliability is Reliability.RELIABLE
    assert sample.attachment == b"beside"
    assert sample.timestamp == stamp
    assert sample.source_info == source
    assert repr(sample) == "<Sample values/a SampleKind.PUT ZBytes(b'payload') text/plain;utf8>"
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert hash(pickle.loads(pickle.dumps(sample))) == hash(sample)


def test_a_sample_with_nothing(session, received):
    sample = received(session.delete, "values/a")
    assert sample.kind is SampleKind.DELETE
    assert sample.payload == b""
    assert sample.encoding == Encoding.ZENOH_BYTES
    assert sample.congestion_control is CongestionControl.DROP
    assert sample.priority is Priority.DATA
    assert sample.express is False
    assert sample.timestamp is None
    assert sample.attachment is None
    assert sample.source_info is None
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert sample != 1


def test_an_empty_attachment_is_not_none(session, received):
    assert received(session.put, "values/a", b"", attachment=b"").attachment == b""


def test_samples_differ_by_what_they_hold(session, received):
    first = received(session.put, "values/a", b"x")
    assert received(session.put, "values/a", b"x") == first
    assert received(session.put, "values/a", b"y") != first
    assert received(session.put, "values/b", b"x") != first
    assert received(session.put, "values/a", b"x", priority=Priority.DATA_LOW) != first


def test_a_large_payload_stays_where_it_was(session, received):
    content = bytes(range(256)) * 1024
    sample = received(session.put, "values/a", content)
    assert sample.payload == content
    there, here = (np.frombuffer(part, "u1").ctypes.data for part in (content, sample.payload))
    assert there == here


@pytest.mark.parametrize("stamp", [None, lambda context: str(context.whatami).encode()])
def test_a_pickled_sample_keeps_its_stamps(stamp):
    config = SessionConfig(mode="peer", listen=[], scouting=Scouting(multicast=False))
    wanted = TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()
    with open(config, timestamp_callback=stamp) as session, session.declare_subscriber("a") as subscriber:
        session.put("a", b"x", timestamp_instrumentation=wanted)
        sample = subscriber.recv(timeout=10)
        session.put("a", b"x")
        plain = subscriber.recv(timeout=10)
    stack = sample.timestamp_stack
    assert [record.is_custom for record in stack.records] == [stamp is not None] * 2
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(sample, protocol))
        assert again == sample != plain
        for one in (again.timestamp_stack, pickle.loads(pickle.dumps(stack, protocol))):
            assert repr(one) == repr(stack)
            assert one.records == stack.records
            assert one.instrumentation == wanted
        assert pickle.loads(pickle.dumps(wanted, protocol)) == wanted
        assert pickle.loads(pickle.dumps(stack.records, protocol)) == stack.records


def test_a_sample_of_an_older_release_is_restored(received, session):
    sample = received(session.put, "values/a", b"x")
    restore, parts = sample.__reduce__()
    assert restore(*parts[:9]) == sample


def test_replies_pickle(session):
    wanted = TimestampInstrumentationBuilder().set_send(True).build()

    def answer(query):
        query.reply("q", b"yes")
        query.reply_err("no", encoding="text/plain")

    with session.declare_queryable("q", answer):
        for stamps in (None, wanted):
            replies = list(session.get("q", timeout=10, timestamp_instrumentation=stamps))
            assert len(replies) == 2
            for reply in replies:
                again = pickle.loads(pickle.dumps(reply))
                assert again.replier_id == reply.replier_id
                assert again.ok == reply.ok
                assert (again.err is None) == (reply.err is None)
                assert again.result.payload == reply.result.payload
                assert again.result.encoding == reply.result.encoding
                assert repr(again.result.timestamp_stack) == repr(reply.result.timestamp_stack)
    restore, _ = reply.__reduce__()
    with pytest.raises(TypeError):
        restore("no reply", None)


BLOCK = bytes(range(256)) * 64
"""Long enough to be sent by reference."""


@pytest.mark.parametrize(
    "pieces", [[], [b"a", b"b"], (b"head", BLOCK, bytearray(b"tail")), [np.frombuffer(BLOCK, "<i4")] * 5]
)
def test_a_list_of_buffers_is_one_payload(session, received, pieces):
    content = b"".join(bytes(piece) for piece in pieces)
    assert received(session.put, "values/a", pieces).payload == content
    assert received(session.put, "values/a", b"x", attachment=pieces).attachment == content
    assert received(session.delete, "values/a", attachment=pieces).attachment == content
    with session.declare_publisher("values/a") as publisher:
        assert received(publisher.put, pieces, attachment=[b"a", b"b"]).payload == content


def test_subscribers_share_the_joined_payload(session, received):
    with session.declare_subscriber("values/a") as second:
        first = received(session.put, "values/a", [BLOCK, b"between", BLOCK]).payload
        views = [np.frombuffer(payload, "u1") for payload in (first, second.recv(timeout=10).payload)]
    assert views[0].tobytes() == BLOCK + b"between" + BLOCK
    assert len({view.__array_interface__["data"] for view in views}) == 1


def test_queries_and_replies_take_lists_of_buffers(session):
    asked = []

    def answer(query):
        asked.append((query.payload, query.attachment))
        query.reply("q/list", [BLOCK, query.payload], attachment=(b"a", b"b"))
        query.reply_err([b"no", BLOCK])

    with session.declare_queryable("q/list", answer), session.declare_querier("q/list") as querier:
        for get in (lambda **value: session.get("q/list", timeout=10, **value), querier.get):
            replies = list(get(payload=[b"1", BLOCK], attachment=[b"2", b"3"]))
            assert asked.pop() == (b"1" + BLOCK, b"23")
            yes, no = sorted(replies, key=lambda reply: reply.ok is None)
            assert (yes.ok.payload, yes.ok.attachment) == (BLOCK + b"1" + BLOCK, b"ab")
            assert no.err.payload == b"no" + BLOCK


def test_an_item_that_is_no_buffer_is_named(session):
    with session.declare_publisher("values/a") as publisher:
        for put in (publisher.put, lambda *args, **options: session.put("values/a", *args, **options)):
            with pytest.raises(TypeError, match=r"^payload\[3\]: .* buffer or ZBytes, not str$"):
                put([b"", BLOCK, bytearray(), "text"])
            with pytest.raises(TypeError, match=r"^attachment\[0\]: .*, not list$"):
                put(b"", attachment=[[b"a"]])
    with pytest.raises(TypeError, match=r"^payload\[1\]: .*, not int$"):
        session.get("values/a", payload=(b"", 1))
