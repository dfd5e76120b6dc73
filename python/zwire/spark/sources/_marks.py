"""Identities of rows, equal in each attempt, so that receivers can detect repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._lazy import pa, pc
from zwire.idempotence import SIZE, Identity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


class Marks:
    """The identities of the rows of one task, as attachments.

    Args:
        query: Id of the job.
        batch: Number of the batch.
        partition: Number of the task's partition.
        columns: Columns that identify a row: a number for each row, or partition and number. None: the
            position in the partition.
    """

    def __init__(self, query: UUID, batch: int, partition: int, columns: Sequence[str] = ()) -> None:
        self.identity = Identity(query, batch, partition, 0)
        self.columns = columns
        self.rows = 0

    def on(self, batch: pa.RecordBatch, sent: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns ``sent`` of a batch, each attachment prefixed by the identity of its row.

        Raises:
            ValueError: An identifying column holds null or a negative number.
        """
        import numpy as np

        count = batch.num_rows
        heads = np.zeros(count, np.dtype([("same", "V28"), ("partition", ">u4"), ("row", ">u8")]))
        packed = self.identity.attachment()
        heads["same"] = np.frombuffer(packed[:28], "V28")
        heads["partition"] = self.identity.partition
        if not self.columns:
            heads["row"] = np.arange(self.rows, self.rows + count)
        else:
            *parts, row = self.columns
            heads["row"] = _numbers(batch, row, 1 << 63)
            # Rows are identified by these columns alone, regardless of their partition.
            heads["partition"] = _numbers(batch, parts[0], 1 << 32) if parts else 0
        self.rows += count
        ends = np.arange(0, count * SIZE + 1, SIZE, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(heads)]
        marked = pa.Array.from_buffers(pa.binary(), count, buffers)
        columns = dict(zip(sent.schema.names, sent.columns, strict=True))
        own = columns.get("attachment")
        if own is not None and own.null_count < count:
            own = pc.fill_null(own.cast(pa.binary()), b"")
            marked = pc.binary_join_element_wise(marked, own, b"")
        columns["attachment"] = marked
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _numbers(batch: pa.RecordBatch, name: str, limit: int) -> object:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} of idColumns holds null")
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < limit:
        raise ValueError(
            f"column {name!r} of idColumns holds {bounds['min']} to {bounds['max']}, not 0 to {limit - 1}"
        )
    return column.to_numpy(zero_copy_only=False)
