"""Waits while queues are full, and ends when the value is on its way to the hub."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zwire.cli import _options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

EPILOG = """\
examples:
  zwire put demo/hello world
  zwire put robot/1/pose '{"x": 1.5}' --encoding application/json
  zwire put robot/1/camera --file frame.jpg --encoding image/jpeg
  zwire put demo/count again -n 100 --interval 0.1
      the same value a hundred times, ten times per second
  seq 1000 | zwire put demo/count --lines
      each line is a value of its own
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", type=_options.key, help="key to publish on")
    parser.add_argument("value", nargs="?", help="the value; or one of these two:")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--file", type=Path, help="take the value from a file; - is the standard input")
    source.add_argument("--lines", action="store_true", help="publish each line of the standard input")
    parser.add_argument("--encoding", help="what the value is, such as text/plain or application/json;v1")
    parser.add_argument("--attachment", help="goes along with the value")
    _options.add_count(
        parser, "-n", "--count", default=1, help="publish a value or file that often (default: 1)"
    )
    _options.add_seconds(parser, "--interval", default=0, help="pause in between")
    _options.add_qos(parser, congestion="block")
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Publish, then close, which sends what is queued."""
    if (args.value is not None) + (args.file is not None) + args.lines != 1:
        return _options.refuse("put", "one of VALUE, --file and --lines is required", 2)
    if args.lines and args.count != 1:
        return _options.refuse("put", "the standard input can be read once: give --lines or -n", 2)
    qos = _options.qos(args)
    with _options.stop_signals():
        return _publish(args, _values(args), qos)


def _publish(args: argparse.Namespace, values: Iterable[bytes | str], qos: _options.Qos) -> int:
    with _options.open_session(args) as session:
        for number, value in enumerate(values):
            if number and args.interval:
                time.sleep(args.interval)
            session.put(args.key, value, encoding=args.encoding, attachment=args.attachment, **qos)
    return 0


def _values(args: argparse.Namespace) -> Iterable[bytes | str]:
    """Return the values; a file is read at once, so that an error comes before a connection."""
    if args.lines:
        return (line.rstrip(b"\n") for line in sys.stdin.buffer)
    if args.file is None:
        value = args.value
    else:
        value = sys.stdin.buffer.read() if str(args.file) == "-" else args.file.read_bytes()
    return itertools.repeat(value, args.count)
