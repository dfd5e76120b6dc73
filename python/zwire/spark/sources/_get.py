"""The format ``zwire`` with ``selector`` or ``selectors``: queries, each in a partition of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from zwire._lazy import pa
from zwire.spark import schema as rows
from zwire.spark._ask import CONSOLIDATIONS, TARGETS, Question, get_options, stream
from zwire.spark.batch import BYTES, ROWS
from zwire.spark.sources._options import SESSION, Options, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from zwire.spark._ask import GetOptions, ReplyRow
    from zwire.spark.schema import RowSchema

KNOWN = (
    *named("selector selectors target consolidation timeout budget errors columns pushdown"),
    *SESSION,
)


@dataclass(eq=False, repr=False)
class Asked(InputPartition):
    """A selector; or narrower ones where filters allow."""

    selector: str
    narrower: tuple[str, ...]


def schema(given: Mapping[str, str]) -> StructType:
    """Check the options, and return the columns that they ask for."""
    options = Options("zwire", given, KNOWN)
    _selectors(options)
    _get_options(options)
    options.pushdown()
    return options.columns(rows.SELECTED).spark()


def reader(given: Mapping[str, str], schema: StructType) -> GetReader:
    """Return the reader of a query."""
    options = Options("zwire", given, KNOWN)
    kind = PushingGetReader if options.pushdown() else GetReader
    return kind(_get_options(options), _selectors(options), options.chosen(rows.SELECTED, schema))


def _selectors(options: Options) -> list[str]:
    single = options.text("selector")
    found = ([] if single is None else [single]) + options.listed("selectors")
    if not found:
        raise options.error("selectors", "has no selector")
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
    filters: Sequence[Filter] = ()
    """Filters that narrow the selectors."""

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each selector."""
        return [Asked(selector, _narrowed(selector, self.filters)) for selector in self.selectors]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Query, and yield the replies as they come."""
        assert isinstance(partition, Asked)  # noqa: S101 - there is at least one selector, so it is ours
        found: list[ReplyRow] = []
        size = 0
        for selector in partition.narrower:
            for reply in stream(self.options, Question(selector)):
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


_MOST = 64
"""Most narrower queries of one partition; more cost more than they save."""


class PushingGetReader(GetReader):
    """The same reader, with narrower queries for filters on ``key``.

    All filters go back to Spark: the answer of a queryable to a narrower query may differ from the filtered
    answer to a wider one, but it is never larger.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Narrow the selectors by filters on keys."""
        self.filters = filters
        return filters


def _narrowed(selector: str, filters: Sequence[Filter]) -> tuple[str, ...]:
    """Return selectors that cover every key of the selector that the filters let through."""
    if not filters:
        return (selector,)
    from pyspark.sql.datasource import EqualNullSafe, EqualTo, In, StringStartsWith

    from zwire.zenoh import KeyExpr

    expression, mark, parameters = selector.partition("?")
    if "_anyke" in parameters:
        return (selector,)  # replies may have any key
    left = [KeyExpr(expression)]
    for each in filters:
        if getattr(each, "attribute", None) != ("key",):
            continue
        if isinstance(each, EqualTo | EqualNullSafe):
            wanted = [each.value]
        elif isinstance(each, In) and len(each.value) <= _MOST:
            wanted = list(each.value)
        elif isinstance(each, StringStartsWith):
            wanted = [_beginning(each.value)]
        else:
            continue
        keys = [key for text in wanted if isinstance(text, str) and (key := _legal(text)) is not None]
        if isinstance(each, StringStartsWith) and (not keys or "@" in expression):
            continue  # no expression covers it: wildcards do not match chunks with @
        # Of the others, a text that is no key matches nothing.
        left = [common for one in left for key in keys if (common := _common(one, key)) is not None]
    return tuple(f"{key}{mark}{parameters}" for key in dict.fromkeys(map(str, left)))


def _beginning(prefix: str) -> str:
    """Return an expression for all keys with that prefix."""
    whole, slash, part = prefix.rpartition("/")
    return f"{whole}{slash}{part}$*/**" if part else f"{whole}{slash}**"


def _legal(text: str) -> Any:  # noqa: ANN401 - a KeyExpr, which is imported late
    from zwire.zenoh import KeyExpr

    try:
        return KeyExpr(text)
    except ValueError:
        return None


def _common(one: Any, other: Any) -> Any:  # noqa: ANN401 - KeyExpr, or None
    """Return the narrowest known expression for all keys that both match."""
    if not one.intersects(other):
        return None
    return other if one.includes(other) else one
