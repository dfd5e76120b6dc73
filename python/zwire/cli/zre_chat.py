"""Shouts each line of the standard input, prints what peers say and do. Ends with the input or Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zwire.cli import _format, _options, _zre

if TYPE_CHECKING:
    import argparse

    from zwire import zre

EPILOG = """\
examples:
  zwire zre chat --name alice
      in the group CHAT, as the examples of zyre and pyre
  zwire zre chat ROBOTS --name console --interface wlan0
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("group", nargs="?", default="CHAT", help="default: CHAT")
    _options.add_format(parser)
    _format.add_payload(parser)


def run(args: argparse.Namespace) -> int:
    """Talk until the input ends or it is interrupted."""

    def show(event: zre.Event) -> None:
        if event.type != "STOP":
            _options.show(_zre.event_line(event, args.format, args.payload))

    with _options.running(endless=True), _zre.node(args, callback=show) as node:
        node.join(args.group)
        _options.say(f"{node.name} joined {args.group} at {node.endpoint}")
        for line in sys.stdin:
            node.shout(args.group, line.rstrip("\n"))
    return 0
