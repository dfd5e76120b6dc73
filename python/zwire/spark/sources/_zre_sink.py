"""The writers of the format ``zre``."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from zwire.spark._settings import check_referred
from zwire.spark._tell import check_told, tell, tell_options, told_rows
from zwire.spark._worker import settle
from zwire.spark.batch import to_arrow
from zwire.spark.sources import _writers
from zwire.spark.sources._options import Options, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from zwire.spark._tell import TellOptions, ToldSummary
    from zwire.spark.schema import RowSchema

NAME = "zre"

_NODE = "zre."
"""Prefix of options that are fields of the node's configuration."""

KNOWN = named("group peer minPeers wait patience maxRowsPerSecond errors config")


@dataclass
class Told(WriterCommitMessage):
    """The result for the rows of a partition."""

    partition: int
    summary: ToldSummary


def writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch."""
    return BatchWriter(*_checked(given, schema, overwrite=overwrite))


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of the batches of a stream."""
    return StreamWriter(*_checked(given, schema, overwrite=overwrite))


def _checked(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> tuple[TellOptions, str | None, RowSchema]:
    """Check everything; return the options, the name of the destination column, and all columns."""
    node = {name.lower(): given[name] for name in given if name.lower().startswith(_NODE)}
    options = Options(NAME, {name: given[name] for name in given if name.lower() not in node}, KNOWN)
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    group, peer = options.text("group"), options.text("peer")
    to = {"group": group is not None or "group" in kinds, "peer": peer is not None or "peer" in kinds}
    if to["group"] == to["peer"]:
        what = "both a group and a peer" if to["peer"] else "neither a group nor a peer"
        raise options.error("group", f"or peer, or a column of that name: there is {what}")
    name, value = ("group", group) if to["group"] else ("peer", peer)
    check_told(kinds, name, given=value is not None)
    for column in kinds:
        if column not in (name, "content"):
            raise ValueError(f"column {column!r} is not one of {name}, content")
    _writers.append_only(NAME, overwrite=overwrite)
    made = tell_options(
        _config(options, node),
        value,
        shout=name == "group",
        peers=options.integer("minPeers", 1),
        wait=options.seconds("wait", 10.0),
        patience=options.seconds("patience", 10.0),
        rate=options.integer("maxRowsPerSecond", None, least=1),
        errors=options.choice("errors", ("raise", "skip"), "raise"),
    )
    return made, name if name in kinds else None, _writers.row_schema(schema)


def _config(options: Options, node: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a node: those of ``config``, overridden by single ones."""
    from zwire.zre import Config

    try:
        fields = json.loads(options.text("config", "{}"))
    except ValueError as error:
        raise options.error("config", f"is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise options.error("config", "is no JSON object")
    kinds = {field.name: str(field.type) for field in dataclasses.fields(Config)}
    for key, text in node.items():
        name = key.removeprefix(_NODE)
        fields[name] = _value(kinds.get(name, ""), text)
    secret = fields.get("secret_key")
    if secret is not None:
        check_referred(f"{NAME}: secret_key", str(secret))
    mailbox = fields.get("mailbox")
    if isinstance(mailbox, list):
        fields["mailbox"] = tuple(mailbox)
    return fields


def _value(kind: str, text: str) -> Any:  # noqa: ANN401 - whatever a field holds
    """Parse a field: JSON, except for texts, and for lists of texts separated by commas."""
    if kind.startswith("str") and "Sequence" not in kind:
        return text
    try:
        return json.loads(text)
    except ValueError:
        if "Sequence" in kind or "Iterable" in kind:
            return [item.strip() for item in text.split(",") if item.strip()]
        return text


@dataclass(eq=False, repr=False)
class _Writer:
    """Sends the rows of tasks. ZRE has no receiver for a commit."""

    options: TellOptions
    to: str | None
    columns: RowSchema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        """Send a partition; also given as rows, as Spark 4.0 does with streams."""
        _writers.refuse_second_copies(NAME, "turn it off")
        batches = to_arrow(iterator, self.columns)
        summary = tell(self.options, told_rows(batches, self.to))
        settle()
        return Told(_writers.partition(), summary)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Sends a DataFrame."""


class StreamWriter(_Writer, _writers.DataSourceStreamArrowWriter):
    """Sends the batches of a stream."""
