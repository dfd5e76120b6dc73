"""Prints the liveliness tokens of a key expression, holds tokens, or watches them come and go.

Without --watch it prints those that are alive now, and its exit code is 3 if there is none. With --declare it
holds a token on the key until it is interrupted: other nodes see it go when this command ends in any way.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from zwire.cli import _format, _options
from zwire.errors import TimedOut
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Sample, Session

EPILOG = """\
examples:
  zwire liveliness 'fleet/*'
      the tokens that are alive
  zwire liveliness 'fleet/*' --watch
      these, and then each change, until Ctrl-C
  zwire liveliness --declare fleet/7
      a token, until Ctrl-C
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", nargs="?", type=_options.key, default="**", help="default: **, all tokens")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--watch", action="store_true", help="go on with the changes")
    doing.add_argument("--declare", action="store_true", help="hold a token on the key")
    _options.add_limits(parser, "tokens or changes")
    _options.add_format(parser, _format.HELP)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, watch or hold."""
    if args.declare and args.key == "**":
        return _options.refuse("liveliness", "--declare needs KEY, the key of the token", 2)
    endless = (args.watch or args.declare) and args.count is None
    with _options.running(endless=endless), _options.open_session(args) as session:
        if args.declare:
            return _hold(session, args)
        return _watch(session, args) if args.watch else _list(session, args)
    return 0


def _hold(session: Session, args: argparse.Namespace) -> int:
    left = _options.countdown(args.timeout)
    with session.liveliness().declare_token(args.key):
        _options.settle(session)
        _options.say(f"alive: {args.key}")
        while left() != 0:
            rest = left()
            time.sleep(0.2 if rest is None else min(0.2, rest))
    return 0


def _list(session: Session, args: argparse.Namespace) -> int:
    found = 0
    for reply in session.liveliness().get(args.key, timeout=2.0 if args.timeout is None else args.timeout):
        if reply.ok is not None and (args.count is None or found < args.count):
            found += 1
            _show(reply.ok, args)
    return 0 if found else _options.refuse("liveliness", f"no token on {args.key}", 3)


def _watch(session: Session, args: argparse.Namespace) -> int:
    left = _options.countdown(args.timeout)
    came = 0
    with session.liveliness().declare_subscriber(args.key, history=True) as subscriber:
        _options.settle(session)
        _options.say(f"watching {args.key}")
        while args.count is None or came < args.count:
            try:
                sample = subscriber.recv(timeout=left())
            except TimedOut:
                return _options.too_few("liveliness", came, args)
            came += 1
            _show(sample, args)
    return 0


def _show(sample: Sample, args: argparse.Namespace) -> None:
    alive = sample.kind == SampleKind.PUT
    if args.format == "jsonl":
        _options.show(json.dumps({"key": str(sample.key_expr), "alive": alive}))
    else:
        _options.show(f"{sample.key_expr} {'alive' if alive else 'gone'}")
