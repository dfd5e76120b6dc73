"""The exit code is 1 if something cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool verify /var/spool/robots
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)


def run(args: argparse.Namespace) -> int:
    """Read everything."""
    with _spool.shown() as step:
        problems = spool.verify(args.folder, step)
    _options.show(*(problem.message for problem in problems))
    if not problems:
        _options.say(f"{args.folder}: all of it can be read")
    return 1 if problems else 0
