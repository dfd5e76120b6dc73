"""Lists nodes, and the endpoints of one. Exit code 3: the node is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zwire.cli import _options, _ros2
from zwire.ros2 import EntityKind

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire ros2 node list
  zwire ros2 node info /talker
"""

_VERBS = {"list": "names", "info": "topics and services of the node NAME"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS, "name")
    parser.add_argument("--all", "-a", action="store_true", help="list: nodes with an underscore, too")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb == "info":
        _ros2.need(args, "name")
    with _options.stop_signals(), _ros2.node(args) as node:
        if args.verb == "list":
            for name in node.graph.nodes():
                if name != node.get_fully_qualified_name() and (args.all or not _ros2.is_hidden(name)):
                    _options.show(json.dumps({"name": name}) if args.format == "jsonl" else name)
            return 0
        name = f"/{args.name.strip('/')}"
        if name not in node.graph.nodes():
            return _options.refuse("ros2 node", f"node {name} is not there", 3)
        found = node.graph.of_node(name)
    if args.format == "text":
        _options.show(name)
    for kind in EntityKind:
        rows = sorted({(entity.name, entity.type) for entity in found if entity.kind is kind})
        if args.format == "text" and rows:
            _options.show(f"  {_TITLES[kind]}:")
        for topic, type_ in rows:
            row = {"kind": kind.name.lower(), "name": topic, "type": type_}
            _options.show(json.dumps(row) if args.format == "jsonl" else f"    {topic}: {type_}")
    return 0


_TITLES = {
    EntityKind.PUBLISHER: "Publishers",
    EntityKind.SUBSCRIPTION: "Subscribers",
    EntityKind.SERVICE: "Service Servers",
    EntityKind.CLIENT: "Service Clients",
}
