"""A trace goes from a publisher through a queryable into the tasks of a job."""

import pyarrow as pa
from opentelemetry.sdk.trace import TracerProvider

from zwire import tracing, zenoh


def scored(rows):
    """Go on with the trace of each row; return what a span of the worker says."""
    provider = TracerProvider()
    for row in rows:
        with tracing.span(row, "score", tracer_provider=provider) as span:
            context = span.get_span_context()
            parent = f"{span.parent.span_id:016x}" if span.parent else None
            yield row.key, f"{context.trace_id:032x}", parent, tracing.extract(row.attachment).attachment


def test_a_trace_goes_into_a_job(spark, client):
    provider = TracerProvider()
    traced = tracing.Traced(client, provider)
    subscriber = client.declare_subscriber("scores/*", zenoh.handlers.FifoChannel(16))

    def answer(query):
        traced.put("scores/1", "1", attachment=b"mine")
        query.reply(query.key_expr, "done")

    traced.declare_queryable("begin", answer)
    with provider.get_tracer("test").start_as_current_span("root") as root:
        (reply,) = traced.get("begin", timeout=10)
    assert reply.ok is not None
    client.put("scores/2", "2", attachment=b"without a trace")
    # The columns of a spool, of a recording and of this batch are the same.
    rows = []
    while len(rows) < 2:
        rows += pa.record_batch(subscriber.recv_batch(timeout=10)).select(["key", "attachment"]).to_pylist()
    parent = tracing.extract(rows[0]["attachment"]).traceparent.split("-")[2]
    frame = spark.createDataFrame(
        [(row["key"], row["attachment"]) for row in rows], "key string, attachment binary"
    )
    first, second = sorted(frame.rdd.mapPartitions(scored).collect())
    assert first == ("scores/1", f"{root.get_span_context().trace_id:032x}", parent, b"mine")
    assert (second[0], second[2], second[3]) == ("scores/2", None, b"without a trace")
    assert second[1] != first[1]
