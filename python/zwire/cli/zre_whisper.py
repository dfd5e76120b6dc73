"""Waits until the peer is found, sends, and prints the outcome of the message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire import zre
from zwire.cli import _options, _zre

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre whisper alice 'hello'
  zwire zre whisper 0F1E2D3C4B5A69788796A5B4C3D2E1F0 'hello' --wait 30
      by UUID, or the start of it
"""

_LOOK = 0.05
"""Seconds between two checks for the peer."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("peer", help="its name, its UUID, or the first digits of that")
    parser.add_argument("message", nargs="+", help="several make a message of several frames")
    _options.add_seconds(parser, "--wait", default=10.0, help="default: 10")


def run(args: argparse.Namespace) -> int:
    """Send one message to a peer."""
    end = time.monotonic() + args.wait
    with _options.stop_signals(), _zre.node(args) as node:
        while not (found := _found(node, args.peer)):
            if time.monotonic() >= end:
                return _options.refuse(
                    "zre whisper",
                    f"no peer named {args.peer!r}, or with that UUID, was seen within {args.wait:g} s",
                    3,
                )
            time.sleep(_LOOK)
        if len(found) > 1:
            return _options.refuse("zre whisper", f"{args.peer} may be {', '.join(found)}", 1)
        became = node.whisper(found[0], args.message)
        _options.say(f"{node.peer_name(found[0])}: {became.value}")
        return 0 if became == zre.Delivery.QUEUED else 1


def _found(node: zre.Node, wanted: str) -> list[str]:
    """Return the peers with that name or UUID; a matching name wins over the start of a UUID."""
    peers = node.peers()
    named = [peer for peer in peers if node.peer_name(peer) == wanted]
    return named or [peer for peer in peers if peer.startswith(wanted.upper())]
