"""Trace context in attachments."""

from typing import assert_type

from opentelemetry.context import Context

from zwire import tracing, zenoh


def carried(session: zenoh.Session) -> None:
    with tracing.Traced(session) as traced:
        traced.put("a", "b", attachment=b"c")
        traced.put("a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

        def seen(sample: zenoh.Sample) -> None:
            found = tracing.extract(sample)
            assert_type(found.attachment, bytes | None)
            assert_type(found.traceparent, str | None)
            assert_type(found.context(), Context)
            with tracing.span(sample, "plan") as span:
                span.set_attribute("a", 1)

        traced.declare_subscriber("a", seen)
    assert_type(tracing.counters(), dict[str, int])
