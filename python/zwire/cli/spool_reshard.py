"""Spoolers and readers go on; rows, offsets, and the order of the rows of each key stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool reshard s3://robots/spool --shards 8
  zwire spool reshard /var/spool/robots --shards 2 --timeout 5m
      the tier of that folder
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    parser.add_argument("--shards", type=int, required=True, metavar="N", help="the new number of shards")
    parser.add_argument(
        "--timeout",
        type=_spool.duration,
        default=60.0,
        metavar="TIME",
        help="wait so long for the spoolers to make the change (default: 1m)",
    )


def run(args: argparse.Namespace) -> int:
    """Change the number of shards."""
    spool.reshard(args.folder, args.shards, timeout=args.timeout)
    changes = len(spool.open(args.folder).changes())
    _options.say(f"{args.folder}: keys are spread over {args.shards} shards, after {changes} changes")
    return 0
