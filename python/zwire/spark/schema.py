"""Row schemas for Spark, of input and of results.

The schemas are those of :mod:`zwire.columns`, and of summaries. ``schema.REPLY.ddl`` is for SQL and
``createDataFrame``, ``.spark()`` for ``mapInArrow``, ``.arrow()`` for pyarrow.
"""

from __future__ import annotations

from zwire.columns import GAP, PUT, RECORD, REPLY, SAMPLE, ZRE, ZRE_LOG, RowSchema

__all__ = [
    "DECODE",
    "GAP",
    "PUT",
    "REPLY",
    "SAMPLE",
    "SELECTED",
    "SUMMARY",
    "TOLD",
    "ZRE",
    "ZRE_LOG",
    "RowSchema",
]

SUMMARY = RowSchema((("rows", "bigint"), ("bytes", "bigint"), ("dropped", "bigint"), ("seconds", "double")))
"""Result rows of ``put``, one for each partition.

``rows`` were sent, with ``bytes`` of payload; ``dropped`` were not sent, or were dropped by congestion
control.
"""

SELECTED = REPLY.extended(selector=("string", "what was asked"))
"""Rows of ``spark.read.format("zwire")`` with selectors: the columns of ``REPLY``, and the selector."""

TOLD = RowSchema(
    (
        ("rows", "bigint"),
        ("bytes", "bigint"),
        ("queued", "bigint"),
        ("full", "bigint"),
        ("not_responding", "bigint"),
        ("refused", "bigint"),
        ("skipped", "bigint"),
        ("seconds", "double"),
    )
)
"""Result rows of ``shout`` and ``whisper``, one for each partition.

``rows`` were queued for at least one peer, with ``bytes`` of content; ``skipped`` for none. Of the copies of
all rows, ``queued`` were queued. The others failed: too many messages waited for the peer (``full``), the
connection had failed (``not_responding``), or the content had several frames and the peer accepts one only
(``refused``).
"""

DECODE = RECORD.extended(file=("string", "path of the capture; null for bytes without a name"))
"""Result rows of ``decode``, one for each message: the columns of :mod:`zwire.capture`, then ``file``.

``file`` is the path of the capture as given, null for bytes without a name. Bytes that cannot be decoded are
a row with ``message`` ``error``, the reason in ``error`` and the place in ``offset``. A file that cannot be
read, or is no capture, is such a row too, without addresses.
"""
