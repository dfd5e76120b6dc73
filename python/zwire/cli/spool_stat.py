"""Offsets count the rows of a shard; consumers have committed how far they have read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool stat /var/spool/robots
  zwire spool stat s3://robots/spool
  zwire spool stat /var/spool/robots --format jsonl | jq .consumers
  zwire spool stat /var/spool/robots --metrics > /var/lib/node_exporter/robots.prom
      for the textfile collector of Prometheus; a running spooler has more: zwire spool keep --metrics
  zwire spool stat s3://robots/spool --keys 'robot/7/**' --since 2026-11-22T08:00:00+00:00
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    _spool.add_wanted(parser)
    _options.add_format(parser)
    parser.add_argument("--metrics", action="store_true", help="as text for Prometheus")


def run(args: argparse.Namespace) -> int:
    """Print the contents."""
    if args.metrics:
        from zwire import metrics

        _options.show(*metrics.prometheus(spool.open(args.folder)).splitlines())
        return 0
    found = spool.stat(args.folder)
    chosen = {"keys": args.keys, "since": args.since, "until": args.until}
    plan = spool.open(args.folder).plan(**chosen) if any(chosen.values()) else None
    if plan is not None:
        found["plan"] = plan._asdict()
    if args.format == "jsonl":
        _options.show(json.dumps(found))
        return 0
    _options.show(
        f"spool     {found['spool']} ({found['table']})",
        f"rows      {found['rows']} in {found['bytes']} bytes",
    )
    if (tier := found["tier"]) is not None:
        state = tier["problem"] or f"{tier['bytes']} bytes, {tier['behind']} rows behind"
        _options.show(f"tier      {tier['place']}, {state}")
    if (lease := found["lease"]) is not None:
        for shard, held in lease.get("shards", {"": lease}).items():
            _options.show(f"lease {shard:<3} {held['holder']}, epoch {held['epoch']}")
    if (spread := found["spread"]) is not None:
        _options.show(f"spread    keys over {spread['shards']} shards, after {spread['changes']} changes")
    for shard, mark in found["shards"].items():
        last = _local(mark["last_recv_ts"])
        segments = "?" if mark["segments"] is None else mark["segments"]
        _options.show(
            f"shard {shard:<3} {mark['earliest']} to {mark['end']} (exclusive), {segments} segments, "
            f"{mark['dropped']} dropped, last received {last if mark['last_recv_ts'] else 'never'}"
        )
    _options.show(f"gaps      {found['gaps']}")
    if plan is not None:
        total = plan.segments + plan.skipped
        _options.show(f"plan      reads {plan.segments} of {total} segments, {plan.bytes} bytes")
    for name, offsets in found["consumers"].items():
        behind = sum(mark["end"] - offsets.get(shard, 0) for shard, mark in found["shards"].items())
        last = _local(found["committed"][name])
        _options.show(f"consumer  {name}, {behind} rows behind, last commit {last}")
    return 0


def _local(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6).astimezone().isoformat()
