"""Subscribers get a sample of kind DELETE; a storage of eclipse-zenoh forgets the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire delete demo/hello
  zwire delete 'robot/1/**'
      a whole subtree at once
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", type=_options.key, help="key expression that is deleted")
    parser.add_argument("--attachment", help="goes along with the deletion")
    _options.add_qos(parser, congestion="block")
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Publish the deletion, then close, which sends it."""
    with _options.stop_signals(), _options.open_session(args) as session:
        session.delete(args.key, attachment=args.attachment, **_options.qos(args))
    return 0
