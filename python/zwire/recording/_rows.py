"""Conversion of batches with other columns to the columns of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zwire._lazy import library, pa, pc
from zwire._rows import unique
from zwire.columns import SAMPLE, renamed
from zwire.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

COLUMNS = SAMPLE.names

_KINDS = {"put": "put", "del": "del", "delete": "del"}
_CONGESTION = {name: name for name in ("drop", "block", "block_first")}


def arrow() -> Any:  # noqa: ANN401 - pyarrow
    """Import pyarrow; on failure the error names the extra."""
    return library("pyarrow", "arrow")


def conform(
    batch: Any,  # noqa: ANN401 - whatever has the Arrow C interface
    *,
    columns: Iterable[str] | None = None,
    recv_ts: datetime | None = None,
) -> pa.RecordBatch:
    """Give a batch the columns of samples, in their order and with their types.

    Args:
        batch: A batch with the Arrow C interface and a column ``key``. Columns are matched by name, those of
            ``zwire.columns.SAMPLE``. Missing columns are null, other columns are left out; a row without a
            kind is a deletion if its payload is null. Former names are accepted with a warning, and so are
            former types: ``kind`` as 0 and 1, ``congestion_block`` as true and false.
        columns: Columns of the result, all if left out.
        recv_ts: Time of reception, for a batch without such a column.

    Raises:
        RecordingError: There is no key, or a column cannot be converted to its type.
        ValueError: A requested column is unknown.
    """
    pa = arrow()
    batch = batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch)
    for old, new in SAMPLE.renamed.items():
        if old in batch.schema.names and new not in batch.schema.names:
            renamed(old, new)
    return conformed(batch, columns=columns, recv_ts=recv_ts)


def conformed(
    batch: pa.RecordBatch, *, columns: Iterable[str] | None = None, recv_ts: datetime | None = None
) -> pa.RecordBatch:
    """Do what :func:`conform` does, without a warning: files keep the names that they were written with."""
    pa = arrow()
    wanted = (SAMPLE if columns is None else SAMPLE.select(columns)).arrow()
    if batch.schema.equals(wanted):
        return batch
    if "key" not in batch.schema.names:
        raise RecordingError(f"there is no column 'key' among {', '.join(batch.schema.names) or 'none'}")
    made = [_column(batch, field, recv_ts) for field in wanted]
    return pa.RecordBatch.from_arrays(made, schema=wanted)


def _column(batch: pa.RecordBatch, field: pa.Field, recv_ts: datetime | None) -> pa.Array:
    names = batch.schema.names
    make = _MADE.get(field.name)
    if make is not None and (found := make(batch)) is not None:
        return found
    if field.name in names:
        return _cast(batch.column(field.name), field)
    if field.name == "recv_ts" and recv_ts is not None:
        return pa.repeat(pa.scalar(recv_ts, field.type), batch.num_rows)
    return pa.nulls(batch.num_rows, field.type)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if pa.types.is_uint64(column.type) and pa.types.is_int64(field.type):
        return column.view(field.type)  # the bits of a time stamp
    try:
        # Fractions of a microsecond are cut off.
        return column.cast(field.type, safe=not pa.types.is_timestamp(column.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        problem = f"column {field.name!r} is {column.type} and cannot be read as {field.type}: {error}"
        raise RecordingError(problem) from None


def _kind(batch: pa.RecordBatch) -> pa.Array | None:
    names = batch.schema.names
    implied = None
    if "payload" in names:
        implied = pc.if_else(batch.column("payload").is_null(), "del", "put")
    if "kind" not in names:
        return implied
    kind = batch.column("kind")
    if _is_text(kind.type):
        kind = _named(kind, _KINDS, "kind")
    else:
        kind = pa.array(["put", "del"]).take(kind.cast(pa.int8()))
    return kind if implied is None or not kind.null_count else pc.coalesce(kind, implied)


def _payload(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the payloads, null for deletions."""
    if "payload" not in batch.schema.names:
        return None
    payload = _cast(batch.column("payload"), SAMPLE.arrow().field("payload"))
    kind = _kind(batch)
    if kind is None or not pc.any(pc.equal(kind, "del")).as_py():
        return payload
    return pc.if_else(pc.equal(kind, "del"), pa.scalar(None, payload.type), payload)


def _congestion(batch: pa.RecordBatch) -> pa.Array | None:
    names = batch.schema.names
    if "congestion" in names:
        return _named(batch.column("congestion"), _CONGESTION, "congestion")
    if "congestion_block" in names:
        return pc.if_else(batch.column("congestion_block"), "block", "drop")
    return None


def _timestamp(batch: pa.RecordBatch) -> pa.Array | None:
    # Files of other programs have texts under this name.
    names = batch.schema.names
    field = SAMPLE.arrow().field("timestamp")
    for name in ("timestamp", "ts"):
        if name in names and not _is_text(batch.column(name).type):
            return _cast(batch.column(name), field)
    return pa.nulls(batch.num_rows, field.type)


_MADE: dict[str, Callable[[pa.RecordBatch], pa.Array | None]] = {
    "kind": _kind,
    "payload": _payload,
    "congestion": _congestion,
    "timestamp": _timestamp,
}


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _named(column: pa.Array, values: dict[str, str], name: str) -> pa.Array:
    """Map a few names to values."""
    names, indices = unique(column)
    unknown = [text for text in names if text is not None and text not in values]
    if unknown:
        raise RecordingError(f"column {name!r} has {unknown[0]!r}, which is none of {', '.join(values)}")
    return pa.array([None if text is None else values[text] for text in names], pa.string()).take(indices)


def times(batch: pa.RecordBatch) -> pa.Array:
    """Return when each row was recorded: microseconds since 1970, null if unknown.

    The time is ``recv_ts``, or else ``timestamp``.
    """
    found = pa.nulls(batch.num_rows, pa.int64())
    for name in ("recv_ts", "timestamp"):
        if found.null_count and name in batch.schema.names:
            found = pc.coalesce(found, batch.column(name).cast(pa.int64()))
    return found


def rising(batch: pa.RecordBatch, last: int | None) -> pa.Array:
    """Return the times without nulls and never falling: when rows played in their order are due.

    A row without a time goes with the one before it, and the first ones go with the first row that has
    one.
    """
    found = times(batch)
    if found.null_count:
        found = pc.fill_null(pc.fill_null_forward(found), last or pc.min(found).as_py() or 0)
    if last is not None:
        found = pc.max_element_wise(found, last)
    return pc.cumulative_max(found)
