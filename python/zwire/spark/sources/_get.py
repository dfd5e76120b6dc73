"""The format ``zwire`` with ``selector`` or ``selectors``: queries, each in a partition of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from zwire._lazy import pa
from zwire.spark import schema as rows
from zwire.spark._ask import CONSOLIDATIONS, TARGETS, Question, get_options, stream
from zwire.spark._worker import task
from zwire.spark.batch import BYTES, ROWS
from zwire.spark.sources._options import SESSION, Options, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from zwire.spark._ask import GetOptions, ReplyRow
    from zwire.spark.schema import RowSchema

KNOWN = (
    *named("selector selectors target consolidation timeout budget errors columns pushdown"),
    *SESSION,
)


@dataclass(eq=False, repr=False)
class Asked(InputPartition):
    """A selector."""

    selector: str


def schema(given: Mapping[str, str]) -> StructType:
    """Check the options, and return the columns that they ask for."""
    options = Options("zwire", given, KNOWN)
    _selectors(options)
    _get_options(options)
    return options.columns(rows.SELECTED).spark()


def reader(given: Mapping[str, str], schema: StructType) -> GetReader:
    """Return the reader of a query."""
    options = Options("zwire", given, KNOWN)
    return GetReader(_get_options(options), _selectors(options), options.chosen(rows.SELECTED, schema))


def _selectors(options: Options) -> list[str]:
    single = options.text("selector")
    found = ([] if single is None else [single]) + options.listed("selectors")
    if not found:
        raise options.error("selectors", "has no selector")
    options.no_pushdown("narrower selectors")
    options.check_keyexprs("selectors", [selector.partition("?")[0] for selector in found])
    return found


def _get_options(options: Options) -> GetOptions:
    budget = options.text("budget")
    if budget is not None and not (budget.isascii() and budget.isdigit() and 1 <= int(budget) < 1 << 32):
        raise options.error("budget", f"must be 1 to {(1 << 32) - 1}, not {budget!r}")
    return get_options(
        options.session(),
        timeout=options.seconds("timeout", 10.0),
        target=options.choice("target", TARGETS, "best_matching"),
        consolidation=options.choice("consolidation", CONSOLIDATIONS, "auto"),
        errors=options.choice("errors", ("raise", "rows"), "raise"),
        budget=None if budget is None else int(budget),
    )


@dataclass(eq=False, repr=False)
class GetReader(DataSourceReader):
    """Queries a selector in each partition, with the session of its worker."""

    options: GetOptions
    selectors: list[str]
    columns: RowSchema

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each selector."""
        return [Asked(selector) for selector in self.selectors]

    @task
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Query, and yield the replies as they come."""
        assert isinstance(partition, Asked)  # noqa: S101 - there is at least one selector, so it is ours
        found: list[ReplyRow] = []
        size = 0
        for reply in stream(self.options, Question(partition.selector)):
            found.append(reply)
            size += len(reply.payload or b"")
            if len(found) >= ROWS or size >= BYTES:
                yield self._batch(found, partition.selector)
                found, size = [], 0
        if found:
            yield self._batch(found, partition.selector)

    def _batch(self, found: list[ReplyRow], selector: str) -> pa.RecordBatch:
        wanted = self.columns.arrow()
        columns: list[Any] = []
        for field in wanted:
            if field.name == "selector":
                columns.append(pa.repeat(pa.scalar(selector), len(found)))
            else:
                columns.append(pa.array([getattr(row, field.name) for row in found], field.type))
        return pa.RecordBatch.from_arrays(columns, schema=wanted)
