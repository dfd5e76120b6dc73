"""Shows keys, publishers, links and drops of a running system, full-screen and live.

Subscribes to KEY, so that each publication that matches also travels to this command. Links and drops are
those of this session and of each node with an admin space: it is on for `zwire router` and `zenohd`. Latency
is the time from the time stamp of a sample to its arrival, with the difference of the two clocks.

What is typed filters: words that a row has, key expressions with *; and sorts: >rate, <key. F1 to F4 change
between the tables, Escape clears the text, Ctrl-Q ends. The screen needs `zwire[top]`; --once does not.
"""

from __future__ import annotations

import importlib.util
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from zwire.cli import _board, _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire top
  zwire top 'robot/**' -e tcp/192.168.1.5:7447 --filter 'pose'
  zwire top --once --json | jq '.keys[] | select(.rate > 100) | .key'
      one look of two seconds, for scripts
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", nargs="?", type=_options.key, default="**", help="default: **, all keys")
    parser.add_argument("--once", action="store_true", help="print one look, and end")
    _options.add_seconds(parser, "--interval", help="between two looks (default: 1; with --once 2)")
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="text to begin with, such as '>bytes fleet'"
    )
    parser.add_argument(
        "--view", choices=list(_board.VIEWS), default="keys", help="table to begin with (default: keys)"
    )
    _options.add_json(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Show the screen, or print one look."""
    if args.format == "json" and not args.once:
        return _options.refuse("top", "--json needs --once: a screen is for people", 2)
    if not args.once and importlib.util.find_spec("textual") is None:
        return _options.refuse(
            "top", "the screen needs textual: pip install 'zwire[top]'; --once works without it", 1
        )
    with _options.running(endless=not args.once), _options.open_session(args) as session:
        board = _board.Board(session, args.key)
        _options.settle(session)
        return _once(board, args) if args.once else _screen(board, args)
    return 0


def _screen(board: _board.Board, args: argparse.Namespace) -> int:
    from zwire.cli._screen import Top

    screen = Top(board, interval=args.interval or 1.0, text=args.filter, view=args.view)
    screen.run()
    return screen.return_code or 0


def _once(board: _board.Board, args: argparse.Namespace) -> int:
    interval = 2.0 if args.interval is None else args.interval
    board.snapshot()
    # Samples that come while a node has not answered yet are within the interval as well.
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(board.ask, 2.0)
        board.count(interval)
        end = time.monotonic()
        asked.result()
    look = board.snapshot(end)
    for view in _board.VIEWS:
        look[view] = _board.chosen(look[view], args.filter if view == args.view else "", view)
    if args.format == "json":
        _options.show(json.dumps(look))
    else:
        _options.show(summary(look), *_table(look[args.view], args.view))
    return 0 if look["keys"] or look["links"] else 3


def summary(look: dict[str, Any]) -> str:
    """Return the line above the tables."""
    dropped = sum(row["count"] for row in look["drops"])
    return (
        f"{len(look['keys'])} keys, {look['rate']:,.0f} samples/s, "
        f"{look['bytes_per_second'] / 1e6:,.2f} MB/s, "
        f"{len(look['links'])} links, {dropped:,} drops; {look['key']} at {look['node']}"
    )


def cells(row: dict[str, Any], view: str) -> list[str]:
    """Return a row as texts."""
    return [_cell(row[column.name]) for column in _board.VIEWS[view]]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return str(value[0]) if len(value) == 1 else f"{len(value)} of them" if value else "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}"


def _table(rows: list[dict[str, Any]], view: str) -> list[str]:
    head = [column.name for column in _board.VIEWS[view]]
    lines = [head, *(cells(row, view) for row in rows)]
    widths = [min(48, max(len(line[at]) for line in lines)) for at in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
