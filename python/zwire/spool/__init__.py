"""A log of messages on disk, from which the same range can be read twice.

Neither Zenoh nor ZRE keeps a message. A spool does: a folder with one ordered log for each shard, in which
every row has an offset, and one more log of gaps, for lost messages::

    import pyarrow as pa
    from zwire import spool

    with spool.Appender("/var/spool/robots") as appender:
        appender.append(key="robot/1/battery", payload=b"87")

    view = spool.open("/var/spool/robots")
    for shard, end in view.end().items():
        for batch in view.read(shard, view.earliest()[shard], end):
            print(pa.record_batch(batch).to_pydict())

Readers take no lock. Rows are verified before they are handed out: checksums, and no missing offset. Sealed
segments are files of Arrow, which pyarrow, Polars and DuckDB read without zwire.

Readers on other machines use a range server: :func:`serve` or ``Spooler(serve=True)`` beside the files,
:func:`connect` at the reader. Clients of Kafka use a :class:`KafkaServer`.
"""

from __future__ import annotations

from zwire._zwire import SpoolRows as Rows
from zwire.spool._append import Appender
from zwire.spool._check import Problem, stat, verify
from zwire.spool._compact import Compaction, compact
from zwire.spool._connect import RemoteSpool, connect
from zwire.spool._kafka import KafkaServer
from zwire.spool._reshard import reshard
from zwire.spool._secret import secret
from zwire.spool._serve import RangeServer, serve
from zwire.spool._spooler import Retention, Spooler
from zwire.spool._view import Plan, Range, Spool, open
from zwire.spool._zre import ZreLogSpooler, ZreSpooler

__all__ = [
    "Appender",
    "Compaction",
    "KafkaServer",
    "Plan",
    "Problem",
    "Range",
    "RangeServer",
    "RemoteSpool",
    "Retention",
    "Rows",
    "Spool",
    "Spooler",
    "ZreLogSpooler",
    "ZreSpooler",
    "compact",
    "connect",
    "open",
    "reshard",
    "secret",
    "serve",
    "stat",
    "verify",
]
