"""Lists services, and calls one. Exit code 3: the service is not there, or does not answer in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _options, _ros2
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse

    from zwire import ros2

EPILOG = """\
examples:
  zwire ros2 service list --show-types
  zwire ros2 service call /add example_interfaces/srv/AddTwoInts '{a: 1, b: 2}'
"""

_VERBS = {"list": "names", "call": "call NAME of TYPE with VALUES, YAML such as '{a: 1}'"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS, "name", "type", "values")
    parser.add_argument("--show-types", "-t", action="store_true", help="list: types, too")
    parser.add_argument("--all", "-a", action="store_true", help="list: names with an underscore, too")
    _options.add_seconds(parser, "--timeout", default=5.0, help="for the response (default: 5)")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb == "call":
        _ros2.need(args, "name")
    with _options.stop_signals(), _ros2.node(args) as node:
        if args.verb == "list":
            known = node.graph.services()
            _ros2.listing({n: t for n, t in known.items() if args.all or not _ros2.is_hidden(n)}, args)
            return 0
        try:
            return _call(args, node)
        except (TimedOut, _ros2.NotThereError) as error:
            return _options.refuse("ros2 service", str(error), 3)


def _call(args: argparse.Namespace, node: ros2.Node) -> int:
    name = node.resolve_topic_name(args.name)
    client = node.create_client(args.type or _ros2.service_type(node, name), name)
    request = _ros2.filled(client.type.request, args.values)
    client.wait_for_service(args.timeout)
    _ros2.show(client.call(request, args.timeout), args.format, whole=True)
    return 0
