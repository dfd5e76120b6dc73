"""Rows and offsets stay as they are; readers and a spooler may go on meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _progress, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool compact s3://robots/spool
  zwire spool compact /var/spool/robots --size 256M
      the tier of that folder
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    parser.add_argument(
        "--size", type=_spool.size, default=64 << 20, metavar="BYTES", help="of segments (default: 64M)"
    )
    parser.add_argument(
        "--grace",
        type=_spool.duration,
        default=60.0,
        metavar="TIME",
        help="keep replaced segments so long for readers that know them (default: 1m)",
    )
    parser.add_argument(
        "--orphans",
        type=_spool.duration,
        default=86400.0,
        metavar="TIME",
        help="delete objects that belong to no segment, when they are so old (default: 1d)",
    )


def run(args: argparse.Namespace) -> int:
    """Merge the small segments of a tier."""
    at = (0, 0)

    def step(segments: int, into: int) -> None:
        nonlocal at
        at = segments, into

    def line(seconds: float) -> str:
        return f"{at[0]} segments replaced by {at[1]}, {seconds:.0f} s"

    with _progress.drawn(line):
        done = spool.compact(
            args.folder,
            segment_bytes=args.size,
            orphan_seconds=args.orphans,
            grace_seconds=args.grace,
            progress=step,
        )
    _options.say(
        f"{args.folder}: {done.segments} segments replaced by {done.into} with {done.bytes} bytes, "
        f"{done.orphans} orphans with {done.orphan_bytes} bytes deleted"
    )
    return 0
