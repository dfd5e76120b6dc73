"""Lists, reads and sets parameters of a node. Exit code 3: the node does not answer, or has no such one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zwire.cli import _options, _ros2
from zwire.errors import InvalidValue, TimedOut
from zwire.ros2 import Parameter, ParameterClient

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire ros2 param list /talker
  zwire ros2 param get /talker use_sim_time
  zwire ros2 param set /talker speed 1.5
"""

_VERBS = {"list": "names", "get": "print the value of PARAMETER", "set": "give it VALUE, as YAML"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS, "node", "parameter", "value")
    _options.add_seconds(parser, "--timeout", default=5.0, help="for the answer (default: 5)")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    _ros2.need(args, *{"list": ["node"], "get": ["node", "parameter"]}.get(args.verb, _ALL))
    with _options.stop_signals(), _ros2.node(args) as node:
        remote = ParameterClient(node, f"/{args.node.strip('/')}", args.timeout)
        try:
            return _run(args, remote)
        except TimedOut as error:
            return _options.refuse("ros2 param", str(error), 3)
        except InvalidValue as error:
            return _options.refuse("ros2 param", str(error), 2)


_ALL = ["node", "parameter", "value"]


def _run(args: argparse.Namespace, remote: ParameterClient) -> int:
    if args.verb == "list":
        for name in remote.list_parameters():
            _options.show(json.dumps({"name": name}) if args.format == "jsonl" else name)
        return 0
    if args.verb == "get":
        (found,) = remote.get_parameters(args.parameter) or [Parameter(args.parameter)]
        if found.value is None:
            return _options.refuse("ros2 param", f"{args.node} has no value of {args.parameter}", 3)
        value = list(found.value) if isinstance(found.value, bytes) else found.value
        row = {"name": found.name, "type": found.type_.name.lower(), "value": value}
        _options.show(json.dumps(row) if args.format == "jsonl" else f"{row['type']}: {json.dumps(value)}")
        return 0
    value = _ros2.values(f"value: {args.value}")["value"]
    results = remote.set_parameters(Parameter(args.parameter, value))
    if not results or not results[0].successful:
        reason = results[0].reason if results else "the node gave no result"
        return _options.refuse("ros2 param", reason, 1)
    return 0
