"""Prints the keys of publications as a tree, each with the type and the last value.

Subscribes to KEY for --wait seconds. With --ask it also queries KEY, which adds what storages, caches and
other queryables have; each program behind such a queryable gets that query. The exit code is 3 if there was
no key.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire.cli import _format, _options, _watch
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Session

EPILOG = """\
examples:
  zwire tree
      the keys of the next three seconds
  zwire tree 'robot/**' --wait 10 --depth 2
  zwire tree 'config/**' --ask --format jsonl | jq 'select(.payload_as == "json") | .payload'
"""

_QUEUE = 65_536
"""Samples that wait to be counted."""

_MOST = 100_000
"""Keys that are kept: a larger tree is of no use, and keys of other nodes must not fill the memory."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", nargs="?", type=_options.key, default="**", help="default: **, all keys")
    _options.add_seconds(parser, "--wait", default=3.0, help="time to listen (default: 3)")
    parser.add_argument("--ask", action="store_true", help="also query the key, for values of storages")
    _options.add_count(parser, "--depth", help="print no more levels; deeper keys are counted")
    _options.add_format(parser, _format.HELP)
    _format.add_payload(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Listen, then print."""
    with _options.stop_signals(), _options.open_session(args) as session:
        watched = _listen(session, args)
    leaves = watched.keys
    if args.format == "jsonl":
        _options.show(*(json.dumps(_fields(leaf, args.payload)) for _, leaf in sorted(leaves.items())))
    else:
        _options.show(*_lines(leaves, args.depth))
    if watched.refused:
        _options.say(
            f"zwire tree: {watched.refused} samples of further keys were left out: {_MOST} keys are kept"
        )
    return 0 if leaves else _options.refuse("tree", f"no value on {args.key} in {args.wait:g} s", 3)


def _listen(session: Session, args: argparse.Namespace) -> _watch.Keys:
    keys = _watch.Keys(_MOST)
    end = time.monotonic() + args.wait
    # A look at the network must not slow it down.
    channel = zenoh.handlers.Channel[zenoh.Sample](_QUEUE, full="drop_oldest")
    with session.declare_subscriber(args.key, channel) as subscriber:
        _options.settle(session)
        if args.ask:
            for reply in session.get(args.key, timeout=args.wait):
                if reply.ok is not None:
                    keys.add(reply.ok)
        while (left := end - time.monotonic()) > 0:
            for sample in subscriber.recv_many(1024, timeout=left):
                keys.add(sample)
    return keys


def _fields(leaf: _watch.Key, form: str) -> dict[str, Any]:
    deleted = leaf.last.kind == SampleKind.DELETE
    payload = None if deleted else bytes(leaf.last.payload)
    return {
        "key": leaf.key,
        "type": "deleted" if deleted else _watch.type_of(leaf.last),
        **_format.payload_fields(payload, str(leaf.last.encoding), form),
        "encoding": None if deleted else str(leaf.last.encoding),
        "samples": leaf.samples,
    }


def _lines(leaves: dict[str, _watch.Key], depth: int | None) -> list[str]:
    """Draw the keys; a chunk that has a value and keys below it is one line with its value."""
    root: dict[str, Any] = {}
    deeper: Counter[str] = Counter()
    for key in sorted(leaves):
        chunks = key.split("/")
        if depth is not None and len(chunks) > depth:
            deeper["/".join(chunks[:depth])] += 1
        node = root
        for chunk in chunks[:depth]:
            node = node.setdefault(chunk, {})
    lines: list[str] = []
    # Not recursive: a key may have more chunks than Python has frames.
    waiting = _branches(root, "", "")
    while waiting:
        key, line, indent, below = waiting.pop()
        if leaf := leaves.get(key):
            line += f"  {_shown(leaf)}"
        if deeper[key]:
            line += f"  ({deeper[key]} below)"
        lines.append(line)
        waiting += _branches(below, key, indent)
    return lines


def _branches(node: dict[str, Any], path: str, indent: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return what is below a key, last one first: key, line, indent of what is below that, its branches."""
    found = []
    for number, (chunk, below) in enumerate(node.items()):
        if not path:
            found.append((chunk, chunk, "", below))
            continue
        corner, more = ("└ ", "  ") if number == len(node) - 1 else ("├ ", "│ ")
        found.append((f"{path}/{chunk}", f"{indent}{corner}{chunk}", indent + more, below))
    return found[::-1]


def _shown(leaf: _watch.Key) -> str:
    times = f" x{leaf.samples}" if leaf.samples > 1 else ""
    if leaf.last.kind == SampleKind.DELETE:
        return f"deleted{times}"
    return f"{_watch.type_of(leaf.last)}{times} {_format.shown(leaf.last.payload)}"
