"""Trace context in attachments: a trace goes on, and attachments stay what they were."""

import asyncio
import string

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, TraceState

import nodes
from zwire import aio, tracing, zenoh
from zwire.zenoh import ext
from zwire.zenoh.handlers import Callback

PATIENCE = 10
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@pytest.fixture
def alone():
    with nodes.opened("peer") as session:
        yield session


@pytest.fixture
def counted():
    """The counts since the beginning of the test."""
    before = tracing.counters()
    return lambda: {
        name: count - before[name] for name, count in tracing.counters().items() if count - before[name]
    }


def started(provider, **options):
    return provider.get_tracer("test").start_as_current_span("root", **options)


def envelope(**entries):
    return bytes(ext.z_serialize({name: value.encode() for name, value in entries.items()}))


def test_a_trace_goes_from_a_publisher_through_a_queryable_and_back(hub, provider, exporter):
    with nodes.client(hub) as there, nodes.client(hub) as here:
        answerer = tracing.Traced(there, provider)
        given_ = []

        def answer(query):
            given_.append(tracing.extract(query).attachment)
            query.reply(query.key_expr, "yes", attachment=tracing.inject("reply"))

        traced = tracing.Traced(here, provider)
        replies = []

        def planned(sample):
            given_.append(tracing.extract(sample).attachment)
            replies.extend(traced.get("ask/me", timeout=PATIENCE, attachment=b"of the query"))

        with (
            answerer.declare_queryable("ask/me", answer),
            traced.declare_subscriber("robot/*", planned) as sub,
        ):
            sub.wait_ready(PATIENCE)
            here.ready(PATIENCE)
            with started(provider) as root:
                answerer.put("robot/1", "x", attachment="of the put")
            nodes.eventually(lambda: replies and len(exporter.get_finished_spans()) == 4)
        assert given_ == [b"of the put", b"of the query"]
        (reply,) = replies
    spans = {span.name: span for span in exporter.get_finished_spans()}
    ids = [span.context.trace_id for span in spans.values()]
    assert set(ids) == {root.get_span_context().trace_id}
    parents = {name: span.parent and span.parent.span_id for name, span in spans.items()}
    assert parents["publish robot/1"] == spans["root"].context.span_id
    assert parents["process robot/1"] == spans["publish robot/1"].context.span_id
    assert parents["answer ask/me"] == spans["process robot/1"].context.span_id
    kinds = [spans[name].kind for name in ("publish robot/1", "process robot/1", "answer ask/me")]
    assert kinds == [SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.SERVER]
    assert spans["process robot/1"].attributes["messaging.destination.name"] == "robot/1"
    back = tracing.extract(reply.ok)
    assert back.attachment == b"reply"
    assert int(back.traceparent.split("-")[2], 16) == spans["answer ask/me"].context.span_id


def test_publishers_and_queriers_carry_it_too(alone, provider, exporter):
    traced = tracing.Traced(alone, provider)
    seen = []
    with (
        alone.declare_queryable("q", lambda query: seen.append(query.attachment)),
        alone.declare_subscriber("k") as subscriber,
        traced.declare_publisher("k", encoding="text/plain") as publisher,
        traced.declare_querier("q", timeout=PATIENCE) as querier,
        started(provider) as root,
    ):
        publisher.put("x")
        publisher.delete(attachment="why")
        assert str(publisher.key_expr) == "k"
        assert list(querier.get()) == []
        found = [tracing.extract(subscriber.recv(PATIENCE)) for _ in range(2)]
        traced.delete("k")
        found.append(tracing.extract(subscriber.recv(PATIENCE)))
    assert [one.attachment for one in found] == [None, b"why", None]
    parent = root.get_span_context()
    ids = {one.traceparent.split("-")[1] for one in [*found, tracing.extract(seen[0])]}
    assert ids == {f"{parent.trace_id:032x}"}
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["publish k", "delete k", "delete k", "root"]


def test_channels_and_other_calls_are_those_of_the_session(alone, provider):
    traced = tracing.Traced(alone, provider)
    dropped = []
    with traced.declare_subscriber("k") as channel:
        alone.put("k", "x")
        assert bytes(channel.recv(PATIENCE).payload) == b"x"
    traced.declare_subscriber("k", Callback(lambda _sample: None, lambda: dropped.append(1))).undeclare()
    traced.declare_subscriber("k", (lambda _sample: None, "kept")).undeclare()
    nodes.eventually(lambda: dropped)
    assert traced.zid() == alone.zid()
    assert "Session" in repr(traced)


def test_without_an_active_span_nothing_is_added(alone, provider, counted):
    assert tracing.inject() is None
    assert tracing.inject(b"mine") == b"mine"
    inner = envelope(traceparent=PARENT, attachment="mine")
    assert tracing.inject(inner) == inner
    assert counted() == {}


def test_an_exception_of_a_callback_is_in_its_span(alone, provider, exporter):
    traced = tracing.Traced(alone, provider)
    errors = []

    def fail(_sample):
        raise ValueError("no")

    with traced.declare_subscriber("k", Callback(fail, on_error=errors.append)):
        alone.put("k", "x")
        nodes.eventually(lambda: errors and exporter.get_finished_spans())
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code, span.parent) == (trace.StatusCode.ERROR, None)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_attachments_come_back_as_they_were(attachment):
    provider = TracerProvider()
    with started(provider) as root:
        wrapped = tracing.inject(attachment)
        twice = tracing.inject(wrapped)
    found = tracing.extract(wrapped)
    assert found.attachment == attachment
    assert f"{root.get_span_context().span_id:016x}" in found.traceparent
    # Attachments that have the form already are carried like any other.
    assert tracing.extract(twice).attachment == wrapped
    assert ext.z_deserialize(dict[str, bytes], wrapped)["attachment"] == attachment


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(st.binary(max_size=100), st.binary(max_size=60).map(lambda tail: b"\x02\x0btraceparent" + tail))
)
def test_other_attachments_are_left_alone(data):
    found = tracing.extract(data)
    assert found == tracing.Extracted(data)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        PARENT[:-1],
        PARENT.upper(),
        PARENT + "-00",
        PARENT + "\n",
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        "01" + PARENT[2:] + "-" + "x" * 100,
        "\u00e9" * 55,
    ],
)
def test_an_invalid_traceparent_is_ignored_and_counted(parent, counted):
    found = tracing.extract(envelope(traceparent=parent, attachment="mine"))
    assert found == tracing.Extracted(b"mine")
    assert counted() == {"invalid": 1}
    assert trace.get_current_span(found.context()) is trace.INVALID_SPAN


def test_a_later_version_may_say_more(counted):
    parent = "01" + PARENT[2:] + "-more"
    assert tracing.extract(envelope(traceparent=parent)).traceparent == parent
    assert counted() == {"extracted": 1}


@pytest.mark.parametrize("state", ["a=" + "x" * 511, "a=\u00e9", "a=\n"])
def test_an_invalid_tracestate_is_ignored_and_counted(state, counted):
    found = tracing.extract(envelope(traceparent=PARENT, tracestate=state))
    assert found == tracing.Extracted(None, PARENT)
    assert counted() == {"extracted": 1, "invalid": 1}


def test_a_tracestate_is_carried_and_bounded(provider, counted):
    entries = [(f"k{letter}", letter * 60) for letter in string.ascii_lowercase[:20]]
    remote = trace.SpanContext(1, 2, is_remote=True, trace_state=TraceState(entries))
    context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    found = tracing.extract(tracing.inject(context=context))
    assert 400 < len(found.tracestate) <= 512
    assert all(len(entry) == 63 for entry in found.tracestate.split(","))
    assert counted() == {"injected": 1, "shortened": 1, "extracted": 1}
    state = trace.get_current_span(found.context()).get_span_context().trace_state
    assert state["ka"] == "a" * 60


def test_a_map_of_another_program_stays_the_attachment():
    data = envelope(traceparent=PARENT, color="red")
    assert tracing.extract(data) == tracing.Extracted(data, PARENT)
    data = envelope(color="red")
    assert tracing.extract(data) == tracing.Extracted(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x11" + b"\x01a\x00" * 17,
        b"\x02\x01a\x00\x01a\x00",
        b"\x01\xff\xff\xff\xff\xff\xff\xff",
        b"\x01\x41" + b"a" * 65 + b"\x00",
        b"\x01\x01\xff\x00",
        envelope(traceparent=PARENT) + b"x",
        envelope(traceparent=PARENT)[:-1],
    ],
)
def test_maps_beyond_the_bounds_are_no_trace_context(data, counted):
    assert tracing.extract(data) == tracing.Extracted(data)
    assert counted() == {}


def test_a_row_of_a_batch_has_its_attachment_extracted():
    attachment = envelope(traceparent=PARENT, attachment="mine")
    batch = pa.record_batch({"key": ["a", "b"], "attachment": [attachment, None]})
    first, second = batch.to_pylist()
    assert tracing.extract(first) == tracing.Extracted(b"mine", PARENT)
    assert tracing.extract(second) == tracing.Extracted(None)
    assert tracing.extract({"key": "a"}) == tracing.Extracted(None)


def test_sessions_of_an_event_loop_are_refused():
    async def run():
        async with await aio.open(nodes.settings("peer")) as session:
            with pytest.raises(TypeError, match=r"tracing\.inject.*tracing\.extract"):
                tracing.Traced(session)

    asyncio.run(run())


def test_a_block_goes_on_with_the_trace_of_a_row(provider, exporter):
    with tracing.span(None, "first", tracer_provider=provider):
        row = zenoh.ZBytes(tracing.inject("x"))
    with tracing.span(row, "second", kind=SpanKind.INTERNAL, tracer_provider=provider) as span:
        assert trace.get_current_span() is span
    first, second = exporter.get_finished_spans()
    assert (second.parent.span_id, second.kind) == (first.context.span_id, SpanKind.INTERNAL)
    assert first.parent is None
