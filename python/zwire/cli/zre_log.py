"""Binds a collector, announces it by the header X-ZRELOG, and prints what nodes send.

Nodes of 20/ZRE, zyre 1.0.0 and zwire send ZRE/LOG; later releases of zyre, and pyre, do not.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from zwire import zre
from zwire.cli import _options, _zre
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre log
      until Ctrl-C
  zwire zre log -g 20 -g zyre1 -g 36 --format jsonl > log.jsonl
      from nodes of every generation
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_limits(parser, "records")
    _options.add_format(parser)
    parser.add_argument("--bind", default="tcp://*:*", metavar="ENDPOINT", help="default: tcp://*:*")


def run(args: argparse.Namespace) -> int:
    """Print records until there were enough or it is interrupted."""
    left = _options.countdown(args.timeout)
    came = 0
    with (
        _options.running(endless=args.count is None),
        zre.LogCollector(bind=args.bind) as log,
        _zre.node(args, collector=log.endpoint) as node,
    ):
        _options.say(f"{node.name} collects at {log.endpoint}")
        while args.count is None or came < args.count:
            try:
                record = log.recv(left())
            except TimedOut:
                return _options.too_few("zre log", came, args)
            _options.show(_line(record, args.format))
            came += 1
    return 0


def _line(record: zre.LogRecord, form: str) -> str:
    if form == "jsonl":
        names = ("time", "level", "event", "node", "peer", "data", "sender")
        return json.dumps({name: getattr(record, name) for name in names}, ensure_ascii=False)
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.time))
    return f"{when} {record.level} {record.event or '-'} {record.node:04X} {record.peer:04X} {record.data}"
