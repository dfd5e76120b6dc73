"""Waits until the group has `--peers` known members, sends, and prints how many queues took the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _options, _zre
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre shout CHAT 'hello, all'
      as soon as there is one member, or exit code 3 after ten seconds
  zwire zre shout ROBOTS STOP --peers 12 --wait 5
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("group")
    parser.add_argument("message", nargs="+", help="several arguments make a message of several frames")
    _options.add_count(parser, "--peers", default=1, help="wait for N members (default: 1)")
    _options.add_seconds(parser, "--wait", default=10.0, help="default: 10")


def run(args: argparse.Namespace) -> int:
    """Send one message to a group."""
    with _options.stop_signals(), _zre.node(args) as node:
        try:
            node.wait_for_peers(args.peers, timeout=args.wait, group=args.group)
        except TimedOut:
            there = len(node.peers_by_group(args.group))
            return _options.refuse(
                "zre shout",
                f"{there} of {args.peers} members of {args.group} were seen within {args.wait:g} s",
                3,
            )
        sent = node.shout(args.group, args.message)
        _options.say(f"{sent.queued} queued, {sent.not_responding} not responding, {sent.refused} refused")
        return 0 if sent.queued == len(sent.peers) else 1
