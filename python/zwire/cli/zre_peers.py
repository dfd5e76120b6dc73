"""Listens for `--wait` seconds, then prints one line per peer. The exit code is 3 if there is none."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from zwire.cli import _options, _zre
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse

    from zwire import zre

EPILOG = """\
examples:
  zwire zre peers
      the peers found within three seconds
  zwire zre peers -n 3 --wait 10 --format jsonl
      as soon as there are three, with headers; exit code 3 if there are fewer
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_count(parser, "-n", "--count", help="end when N peers are found")
    _options.add_seconds(parser, "--wait", default=3.0, help="default: 3")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the peers found."""
    with _options.stop_signals(), _zre.node(args) as node:
        if args.count is None:
            time.sleep(args.wait)
        else:
            try:
                node.wait_for_peers(args.count, timeout=args.wait)
            except TimedOut:
                _options.say(f"zwire zre peers: {len(node.peers())} of {args.count} came in {args.wait:g} s")
                _print(node, args.format)
                return 3
        _print(node, args.format)
        if not node.peers():
            return _options.refuse(
                "zre peers",
                f"no peer was seen within {args.wait:g} s; `zwire zre doctor` says why one may be missing",
                3,
            )
    return 0


def _print(node: zre.Node, form: str) -> None:
    rows = sorted((_zre.row(node, peer) for peer in node.peers()), key=lambda r: (r["name"], r["peer"]))
    for row in rows:
        if form == "jsonl":
            _options.show(json.dumps(row, ensure_ascii=False))
        else:
            groups = ",".join(row["groups"]) or "-"
            headers = "".join(f" {k}={v}" for k, v in row["headers"].items())
            peer = f"{row['peer']} {row['name']} {row['address']} {row['generation']}"
            _options.show(f"{peer} {groups}{headers}")
