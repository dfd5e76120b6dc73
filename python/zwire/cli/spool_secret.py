"""``zwire.spool.connect(secret=...)`` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool secret /var/spool/robots
      for every consumer
  zwire spool secret /var/spool/robots nightly
      for the consumer nightly, which commits its position over the network
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    parser.add_argument("consumer", metavar="CONSUMER", nargs="?", help="name of a consumer (default: all)")


def run(args: argparse.Namespace) -> int:
    """Print the secret."""
    _options.show(spool.secret(*filter(None, (args.folder, args.consumer))))
    return 0
