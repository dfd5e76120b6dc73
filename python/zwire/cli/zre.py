"""A node of ZRE, for as long as the command runs: it finds zyre, pyre and zwire on the same network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _zre

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre peers
  zwire zre chat --name alice
  zwire zre shout CHAT 'hello, all'
  zwire zre doctor --interface eth0
"""

SUBCOMMANDS = {
    "peers": "print the peers found",
    "chat": "shout the lines typed, print the messages of others",
    "shout": "send a message to a group",
    "whisper": "send a message to one peer",
    "log": "collect and print ZRE/LOG",
    "doctor": "print the interfaces used, the beacons heard, and the peers ignored with reasons",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that the subcommands share."""
    _zre.add_node(parser)
