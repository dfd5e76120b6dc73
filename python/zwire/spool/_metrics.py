"""The numbers of spools and spoolers for :mod:`zwire.metrics`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from zwire._lazy import pa
from zwire.errors import SpoolDenied, SpoolError, SpoolUnreachable
from zwire.spool._check import stat
from zwire.spool._view import MICROS, Spool
from zwire.stats import SPOOLER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zwire.spool._spooler import Keeper

_OF_STATS = {"payload_bytes": "bytes"}
"""Names in ``stats()`` that differ."""


class _Gaps:
    """Counts the log of gaps of a spool; reads each row once, however often it is asked."""

    def __init__(self) -> None:
        self.at = 0
        self.rows: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()

    def read(self, view: Spool) -> None:
        end = view.gaps_end()
        rows: Counter[str] = Counter()
        missing: Counter[str] = Counter()
        for batch in view.gaps(self.at, end):
            found = pa.record_batch(batch)
            for kind, count in zip(
                found.column("kind").to_pylist(), found.column("count").to_pylist(), strict=True
            ):
                rows[kind] += 1
                missing[kind] += count or 0
        # Only now: a store that fails meanwhile is asked for all of it again.
        self.rows, self.missing, self.at = self.rows + rows, self.missing + missing, end


_gaps: weakref.WeakKeyDictionary[Keeper | Spool, _Gaps] = weakref.WeakKeyDictionary()


def collect(source: Keeper | Spool, add: Callable[..., None], *, detail: bool) -> None:
    """Call ``add(name, value, label=text)`` for each number; per shard only with ``detail``."""
    stats = getattr(source, "stats", None)
    if stats is not None:
        _collect_spooler(stats(), add)
    view = source if isinstance(source, Spool) else Spool(source.path)
    found = stat(view.path)
    add("spool.rows", found["rows"])
    add("spool.bytes", found["bytes"])
    for shard, mark in found["shards"].items() if detail else ():
        label = str(shard)
        add("spool.appended", mark["end"], shard=label)
        add("spool.dropped", mark["dropped"], shard=label)
        if mark["last_recv_ts"]:
            add("spool.last_received_timestamp_seconds", mark["last_recv_ts"] / MICROS, shard=label)
        if mark["segments"] is not None:
            add("spool.segments", mark["segments"], shard=label)
    _collect_consumers(view, found, add)
    _collect_disk(view.path, add)
    if (tier := found["tier"]) is not None:
        add("spool.tier.reachable", int(tier["problem"] is None))
        if tier["problem"] is None:
            add("spool.tier.bytes", tier["bytes"])
            add("spool.tier.behind_rows", tier["behind"])
    # The rows of the log are Arrow.
    if importlib.util.find_spec("pyarrow") is not None:
        gaps = _gaps.setdefault(source, _Gaps())
        # Numbers are wanted all the more while the tier fails: those of the log are the last ones then.
        with contextlib.suppress(SpoolUnreachable, SpoolDenied):
            gaps.read(view)
        for reason in ("gap", "drop", "reconnect", "epoch", "duplicate"):
            add("spool.gaps", gaps.rows[reason], reason=reason)
            add("spool.missing", gaps.missing[reason], reason=reason)


def _collect_consumers(view: Spool, found: Mapping[str, Any], add: Callable[..., None]) -> None:
    for name, offsets in found["consumers"].items():
        rows, micros = 0, 0
        for shard, mark in found["shards"].items():
            at = max(offsets.get(shard, 0), mark["earliest"])
            rows += max(mark["end"] - offsets.get(shard, 0), 0)
            # Without the row its age is unknown; a reader of it gets the error.
            with contextlib.suppress(SpoolError):
                received = view.received(shard, at) if at < mark["end"] else None
                micros = max(micros, 0 if received is None else mark["last_recv_ts"] - received)
        add("spool.consumer.lag_rows", rows, consumer=name)
        add("spool.consumer.lag_seconds", micros / MICROS, consumer=name)
        committed = found["committed"][name] / MICROS
        add("spool.consumer.committed_timestamp_seconds", committed, consumer=name)


def _collect_disk(path: str, add: Callable[..., None]) -> None:
    if not os.path.isdir(path):  # noqa: PTH112 - a text, and of a store an address
        return
    files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            # A segment may be deleted meanwhile.
            with contextlib.suppress(FileNotFoundError):
                files += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118
    disk = os.statvfs(path)
    add("spool.folder_bytes", files)
    add("spool.disk.free_bytes", disk.f_bavail * disk.f_frsize)
    add("spool.disk.size_bytes", disk.f_blocks * disk.f_frsize)


def _collect_spooler(stats: Mapping[str, Any], add: Callable[..., None]) -> None:
    for name in SPOOLER:
        value = stats.get(_OF_STATS.get(name, name))
        if value is not None:
            add(f"spooler.{name}", value)
    if stats["stored_bytes"]:
        add("spooler.compression_ratio", stats["raw_bytes"] / stats["stored_bytes"])
    add("spooler.failing", int(stats["problem"] is not None))
    if (tier := stats["tier"]) is not None:
        add("spooler.tier.behind_segments", tier["behind"])
        add("spooler.tier.behind_bytes", tier["behind_bytes"])
        add("spooler.tier.uploaded_bytes", tier["uploaded"])
        add("spooler.tier.merged_segments", tier["merged"])
        add("spooler.tier.orphans", tier["orphans"])
        add("spooler.tier.failures", tier["failures"])
        add("spooler.tier.failing", int(tier["problem"] is not None))
    if (lease := stats["lease"]) is not None:
        add("spooler.lease.holding", int(lease["state"] == "holding"))
        add("spooler.lease.epoch", lease["epoch"])
        add("spooler.lease.takeovers", lease["takeovers"])
        if lease["shards"] is not None:
            add("spooler.lease.shards", len(lease["shards"]))
        add("spooler.standby.messages", lease["standby_messages"])
        add("spooler.standby.bytes", lease["standby_bytes"])
        add("spooler.standby.dropped", lease["standby_dropped"])
