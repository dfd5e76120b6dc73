"""Publishes recordings from Parquet, Arrow IPC, MCAP or captures, with their original pauses.

Several sources, and the folders of a spool, are merged by time. Keys, payloads, kinds, encodings and
attachments are as recorded. At the end it prints the number of rows, and the largest delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _playing

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire replay run.mcap
      to a hub on this machine, as fast as it was recorded
  zwire replay run.parquet -e tcp/192.168.1.5:7447 --rate 2x --loop 10
      twice as fast, ten times
  zwire replay run.mcap --keys 'robot/*/pose' --remap robot=sim --from 60 --to 90
      half a minute of some keys, under sim/
  zwire replay spool/ --rate max --timestamps original
      everything that a spool holds, at once, with its time stamps
  zwire replay hub.pcap --link '10.0.0.7:*' --wait-for-subscribers 30
      the messages of one node, once the first subscriber exists
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _playing.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Publish until the end, or until it is interrupted."""
    return _playing.run(args)
