"""Sinks: from spools to tables."""

from pathlib import Path
from typing import assert_type

from zwire import metrics, sink, spool


def appended() -> None:
    lake = sink.delta(Path("a"), partition_by=["date"], options={"AWS_REGION": "eu-1"})
    assert_type(lake, sink.Table)
    assert_type(sink.iceberg("a.b", catalog="c"), sink.Table)
    parquet = sink.parquet("a", compression="lz4")
    assert_type(parquet.files(), list[str])
    stats = sink.run("b", lake, once=True, keys=["a/**"], max_rows=5, start={0: 1})
    assert_type(stats, sink.SinkStats)
    assert_type(stats["lag_rows"], int)
    made = sink.Sink(spool.open("b"), parquet, name="c", losses="skip")
    assert_type(made.step(), sink.Batch | None)
    assert_type(made.offsets(), dict[int, int])
    made.run(report=lambda batch: print(batch.rows))
    assert_type(metrics.prometheus(made), str)
    assert_type(lake.compact(), sink.Compacted)
    assert_type(lake.vacuum(0), int)
    assert_type(lake.write([], name="d", number=3), bool)
    assert_type(lake.marks(["d"]), dict[str, int])
    sink.Sink("b", lake, rows=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sink.run("b", "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
