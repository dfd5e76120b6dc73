"""A node of ZRE, for as long as the command runs: it finds zyre, pyre and zwire on the same network.

    zwire zre peers                list the peers
    zwire zre chat --name alice    talk to a group
    zwire zre doctor               find out why a peer is missing

`zwire zre SUBCOMMAND --help` explains each.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from zwire.cli import _zre
from zwire.cli._log import add_log

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre peers
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
    """Add the subcommands."""
    commands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND ...", required=True)
    for name, summary in SUBCOMMANDS.items():
        module = importlib.import_module(f"zwire.cli.zre_{name}")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{module.__doc__ or ''}".rstrip(),
            epilog=module.EPILOG,
            formatter_class=parser.formatter_class,
        )
        module.configure(command)
        _zre.add_node(command)
        add_log(command)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(importlib.import_module(f"zwire.cli.zre_{args.subcommand}").run(args))
