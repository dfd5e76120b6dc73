"""Row schemas of everything that goes into Spark or comes out.

They are those of :mod:`zwire.columns`, and of summaries. ``schema.REPLY.ddl`` is for SQL and
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
"""What ``put`` gives, a row for each partition.

``rows`` were handed to the network with ``bytes`` of payload; ``dropped`` were not, or fell to congestion
control.
"""

SELECTED = REPLY.extended(selector=("string", "what was asked"))
"""What ``spark.read.format("zwire")`` gives for selectors: the columns of ``REPLY``, and what was asked."""

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
"""What ``shout`` and ``whisper`` give, a row for each partition.

``rows`` were taken by the queue of at least one peer, with ``bytes`` of content; ``skipped`` by none. The
copies of all rows are ``queued`` or not: too many messages waited (``full``), the connection had failed
(``not_responding``), or the content had several frames and the peer takes one (``refused``).
"""

DECODE = RECORD.extended(file=("string", "path of the capture; null for bytes without a name"))
"""What ``decode`` gives, a row for each message: the columns of :mod:`zwire.capture`, then ``file``.

``file`` is the path of the capture as it was given, null for bytes without a name. Bytes that do not decode
are a row with ``message`` ``error``, the reason in ``error`` and the place in ``offset``; so is a file that
cannot be read or is no capture, and that row has no addresses.
"""
